//! The turns of a conversation, and the prompt that the template makes of them.

use model::chat::{ChatTemplate, RenderInput};
use model::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

use super::Think;
use crate::conversations::Turn;
use crate::error::Error;

/// A conversation with everything that is needed to render it.
#[derive(Debug)]
pub(crate) struct Conversation {
    template: ChatTemplate,
    /// The tokenizer of the model.
    pub(crate) tokenizer: Tokenizer,
    /// The system message.
    pub(crate) system: Option<String>,
    /// The variable `reasoning_effort`.
    pub(crate) reasoning_effort: Option<String>,
    /// User and assistant in turn.
    turns: Vec<Turn>,
}

impl Conversation {
    /// Without turns.
    pub(crate) fn new(template: ChatTemplate, tokenizer: Tokenizer) -> Conversation {
        let turns = Vec::new();
        Conversation { template, tokenizer, system: None, reasoning_effort: None, turns }
    }

    /// Renders a first message, so that a template that does not work, or refuses a setting,
    /// shows at once.
    ///
    /// # Errors
    /// [`Error::Template`].
    pub(crate) fn check(&self, think: Think) -> Result<(), Error> {
        self.render(&[Turn::user("Hello")], think).map(drop)
    }

    /// Adds a message of the user.
    pub(crate) fn add_user(&mut self, text: &str) {
        self.turns.push(Turn::user(text));
    }

    /// Adds an answer. The template decides what later prompts hold of the reasoning.
    pub(crate) fn add_assistant(&mut self, reasoning: &str, content: &str) {
        let (reasoning_content, content) = (reasoning.to_owned(), content.to_owned());
        self.turns.push(Turn::Assistant { reasoning_content, content });
    }

    /// Takes the last message back if the user wrote it.
    pub(crate) fn take_back_user(&mut self) {
        self.turns.pop_if(|turn| matches!(turn, Turn::User { .. }));
    }

    /// Takes the last answer back; false if there is none.
    pub(crate) fn take_back_answer(&mut self) -> bool {
        self.turns.pop_if(|turn| matches!(turn, Turn::Assistant { .. }));
        matches!(self.turns.last(), Some(Turn::User { .. }))
    }

    /// What was said.
    pub(crate) fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Goes on from these turns.
    pub(crate) fn set_turns(&mut self, turns: Vec<Turn>) {
        self.turns = turns;
    }

    /// Forgets all turns; the system message stays.
    pub(crate) fn reset(&mut self) {
        self.turns.clear();
    }

    /// The ids after which the model writes its next answer. Nothing that a message says can
    /// become a control token.
    ///
    /// # Errors
    /// [`Error::Template`].
    pub(crate) fn prompt(&self, think: Think) -> Result<Vec<u32>, Error> {
        self.render(&self.turns, think)
    }

    /// A prompt that the conversation may go on with: as any other, up to what the user will say.
    ///
    /// # Errors
    /// [`Error::Template`].
    pub(crate) fn next_prompt(&self, think: Think) -> Result<Vec<u32>, Error> {
        let mut turns = self.turns.clone();
        turns.push(Turn::user("Hello"));
        self.render(&turns, think)
    }

    /// Positions in a prompt behind the token that ends a message, rising.
    pub(crate) fn message_ends(&self, prompt: &[u32]) -> Vec<usize> {
        let ends = prompt.iter().zip(1..).filter(|(token, _)| self.tokenizer.is_eog(**token));
        ends.map(|(_, end)| end).collect()
    }

    fn render(&self, turns: &[Turn], think: Think) -> Result<Vec<u32>, Error> {
        let system = self.system.iter().map(|text| json!({"role": "system", "content": text}));
        let messages: Vec<Value> = system.chain(turns.iter().map(message)).collect();
        let mut kwargs = Map::new();
        kwargs.insert("enable_thinking".to_owned(), Value::Bool(think != Think::Off));
        if let Some(effort) = &self.reasoning_effort {
            kwargs.insert("reasoning_effort".to_owned(), Value::from(effort.as_str()));
        }
        let input =
            RenderInput { messages: &messages, tools: None, kwargs, add_generation_prompt: true };
        self.template.render_tokens(&input, &self.tokenizer).map_err(Error::Template)
    }
}

/// A turn as templates know it.
fn message(turn: &Turn) -> Value {
    match turn {
        Turn::User { content } => json!({"role": "user", "content": content}),
        Turn::Assistant { reasoning_content, content } => json!({
            "role": "assistant", "reasoning_content": reasoning_content, "content": content
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use crate::model_file::ModelFile;

    #[test]
    fn fault_071_an_empty_turn_leaves_message_ends_where_they_were() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/sample/sample.gguf");
        let file = ModelFile::open(Some(&sample)).unwrap();
        let new = || Conversation::new(file.template().unwrap(), file.tokenizer().unwrap());
        // Nothing, blanks only, and text at each place.
        for texts in [["", "Hi", ""], ["Hi", "", "Ho"], [" ", "\n", " "], ["Hi", "Ho", "Hum"]] {
            for think in [Think::Off, Think::On] {
                let mut conversation = new();
                conversation.system = texts[0].is_empty().then(String::new);
                let mut before: Vec<u32> = Vec::new();
                let mut ends = 0;
                for text in texts {
                    conversation.add_user(text);
                    let prompt = conversation.prompt(think).unwrap();
                    let all = conversation.message_ends(&prompt);
                    // One more of the user, and of the assistant before it; each behind what was
                    // there, so that a state saved at an end is found again.
                    let behind = all.iter().filter(|end| **end <= before.len()).count();
                    assert!(all.len() > ends && behind >= ends, "{texts:?}: {all:?} after {ends}");
                    let last = all[all.len() - 1];
                    assert!(ends == 0 || prompt[..before.len()] == before[..], "{texts:?}");
                    (before, ends) = (prompt[..last].to_vec(), all.len());
                    conversation.add_assistant("", text);
                }
            }
        }
    }
}
