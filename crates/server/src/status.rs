//! What goes on, in numbers: for `/v1/status`, `/metrics` and whoever watches.

use crate::memory::Memory;
use engine::batch::{Scheduler, SlotView, Totals};
use kernels::Backend;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time over which speeds are taken.
const SPAN: Duration = Duration::from_secs(5);
/// Time between readings that speeds are made of.
const GRAIN: Duration = Duration::from_millis(100);

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
    /// What computes.
    pub(crate) backend: &'static str,
    /// Prompt cache: bytes used, bytes that it may have, saved states.
    pub(crate) cache: Option<(usize, usize, usize)>,
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

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        let Totals { refused, ended, steps, reused, prefilled, generated, .. } = self.totals;
        let memory = Memory::now();
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
            },
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
    /// When, tokens drawn, tokens of prompts computed.
    readings: VecDeque<(Instant, u64, u64)>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { readings: VecDeque::new() }
    }

    /// Reads a scheduler between two steps.
    pub(crate) fn read<B: Backend>(&mut self, scheduler: &Scheduler<B>) -> Status {
        let (now, totals) = (Instant::now(), *scheduler.totals());
        let (generated, prefilled) = self.speeds(now, (totals.generated, totals.prefilled));
        let slots: Vec<SlotView> = scheduler.slots().collect();
        let per_token = scheduler.engine().cache_bytes_per_token();
        let tokens: usize = slots.iter().map(held).sum();
        let cache = scheduler.cache().map(|it| (it.bytes(), it.budget(), it.snapshots()));
        let idle = scheduler.is_idle();
        Status {
            slots,
            waiting: scheduler.waiting(),
            totals,
            // Who does nothing has no speed, however fast the latest request was.
            generated_per_second: if idle { 0.0 } else { generated },
            prefilled_per_second: if idle { 0.0 } else { prefilled },
            kv_bytes: tokens as u64 * per_token,
            backend: scheduler.engine().backend_name(),
            cache,
        }
    }

    fn speeds(&mut self, now: Instant, (generated, prefilled): (u64, u64)) -> (f64, f64) {
        while self.readings.front().is_some_and(|(at, ..)| now - *at > SPAN) {
            self.readings.pop_front();
        }
        if self.readings.back().is_none_or(|(at, ..)| now - *at >= GRAIN) {
            self.readings.push_back((now, generated, prefilled));
        }
        let Some(&(at, before, prompts)) = self.readings.front() else { return (0.0, 0.0) };
        let seconds = (now - at).as_secs_f64();
        if seconds <= 0.0 {
            return (0.0, 0.0);
        }
        ((generated - before) as f64 / seconds, (prefilled - prompts) as f64 / seconds)
    }
}

fn held(view: &SlotView) -> usize {
    match *view {
        SlotView::Free { held } => held,
        SlotView::Prompt { done, .. } => done,
        SlotView::Answer { prompt, drawn, .. } => prompt + drawn,
    }
}
