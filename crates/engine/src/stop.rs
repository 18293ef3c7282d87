//! Stop strings: found across pieces of text, holding back no more than a true prefix of one.

/// Watches streamed text for stop strings.
#[derive(Clone, Debug, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

/// What [`StopMatcher::push`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Text that is safe to show.
    pub text: String,
    /// The stop string that ended the text, which is not shown.
    pub stop: Option<String>,
}

impl StopMatcher {
    /// Watches for `stops`; empty strings are ignored.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        let stops = stops.into_iter().filter(|s| !s.is_empty()).collect();
        Self { stops, held: String::new() }
    }

    /// Adds a piece of text. The stop string that is complete first wins, the longest of those that
    /// end together, so the outcome does not depend on how the text is cut into pieces.
    pub fn push(&mut self, piece: &str) -> Scanned {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|s| Some((self.held.find(s.as_str())?, s)));
        if let Some((at, stop)) = found.min_by_key(|(at, s)| (at + s.len(), *at)) {
            let stop = Some(stop.clone());
            self.held.truncate(at);
            return Scanned { text: std::mem::take(&mut self.held), stop };
        }
        let keep = self.stops.iter().map(|stop| partial(&self.held, stop)).max().unwrap_or(0);
        let held = self.held.split_off(self.held.len() - keep);
        Scanned { text: std::mem::replace(&mut self.held, held), stop: None }
    }

    /// The text still held at the end.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes at the end of `text` that are a proper prefix of `stop`.
fn partial(text: &str, stop: &str) -> usize {
    let ends = stop.char_indices().map(|(at, _)| at).skip(1);
    ends.filter(|&at| text.ends_with(&stop[..at])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shown text and stop for every way of cutting `text` in two.
    fn scan_all_cuts(stops: &[&str], text: &str) -> (String, Option<String>) {
        let run = |pieces: &[&str]| {
            let mut matcher = StopMatcher::new(stops.iter().map(|s| (*s).to_owned()));
            let mut shown = String::new();
            for piece in pieces {
                let scanned = matcher.push(piece);
                shown.push_str(&scanned.text);
                if scanned.stop.is_some() {
                    return (shown, scanned.stop);
                }
            }
            shown.push_str(&matcher.finish());
            (shown, None)
        };
        let whole = run(&[text]);
        for (at, _) in text.char_indices() {
            assert_eq!(run(&[&text[..at], &text[at..]]), whole, "cut at {at} of {text:?}");
        }
        let chars: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(run(&chars.iter().map(String::as_str).collect::<Vec<_>>()), whole);
        whole
    }

    #[test]
    fn finds_stops_across_any_cut() {
        assert_eq!(scan_all_cuts(&["STOP"], "one STOP two"), ("one ".into(), Some("STOP".into())));
        assert_eq!(scan_all_cuts(&["\n\n"], "a\nb\n\nc"), ("a\nb".into(), Some("\n\n".into())));
        assert_eq!(scan_all_cuts(&["aab"], "aaab"), ("a".into(), Some("aab".into())));
        assert_eq!(scan_all_cuts(&["\u{1F642}!"], "x\u{1F642}y"), ("x\u{1F642}y".into(), None));
        assert_eq!(scan_all_cuts(&["", "z"], "abc"), ("abc".into(), None));
        assert_eq!(scan_all_cuts(&["abc"], "ab"), ("ab".into(), None));
        assert_eq!(scan_all_cuts(&["abcX", "bc"], "1abcX"), ("1a".into(), Some("bc".into())));
        assert_eq!(scan_all_cuts(&["abc", "bc"], "1abcX"), ("1".into(), Some("abc".into())));
    }

    #[test]
    fn fault_076_holds_only_a_true_prefix() {
        let mut matcher = StopMatcher::new(["x".repeat(40)]);
        assert_eq!(matcher.push("hello").text, "hello");
        assert_eq!(matcher.push("xx").text, "");
        assert_eq!(matcher.push("y").text, "xxy");
    }
}
