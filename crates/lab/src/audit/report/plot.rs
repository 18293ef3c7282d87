//! Plots of a report: SVG with a legend in HTML beneath it, coloured by the page's style sheet.
//!
//! A value that cannot be drawn (not finite, zero, beyond reason) is left out; a plot of which
//! nothing is left is `None`. Colours come with marks and dashes, so that none is told by its
//! colour alone.

use super::svg::*;
use super::{Product, Report, WindowProfile};
use crate::audit::{Drop, Found};
use std::fmt::Write;

/// Products in the plot of gains.
pub(super) const GAINS: usize = 16;

/// Most rows in the plot of bandwidth.
pub(super) const MOST_ROWS: usize = 8;

/// Name of a product in legends: its first roles, and its shape.
pub(super) fn label(product: &Product) -> String {
    let mut roles = product.roles.iter().take(2).map(|role| cut(role, 24)).collect::<Vec<_>>();
    if product.roles.len() > 2 {
        roles.push(format!("{} more", product.roles.len() - 2));
    }
    format!("{} ({})", roles.join(", "), cut(&product.shape, 48))
}

/// Seconds that a window with the fewest rows measured spends in a product.
fn seconds(product: &Product) -> f64 {
    let least = product.found.iter().filter(|found| is_usable(found.best));
    let least = least.min_by_key(|found| found.rows);
    least.map_or(0.0, |found| product.uses as f64 * found.best)
}

/// The products, those that take the most time of a window first.
pub(super) fn by_time(products: &[Product]) -> Vec<&Product> {
    let mut all: Vec<_> = products.iter().collect();
    all.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    all
}

/// Operations for each byte that is moved.
pub(super) fn intensity(found: &Found) -> f64 {
    found.ops as f64 / found.bytes as f64
}

/// Operations a second, with the best tile.
pub(super) fn ops_a_second(found: &Found) -> f64 {
    found.ops as f64 / found.best
}

/// Whether a product is done with f32 activations.
pub(super) fn is_f32(found: &Found) -> bool {
    found.shape.ends_with("/f32")
}

fn product_entry(place: usize, product: &Product) -> (String, String) {
    let name = label(product);
    let hollow = product.found.iter().any(is_f32);
    let middle = (14.0, 7.0);
    (curve(place, &[(1.0, 7.0), (27.0, 7.0)]) + &mark(place, hollow, middle, &name), name)
}

/// Arithmetic intensity against operations a second, below what memory and arithmetic allow.
pub(super) fn roofline(report: &Report) -> Option<String> {
    let device = &report.device;
    let products = by_time(&report.products);
    let is_dot = |found: &&Found| is_usable(intensity(found)) && is_usable(ops_a_second(found));
    let dots: Vec<&Found> =
        products.iter().flat_map(|product| &product.found).filter(is_dot).collect();
    if dots.is_empty() {
        return None;
    }
    let ceilings = [("int8", device.int8_ops), ("f32", device.f32_ops)];
    let mut ceilings = ceilings.map(|(name, ops)| (name, ops, ops / device.memory()));
    ceilings.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
    let intensities = dots.iter().map(|found| intensity(found));
    // Room for the line of the memory on the left, for the ceilings on the right.
    let ridges = ceilings.iter().flat_map(|(.., ridge)| [ridge / 8.0, ridge * 1.5]);
    let x = Axis::log(
        "arithmetic intensity, operations per byte",
        intensities.chain(ridges),
        (LEFT, RIGHT),
    );
    let speeds = dots.iter().map(|found| ops_a_second(found) / 1e9);
    let limits =
        [device.memory() * x.low * 1.6, device.int8_ops, device.f32_ops].map(|ops| ops / 1e9);
    let y = Axis::log("Gop/s", speeds.chain(limits), (BOTTOM, TOP));
    let frame = Frame { x, y };
    let mut content = frame.grid();
    let mut entries = Vec::new();
    // Those that matter most come last, on top.
    for (place, product) in products.iter().enumerate().rev() {
        let dots: Vec<_> = product.found.iter().filter(is_dot).collect();
        let at = |found: &&Found| frame.at(intensity(found), ops_a_second(found) / 1e9);
        if place < COLOURS && dots.len() > 1 {
            content += &curve(place, &dots.iter().map(at).collect::<Vec<_>>());
        }
        for found in dots {
            let title = dot_title(product, found);
            content += &mark(place, is_f32(found), at(&found), &title);
        }
        if place < COLOURS {
            entries.insert(0, product_entry(place, product));
        }
    }
    content += &roof(&frame, device.memory(), ceilings);
    if products.len() > COLOURS {
        let others = format!("{} other products", products.len() - COLOURS);
        entries.push((mark(COLOURS, false, (14.0, 7.0), &others), others));
    }
    let fastest = dots.iter().map(|found| ops_a_second(found)).fold(0.0, f64::max);
    let description = format!(
        "{} products, {} points. The fastest reaches {} Gop/s. Memory gives {} GB/s; \
         arithmetic reaches {} Gop/s with int8 and {} with f32 activations.",
        products.len(),
        dots.len(),
        fixed(fastest / 1e9, 1),
        fixed(device.memory() / 1e9, 1),
        fixed(device.int8_ops / 1e9, 0),
        fixed(device.f32_ops / 1e9, 0)
    );
    let alt = Alt { id: "roofline", title: "Roofline of the products", description: &description };
    Some(svg(&alt, HEIGHT, &content) + &legend(&entries))
}

