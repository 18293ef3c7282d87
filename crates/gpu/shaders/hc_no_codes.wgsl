fn leave_codes(first_row: u32, count: u32, block: u32, thread: u32, mix: f32) {
}
