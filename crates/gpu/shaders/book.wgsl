// The format's table in workgroup memory, where lanes look up different places at once.

var<workgroup> book: array<u32, BOOK>;

fn fetch_book(thread: u32, threads: u32) {
    for (var i = thread; i < BOOK / 4u; i += threads) {
        let four = book_source[i];
        book[4u * i] = four.x;
        book[4u * i + 1u] = four.y;
        book[4u * i + 2u] = four.z;
        book[4u * i + 3u] = four.w;
    }
    workgroupBarrier();
}
