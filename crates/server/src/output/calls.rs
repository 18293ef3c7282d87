//! Reads tool calls out of what a model writes, as it arrives:
//!
//! ```text
//! <tool_call>
//! <function=NAME>
//! <parameter=KEY>
//! VALUE
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! Nothing depends on how the text is cut into pieces. Text values go out while they are being
//! written, other values when they are complete, so the arguments so far are always the beginning
//! of a JSON object. A `<tool_call>` behind which no function is named is plain text, and so is a
//! `</parameter>` behind which no tag follows.

use super::arguments::Arguments;
use super::kinds::Parameters;
use std::collections::HashMap;
use std::sync::Arc;

const CALL: &str = "<tool_call>";
const END_CALL: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const END_FUNCTION: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const END_PARAMETER: &str = "</parameter>";

/// What may begin at the end of text: the tag and the line breaks before it, which go with it.
const CALL_LINES: [&str; 3] = ["\n\n<tool_call>", "\n<tool_call>", CALL];
const END_LINES: [&str; 2] = ["\n</parameter>", END_PARAMETER];
const INSIDE: [&str; 5] = [PARAMETER, END_FUNCTION, END_CALL, FUNCTION, CALL];
const BEHIND_FUNCTION: [&str; 3] = [END_CALL, FUNCTION, CALL];
const BEHIND_VALUE: [&str; 4] = [PARAMETER, END_FUNCTION, END_CALL, FUNCTION];

/// Longest name of a function or parameter in bytes.
const MAX_NAME: usize = 256;

/// The functions that a model may call.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    parameters: HashMap<String, Arc<Parameters>>,
}

impl Functions {
    /// By name, with the JSON schema of the arguments.
    pub fn new<'a>(functions: impl IntoIterator<Item = (&'a str, &'a serde_json::Value)>) -> Self {
        let one = |(name, schema): (&str, _)| (name.to_owned(), Arc::new(Parameters::new(schema)));
        Self { parameters: functions.into_iter().map(one).collect() }
    }
}

/// Whether there is a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calling {
    /// As the model sees fit.
    #[default]
    Free,
    /// For sure: what begins like a call is one, also where the text is cut off.
    Forced,
}

/// What a piece of text came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text outside of calls.
    Text(String),
    /// A call of this function begins.
    Begin(String),
    /// The next part of its arguments in JSON.
    Arguments(String),
    /// The call is complete.
    End,
}

/// Where in the format the held text begins.
#[derive(Debug)]
enum State {
    /// Outside of calls.
    Text,
    /// Between the parameters of a call.
    Inside,
    /// In a value, of which nothing but the line break before it may be gone.
    Value,
    /// Behind `</function>`.
    BehindFunction,
}

/// What is known of a name that a tag should bring.
enum Name<'a> {
    /// The name, and where the tag ends.
    Is(&'a str, usize),
    /// It may still come.
    Unknown,
    /// There is none.
    Isnt,
}

/// The reader.
#[derive(Debug)]
pub struct CallReader {
    functions: Arc<Functions>,
    calling: Calling,
    state: State,
    held: String,
    /// The call that is being read.
    arguments: Option<Arguments>,
    /// Line breaks that come now are part of the format.
    drop_lines: bool,
}

impl CallReader {
    /// Reads calls of these functions. Functions that are not among them are read as well: whoever
    /// answers the call knows best what to say.
    pub fn new(functions: Arc<Functions>, calling: Calling) -> Self {
        let held = String::new();
        Self { functions, calling, state: State::Text, held, arguments: None, drop_lines: false }
    }

    /// Bytes that wait for what follows.
    pub fn pending(&self) -> usize {
        self.held.len()
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        self.read(false)
    }

    /// Ends the text. A call that is not complete stays so.
    pub fn finish(&mut self) -> Vec<Piece> {
        let pieces = self.read(true);
        self.held.clear();
        pieces
    }

