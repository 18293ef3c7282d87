// Few rows times `down`, stream by stream: a workgroup has GROUPS weight rows, one stream and T
// rows of activations. LANES threads share a weight row; lane i adds the units i, i + LANES, ... of the
// stream, then the lanes are added in order. A lane asks for AHEAD units before it needs the first.
// Streams are weighted by the norm's weights as they come to workgroup memory, STAGE units at a
// time. Workgroups behind the last weight row add up what belongs to rows alone.

const GROUPS: u32 = THREADS / LANES;
const PITCH: u32 = STAGE + 1u;
// Units of a lane.
const STEPS: u32 = (UNITS + LANES - 1u) / LANES;
const STAGE_STEPS: u32 = STAGE / LANES;
// Vectors of a stage that a thread brings.
const VECTORS: u32 = (8u * min(STAGE, UNITS) + THREADS - 1u) / THREADS;

var<workgroup> staged: array<vec4<f32>, T * 8u * PITCH>;
var<workgroup> partials: array<f32, THREADS * T>;

fn stream_fours() -> u32 {
    return 8u * UNITS;
}

fn staged_input(t: u32, i: u32) -> Input {
    var out: Input;
    for (var k = 0u; k < 8u; k++) {
        out.values[k] = staged[(t * 8u + k) * PITCH + i];
    }
    return out;
}

// Some vectors of the rows' stream and of the norm's weights.
struct Vectors {
    x: array<vec4<f32>, VECTORS * T>,
    norm: array<vec4<f32>, VECTORS>,
}

fn ask(base: u32, stream: u32, first_row: u32, count: u32, thread: u32) -> Vectors {
    var asked: Vectors;
    for (var v = 0u; v < VECTORS; v++) {
        let i = thread + v * THREADS;
        if i < 8u * min(STAGE, UNITS - base) {
            asked.norm[v] = norm_four(stream, 8u * base + i);
            for (var t = 0u; t < T; t++) {
                // Beyond the end the last row is multiplied again and not stored.
                let row = first_row + min(t, count - 1u);
                asked.x[v * T + t] = x_four(row * STREAMS + stream, 8u * base + i);
            }
        }
    }
    return asked;
}

fn stage(asked: ptr<function, Vectors>, base: u32, thread: u32) {
    for (var v = 0u; v < VECTORS; v++) {
        let i = thread + v * THREADS;
        if i < 8u * min(STAGE, UNITS - base) {
            for (var t = 0u; t < T; t++) {
                let to = (t * 8u + i % 8u) * PITCH + i / 8u;
                staged[to] = (*asked).x[v * T + t] * (*asked).norm[v];
            }
        }
    }
}

// Adds the products with unit i, which is at `place` of the stage.
fn add(unit: Unit, i: u32, place: u32, sums: ptr<function, array<f32, T>>) {
    if i < UNITS {
        for (var t = 0u; t < T; t++) {
            (*sums)[t] = add_product(unit, staged_input(t, place), (*sums)[t]);
        }
    }
}

fn down(block: u32, stream: u32, first_row: u32, count: u32, thread: u32) {
    let lane = thread % LANES;
    let weight = min(block * GROUPS + thread / LANES, p.rank - 1u);
    let first_unit = (weight * STREAMS + stream) * UNITS;
    var sums: array<f32, T>;
    for (var t = 0u; t < T; t++) {
        sums[t] = 0.0;
    }
    // Asked for before the weights, whose decoding waits for them.
    var asked = ask(0u, stream, first_row, count, thread);
    for (var first = 0u; first < STEPS; first += AHEAD) {
        var units: array<Unit, AHEAD>;
        for (var k = 0u; k < AHEAD; k++) {
            units[k] = load(first_unit + min(lane + (first + k) * LANES, UNITS - 1u));
        }
        if STAGE >= UNITS {
            if first == 0u {
                stage(&asked, 0u, thread);
                workgroupBarrier();
            }
            for (var k = 0u; k < AHEAD; k++) {
                add(units[k], lane + (first + k) * LANES, lane + (first + k) * LANES, &sums);
            }
        } else {
            for (var k = 0u; k < AHEAD; k++) {
                let step = first + k;
                if step < STEPS && step % STAGE_STEPS == 0u {
                    workgroupBarrier();
                    stage(&asked, step * LANES, thread);
                    workgroupBarrier();
                    let next = min((step + STAGE_STEPS) * LANES, UNITS - 1u);
                    asked = ask(next, stream, first_row, count, thread);
                }
                add(units[k], lane + step * LANES, lane + step % STAGE_STEPS * LANES, &sums);
            }
        }
    }
    for (var t = 0u; t < T; t++) {
        partials[t * THREADS + thread] = sums[t];
    }
    workgroupBarrier();
    for (var o = thread; o < GROUPS * T; o += THREADS) {
        let t = o / GROUPS;
        let first = t * THREADS + o % GROUPS * LANES;
        var sum = partials[first];
        for (var i = 1u; i < min(LANES, UNITS); i++) {
            sum += partials[first + i];
        }
        let row = block * GROUPS + o % GROUPS;
        if row < p.rank && t < count {
            part[((first_row + t) * STREAMS + stream) * p.rank + row] = sum;
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (p.rank + GROUPS - 1u) / GROUPS;
    let first_row = group.z * T;
    let count = min(T, p.rows - first_row);
    if group.x < blocks {
        down(group.x, group.y, first_row, count, thread);
    } else if group.x - blocks < count {
        side(first_row + group.x - blocks, group.y, thread);
    }
}
