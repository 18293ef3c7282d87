//! The report for people.

use lab::routes::{Forecast, HOTTEST, Routes, Statistics};

use crate::table::{Side, table};
use crate::units;

/// The whole report.
pub(super) fn report(routes: &Routes, statistics: &Statistics) -> String {
    let parts = [
        head(routes),
        windows(statistics),
        reuse(statistics),
        forecasts(statistics),
        coverage(routes, statistics),
        layers(routes, statistics),
    ];
    parts.concat()
}

fn head(routes: &Routes) -> String {
    let Routes { about, layers, experts, used, tokens, .. } = routes;
    let passages = match routes.passages().count() {
        1 => String::new(),
        many => format!(" in {many} passages"),
    };
    let (tokens, layers) = (units::grouped(tokens.len() as u64), units::count(*layers, "layer"));
    format!("{about}\n{tokens} tokens{passages}, {layers}, {used} of {experts} experts\n")
}

fn windows(statistics: &Statistics) -> String {
    let columns = [
        ("tokens of a window", Side::Right),
        ("experts in use", Side::Right),
        ("if uniform", Side::Right),
        ("share of that", Side::Right),
    ];
    let rows = statistics.windows.iter().map(|window| {
        vec![
            window.tokens.to_string(),
            format!("{:.2}", window.unique),
            format!("{:.2}", window.uniform),
            units::percent(window.unique / window.uniform),
        ]
    });
    section("Experts that a window uses, of a layer", &columns, &rows.collect::<Vec<_>>())
}

fn reuse(statistics: &Statistics) -> String {
    let columns = [
        ("tokens earlier", Side::Right),
        ("experts used then, too", Side::Right),
        ("if uniform", Side::Right),
    ];
    let rows = statistics.reuse.iter().map(|reuse| {
        let shares = [reuse.share, reuse.uniform].map(units::percent);
        [vec![reuse.distance.to_string()], shares.to_vec()].concat()
    });
    section("Reuse of a token's experts", &columns, &rows.collect::<Vec<_>>())
}

fn forecasts(statistics: &Statistics) -> String {
    let columns = [
        ("next layer's router on", Side::Left),
        ("experts forecast", Side::Right),
        ("the first", Side::Right),
        ("all of a token", Side::Right),
    ];
    let row = |forecast: &Forecast| {
        let shares = [forecast.hit, forecast.first, forecast.all].map(units::percent);
        [vec![long_name(forecast.name).to_owned()], shares.to_vec()].concat()
    };
    section("Forecasts", &columns, &statistics.forecasts.iter().map(row).collect::<Vec<_>>())
}

/// What a forecast is made from.
pub(super) fn long_name(name: &str) -> &str {
    match name {
        "input before" => "this layer's expert input",
        "early" => "streams before this layer's experts",
        "late" => "streams after this layer",
        other => other,
    }
}

fn coverage(routes: &Routes, statistics: &Statistics) -> String {
    let columns = [
        ("hottest experts", Side::Right),
        ("of a layer", Side::Right),
        ("routings", Side::Right),
        ("known from the first half", Side::Right),
    ];
    let rows = statistics.coverage.iter().map(|point| {
        let part = point.experts as f64 / routes.experts as f64;
        let shares = [part, point.same, point.ahead].map(units::percent);
        [vec![point.experts.to_string()], shares.to_vec()].concat()
    });
    section(
        "Routings that the hottest experts of each layer have",
        &columns,
        &rows.collect::<Vec<_>>(),
    )
}

fn layers(routes: &Routes, statistics: &Statistics) -> String {
    let names = HOTTEST.map(|part| format!("hottest {} %", part * 100.0));
    let mut columns = vec![("layer", Side::Right)];
    columns.extend(names.iter().map(|name| (name.as_str(), Side::Right)));
    columns.extend([("entropy, bits", Side::Right), ("unused", Side::Right)]);
    let rows = statistics.layers.iter().enumerate().map(|(number, layer)| {
        let mut row = vec![number.to_string()];
        row.extend(layer.hottest.map(units::percent));
        row.extend([format!("{:.2}", layer.entropy), layer.unused.to_string()]);
        row
    });
    let most = (routes.experts as f64).log2();
    let title = format!("Routings of each layer (entropy if uniform: {most:.2} bits)");
    section(&title, &columns, &rows.collect::<Vec<_>>())
}

/// A table with its title; nothing where there are no rows.
pub(super) fn section(title: &str, columns: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{title}:\n\n{}", table(columns, rows)) }
}
