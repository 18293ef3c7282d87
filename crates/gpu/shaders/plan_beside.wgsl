// The shared expert's activation beside a plan.

fn beside(block: u32, thread: u32) {
    let i = block * THREADS + thread;
    swiglu_four(i, thread, i < p.vectors);
}
