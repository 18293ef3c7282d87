// Values brought to 8 bits, 32 at a time: codes, and the scale with the sums of both halves. Eight
// neighbouring threads have a unit, four values each. Values are looked at as bits where they may be
// infinite or no numbers.

const NAN_BITS: u32 = 0x7fc00000u;
// Magnitudes below 1e-30 count as zero.
const NEGLIGIBLE: u32 = 0x0da24260u;
const NOT_FINITE: u32 = 0x7f800000u;

var<workgroup> peaks: array<u32, THREADS>;
var<workgroup> quarter_sums: array<i32, THREADS>;

// All threads of the workgroup call it; `i` counts vectors of four.
fn store_codes(i: u32, thread: u32, four: vec4<f32>, used_vector: bool) {
    let bits = bitcast<vec4<u32>>(four) & vec4(0x7fffffffu);
    peaks[thread] = max(max(bits.x, bits.y), max(bits.z, bits.w));
    workgroupBarrier();
    let first = thread & ~7u;
    var largest = 0u;
    for (var k = 0u; k < 8u; k++) {
        largest = max(largest, peaks[first + k]);
    }
    let finite = largest < NOT_FINITE;
    let used = finite && largest >= NEGLIGIBLE;
    // A divisor that is a normal number, whatever the values are.
    let peak = bitcast<f32>(select(0x3f800000u, largest, used));
    let factor = select(0.0, 127.0 / peak, used);
    let q = vec4<i32>(select(vec4(0.0), round(four * factor), vec4(used)));
    quarter_sums[thread] = q.x + q.y + q.z + q.w;
    workgroupBarrier();
    if !used_vector {
        return;
    }
    codes[i] = pack4xI8(q);
    if thread == first {
        var sums = vec2(0);
        for (var k = 0u; k < 4u; k++) {
            sums += vec2(quarter_sums[first + k], quarter_sums[first + 4u + k]);
        }
        let scale = select(0u, bitcast<u32>(peak / 127.0), used);
        let both = (bitcast<u32>(sums.x) & 0xffffu) | (bitcast<u32>(sums.y) << 16u);
        scales[i / 8u] = vec2(select(NAN_BITS, scale, finite), both);
    }
}
