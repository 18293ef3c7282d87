//! The report as Markdown.

use super::{Effect, Product, Report, WindowProfile};
use crate::audit::{Drop, Found};
use std::fmt::Write;

/// The whole report.
pub fn markdown(report: &Report) -> String {
    let mut text = head(report);
    for note in &report.notes {
        let _ = writeln!(text, "- {note}");
    }
    text += &products(report);
    if !report.effects.is_empty() {
        text += &effects(&report.effects);
    }
    for window in &report.windows {
        text += &window_parts(window, report.device.memory());
    }
    text += &others(report);
    text
}

fn head(report: &Report) -> String {
    let device = &report.device;
    let mut text = format!(
        "# Audit of {}\n\n\
         - device: {}, tuff {} on {}\n\
         - memory: reads {:.1} GB/s, copies {:.1} GB/s (read and written)\n\
         - arithmetic, weights in the cache: {:.0} Gop/s with 8-bit activations, {:.0} with f32\n\
         - an operation without work takes {:.2} us\n\
         - rows of a window have {:.0} % of their experts in common\n\
         - tile table: {}\n",
        report.model.as_deref().unwrap_or("the shapes of the full-size model"),
        device.key,
        report.version,
        report.backend,
        device.read / 1e9,
        device.copy / 1e9,
        device.int8_ops / 1e9,
        device.f32_ops / 1e9,
        device.launch * 1e6,
        report.share * 100.0,
        report.table,
    );
    if let Some(drop) = &report.drop {
        let _ = writeln!(text, "- {}", lasting(drop));
    }
    text
}

fn lasting(drop: &Drop) -> String {
    format!(
        "under {:.0} s of load: {:.0} Gop/s in the first tenth, {:.0} in the last ({:+.1} %)",
        drop.seconds,
        drop.first / 1e9,
        drop.last / 1e9,
        (drop.last / drop.first - 1.0) * 100.0
    )
}

fn products(report: &Report) -> String {
    let mut text =
        "\n## Products\n\nGB/s and shares of the bandwidth of memory (the better of \
                    reading and copying), with the best tile; \"gain\" is what it saves against the built-in one, measured in \
                    turn, with its standard error.\n\n\
                    | weights | uses | T | us | GB/s | of memory | Gop/s | gain | tile |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|---|\n"
            .to_owned();
    for product in &report.products {
        for found in &product.found {
            text += &product_row(report, product, found);
        }
    }
    text
}

fn product_row(report: &Report, product: &Product, found: &Found) -> String {
    let gain = match found.tile[..] {
        [] => "-".to_owned(),
        _ => format!("{:.1} % +- {:.1}", (1.0 - found.ratio) * 100.0, found.noise * 100.0),
    };
    format!(
        "| {} ({}) | {} | {} | {:.1} | {:.2} | {:.0} % | {:.1} | {gain} | {} |\n",
        product.roles.join(", "),
        product.shape,
        product.uses,
        found.rows,
        found.best * 1e6,
        found.speed() / 1e9,
        report.share_of_memory(found) * 100.0,
        found.ops as f64 / found.best / 1e9,
        found.tile(),
    )
}

fn effects(effects: &[Effect]) -> String {
    let mut text = "\n## Effect on a window\n\nWindows with the built-in tiles and with the table, \
                    in turn. \"Expected\" is what the products' own gains add up to. Tiles are only \
                    used for windows that gain as a whole: alone, a product finds the caches \
                    otherwise than between others.\n\n\
                    | T | before, ms | after, ms | change | expected | used |\n\
                    |---:|---:|---:|---:|---:|---|\n"
        .to_owned();
    for Effect { rows, before, after, noise, estimated_gain, used } in effects {
        let _ = writeln!(
            text,
            "| {rows} | {:.2} | {:.2} | {:+.1} % +- {:.1} | {:+.1} % | {} |",
            before * 1e3,
            after * 1e3,
            (after / before - 1.0) * 100.0,
            noise * 100.0,
            -estimated_gain / before * 100.0,
            if *used { "yes" } else { "no" }
        );
    }
    text
}

fn window_parts(window: &WindowProfile, memory: f64) -> String {
    let mut text = format!(
        "\n## Where the time goes: a window of {}\n\n\
         | part | ms | of the window | MB | GB/s | of memory |\n|---|---:|---:|---:|---:|---:|\n",
        window.rows
    );
    let inside: f64 = window.parts.iter().map(|part| part.seconds).sum();
    for part in &window.parts {
        let speed = part.bytes as f64 / part.seconds;
        let (mb, gb, share) = match part.bytes {
            0 => Default::default(),
            bytes => (
                format!("{:.2}", bytes as f64 / 1e6),
                format!("{:.2}", speed / 1e9),
                format!("{:.0} %", speed / memory * 100.0),
            ),
        };
        let _ = writeln!(
            text,
            "| {}: {} | {:.3} | {:.1} % | {mb} | {gb} | {share} |",
            part.group,
            part.name,
            part.seconds * 1e3,
            part.seconds / window.seconds * 100.0,
        );
    }
    let outside = window.seconds - inside;
    let bytes: u64 = window.parts.iter().map(|part| part.bytes).sum();
    let speed = bytes as f64 / window.seconds;
    let moved = match bytes {
        0 => " | | ".to_owned(),
        _ => format!(
            "{:.2} | {:.2} | {:.0} %",
            bytes as f64 / 1e6,
            speed / 1e9,
            speed / memory * 100.0
        ),
    };
    let _ = writeln!(
        text,
        "| outside | {:.3} | {:.1} % | | | |\n| **all** | {:.3} | 100 % | {moved} |",
        outside * 1e3,
        outside / window.seconds * 100.0,
        window.seconds * 1e3,
    );
    text
}

fn others(report: &Report) -> String {
    if report.others.is_empty() {
        return String::new();
    }
    let mut text = "\n## Other operations, at the sizes of the full-size model\n\n\
                    | operation | T | us | GB/s | of memory |\n|---|---:|---:|---:|---:|\n"
        .to_owned();
    for other in &report.others {
        let speed = other.bytes as f64 / other.seconds;
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.2} | {:.0} % |",
            other.case,
            other.rows,
            other.seconds * 1e6,
            speed / 1e9,
            speed / report.device.memory() * 100.0
        );
    }
    text
}
