//! `/metrics`, in the text format of Prometheus.

use crate::status::Experts;
use crate::status::{Status, Surroundings, rounded};
use crate::tiers::{Tier, tiers};
use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounterVec, Opts, Registry, TextEncoder, core::Collector,
    proto::MetricFamily,
};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Instant;

/// Bounds of times in seconds.
const SECONDS: [f64; 12] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// What is counted about requests. The engine counts for itself.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    first_token: Histogram,
    answers: Histogram,
}

impl Metrics {
    /// # Errors
    /// If a name is malformed, which none is.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let requests = Opts::new("tuff_http_requests_total", "Requests by path and status code.");
        let requests = IntCounterVec::new(requests, &["path", "status"])?;
        let seconds = |name: &str, help: &str| {
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(SECONDS.to_vec()))
        };
        let first_token = seconds(
            "tuff_first_event_seconds",
            "Time from a request to the first event of its answer.",
        )?;
        let answers = seconds("tuff_answer_seconds", "Time from a request to its whole answer.")?;
        let registry = Registry::new();
        let all: [Box<dyn Collector>; 3] =
            [Box::new(requests.clone()), Box::new(first_token.clone()), Box::new(answers.clone())];
        for collector in all {
            registry.register(collector)?;
        }
        Ok(Self { registry, requests, first_token, answers })
    }

    /// A request was answered with this status code. The path is that of the route: what clients
    /// make up must not become a label.
    pub(crate) fn request(&self, path: &str, status: u16) {
        self.requests.with_label_values(&[path, &status.to_string()]).inc();
    }

    pub(crate) fn first_event(&self, started: Instant) {
        self.first_token.observe(started.elapsed().as_secs_f64());
    }

    pub(crate) fn answered(&self, started: Instant) {
        self.answers.observe(started.elapsed().as_secs_f64());
    }

    /// How requests for work were answered; those that only look on are not counted.
    pub(crate) fn http(&self) -> Value {
        const LOOKING_ON: [&str; 6] =
            ["/", "/web/{file}", "/health", "/metrics", "/v1/status", "/v1/models"];
        let [mut answered, mut refused, mut busy, mut failed] = [0; 4];
        for metric in self.requests.collect().iter().flat_map(MetricFamily::get_metric) {
            let label = |name| metric.get_label().iter().find(|label| label.name() == name);
            let is_work = label("path").is_some_and(|it| !LOOKING_ON.contains(&it.value()));
            let status: u16 = label("status").and_then(|it| it.value().parse().ok()).unwrap_or(0);
            let count = match status {
                429 => &mut busy,
                400..=499 => &mut refused,
                500.. => &mut failed,
                _ => &mut answered,
            };
            // Counts of requests are whole numbers far below 2^53.
            *count += if is_work { metric.get_counter().get_value() as u64 } else { 0 };
        }
        let (events, seconds) =
            (self.first_token.get_sample_count(), self.first_token.get_sample_sum());
        json!({
            "answered": answered,
            "refused": refused,
            "busy": busy,
            "failed": failed,
            "first_event_seconds": (events > 0).then(|| rounded(seconds / events as f64)),
        })
    }

    /// Everything, with what the engine counts.
    pub(crate) fn text(&self, status: &Status, around: &Surroundings) -> String {
        let mut bytes = Vec::new();
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut bytes);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        let memory = resident_bytes().map(|bytes| {
            ("process_resident_memory_bytes", "gauge", "Memory of the process.", bytes as f64)
        });
        let around_values = around_values(around);
        let values = engine_values(status).into_iter().chain(memory).chain(around_values);
        for (name, kind, help, value) in values {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
        write_tiers(&tiers(status, around.machine.file_bytes), &mut text);
        text
    }
}

