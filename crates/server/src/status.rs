//! What goes on, in numbers: for `/v1/status`, `/metrics` and whoever watches.

use crate::config::Machine;
use crate::memory::Memory;
use crate::storage::StorageReads;
use crate::tiers::{Tier, tiers};
use engine::batch::{Scheduler, SlotView, Totals};
use engine::store::{Counters, ExpertStore, StoreSize};
use engine::{DeviceMemory, Stores, WeightReads};
use kernels::Backend;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time over which speeds are taken.
pub(crate) const SPAN: Duration = Duration::from_secs(5);
/// Time between readings that speeds are made of.
pub(crate) const GRAIN: Duration = Duration::from_millis(100);

/// The engine as it was after its latest step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    /// All slots.
    pub(crate) slots: Vec<SlotView>,
    /// Requests that wait.
    pub(crate) waiting: usize,
    /// Counts since the start.
    pub(crate) totals: Totals,
    /// Tokens drawn per second, lately.
    pub(crate) generated_per_second: f64,
    /// Tokens of prompts computed per second, lately.
    pub(crate) prefilled_per_second: f64,
    /// Bytes of keys and values that the slots hold.
    pub(crate) kv_bytes: u64,
    /// Weights read since the start.
    pub(crate) weight_reads: WeightReads,
    /// Bytes of weights read per second of windows and drafts, lately.
    pub(crate) weights_per_second: f64,
    /// Memory of a device that has its own.
    pub(crate) device_memory: Option<DeviceMemory>,
    /// What computes.
    pub(crate) backend: &'static str,
    /// What is read of experts, of a model that does not fit in memory.
    pub(crate) experts: Option<Experts>,
    /// Prompt cache: bytes used, bytes that it may have, saved states.
    pub(crate) cache: Option<(usize, usize, usize)>,
}

/// Experts that are read as they are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Experts {
    pub(crate) size: StoreSize,
    /// Since the start.
    pub(crate) reads: Counters,
    /// Share of those wanted that were in memory, lately; `None` while none are wanted.
    pub(crate) hit_rate: Option<f64>,
}

impl Experts {
    fn json(&self) -> Value {
        let Self { size, reads, hit_rate } = self;
        json!({
            "all": size.experts,
            "slots": size.slots,
            "held": size.held,
            "slot_bytes": size.bytes,
            "hit_rate": hit_rate.map(rounded),
            "totals": {
                "wanted": reads.wanted,
                "held": reads.held,
                "read_ahead": reads.expected,
                "read_in_vain": reads.in_vain,
                "read_bytes": reads.bytes,
                "seconds_reading": rounded(reads.reading.as_secs_f64()),
                "seconds_waited": rounded(reads.waiting.as_secs_f64()),
                "failed": reads.failed,
            },
        })
    }
}

/// What is around the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    pub(crate) machine: Machine,
    /// Where the system tells it.
    pub(crate) storage: Option<StorageReads>,
}

impl Status {
    /// Requests that have a slot.
    pub(crate) fn live(&self) -> usize {
        self.slots.iter().filter(|slot| !matches!(slot, SlotView::Free { .. })).count()
    }

    /// Share of drafts that were accepted; `None` before the first draft.
    pub(crate) fn acceptance(&self) -> Option<f64> {
        let Totals { drafted, accepted, .. } = self.totals;
        (drafted > 0).then(|| accepted as f64 / drafted as f64)
    }

    /// Share of the memory's bandwidth that the weights take, where the bandwidth is known.
    fn share(&self, machine: &Machine) -> Option<f64> {
        machine.read_bandwidth.map(|most| self.weights_per_second / most)
    }

    fn bandwidth(&self, around: &Surroundings) -> Value {
        let Surroundings { machine, storage } = around;
        let whole = |value: f64| value.round() as u64;
        json!({
            "weights_bytes_per_second": whole(self.weights_per_second),
            "experts": if self.weight_reads.assumed == 0 { "counted" } else { "assumed" },
            "memory_bytes_per_second": machine.read_bandwidth.map(whole),
            "share": self.share(machine).map(rounded),
            "storage_bytes_per_second": storage.and_then(|it| it.per_second).map(whole),
        })
    }

    /// As JSON.
    pub(crate) fn json(&self, around: &Surroundings) -> Value {
        let Totals { refused, ended, steps, reused, prefilled, generated, .. } = self.totals;
        let (memory, tiers) = (Memory::now(), tiers(self, around.machine.file_bytes));
        let cache = self.cache.map(|(used, budget, states)| {
            json!({"used_bytes": used, "budget_bytes": budget, "states": states})
        });
        json!({
            "slots": self.slots.iter().map(slot).collect::<Vec<_>>(),
            "queue": {"live": self.live(), "waiting": self.waiting},
            "tokens_per_second": {
                "generated": rounded(self.generated_per_second),
                "prompt": rounded(self.prefilled_per_second),
            },
            "speculation": {
                "drafted": self.totals.drafted,
                "accepted": self.totals.accepted,
                "acceptance": self.acceptance().map(rounded),
            },
            "totals": {
                "requests_ended": ended,
                "requests_refused": refused,
                "steps": steps,
                "prompt_tokens_reused": reused,
                "prompt_tokens_computed": prefilled,
                "tokens_generated": generated,
                "seconds_queued": rounded(self.totals.queued.as_secs_f64()),
            },
            "prompt_cache": cache,
            "memory": {
                "kv_bytes": self.kv_bytes,
                "resident_bytes": memory.map(|memory| memory.resident),
                "file_bytes": memory.map(|memory| memory.file),
                "tiers": tiers.iter().map(Tier::json).collect::<Vec<_>>(),
            },
            "bandwidth": self.bandwidth(around),
            "experts": self.experts.as_ref().map(Experts::json),
            "backend": self.backend,
        })
    }
}

