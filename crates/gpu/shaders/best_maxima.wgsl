// The largest value of each piece of a row, as a number that rises with falling values; 0 for a
// piece with a value that no token is drawn from. Neighbouring threads read neighbouring values:
// piece i has the values i, i + pieces, and so on. x holds bits.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let piece = group.x * THREADS + thread;
    if piece >= p.pieces {
        return;
    }
    let row = group.y * p.width;
    var largest = 0xffffffffu;
    for (var i = piece; i < p.width; i += p.pieces) {
        let bits = x[row + i];
        if is_nan_bits(bits) || bits == INFINITE {
            largest = 0u;
        }
        largest = min(largest, falling(bits));
    }
    maxima[group.y * p.pieces + piece] = largest;
}
