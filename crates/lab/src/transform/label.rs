//! The two metadata keys that speak of formats: a label, and the version of the block formats.

use gguf::{Metadata, TensorType, Value};

const FILE_TYPE: &str = "general.file_type";
const QUANTIZATION_VERSION: &str = "general.quantization_version";
/// The only version there has been since blocks have 16-bit scales.
const VERSION: u32 = 2;

/// A tensor's format and its number of values.
pub(crate) type Weight = (TensorType, u64);

/// Keeps the labels true: `general.file_type` changes if most values have another format than
/// before, and quantised tensors need `general.quantization_version`.
pub(crate) fn set_labels(metadata: &mut Metadata, before: Option<&[Weight]>, after: &[Weight]) {
    let now = most_values(after);
    let known = metadata.get(FILE_TYPE).is_some();
    let changed = before.is_none_or(|before| known && most_values(before) != now);
    if let Some(number) = now.and_then(file_type).filter(|_| changed) {
        metadata.insert(FILE_TYPE, Value::U32(number));
    }
    let quantised = after.iter().any(|(ty, _)| ty.is_quantized());
    if quantised && metadata.get(QUANTIZATION_VERSION).is_none() {
        metadata.insert(QUANTIZATION_VERSION, Value::U32(VERSION));
    }
}

/// The format that most values have.
fn most_values(weights: &[Weight]) -> Option<TensorType> {
    let total =
        |ty: TensorType| weights.iter().filter(|(t, _)| *t == ty).map(|(_, n)| n).sum::<u64>();
    TensorType::ALL.iter().copied().max_by_key(|ty| total(*ty)).filter(|ty| total(*ty) > 0)
}

/// The label of a file that is mostly of this format (docs/formats.md, section 1).
fn file_type(ty: TensorType) -> Option<u32> {
    Some(match ty {
        TensorType::F32 => 0,
        TensorType::F16 => 1,
        TensorType::Q4_0 => 2,
        TensorType::Q4_1 => 3,
        TensorType::Q8_0 => 7,
        TensorType::Q5_0 => 8,
        TensorType::Q5_1 => 9,
        TensorType::Q2_K => 10,
        TensorType::Q3_K => 12,
        TensorType::Q4_K => 15,
        TensorType::Q5_K => 17,
        TensorType::Q6_K => 18,
        TensorType::IQ2_XXS => 19,
        TensorType::IQ2_XS => 20,
        TensorType::IQ3_XXS => 23,
        TensorType::IQ1_S => 24,
        TensorType::IQ4_NL => 25,
        TensorType::IQ3_S => 26,
        TensorType::IQ2_S => 28,
        TensorType::IQ4_XS => 30,
        TensorType::IQ1_M => 31,
        TensorType::BF16 => 32,
        TensorType::TQ1_0 => 36,
        TensorType::TQ2_0 => 37,
        TensorType::MXFP4 => 38,
        TensorType::NVFP4 => 39,
        TensorType::Q1_0 => 40,
        TensorType::Q2_0 => 41,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_follows_the_majority_only() {
        let mut metadata = Metadata::new();
        metadata.insert(FILE_TYPE, 26u32);
        let before = [(TensorType::IQ3_S, 10), (TensorType::Q5_K, 6)];
        set_labels(&mut metadata, Some(&before), &[(TensorType::IQ3_S, 10), (TensorType::Q8_0, 6)]);
        assert_eq!(metadata.get(FILE_TYPE), Some(&Value::U32(26)));
        set_labels(&mut metadata, Some(&before), &[(TensorType::Q4_0, 10), (TensorType::Q8_0, 6)]);
        assert_eq!(metadata.get(FILE_TYPE), Some(&Value::U32(2)));
        assert_eq!(metadata.get(QUANTIZATION_VERSION), Some(&Value::U32(2)));
    }

    #[test]
    fn a_file_without_a_label_gets_none_from_requantising() {
        let mut metadata = Metadata::new();
        let before = [(TensorType::F32, 1)];
        set_labels(&mut metadata, Some(&before), &[(TensorType::F16, 1)]);
        assert!(metadata.is_empty());
        set_labels(&mut metadata, None, &[(TensorType::F16, 1)]);
        assert_eq!(metadata.get(FILE_TYPE), Some(&Value::U32(1)));
    }
}
