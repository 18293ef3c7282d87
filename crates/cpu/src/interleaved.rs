//! Weights that are kept a second time, in the order in which products read them: which ones, and
//! the memory they lie in. Their order is [`crate::int8`]'s matter.

use crate::int8::Product;
use crate::pool::Pool;
use crate::share::Shared;
use kernels::Weight;
use kernels::host::MemoryRoom;
use memmap2::{Advice, MmapMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which weights are interleaved when they are loaded: copied to memory in the order in which
/// products with 8-bit activations read them. That is faster, and takes their size once more for as
/// long as the file's own bytes stay in memory, too. No result depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interleave {
    /// None: they are read where the file is mapped.
    #[default]
    Nothing,
    /// As many as a part of the memory that is free at the start holds, experts up to a size that
    /// is copied in a few seconds; none where memory of the process is limited, of which mapped
    /// files are no part, and none of a model that does not fit.
    Auto,
    /// All but experts.
    Dense,
    /// All.
    All,
}

/// The part of the free memory that copies may take with [`Interleave::Auto`]: dense weights a
/// quarter, experts another.
const SHARE: u64 = 4;

/// Most bytes of dense weights with [`Interleave::Auto`] where the system does not tell what is
/// free.
const UNKNOWN: u64 = 4 << 30;

/// Most bytes of experts with [`Interleave::Auto`]: they are copied at some 2 GB/s, and a large
/// model reads but a few of them for a token.
const MOST_EXPERTS: u64 = 8 << 30;

/// Weights of one kind: what of them may be copied, and what is.
#[derive(Debug, Default)]
struct Kind {
    most: u64,
    used: Arc<AtomicU64>,
}

/// What may be copied.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    asked: Interleave,
    dense: Kind,
    experts: Kind,
}

/// A weight's rows in turn, in whole panels.
#[derive(Debug)]
pub(crate) struct Interleaved {
    bytes: MmapMut,
    used: Arc<AtomicU64>,
}

impl Interleaved {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Interleaved {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

impl Copies {
    /// Of what was asked for.
    pub(crate) fn name(&self) -> &'static str {
        match self.asked {
            Interleave::Nothing => "off",
            Interleave::Auto => "auto",
            Interleave::Dense => "dense",
            Interleave::All => "all",
        }
    }

    pub(crate) fn new(interleave: Interleave) -> Self {
        let limits = match interleave {
            Interleave::Nothing => [0, 0],
            Interleave::Auto => by_room(&MemoryRoom::now()),
            Interleave::Dense => [u64::MAX, 0],
            Interleave::All => [u64::MAX; 2],
        };
        let [dense, experts] = limits.map(|most| Kind { most, used: Arc::default() });
        Self { asked: interleave, dense, experts }
    }

    /// What was not asked for by name is not copied any more.
    pub(crate) fn spare_memory(&mut self) {
        if self.asked == Interleave::Auto {
            [&mut self.dense, &mut self.experts].into_iter().for_each(|kind| kind.most = 0);
        }
    }

