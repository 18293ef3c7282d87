//! A conversation that has a name: its text and its states go to disk after every answer, and come
//! from there when it goes on. What cannot be saved is told once, and the talk goes on.

use engine::cache::{Saved, StateCache, StateFolder};

use super::conversation::Conversation;
use super::talk::Settings;
use crate::conversations::{Folder, Name, Record, Store, Turn, owner};
use crate::error::Error;
use crate::session::Session;
use crate::{terminal, units};

/// Characters of a message that are shown when its conversation goes on.
const SHOWN: usize = 200;

/// What was said in it before, and where it is kept.
#[derive(Debug)]
pub(crate) struct Named {
    folder: Folder,
    store: Store,
    /// What was saved, until the talk has it.
    record: Option<Record>,
    /// The model's file and what its states depend on; known once that is loaded.
    made: Made,
    states: Option<StateFolder>,
    /// Whether the saved states were asked.
    asked: bool,
    saved: Option<Saved>,
    told: Told,
}

/// What states depend on.
#[derive(Debug, Default, Clone)]
pub(crate) struct Made {
    /// Name of the model's file.
    pub(crate) model: String,
    /// Of model file, template and settings.
    pub(crate) fingerprint: String,
}

/// What failed already and was told.
#[derive(Debug, Default)]
struct Told {
    text: bool,
    states: bool,
}

impl Named {
    /// Opens it, with what was said before.
    ///
    /// # Errors
    /// If another program has it open or its file cannot be read.
    pub(crate) fn open(folder: Folder, name: &Name) -> Result<Named, Error> {
        let store = folder.open(name)?;
        let record = store.load()?;
        let (made, told) = (Made::default(), Told::default());
        let (states, saved, asked) = (None, None, false);
        Ok(Named { folder, store, record, made, states, asked, saved, told })
    }

    /// What was saved.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Goes on under a model, with states on disk unless they may take no bytes.
    pub(crate) fn begin(&mut self, made: Made, budget: u64) {
        let name = self.store.name();
        if let Some(record) = self.record.as_ref().filter(|record| !record.turns.is_empty()) {
            if record.model != made.model {
                tracing::warn!(
                    "the conversation {name} was held with {}; {} has to read it anew",
                    record.model,
                    made.model
                );
            } else if record.fingerprint != made.fingerprint {
                tracing::warn!(
                    "the conversation {name} was held with another version of the model file, chat \
                     template or settings; it has to be read anew"
                );
            }
        }
        if budget > 0 {
            match self.folder.states(&made.fingerprint, budget) {
                Ok(states) => self.states = Some(states),
                Err(error) => self.tell_states(&error.to_string()),
            }
        }
        self.made = made;
    }

    /// What was said before, for the conversation to go on from; tells a person about it.
    pub(crate) fn take_turns(&mut self, greeting: Greeting) -> Vec<Turn> {
        let turns = self.record.take().map(|record| record.turns).unwrap_or_default();
        let name = self.store.name();
        match greeting {
            Greeting::None => {}
            _ if turns.is_empty() => terminal::note(&format!("New conversation {name}.")),
            _ => {
                let count = units::count(turns.len(), "message");
                terminal::note(&format!("Conversation {name} goes on after {count}."));
            }
        }
        if greeting == Greeting::LastExchange {
            let last = &turns[turns.len().saturating_sub(2)..];
            last.iter().for_each(|turn| terminal::note(&shown(turn)));
        }
        turns
    }

    /// Before the first answer: puts a saved state that the prompt begins with into the slot.
    pub(crate) fn recall(&mut self, session: &mut Session, prompt: &[u32]) {
        if std::mem::replace(&mut self.asked, true) {
            return;
        }
        let Some(states) = &mut self.states else { return };
        match session.recall_saved(states, prompt) {
            Ok(found) => found.ignored.iter().for_each(|line| tracing::warn!("{line}")),
            Err(error) => self.tell_states(&error.to_string()),
        }
    }

    /// After an answer: saves the text, then the state that it goes on from.
    pub(crate) fn keep(
        &mut self,
        conversation: &Conversation,
        settings: &Settings,
        (session, cache): (&mut Session, &mut StateCache),
    ) {
        self.keep_text(conversation, settings);
        let Some(states) = &mut self.states else { return };
        // What the template makes of it all when somebody answers, whatever that will be.
        let Ok(next) = conversation.next_prompt(settings.think) else { return };
        let cache = (cache.budget() > 0).then_some(cache);
        match session.save_for((states, owner(self.store.name())), &next, cache) {
            Ok(saved @ (Saved::Written { .. } | Saved::Known { .. })) => self.saved = Some(saved),
            Ok(Saved::Nothing) => {}
            Ok(Saved::NoRoom) => {
                let budget = units::bytes(states.budget());
                self.tell_states(&format!("this one takes more than {budget}; raise --disk-cache"));
            }
            Err(error) => self.tell_states(&error.to_string()),
        }
    }

    /// Forgets what was said, on disk, too.
    pub(crate) fn reset(&mut self, conversation: &Conversation, settings: &Settings) {
        self.keep_text(conversation, settings);
        self.saved = None;
        let name = self.store.name();
        if let Some(error) =
            self.states.as_mut().and_then(|states| states.forget(owner(name)).err())
        {
            tracing::warn!("cannot delete the saved states of the conversation {name}: {error}");
        }
    }

    /// How its states were saved, in a line.
    pub(crate) fn stats(&self) -> Option<String> {
        let states = self.states.as_ref()?;
        let of = |total| format!("{} of {}", units::bytes(total), units::bytes(states.budget()));
        Some(match self.saved? {
            Saved::Written { tokens, bytes, total } => {
                let written = units::bytes(bytes);
                format!(
                    "on disk: state of {tokens} tokens, {written} written; all states take {}",
                    of(total)
                )
            }
            Saved::Known { tokens } => {
                let total = states.bytes().unwrap_or(0);
                format!("on disk: state of {tokens} tokens; all states take {}", of(total))
            }
            Saved::NoRoom | Saved::Nothing => return None,
        })
    }

    fn keep_text(&mut self, conversation: &Conversation, settings: &Settings) {
        let Made { model, fingerprint } = self.made.clone();
        let record = Record {
            model,
            fingerprint,
            system: conversation.system.clone(),
            reasoning_effort: conversation.reasoning_effort.clone(),
            think: settings.think,
            seed: settings.sampling.seed,
            turns: conversation.turns().to_vec(),
        };
        match self.store.save(&record) {
            Ok(()) => self.told.text = false,
            Err(error) if !self.told.text => {
                self.told.text = true;
                let (name, path) = (self.store.name(), self.folder.path().display());
                tracing::warn!("the conversation {name} could not be saved in {path}: {error}");
            }
            Err(_) => {}
        }
    }

    fn tell_states(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.told.states, true) {
            tracing::warn!("states are not kept on disk: {reason}");
        }
    }
}

/// What is said when a conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// Nothing.
    None,
    /// How many messages it has.
    Count,
    /// Also the last two of them.
    LastExchange,
}

/// The beginning of a message, in a line.
fn shown(turn: &Turn) -> String {
    let (who, text) = match turn {
        Turn::User { content } => ("> ", content),
        Turn::Assistant { content, .. } => ("", content),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let more = if line.chars().count() > SHOWN { " ..." } else { "" };
    format!("{who}{}{more}", line.chars().take(SHOWN).collect::<String>())
}
