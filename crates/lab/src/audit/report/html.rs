//! The report as a page: one file that needs nothing else, for any browser.
//!
//! Well-formed as XML too. Whatever text comes from a file or a device is escaped where it is
//! written: in [`table`], [`paragraph`] and the plots.

use super::findings::{rows, says, tiles, verify_window};
use super::plot;
use super::svg::{COLOURS, PLUS_MINUS, cut, escaped, fixed, signed};
use super::{Effect, Product, Report, WindowProfile};
use crate::audit::{Drop, Found};
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --bg: #ffffff; --text: #1b1f24; --soft: #57606a;
  --line: #d0d7de; --box: #f6f8fa;
  --p0: #0072b2; --p1: #d55e00; --p2: #008a63; --p3: #b5488c; --p4: #8a6a00; --p5: #2f93cf;
  --p6: #7a1f3d; --p7: #4b4fa8; --p8: #8c959f; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --text: #e4e8ec; --soft: #9aa4ae;
  --line: #363d45; --box: #1d2126;
  --p0: #4aa8e0; --p1: #f5884a; --p2: #3cc79b; --p3: #e28fc2; --p4: #dcb53a; --p5: #a3dcff;
  --p6: #f0a3a8; --p7: #a9a5f5; --p8: #7d8790; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--bg);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 0.3rem; }
p { margin: 0.4rem 0; max-width: 46rem; }
.soft, figcaption { color: var(--soft); font-size: 0.9rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem;
  margin: 0.8rem 0; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; }
.says li { margin: 0.35rem 0; max-width: 46rem; }
.scroll, .plot { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px;
  background: var(--bg); margin: 0.5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.875rem; overflow-wrap: normal; }
th, td { padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; white-space: nowrap; }
th { background: var(--box); font-weight: 600; border-bottom: 1px solid var(--line); }
tbody tr + tr td { border-top: 1px solid var(--line); }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; }
td.wrap { white-space: normal; min-width: 23rem; max-width: 30rem; overflow-wrap: anywhere; }
tr.sum td { font-weight: 600; }
figure { margin: 0.5rem 0 1rem; }
.plot svg { display: block; width: 100%; min-width: 34rem; height: auto; }
.plot text { font: 12px system-ui, sans-serif; fill: var(--text); }
.plot text.tick, .plot text.value { fill: var(--soft); font-size: 11px; }
.plot text.note, .plot text.label { font-size: 11.5px; }
.plot text.note, .plot text.value, .plot text.label {
  stroke: var(--bg); stroke-width: 3px; paint-order: stroke; }
.plot text.inside { fill: var(--bg); font-weight: 600; }
.mid { text-anchor: middle; } .plot text.end { text-anchor: end; }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.limit { stroke: var(--text); stroke-width: 1.5; fill: none; }
.curve { stroke: var(--c); stroke-width: 1.8; fill: none; }
.dashed { stroke-dasharray: 6 4; }
.mark { stroke: var(--c); stroke-width: 1.6; }
.full { fill: var(--c); } .hollow { fill: var(--bg); }
rect { fill: var(--c); } .cell { stroke: var(--bg); stroke-width: 1; }
.c0 { --c: var(--p0); } .c1 { --c: var(--p1); } .c2 { --c: var(--p2); } .c3 { --c: var(--p3); }
.c4 { --c: var(--p4); } .c5 { --c: var(--p5); } .c6 { --c: var(--p6); } .c7 { --c: var(--p7); }
.c8 { --c: var(--p8); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.15rem 1.1rem; padding: 0;
  margin: 0.4rem 0; font-size: 0.85rem; }
.legend li { display: flex; align-items: center; gap: 0.4rem; }
.legend svg { flex: none; width: 28px; height: 14px; }
";

