//! Damaged and made-up files: whatever they hold, opening them returns.

use gguf::{Gguf, TensorType};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::builder::{ARRAY, BOOL, RawFile, STRING, U8, U32, array, check_message, string};

/// A file with something of everything.
fn sample() -> RawFile {
    let strings = [string("a"), string(""), string("mod\u{e8}le")].concat();
    RawFile::new()
        .pair("general.alignment", U32, &64u32.to_le_bytes())
        .pair("flag", BOOL, &[1])
        .pair("numbers", ARRAY, &array(U32, 3, &[7; 12]))
        .pair("bytes", ARRAY, &array(U8, 5, &[7; 5]))
        .pair("flags", ARRAY, &array(BOOL, 2, &[1, 0]))
        .pair("strings", ARRAY, &array(STRING, 3, &strings))
        .pair("empty", ARRAY, &array(STRING, 0, &[]))
        .f32("f32", &[8, 2], 0)
        .tensor("q4", &[64, 2], TensorType::Q4_0.id(), 64)
        .tensor("q2", &[128, 3], TensorType::Q2_0.id(), 192)
        .tensor("scalar", &[], TensorType::I64.id(), 320)
        .data(328)
}

fn sample_bytes() -> Vec<u8> {
    let mut file = sample();
    file.alignment = 64;
    file.bytes()
}

/// Opens and, if that succeeds, uses everything that was read.
fn exercise(bytes: &[u8]) {
    let model = match Gguf::from_bytes(bytes) {
        Ok(model) => model,
        Err(error) => return check_message(&error),
    };
    for (key, value) in model.metadata().iter() {
        assert!(value.describe().len() < 1000);
        assert_eq!(model.metadata().get(key), Some(value));
        let _ = model.metadata().get_u32(key);
        let _ = model.metadata().get_f32(key);
        let _ = model.metadata().get_u64_array(key);
        let _ = model.metadata().get_str_array(key);
    }
    let data: usize = model.tensors().iter().map(|tensor| model.bytes(tensor).len()).sum();
    assert!(data <= bytes.len());
    for tensor in model.tensors() {
        assert_eq!(tensor.rows() * tensor.row_bytes(), tensor.bytes);
        assert_eq!(model.tensor(&tensor.name), Some(tensor));
    }
}

#[test]
fn the_sample_is_well_formed() {
    assert_eq!(Gguf::from_bytes(&sample_bytes()).unwrap().tensors().len(), 4);
}

#[test]
fn truncation_at_every_byte() {
    let bytes = sample_bytes();
    for len in 0..bytes.len() {
        let error = Gguf::from_bytes(&bytes[..len]).unwrap_err();
        check_message(&error);
    }
}

#[test]
fn every_byte_set_to_every_edge_value() {
    let bytes = sample_bytes();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at].wrapping_sub(1)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            exercise(&changed);
        }
    }
}

#[test]
fn every_word_set_to_every_edge_value() {
    let bytes = sample_bytes();
    let words = [0, 1, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX, u64::MAX - 31];
    for at in 0..bytes.len() - 8 {
        for word in words {
            let mut changed = bytes.clone();
            changed[at..at + 8].copy_from_slice(&word.to_le_bytes());
            exercise(&changed);
        }
    }
}

/// One change of a file.
#[derive(Debug, Clone)]
enum Edit {
    Set(usize, u8),
    Word(usize, u64),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Copy(usize, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let words = select(vec![0u64, 1, 2, 5, 9, 42, 1 << 20, 1 << 40, 1 << 63, u64::MAX]);
    prop_oneof![
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        4 => (any::<usize>(), words).prop_map(|(at, word)| Edit::Word(at, word)),
        1 => (any::<usize>(), 1usize..40).prop_map(|(at, len)| Edit::Remove(at, len)),
        1 => (any::<usize>(), vec(any::<u8>(), 1..40)).prop_map(|(at, new)| Edit::Insert(at, new)),
        2 => (any::<usize>(), any::<usize>(), 1usize..64).prop_map(|(f, t, n)| Edit::Copy(f, t, n)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit) {
    let len = bytes.len();
    let span = |at: usize, n: usize| {
        let at = at % len.max(1);
        at..(at + n).min(len)
    };
    match edit {
        Edit::Set(at, byte) => bytes[span(*at, 1)].fill(*byte),
        Edit::Word(at, word) => {
            let place = &mut bytes[span(*at, 8)];
            let n = place.len();
            place.copy_from_slice(&word.to_le_bytes()[..n]);
        }
        Edit::Remove(at, n) => drop(bytes.drain(span(*at, *n))),
        Edit::Insert(at, new) => drop(bytes.splice(span(*at, 0), new.iter().copied())),
        Edit::Copy(from, to, n) => {
            let piece = bytes[span(*from, *n)].to_vec();
            bytes.splice(span(*to, piece.len()), piece);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files(edits in vec(edit(), 1..6)) {
        let mut bytes = sample_bytes();
        for edit in &edits {
            apply(&mut bytes, edit);
        }
        exercise(&bytes);
    }

    #[test]
    fn arbitrary_bytes_after_a_plausible_start(
        tensors in 0u64..4,
        pairs in 0u64..4,
        rest in vec(prop_oneof![3 => Just(0u8), 1 => 0u8..16, 1 => any::<u8>()], 0..400),
    ) {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(pairs.to_le_bytes());
        bytes.extend(rest);
        exercise(&bytes);
    }
}