fn dot_title(product: &Product, found: &Found) -> String {
    format!(
        "{}, T = {}: {:.1} Gop/s at {:.1} operations per byte, {:.2} GB/s",
        label(product),
        found.rows,
        ops_a_second(found) / 1e9,
        intensity(found),
        found.speed() / 1e9
    )
}

/// The line of the memory, and a ceiling for each precision from where it meets that line, the
/// highest first.
fn roof(frame: &Frame, memory: f64, ceilings: [(&str, f64, f64); 2]) -> String {
    let mut content = String::new();
    let (low, high) = (frame.x.low, frame.x.high);
    let mut last = f64::INFINITY;
    for (name, ops, ridge) in ceilings {
        if !is_usable(ops) {
            continue;
        }
        let start = if is_usable(ridge) { ridge.max(low) } else { low };
        let (from, to) = (frame.at(start, ops / 1e9), frame.at(high, ops / 1e9));
        content += &line("limit", from, to);
        // Two ceilings close together have their names on either side.
        let above = if (to.1 - last).abs() < 20.0 { 15.0 } else { -5.0 };
        let text = format!("{name} arithmetic {:.0} Gop/s", ops / 1e9);
        content += &words("note end", (to.0 - 4.0, to.1 + above), &text);
        last = to.1;
    }
    if is_usable(memory) {
        let highest = ceilings.iter().map(|(.., ridge)| *ridge).filter(|ridge| is_usable(*ridge));
        let end = highest.fold(0.0, f64::max);
        let end = if end > low { end } else { high };
        let (from, to) = (frame.at(low, low * memory / 1e9), frame.at(end, end * memory / 1e9));
        content += &line("limit", from, to);
        let angle = (to.1 - from.1).atan2(to.0 - from.0).to_degrees();
        let (x, y) = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        let _ = writeln!(
            content,
            "<text class=\"note mid\" transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\" \
             dy=\"-6\">memory {:.1} GB/s</text>",
            memory / 1e9
        );
    }
    content
}

/// Bytes a second by the rows of the window, for the products that take the most time.
pub(super) fn bandwidth(report: &Report) -> Option<String> {
    let memory = report.device.memory() / 1e9;
    let is_point = |found: &&Found| found.rows <= MOST_ROWS && is_usable(found.speed());
    let lines: Vec<(usize, &Product, Vec<&Found>)> = by_time(&report.products)
        .into_iter()
        .take(COLOURS)
        .enumerate()
        .map(|(place, product)| (place, product, product.found.iter().filter(is_point).collect()))
        .filter(|(.., points): &(_, _, Vec<_>)| !points.is_empty())
        .collect();
    let points = lines.iter().flat_map(|(.., points)| points);
    let fastest = points.map(|found| found.speed() / 1e9).fold(0.0, f64::max);
    if lines.is_empty() {
        return None;
    }
    let highest = if is_usable(memory) { fastest.max(memory) } else { fastest };
    let frame = Frame {
        x: Axis::rows((LEFT, RIGHT)),
        y: Axis::linear("GB/s", highest * 1.12, (BOTTOM, TOP)),
    };
    let mut content = frame.grid();
    if is_usable(memory) {
        let y = frame.y.place(memory);
        content += &line("limit dashed", (LEFT, y), (RIGHT, y));
        content += &words("note end", (RIGHT - 4.0, y - 5.0), &format!("memory {memory:.1} GB/s"));
    }
    let mut entries = Vec::new();
    for (place, product, points) in &lines {
        let at = |found: &&Found| frame.at(found.rows as f64, found.speed() / 1e9);
        content += &curve(*place, &points.iter().map(at).collect::<Vec<_>>());
        for found in points {
            let title = dot_title(product, found);
            content += &mark(*place, is_f32(found), at(found), &title);
        }
        entries.push(product_entry(*place, product));
    }
    let description = format!(
        "{} products at up to {MOST_ROWS} rows. The fastest moves {fastest:.2} GB/s, memory \
         gives {} GB/s.",
        lines.len(),
        fixed(memory, 2)
    );
    let alt = Alt { id: "bandwidth", title: "Bandwidth by rows", description: &description };
    Some(svg(&alt, HEIGHT, &content) + &legend(&entries))
}

