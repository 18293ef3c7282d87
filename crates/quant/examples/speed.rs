//! Prints how many values per second each decoder and encoder handles, for rows of 4096 elements:
//! the best of many short runs, so that other work on the machine does not count.

use quant::{BlockFormat, FormatVisitor, TensorType, encode_row, with_format};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROW: usize = 4096;
const RUN: Duration = Duration::from_millis(100);

/// Decodes blocks of arbitrary bytes.
struct Decode;

impl FormatVisitor for Decode {
    type Out = f64;
    fn visit<F: BlockFormat>(self) -> f64 {
        let bytes: Vec<u8> = (0..ROW / F::ELEMENTS * F::BYTES).map(|i| (i * 37) as u8).collect();
        let mut values = vec![0.0; ROW];
        values_per_second(|| F::decode_blocks(black_box(&bytes), black_box(&mut values)))
    }
}

/// Encodes a row with importance; `None` where the type has no encoder.
fn encode(ty: TensorType) -> Option<f64> {
    let values: Vec<f32> = (0..ROW).map(|i| (i as f32 * 0.7).sin()).collect();
    let importance = vec![1.0; ROW];
    let mut bytes = vec![0; ROW / ty.block_elements() * ty.block_bytes()];
    encode_row(ty, &values, Some(&importance), &mut bytes).ok()?;
    Some(values_per_second(|| {
        let result = encode_row(ty, black_box(&values), Some(&importance), black_box(&mut bytes));
        assert_eq!(result, Ok(()), "the same row was encoded before");
    }))
}

fn values_per_second(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed() < RUN {
        let run = Instant::now();
        work();
        best = best.min(run.elapsed().as_secs_f64());
    }
    ROW as f64 / best
}

fn main() {
    println!("type      decode  encode  (million values per second)");
    for &ty in TensorType::ALL {
        let Some(decoded) = with_format(ty, Decode) else { continue };
        let encoded = encode(ty).map_or(String::from("-"), |speed| format!("{:.0}", speed / 1e6));
        println!("{:8} {:7.0} {encoded:>7}", ty.name(), decoded / 1e6);
    }
}