/// The whole report as an HTML page: facts, what they say, plots, and the tables of the Markdown
/// report.
pub fn html(report: &Report) -> String {
    let title = format!("Audit of {}", cut(model(report), 200));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        title = escaped(&title)
    );
    page += &facts(report);
    page += "<h2>What this says</h2>\n";
    page += &paragraph(
        "T is the number of rows of a window: 1 when decoding, 2 to 8 when checking drafts.",
    );
    page += "<ul class=\"says\">\n";
    for sentence in says(report) {
        let _ = writeln!(page, "<li>{}</li>", unbroken(&escaped(&sentence)));
    }
    page += "</ul>\n";
    page += &plots(report);
    page += &products(report);
    page += &effects(&report.effects);
    for window in &report.windows {
        page += &window_parts(window, report.device.memory());
    }
    page += &others(report);
    page += &notes(&report.notes);
    page + "</body>\n</html>\n"
}

/// Keeps numbers and what follows them on one line.
fn unbroken(text: &str) -> String {
    let text = text.replace(" %", "\u{a0}%").replace(" = ", "\u{a0}=\u{a0}");
    text.replace(&format!(" {PLUS_MINUS} "), &format!("\u{a0}{PLUS_MINUS}\u{a0}"))
}

fn model(report: &Report) -> &str {
    report.model.as_deref().unwrap_or("the shapes of the full-size model")
}

fn facts(report: &Report) -> String {
    let device = &report.device;
    let mut facts = vec![
        ("device", device.key.clone()),
        ("tuff", format!("{} on {}", report.version, report.backend)),
        (
            "memory",
            format!(
                "reads {} GB/s, copies {} GB/s (read and written)",
                fixed(device.read / 1e9, 1),
                fixed(device.copy / 1e9, 1)
            ),
        ),
        (
            "arithmetic",
            format!(
                "{} Gop/s with 8-bit activations, {} with f32, weights in the cache",
                fixed(device.int8_ops / 1e9, 0),
                fixed(device.f32_ops / 1e9, 0)
            ),
        ),
        ("start", format!("{} us for an operation without work", fixed(device.launch * 1e6, 2))),
        ("experts", format!("{} % shared by the rows of a window", fixed(report.share * 100.0, 0))),
        ("tile table", report.table.clone()),
    ];
    if let Some(drop) = &report.drop {
        facts.push(("lasting load", lasting(drop)));
    }
    let rows =
        facts.iter().map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(fact)));
    format!("<dl class=\"facts\">\n{}</dl>\n", rows.collect::<String>())
}

fn lasting(drop: &Drop) -> String {
    format!(
        "{} s: {} Gop/s in the first tenth, {} in the last ({} %)",
        fixed(drop.seconds, 0),
        fixed(drop.first / 1e9, 0),
        fixed(drop.last / 1e9, 0),
        signed((drop.last / drop.first - 1.0) * 100.0)
    )
}

fn plots(report: &Report) -> String {
    let all = report.products.len();
    let eight = match all > COLOURS {
        true => format!(
            " Of {all} products, the {} with the most time (uses x time at the fewest rows).",
            COLOURS
        ),
        false => String::new(),
    };
    let coloured = match all > COLOURS {
        true => format!(" Coloured: the {} products with the most time.", COLOURS),
        false => String::new(),
    };
    let mut text = "<h2>Plots</h2>\n".to_owned();
    text += &figure(
        "Roofline: what memory and arithmetic allow, and what the products reach",
        &format!(
            "A point for each product and number of rows T; along a line, T rises to the right. \
             Hollow marks: f32 activations. Points above the memory line had weights in the \
             cache.{coloured}"
        ),
        plot::roofline(report),
        "No product was measured.",
    );
    text += &figure(
        "Bandwidth by the rows of the window",
        &format!("Bytes moved by the time of a product with its best tile.{eight}"),
        plot::bandwidth(report),
        &format!("No product was measured at up to {} rows.", plot::MOST_ROWS),
    );
    text += &figure(
        "Before and after: better tiles",
        &shown_gains(report),
        plot::before_after(report),
        &format!("Nothing to show. {}", tiles(&report.products)),
    );
    let window = verify_window(&report.windows);
    let rows =
        window.map_or(String::new(), |window| format!(": a window of {}", rows(window.rows)));
    text += &figure(
        &format!("Where the time goes{rows}"),
        "The parts of the window by group; \"outside\" is what no part accounts for.",
        window.and_then(plot::window_bar),
        "No whole window was measured; that takes a model.",
    );
    if let Some(drop) = &report.drop {
        text += &figure(
            "Speed over time under load",
            "Arithmetic on all of the device, in tenths of the time; a clock that drops shows here.",
            plot::clock(drop),
            "The load gave no usable times.",
        );
    }
    text
}

