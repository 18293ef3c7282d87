//! The model that is served: what requests need to know of it.

use crate::ApiError;
use crate::error::ErrorKind;
use crate::request::Effort;
use engine::SamplingParams;
use model::chat::{ChatTemplate, RenderInput};
use model::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

/// A model as it is served.
#[derive(Debug)]
pub struct ServedModel {
    /// The name that answers bear.
    pub name: String,
    /// Other names that requests may call it by.
    pub aliases: Vec<String>,
    /// When it was made or loaded, in seconds since 1970.
    pub created: u64,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template; without one there is no chat.
    pub template: Option<ChatTemplate>,
    /// Settings of requests that have none of their own.
    pub sampling: SamplingParams,
}

impl ServedModel {
    /// Checks the name that a request calls the model by.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for another model's.
    pub fn check_name(&self, name: &str) -> Result<(), ApiError> {
        if name == self.name || self.aliases.iter().any(|alias| alias == name) {
            return Ok(());
        }
        let message = format!(
            "the model {name:?} is not served here; {:?} is. Leave the field model out, or give \
             the model another name with --alias",
            self.name
        );
        Err(ApiError {
            param: Some("model".to_owned()),
            code: Some("model_not_found"),
            ..ApiError::new(ErrorKind::NotFound, message)
        })
    }

    /// Template variables for an effort: the nearest one that the template knows.
    ///
    /// # Errors
    /// If it knows none that is near.
    pub fn effort(&self, effort: Effort) -> Result<Map<String, Value>, ApiError> {
        let candidates: &[Effort] = match effort {
            Effort::None => {
                return Ok(Map::from_iter([("enable_thinking".to_owned(), Value::Bool(false))]));
            }
            Effort::Low => &[Effort::Low],
            Effort::Medium => &[Effort::Medium],
            Effort::High => &[Effort::High, Effort::ExtraHigh],
            Effort::ExtraHigh => &[Effort::ExtraHigh, Effort::High],
        };
        let variables = |effort: &Effort| {
            Map::from_iter([("reasoning_effort".to_owned(), Value::from(effort.name()))])
        };
        let known = candidates.iter().map(variables).find(|variables| self.renders(variables));
        known.ok_or_else(|| {
            let name = effort.name();
            let message = format!("the model's chat template does not know the effort {name:?}");
            ApiError::unsupported("reasoning_effort", message)
        })
    }

    /// Whether the template takes these variables.
    fn renders(&self, variables: &Map<String, Value>) -> bool {
        let messages = [json!({"role": "user", "content": "x"})];
        let kwargs = variables.clone();
        let input =
            RenderInput { messages: &messages, tools: None, kwargs, add_generation_prompt: true };
        self.template.as_ref().is_some_and(|template| template.render(&input).is_ok())
    }
}
