fn finish(block: u32, thread: u32) {
}
