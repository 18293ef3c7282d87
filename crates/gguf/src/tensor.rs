//! The description of a tensor, and the checks of its name and shape that reader and writer
//! share.

use crate::TensorType;
use crate::fault::Fault;

/// The longest tensor name, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// The largest number of dimensions.
pub(crate) const MAX_DIMS: u32 = 4;

/// A tensor of a model: name, shape, type, and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name, unique in the model.
    pub name: String,
    /// Elements per dimension in ggml order: `dims[0]` is the length of a contiguous row. At
    /// most four, none zero; no dimensions at all is a scalar.
    pub dims: Vec<u64>,
    /// How the elements are stored.
    pub ty: TensorType,
    /// First byte, relative to the data section of the tensor's part.
    pub offset: u64,
    /// Number of bytes, without padding.
    pub bytes: u64,
    /// The part of the model that holds it: an index into [`crate::Gguf::parts`].
    pub part: usize,
}

impl TensorInfo {
    /// Checks name-independent facts and computes the size.
    pub(crate) fn new(name: &str, dims: &[u64], ty: TensorType) -> Result<TensorInfo, Fault> {
        let bytes = checked_bytes(name, dims, ty)?;
        Ok(TensorInfo { name: name.to_owned(), dims: dims.to_vec(), ty, offset: 0, bytes, part: 0 })
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product, &dim| product.saturating_mul(dim))
    }

    /// The length of a row in elements: `dims[0]`, what a matrix takes in. 1 for a scalar.
    pub fn n_in(&self) -> u64 {
        self.dims.first().copied().unwrap_or(1)
    }

    /// The number of rows: the product of the other dimensions.
    pub fn rows(&self) -> u64 {
        self.dims.iter().skip(1).fold(1, |product, &dim| product.saturating_mul(dim))
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> u64 {
        self.ty.row_bytes(self.n_in()).unwrap_or(0)
    }
}

/// Refuses names that the format does not allow: empty, over 63 bytes, or with a NUL inside.
pub(crate) fn check_name(index: u64, at: u64, name: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::EmptyTensorName { index, at });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(Fault::LongTensorName { index, at, len: name.len() as u64 });
    }
    if name.contains('\0') {
        return Err(Fault::NulInTensorName { index, tensor: name.to_owned() });
    }
    Ok(())
}

/// The number of bytes of a tensor of this shape. All arithmetic is checked; the numbers of
/// elements and bytes stay below 2^63.
fn checked_bytes(name: &str, dims: &[u64], ty: TensorType) -> Result<u64, Fault> {
    let tensor = || name.to_owned();
    if dims.len() > MAX_DIMS as usize {
        return Err(Fault::DimensionCount { tensor: tensor(), count: dims.len() as u64, at: 0 });
    }
    if let Some(dimension) = dims.iter().position(|&dim| dim == 0) {
        return Err(Fault::ZeroDimension { tensor: tensor(), dimension, dims: dims.to_vec() });
    }
    let below_2_63 = |count: &u64| i64::try_from(*count).is_ok();
    let elements = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    let Some(elements) = elements.filter(below_2_63) else {
        return Err(Fault::ElementCount { tensor: tensor(), dims: dims.to_vec() });
    };
    if ty.is_activation_only() {
        return Err(Fault::ActivationType { tensor: tensor(), ty });
    }
    let row = dims.first().copied().unwrap_or(1);
    if !row.is_multiple_of(ty.block_elements() as u64) {
        return Err(Fault::RowLength { tensor: tensor(), row, ty });
    }
    // Rows hold whole blocks, so the whole tensor counts as one row.
    match ty.row_bytes(elements).filter(below_2_63) {
        Some(bytes) => Ok(bytes),
        None => Err(Fault::ByteCount { tensor: tensor(), ty, dims: dims.to_vec() }),
    }
}

/// Indices of the tensors sorted by name, those of one name in listing order.
pub(crate) fn name_order(tensors: &[TensorInfo]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_unstable_by(|&a, &b| (&tensors[a].name, a).cmp(&(&tensors[b].name, b)));
    order
}

/// The first two tensors of one name, given the order by name.
pub(crate) fn duplicate(tensors: &[TensorInfo], order: &[usize]) -> Option<(usize, usize)> {
    let same = order.windows(2).find(|pair| tensors[pair[0]].name == tensors[pair[1]].name)?;
    Some((same[0], same[1]))
}

/// Refuses two tensors of one name in one file; returns the order by name.
pub(crate) fn check_unique(tensors: &[TensorInfo]) -> Result<Vec<usize>, Fault> {
    let order = name_order(tensors);
    match duplicate(tensors, &order) {
        None => Ok(order),
        Some((first, second)) => {
            let tensor = tensors[first].name.clone();
            Err(Fault::DuplicateTensor { tensor, first, second })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let info = TensorInfo::new("w", &[64, 3, 2], TensorType::Q4_0).unwrap();
        assert_eq!((info.elements(), info.n_in(), info.rows()), (384, 64, 6));
        assert_eq!((info.row_bytes(), info.bytes), (36, 216));
        let scalar = TensorInfo::new("s", &[], TensorType::F32).unwrap();
        assert_eq!((scalar.elements(), scalar.n_in(), scalar.rows()), (1, 1, 1));
        assert_eq!(scalar.bytes, 4);
        assert!(matches!(
            TensorInfo::new("s", &[], TensorType::Q4_0),
            Err(Fault::RowLength { row: 1, .. })
        ));
    }

    #[test]
    fn fault_001_products_that_wrap_are_refused() {
        let wrapping: [&[u64]; 5] = [
            &[1 << 32, 1 << 32],
            &[1 << 63],
            &[u64::MAX, u64::MAX, u64::MAX, u64::MAX],
            &[(1 << 42) + 1, 1 << 22],
            &[1 << 62, 2],
        ];
        for dims in wrapping {
            let fault = TensorInfo::new("w", dims, TensorType::F32).unwrap_err();
            assert!(matches!(fault, Fault::ElementCount { .. }), "{fault}");
        }
        // Fine as a number of elements, too much as a number of bytes.
        let fault = TensorInfo::new("w", &[1 << 61, 2], TensorType::F32).unwrap_err();
        assert!(matches!(fault, Fault::ByteCount { .. }), "{fault}");
    }
}
