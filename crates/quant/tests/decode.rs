//! Decoding against the vectors, bit for bit, and the known faults about decoding.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use common::{TYPES, assert_same_bits, bytes, floats, manifest};
use quant::{BlockFormat, Error, FormatVisitor, TensorType, check_row, decode_row, with_format};

#[test]
fn decodes_every_vector_bit_for_bit() {
    for ty in TYPES {
        for set in ["rand", "edge"] {
            let name = format!("{}.{set}", ty.name());
            let expected = floats(&format!("{name}.f32"));
            // NaN is not among the values, so a value left unwritten shows.
            let mut ours = vec![f32::NAN; expected.len()];
            decode_row(ty, &bytes(&format!("{name}.bin")), &mut ours).unwrap();
            assert_same_bits(&name, &ours, &expected);
        }
    }
}

/// The table of docs/formats.md section 1, typed in again.
#[test]
fn fault_007_block_sizes_of_every_type() {
    use TensorType::*;
    let table = [
        (F32, 1, 4),
        (F16, 1, 2),
        (BF16, 1, 2),
        (Q1_0, 128, 18),
        (Q2_0, 64, 18),
        (Q4_0, 32, 18),
        (Q4_1, 32, 20),
        (Q5_0, 32, 22),
        (Q5_1, 32, 24),
        (Q8_0, 32, 34),
        (Q2_K, 256, 84),
        (Q3_K, 256, 110),
        (Q4_K, 256, 144),
        (Q5_K, 256, 176),
        (Q6_K, 256, 210),
        (IQ2_XXS, 256, 66),
        (IQ2_XS, 256, 74),
        (IQ3_XXS, 256, 98),
        (IQ1_S, 256, 50),
        (IQ4_NL, 32, 18),
        (IQ3_S, 256, 110),
        (IQ2_S, 256, 82),
        (IQ4_XS, 256, 136),
        (IQ1_M, 256, 56),
        (TQ1_0, 256, 54),
        (TQ2_0, 256, 66),
        (MXFP4, 32, 17),
        (NVFP4, 64, 36),
    ];
    struct Shape;
    impl FormatVisitor for Shape {
        type Out = (TensorType, usize, usize);
        fn visit<F: BlockFormat>(self) -> Self::Out {
            (F::TYPE, F::ELEMENTS, F::BYTES)
        }
    }
    for row in table {
        assert_eq!(with_format(row.0, Shape), Some(row));
    }
    let formats = TensorType::ALL.iter().filter(|ty| with_format(**ty, Shape).is_some());
    assert_eq!(formats.count(), table.len(), "every weight format is in the table");
}

/// Row lengths that a kernel working in larger steps might cover only in part.
#[test]
fn fault_130_whole_rows_of_every_length_are_decoded() {
    struct BlockByBlock<'a>(&'a [u8]);
    impl FormatVisitor for BlockByBlock<'_> {
        type Out = Vec<f32>;
        fn visit<F: BlockFormat>(self) -> Vec<f32> {
            let mut values = vec![f32::NAN; self.0.len() / F::BYTES * F::ELEMENTS];
            for (b, block) in self.0.chunks_exact(F::BYTES).enumerate() {
                F::decode(block, &mut values[b * F::ELEMENTS..(b + 1) * F::ELEMENTS]);
            }
            values
        }
    }
    let mut tested = 0;
    for ty in TYPES.into_iter().filter(|ty| !ty.is_activation_only()) {
        let source = bytes(&format!("{}.rand.bin", ty.name()));
        for elements in [32, 64, 640, 2560, 6144] {
            let Some(row_bytes) = ty.row_bytes(elements as u64) else {
                let mut row = vec![0.0; elements];
                let refusal = decode_row(ty, &source, &mut row);
                assert!(matches!(refusal, Err(Error::RowLength { .. })), "{ty} {elements}");
                continue;
            };
            let row = &source[..row_bytes as usize];
            let mut values = vec![f32::NAN; elements];
            decode_row(ty, row, &mut values).unwrap();
            assert!(!values.iter().any(|v| v.is_nan()), "{ty} {elements}: element not written");
            let expected = with_format(ty, BlockByBlock(row)).unwrap();
            assert_same_bits(&format!("{ty} row of {elements}"), &values, &expected);
            tested += 1;
        }
    }
    // All five lengths for the types with blocks of 1 to 64, fewer for those of 128 and 256.
    assert!(tested >= 3 * 5 + 7 * 5 + 17, "only {tested} combinations");
}

/// The edge vectors hold blocks of zero and denormal scales; so do these, with every code byte.
#[test]
fn fault_125_zero_and_denormal_scales_decode_to_almost_nothing() {
    const SMALLEST: u16 = 0x0001;
    const LARGEST: u16 = 0x03ff;
    for ty in TYPES.into_iter().filter(|ty| !ty.is_activation_only() && ty.is_quantized()) {
        for scale in [0x0000, 0x8000, SMALLEST, LARGEST] {
            for code in [0x00, 0x55, 0xAA, 0xFF] {
                let block = block_with_scale(ty, scale, code);
                let mut values = vec![f32::NAN; ty.block_elements()];
                decode_row(ty, &block, &mut values).unwrap();
                // The largest denormal f16 times the largest scale code (8 bits, signed) times
                // the largest code (7 bits). A zero scale gives exactly zero, except in MXFP4,
                // which has no zero scale; its smallest is 2^-128, times a code of 12.
                let zero = scale & LARGEST == 0 && ty != TensorType::MXFP4;
                let bound = if zero { 0.0 } else { 6.2e-5 * 128.0 * 128.0 };
                assert!(values.iter().all(|v| v.abs() <= bound), "{ty} {scale:#x} {code:#x}");
                assert_eq!(check_row(ty, &block), Ok(()), "{ty} {scale:#x} {code:#x}");
            }
        }
    }
}