    fn read(&mut self, last: bool) -> Vec<Piece> {
        let mut out = Vec::new();
        loop {
            if self.drop_lines {
                let lines = self.held.bytes().take_while(|&b| b == b'\n').count();
                self.held.drain(..lines);
                self.drop_lines = self.held.is_empty();
            }
            let more = match self.state {
                State::Text => self.text(last, &mut out),
                State::Inside => self.inside(&mut out),
                State::Value => self.value(last, &mut out),
                State::BehindFunction => self.behind_function(last),
            };
            if !more {
                return out;
            }
        }
    }

    /// Text up to a call; whether there is more to read.
    fn text(&mut self, last: bool, out: &mut Vec<Piece>) -> bool {
        // What is kept at the end is never told.
        let tell_all = last && self.calling == Calling::Free;
        let Some(at) = self.held.find(CALL) else {
            let keep = if tell_all { 0 } else { partial(&self.held, &CALL_LINES) };
            let certain = self.take(self.held.len() - keep);
            emit(out, Piece::Text(certain));
            return false;
        };
        let tag_end = at + CALL.len();
        let before = self.held[..at].len() - line_breaks(&self.held[..at]).min(2);
        match function_name(&self.held[tag_end..]) {
            Name::Is(name, end) => {
                let (name, end) = (name.to_owned(), tag_end + end);
                let text = self.held[..before].to_owned();
                emit(out, Piece::Text(text));
                self.begin(name, end, out);
                true
            }
            Name::Unknown if !tell_all => {
                let certain = self.take(before);
                emit(out, Piece::Text(certain));
                false
            }
            _ => {
                let text = self.take(tag_end);
                emit(out, Piece::Text(text));
                true
            }
        }
    }

    /// Begins a call, whose tag ends at `end`.
    fn begin(&mut self, name: String, end: usize, out: &mut Vec<Piece>) {
        let parameters = self.functions.parameters.get(&name).cloned();
        self.arguments = Some(Arguments::new(parameters));
        self.held.drain(..end);
        self.state = State::Inside;
        out.push(Piece::Begin(name));
    }

    fn end(&mut self, out: &mut Vec<Piece>) {
        if let Some(arguments) = self.arguments.take() {
            emit(out, Piece::Arguments(arguments.end()));
            out.push(Piece::End);
        }
    }

    /// The next tag of a call; what is no tag is passed over.
    fn inside(&mut self, out: &mut Vec<Piece>) -> bool {
        let Some((at, tag)) = first(&self.held, &INSIDE) else {
            let keep = partial(&self.held, &INSIDE);
            self.held.drain(..self.held.len() - keep);
            return false;
        };
        self.held.drain(..at);
        match tag {
            PARAMETER => match name(&self.held[PARAMETER.len()..]) {
                Name::Is(key, end) => {
                    if let Some(arguments) = &mut self.arguments {
                        emit(out, Piece::Arguments(arguments.key(key)));
                    }
                    self.held.drain(..PARAMETER.len() + end);
                    self.state = State::Value;
                }
                Name::Unknown => return false,
                Name::Isnt => drop(self.held.drain(..PARAMETER.len())),
            },
            END_FUNCTION => {
                self.held.drain(..END_FUNCTION.len());
                self.end(out);
                self.state = State::BehindFunction;
            }
            // The end tag was forgotten.
            _ => {
                self.end(out);
                self.state = State::BehindFunction;
            }
        }
        true
    }

    /// More of a value.
    fn value(&mut self, last: bool, out: &mut Vec<Piece>) -> bool {
        let Some(arguments) = &mut self.arguments else { return false };
        if arguments.is_fresh() {
            match self.held.as_bytes().first() {
                None => return false,
                Some(b'\n') => drop(self.held.drain(..1)),
                Some(_) => {}
            }
            arguments.begin_value();
        }
        let (text_end, end) = value_end(&self.held, last);
        let text: String = self.held.drain(..text_end).collect();
        emit(out, Piece::Arguments(arguments.value(&text)));
        let Some(end) = end else { return false };
        self.held.drain(..end - text_end);
        emit(out, Piece::Arguments(arguments.end_value()));
        self.state = State::Inside;
        true
    }

