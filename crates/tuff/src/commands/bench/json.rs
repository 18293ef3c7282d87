//! The report as JSON; its fields are documented in `docs/cli.md`.

use engine::timed::Part;
use serde_json::{Value, json};

use super::facts::{Facts, Format};
use super::measure::Sustained;
use super::plan::Plan;
use super::stats::{self, Figures, Use};
use super::{Measurements, limit, reads, spec};

/// The whole report.
pub(super) fn report(facts: &Facts, plan: &Plan, measured: &Measurements) -> Value {
    let windows = measured.windows.as_ref();
    let bandwidth = windows.map_or(f64::NAN, |results| results.bandwidth.bytes_per_second);
    let all = windows.map(stats::figures).unwrap_or_default();
    let drafts = plan.drafts.as_ref().zip(measured.drafts.as_ref());
    let machine = &facts.machine;
    json!({
        "version": facts.version,
        "model": {
            "file": facts.file,
            "file_bytes": facts.file_bytes,
            "weights": facts.weights,
            "weight_bytes": facts.weight_bytes,
            "formats": facts.formats.iter().map(format).collect::<Vec<_>>(),
        },
        "backend": machine.backend,
        "isa": machine.isa,
        "threads": machine.threads,
        "settings": {
            "chunk": plan.config.chunk,
            "kv": plan.config.kv.name(),
            "depth": plan.depth,
            "repetitions": plan.repetitions,
            "seed": plan.seed,
        },
        "bandwidth": windows.map(|results| json!({
            "bytes_per_second": bandwidth,
            "buffer_bytes": results.bandwidth.buffer_bytes,
        })),
        "tests": all.iter().map(|figures| test(figures, bandwidth)).collect::<Vec<_>>(),
        "sustained": windows.and_then(|results| results.sustained.as_ref()).map(sustained),
        "reads": windows.map(reads::json),
        "limit": windows.map(|_| limit::in_words(&all, bandwidth)),
        "drafts": drafts.map(|(plan, results)| spec::json_report(plan, results)),
    })
}

fn format(format: &Format) -> Value {
    json!({"format": format.ty.name(), "weights": format.weights, "bytes": format.bytes})
}

fn test(figures: &Figures<'_>, bandwidth: f64) -> Value {
    let (measured, spread) = (figures.measured, figures.tokens_per_second);
    let seconds = measured.samples.iter().map(|sample| sample.time.as_secs_f64());
    let part = |(part, of): &(Part, Use)| part_figures(*part, of, figures, bandwidth);
    let mut json = json!({
        "test": measured.test.kind.name(),
        "size": measured.test.size,
        "depth": measured.test.depth,
        "tokens": measured.test.tokens(),
        "windows": measured.windows,
        "seconds": seconds.collect::<Vec<_>>(),
        "tokens_per_second": {
            "median": spread.median,
            "best": spread.best,
            "deviation": spread.deviation,
        },
        "times_one_token": figures.times_one,
    });
    json["window"] = usage(&figures.window, bandwidth);
    json["parts"] = figures.parts.iter().map(part).collect();
    json["outside_seconds"] = figures.outside.into();
    json
}

fn part_figures(part: Part, of: &Use, figures: &Figures<'_>, bandwidth: f64) -> Value {
    let mut json = json!({"group": part.group.name(), "part": part.name});
    if let (Some(fields), Value::Object(more)) = (json.as_object_mut(), usage(of, bandwidth)) {
        fields.extend(more);
        fields.insert("share".to_owned(), (of.seconds / figures.window.seconds).into());
    }
    json
}

fn usage(of: &Use, bandwidth: f64) -> Value {
    json!({
        "seconds": of.seconds,
        "weight_bytes": of.weight_bytes,
        "state_bytes": of.state_bytes,
        "bytes_per_second": of.speed(),
        "of_bandwidth": of.speed().map(|speed| speed / bandwidth),
    })
}

fn sustained(sustained: &Sustained) -> Value {
    let ends = stats::ends(sustained);
    json!({
        "seconds": sustained.elapsed.as_secs_f64(),
        "tokens": sustained.tenths.iter().map(|tenth| tenth.tokens).sum::<usize>(),
        "first_tenth": ends.map(|(first, _)| first),
        "last_tenth": ends.map(|(_, last)| last),
        "tenths": sustained.tenths.iter().map(stats::speed).collect::<Vec<_>>(),
    })
}
