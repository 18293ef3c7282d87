//! `tuff render`: a conversation, as the chat template of a model file writes it.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use model::chat::{ChatTemplate, RenderInput};
use serde_json::{Map, Value};

use crate::args::{ModelArg, read_file};
use crate::error::Error;
use crate::ids;
use crate::model_file::ModelFile;
use crate::terminal::TextOut;

const EXAMPLES: &str = "\
Examples:
  tuff render --messages chat.json                  what the model would be given
  tuff render --messages chat.json --tools tools.json --no-think
  tuff render --messages chat.json --kwargs '{\"enable_thinking\": false}' --ids
  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | tuff render --messages -

The text is printed exactly, without a line break at the end. --ids prints the token ids that
`tuff chat` would use, as a JSON array; control tokens spelled out in messages stay text there. A
file that holds only metadata will do.";

const GENERATION_PROMPT: &str = "add_generation_prompt";

/// Arguments of `tuff render`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// JSON file with an array of messages, or an object with "messages" and, if need be,
    /// "tools" and "kwargs"; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    messages: PathBuf,
    /// JSON file with an array of tool definitions.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Variables of the template, as a JSON object; add_generation_prompt may be among them.
    #[arg(long, value_name = "JSON")]
    kwargs: Option<String>,
    /// Set the variable enable_thinking to false.
    #[arg(long)]
    no_think: bool,
    /// Set the variable reasoning_effort.
    #[arg(long, value_name = "LEVEL")]
    reasoning_effort: Option<String>,
    /// Do not open the assistant's answer at the end.
    #[arg(long)]
    no_generation_prompt: bool,
    /// Print the token ids instead of the text.
    #[arg(long)]
    ids: bool,
    #[command(flatten)]
    model: ModelArg,
}

/// Prints the rendered conversation.
///
/// # Errors
/// A file without a template; [`Error::Refused`] for JSON of another shape;
/// [`Error::Template`] for a conversation that the template refuses.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let conversation = Conversation::read(args)?;
    let file = args.model.open()?;
    let text = if args.ids {
        let tokenizer = file.tokenizer()?;
        let template = file.template()?.with_token_variables(&tokenizer);
        let tokens = template.render_tokens(&conversation.input(), &tokenizer);
        format!("[{}]\n", ids::joined(&tokens.map_err(Error::Template)?))
    } else {
        template(&file)?.render(&conversation.input()).map_err(Error::Template)?
    };
    TextOut::stdout().text(&text)
}

/// The template; one that writes the text of a special token needs the vocabulary for it.
fn template(file: &ModelFile) -> Result<ChatTemplate, Error> {
    let template = file.template()?;
    if file.has_vocabulary() {
        return Ok(template.with_token_variables(&file.tokenizer()?));
    }
    Ok(template)
}

/// What is to be rendered, from files and options together.
#[derive(Debug, Default)]
struct Conversation {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    kwargs: Map<String, Value>,
    add_generation_prompt: bool,
}

impl Conversation {
    fn read(args: &Args) -> Result<Conversation, Error> {
        let mut read = Conversation::parse(read_json(&args.messages)?)?;
        if let Some(path) = &args.tools {
            read.tools = Some(array(read_json(path)?, "the tools")?);
        }
        if let Some(text) = &args.kwargs {
            let value =
                serde_json::from_str(text).map_err(|error| malformed("--kwargs", &error))?;
            read.kwargs.extend(object(value, "--kwargs")?);
        }
        if args.no_think {
            read.kwargs.insert("enable_thinking".to_owned(), Value::Bool(false));
        }
        if let Some(effort) = &args.reasoning_effort {
            read.kwargs.insert("reasoning_effort".to_owned(), Value::from(effort.as_str()));
        }
        read.take_named_variables(!args.no_generation_prompt)?;
        Ok(read)
    }

    /// An array of messages, or an object with more than that.
    fn parse(value: Value) -> Result<Conversation, Error> {
        let mut parts = match value {
            Value::Object(parts) => parts,
            other => {
                let messages = array(other, "the messages")?;
                return Ok(Conversation { messages, ..Conversation::default() });
            }
        };
        let Some(messages) = parts.shift_remove("messages") else {
            return Err(Error::Refused("the JSON object has no \"messages\"".to_owned()));
        };
        let present = |value: &Value| !value.is_null();
        let tools = parts.shift_remove("tools").filter(present);
        let kwargs = parts.shift_remove("kwargs").filter(present);
        Ok(Conversation {
            messages: array(messages, "\"messages\"")?,
            tools: tools.map(|tools| array(tools, "\"tools\"")).transpose()?,
            kwargs: kwargs.map_or(Ok(Map::new()), |kwargs| object(kwargs, "\"kwargs\""))?,
            add_generation_prompt: true,
        })
    }

    /// Tools and generation prompt may also be given among the variables; tools that are given
    /// otherwise come first, the generation prompt of the variables wins.
    fn take_named_variables(&mut self, add_generation_prompt: bool) -> Result<(), Error> {
        self.add_generation_prompt = match self.kwargs.shift_remove(GENERATION_PROMPT) {
            None => add_generation_prompt,
            Some(Value::Bool(add)) => add,
            Some(other) => {
                let wanted = "it must be true or false";
                return Err(Error::Refused(format!("{GENERATION_PROMPT} is {other}: {wanted}")));
            }
        };
        let tools = self.kwargs.shift_remove("tools").filter(|tools| !tools.is_null());
        if let (None, Some(tools)) = (&self.tools, tools) {
            self.tools = Some(array(tools, "\"tools\"")?);
        }
        Ok(())
    }

    fn input(&self) -> RenderInput<'_> {
        RenderInput {
            messages: &self.messages,
            tools: self.tools.as_deref(),
            kwargs: self.kwargs.clone(),
            add_generation_prompt: self.add_generation_prompt,
        }
    }
}

fn read_json(path: &Path) -> Result<Value, Error> {
    let text = read_file(path)?;
    let what = path.display().to_string();
    serde_json::from_str(&text).map_err(|error| malformed(&what, &error))
}

fn malformed(what: &str, error: &serde_json::Error) -> Error {
    Error::Refused(format!("{what} is not valid JSON: {error}"))
}

fn array(value: Value, what: &str) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(wrong_kind(what, "an array", &other)),
    }
}

fn object(value: Value, what: &str) -> Result<Map<String, Value>, Error> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(wrong_kind(what, "an object", &other)),
    }
}

fn wrong_kind(what: &str, wanted: &str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Error::Refused(format!("{what} must be {wanted} in JSON, found {found}"))
}
