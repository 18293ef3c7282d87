// A format without a table.

fn fetch_book(thread: u32, threads: u32) {}
