//! The chat template fixtures.

use model::chat::{ChatTemplate, RenderInput};
use serde_json::{Map, Value};

/// The fixtures that have a template and cases.
pub(crate) const TEMPLATES: [&str; 2] = ["qwen3.8-flash-next", "qwen3.8-2.4t"];

/// One conversation with what the reference made of it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    kwargs: Map<String, Value>,
    add_generation_prompt: bool,
    pub(crate) rendered: Option<String>,
    /// The words of the error if nothing was rendered, and whether the template itself raised it.
    pub(crate) error: String,
    pub(crate) raised: bool,
}

impl Case {
    fn new(case: &Value) -> Case {
        let mut kwargs = case["kwargs"].as_object().unwrap().clone();
        let prompt = kwargs.remove("add_generation_prompt").unwrap();
        let tools = kwargs.remove("tools").map(|tools| tools.as_array().unwrap().clone());
        let text = |key: &str| case.get(key).map(|text| text.as_str().unwrap().to_owned());
        Case {
            name: text("name").unwrap(),
            messages: case["messages"].as_array().unwrap().clone(),
            tools,
            kwargs,
            add_generation_prompt: prompt.as_bool().unwrap(),
            rendered: text("rendered"),
            error: text("error").unwrap_or_default(),
            raised: text("error_type").as_deref() == Some("TemplateError"),
        }
    }

    /// The case as input of a render.
    pub(crate) fn input(&self) -> RenderInput<'_> {
        RenderInput {
            messages: &self.messages,
            tools: self.tools.as_deref(),
            kwargs: self.kwargs.clone(),
            add_generation_prompt: self.add_generation_prompt,
        }
    }
}

/// The template of a fixture.
pub(crate) fn template(name: &str) -> ChatTemplate {
    let path = super::fixture(&format!("chat-template/{name}.jinja"));
    ChatTemplate::new(std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The cases of a fixture.
pub(crate) fn cases(name: &str) -> Vec<Case> {
    let file = super::json(&format!("chat-template/{name}.cases.json"));
    file["cases"].as_array().unwrap().iter().map(Case::new).collect()
}