    /// A copy of the weight, where there may be one and the system has the memory.
    pub(crate) fn make(
        &self,
        weight: &Weight,
        product: &Product,
        pool: &mut Pool,
    ) -> Option<Interleaved> {
        let (rows, row_bytes) = (product.panel_rows(), weight.row_bytes());
        let dense = weight.experts() == 1;
        let kind = if dense { &self.dense } else { &self.experts };
        // An expert's rows, and each half of gate and up in one, must be whole panels.
        let whole = dense || weight.n_out().is_multiple_of(2 * rows);
        let len = weight.rows().next_multiple_of(rows) * row_bytes;
        let room = kind.most.saturating_sub(kind.used.load(Ordering::Relaxed));
        if !product.interleaves() || !whole || len == 0 || len as u64 > room {
            return None;
        }
        let mut bytes = MmapMut::map_anon(len).ok()?;
        #[cfg(target_os = "linux")]
        // Only speed depends on it, and not every system has huge pages.
        let _ = bytes.advise(Advice::HugePage);
        kind.used.fetch_add(len as u64, Ordering::Relaxed);
        let panels: Vec<&[u8]> = weight.bytes().chunks(rows * row_bytes).collect();
        let out = Shared::new(&mut bytes);
        pool.run(panels.len(), &|i| {
            let own = i * rows * row_bytes..(i + 1) * rows * row_bytes;
            // SAFETY: a panel belongs to one task.
            product.interleave(panels[i], row_bytes, unsafe { out.slice(own) });
        });
        Some(Interleaved { bytes, used: kind.used.clone() })
    }
}

/// Bytes of dense weights and of experts that are copied with [`Interleave::Auto`].
fn by_room(room: &MemoryRoom) -> [u64; 2] {
    match (room.process, room.least()) {
        // Plans count mapped weights beside what the process may have.
        (Some(_), _) => [0, 0],
        (None, Some(free)) => [free / SHARE, (free / SHARE).min(MOST_EXPERTS)],
        (None, None) => [UNKNOWN, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::int8::Int8Kernels;
    use gguf::TensorType;
    use kernels::weight::WeightShape;

    fn weight(ty: TensorType, n_out: usize, experts: usize) -> Weight {
        let shape = WeightShape { n_in: 2 * ty.block_elements(), n_out, experts };
        let bytes: Vec<u8> =
            (0..2 * ty.block_bytes() * n_out * experts).map(|i| (i * 7 % 251) as u8).collect();
        Weight::new("w", ty, shape, bytes.into()).unwrap()
    }

    fn copied(copies: &Copies, weight: &Weight) -> Option<Interleaved> {
        let product = Int8Kernels::new(Isa::detect()).product(weight.ty()).unwrap();
        copies.make(weight, &product, &mut Pool::new(2))
    }

    #[test]
    fn what_is_copied_is_what_was_asked_for() {
        let (dense, experts) = (weight(TensorType::Q4_K, 40, 1), weight(TensorType::Q4_K, 32, 2));
        for (interleave, want) in [
            (Interleave::Nothing, [false, false]),
            (Interleave::Dense, [true, false]),
            (Interleave::All, [true, true]),
        ] {
            let copies = Copies::new(interleave);
            let found = [&dense, &experts].map(|weight| copied(&copies, weight).is_some());
            assert_eq!(found, want, "{interleave:?}");
        }
        // Halves of an expert that are no whole panels, and formats that are read row by row.
        let all = Copies::new(Interleave::All);
        assert!(copied(&all, &weight(TensorType::Q4_K, 20, 2)).is_none());
        assert!(copied(&all, &weight(TensorType::Q2_K, 32, 1)).is_none());
    }

    #[test]
    fn auto_takes_a_part_of_what_is_free_and_nothing_where_memory_is_short() {
        let free = |free| MemoryRoom { free: Some(free), ..MemoryRoom::default() };
        assert_eq!(by_room(&free(16 << 30)), [4 << 30, 4 << 30]);
        assert_eq!(by_room(&free(64 << 30)), [16 << 30, 8 << 30]);
        assert_eq!(
            by_room(&MemoryRoom { container: Some(4 << 30), ..free(16 << 30) }),
            [1 << 30; 2]
        );
        assert_eq!(by_room(&MemoryRoom { process: Some(64 << 30), ..free(64 << 30) }), [0, 0]);
        assert_eq!(by_room(&MemoryRoom::default()), [UNKNOWN, 0]);
        let weight = weight(TensorType::Q8_0, 32, 1);
        for (interleave, want) in [(Interleave::Auto, false), (Interleave::Dense, true)] {
            let mut copies = Copies::new(interleave);
            copies.spare_memory();
            assert_eq!(copied(&copies, &weight).is_some(), want, "{interleave:?}");
        }
    }

    #[test]
    fn a_limit_holds_for_what_lives() {
        let weight = weight(TensorType::Q8_0, 32, 1);
        let mut copies = Copies::new(Interleave::All);
        copies.dense.most = weight.bytes().len() as u64;
        let first = copied(&copies, &weight).unwrap();
        assert!(copied(&copies, &weight).is_none());
        drop(first);
        assert!(copied(&copies, &weight).is_some());
    }
}
