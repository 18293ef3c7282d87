// Sums over the threads of a workgroup, in an order that their number fixes.

var<workgroup> sum_parts: array<vec4<f32>, THREADS>;

fn sum_up(thread: u32, mine: vec4<f32>) -> vec4<f32> {
    sum_parts[thread] = mine;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if thread < step {
            sum_parts[thread] += sum_parts[thread + step];
        }
        workgroupBarrier();
    }
    let sum = sum_parts[0];
    // The next sum writes here again.
    workgroupBarrier();
    return sum;
}
