//! Plots of a report: SVG with a legend in HTML beneath it, coloured by the page's style sheet.
//!
//! A value that cannot be drawn (not finite, zero, beyond reason) is left out; a plot of which
//! nothing is left is `None`. Colours come with marks and dashes, so that none is told by its
//! colour alone.

use super::{Product, Report, WindowProfile};
use crate::audit::{Drop, Found};
use std::fmt::Write;

/// Products, or groups, that have a colour of their own.
pub(super) const COLOURS: usize = 8;

/// Products in the plot of gains.
pub(super) const GAINS: usize = 16;

/// Most rows in the plot of bandwidth.
pub(super) const MOST_ROWS: usize = 8;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 46.0;

/// Text for HTML or XML. What XML does not allow, or what turns the direction of text around,
/// becomes the replacement character.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

/// At most `most` characters of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(3)).chain("...".chars()).collect(),
        false => text.to_owned(),
    }
}

/// Whether a measured value can be drawn and reckoned with.
pub(super) fn is_usable(value: f64) -> bool {
    (1e-30..1e30).contains(&value)
}

/// A number with so many digits behind the point; a dash if it is none.
pub(super) fn fixed(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

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

#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Log,
}

/// Where values lie along one side of a plot.
struct Axis {
    name: &'static str,
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// From zero.
    fn linear(name: &'static str, high: f64, (from, to): (f64, f64)) -> Self {
        let high = if is_usable(high) { high } else { 1.0 };
        Self { name, scale: Scale::Linear, low: 0.0, high, from, to }
    }

    /// The rows of small windows, each with its tick.
    fn rows((from, to): (f64, f64)) -> Self {
        let (low, high) = (0.6, MOST_ROWS as f64 + 0.4);
        Self { name: "T, rows of the window", scale: Scale::Linear, low, high, from, to }
    }

    /// Around all of `values`, which are positive.
    fn log(name: &'static str, values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let values: Vec<f64> = values.filter(|value| is_usable(*value)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let (low, high) = if values.is_empty() { (1.0, 1.0) } else { (low, high) };
        Self { name, scale: Scale::Log, low: low / 1.6, high: high * 1.6, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let along = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        let along = if along.is_finite() { along.clamp(0.0, 1.0) } else { 0.0 };
        self.from + along * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let rough = (self.high - self.low) / 8.0;
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
                let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
                let first = (self.low / step).ceil();
                let ticks = (0..=8).map(|i| (first + f64::from(i)) * step);
                ticks.filter(|tick| *tick <= self.high).collect()
            }
            Scale::Log => {
                let powers = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
                let decades = (self.high / self.low).log10();
                let factors: &[f64] = if decades < 4.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let ticks = powers
                    .step_by((decades / 8.0) as usize + 1)
                    .flat_map(|power| factors.iter().map(move |f| f * 10_f64.powi(power)));
                ticks.filter(|tick| (self.low..=self.high).contains(tick)).collect()
            }
        }
    }
}

/// A value beside an axis.
fn tick_text(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if !(1e-3..1e6).contains(&v) => format!("{v:e}"),
        v => format!("{}", (v * 1e6).round() / 1e6),
    }
}

/// Two axes with their grid.
struct Frame {
    x: Axis,
    y: Axis,
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x.place(x), self.y.place(y))
    }

    fn grid(&self) -> String {
        let (mut text, bottom) = (String::new(), self.y.from);
        for tick in self.y.ticks() {
            let y = self.y.place(tick);
            text += &line("grid", (self.x.from, y), (self.x.to, y));
            text += &words("tick end", (self.x.from - 6.0, y + 4.0), &tick_text(tick));
        }
        let middle = f64::midpoint(self.y.from, self.y.to);
        let _ = writeln!(
            text,
            "<text class=\"name mid\" transform=\"translate(14 {middle:.1}) rotate(-90)\">\
             {}</text>",
            escaped(self.y.name)
        );
        text + &self.x.ruler(bottom, self.y.to)
    }
}

impl Axis {
    /// An axis along the foot of a plot, with grid lines up to `top`.
    fn ruler(&self, bottom: f64, top: f64) -> String {
        let mut text = String::new();
        for tick in self.ticks() {
            let x = self.place(tick);
            text += &line("grid", (x, bottom), (x, top));
            text += &words("tick mid", (x, bottom + 16.0), &tick_text(tick));
        }
        text += &line("axis", (self.from, bottom), (self.to, bottom));
        text + &words("name mid", (f64::midpoint(self.from, self.to), bottom + 36.0), self.name)
    }
}

fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!("<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\n")
}

fn words(class: &str, (x, y): (f64, f64), text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escaped(text))
}

