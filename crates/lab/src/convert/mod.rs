//! Converting: a Hugging Face folder of a qwen4exp model into a model file.
//!
//! * `config`: `config.json` and `generation_config.json`, the model's numbers.
//! * `vocabulary`: tokenizer and chat template.
//! * `weights`: what the `.safetensors` files say about themselves.
//! * `mapping`: which tensors of the folder a tensor of the file is made of, `assembly` how.
//!
//! The file is written as [`crate::transform`] does: in row blocks, and resumable.

mod assembly;
mod config;
mod error;
mod json;
mod mapping;
mod vocabulary;
mod weights;

use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf::{Metadata, TensorType};
use model::{Accepts, HashConstants, HyperParams, Role};

pub use error::{Error, Fault, Problem};

use crate::imatrix::Imatrix;
use crate::transform::{
    self, Plan, PlannedPart, PlannedTensor, Recipe, Scratch, Sizes, Source, Target, set_labels,
};
use assembly::{Assembly, Sources};
use config::Config;
use mapping::{Made, Mapper};
use weights::{Stored, Weights};

const VISION: [&str; 2] = ["model.visual.*", "visual.*"];
const MTP: &str = "mtp.*";

/// What becomes of the drafting block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtpBlock {
    /// It goes into the file if the folder has one.
    Include,
    /// It is left out.
    LeaveOut,
}

/// What becomes of the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// It goes into the file and must be there.
    Include,
    /// The file has none, and runs on token ids only.
    LeaveOut,
}

/// How much of a folder is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All of it.
    Everything,
    /// Numbers, vocabulary and template: the folder needs no weights, and the file has none.
    Metadata,
}

/// How a folder is converted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Formats by role. Without one, a matrix keeps the type of its weights, and vectors, routers,
    /// injections and gates are F32.
    pub recipe: Recipe,
    /// Importance of columns, by the names of the model file.
    pub imatrix: Option<Imatrix>,
    /// The drafting block.
    pub mtp: MtpBlock,
    /// Tokenizer and chat template.
    pub vocabulary: Vocabulary,
    /// Whether there are weights.
    pub contents: Contents,
    /// Tensors that are left out; `*` stands for any characters.
    pub ignore: Vec<String>,
    /// The model's name in the file; the folder's without one.
    pub name: Option<String>,
}

/// A model file to be written from a folder.
#[derive(Debug)]
pub struct Convert {
    /// What is written.
    pub target: Target,
    /// The tensors' bytes in the folder and in the file.
    pub sizes: Sizes,
    /// Tensors of the folder that are not part of the file, vision and ignored ones.
    pub left_out: Vec<String>,
    /// True if the folder has a chat template, or is not asked for one.
    pub has_template: bool,
    made: Vec<Made>,
    sources: Sources,
    paths: Vec<PathBuf>,
    imatrix: Option<Imatrix>,
}

impl Convert {
    /// Plans the file `path`.
    ///
    /// # Errors
    /// [`Error`]: all of it is found before a weight is read.
    pub fn plan(folder: &Path, path: &Path, options: Options) -> Result<Convert, Error> {
        let config = Config::read(folder)?;
        let everything = options.contents == Contents::Everything;
        let weights = if everything { Weights::open(folder)? } else { Weights::default() };
        let trunk = trunk_prefix(&weights);
        let has_mtp = match everything {
            true => weights.tensors.keys().any(|name| matches(MTP, name)),
            false => config.has_mtp()?,
        };
        let mtp = usize::from(has_mtp && options.mtp == MtpBlock::Include);
        let hash = hash_constants(&weights, &config, trunk)?;
        let name = options.name.clone().unwrap_or_else(|| name_of(folder));
        let mut metadata = config.metadata(&name, mtp, hash)?;
        let wrong = |source| Error::Model { path: folder.join("config.json"), source };
        let hp = HyperParams::from_metadata(&metadata).map_err(wrong)?;
        if options.vocabulary == Vocabulary::Include {
            vocabulary::add(&mut metadata, folder, &config, hp.vocab)?;
        }
        let mut mapper = Mapper::new(&weights, &hp, trunk);
        if everything {
            mapper.model(config.is_tied());
        }
        let left_out = unused(&weights, &mapper, &options, trunk);
        if !mapper.faults.is_empty() {
            return Err(Error::Tensors(mapper.faults));
        }
        let left_out = left_out?;
        let mut sizes = Sizes::default();
        let (metadata, target) = lay_out(metadata, &mapper, &options, path, &mut sizes)?;
        let has_template = metadata.get("tokenizer.chat_template").is_some()
            || options.vocabulary == Vocabulary::LeaveOut;
        let (made, tensors) = (mapper.made, mapper.sources);
        let Weights { files, paths, .. } = weights;
        let sources = Sources { files, tensors };
        let imatrix = options.imatrix;
        Ok(Convert { target, sizes, left_out, has_template, made, sources, paths, imatrix })
    }

