//! The keys of a tokenizer, and the ids that have a role: beginning, end, padding, stop.

use super::added::AddedTokens;
use super::error::TokenizerError;

pub(super) const MODEL: &str = "tokenizer.ggml.model";
pub(super) const PRE: &str = "tokenizer.ggml.pre";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const TYPES: &str = "tokenizer.ggml.token_type";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const EOT: &str = "tokenizer.ggml.eot_token_id";
const PADDING: &str = "tokenizer.ggml.padding_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";

/// Added tokens that end a generation whether or not the file names them as end of sequence:
/// after the first two nothing of the answer can follow, the others separate documents.
const STOP_TEXTS: [&str; 5] =
    ["<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"];

/// Ids with a role.
#[derive(Debug)]
pub(super) struct SpecialIds {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) padding: Option<u32>,
    pub(super) add_bos: bool,
    /// Ascending, each once, at least one.
    pub(super) stop: Vec<u32>,
}

impl SpecialIds {
    /// Reads the roles, for a vocabulary of `size` tokens.
    pub(super) fn read(
        metadata: &gguf::Metadata,
        size: usize,
        added: &AddedTokens,
    ) -> Result<SpecialIds, TokenizerError> {
        let id = |key| match metadata.get_u32(key)? {
            Some(id) if id as usize >= size => Err(TokenizerError::SpecialId { key, id, size }),
            id => Ok(id),
        };
        let (eos, eot) = (id(EOS)?, id(EOT)?);
        let named = STOP_TEXTS.iter().filter_map(|text| added.id(text));
        let mut stop: Vec<u32> = eos.into_iter().chain(eot).chain(named).collect();
        stop.sort_unstable();
        stop.dedup();
        if stop.is_empty() {
            return Err(TokenizerError::NoStopToken);
        }
        let add_bos = metadata.get_bool(ADD_BOS)?.unwrap_or(false);
        Ok(SpecialIds { bos: id(BOS)?, eos, padding: id(PADDING)?, add_bos, stop })
    }
}
