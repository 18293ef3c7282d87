// The format's table in workgroup memory, where lanes look up different places at once.

var<workgroup> book: array<u32, BOOK>;

fn fetch_book(thread: u32, threads: u32) {
    for (var i = thread; i < BOOK; i += threads) {
        book[i] = book_source[i];
    }
    workgroupBarrier();
}
