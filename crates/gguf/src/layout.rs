//! Where tensor data lies in a file: alignment, bounds, overlaps.

use crate::fault::Fault;
use crate::fork;
use crate::tensor::TensorInfo;

/// The data section of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    /// First byte of the section, counted from the start of the file. May be past the end of a
    /// file without tensors.
    pub(crate) start: u64,
    /// What tensor offsets are multiples of.
    pub(crate) alignment: u64,
    /// Bytes of the whole file.
    pub(crate) file_bytes: u64,
}

impl Section {
    /// The section that follows a header of `header_bytes`.
    pub(crate) fn after(header_bytes: u64, alignment: u32, file_bytes: u64) -> Section {
        let alignment = u64::from(alignment);
        // A header is in memory, so its length is far from the end of the number range.
        let start = header_bytes.next_multiple_of(alignment);
        Section { start, alignment, file_bytes }
    }

    /// Bytes of the section.
    pub(crate) fn len(&self) -> u64 {
        self.file_bytes.saturating_sub(self.start)
    }
}

/// Checks that all tensors lie in the section, aligned and without sharing bytes.
pub(crate) fn check(tensors: &[TensorInfo], section: &Section) -> Result<(), Fault> {
    if tensors.is_empty() {
        return Ok(());
    }
    let Section { start, alignment, file_bytes } = *section;
    if start > file_bytes {
        return Err(Fault::DataStart { data_start: start, alignment, file_bytes });
    }
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    // First, for its better explanation of the same overlaps and overruns.
    fork::check(&order, section)?;
    for tensor in tensors {
        check_place(tensor, section)?;
    }
    check_overlaps(&order)
}

fn check_place(tensor: &TensorInfo, section: &Section) -> Result<(), Fault> {
    let &TensorInfo { offset, bytes, ty, .. } = tensor;
    let Section { start, alignment, file_bytes } = *section;
    let name = || tensor.name.clone();
    if !offset.is_multiple_of(alignment) {
        return Err(Fault::Misaligned { tensor: name(), offset, alignment });
    }
    let end = offset.checked_add(bytes);
    if end.is_none_or(|end| end > section.len()) {
        let data_start = start;
        return Err(Fault::PastEnd { tensor: name(), offset, bytes, data_start, file_bytes });
    }
    let at = start + offset;
    if !at.is_multiple_of(ty.natural_alignment() as u64) {
        return Err(Fault::Unnatural { tensor: name(), ty, at });
    }
    Ok(())
}

/// Expects tensors sorted by offset, each with its end checked.
fn check_overlaps(order: &[&TensorInfo]) -> Result<(), Fault> {
    for pair in order.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if first.offset + first.bytes > second.offset {
            return Err(Fault::Overlap {
                first: first.name.clone(),
                first_offset: first.offset,
                first_bytes: first.bytes,
                second: second.name.clone(),
                second_offset: second.offset,
            });
        }
    }
    Ok(())
}
