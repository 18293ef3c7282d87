//! Decoded values are the bits of `quant::decode_row`, for every format and instruction set: block
//! by block, on random and on edge blocks.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Head, Weight};

#[test]
fn every_format_decodes_to_the_same_bits() {
    for mut cpu in every_isa() {
        for ty in weight_types() {
            for kind in ["rand", "edge"] {
                let bytes = fixture(&format!("{}.{kind}.bin", ty.name()));
                let elements = ty.block_elements();
                let blocks = bytes.len() / ty.block_bytes();
                let mut expected = poisoned(blocks * elements);
                quant::decode_row(ty, &bytes, &mut expected).unwrap();

                // Each block is a row of an embedding table, so that one wrong block is named.
                let shape = WeightShape { n_in: elements, n_out: blocks, experts: 1 };
                let table = Weight::new(ty.name(), ty, shape, bytes.into()).unwrap();
                let table = cpu.load_matrix(&table, Activations::F32).unwrap();
                let mut found = poisoned(blocks * elements);
                let tokens: Vec<u32> = (0..blocks as u32).collect();
                cpu.embed(&table, &tokens, 1, &mut found);
                for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let same = found.to_bits() == expected.to_bits()
                        || (found.is_nan() && expected.is_nan());
                    let (block, element) = (i / elements, i % elements);
                    assert!(
                        same,
                        "{} {kind} block {block}, element {element}, {}: {found} for {expected}",
                        ty.name(),
                        cpu.isa().name()
                    );
                }
            }
        }
    }
}
