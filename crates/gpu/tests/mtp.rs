//! The drafting block's input, beside the reference and beside itself in other company.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use kernels::mtp::{MtpNorms, NormExtent};
use kernels::reference::Reference;
use kernels::{HcShape, Mtp};
use lab::Random;

/// Embeddings, streams and both norms.
struct Input {
    e: Vec<f32>,
    x: Vec<f32>,
    e_norm: Vec<f32>,
    x_norm: Vec<f32>,
}

fn input(shape: &HcShape, rows: usize) -> Input {
    let HcShape { streams, width, .. } = *shape;
    let mut random = Random::new((rows * streams + width) as u64);
    let mut values = |len: usize| random.values(len, 2.0);
    let (e, x) = (values(rows * width), values(rows * streams * width));
    Input { e, x, e_norm: values(width), x_norm: values(streams * width) }
}

fn run<D: Mtp<Vector = <D as kernels::Device>::Buffer>>(
    device: &mut D,
    shape: &HcShape,
    extent: NormExtent,
    input: &Input,
) -> Vec<f32> {
    let rows = input.e.len() / shape.width;
    let (e, x) = (upload(device, &input.e), upload(device, &input.x));
    let (e_norm, x_norm) = (upload(device, &input.e_norm), upload(device, &input.x_norm));
    let len = rows * shape.streams * 2 * shape.width;
    let mut out = upload(device, &vec![f32::NAN; len]);
    let norms = MtpNorms { embedding: &e_norm, streams: &x_norm, extent };
    device.mtp_input(shape, &norms, (&e, &x), rows, &mut out);
    download(device, &out, len)
}

#[test]
fn the_input_agrees_with_the_reference() {
    let Some(mut gpu) = gpu() else { return };
    for (streams, width, rows) in [(4, 2560, 2), (4, 2560, 1), (1, 3, 5), (2, 257, 3), (3, 64, 70)]
    {
        for extent in [NormExtent::Whole, NormExtent::PerStream] {
            let shape = HcShape { streams, width, eps: 1e-6 };
            let input = input(&shape, rows);
            let want = run(&mut Reference, &shape, extent, &input);
            let found = run(&mut gpu, &shape, extent, &input);
            // A mean of up to 10240 squares in f32, a root and a division: some units in the last
            // place of a value.
            let near = |(f, w): (&f32, &f32)| (f - w).abs() <= 3e-6 * w.abs();
            assert!(found.iter().zip(&want).all(near), "{streams} x {width}, {rows} rows");
        }
    }
}

#[test]
fn a_row_s_bits_do_not_depend_on_the_others() {
    let Some(mut gpu) = gpu() else { return };
    let shape = HcShape { streams: 4, width: 300, eps: 1e-6 };
    let all = input(&shape, 7);
    let many = run(&mut gpu, &shape, NormExtent::Whole, &all);
    for row in 0..7 {
        let alone = Input {
            e: all.e[row * 300..][..300].to_vec(),
            x: all.x[row * 1200..][..1200].to_vec(),
            e_norm: all.e_norm.clone(),
            x_norm: all.x_norm.clone(),
        };
        let found = run(&mut gpu, &shape, NormExtent::Whole, &alone);
        assert_eq!(bits(&found), bits(&many[row * 2400..][..2400]), "row {row}");
    }
}
