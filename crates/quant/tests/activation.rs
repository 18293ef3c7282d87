//! Activation quantisers byte for byte, and the reference dot product.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use common::{TYPES, assert_same_bytes, bytes, floats, manifest};
use quant::{Error, TensorType, decode_row, dot, quantise_activation};

const PARTNERS: [TensorType; 3] = [TensorType::Q8_0, TensorType::Q8_1, TensorType::Q8_K];

fn quantised(ty: TensorType, values: &[f32]) -> Vec<u8> {
    let mut out = vec![0xAA; ty.row_bytes(values.len() as u64).unwrap() as usize];
    quantise_activation(ty, values, &mut out).unwrap();
    out
}

#[test]
fn quantisers_equal_the_vectors() {
    for ty in PARTNERS {
        for act in ["act0", "act1"] {
            let ours = quantised(ty, &floats(&format!("{act}.f32")));
            let file = format!("{act}.{}.bin", ty.name());
            assert_same_bytes(&file, &ours, &bytes(&file));
        }
        let ours = quantised(ty, &floats("encode.src.f32"));
        let file = format!("encode.{}.activation.bin", ty.name());
        assert_same_bytes(&file, &ours, &bytes(&file));
    }
}

#[test]
fn zero_tiny_and_non_finite_blocks() {
    for ty in PARTNERS {
        assert!(quantised(ty, &[0.0; 256]).iter().all(|&b| b == 0), "{ty}: zero block");
        // 1 / (1e-42 / 127) overflows.
        let mut values = vec![f32::NAN; 256];
        decode_row(ty, &quantised(ty, &[1e-42; 256]), &mut values).unwrap();
        assert!(values.iter().all(|v| v.abs() <= 1e-42), "{ty}: tiny block");
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut source = [1.0; 512];
            source[3] = bad;
            let mut values = vec![0.0; 512];
            decode_row(ty, &quantised(ty, &source), &mut values).unwrap();
            let block = ty.block_elements();
            assert!(values[..block].iter().all(|v| v.is_nan()), "{ty}: {bad} must show");
            assert!(values[block..].iter().all(|v| v.is_finite()), "{ty}: {bad} must stay there");
        }
    }
}

#[test]
fn dot_products_equal_the_exact_values() {
    let manifest = manifest();
    let mut tested = 0;
    for format in manifest["formats"].as_array().unwrap() {
        let Some(dots) = format["dots"].as_array() else { continue };
        let name = format["name"].as_str().unwrap();
        let ty = TensorType::from_name(name).unwrap();
        let weights = bytes(&format!("{name}.rand.bin"));
        let rows: Vec<&[u8]> = weights.chunks_exact(ty.row_bytes(2048).unwrap() as usize).collect();
        for case in dots {
            let file = match format["activation"].as_str().unwrap() {
                "F32" => format!("act{}.f32", case["act"]),
                partner => format!("act{}.{partner}.bin", case["act"]),
            };
            let row = rows[case["row"].as_u64().unwrap() as usize];
            let ours = dot(ty, row, &bytes(&file)).unwrap();
            let exact = case["exact_f64"].as_f64().unwrap();
            // f32 scales carry a rounding of 6e-8 at most, an order below the margin of the spec.
            let tolerance = 1e-6 * case["abs_sum"].as_f64().unwrap();
            assert!((ours - exact).abs() <= tolerance, "{name} {file}: {ours}, exactly {exact}");
            tested += 1;
        }
    }
    // Every type of the vectors but Q8_K, eight rows, two activations.
    assert_eq!(tested, (TYPES.len() - 1) * 16);
}

#[test]
fn unequal_rows_are_refused() {
    let weights = [0; 2 * 18];
    assert_eq!(dot(TensorType::Q4_0, &weights, &[0; 2 * 34]), Ok(0.0));
    assert!(matches!(dot(TensorType::Q4_0, &weights, &[0; 34]), Err(Error::RowBytes { .. })));
    assert!(matches!(dot(TensorType::Q1_0, &[0; 18], &[0; 34]), Err(Error::RowLength { .. })));
    assert!(matches!(dot(TensorType::F16, &[0; 2], &[0; 3]), Err(Error::RowBytes { .. })));
    assert!(matches!(dot(TensorType::Q8_K, &[], &[]), Err(Error::Unsupported { .. })));
    let mut out = [0; 33];
    assert!(quantise_activation(TensorType::Q8_0, &[0.0; 32], &mut out).is_err());
    assert!(quantise_activation(TensorType::Q4_0, &[0.0; 32], &mut out).is_err());
}
