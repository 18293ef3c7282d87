//! Prints what a region of the thread pool costs when its tasks do nothing: the median and the best
//! of many, back to back and with a pause before each, as between the operations of a window. Run
//! with `--release` on a quiet machine; the argument is the number of threads, two without it.

use cpu::pool::Pool;
use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

const REGIONS: usize = 20_000;

fn print(what: &str, times: &mut [f64]) {
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    println!("{what:<24} best {best:>7.3} us   median {median:>7.3} us");
}

/// Times of regions, each after `gap` of serial work.
fn regions(pool: &mut Pool, tasks: usize, gap: Duration) -> Vec<f64> {
    let mut region = || {
        let start = Instant::now();
        while start.elapsed() < gap {
            spin_loop();
        }
        let start = Instant::now();
        pool.run(tasks, &|i| {
            black_box(i);
        });
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..REGIONS).map(|_| region()).collect()
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2);
    let mut pool = Pool::new(threads);
    println!("{} threads", pool.threads());
    for gap in [0, 5, 30] {
        for tasks in [threads, 16 * threads] {
            let mut times = regions(&mut pool, tasks, Duration::from_micros(gap));
            print(&format!("{tasks} tasks after {gap} us"), &mut times);
        }
    }
}
