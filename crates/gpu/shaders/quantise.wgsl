// Activations brought to 8 bits, 32 values at a time: codes, and the scale with the sums of both
// halves. Values are looked at as bits where they may be infinite or no numbers.

const NAN_BITS: u32 = 0x7fc00000u;
// Magnitudes below 1e-30 count as zero.
const NEGLIGIBLE: u32 = 0x0da24260u;
const INFINITE: u32 = 0x7f800000u;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let unit = (group.x + group.y * p.grid) * THREADS + thread;
    if unit >= p.width {
        return;
    }
    var largest = 0u;
    for (var i = 0u; i < 8u; i++) {
        let bits = bitcast<vec4<u32>>(x[8u * unit + i]) & vec4(0x7fffffffu);
        largest = max(largest, max(max(bits.x, bits.y), max(bits.z, bits.w)));
    }
    let finite = largest < INFINITE;
    let used = finite && largest >= NEGLIGIBLE;
    // A divisor that is a normal number, whatever the values are.
    let peak = bitcast<f32>(select(0x3f800000u, largest, used));
    let factor = select(0.0, 127.0 / peak, used);
    let scale = select(0u, bitcast<u32>(peak / 127.0), used);
    var words: array<u32, 8>;
    var sums = vec2(0);
    for (var i = 0u; i < 8u; i++) {
        let four = vec4<i32>(select(vec4(0.0), round(x[8u * unit + i] * factor), vec4(used)));
        words[i] = pack4xI8(four);
        sums[i / 4u] += four.x + four.y + four.z + four.w;
    }
    codes[2u * unit] = vec4(words[0], words[1], words[2], words[3]);
    codes[2u * unit + 1u] = vec4(words[4], words[5], words[6], words[7]);
    let both = (bitcast<u32>(sums.x) & 0xffffu) | (bitcast<u32>(sums.y) << 16u);
    scales[unit] = vec2(select(NAN_BITS, scale, finite), both);
}
