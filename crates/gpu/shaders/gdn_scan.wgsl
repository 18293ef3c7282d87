// The delta rule. A workgroup has some columns of one head's state of one slot and takes the run's
// rows one after the other, rows set aside first. The state is in registers meanwhile: a thread has
// KEYS keys of a column, SLICES threads share a column.
//
// What a row needs of the state, S^T k and S^T q, is added up before the row changes it:
//
//     o = (e^g S + k d^T)^T q = e^g S^T q + (k . q) d
//
// so there is one exchange between threads per row. Keys and queries are used as they come; their
// norms are factors of the sums. Partial sums of even and odd rows have places of their own, so one
// barrier per row is enough.

const COLUMNS: u32 = 32u;
const SLICES: u32 = THREADS / COLUMNS;
const KEYS: u32 = (HEAD + SLICES - 1u) / SLICES;
const STAGED: u32 = (HEAD + THREADS - 1u) / THREADS;
const PADDED: u32 = SLICES * KEYS;

// Key and query of two rows, zero behind the head's end.
var<workgroup> stage: array<vec2<f32>, 2u * PADDED>;
// Per thread: state times key, state times query.
var<workgroup> reads: array<vec2<f32>, 2u * THREADS>;
// Per slice: key times key, query times query, key times query.
var<workgroup> products: array<vec4<f32>, 2u * SLICES>;

struct Inputs {
    key_query: array<vec2<f32>, STAGED>,
    value: f32,
    alpha: f32,
    beta: f32,
}

// Where a thread's values are.
struct Place {
    thread: u32,
    head: u32,
    // First channels of the head's query, key and value.
    query: u32,
    key: u32,
    value: u32,
    column: u32,
}

fn aside_at(run: Run, side: u32, row: u32) -> u32 {
    let width = p.channels + 2u * p.heads;
    return run.slot * p.slot_len + p.state_len + side * p.aside_len + row * width;
}

fn inputs(run: Run, step: u32, at: Place) -> Inputs {
    var out: Inputs;
    let column = min(at.column, HEAD - 1u);
    if step < run.replay {
        let row = aside_at(run, run.side, step);
        for (var j = 0u; j < STAGED; j++) {
            let i = min(at.thread + j * THREADS, HEAD - 1u);
            out.key_query[j] = vec2(state[row + at.key + i], state[row + at.query + i]);
        }
        out.value = state[row + at.value + column];
        out.alpha = state[row + p.channels + at.head];
        out.beta = state[row + p.channels + p.heads + at.head];
    } else {
        let row = run.first_row + step - run.replay;
        let first = row * p.channels;
        for (var j = 0u; j < STAGED; j++) {
            let i = min(at.thread + j * THREADS, HEAD - 1u);
            out.key_query[j] = vec2(qkv[first + at.key + i], qkv[first + at.query + i]);
        }
        out.value = qkv[first + at.value + column];
        out.alpha = alpha[row * p.heads + at.head];
        out.beta = beta[row * p.heads + at.head];
    }
    return out;
}

fn put(half: u32, thread: u32, values: array<vec2<f32>, STAGED>) {
    for (var j = 0u; j < STAGED; j++) {
        let i = thread + j * THREADS;
        if i < HEAD {
            stage[half * PADDED + i] = values[j];
        }
    }
}

// ln(1 + e^x) without the loss of small terms: ln(1 + e) = 2 artanh(e / (2 + e)), and e is at
// most 1.
fn softplus(x: f32) -> f32 {
    let e = exp(-abs(x));
    let r = e / (2.0 + e);
    let r2 = r * r;
    var series = fma(r2, 1.0 / 15.0, 1.0 / 13.0);
    series = fma(r2, series, 1.0 / 11.0);
    series = fma(r2, series, 1.0 / 9.0);
    series = fma(r2, series, 1.0 / 7.0);
    series = fma(r2, series, 1.0 / 5.0);
    series = fma(r2, series, 1.0 / 3.0);
    series = fma(r2, series, 1.0);
    return fma(2.0 * r, series, max(x, 0.0));
}

