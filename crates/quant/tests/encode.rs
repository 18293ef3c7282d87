//! Encoders against what the reference encoders wrote, and their treatment of awkward input.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use common::{assert_same_bytes, bytes, floats, manifest};
use quant::{Error, TensorType, check_row, decode_row, encode_row};

const ROW: usize = 2048;

const ENCODERS: [TensorType; 19] = {
    use TensorType::*;
    [
        F32, F16, BF16, Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS,
        MXFP4, NVFP4, TQ1_0, TQ2_0,
    ]
};

fn encoded(ty: TensorType, values: &[f32], importance: Option<&[f32]>) -> Result<Vec<u8>, Error> {
    let mut out = vec![0xAA; ty.row_bytes(values.len() as u64).unwrap() as usize];
    encode_row(ty, values, importance, &mut out).map(|()| out)
}

fn decoded(ty: TensorType, bytes: &[u8], elements: usize) -> Vec<f32> {
    let mut values = vec![f32::NAN; elements];
    decode_row(ty, bytes, &mut values).unwrap();
    values
}

/// Encodes the eight rows of the source vector.
fn encode_source(ty: TensorType, importance: Option<&[f32]>) -> Vec<u8> {
    let rows = floats("encode.src.f32");
    rows.chunks_exact(ROW).flat_map(|row| encoded(ty, row, importance).unwrap()).collect()
}

/// Stronger than the 1.002 times the reference's error that is asked of encoders with a search:
/// the order of the additions is the same and nothing fuses them, so the bytes are too.
#[test]
fn every_encoder_writes_the_bytes_of_the_reference() {
    let importance = floats("encode.imatrix.f32");
    let mut tested = Vec::new();
    for case in manifest()["encode"].as_array().unwrap() {
        let ty = TensorType::from_name(case["format"].as_str().unwrap()).unwrap();
        let importance = match case["mode"].as_str().unwrap() {
            "plain" => None,
            "imatrix" => Some(importance.as_slice()),
            _ => continue,
        };
        if ENCODERS.contains(&ty) {
            let file = case["file"].as_str().unwrap();
            assert_same_bytes(file, &encode_source(ty, importance), &bytes(file));
            tested.push(ty);
        }
    }
    // F32 has no vector; nine formats have one with importance too.
    assert!(ENCODERS.iter().all(|ty| tested.contains(ty) || *ty == TensorType::F32));
    assert_eq!(tested.len(), ENCODERS.len() - 1 + 9);
}

#[test]
fn importance_is_ignored_where_the_format_has_no_search() {
    use TensorType::*;
    let importance = floats("encode.imatrix.f32");
    for ty in [F32, F16, BF16, Q1_0, Q2_0, Q8_0, MXFP4, NVFP4, TQ1_0, TQ2_0] {
        assert_eq!(encode_source(ty, Some(&importance)), encode_source(ty, None), "{ty}");
    }
}

#[test]
fn non_finite_values_are_refused() {
    for ty in ENCODERS {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = [1.0; 512];
            values[300] = bad;
            let refusal = encoded(ty, &values, None).unwrap_err();
            assert!(matches!(refusal, Error::NonFinite { index: 300, .. }), "{ty}: {refusal}");
        }
    }
}

#[test]
fn unusable_importance_is_refused() {
    let values = [1.0; 256];
    let short = encoded(TensorType::Q4_K, &values, Some(&[1.0; 255]));
    assert_eq!(short, Err(Error::ImportanceLength { importance: 255, elements: 256 }));
    for bad in [-1.0, f32::INFINITY, f32::NAN] {
        let mut importance = [1.0; 256];
        importance[7] = bad;
        let refusal = encoded(TensorType::Q4_K, &values, Some(&importance));
        assert!(matches!(refusal, Err(Error::BadImportance { index: 7, .. })));
    }
}

#[test]
fn sizes_and_types_are_checked() {
    let mut out = [0; 144];
    let odd = encode_row(TensorType::Q4_K, &[0.0; 255], None, &mut out);
    assert!(matches!(odd, Err(Error::RowLength { elements: 255, .. })));
    let small = encode_row(TensorType::Q4_K, &[0.0; 256], None, &mut out[1..]);
    assert!(matches!(small, Err(Error::RowBytes { bytes: 143, .. })));
    let none = encode_row(TensorType::IQ1_S, &[0.0; 256], None, &mut out);
    assert!(matches!(none, Err(Error::Unsupported { ty: TensorType::IQ1_S, .. })));
}