fn slot(view: &SlotView) -> Value {
    match view {
        SlotView::Free { held } => json!({"state": "free", "held_tokens": held}),
        SlotView::Prompt { done, total, age, .. } => json!({
            "state": "prompt",
            "prompt_tokens": total,
            "done_tokens": done,
            "age_seconds": rounded(age.as_secs_f64()),
        }),
        SlotView::Answer { prompt, drawn, since, age, .. } => json!({
            "state": "answer",
            "prompt_tokens": prompt,
            "generated_tokens": drawn,
            "seconds": rounded(since.as_secs_f64()),
            "age_seconds": rounded(age.as_secs_f64()),
        }),
    }
}

/// Three digits behind the point are enough to look at.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Takes readings of a scheduler.
#[derive(Debug)]
pub(crate) struct Meter {
    readings: VecDeque<Reading>,
}

/// What speeds are made of: counts at a time.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// Tokens drawn.
    generated: u64,
    /// Tokens of prompts computed.
    prefilled: u64,
    weights: WeightReads,
    experts: Counters,
}

/// Per second, lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Speeds {
    generated: f64,
    prefilled: f64,
    /// Bytes of weights, per second of windows and drafts.
    weights: f64,
    /// Share of the experts wanted that were in memory.
    hit_rate: Option<f64>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { readings: VecDeque::new() }
    }

    /// Reads a scheduler between two steps.
    pub(crate) fn read<B: Backend>(&mut self, scheduler: &Scheduler<B>) -> Status {
        let (engine, totals) = (scheduler.engine(), *scheduler.totals());
        let weight_reads = engine.weight_reads();
        let Totals { generated, prefilled, .. } = totals;
        let store = engine.stores().and_then(Stores::experts);
        let reads = store.map(ExpertStore::counters).unwrap_or_default();
        let (at, weights, experts) = (Instant::now(), weight_reads, reads);
        let now = Reading { at, generated, prefilled, weights, experts };
        let speeds = self.speeds(now);
        // Who does nothing has no speed, however fast the latest request was.
        let speeds = if scheduler.is_idle() { Speeds::default() } else { speeds };
        let slots: Vec<SlotView> = scheduler.slots().collect();
        let tokens: usize = slots.iter().map(held).sum();
        Status {
            slots,
            waiting: scheduler.waiting(),
            totals,
            generated_per_second: speeds.generated,
            prefilled_per_second: speeds.prefilled,
            kv_bytes: tokens as u64 * engine.cache_bytes_per_token(),
            weight_reads,
            weights_per_second: speeds.weights,
            device_memory: engine.device_memory(),
            experts: store.map(|store| Experts {
                size: store.size(),
                reads,
                hit_rate: speeds.hit_rate,
            }),
            backend: engine.backend_name(),
            cache: scheduler.cache().map(|it| (it.bytes(), it.budget(), it.snapshots())),
        }
    }

    fn speeds(&mut self, now: Reading) -> Speeds {
        while self.readings.front().is_some_and(|reading| now.at - reading.at > SPAN) {
            self.readings.pop_front();
        }
        if self.readings.back().is_none_or(|reading| now.at - reading.at >= GRAIN) {
            self.readings.push_back(now);
        }
        let Some(first) = self.readings.front() else { return Speeds::default() };
        let per = |count: u64, time: Duration| match time.as_secs_f64() {
            0.0 => 0.0,
            seconds => count as f64 / seconds,
        };
        let span = now.at - first.at;
        let (weights, before) = (now.weights, first.weights);
        Speeds {
            generated: per(now.generated - first.generated, span),
            prefilled: per(now.prefilled - first.prefilled, span),
            weights: per(weights.bytes - before.bytes, weights.time - before.time),
            hit_rate: now.experts.since(&first.experts).hit_rate(),
        }
    }
}

fn held(view: &SlotView) -> usize {
    match *view {
        SlotView::Free { held } => held,
        SlotView::Prompt { done, .. } => done,
        SlotView::Answer { prompt, drawn, .. } => prompt + drawn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_per_second_of_windows_and_tokens_of_all_time() {
        let (start, mut meter) = (Instant::now(), Meter::new());
        let mut at = |seconds: u64, busy: u64, bytes| {
            let time = Duration::from_secs(busy);
            let weights = WeightReads { bytes, time, assumed: 0 };
            let at = start + Duration::from_secs(seconds);
            let experts = Counters { wanted: 10 * busy, held: 4 * busy, ..Counters::default() };
            meter.speeds(Reading { at, generated: 10 * seconds, prefilled: 0, weights, experts })
        };
        assert_eq!(at(0, 0, 0), Speeds::default());
        let hit_rate = Some(0.4);
        let speeds = Speeds { generated: 10.0, prefilled: 0.0, weights: 500.0, hit_rate };
        assert_eq!(at(4, 1, 500), speeds);
        // The first reading is too old by now.
        assert_eq!(at(6, 2, 800), Speeds { weights: 300.0, ..speeds });
        assert_eq!(at(7, 2, 800), Speeds { weights: 300.0, ..speeds });
        assert_eq!(at(30, 2, 800), Speeds::default());
    }
}
