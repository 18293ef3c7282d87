//! The table of tensor types: id, name, block shape. One row per id of `docs/formats.md`
//! section 1; every size in the crate comes from here.

use std::fmt;

/// How the elements of a tensor are stored.
///
/// The names are the usual ggml names. A block is `block_elements` consecutive elements of one
/// row in `block_bytes` bytes; there is no padding inside or between blocks.
#[allow(non_camel_case_types, missing_docs)]
#[derive(Copy, Clone, Eq, PartialEq, Hash, Debug)]
pub enum TensorType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ2_XXS,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    I8,
    I16,
    I32,
    I64,
    F64,
    IQ1_M,
    BF16,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Q1_0,
    Q2_0,
}

struct Row {
    ty: TensorType,
    id: u32,
    name: &'static str,
    elements: usize,
    bytes: usize,
}

const fn row(ty: TensorType, id: u32, name: &'static str, elements: usize, bytes: usize) -> Row {
    Row { ty, id, name, elements, bytes }
}

/// Indexed by the enum's discriminant, which the assertion below holds it to.
const TABLE: [Row; 35] = [
    row(TensorType::F32, 0, "F32", 1, 4),
    row(TensorType::F16, 1, "F16", 1, 2),
    row(TensorType::Q4_0, 2, "Q4_0", 32, 18),
    row(TensorType::Q4_1, 3, "Q4_1", 32, 20),
    row(TensorType::Q5_0, 6, "Q5_0", 32, 22),
    row(TensorType::Q5_1, 7, "Q5_1", 32, 24),
    row(TensorType::Q8_0, 8, "Q8_0", 32, 34),
    row(TensorType::Q8_1, 9, "Q8_1", 32, 36),
    row(TensorType::Q2_K, 10, "Q2_K", 256, 84),
    row(TensorType::Q3_K, 11, "Q3_K", 256, 110),
    row(TensorType::Q4_K, 12, "Q4_K", 256, 144),
    row(TensorType::Q5_K, 13, "Q5_K", 256, 176),
    row(TensorType::Q6_K, 14, "Q6_K", 256, 210),
    row(TensorType::Q8_K, 15, "Q8_K", 256, 292),
    row(TensorType::IQ2_XXS, 16, "IQ2_XXS", 256, 66),
    row(TensorType::IQ2_XS, 17, "IQ2_XS", 256, 74),
    row(TensorType::IQ3_XXS, 18, "IQ3_XXS", 256, 98),
    row(TensorType::IQ1_S, 19, "IQ1_S", 256, 50),
    row(TensorType::IQ4_NL, 20, "IQ4_NL", 32, 18),
    row(TensorType::IQ3_S, 21, "IQ3_S", 256, 110),
    row(TensorType::IQ2_S, 22, "IQ2_S", 256, 82),
    row(TensorType::IQ4_XS, 23, "IQ4_XS", 256, 136),
    row(TensorType::I8, 24, "I8", 1, 1),
    row(TensorType::I16, 25, "I16", 1, 2),
    row(TensorType::I32, 26, "I32", 1, 4),
    row(TensorType::I64, 27, "I64", 1, 8),
    row(TensorType::F64, 28, "F64", 1, 8),
    row(TensorType::IQ1_M, 29, "IQ1_M", 256, 56),
    row(TensorType::BF16, 30, "BF16", 1, 2),
    row(TensorType::TQ1_0, 34, "TQ1_0", 256, 54),
    row(TensorType::TQ2_0, 35, "TQ2_0", 256, 66),
    row(TensorType::MXFP4, 39, "MXFP4", 32, 17),
    row(TensorType::NVFP4, 40, "NVFP4", 64, 36),
    row(TensorType::Q1_0, 41, "Q1_0", 128, 18),
    row(TensorType::Q2_0, 42, "Q2_0", 64, 18),
];

const TYPES: [TensorType; TABLE.len()] = {
    let mut types = [TensorType::F32; TABLE.len()];
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].ty as usize == i, "the table follows the order of the enum");
        types[i] = TABLE[i].ty;
        i += 1;
    }
    types
};

/// Ids that once had a meaning and may still be met in old files.
const RETIRED: [(u32, &str); 8] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

/// The id that a fork gave to its 2-bit layout of 128 elements in 34 bytes.
const FORK_GROUP_128: u32 = 142;

impl TensorType {
    /// Every type, in the order of the ids.
    pub const ALL: &'static [TensorType] = &TYPES;

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The type with this id in a file.
    ///
    /// # Errors
    /// [`TypeIdError`] for an id that is retired, a fork's, or not assigned.
    pub fn from_id(id: u32) -> Result<TensorType, TypeIdError> {
        if let Some(row) = TABLE.iter().find(|row| row.id == id) {
            return Ok(row.ty);
        }
        if id == FORK_GROUP_128 {
            return Err(TypeIdError::ForkGroup128 { id });
        }
        match RETIRED.iter().find(|(retired, _)| *retired == id) {
            Some(&(_, was)) => Err(TypeIdError::Retired { id, was }),
            None => Err(TypeIdError::Unknown { id }),
        }
    }