    /// The files that are read.
    pub fn inputs(&self) -> Vec<PathBuf> {
        self.paths.clone()
    }
}

impl Source for Convert {
    fn identity(&self) -> Vec<u8> {
        let mut identity: Vec<u8> =
            self.sources.files.iter().flat_map(|file| file.identity()).collect();
        let imatrix = self.imatrix.as_ref().map(Imatrix::fingerprint);
        identity.extend(imatrix.iter().flat_map(|hash| hash.to_le_bytes()));
        identity
    }

    fn fill(
        &self,
        tensor: usize,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), transform::Error> {
        let (made, ty) = (&self.made[tensor], self.target.tensor(tensor).ty);
        let n_in = made.assembly.n_in() as usize;
        let count = (rows.end - rows.start) as usize;
        scratch.values.resize(count * n_in, 0.0);
        let Scratch { raw, values } = scratch;
        made.assembly.read(rows.clone(), &self.sources, raw, values)?;
        let encoded = out.len() / count;
        let pairs = values.chunks_exact(n_in).zip(out.chunks_exact_mut(encoded));
        for ((values, out), row) in pairs.zip(rows) {
            let importance = match &self.imatrix {
                Some(imatrix) => imatrix.row(&made.name, &made.dims, row)?,
                None => None,
            };
            quant::encode_row(ty, values, importance, out).map_err(|source| {
                transform::Error::Row { tensor: made.name.clone(), row, source }
            })?;
        }
        Ok(())
    }
}

/// What the names of the text model begin with.
fn trunk_prefix(weights: &Weights) -> &'static str {
    const NESTED: &str = "model.language_model.";
    let nested = weights.tensors.keys().any(|name| name.starts_with(NESTED));
    if nested { NESTED } else { "model." }
}

