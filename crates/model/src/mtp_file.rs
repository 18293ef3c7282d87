//! Where an MTP block comes from: inside the model's file, or a separate file whose dimensions
//! must agree with the model's.

use std::fmt::Debug;

use gguf::Gguf;

use crate::error::Error;
use crate::hparams::HyperParams;
use crate::keys::missing;
use crate::role::Role;

/// The source of an MTP block.
#[derive(Debug)]
pub(crate) enum MtpSource<'a> {
    /// There is none.
    None,
    /// The model's own file.
    Inside { file: &'a Gguf, block: usize },
    /// A file of its own.
    Separate {
        file: &'a Gguf,
        block: usize,
        /// Whether `token_embd` and `output` in it are the block's own, not the target's.
        copies: bool,
    },
}

impl<'a> MtpSource<'a> {
    /// The block inside a model's file. A file that counts a block but holds no tensor of it has
    /// none: such files are made by leaving the block out.
    pub(crate) fn inside(file: &'a Gguf, hp: &HyperParams) -> Result<Self, Error> {
        if hp.mtp_layers == 0 || !has_layers(file, |n| n == hp.layers.len()) {
            return Ok(Self::None);
        }
        refuse_reduced_head(file, hp.layers.len())?;
        Ok(Self::Inside { file, block: hp.mtp_block })
    }

    /// The block of a separate file, for a model of dimensions `hp`.
    pub(crate) fn separate(file: &'a Gguf, hp: &HyperParams) -> Result<Self, Error> {
        let theirs = params(file)?;
        if theirs.mtp_layers == 0 {
            return Err(Error::Unsupported {
                what: "an MTP file without an MTP block (nextn_predict_layers)".to_owned(),
                hint: "give a file that was made as the MTP file of this model".to_owned(),
            });
        }
        let differences = differences(hp, &theirs);
        if !differences.is_empty() {
            return Err(Error::MtpMismatch(differences));
        }
        refuse_reduced_head(file, hp.layers.len())?;
        let shared = file.metadata().get_bool("qwen4exp.nextn_shared_target_tensors")?;
        let copies = shared != Some(true);
        Ok(Self::Separate { file, block: theirs.mtp_block, copies })
    }

    /// The file that holds the block.
    pub(crate) fn file(&self) -> Option<&'a Gguf> {
        match self {
            Self::None => None,
            Self::Inside { file, .. } | Self::Separate { file, .. } => Some(file),
        }
    }

    /// Block size of the MTP block's attention.
    pub(crate) fn block(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Inside { block, .. } | Self::Separate { block, .. } => *block,
        }
    }

    /// Whether `token_embd` and `output` of the block's file are the block's own.
    pub(crate) fn has_copies(&self) -> bool {
        matches!(self, Self::Separate { copies: true, .. })
    }

    /// The separate file, if it is one.
    pub(crate) fn into_separate_file(self) -> Option<Gguf> {
        match self {
            Self::Separate { file, .. } => Some(file.clone()),
            Self::None | Self::Inside { .. } => None,
        }
    }
}

/// The hyper-parameters of a file that must hold a trunk.
pub(crate) fn model_params(file: &Gguf) -> Result<HyperParams, Error> {
    let hp = params(file)?;
    let trunk = hp.layers.len();
    if hp.mtp_layers > 0 && !has_layers(file, |n| n < trunk) && has_layers(file, |n| n == trunk) {
        return Err(Error::MtpOnly { layers: trunk });
    }
    if hp.ple.is_none()
        && file.tensor(&Role::NgramTable.name(0)).is_some()
        && file.metadata().get("qwen4exp.ple.layers").is_none()
    {
        return Err(missing("ple.layers"));
    }
    Ok(hp)
}

/// Hyper-parameters with the vocabulary filled in from the token embedding, where there is one.
fn params(file: &Gguf) -> Result<HyperParams, Error> {
    let mut hp = HyperParams::from_metadata(file.metadata())?;
    if hp.vocab == 0
        && let Some(info) = file.tensor(&Role::TokenEmbd.name(0))
        && let Some(rows) = info.dims.get(1)
    {
        let max = crate::sizes::MAX_VOCAB as u64;
        Error::check_range("the number of rows of token_embd.weight", *rows, 1..=max)?;
        hp.vocab = usize::try_from(*rows).unwrap_or(0);
        hp.check_ids()?;
    }
    Ok(hp)
}

fn has_layers(file: &Gguf, wanted: impl Fn(usize) -> bool) -> bool {
    let roles = file.tensors().iter().filter_map(|info| Role::of_name(&info.name));
    roles.filter_map(|(_, layer)| layer).any(wanted)
}

/// Refuses the tensors of a draft head over a reduced vocabulary, which have names of their own.
fn refuse_reduced_head(file: &Gguf, n: usize) -> Result<(), Error> {
    let names = ["fc_embd", "fc_hidden"].map(|name| format!("blk.{n}.nextn.{name}.weight"));
    match names.iter().find(|name| file.tensor(name).is_some()) {
        Some(name) => Err(Error::Unsupported {
            what: format!("an MTP block with a reduced vocabulary (tensor {name})"),
            hint: "use an MTP file over the full vocabulary".to_owned(),
        }),
        None => Ok(()),
    }
}

/// In what the dimensions of an MTP file differ from its model's.
fn differences(ours: &HyperParams, theirs: &HyperParams) -> Vec<String> {
    let mut found = Vec::new();
    compare(&mut found, "trunk layers", &ours.layers.len(), &theirs.layers.len());
    compare(&mut found, "embedding_length", &ours.embd, &theirs.embd);
    if theirs.vocab > 0 {
        compare(&mut found, "vocab_size", &ours.vocab, &theirs.vocab);
    }
    compare(&mut found, "layer_norm_rms_epsilon", &ours.rms_eps, &theirs.rms_eps);
    compare(&mut found, "attention", &ours.attn, &theirs.attn);
    if theirs.mtp_block > 0 {
        compare(&mut found, "indexer", &ours.indexer, &theirs.indexer);
    }
    compare(&mut found, "experts", &ours.moe, &theirs.moe);
    compare(&mut found, "hyper-connections", &ours.hc, &theirs.hc);
    found
}

fn compare<T: PartialEq + Debug>(found: &mut Vec<String>, what: &str, ours: &T, theirs: &T) {
    if ours != theirs {
        found.push(format!("{what}: the model has {ours:?}, the MTP file {theirs:?}"));
    }
}
