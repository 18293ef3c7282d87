//! The facts about a model file.

use std::collections::BTreeMap;

use gguf::TensorInfo;
use model::chat::ChatTemplate;
use model::tokenizer::Tokenizer;
use model::{Checkpoint, HyperParams, Part, Role};

use crate::model_file::ModelFile;

/// Everything that is shown.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// The file.
    pub(crate) file: &'a ModelFile,
    /// What the file is good for, in a sentence.
    pub(crate) summary: String,
    /// The model's numbers, if they can be read.
    pub(crate) hp: Option<HyperParams>,
    /// Every tensor, in the order of the file.
    pub(crate) tensors: Vec<Row<'a>>,
    /// Sizes by part; what has no part comes last.
    pub(crate) parts: Vec<PartSize>,
    /// What is odd without being wrong.
    pub(crate) warnings: Vec<String>,
    /// Why the model cannot be run.
    pub(crate) faults: Vec<String>,
}

/// One tensor.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// As the file describes it.
    pub(crate) info: &'a TensorInfo,
    /// What it is for; None for a name that qwen4exp does not know.
    pub(crate) role: Option<Role>,
    /// The part of the model that it counts to.
    pub(crate) part: Option<Part>,
}

/// The size of one part of a model.
#[derive(Debug)]
pub(crate) struct PartSize {
    /// The part; None for tensors without a role.
    pub(crate) part: Option<Part>,
    /// The number of tensors.
    pub(crate) tensors: usize,
    /// The number of weights.
    pub(crate) weights: u64,
    /// Bytes of the weights.
    pub(crate) bytes: u64,
}

impl PartSize {
    /// Name of the part.
    pub(crate) fn name(&self) -> &'static str {
        self.part.map_or("other tensors", Part::name)
    }
}

/// Bits that a weight takes on average; 0 without weights.
pub(crate) fn bits_per_weight(bytes: u64, weights: u64) -> f64 {
    if weights == 0 { 0.0 } else { bytes as f64 * 8.0 / weights as f64 }
}

/// What [`Checkpoint::load`] thinks of a file.
#[derive(Debug, Default)]
struct Opinion {
    summary: String,
    hp: Option<HyperParams>,
    warnings: Vec<String>,
    faults: Vec<String>,
}

impl<'a> Report<'a> {
    /// Gathers the facts.
    pub(crate) fn new(file: &'a ModelFile) -> Report<'a> {
        let Opinion { summary, hp, mut warnings, faults } = opinion(file);
        if hp.is_some() {
            warnings.extend(text_faults(file));
        }
        let trunk = hp.as_ref().map(|hp| hp.layers.len());
        let tensors: Vec<_> = file.gguf.tensors().iter().map(|info| row(info, trunk)).collect();
        let parts = parts(&tensors);
        Report { file, summary, hp, tensors, parts, warnings, faults }
    }

    /// Whether the file has tensors of a drafting block.
    pub(crate) fn has_drafting_block(&self) -> bool {
        self.parts.iter().any(|size| size.part == Some(Part::Mtp))
    }

    /// Weights of all tensors.
    pub(crate) fn weights(&self) -> u64 {
        self.parts.iter().map(|part| part.weights).fold(0, u64::saturating_add)
    }

    /// Bytes of all tensors.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add)
    }
}

fn opinion(file: &ModelFile) -> Opinion {
    let hp = HyperParams::from_metadata(file.gguf.metadata()).ok();
    let error = match Checkpoint::load(&file.gguf) {
        Ok(checkpoint) => {
            let (warnings, hp) = (checkpoint.warnings(), Some(checkpoint.hp));
            let summary = "a complete qwen4exp model".to_owned();
            return Opinion { summary, hp, warnings, faults: Vec::new() };
        }
        Err(error) => error,
    };
    let no_tensors = file.gguf.tensors().is_empty();
    let mut found = Opinion { hp, ..Opinion::default() };
    found.summary = match error {
        model::Error::Architecture { found: name } => match name.as_str() {
            "" => "a GGUF file that names no architecture".to_owned(),
            name => format!("a GGUF file of architecture {name:?}, which tuff cannot run"),
        },
        model::Error::MtpOnly { layers } => {
            format!("the MTP block of a qwen4exp model of {layers} layers, without the model")
        }
        model::Error::Tensors(_) if no_tensors => "metadata of a qwen4exp model, no tensors".into(),
        other if no_tensors => {
            found.warnings.push(other.to_string());
            "metadata only, of a qwen4exp model that could not be run".into()
        }
        model::Error::Tensors(faults) => {
            found.faults = faults.0.iter().map(ToString::to_string).collect();
            "an incomplete or damaged qwen4exp model".into()
        }
        other => {
            found.faults = vec![other.to_string()];
            "a qwen4exp model that cannot be run".into()
        }
    };
    found
}

/// What is wrong with tokenizer and chat template, without which only `tuff logits` works.
fn text_faults(file: &ModelFile) -> Vec<String> {
    let metadata = file.gguf.metadata();
    let tokenizer = Tokenizer::from_metadata(metadata).err().map(|e| format!("tokenizer: {e}"));
    let template = match metadata.get_str("tokenizer.chat_template") {
        Ok(None) => Some("no chat template: `tuff chat` and `tuff render` need one".to_owned()),
        Ok(Some(source)) => ChatTemplate::new(source).err().map(|e| e.to_string()),
        Err(error) => Some(error.to_string()),
    };
    tokenizer.into_iter().chain(template).collect()
}

fn row(info: &TensorInfo, trunk: Option<usize>) -> Row<'_> {
    // Roles mean something only in a model whose layers are known.
    let known = trunk.and_then(|trunk| Some((Role::of_name(&info.name)?, trunk)));
    let role = known.map(|((role, _), _)| role);
    let part = known.map(|((role, layer), trunk)| role.part_at(layer, trunk));
    Row { info, role, part }
}

fn parts(tensors: &[Row<'_>]) -> Vec<PartSize> {
    let mut sizes = BTreeMap::new();
    for row in tensors {
        // None sorts first; it is to come last.
        let size = sizes.entry((row.part.is_none(), row.part)).or_insert(PartSize {
            part: row.part,
            tensors: 0,
            weights: 0,
            bytes: 0,
        });
        size.tensors += 1;
        size.weights = size.weights.saturating_add(row.info.elements());
        size.bytes = size.bytes.saturating_add(row.info.bytes);
    }
    sizes.into_values().collect()
}
