// The runs of a window, or chunks of their rows, as the host wrote them.

struct Run {
    slot: u32,
    // First row in the window, and how many.
    first_row: u32,
    len: u32,
    // Rows set aside that count.
    replay: u32,
    // Whether the rows are set aside: 1 or 0.
    deferred: u32,
    // Rows of this chunk, counted from the run's first.
    first: u32,
    rows: u32,
    // Where rows set aside are, of two places.
    side: u32,
}

fn run_at(index: u32) -> Run {
    let i = 8u * index;
    return Run(
        runs[i], runs[i + 1u], runs[i + 2u], runs[i + 3u],
        runs[i + 4u], runs[i + 5u], runs[i + 6u], runs[i + 7u],
    );
}

// How many of the rows replayed and new enter the state.
fn entering(run: Run) -> u32 {
    return run.replay + select(run.len, 0u, run.deferred == 1u);
}
