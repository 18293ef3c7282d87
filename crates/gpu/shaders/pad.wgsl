// Rows of x with zeros behind them, up to p.width values; x has rows of p.first.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i < p.rows * p.width {
        let column = i % p.width;
        if column < p.first {
            out[i] = x[i / p.width * p.first + column];
        } else {
            out[i] = 0.0;
        }
    }
}