/// Whatever is accepted passes the check of the scales and decodes to finite values.
#[test]
fn extreme_rows_are_either_encoded_or_refused() {
    let patterns: [fn(usize) -> f32; 9] = [
        |_| 0.0,
        |_| -0.0,
        |i| if i % 2 == 0 { f32::MAX } else { f32::MIN },
        |i| if i == 0 { f32::MAX } else { 1.0 },
        |_| f32::from_bits(1),
        |i| if i % 2 == 0 { 1e-40 } else { -1e-20 },
        |i| if i == 5 { 1e30 } else { 1e-30 },
        |i| (i as f32 - 128.0) * 500.0,
        |i| [1e-15, -1e-15, 0.0][i % 3],
    ];
    let importances: [Option<[f32; 256]>; 4] =
        [None, Some([0.0; 256]), Some([1e-38; 256]), Some([3e38; 256])];
    for ty in ENCODERS {
        for (p, pattern) in patterns.iter().enumerate() {
            let values: Vec<f32> = (0..256).map(pattern).collect();
            for importance in &importances {
                let importance = importance.as_ref().map(|w| w.as_slice());
                match encoded(ty, &values, importance) {
                    Ok(bytes) => {
                        assert_eq!(check_row(ty, &bytes), Ok(()), "{ty}, pattern {p}");
                        let back = decoded(ty, &bytes, 256);
                        assert!(back.iter().all(|v| v.is_finite()), "{ty}, pattern {p}");
                    }
                    Err(refusal) => {
                        assert!(matches!(refusal, Error::BadScale { .. }), "{ty}, pattern {p}");
                    }
                }
            }
        }
    }
}

/// The reference wraps below 2^-125; here the exponent stays at the smallest.
#[test]
fn mxfp4_clamps_its_exponent() {
    let ty = TensorType::MXFP4;
    assert_eq!(encoded(ty, &[0.0; 32], None).unwrap()[0], 0);
    assert_eq!(encoded(ty, &[f32::from_bits(1); 32], None).unwrap()[0], 0);
    // 2^-126, the smallest normal: its biased exponent is 1, two less would be negative.
    let smallest = f32::MIN_POSITIVE;
    let bytes = encoded(ty, &[smallest; 32], None).unwrap();
    assert_eq!(bytes[0], 0);
    assert_eq!(decoded(ty, &bytes, 32), [smallest; 32]);
    // The largest finite value is just under 2^128; with 2^125 as the real scale, 6 is the largest
    // code and stands for 1.5 * 2^127, which is finite.
    let bytes = encoded(ty, &[f32::MAX; 32], None).unwrap();
    assert_eq!(bytes[0], 252);
    assert!(decoded(ty, &bytes, 32).iter().all(|v| v.is_finite()));
}

/// Values that a format can hold exactly come back exactly.
#[test]
fn representable_rows_survive_the_round_trip() {
    use TensorType::*;
    let integers: Vec<f32> = (0..256).map(|i| (i % 16) as f32 - 8.0).collect();
    let trits: Vec<f32> = (0..256).map(|i| ((i * 7) % 3) as f32 - 1.0).collect();
    // The NVFP4 encoder brings the largest value to 6, so that its scale is exactly one here.
    let sixes: Vec<f32> = trits.iter().map(|t| 6.0 * t).collect();
    let signs: Vec<f32> = (0..256).map(|i| if i % 5 < 2 { 0.5 } else { -0.5 }).collect();
    let rows = [
        (vec![F32, F16, BF16, Q4_0, Q5_0], &integers),
        (vec![Q2_0, TQ1_0, TQ2_0, MXFP4], &trits),
        (vec![NVFP4], &sixes),
        (vec![Q1_0], &signs),
    ];
    for (types, row) in rows {
        for ty in types {
            let bytes = encoded(ty, row, None).unwrap();
            assert_eq!(&decoded(ty, &bytes, 256), row, "{ty}");
        }
    }
}
