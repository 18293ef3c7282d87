// Few rows: `up . low`, the gates and the mix of the streams. A workgroup has COLUMNS columns of
// all streams and T rows; LANES threads share a weight row. All that a thread reads of weights and
// streams it asks for before it needs any of it. With CODES the mix is left in 8 bits, too. A workgroup
// behind the last column makes the write weights.

const COLUMNS: u32 = THREADS / (STREAMS * LANES);
const UNITS: u32 = (RANK + 31u) / 32u;
const PITCH: u32 = UNITS + 1u;
// Units of a lane.
const STEPS: u32 = (UNITS + LANES - 1u) / LANES;
// Vectors of low values that a thread makes.
const VECTORS: u32 = (T * 8u * UNITS + THREADS - 1u) / THREADS;

var<workgroup> lows: array<vec4<f32>, T * 8u * PITCH>;
var<workgroup> partials: array<f32, THREADS * T>;
var<workgroup> mixed: array<f32, THREADS>;

fn part_at(i: u32) -> f32 {
    return part[i / 4u][i % 4u];
}

fn low_input(t: u32, i: u32) -> Input {
    var out: Input;
    for (var k = 0u; k < 8u; k++) {
        out.values[k] = lows[(t * 8u + k) * PITCH + i];
    }
    return out;
}

// What a thread mixes, if it does.
struct Mixed {
    row: u32,
    column: u32,
    here: bool,
}

// What the low values of a thread are made of, and what it mixes in the end: asked for before the
// weights, whose decoding waits for them.
struct Asked {
    products: array<vec4<f32>, VECTORS * STREAMS>,
    squares: array<f32, VECTORS * STREAMS>,
    x: array<f32, STREAMS>,
    norm: array<f32, STREAMS>,
    x_squares: array<f32, STREAMS>,
}

// Row and first column of vector v of the low values.
fn low_place(v: u32, first_row: u32, count: u32) -> vec2<u32> {
    // Beyond the end the last row is multiplied again and not stored.
    return vec2(first_row + min(v / (8u * UNITS), count - 1u), 4u * (v % (8u * UNITS)));
}

fn ask(first_row: u32, count: u32, thread: u32, mixed_at: Mixed) -> Asked {
    var asked: Asked;
    for (var k = 0u; k < VECTORS; k++) {
        let v = thread + k * THREADS;
        let place = low_place(v, first_row, count);
        if RANK % 4u == 0u && v < T * 8u * UNITS && place.y < RANK {
            for (var s = 0u; s < STREAMS; s++) {
                let first = (place.x * STREAMS + s) * RANK + place.y;
                asked.products[k * STREAMS + s] = part[first / 4u];
                asked.squares[k * STREAMS + s] = part_at(side_place(place.x, s));
            }
        }
    }
    if mixed_at.here {
        for (var s = 0u; s < STREAMS; s++) {
            let at = (mixed_at.row * STREAMS + s) * p.width + mixed_at.column;
            asked.x[s] = x[at / 4u][at % 4u];
            asked.norm[s] = norm[s * p.width + mixed_at.column];
            asked.x_squares[s] = part_at(side_place(mixed_at.row, s));
        }
    }
    return asked;
}

// Four values of `low_at`, of vector k of the thread.
fn low_four(asked: ptr<function, Asked>, k: u32, row: u32, column: u32) -> vec4<f32> {
    var four = vec4(0.0);
    if RANK % 4u == 0u {
        if column < RANK {
            for (var s = 0u; s < STREAMS; s++) {
                let scale = scale_from((*asked).squares[k * STREAMS + s]);
                four = fma(vec4(scale), (*asked).products[k * STREAMS + s], four);
            }
            four *= BY_STREAMS;
            four = vec4(silu(four.x), silu(four.y), silu(four.z), silu(four.w));
        }
        return four;
    }
    for (var j = 0u; j < 4u; j++) {
        if column + j < RANK {
            four[j] = low_at(row, column + j);
        }
    }
    return four;
}

fn make_lows(asked: ptr<function, Asked>, first_row: u32, count: u32, thread: u32) {
    for (var k = 0u; k < VECTORS; k++) {
        let v = thread + k * THREADS;
        if v < T * 8u * UNITS {
            let place = low_place(v, first_row, count);
            let i = v % (8u * UNITS);
            let to = (v / (8u * UNITS) * 8u + i % 8u) * PITCH + i / 8u;
            lows[to] = low_four(asked, k, place.x, place.y);
        }
    }
}

fn write_weights(first_row: u32, count: u32, thread: u32) {
    for (var o = thread; o < count * STREAMS; o += THREADS) {
        let row = first_row + o / STREAMS;
        weights[row * STREAMS + o % STREAMS] = write_weight(row, o % STREAMS);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first_row = group.z * T;
    let count = min(T, p.rows - first_row);
    if group.x * COLUMNS >= p.width {
        write_weights(first_row, count, thread);
        return;
    }
    let lane = thread % LANES;
    let column = min(group.x * COLUMNS + thread / LANES % COLUMNS, p.width - 1u);
    let first_unit = (thread / LANES / COLUMNS * p.width + column) * UNITS;
    // What this thread mixes in the end: T * COLUMNS is not above THREADS.
    let row = first_row + min(thread / COLUMNS, count - 1u);
    let at = min(group.x * COLUMNS + thread % COLUMNS, p.width - 1u);
    let here = thread / COLUMNS < count && group.x * COLUMNS + thread % COLUMNS < p.width;
    var asked = ask(first_row, count, thread, Mixed(row, at, here));
    var sums: array<f32, T>;
    for (var t = 0u; t < T; t++) {
        sums[t] = 0.0;
    }
    for (var first = 0u; first < STEPS; first += AHEAD) {
        var units: array<Unit, AHEAD>;
        for (var k = 0u; k < AHEAD; k++) {
            units[k] = load(first_unit + min(lane + (first + k) * LANES, UNITS - 1u));
        }
        if first == 0u {
            make_lows(&asked, first_row, count, thread);
            workgroupBarrier();
        }
        for (var k = 0u; k < AHEAD; k++) {
            let i = lane + (first + k) * LANES;
            if i < UNITS {
                for (var t = 0u; t < T; t++) {
                    sums[t] = add_product(units[k], low_input(t, i), sums[t]);
                }
            }
        }
    }
    for (var t = 0u; t < T; t++) {
        partials[t * THREADS + thread] = sums[t];
    }
    workgroupBarrier();
    var mix = 0.0;
    if here {
        for (var s = 0u; s < STREAMS; s++) {
            let first = thread / COLUMNS * THREADS + (s * COLUMNS + thread % COLUMNS) * LANES;
            var gate = partials[first];
            for (var i = 1u; i < min(LANES, UNITS); i++) {
                gate += partials[first + i];
            }
            let n = normed(asked.x[s], scale_from(asked.x_squares[s]), asked.norm[s]);
            mix = fma(sigmoid(gate), n, mix);
        }
        mix *= BY_STREAMS;
        u[row * p.width + at] = mix;
    }
    leave_codes(first_row, count, group.x, thread, mix);
}
