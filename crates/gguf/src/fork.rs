//! Telling a fork's 2-bit layout from the upstream one. Both use type id 42, so only the room
//! between tensor offsets can say which is meant (`docs/formats.md` section 5.2).

use crate::TensorType;
use crate::fault::Fault;
use crate::layout::Section;
use crate::tensor::TensorInfo;

const GROUP: u64 = 128;
const GROUP_BYTES: u64 = 34;

/// What a tensor's room says about its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Too little for the upstream layout, exactly right for the fork's.
    Fork,
    /// Both layouts fit.
    Either,
    /// Not the fork's layout.
    NotFork,
}

/// Refuses a file whose tensors of id 42 all fit the fork's layout, at least one of them no
/// other. Expects the file's tensors sorted by offset.
pub(crate) fn check(order: &[&TensorInfo], section: &Section) -> Result<(), Fault> {
    let mut first = None;
    let (mut count, mut proof) = (0, false);
    for (i, tensor) in order.iter().enumerate() {
        if tensor.ty != TensorType::Q2_0 {
            continue;
        }
        match verdict(tensor, order.get(i + 1).copied(), section) {
            Verdict::Fork => proof = true,
            Verdict::Either => {}
            Verdict::NotFork => return Ok(()),
        }
        first = first.or(Some(tensor));
        count += 1;
    }
    match first {
        Some(tensor) if proof => Err(Fault::ForkGroup128 { tensor: tensor.name.clone(), count }),
        _ => Ok(()),
    }
}

fn verdict(tensor: &TensorInfo, next: Option<&TensorInfo>, section: &Section) -> Verdict {
    if !tensor.n_in().is_multiple_of(GROUP) {
        return Verdict::NotFork;
    }
    // A fork's block is smaller than two of ours, so this cannot overflow.
    let fork_bytes = tensor.elements() / GROUP * GROUP_BYTES;
    let padded = fork_bytes.next_multiple_of(section.alignment);
    let (room, exact) = match next {
        Some(next) => {
            let room = next.offset - tensor.offset;
            (room, room == padded)
        }
        None => {
            // The last tensor may lack its padding.
            let room = section.len().saturating_sub(tensor.offset);
            (room, room == fork_bytes || room == padded)
        }
    };
    let upstream_fits = room >= tensor.bytes;
    match (upstream_fits, exact) {
        (false, true) => Verdict::Fork,
        (true, true) => Verdict::Either,
        // Bytes may follow the last tensor, so there more room than needed says nothing.
        (true, false) if next.is_none() => Verdict::Either,
        _ => Verdict::NotFork,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dims: &[u64], offset: u64) -> TensorInfo {
        TensorInfo { offset, ..TensorInfo::new("w", dims, TensorType::Q2_0).unwrap() }
    }

    fn fork(tensors: &[TensorInfo], section_bytes: u64) -> bool {
        let section = Section { start: 0, alignment: 32, file_bytes: section_bytes };
        check(&tensors.iter().collect::<Vec<_>>(), &section).is_err()
    }

    #[test]
    fn the_room_decides() {
        // 4096 elements: 1152 bytes upstream, 1088 in the fork, both multiples of 32.
        let (a, upstream, packed) =
            (tensor(&[256, 16], 0), tensor(&[256, 16], 1152), tensor(&[256, 16], 1088));
        assert!(!fork(&[a.clone(), upstream], 2304));
        assert!(fork(&[a.clone(), packed.clone()], 2176));
        // The last may have trailing bytes; the first is proof enough.
        assert!(fork(&[a.clone(), packed], 5000));
        assert!(fork(std::slice::from_ref(&a), 1088));
        // A cut upstream file is not taken for a fork's.
        assert!(!fork(std::slice::from_ref(&a), 1151));
        assert!(!fork(&[a], 1152));
    }

    #[test]
    fn small_tensors_that_fit_both_prove_nothing_but_do_not_hinder() {
        // 128 elements: 36 bytes upstream, 34 in the fork, both padded to 64.
        let small = tensor(&[128], 0);
        assert!(!fork(&[small.clone(), tensor(&[128], 64)], 128));
        assert!(fork(&[small, tensor(&[256, 16], 64)], 64 + 1088));
    }

    #[test]
    fn rows_that_groups_of_128_cannot_fill_are_upstream() {
        let (first, second) = (tensor(&[64, 64], 0), tensor(&[64, 64], 1088));
        assert!(!fork(&[first, second], 2176));
    }
}
