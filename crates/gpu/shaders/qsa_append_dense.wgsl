// A dense layer has no index keys.

fn norm_weight(d: u32) -> f32 {
    return k_norm[d];
}

fn append_index(row: u32, run: Run, pos: u32, thread: u32) {
}