/// The products with a better tile than the built-in one, those that save the most first.
pub(super) fn gains(products: &[Product]) -> Vec<(&Product, &Found)> {
    let is_gain = |found: &&Found| {
        !found.tile.is_empty()
            && [found.built_in, found.best, found.ratio].map(is_usable) == [true; 3]
    };
    let mut all: Vec<_> = products
        .iter()
        .flat_map(|product| product.found.iter().filter(is_gain).map(move |found| (product, found)))
        .collect();
    let saved = |(product, found): &(&Product, &Found)| {
        product.uses as f64 * found.built_in * (1.0 - found.ratio)
    };
    all.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    all
}

/// Times with the built-in tile and with the best, the former being 100 %.
pub(super) fn before_after(report: &Report) -> Option<String> {
    const EACH: f64 = 50.0;
    let all = gains(&report.products);
    let shown = &all[..all.len().min(GAINS)];
    let most = shown.iter().map(|(_, found)| found.ratio).fold(1.0, f64::max);
    let x = Axis::linear("time, % of that with the built-in tile", most * 100.0, (14.0, 450.0));
    let bottom = TOP + EACH * shown.len() as f64;
    let mut content = x.ruler(bottom, TOP);
    for (i, (product, found)) in shown.iter().enumerate() {
        let y = TOP + EACH * i as f64;
        let name = format!("T = {}: {}", found.rows, label(product));
        content += &words("label", (x.from, y + 11.0), &cut(&name, 86));
        content += &before_after_bars(&x, y + 16.0, found, &name);
    }
    let best = shown.iter().map(|(_, found)| found.ratio).reduce(f64::min)?;
    let description = format!(
        "{} products with a better tile; the largest gain is {:.1} %.",
        shown.len(),
        (1.0 - best) * 100.0
    );
    let alt = Alt { id: "gains", title: "Times before and after", description: &description };
    let swatch = |class| bar(class, (2.0, 2.0), (24.0, 10.0), "");
    let entries =
        [(swatch("c8"), "built-in tile".to_owned()), (swatch("c0"), "best tile".to_owned())];
    Some(svg(&alt, bottom + 46.0, &content) + &legend(&entries))
}

fn before_after_bars(x: &Axis, y: f64, found: &Found, name: &str) -> String {
    let mut content = String::new();
    let change = (found.ratio - 1.0) * 100.0;
    let after = match is_usable(found.noise) {
        true => format!("{change:+.1} % \u{b1} {:.1}", found.noise * 100.0),
        false => format!("{change:+.1} %"),
    };
    let (before, after) = (duration(found.built_in), format!("{}, {after}", duration(found.best)));
    for (i, (class, share, text)) in
        [("c8", 1.0, before), ("c0", found.ratio, after)].into_iter().enumerate()
    {
        let (y, end) = (y + 13.0 * i as f64, x.place(share * 100.0));
        let title = format!("{name}: {text}");
        content += &bar(class, (x.from, y), (end - x.from, 11.0), &title);
        content += &words("value", (end + 6.0, y + 9.5), &text);
    }
    content
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// A group of parts of a window and its seconds.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) seconds: f64,
}

/// The groups of a window's parts, those that take the most time first, the smallest as one if they
/// are more than there are colours; then what is outside them.
pub(super) fn groups(window: &WindowProfile) -> Vec<Group> {
    let mut all: Vec<Group> = Vec::new();
    for part in window.parts.iter().filter(|part| is_usable(part.seconds)) {
        match all.iter_mut().find(|group| group.name == part.group) {
            Some(group) => group.seconds += part.seconds,
            None => all.push(Group { name: part.group.clone(), seconds: part.seconds }),
        }
    }
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    if all.len() > COLOURS {
        let small = all.split_off(COLOURS - 1);
        let name = format!("{} other groups", small.len());
        all.push(Group { name, seconds: small.iter().map(|group| group.seconds).sum() });
    }
    let outside = window.seconds - all.iter().map(|group| group.seconds).sum::<f64>();
    if is_usable(outside) {
        all.push(Group { name: "outside".to_owned(), seconds: outside });
    }
    all
}

