//! An answer, shown while it is written: thinking apart from what is said.

use std::ops::ControlFlow;

use engine::Event;
use model::chat::{Split, Thinking, ThinkingSplitter};

use super::Think;
use crate::error::Error;
use crate::interrupt;
use crate::progress::{Progress, Show, Unit};
use crate::terminal::{Look, TextOut};

/// What was shown last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Reasoning,
    Content,
}

/// An answer in the making.
pub(crate) struct Answer {
    out: TextOut,
    progress: Progress,
    splitter: ThinkingSplitter,
    think: Think,
    shown: Shown,
    ends_line: bool,
    reasoning: String,
    content: String,
    failed: Option<Error>,
}

/// A finished answer.
#[derive(Debug)]
pub(crate) struct Said {
    /// The thinking.
    pub(crate) reasoning: String,
    /// The answer itself.
    pub(crate) content: String,
}

impl Answer {
    /// Begins where the prompt ended.
    pub(crate) fn new(start: Thinking, think: Think, show: Show) -> Answer {
        Answer {
            out: TextOut::stdout(),
            progress: Progress::new(show, "prompt", Unit::Tokens),
            splitter: ThinkingSplitter::new(start),
            think,
            shown: Shown::Nothing,
            ends_line: true,
            reasoning: String::new(),
            content: String::new(),
            failed: None,
        }
    }

    /// Takes what the engine has to say; breaks off after Ctrl-C or when nobody reads.
    pub(crate) fn take(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Prompt { done, total } if done < total => {
                self.progress.set(done as u64, total as u64);
            }
            Event::Prompt { .. } => self.progress.clear(),
            Event::Token { .. } => {}
            Event::Note(note) => tracing::warn!("{note}"),
            Event::Text(text) => {
                let split = self.splitter.push(text);
                if let Err(error) = self.show(&split) {
                    self.failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Ends the answer with the end of a line.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn finish(mut self) -> Result<Said, Error> {
        self.progress.clear();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let rest = self.splitter.finish();
        self.show(&rest)?;
        if self.shown == Shown::Reasoning {
            self.close_reasoning()?;
        }
        if !self.ends_line {
            self.out.text("\n")?;
        }
        Ok(Said { reasoning: self.reasoning, content: self.content })
    }

    fn show(&mut self, split: &Split) -> Result<(), Error> {
        // In a piece that holds both, the order is told by where the splitter stands now.
        match self.splitter.state() {
            Thinking::Closed => {
                self.show_reasoning(&split.reasoning)?;
                self.show_content(&split.content)
            }
            Thinking::Open => {
                self.show_content(&split.content)?;
                self.show_reasoning(&split.reasoning)
            }
        }
    }

    fn show_reasoning(&mut self, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.reasoning.push_str(text);
        let begins = self.shown != Shown::Reasoning;
        self.shown = Shown::Reasoning;
        let styled = self.out.look() == Look::Styled;
        match (self.think, begins) {
            (Think::Hide, true) if styled => self.out.aside("(thinking)\n"),
            (Think::Hide, _) => Ok(()),
            (_, true) if !styled => self.write_aside(&format!("<think>\n{text}")),
            _ => self.write_aside(text),
        }
    }

    fn show_content(&mut self, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        if self.shown == Shown::Reasoning {
            self.close_reasoning()?;
        }
        self.shown = Shown::Content;
        self.content.push_str(text);
        self.ends_line = text.ends_with('\n');
        self.out.text(text)
    }

    /// Sets what follows apart from the thinking.
    fn close_reasoning(&mut self) -> Result<(), Error> {
        if self.think == Think::Hide {
            return Ok(());
        }
        if !self.ends_line {
            self.write_aside("\n")?;
        }
        let mark = if self.out.look() == Look::Styled { "\n" } else { "</think>\n\n" };
        self.out.text(mark)
    }

    fn write_aside(&mut self, text: &str) -> Result<(), Error> {
        self.ends_line = text.ends_with('\n');
        self.out.aside(text)
    }
}