// What is set aside of the run's rows, in the place that nothing is replayed from.
fn set_aside(run: Run, at: Place) {
    if at.column >= HEAD {
        return;
    }
    for (var i = at.thread / COLUMNS; i < run.len; i += SLICES) {
        let to = aside_at(run, 1u - run.side, i);
        let row = run.first_row + i;
        let first = row * p.channels;
        state[to + at.value + at.column] = qkv[first + at.value + at.column];
        if at.head < p.key_heads {
            state[to + at.query + at.column] = qkv[first + at.query + at.column];
            state[to + at.key + at.column] = qkv[first + at.key + at.column];
        }
        if at.column == 0u {
            state[to + p.channels + at.head] = alpha[row * p.heads + at.head];
            state[to + p.channels + p.heads + at.head] = beta[row * p.heads + at.head];
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let run = run_at(group.z);
    let head = group.y;
    let key_head = head % p.key_heads;
    let lane = thread % COLUMNS;
    let slice = thread / COLUMNS;
    let at = Place(
        thread,
        head,
        key_head * HEAD,
        (p.key_heads + key_head) * HEAD,
        (2u * p.key_heads + head) * HEAD,
        group.x * COLUMNS + lane,
    );
    let inside = at.column < HEAD;
    let first = run.slot * p.slot_len + head * HEAD * HEAD + at.column;
    var s: array<f32, KEYS>;
    var key: array<f32, KEYS>;
    for (var i = 0u; i < KEYS; i++) {
        let row = slice * KEYS + i;
        s[i] = 0.0;
        if inside && row < HEAD {
            s[i] = state[first + row * HEAD];
        }
    }
    for (var i = HEAD + thread; i < PADDED; i += THREADS) {
        stage[i] = vec2(0.0);
        stage[PADDED + i] = vec2(0.0);
    }
    let steps = run.replay + run.len;
    let keep = entering(run);
    let rate = a[head];
    let shift = dt[head];
    var now = inputs(run, 0u, at);
    put(0u, thread, now.key_query);
    var next = inputs(run, min(1u, steps - 1u), at);
    workgroupBarrier();
    for (var step = 0u; step < steps; step++) {
        let half = step & 1u;
        var read = vec2(0.0);
        var product = vec3(0.0);
        for (var i = 0u; i < KEYS; i++) {
            let kq = stage[half * PADDED + slice * KEYS + i];
            key[i] = kq.x;
            read = fma(vec2(s[i]), kq, read);
            product = fma(kq.xyx, kq.xyy, product);
        }
        reads[half * THREADS + thread] = read;
        if lane == 0u {
            products[half * SLICES + slice] = vec4(product, 0.0);
        }
        put(1u - half, thread, next.key_query);
        let then = inputs(run, min(step + 2u, steps - 1u), at);
        workgroupBarrier();
        read = reads[half * THREADS + lane];
        product = products[half * SLICES].xyz;
        for (var j = 1u; j < SLICES; j++) {
            read += reads[half * THREADS + j * COLUMNS + lane];
            product += products[half * SLICES + j].xyz;
        }
        let by_key = norm_scale(product.x + p.eps);
        let by_query = norm_scale(product.y + p.eps) * p.query_scale;
        let decay = exp(rate * softplus(now.alpha + shift));
        let delta = sigmoid(now.beta) * fma(-(decay * by_key), read.x, now.value);
        let step_size = delta * by_key;
        for (var i = 0u; i < KEYS; i++) {
            s[i] = fma(key[i], step_size, decay * s[i]);
        }
        if inside && slice == 0u && step >= run.replay {
            let row = run.first_row + step - run.replay;
            let result = by_query * fma(step_size, product.z, decay * read.y);
            o[(row * p.heads + head) * HEAD + at.column] = result;
        }
        if inside && step + 1u == keep {
            for (var i = 0u; i < KEYS; i++) {
                let row = slice * KEYS + i;
                if row < HEAD {
                    state[first + row * HEAD] = s[i];
                }
            }
        }
        now = next;
        next = then;
    }
    if run.deferred == 1u {
        set_aside(run, at);
    }
}
