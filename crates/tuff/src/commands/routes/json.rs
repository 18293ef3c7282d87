//! The report as JSON; its fields are documented in `docs/routes.md`.

use lab::routes::{HOTTEST, Routes, Statistics};
use serde_json::{Value, json};

/// The whole report.
pub(super) fn report(routes: &Routes, statistics: &Statistics) -> Value {
    let windows = statistics.windows.iter().map(|window| {
        json!({"tokens": window.tokens, "unique": window.unique, "uniform": window.uniform})
    });
    let reuse = statistics.reuse.iter().map(
        |reuse| json!({"distance": reuse.distance, "share": reuse.share, "uniform": reuse.uniform}),
    );
    let forecasts = statistics.forecasts.iter().map(|forecast| {
        json!({
            "name": forecast.name,
            "hit": forecast.hit,
            "first": forecast.first,
            "all": forecast.all,
        })
    });
    let coverage = statistics
        .coverage
        .iter()
        .map(|point| json!({"experts": point.experts, "same": point.same, "ahead": point.ahead}));
    let layers = statistics.layers.iter().map(|layer| {
        let hottest = HOTTEST.iter().zip(layer.hottest);
        let hottest = hottest.map(|(part, share)| json!({"part": part, "share": share}));
        json!({
            "hottest": hottest.collect::<Vec<_>>(),
            "entropy": layer.entropy,
            "unused": layer.unused,
        })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "about": routes.about,
        "tokens": routes.tokens.len(),
        "passages": routes.passages().count(),
        "experts": routes.experts,
        "used": routes.used,
        "windows": windows.collect::<Vec<_>>(),
        "reuse": reuse.collect::<Vec<_>>(),
        "forecasts": forecasts.collect::<Vec<_>>(),
        "coverage": coverage.collect::<Vec<_>>(),
        "layers": layers.collect::<Vec<_>>(),
    })
}
