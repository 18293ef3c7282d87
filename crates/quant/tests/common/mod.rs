//! Access to the format vectors in `fixtures/formats`.

#![allow(dead_code, reason = "each test file uses its own part")]

use quant::TensorType;
use std::path::PathBuf;

/// Every type with a decoder that the vectors cover (Q8_1 has none).
pub(crate) const TYPES: [TensorType; 29] = {
    use TensorType::*;
    [
        F32, F16, BF16, Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K,
        Q8_K, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS, MXFP4, NVFP4,
        TQ1_0, TQ2_0,
    ]
};

/// The bytes of a file of the vectors.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../fixtures/formats", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The f32 values of a file of the vectors.
pub(crate) fn floats(name: &str) -> Vec<f32> {
    bytes(name).as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The manifest of the vectors.
pub(crate) fn manifest() -> serde_json::Value {
    serde_json::from_slice(&bytes("manifest.json")).unwrap()
}

/// Asserts equality as bits and names the first difference.
pub(crate) fn assert_same_bits(what: &str, ours: &[f32], expected: &[f32]) {
    assert_eq!(ours.len(), expected.len(), "{what}: length");
    for (i, (a, b)) in ours.iter().zip(expected).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "{what}: element {i} is {a}, expected {b}");
    }
}

/// Asserts equality of bytes and names the number of differences and the first.
pub(crate) fn assert_same_bytes(what: &str, ours: &[u8], expected: &[u8]) {
    assert_eq!(ours.len(), expected.len(), "{what}: length");
    let differing = ours.iter().zip(expected).filter(|(a, b)| a != b).count();
    let first = ours.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differing, 0, "{what}: {differing} bytes differ, first at {first:?}");
}
