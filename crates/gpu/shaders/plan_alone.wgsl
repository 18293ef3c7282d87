fn beside(block: u32, thread: u32) {
}