/// The groups of a window's parts as one bar.
pub(super) fn window_bar(window: &WindowProfile) -> Option<String> {
    const TALL: f64 = 46.0;
    let all = groups(window);
    let total: f64 = all.iter().map(|group| group.seconds).sum();
    if !is_usable(total) {
        return None;
    }
    let x = Axis::linear("ms", total * 1e3, (14.0, RIGHT - 10.0));
    let (mut content, mut entries, mut begin) = (x.ruler(TOP + TALL + 6.0, TOP), vec![], 0.0);
    for (i, group) in all.iter().enumerate() {
        let class = colour(if group.name == "outside" { COLOURS } else { i });
        let share = group.seconds / total * 100.0;
        let text = format!("{}: {:.3} ms, {share:.1} %", group.name, group.seconds * 1e3);
        let (from, to) = (x.place(begin * 1e3), x.place((begin + group.seconds) * 1e3));
        content += &bar(&format!("{class} cell"), (from, TOP), (to - from, TALL), &text);
        let middle = f64::midpoint(from, to);
        if to - from > 7.0 * group.name.chars().count() as f64 + 8.0 {
            content += &words("inside mid", (middle, TOP + 19.0), &group.name);
        }
        if to - from > 36.0 {
            content += &words("inside mid", (middle, TOP + 35.0), &format!("{share:.0} %"));
        }
        begin += group.seconds;
        let swatch = bar(&class, (2.0, 1.0), (24.0, 12.0), "");
        entries.push((swatch, text));
    }
    let shares = all.iter().map(|g| format!("{} {:.0} %", g.name, g.seconds / total * 100.0));
    let description = shares.collect::<Vec<_>>().join(", ");
    let title = format!("Where the time of a window of {} goes", window.rows);
    let alt = Alt { id: "window", title: &title, description: &description };
    Some(svg(&alt, TOP + TALL + 52.0, &content) + &legend(&entries))
}

/// Operations a second over a time of load.
pub(super) fn clock(drop: &Drop) -> Option<String> {
    const LOW: f64 = 260.0;
    let highest = drop.tenths.iter().copied().filter(|ops| is_usable(*ops)).fold(0.0, f64::max);
    if !is_usable(highest) || !is_usable(drop.seconds) {
        return None;
    }
    let bottom = LOW - 46.0;
    let frame = Frame {
        x: Axis::linear("seconds of load", drop.seconds, (LEFT, RIGHT)),
        y: Axis::linear("Gop/s", highest / 1e9 * 1.15, (bottom, TOP)),
    };
    let each = drop.seconds / drop.tenths.len() as f64;
    let mut content = frame.grid();
    for (i, ops) in drop.tenths.iter().enumerate().filter(|(_, ops)| is_usable(**ops)) {
        let (begin, end) = (each * i as f64, each * (i + 1) as f64);
        let ((x, y), to) = (frame.at(begin, ops / 1e9), frame.x.place(end));
        let title = format!("{begin:.1} to {end:.1} s: {:.1} Gop/s", ops / 1e9);
        content += &bar("c0 cell", (x, y), (to - x, bottom - y), &title);
    }
    if is_usable(drop.first) {
        let y = frame.y.place(drop.first / 1e9);
        content += &line("limit dashed", (LEFT, y), (RIGHT, y));
        content += &words("note end", (RIGHT - 4.0, y - 5.0), "the first tenth's speed");
    }
    let description = format!(
        "{:.0} s of load: {} Gop/s in the first tenth, {} in the last.",
        drop.seconds,
        fixed(drop.first / 1e9, 0),
        fixed(drop.last / 1e9, 0)
    );
    let alt = Alt { id: "clock", title: "Speed under load", description: &description };
    Some(svg(&alt, LOW, &content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_some_ticks_and_not_many() {
        let ends = (0.0, 100.0);
        for exponent in -28..28 {
            let value = 3.0 * 10_f64.powi(exponent);
            let linear = Axis::linear("", value, ends).ticks();
            assert!((4..=9).contains(&linear.len()), "{value}: {linear:?}");
            for other in [value, value * 2.0, value * 50.0, 1.0, 1e29] {
                let log = Axis::log("", [value, other, f64::NAN].into_iter(), ends).ticks();
                assert!((1..=15).contains(&log.len()), "{value} to {other}: {log:?}");
            }
        }
        let rows: Vec<f64> = (1..=MOST_ROWS).map(|rows| rows as f64).collect();
        assert_eq!(Axis::rows(ends).ticks(), rows);
        assert_eq!(Axis::log("", std::iter::empty(), ends).ticks(), [1.0]);
    }

    #[test]
    fn places_are_on_the_axis_whatever_the_value() {
        let axis = Axis::log("", [1.0, 100.0].into_iter(), (300.0, 20.0));
        assert_eq!(axis.place(10.0), 160.0);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e300] {
            assert!((20.0..=300.0).contains(&axis.place(value)), "{value}");
        }
    }

    #[test]
    fn numbers_beside_axes_are_short() {
        let texts = [0.0, 0.30000000000000004, 20.0, 5000.0, 2e6, 5e-4].map(tick_text);
        assert_eq!(texts, ["0", "0.3", "20", "5000", "2e6", "5e-4"]);
    }
}
