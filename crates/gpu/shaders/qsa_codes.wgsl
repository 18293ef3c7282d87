// A head's result in 8 bits: a thread for each vector of it, heads of whole units.

fn leave_codes(first: u32, thread: u32, four: vec4<f32>) {
    store_codes(first + thread, thread, four, thread < UNITS);
}