    /// The type with this name, as [`TensorType::name`] spells it, in any letter case.
    pub fn from_name(name: &str) -> Option<TensorType> {
        TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.ty)
    }

    /// The id in a file.
    pub const fn id(self) -> u32 {
        self.row().id
    }

    /// The usual name, such as `Q4_K`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Elements in one block: 1 for the plain types.
    pub const fn block_elements(self) -> usize {
        self.row().elements
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        self.row().bytes
    }

    /// Bytes of a row of this many elements. `None` if the length is not a multiple of the
    /// block, or the number of bytes does not fit 64 bits.
    pub const fn row_bytes(self, elements: u64) -> Option<u64> {
        let block = self.block_elements() as u64;
        if !elements.is_multiple_of(block) {
            return None;
        }
        (elements / block).checked_mul(self.block_bytes() as u64)
    }

    /// True for the two types that exist for activations only and never as a weight.
    pub const fn is_activation_only(self) -> bool {
        matches!(self, TensorType::Q8_1 | TensorType::Q8_K)
    }

    /// True where an element is stored in several elements' common block.
    pub const fn is_quantized(self) -> bool {
        self.block_elements() > 1
    }

    /// The alignment in bytes at which an element can be read as one machine value: the size of
    /// an element of the plain types, 1 for the block types, whose fields are read bytewise.
    pub const fn natural_alignment(self) -> usize {
        if self.is_quantized() { 1 } else { self.block_bytes() }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a type id of a file is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TypeIdError {
    /// No type has this id.
    #[error("type id {id} is unknown; the highest known id is 42 (Q2_0)")]
    Unknown {
        /// The id as stored.
        id: u32,
    },
    /// The id belongs to a type that no longer exists.
    #[error("type id {id} ({was}) is retired; convert the model again from its original weights")]
    Retired {
        /// The id as stored.
        id: u32,
        /// The name that the type had.
        was: &'static str,
    },
    /// The id is a fork's 2-bit layout with groups of 128.
    #[error(
        "type id {id} is a fork's 2-bit layout (128-element blocks of 34 bytes), which is not \
         supported; the supported 2-bit layout is id 42, Q2_0 (64-element blocks of 18 bytes)"
    )]
    ForkGroup128 {
        /// The id as stored.
        id: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known fault 7: the block table was wrong for some types. The pairs are typed in again
    /// from the format table, sorted by name, so that a slip in one place shows.
    #[test]
    fn fault_007_block_table_agrees_with_the_format_table() {
        let expected = [
            ("BF16", 30, 1, 2),
            ("F16", 1, 1, 2),
            ("F32", 0, 1, 4),
            ("F64", 28, 1, 8),
            ("I16", 25, 1, 2),
            ("I32", 26, 1, 4),
            ("I64", 27, 1, 8),
            ("I8", 24, 1, 1),
            ("IQ1_M", 29, 256, 56),
            ("IQ1_S", 19, 256, 50),
            ("IQ2_S", 22, 256, 82),
            ("IQ2_XS", 17, 256, 74),
            ("IQ2_XXS", 16, 256, 66),
            ("IQ3_S", 21, 256, 110),
            ("IQ3_XXS", 18, 256, 98),
            ("IQ4_NL", 20, 32, 18),
            ("IQ4_XS", 23, 256, 136),
            ("MXFP4", 39, 32, 17),
            ("NVFP4", 40, 64, 36),
            ("Q1_0", 41, 128, 18),
            ("Q2_0", 42, 64, 18),
            ("Q2_K", 10, 256, 84),
            ("Q3_K", 11, 256, 110),
            ("Q4_0", 2, 32, 18),
            ("Q4_1", 3, 32, 20),
            ("Q4_K", 12, 256, 144),
            ("Q5_0", 6, 32, 22),
            ("Q5_1", 7, 32, 24),
            ("Q5_K", 13, 256, 176),
            ("Q6_K", 14, 256, 210),
            ("Q8_0", 8, 32, 34),
            ("Q8_1", 9, 32, 36),
            ("Q8_K", 15, 256, 292),
            ("TQ1_0", 34, 256, 54),
            ("TQ2_0", 35, 256, 66),
        ];
        assert_eq!(expected.len(), TensorType::ALL.len());
        for (name, id, elements, bytes) in expected {
            let ty = TensorType::from_name(name).unwrap();
            assert_eq!(ty.name(), name);
            assert_eq!((ty.id(), ty.block_elements(), ty.block_bytes()), (id, elements, bytes));
            assert_eq!(TensorType::from_id(id), Ok(ty));
            assert_eq!(ty.row_bytes(3 * elements as u64), Some(3 * bytes as u64));
        }
    }

    #[test]
    fn row_bytes_refuses_partial_blocks_and_overflow() {
        assert_eq!(TensorType::Q4_0.row_bytes(33), None);
        assert_eq!(TensorType::Q4_0.row_bytes(0), Some(0));
        assert_eq!(TensorType::F32.row_bytes(u64::MAX), None);
        assert_eq!(TensorType::I8.row_bytes(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn ids_without_a_type_say_what_they_are() {
        for id in [4, 5, 31, 32, 33, 36, 37, 38] {
            assert!(matches!(TensorType::from_id(id), Err(TypeIdError::Retired { .. })), "{id}");
        }
        for id in [43, 200, u32::MAX] {
            assert_eq!(TensorType::from_id(id), Err(TypeIdError::Unknown { id }));
        }
        let message = TensorType::from_id(142).unwrap_err().to_string();
        assert!(message.contains("34 bytes") && message.contains("18 bytes"), "{message}");
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(TensorType::from_name("q4_k"), Some(TensorType::Q4_K));
        assert_eq!(TensorType::from_name("Q4_K_M"), None);
    }
}
