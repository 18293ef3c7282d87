//! The loop: read a line, do what it says, show the answer.

use std::io::{self, BufRead, IsTerminal, Write};

use engine::cache::{Keep, StateCache};
use engine::{Finish, Request, SamplingParams, Summary};
use model::chat::Thinking;

use super::Think;
use super::answer::Answer;
use super::command::{HELP, Line};
use super::conversation::Conversation;
use super::named::{Greeting, Named};
use crate::error::Error;
use crate::progress::Show;
use crate::session::Session;
use crate::terminal::note;
use crate::{interrupt, stats, stored};

/// How answers are made.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What is done with thinking.
    pub(crate) think: Think,
    /// Tokens of an answer at most.
    pub(crate) max_tokens: Option<usize>,
    /// Texts that end an answer.
    pub(crate) stop: Vec<String>,
    /// How tokens are chosen.
    pub(crate) sampling: SamplingParams,
    /// Whether progress and the greeting are shown.
    pub(crate) show: Show,
}

/// Who is on the other side of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partner {
    /// Somebody at a terminal.
    Person,
    /// A pipe or a file.
    Pipe,
}

/// Whether the talk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Leave,
}

/// A conversation with its model.
#[derive(Debug)]
pub(crate) struct Talk {
    session: Session,
    /// States of what was said before.
    cache: StateCache,
    conversation: Conversation,
    /// Where it is kept, if it has a name.
    named: Option<Named>,
    settings: Settings,
    partner: Partner,
    /// The last answer: how it went, and tokens in the context after it.
    last: Option<(Summary, usize)>,
}

impl Talk {
    /// Greets a person; says nothing to a pipe. The session comes with the bytes that its prompt
    /// cache may take.
    pub(crate) fn new(
        (session, cache_budget): (Session, usize),
        (mut conversation, mut named): (Conversation, Option<Named>),
        settings: Settings,
        model: &str,
    ) -> Talk {
        let partner = if io::stdin().is_terminal() { Partner::Person } else { Partner::Pipe };
        if partner == Partner::Person && settings.show != Show::Never {
            let context = session.config().context;
            note(&format!("{model}, context of {context} tokens. /help lists the commands."));
        }
        if let Some(named) = &mut named {
            let greeting = match (settings.show, partner) {
                (Show::Never, _) => Greeting::None,
                (_, Partner::Pipe) => Greeting::Count,
                (_, Partner::Person) => Greeting::LastExchange,
            };
            conversation.set_turns(named.take_turns(greeting));
        }
        let cache = StateCache::for_states(cache_budget);
        Talk { session, cache, conversation, named, settings, partner, last: None }
    }

    /// Talks until the input ends or the user leaves.
    ///
    /// # Errors
    /// From a pipe, whatever went wrong first; a person can go on after most errors.
    pub(crate) fn run(mut self) -> Result<(), Error> {
        // Between two prompts, too, Ctrl-C is not to end the talk.
        let _watch = (self.partner == Partner::Person).then(interrupt::watch);
        while let Some(line) = self.read_line()? {
            match self.obey(Line::parse(&line)) {
                Ok(Next::Continue) => {}
                Ok(Next::Leave) => break,
                Err(error @ (Error::Output(_) | Error::Input(_))) => return Err(error),
                Err(error) if self.partner == Partner::Pipe => return Err(error),
                Err(error) => {
                    error.report();
                }
            }
        }
        Ok(())
    }

