//! The pieces that plots and sentences are made of: axes, marks, text that is safe to write, numbers
//! of a length that fits.

use super::plot::MOST_ROWS;
use std::fmt::Write;

/// Products, or groups, that have a colour of their own.
pub(super) const COLOURS: usize = 8;

/// Before a standard error.
pub(super) const PLUS_MINUS: char = '\u{b1}';

pub(super) const WIDTH: f64 = 640.0;
pub(super) const HEIGHT: f64 = 380.0;
pub(super) const LEFT: f64 = 62.0;
pub(super) const RIGHT: f64 = WIDTH - 14.0;
pub(super) const TOP: f64 = 16.0;
pub(super) const BOTTOM: f64 = HEIGHT - 46.0;

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

#[derive(Clone, Copy)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// Where values lie along one side of a plot.
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Axis {
    /// From zero.
    pub(super) fn linear(name: &'static str, high: f64, (from, to): (f64, f64)) -> Self {
        let high = if is_usable(high) { high } else { 1.0 };
        Self { name, scale: Scale::Linear, low: 0.0, high, from, to }
    }

    /// The rows of small windows, each with its tick.
    pub(super) fn rows((from, to): (f64, f64)) -> Self {
        let (low, high) = (0.6, MOST_ROWS as f64 + 0.4);
        Self { name: "T, rows of the window", scale: Scale::Linear, low, high, from, to }
    }

    /// Around all of `values`, which are positive.
    pub(super) fn log(
        name: &'static str,
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
    ) -> Self {
        let values: Vec<f64> = values.filter(|value| is_usable(*value)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let (low, high) = if values.is_empty() { (1.0, 1.0) } else { (low, high) };
        Self { name, scale: Scale::Log, low: low / 1.6, high: high * 1.6, from, to }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let along = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        let along = if along.is_finite() { along.clamp(0.0, 1.0) } else { 0.0 };
        self.from + along * (self.to - self.from)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
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
pub(super) fn tick_text(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if !(1e-3..1e6).contains(&v) => format!("{v:e}"),
        v => format!("{}", (v * 1e6).round() / 1e6),
    }
}

/// Two axes with their grid.
pub(super) struct Frame {
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Frame {
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x.place(x), self.y.place(y))
    }

    pub(super) fn grid(&self) -> String {
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
    pub(super) fn ruler(&self, bottom: f64, top: f64) -> String {
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

pub(super) fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!("<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\n")
}

pub(super) fn words(class: &str, (x, y): (f64, f64), text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escaped(text))
}

pub(super) fn bar(
    class: &str,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    title: &str,
) -> String {
    let width = width.max(0.0);
    format!(
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\"><title>{}</title></rect>\n",
        escaped(title)
    )
}

/// A mark of a product: its colour and form by its place among the products, hollow for f32.
pub(super) fn mark(place: usize, hollow: bool, (x, y): (f64, f64), title: &str) -> String {
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

pub(super) fn colour(place: usize) -> String {
    format!("c{}", place.min(COLOURS))
}

pub(super) fn curve(place: usize, points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    let dash = if place >= COLOURS / 2 { " dashed" } else { "" };
    format!("<path class=\"curve{dash} {}\" d=\"{path}\"/>\n", colour(place))
}

/// What a plot is called and what it shows, for those who do not see it.
pub(super) struct Alt<'a> {
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) description: &'a str,
}

pub(super) fn svg(alt: &Alt<'_>, height: f64, content: &str) -> String {
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
pub(super) fn legend(entries: &[(String, String)]) -> String {
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

/// A change in percent.
pub(super) fn signed(value: f64) -> String {
    if value.is_finite() { format!("{value:+.1}") } else { "-".to_owned() }
}
