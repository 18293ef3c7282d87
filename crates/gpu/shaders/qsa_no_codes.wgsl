fn leave_codes(first: u32, thread: u32, four: vec4<f32>) {
}