    /// The next line; None at the end of the input.
    fn read_line(&self) -> Result<Option<String>, Error> {
        let _watch = (self.partner == Partner::Person).then(interrupt::at_prompt);
        if self.partner == Partner::Person {
            let mut err = io::stderr();
            let _ = write!(err, "> ");
            let _ = err.flush();
        }
        let mut bytes = Vec::new();
        let count = io::stdin().lock().read_until(b'\n', &mut bytes).map_err(Error::Input)?;
        if count == 0 {
            if self.partner == Partner::Person {
                let _ = writeln!(io::stderr());
            }
            return Ok(None);
        }
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| Error::Refused("the message is not UTF-8".to_owned()))
    }

    fn obey(&mut self, line: Line) -> Result<Next, Error> {
        match line {
            Line::Empty => {}
            Line::Message(text) => self.reply(&text)?,
            Line::Help => note(HELP),
            Line::Think(mode) => self.set_think(mode),
            Line::System(text) => self.set_system(text),
            Line::Regen => self.regenerate()?,
            Line::Reset => {
                self.conversation.reset();
                self.last = None;
                if let Some(named) = &mut self.named {
                    named.reset(&self.conversation, &self.settings);
                }
                note("The conversation is forgotten.");
            }
            Line::Stats => note(&self.stats()),
            Line::Exit => return Ok(Next::Leave),
            Line::Unknown(reason) => note(&reason),
        }
        Ok(Next::Continue)
    }

    fn set_think(&mut self, mode: Option<Think>) {
        let switched = match self.settings.think {
            Think::Off => Think::On,
            Think::On | Think::Hide => Think::Off,
        };
        self.settings.think = mode.unwrap_or(switched);
        note(match self.settings.think {
            Think::On => "Thinking is on.",
            Think::Off => "Thinking is off.",
            Think::Hide => "Thinking is on, but not shown.",
        });
    }

    fn set_system(&mut self, text: Option<String>) {
        note(match text {
            Some(_) => "The system message is set, from the next answer on.",
            None => "The system message is removed.",
        });
        self.conversation.system = text;
    }

    /// Answers the last message once more. Another seed makes it another answer.
    fn regenerate(&mut self) -> Result<(), Error> {
        let before = self.conversation.turns().to_vec();
        if !self.conversation.take_back_answer() {
            note("There is no message to answer yet.");
            return Ok(());
        }
        self.settings.sampling.seed = self.settings.sampling.seed.wrapping_add(1);
        if self.settings.sampling.temperature == 0.0 {
            note("The temperature is 0: the answer will be the same.");
        }
        let result = self.answer();
        if !matches!(result, Ok(Answered::Yes)) {
            // There is no other answer, so the one that was given stays.
            self.conversation.set_turns(before);
        }
        result.map(drop)
    }

    /// Answers a message, or takes it back if there is no answer.
    fn reply(&mut self, text: &str) -> Result<(), Error> {
        self.conversation.add_user(text);
        let result = self.answer();
        if !matches!(result, Ok(Answered::Yes)) {
            self.conversation.take_back_user();
        }
        result.map(drop)
    }

    /// Lets the model answer the last message.
    fn answer(&mut self) -> Result<Answered, Error> {
        let Settings { think, max_tokens, stop, sampling, show } = &self.settings;
        let prompt = self.conversation.prompt(*think)?;
        let (sampling, stop) = (sampling.clone(), stop.clone());
        let request = Request { prompt: &prompt, max_tokens: *max_tokens, sampling, stop };
        let tokenizer = &self.conversation.tokenizer;
        if let Some(named) = &mut self.named {
            named.recall(&mut self.session, &prompt);
        }
        let start = Thinking::after_ids(&prompt, tokenizer);
        let boundaries = self.conversation.message_ends(&prompt);
        // Without room nothing needs to be copied.
        let keep = Keep::at(&mut self.cache, &boundaries);
        let keep = Some(keep).filter(|keep| keep.cache.budget() > 0);
        let mut answer = Answer::new(start, *think, *show);
        let watch = interrupt::watch();
        let session = &mut self.session;
        let summary = session.generate(tokenizer, &request, keep, &mut |event| answer.take(event));
        drop(watch);
        let said = answer.finish()?;
        let summary = summary.map_err(advise)?;
        self.comment(&summary, said.content.is_empty());
        let used = prompt.len() + summary.tokens.len();
        let cancelled = summary.finish == Finish::Cancelled;
        self.last = Some((summary, used));
        if cancelled && self.partner == Partner::Pipe {
            return Err(Error::Interrupted);
        }
        if cancelled && said.content.is_empty() && said.reasoning.is_empty() {
            return Ok(Answered::No);
        }
        self.conversation.add_assistant(&said.reasoning, &said.content);
        if let Some(named) = &mut self.named {
            named.keep(&self.conversation, &self.settings, (&mut self.session, &mut self.cache));
        }
        Ok(Answered::Yes)
    }

    /// Tells a person what the answer itself does not show.
    fn comment(&self, summary: &Summary, empty: bool) {
        if self.partner == Partner::Pipe && self.settings.show == Show::Never {
            return;
        }
        let end = stats::finish(&summary.finish, &self.conversation.tokenizer);
        match summary.finish {
            Finish::Cancelled => note("(stopped)"),
            Finish::Length | Finish::ContextFull | Finish::Repetition => note(&format!("({end})")),
            Finish::EndOfText(_) | Finish::StopString(_) if empty => {
                note(&format!("(the answer is empty: {end})"));
            }
            Finish::EndOfText(_) | Finish::StopString(_) | Finish::Complete => {}
        }
    }

    fn stats(&self) -> String {
        let context = self.session.config().context;
        let saved = self.named.as_ref().and_then(Named::stats);
        let saved = saved.map(|line| format!("\n{line}")).unwrap_or_default();
        match &self.last {
            None => format!("Nothing was said yet; the context holds {context} tokens."),
            Some((summary, used)) => {
                let line = stats::line(summary, &self.conversation.tokenizer);
                let reads = self.session.reads().and_then(|reads| stored::since_start(&reads));
                let reads = reads.map(|line| format!("\n{line}")).unwrap_or_default();
                format!("{line}\ncontext: {used} of {context} tokens{saved}{reads}")
            }
        }
    }
}

/// What to do about a full context, in a conversation.
fn advise(error: Error) -> Error {
    let Error::Engine(engine::Error::ContextFull { tokens, context }) = error else {
        return error;
    };
    Error::Refused(format!(
        "the conversation would have {tokens} tokens, the context holds {context}: /reset starts \
         anew, a larger --ctx allows more"
    ))
}

/// Whether the model said anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}
