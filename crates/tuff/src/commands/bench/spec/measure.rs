//! Writing the texts: a round that does not count, then rounds in which every mode has its turn at
//! every beginning; and making sure that all modes write the same.

use std::ops::ControlFlow;

use engine::speculation::{Drafter, SpecMode, SpecStats};
use engine::{Engine, Finish, Generator, Request, TakenBlock};
use kernels::Backend;

use super::plan::SpecPlan;
use super::prompts::Prompt;
use crate::args::uses_block;
use crate::error::Error;
use crate::interrupt;
use crate::progress::{Progress, Show, Unit};
use crate::session::SLOT;

/// A mode at a beginning.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) mode: SpecMode,
    /// Tokens per second of each round that counts.
    pub(super) speeds: Vec<f64>,
    /// What drafts did in all of these rounds.
    pub(super) stats: SpecStats,
}

/// A beginning, and how each mode went on.
#[derive(Debug)]
pub(super) struct Text {
    /// The tokens that every mode wrote.
    pub(super) tokens: Vec<u32>,
    pub(super) modes: Vec<Measured>,
}

/// Everything that was written.
#[derive(Debug)]
pub(crate) struct Results {
    /// As the beginnings of the plan.
    pub(super) texts: Vec<Text>,
}

/// Runs everything on an engine that was loaded for the plan's modes.
///
/// # Errors
/// [`Error::Engine`]; [`Error::TextChanged`]; [`Error::Interrupted`].
pub(crate) fn measure<B: Backend>(
    engine: Engine<B>,
    plan: &SpecPlan,
    repetitions: usize,
    show: Show,
) -> Result<Results, Error> {
    let empty = |mode: &SpecMode| {
        let speeds = Vec::with_capacity(repetitions);
        Measured { mode: *mode, speeds, stats: SpecStats::default() }
    };
    let text = |_: &Prompt| {
        let modes = plan.modes.iter().map(empty).collect();
        Text { tokens: Vec::new(), modes }
    };
    let mut texts: Vec<Text> = plan.prompts.iter().map(text).collect();
    let mut writer = Writer::new(engine, plan);
    let total = ((repetitions + 1) * plan.prompts.len() * plan.modes.len()) as u64;
    let mut progress = Progress::new(show, "drafts", Unit::Runs);
    let mut done = 0;
    for round in 0..=repetitions {
        for (prompt, text) in plan.prompts.iter().zip(&mut texts) {
            for place in 0..plan.modes.len() {
                let written = writer.write(place, prompt)?;
                take(text, (place, round), written, prompt)?;
                done += 1;
                progress.set(done, total);
            }
        }
    }
    Ok(Results { texts })
}

/// A text as it came out.
struct Written {
    tokens: Vec<u32>,
    speed: f64,
    stats: SpecStats,
}

/// Holds a text against the first one after the same beginning, and counts it from round 1 on.
fn take(
    text: &mut Text,
    (place, round): (usize, usize),
    written: Written,
    prompt: &Prompt,
) -> Result<(), Error> {
    let mode = text.modes[place].mode;
    if text.tokens.is_empty() {
        text.tokens = written.tokens;
    } else if text.tokens != written.tokens {
        let reference = text.modes[0].mode;
        let pairs = || text.tokens.iter().zip(&written.tokens);
        let at = pairs().position(|(a, b)| a != b).unwrap_or(pairs().count());
        return Err(Error::TextChanged { name: prompt.name.clone(), mode, reference, at: at + 1 });
    }
    if round > 0 {
        let measured = &mut text.modes[place];
        measured.speeds.push(written.speed);
        measured.stats.merge(&written.stats);
    }
    Ok(())
}

/// The model with a drafter for each mode. These are kept, as in a chat: they learn what windows
/// and draft steps cost.
struct Writer<'a, B: Backend> {
    engine: Engine<B>,
    plan: &'a SpecPlan,
    drafters: Vec<Drafter>,
    /// The drafting block while a mode writes that does not use it: it would cost time.
    aside: Option<TakenBlock<B>>,
}

impl<'a, B: Backend> Writer<'a, B> {
    fn new(engine: Engine<B>, plan: &'a SpecPlan) -> Self {
        let drafters = plan.modes.iter().map(|&mode| Drafter::new(mode, &engine)).collect();
        Self { engine, plan, drafters, aside: None }
    }

    /// Writes a text once.
    fn write(&mut self, place: usize, prompt: &Prompt) -> Result<Written, Error> {
        self.arrange(self.plan.modes[place])?;
        let Self { engine, plan, drafters, .. } = self;
        let request = Request {
            prompt: &prompt.ids,
            max_tokens: Some(plan.tokens),
            sampling: plan.sampling.clone(),
            stop: Vec::new(),
        };
        let (tokenizer, proposer) = (&plan.tokenizer, &mut drafters[place]);
        let mut generator = Generator { engine, slot: SLOT, tokenizer, proposer };
        let summary = generator.generate(&request, &mut |_| match interrupt::requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })?;
        if summary.finish == Finish::Cancelled {
            return Err(Error::Interrupted);
        }
        let seconds = summary.generate_time.as_secs_f64();
        let speed = summary.tokens.len() as f64 / seconds;
        Ok(Written { tokens: summary.tokens, speed, stats: summary.speculation })
    }

    /// A fresh sequence, with the drafting block where the mode uses it.
    fn arrange(&mut self, mode: SpecMode) -> Result<(), Error> {
        match (uses_block(mode), self.aside.take()) {
            (true, Some(block)) => self.engine.put_mtp(block)?,
            (true, None) => {}
            (false, Some(block)) => self.aside = Some(block),
            (false, None) => self.aside = self.engine.take_mtp(),
        }
        Ok(self.engine.reset(SLOT)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_text_is_an_error_that_says_where() {
        let measured = |mode| Measured { mode, speeds: Vec::new(), stats: SpecStats::default() };
        let modes = vec![measured(SpecMode::Off), measured(SpecMode::Mtp { depth: 2 })];
        let mut text = Text { tokens: Vec::new(), modes };
        let prompt = Prompt { name: "easy".to_owned(), text: String::new(), ids: vec![1] };
        let mut write = |place, round, tokens: &[u32]| {
            let stats = SpecStats::default();
            let written = Written { tokens: tokens.to_vec(), speed: 10.0, stats };
            take(&mut text, (place, round), written, &prompt)
                .map(|()| text.modes[place].speeds.len())
        };
        assert_eq!(write(0, 0, &[1, 2, 3]).unwrap(), 0, "the first round does not count");
        assert_eq!(write(1, 0, &[1, 2, 3]).unwrap(), 0);
        assert_eq!(write(0, 1, &[1, 2, 3]).unwrap(), 1);
        let error = write(1, 1, &[1, 2, 4]).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        let message = error.to_string();
        for part in ["easy", "mtp:2", "off", "token 3", "fault of tuff"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(write(1, 1, &[1, 2]).unwrap_err().to_string().contains("token 3"));
    }
}