/// A block whose f16 scales are `scale` (the like of it in the formats with other scales) and
/// whose other bytes are all `code`.
fn block_with_scale(ty: TensorType, scale: u16, code: u8) -> Vec<u8> {
    let mut block = vec![code; ty.block_bytes()];
    let put = |block: &mut Vec<u8>, at: usize| {
        block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
    };
    match ty {
        TensorType::MXFP4 => block[0] = (scale != 0) as u8 & (scale != 0x8000) as u8,
        TensorType::NVFP4 => block[..4].fill((scale & 7) as u8),
        TensorType::IQ1_M => {
            for i in 0..4 {
                let top = ((scale >> (4 * i)) & 15) as u8;
                block[49 + 2 * i] = (code & 15) | (top << 4);
            }
        }
        TensorType::Q2_K => {
            put(&mut block, 80);
            put(&mut block, 82);
        }
        TensorType::Q4_1 | TensorType::Q5_1 | TensorType::Q4_K | TensorType::Q5_K => {
            put(&mut block, 0);
            put(&mut block, 2);
        }
        TensorType::Q3_K | TensorType::Q6_K | TensorType::TQ1_0 | TensorType::TQ2_0 => {
            let at = ty.block_bytes() - 2;
            put(&mut block, at);
        }
        _ => put(&mut block, 0),
    }
    block
}

#[test]
fn bad_scales_are_found_and_named() {
    use TensorType::*;
    let infinite = 0x7c00u16.to_le_bytes();
    let nan = 0xfe01u16.to_le_bytes();
    let fields = [
        (Q1_0, 0, "d"),
        (Q2_0, 0, "d"),
        (Q4_0, 0, "d"),
        (Q4_1, 0, "d"),
        (Q4_1, 2, "m"),
        (Q5_0, 0, "d"),
        (Q5_1, 0, "d"),
        (Q5_1, 2, "m"),
        (Q8_0, 0, "d"),
        (Q8_1, 2, "s"),
        (Q2_K, 80, "d"),
        (Q2_K, 82, "dmin"),
        (Q3_K, 108, "d"),
        (Q4_K, 0, "d"),
        (Q4_K, 2, "dmin"),
        (Q5_K, 0, "d"),
        (Q5_K, 2, "dmin"),
        (Q6_K, 208, "d"),
        (IQ1_S, 0, "d"),
        (IQ2_XXS, 0, "d"),
        (IQ2_XS, 0, "d"),
        (IQ2_S, 0, "d"),
        (IQ3_XXS, 0, "d"),
        (IQ3_S, 0, "d"),
        (IQ4_NL, 0, "d"),
        (IQ4_XS, 0, "d"),
        (TQ1_0, 52, "d"),
        (TQ2_0, 64, "d"),
        (F16, 0, "value"),
    ];
    for (ty, at, field) in fields {
        for bad in [infinite, nan] {
            let mut row = vec![0; 3 * ty.block_bytes()];
            assert_eq!(check_row(ty, &row), Ok(()));
            let at = ty.block_bytes() + at;
            row[at..at + 2].copy_from_slice(&bad);
            assert_eq!(check_row(ty, &row), Err(Error::BadScale { ty, block: 1, field }));
        }
    }
    let mut row = [0; 2 * 17];
    row[17] = 255;
    let expected = Error::BadScale { ty: MXFP4, block: 1, field: "e" };
    assert_eq!(check_row(MXFP4, &row), Err(expected));
    let spread = block_with_scale(IQ1_M, 0x7c00, 0);
    assert_eq!(check_row(IQ1_M, &spread), Err(Error::BadScale { ty: IQ1_M, block: 0, field: "d" }));
}

#[test]
fn the_check_agrees_with_the_reference_validator() {
    for format in manifest()["formats"].as_array().unwrap() {
        let name = format["name"].as_str().unwrap();
        let ty = TensorType::from_name(name).unwrap();
        for set in ["rand", "edge"] {
            let valid = check_row(ty, &bytes(&format!("{name}.{set}.bin"))).is_ok();
            let expected = format[format!("reference_row_validator_{set}")].as_bool().unwrap();
            assert_eq!(valid, expected, "{name}.{set}");
        }
    }
}

#[test]
fn wrong_sizes_and_types_are_refused() {
    let mut row = [0.0; 64];
    let short = decode_row(TensorType::Q4_0, &[0; 35], &mut row).unwrap_err();
    assert_eq!(
        short.to_string(),
        "35 bytes cannot be a Q4_0 row of 64 elements: a block is 32 elements in 18 bytes; \
         the file is damaged or the shape is wrong"
    );
    let integers = decode_row(TensorType::I32, &[0; 256], &mut row).unwrap_err();
    assert!(matches!(integers, Error::Unsupported { ty: TensorType::I32, .. }));
    assert!(check_row(TensorType::Q6_K, &[0; 209]).is_err());
    assert_eq!(decode_row(TensorType::Q4_0, &[], &mut []), Ok(()));
}
