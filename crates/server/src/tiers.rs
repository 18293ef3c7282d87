//! Where what the server works with lies: one tier for each kind of memory, with what takes how
//! much of it. `/v1/status`, `/metrics` and the page show whatever is listed here.

use crate::memory::Memory;
use crate::status::Status;
use kernels::host::{available_memory, total_memory};
use serde_json::{Map, Value, json};

/// A kind of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    /// Bytes in use by this server.
    pub(crate) used: u64,
    /// Bytes that there are, where that is known.
    pub(crate) limit: Option<u64>,
    /// Bytes that the system can still give, where that is known.
    pub(crate) available: Option<u64>,
    /// What takes the bytes in use, and how many.
    pub(crate) holds: Vec<(&'static str, u64)>,
}

impl Tier {
    pub(crate) fn json(&self) -> Value {
        let holds = self.holds.iter().map(|&(what, bytes)| (what.to_owned(), bytes.into()));
        json!({
            "name": self.name,
            "used_bytes": self.used,
            "limit_bytes": self.limit,
            "available_bytes": self.available,
            "holds": holds.collect::<Map<String, Value>>(),
        })
    }
}

/// Every tier that there is, the fastest first; the system is asked now. `file_bytes` are those of
/// the model's files.
pub(crate) fn tiers(status: &Status, file_bytes: Option<u64>) -> Vec<Tier> {
    let file = file_bytes.map(|bytes| Tier {
        name: "file",
        used: bytes,
        limit: None,
        available: None,
        holds: vec![("weights", bytes)],
    });
    [gpu(status), Memory::now().map(|memory| ram(status, memory, file_bytes)), file]
        .into_iter()
        .flatten()
        .collect()
}

/// A device's own memory, if it has one. How much there is, its interface does not tell.
fn gpu(status: &Status) -> Option<Tier> {
    let memory = status.device_memory?;
    let rest = memory.used - memory.weights;
    Some(Tier {
        name: "gpu",
        used: memory.used,
        limit: None,
        available: None,
        holds: vec![("weights", memory.weights), ("states_and_buffers", rest)],
    })
}

/// Memory of the process. Mapped files are the model, and the program itself, which is small: what
/// is more than all of the model is counted to the program.
fn ram(status: &Status, memory: Memory, file_bytes: Option<u64>) -> Tier {
    let weights = memory.file.min(file_bytes.unwrap_or(u64::MAX)).min(memory.resident);
    // A device with memory of its own keeps them there.
    let kv = if status.device_memory.is_some() { 0 } else { status.kv_bytes };
    let cache = status.cache.map_or(0, |(used, ..)| used as u64);
    // Pages that were reserved and not written yet are not resident.
    let own = memory.resident.saturating_sub(memory.file);
    let experts = status.experts.map_or(0, |experts| experts.size.held_bytes);
    let kv = kv.min(own);
    let cache = cache.min(own - kv);
    let experts = experts.min(own - kv - cache);
    Tier {
        name: "ram",
        used: memory.resident,
        limit: total_memory(),
        available: available_memory(),
        holds: vec![
            ("weights", weights),
            ("experts", experts),
            ("keys_and_values", kv),
            ("prompt_cache", cache),
            ("other", memory.resident - weights - experts - kv - cache),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Experts;
    use engine::DeviceMemory;
    use engine::store::StoreSize;

    #[test]
    fn what_a_tier_holds_is_what_it_uses() {
        let cache = Some((300, 1000, 2));
        let mut status = Status { kv_bytes: 200, cache, ..Status::default() };
        let memory = Memory { resident: 5000, file: 4000 };
        let whole = |tier: &Tier| tier.holds.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let of = |weights, other| {
            let kept = [("keys_and_values", 200), ("prompt_cache", 300)];
            [("weights", weights), ("experts", 0), kept[0], kept[1], ("other", other)]
        };
        assert_eq!(ram(&status, memory, None).holds, of(4000, 500));
        assert_eq!(ram(&status, memory, Some(9000)).holds, of(4000, 500));
        // What is more than the model is the program.
        assert_eq!(ram(&status, memory, Some(3700)).holds, of(3700, 800));
        // What the engine counts may not be there in full.
        for (kv, cached) in [(900, 300), (5000, 1), (0, 2000)] {
            (status.kv_bytes, status.cache) = (kv, Some((cached, 0, 0)));
            assert_eq!(whole(&ram(&status, memory, Some(3999))), 5000, "{kv} {cached}");
        }
        (status.kv_bytes, status.cache) = (0, None);
        let size = StoreSize { held_bytes: 700, ..StoreSize::default() };
        status.experts = Some(Experts { size, ..Experts::default() });
        assert_eq!(ram(&status, memory, None).holds[1], ("experts", 700));
        assert_eq!(whole(&ram(&status, memory, None)), 5000);
        status.experts = None;
        assert_eq!(gpu(&status), None);
        status.device_memory = Some(DeviceMemory { used: 70, weights: 50 });
        assert_eq!(whole(&gpu(&status).unwrap()), 70);
        assert_eq!(ram(&status, memory, None).holds[2], ("keys_and_values", 0));
    }
}