    fn behind_function(&mut self, last: bool) -> bool {
        let blank = self.held.len() - self.held.trim_start().len();
        self.held.drain(..blank);
        if self.held.starts_with(END_CALL) {
            self.held.drain(..END_CALL.len());
        } else if self.held.starts_with(FUNCTION) {
            // Another function in the same block: read as if it had one of its own.
            self.held.insert_str(0, CALL);
        } else if !last && begins(&self.held, &BEHIND_FUNCTION) {
            return false;
        }
        (self.state, self.drop_lines) = (State::Text, true);
        true
    }

    fn take(&mut self, end: usize) -> String {
        self.held.drain(..end).collect()
    }
}

/// Where the text of a value ends as far as that is certain, and where its end tag does if it is
/// there.
fn value_end(held: &str, last: bool) -> (usize, Option<usize>) {
    let mut from = 0;
    while let Some(found) = held[from..].find(END_PARAMETER) {
        let (at, end) = (from + found, from + found + END_PARAMETER.len());
        let text_end = at - line_breaks(&held[..at]).min(1);
        let behind = held[end..].trim_start();
        if BEHIND_VALUE.iter().any(|tag| behind.starts_with(tag)) {
            return (text_end, Some(end));
        }
        if begins(behind, &BEHIND_VALUE) {
            return (text_end, last.then_some(end));
        }
        from = end;
    }
    (held.len() - partial(held, &END_LINES), None)
}

/// The function named behind `<tool_call>`.
fn function_name(text: &str) -> Name<'_> {
    let blank = text.len() - text.trim_start().len();
    match text[blank..].strip_prefix(FUNCTION) {
        Some(rest) => match name(rest) {
            Name::Is(name, end) => Name::Is(name, blank + FUNCTION.len() + end),
            other => other,
        },
        None if FUNCTION.starts_with(&text[blank..]) => Name::Unknown,
        None => Name::Isnt,
    }
}

/// A name up to `>`.
fn name(text: &str) -> Name<'_> {
    match text.find(['>', '<', '\n']) {
        Some(at) if at <= MAX_NAME && text[at..].starts_with('>') => match text[..at].trim() {
            "" => Name::Isnt,
            name => Name::Is(name, at + 1),
        },
        None if text.len() <= MAX_NAME => Name::Unknown,
        _ => Name::Isnt,
    }
}

/// The first of `tags` in `text`.
fn first(text: &str, tags: &[&'static str]) -> Option<(usize, &'static str)> {
    tags.iter().filter_map(|tag| Some((text.find(tag)?, *tag))).min()
}

/// Bytes at the end of `text` with which one of `tags` may begin.
fn partial(text: &str, tags: &[&str]) -> usize {
    let begin = |tag: &&str| (1..tag.len()).rev().find(|&len| text.ends_with(&tag[..len]));
    tags.iter().filter_map(begin).max().unwrap_or(0)
}

/// Whether `text` may be the beginning of one of `tags`; nothing may be.
fn begins(text: &str, tags: &[&str]) -> bool {
    tags.iter().any(|tag| tag.starts_with(text))
}

/// Line breaks at the end of `text`.
fn line_breaks(text: &str) -> usize {
    text.len() - text.trim_end_matches('\n').len()
}

/// Adds a piece; neighbours of a kind become one, empty ones none.
fn emit(out: &mut Vec<Piece>, piece: Piece) {
    match (out.last_mut(), piece) {
        (_, Piece::Text(text) | Piece::Arguments(text)) if text.is_empty() => {}
        (Some(Piece::Text(before)), Piece::Text(text))
        | (Some(Piece::Arguments(before)), Piece::Arguments(text)) => before.push_str(&text),
        (_, piece) => out.push(piece),
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