fn bar(class: &str, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) -> String {
    let width = width.max(0.0);
    format!(
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\"><title>{}</title></rect>\n",
        escaped(title)
    )
}

/// A mark of a product: its colour and form by its place among the products, hollow for f32.
fn mark(place: usize, hollow: bool, (x, y): (f64, f64), title: &str) -> String {
    let path = match place % 4 {
        _ if place >= COLOURS => "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z",
        0 => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
        1 => "m-4 -4h8v8h-8z",
        2 => "m0 -5.5l5 9h-10z",
        _ => "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
    };
    let fill = if hollow { "hollow" } else { "full" };
    format!(
        "<path class=\"mark {fill} {}\" d=\"M{x:.1} {y:.1}{path}\"><title>{}</title></path>\n",
        colour(place),
        escaped(title)
    )
}

fn colour(place: usize) -> String {
    format!("c{}", place.min(COLOURS))
}

fn curve(place: usize, points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    let dash = if place >= COLOURS / 2 { " dashed" } else { "" };
    format!("<path class=\"curve{dash} {}\" d=\"{path}\"/>\n", colour(place))
}

/// What a plot is called and what it shows, for those who do not see it.
struct Alt<'a> {
    id: &'a str,
    title: &'a str,
    description: &'a str,
}

fn svg(alt: &Alt<'_>, height: f64, content: &str) -> String {
    let Alt { id, title, description } = alt;
    format!(
        "<div class=\"plot\" tabindex=\"0\"><svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
         role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
         <title id=\"{id}-title\">{}</title>\n\
         <desc id=\"{id}-desc\">{}</desc>\n{content}</svg></div>\n",
        escaped(title),
        escaped(description)
    )
}

/// Pictures with what they stand for.
fn legend(entries: &[(String, String)]) -> String {
    let mut text = "<ul class=\"legend\">\n".to_owned();
    for (picture, name) in entries {
        let _ = writeln!(
            text,
            "<li><svg viewBox=\"0 0 28 14\" aria-hidden=\"true\">{}</svg> <span>{}</span></li>",
            picture.trim_end(),
            escaped(name)
        );
    }
    text + "</ul>\n"
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
    let mut ceilings = ceilings.map(|(name, ops)| (name, ops, ops / device.read));
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
    let limits = [device.read * x.low * 1.6, device.int8_ops, device.f32_ops].map(|ops| ops / 1e9);
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
    content += &roof(&frame, device.read, ceilings);
    if products.len() > COLOURS {
        let others = format!("{} other products", products.len() - COLOURS);
        entries.push((mark(COLOURS, false, (14.0, 7.0), &others), others));
    }
    let fastest = dots.iter().map(|found| ops_a_second(found)).fold(0.0, f64::max);
    let description = format!(
        "{} products, {} points. The fastest reaches {} Gop/s. Memory is read at {} GB/s; \
         arithmetic reaches {} Gop/s with int8 and {} with f32 activations.",
        products.len(),
        dots.len(),
        fixed(fastest / 1e9, 1),
        fixed(device.read / 1e9, 1),
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
fn roof(frame: &Frame, read: f64, ceilings: [(&str, f64, f64); 2]) -> String {
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
    if is_usable(read) {
        let highest = ceilings.iter().map(|(.., ridge)| *ridge).filter(|ridge| is_usable(*ridge));
        let end = highest.fold(0.0, f64::max);
        let end = if end > low { end } else { high };
        let (from, to) = (frame.at(low, low * read / 1e9), frame.at(end, end * read / 1e9));
        content += &line("limit", from, to);
        let angle = (to.1 - from.1).atan2(to.0 - from.0).to_degrees();
        let (x, y) = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        let _ = writeln!(
            content,
            "<text class=\"note mid\" transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\" \
             dy=\"-6\">memory {:.1} GB/s</text>",
            read / 1e9
        );
    }
    content
}

/// Bytes a second by the rows of the window, for the products that take the most time.
pub(super) fn bandwidth(report: &Report) -> Option<String> {
    let read = report.device.read / 1e9;
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
    let highest = if is_usable(read) { fastest.max(read) } else { fastest };
    let frame = Frame {
        x: Axis::rows((LEFT, RIGHT)),
        y: Axis::linear("GB/s", highest * 1.12, (BOTTOM, TOP)),
    };
    let mut content = frame.grid();
    if is_usable(read) {
        let y = frame.y.place(read);
        content += &line("limit dashed", (LEFT, y), (RIGHT, y));
        content += &words("note end", (RIGHT - 4.0, y - 5.0), &format!("memory {read:.1} GB/s"));
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
        "{} products at up to {MOST_ROWS} rows. The fastest moves {fastest:.2} GB/s, memory is \
         read at {} GB/s.",
        lines.len(),
        fixed(read, 2)
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