fn shown_gains(report: &Report) -> String {
    let all = plot::gains(&report.products).len();
    let text = "Medians; the change is measured in turn, with its standard error.";
    match all > plot::GAINS {
        true => format!("{text} Of {all}, the {} that save the most in a window.", plot::GAINS),
        false => text.to_owned(),
    }
}

/// A plot with its heading and what to know of it, or a sentence in its place.
fn figure(title: &str, caption: &str, plot: Option<String>, without: &str) -> String {
    let title = escaped(title);
    match plot {
        Some(plot) => format!(
            "<h3>{title}</h3>\n<figure>\n{plot}<figcaption>{}</figcaption>\n</figure>\n",
            escaped(caption)
        ),
        None => format!("<h3>{title}</h3>\n{}", paragraph(without)),
    }
}

fn paragraph(text: &str) -> String {
    format!("<p class=\"soft\">{}</p>\n", escaped(text))
}

/// What a column holds.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Long,
    Number,
}

use Kind::{Long, Number, Text};

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Text => "",
            Long => " class=\"wrap\"",
            Number => " class=\"n\"",
        }
    }
}

/// A table in a box of its own that scrolls; a row shorter than the heads is left as it is.
fn table(name: &str, columns: &[(&str, Kind)], rows: &[Vec<String>]) -> String {
    let mut text = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table>\n\
         <thead><tr>",
        escaped(name)
    );
    for (head, kind) in columns {
        let class = if matches!(kind, Number) { " class=\"n\"" } else { "" };
        let _ = write!(text, "<th scope=\"col\"{class}>{}</th>", escaped(head));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in rows {
        let sum = if row.first().is_some_and(|cell| cell == ALL) { " class=\"sum\"" } else { "" };
        let _ = write!(text, "<tr{sum}>");
        for (cell, (_, kind)) in row.iter().zip(columns) {
            let _ = write!(text, "<td{}>{}</td>", kind.class(), escaped(cell));
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table>\n</div>\n"
}

/// First cell of a row with the sum of the others.
const ALL: &str = "all";

fn products(report: &Report) -> String {
    let head = "<h2>Products</h2>\n";
    let pairs =
        report.products.iter().flat_map(|product| product.found.iter().map(move |f| (product, f)));
    let rows: Vec<_> = pairs.map(|(product, found)| product_row(report, product, found)).collect();
    if rows.is_empty() {
        return format!("{head}{}", paragraph("No product was measured."));
    }
    let columns = [
        ("weights", Long),
        ("uses", Number),
        ("T", Number),
        ("us", Number),
        ("GB/s", Number),
        ("of memory", Number),
        ("Gop/s", Number),
        ("gain", Number),
        ("tile", Text),
    ];
    let text = "GB/s and shares of the bandwidth of memory (the better of reading and copying), with \
                the best tile; \
                \"gain\" is what it saves against the built-in one, measured in turn, with its \
                standard error.";
    format!("{head}{}{}", paragraph(text), table("Products", &columns, &rows))
}

fn product_row(report: &Report, product: &Product, found: &Found) -> Vec<String> {
    let (gain, noise) = ((1.0 - found.ratio) * 100.0, found.noise * 100.0);
    let gain = match found.tile[..] {
        [] => "-".to_owned(),
        _ => format!("{} % {PLUS_MINUS} {}", fixed(gain, 1), fixed(noise, 1)),
    };
    vec![
        format!("{} ({})", product.roles.join(", "), product.shape),
        product.uses.to_string(),
        found.rows.to_string(),
        fixed(found.best * 1e6, 1),
        fixed(found.speed() / 1e9, 2),
        percent(report.share_of_memory(found), 0),
        fixed(plot::ops_a_second(found) / 1e9, 1),
        gain,
        found.tile().to_string(),
    ]
}

fn percent(share: f64, digits: usize) -> String {
    if share.is_finite() { format!("{} %", fixed(share * 100.0, digits)) } else { "-".to_owned() }
}

fn effects(effects: &[Effect]) -> String {
    if effects.is_empty() {
        return String::new();
    }
    let row = |effect: &Effect| {
        let Effect { rows, before, after, noise, estimated_gain, used } = effect;
        vec![
            rows.to_string(),
            fixed(before * 1e3, 2),
            fixed(after * 1e3, 2),
            format!(
                "{} % {PLUS_MINUS} {}",
                signed((after / before - 1.0) * 100.0),
                fixed(noise * 100.0, 1)
            ),
            format!("{} %", signed(-estimated_gain / before * 100.0)),
            if *used { "yes" } else { "no" }.to_owned(),
        ]
    };
    let rows: Vec<_> = effects.iter().map(row).collect();
    let columns = [
        ("T", Number),
        ("before, ms", Number),
        ("after, ms", Number),
        ("change", Number),
        ("expected", Number),
        ("used", Text),
    ];
    let text = "Windows with the built-in tiles and with the table, in turn. \"Expected\" is what \
                the products' own gains add up to. Tiles are only used for windows that gain as a \
                whole: alone, a product finds the caches otherwise than between others.";
    format!(
        "<h2>Effect on a window</h2>\n{}{}",
        paragraph(text),
        table("Effect on a window", &columns, &rows)
    )
}

fn window_parts(window: &WindowProfile, memory: f64) -> String {
    let inside: f64 = window.parts.iter().map(|part| part.seconds).sum();
    let bytes: u64 = window.parts.iter().map(|part| part.bytes).sum();
    let row = |name: String, seconds: f64, bytes: u64| {
        let mut row = vec![name, fixed(seconds * 1e3, 3), percent(seconds / window.seconds, 1)];
        if bytes > 0 {
            let speed = bytes as f64 / seconds;
            row.push(fixed(bytes as f64 / 1e6, 2));
            row.push(fixed(speed / 1e9, 2));
            row.push(percent(speed / memory, 0));
        } else {
            row.resize(6, String::new());
        }
        row
    };
    let parts = window.parts.iter();
    let mut rows: Vec<_> = parts
        .map(|part| row(format!("{}: {}", part.group, part.name), part.seconds, part.bytes))
        .collect();
    rows.push(row("outside".to_owned(), window.seconds - inside, 0));
    rows.push(row(ALL.to_owned(), window.seconds, bytes));
    let columns = [
        ("part", Text),
        ("ms", Number),
        ("of the window", Number),
        ("MB", Number),
        ("GB/s", Number),
        ("of memory", Number),
    ];
    let name = format!("Where the time goes: a window of {}", super::findings::rows(window.rows));
    format!("<h2>{name}</h2>\n{}", table(&name, &columns, &rows))
}

fn others(report: &Report) -> String {
    if report.others.is_empty() {
        return String::new();
    }
    let others = report.others.iter().map(|other| {
        let speed = other.bytes as f64 / other.seconds;
        vec![
            other.case.clone(),
            other.rows.to_string(),
            fixed(other.seconds * 1e6, 1),
            fixed(speed / 1e9, 2),
            percent(speed / report.device.memory(), 0),
        ]
    });
    let columns = [
        ("operation", Text),
        ("T", Number),
        ("us", Number),
        ("GB/s", Number),
        ("of memory", Number),
    ];
    let name = "Other operations, at the sizes of the full-size model";
    format!("<h2>{name}</h2>\n{}", table(name, &columns, &others.collect::<Vec<_>>()))
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items = notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note)));
    format!("<h2>Notes</h2>\n<ul>\n{}</ul>\n", items.collect::<String>())
}