/// Memory that the process has; known where Linux tells it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Name, kind, explanation and value.
type Figure = (&'static str, &'static str, &'static str, f64);

/// What is known of the machine.
fn around_values(around: &Surroundings) -> impl Iterator<Item = Figure> + use<> {
    let Surroundings { machine, storage } = *around;
    let bandwidth = machine.read_bandwidth.map(|most| {
        let help = "Bytes a second that the processors read from memory, as measured at the start.";
        ("tuff_memory_bytes_per_second", "gauge", help, most)
    });
    let read = storage.map(|storage| {
        let help = "Bytes that the process read from storage.";
        ("tuff_storage_bytes_read_total", "counter", help, storage.bytes as f64)
    });
    bandwidth.into_iter().chain(read)
}

/// What lies in which memory; what is not known is left out.
fn write_tiers(tiers: &[Tier], text: &mut String) {
    let [used, limit, left] = ["tuff_tier_bytes", "tuff_tier_limit_bytes", "tuff_tier_left_bytes"];
    let _ = write!(text, "# HELP {used} Bytes in each kind of memory.\n# TYPE {used} gauge\n");
    for tier in tiers {
        for (what, bytes) in &tier.holds {
            let _ = writeln!(text, "{used}{{tier=\"{}\",holds=\"{what}\"}} {bytes}", tier.name);
        }
    }
    let limits = tiers.iter().map(|tier| (tier.name, tier.limit));
    write_known((limit, "Bytes that there are."), limits, text);
    let rest = tiers.iter().map(|tier| (tier.name, tier.available));
    write_known((left, "Bytes that the system can still give."), rest, text);
}

/// A figure of each tier that has it.
fn write_known(
    (name, help): (&str, &str),
    values: impl Iterator<Item = (&'static str, Option<u64>)>,
    text: &mut String,
) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
    for (tier, bytes) in values.filter_map(|(tier, bytes)| Some((tier, bytes?))) {
        let _ = writeln!(text, "{name}{{tier=\"{tier}\"}} {bytes}");
    }
}

fn engine_values(status: &Status) -> Vec<Figure> {
    let totals = &status.totals;
    let (used, budget, states) = status.cache.unwrap_or_default();
    let counter = |name, help, value: u64| (name, "counter", help, value as f64);
    let gauge = |name, help, value: f64| (name, "gauge", help, value);
    let seconds = status.weight_reads.time.as_secs_f64();
    let mut figures = vec![
        gauge("tuff_slots", "Slots.", status.slots.len() as f64),
        gauge("tuff_requests_live", "Requests that have a slot.", status.live() as f64),
        gauge("tuff_requests_waiting", "Requests that wait for one.", status.waiting as f64),
        counter("tuff_requests_ended_total", "Requests that ended.", totals.ended),
        counter("tuff_requests_refused_total", "Requests that were refused.", totals.refused),
        counter("tuff_steps_total", "Windows.", totals.steps),
        counter("tuff_prompt_tokens_total", "Tokens of prompts computed.", totals.prefilled),
        counter("tuff_prompt_tokens_reused_total", "Tokens of prompts reused.", totals.reused),
        counter("tuff_generated_tokens_total", "Tokens drawn.", totals.generated),
        counter("tuff_drafted_tokens_total", "Drafts verified.", totals.drafted),
        counter("tuff_accepted_tokens_total", "Drafts accepted.", totals.accepted),
        gauge("tuff_generated_tokens_per_second", "Speed lately.", status.generated_per_second),
        gauge("tuff_prompt_tokens_per_second", "Speed lately.", status.prefilled_per_second),
        counter(
            "tuff_weight_bytes_read_total",
            "Bytes of weights read.",
            status.weight_reads.bytes,
        ),
        ("tuff_pass_seconds_total", "counter", "Time in windows and drafts.", seconds),
        gauge("tuff_weight_bytes_per_second", "Speed lately.", status.weights_per_second),
        gauge("tuff_kv_bytes", "Keys and values in slots.", status.kv_bytes as f64),
        gauge("tuff_prompt_cache_bytes", "Bytes in the prompt cache.", used as f64),
        gauge("tuff_prompt_cache_budget_bytes", "Bytes that it may have.", budget as f64),
        gauge("tuff_prompt_cache_states", "States saved in it.", states as f64),
    ];
    if let Some(Experts { size, reads, .. }) = &status.experts {
        figures.extend([
            gauge("tuff_expert_slots", "Experts that memory has room for.", size.slots as f64),
            gauge("tuff_experts_held", "Experts in memory.", size.held as f64),
            counter("tuff_experts_wanted_total", "Experts that windows chose.", reads.wanted),
            counter("tuff_experts_found_total", "Of those, in memory.", reads.held),
            counter("tuff_expert_bytes_read_total", "Bytes read of experts.", reads.bytes),
            counter("tuff_expert_reads_failed_total", "Reads that failed.", reads.failed),
            (
                "tuff_expert_wait_seconds_total",
                "counter",
                "Time that windows waited for experts.",
                reads.waiting.as_secs_f64(),
            ),
        ]);
    }
    figures
}
