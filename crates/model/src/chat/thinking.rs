//! Splits what a model writes into reasoning and answer, as it arrives. Streamed and whole
//! replies go through the same splitter, so that both come out the same.

use crate::tokenizer::Tokenizer;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// The close tag as the chat format writes it, on a line of its own.
const CLOSE_LINE: &str = "\n</think>";
/// Newlines that the chat format puts after each tag; they belong to neither side.
const AFTER_OPEN: usize = 1;
const AFTER_CLOSE: usize = 2;

/// Whether a prompt ends inside a think block, so that the model's first words are reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// The prompt opens a think block and leaves it open.
    Open,
    /// The prompt does not.
    Closed,
}

impl Thinking {
    /// Of a rendered prompt: open if it ends with `<think>`, whitespace aside.
    #[must_use]
    pub fn after_text(prompt: &str) -> Thinking {
        if prompt.trim_end().ends_with(OPEN) { Thinking::Open } else { Thinking::Closed }
    }

    /// Of a prompt in ids: open if `<think>` comes after every `</think>` and control token. It
    /// also sees a block that was begun with some reasoning.
    #[must_use]
    pub fn after_ids(prompt: &[u32], tokenizer: &Tokenizer) -> Thinking {
        let (open, close) = (tokenizer.token_id(OPEN), tokenizer.token_id(CLOSE));
        let ends = |id| Some(id) == open || Some(id) == close || tokenizer.is_control(id);
        match prompt.iter().rev().copied().find(|&id| ends(id)) {
            Some(id) if Some(id) == open => Thinking::Open,
            _ => Thinking::Closed,
        }
    }
}

/// Text that became certain, by side. Either may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Reasoning, without tags.
    pub reasoning: String,
    /// The answer.
    pub content: String,
}

/// The splitter. Tags may arrive in any pieces; only a true beginning of a tag is held back.
///
/// Inside a think block the first `</think>` ends it and anything else is reasoning. Outside,
/// `<think>` opens a block, again and again if need be, and a stray `</think>` is plain text. The
/// line breaks that the chat format has around the tags are dropped with them.
#[derive(Debug, Clone)]
pub struct ThinkingSplitter {
    state: Thinking,
    held: String,
    /// Newlines that may still be dropped after a tag.
    droppable: usize,
}

impl ThinkingSplitter {
    /// Starts where the prompt ended.
    #[must_use]
    pub fn new(start: Thinking) -> ThinkingSplitter {
        ThinkingSplitter { state: start, held: String::new(), droppable: 0 }
    }

    /// Whether text that arrives now is reasoning.
    #[must_use]
    pub fn state(&self) -> Thinking {
        self.state
    }

    /// Bytes that wait for what follows: they may begin a tag.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.held.len()
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Split {
        let mut split = Split::default();
        self.held.push_str(text);
        while self.drop_newlines() && self.take_to_tag(&mut split) {}
        split
    }

    /// Ends the text: what was held back is not a tag.
    pub fn finish(&mut self) -> Split {
        let mut split = Split::default();
        let held = std::mem::take(&mut self.held);
        self.emit(&held, &mut split);
        split
    }

    /// Drops what may be dropped; false if nothing is left to look at.
    fn drop_newlines(&mut self) -> bool {
        let newlines = self.held.bytes().take(self.droppable).take_while(|&b| b == b'\n').count();
        self.held.drain(..newlines);
        self.droppable -= newlines;
        if self.held.is_empty() {
            return false;
        }
        self.droppable = 0;
        true
    }

    /// Emits up to the next tag and passes it; false if there is none yet.
    fn take_to_tag(&mut self, split: &mut Split) -> bool {
        let tag = self.tag();
        let Some(at) = self.held.find(tag) else {
            let kept = self.beginning_of_tag();
            let rest = self.held.split_off(self.held.len() - kept);
            let certain = std::mem::replace(&mut self.held, rest);
            self.emit(&certain, split);
            return false;
        };
        let rest = self.held.split_off(at + tag.len());
        let mut before = std::mem::replace(&mut self.held, rest);
        before.truncate(at);
        if self.state == Thinking::Open && before.ends_with('\n') {
            before.pop();
        }
        self.emit(&before, split);
        (self.state, self.droppable) = match self.state {
            Thinking::Open => (Thinking::Closed, AFTER_CLOSE),
            Thinking::Closed => (Thinking::Open, AFTER_OPEN),
        };
        true
    }

    fn tag(&self) -> &'static str {
        match self.state {
            Thinking::Open => CLOSE,
            Thinking::Closed => OPEN,
        }
    }

    /// Length of the longest end of the held text with which the next tag may begin.
    fn beginning_of_tag(&self) -> usize {
        let tags: &[&str] = match self.state {
            Thinking::Open => &[CLOSE_LINE, CLOSE],
            Thinking::Closed => &[OPEN],
        };
        let begins = |tag: &&str| (1..tag.len()).rev().find(|&n| self.held.ends_with(&tag[..n]));
        tags.iter().filter_map(begins).max().unwrap_or(0)
    }

    fn emit(&self, text: &str, split: &mut Split) {
        match self.state {
            Thinking::Open => split.reasoning.push_str(text),
            Thinking::Closed => split.content.push_str(text),
        }
    }
}
