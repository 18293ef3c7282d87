// Few rows: `up . low`, the gates and the mix of the streams. A workgroup has COLUMNS columns of
// all streams and T rows; LANES threads share a weight row.

const COLUMNS: u32 = THREADS / (STREAMS * LANES);
const PITCH: u32 = UNITS + 1u;

var<workgroup> lows: array<vec4<f32>, T * 8u * PITCH>;
var<workgroup> partials: array<f32, THREADS * T>;

fn low_input(t: u32, i: u32) -> Input {
    var out: Input;
    for (var k = 0u; k < 8u; k++) {
        out.values[k] = lows[(t * 8u + k) * PITCH + i];
    }
    return out;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first_row = group.z * T;
    let count = min(T, p.rows - first_row);
    let lane = thread % LANES;
    let stream = thread / LANES / COLUMNS;
    let column = min(group.x * COLUMNS + thread / LANES % COLUMNS, p.width - 1u);
    let first_unit = (stream * p.width + column) * UNITS;
    var next = load(first_unit + min(lane, UNITS - 1u));
    for (var v = thread; v < T * 8u * UNITS; v += THREADS) {
        let t = v / (8u * UNITS);
        let i = v % (8u * UNITS);
        // Beyond the end the last row is multiplied again and not stored.
        let row = first_row + min(t, count - 1u);
        var four = vec4(0.0);
        for (var j = 0u; j < 4u; j++) {
            if 4u * i + j < p.rank {
                four[j] = low_at(row, 4u * i + j);
            }
        }
        lows[(t * 8u + i % 8u) * PITCH + i / 8u] = four;
    }
    workgroupBarrier();
    var sums: array<f32, T>;
    for (var t = 0u; t < T; t++) {
        sums[t] = 0.0;
    }
    for (var i = lane; i < UNITS; i += LANES) {
        let unit = next;
        next = load(first_unit + min(i + LANES, UNITS - 1u));
        for (var t = 0u; t < T; t++) {
            sums[t] = add_product(unit, low_input(t, i), sums[t]);
        }
    }
    for (var t = 0u; t < T; t++) {
        partials[t * THREADS + thread] = sums[t];
    }
    workgroupBarrier();
    for (var o = thread; o < COLUMNS * count; o += THREADS) {
        let row = first_row + o / COLUMNS;
        let at = group.x * COLUMNS + o % COLUMNS;
        if at >= p.width {
            continue;
        }
        var sum = 0.0;
        for (var s = 0u; s < STREAMS; s++) {
            let first = o / COLUMNS * THREADS + (s * COLUMNS + o % COLUMNS) * LANES;
            var gate = partials[first];
            for (var i = 1u; i < min(LANES, UNITS); i++) {
                gate += partials[first + i];
            }
            let place = (row * STREAMS + s) * p.width + at;
            let n = normed(x[place / 4u][place % 4u], scale_of(row, s), norm[s * p.width + at]);
            sum = fma(sigmoid(gate), n, sum);
        }
        u[row * p.width + at] = sum * BY_STREAMS;
    }
    if INJECT > 0u && group.x == 0u {
        for (var o = thread; o < count * STREAMS; o += THREADS) {
            let row = first_row + o / STREAMS;
            weights[row * STREAMS + o % STREAMS] = write_weight(row, o % STREAMS);
        }
    }
}
