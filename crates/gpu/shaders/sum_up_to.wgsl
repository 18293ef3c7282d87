var<workgroup> sums: array<u32, THREADS>;

// The sum of the values of all threads up to this one.
fn sum_up_to(thread: u32, value: u32) -> u32 {
    sums[thread] = value;
    workgroupBarrier();
    for (var step = 1u; step < THREADS; step *= 2u) {
        var before = 0u;
        if thread >= step {
            before = sums[thread - step];
        }
        workgroupBarrier();
        sums[thread] += before;
        workgroupBarrier();
    }
    return sums[thread];
}