fn name_of(folder: &Path) -> String {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    real.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The constants of the n-gram hash that the folder carries as tensors, if it does.
fn hash_constants(
    weights: &Weights,
    config: &Config,
    trunk: &str,
) -> Result<Option<HashConstants>, Error> {
    let Some(layer) = config.ngram_layer()? else { return Ok(None) };
    let (longest, heads) = config.ngram_heads()?;
    let parts = [
        ("layer_multipliers", longest),
        ("ngram_heads_offsets", heads),
        ("ngram_heads_vocab_sizes", heads),
    ];
    let mut found = Vec::new();
    for (name, count) in parts {
        let name = format!("{trunk}layers.{layer}.ple.ple_embedding.{name}");
        let Some(stored) = weights.tensors.get(&name) else { return Ok(None) };
        found.push(whole_numbers(weights, &name, stored, count)?);
    }
    let mut found = found.into_iter();
    let mut next = || found.next().unwrap_or_default();
    Ok(Some(HashConstants { multipliers: next(), offsets: next(), sizes: next() }))
}

fn whole_numbers(
    weights: &Weights,
    name: &str,
    stored: &Stored,
    count: u32,
) -> Result<Vec<u64>, Error> {
    let fault = |problem| Error::Tensors(vec![Fault { tensor: name.to_owned(), problem }]);
    if stored.dtype != "I64" {
        let found = stored.dtype.clone();
        return Err(fault(Problem::Type { expected: "I64", found }));
    }
    let expected = vec![u64::from(count)];
    if stored.shape != expected {
        let found = stored.shape.clone();
        return Err(fault(Problem::Shape { expected, found }));
    }
    let mut bytes = vec![0; count as usize * 8];
    weights.files[stored.file].read_at(stored.start, &mut bytes)?;
    // Negative ones become too large, and the check of the metadata refuses those.
    Ok(bytes.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
}

/// The tensors of the folder that the file does without.
fn unused(
    weights: &Weights,
    mapper: &Mapper<'_>,
    options: &Options,
    trunk: &str,
) -> Result<Vec<String>, Error> {
    let constants = format!("{trunk}layers.*.ple.ple_embedding.*");
    let (mut left_out, mut unknown) = (Vec::new(), Vec::new());
    for (name, stored) in &weights.tensors {
        let is_constant = stored.dtype == "I64" && matches(&constants, name);
        let is_mtp = options.mtp == MtpBlock::LeaveOut && matches(MTP, name);
        let mut ignored = VISION.into_iter().chain(options.ignore.iter().map(String::as_str));
        if mapper.uses(name) || is_constant {
            continue;
        }
        match is_mtp || ignored.any(|pattern| matches(pattern, name)) {
            true => left_out.push(name.clone()),
            false => unknown.push(name.clone()),
        }
    }
    if unknown.is_empty() { Ok(left_out) } else { Err(Error::Unknown(unknown)) }
}

/// Whether a name is what a pattern says; `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The format of a tensor that is made of weights of a type.
fn format(recipe: &Recipe, role: Role, widest: TensorType) -> TensorType {
    let precise = matches!(
        role,
        Role::Router
            | Role::SharedGateInp
            | Role::HcAttnInject
            | Role::HcFfnInject
            | Role::GdnAlpha
            | Role::GdnBeta
    );
    let own = if precise || role.accepts() == Accepts::Floats { TensorType::F32 } else { widest };
    recipe.format(role).unwrap_or(own)
}

fn lay_out(
    mut metadata: Metadata,
    mapper: &Mapper<'_>,
    options: &Options,
    path: &Path,
    sizes: &mut Sizes,
) -> Result<(Metadata, Target), Error> {
    let choices = options.recipe.choices();
    let covered = |choice: &&transform::Choice| mapper.made.iter().any(|m| choice.covers(m.role));
    if let Some(choice) = choices.iter().find(|choice| !covered(choice)) {
        return Err(transform::Error::NoTensor { choice: choice.name().to_owned() }.into());
    }
    let widest = |assembly: &Assembly| mapper.widest(assembly);
    let planned = |made: &Made| {
        let ty = format(&options.recipe, made.role, widest(&made.assembly));
        let (name, dims) = (made.name.clone(), made.dims.clone());
        PlannedTensor { name, dims, ty, encoded: true }
    };
    let tensors: Vec<PlannedTensor> = mapper.made.iter().map(planned).collect();
    if let Some(imatrix) = &options.imatrix {
        let columns = |t: &PlannedTensor| imatrix.columns(&t.name, &t.dims).map(|_| ());
        tensors.iter().try_for_each(columns).map_err(transform::Error::from)?;
    }
    let values = |made: &Made| made.dims.iter().product::<u64>();
    let weights: Vec<_> =
        mapper.made.iter().zip(&tensors).map(|(made, t)| (t.ty, values(made))).collect();
    set_labels(&mut metadata, None, &weights);
    let part = PlannedPart { metadata: metadata.clone(), tensors };
    let target = Target::new(&Plan { parts: vec![part] }, path)?;
    let planned = target.tensors().zip(target.tensor_bytes());
    for (made, (tensor, bytes)) in mapper.made.iter().zip(planned) {
        let before = widest(&made.assembly);
        let bytes_before = before.block_bytes() as u64 * values(made);
        sizes.add(&made.name, (before, bytes_before), (tensor.ty, bytes));
    }
    Ok((metadata, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("mtp.*", "mtp.fc_hidden.weight") && !matches("mtp.*", "model.mtp.x"));
        assert!(matches("*.bias", "a.bias") && !matches("*.bias", "a.biases"));
        assert!(matches("a*b*c", "a-b-b-c") && !matches("a*b*c", "a-c") && matches("*", ""));
        assert!(matches("plain", "plain") && !matches("plain", "plainer"));
        // A star is not to be counted twice.
        assert!(!matches("ab*b", "ab"));
    }
}
