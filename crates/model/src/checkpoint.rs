//! A checkpoint as typed tensors: the model's structure in plain structs, in model order.
//!
//! [`Checkpoint::load`] (in `load.rs`) checks every tensor before any is used. The bytes stay in
//! the mapped file; a [`Tensor`] is a handle.

use gguf::{Bytes, Gguf, TensorType};

use crate::hparams::{HyperParams, LayerKind};
use crate::role::{Part, Role};

/// One weight: what it is for, its format and its bytes.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// The name in the file.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The format of its rows.
    pub ty: TensorType,
    /// Values per row.
    pub n_in: usize,
    /// Rows per matrix; 1 for a vector.
    pub n_out: usize,
    /// Matrices; 1 unless it is a stack of experts.
    pub experts: usize,
    /// The encoded rows, matrix after matrix.
    pub bytes: Bytes,
}

/// A whole model, and its MTP block if there is one.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The model's numbers.
    pub hp: HyperParams,
    /// Token embedding, `[vocab][embd]`.
    pub token_embd: Tensor,
    /// Language-model head, `[vocab][embd]`.
    pub output: Tensor,
    /// The mixer before the head.
    pub output_hc: HcRead,
    /// The n-gram table, `[rows][row_width]`.
    pub ngram: Option<Tensor>,
    /// The trunk.
    pub layers: Vec<Layer>,
    /// The MTP block.
    pub mtp: Option<Mtp>,
    /// The file.
    pub file: Gguf,
    /// The separate file of the MTP block, if it came from one.
    pub mtp_file: Option<Gguf>,
}

/// The reading half of a hyper-connection: norm and low-rank gate of the streams.
#[derive(Debug, Clone)]
pub struct HcRead {
    /// Norm weight of all streams, `[stream_dim]`.
    pub norm: Tensor,
    /// Streams to rank, `[rank][stream_dim]`.
    pub down: Tensor,
    /// Rank to one gate per stream feature, `[stream_dim][rank]`.
    pub up: Tensor,
}

/// A hyper-connection around a mixer or an MoE.
#[derive(Debug, Clone)]
pub struct HyperConnection {
    /// What the block reads.
    pub read: HcRead,
    /// How much each stream takes of the block's output, `[streams][stream_dim]`.
    pub inject: Tensor,
}

/// One decoder layer.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Which mixer it has.
    pub kind: LayerKind,
    /// Around the mixer.
    pub hc_attn: HyperConnection,
    /// Around the MoE.
    pub hc_ffn: HyperConnection,
    /// The token mixer.
    pub mixer: Mixer,
    /// The mixture of experts.
    pub moe: Moe,
    /// N-gram features, in the layer that owns them.
    pub ple: Option<Ple>,
}

/// The token mixer of a layer.
#[derive(Debug, Clone)]
pub enum Mixer {
    /// Gated DeltaNet.
    Gdn(Box<Gdn>),
    /// Attention, sparse or dense.
    Attention(Box<Attention>),
}

/// Gated DeltaNet weights.
#[derive(Debug, Clone)]
pub struct Gdn {
    /// Queries, keys, values, `[gdn_channels][embd]`.
    pub qkv: Tensor,
    /// Output gate, `[gdn_value_dim][embd]`.
    pub gate: Tensor,
    /// Write strength, `[value_heads][embd]`.
    pub beta: Tensor,
    /// Decay input, `[value_heads][embd]`.
    pub alpha: Tensor,
    /// Convolution taps, `[gdn_channels][conv_kernel]`; the last tap is the current token's.
    pub conv: Tensor,
    /// Added to the decay input, `[value_heads]`.
    pub dt: Tensor,
    /// Decay factor `-exp(A_log)`, `[value_heads]`.
    pub a: Tensor,
    /// Output norm, `[head_dim]`, shared by the heads.
    pub norm: Tensor,
    /// Output projection, `[embd][gdn_value_dim]`.
    pub out: Tensor,
}

/// Attention weights.
#[derive(Debug, Clone)]
pub struct Attention {
    /// Per head the query rows, then as many output-gate rows, `[2 * attn_dim][embd]`.
    pub q: Tensor,
    /// Keys, `[kv_dim][embd]`.
    pub k: Tensor,
    /// Values, `[kv_dim][embd]`.
    pub v: Tensor,
    /// Output projection, `[embd][attn_dim]`.
    pub output: Tensor,
    /// Query norm, `[head_dim]`.
    pub q_norm: Tensor,
    /// Key norm, `[head_dim]`.
    pub k_norm: Tensor,
    /// Indexer queries, `[index_dim][embd]`. This and the next three are there in every sparse
    /// layer, and in a dense one if the file has them.
    pub index_q: Option<Tensor>,
    /// Indexer keys, `[indexer head_dim][embd]`.
    pub index_k: Option<Tensor>,
    /// Indexer query norm, `[indexer head_dim]`.
    pub index_q_norm: Option<Tensor>,
    /// Indexer key norm, `[indexer head_dim]`.
    pub index_k_norm: Option<Tensor>,
}

/// Mixture-of-experts weights.
#[derive(Debug, Clone)]
pub struct Moe {
    /// Router, `[experts][embd]`.
    pub router: Tensor,
    /// Gate and up projections of the routed experts.
    pub experts: ExpertStacks,
    /// Down projections of the routed experts, `[experts][embd][expert_ff]`.
    pub down: Tensor,
    /// Gate of the shared expert: one row, `[embd]`, in any weight format.
    pub shared_gate_inp: Tensor,
    /// Gate projection of the shared expert, `[shared_ff][embd]`.
    pub shared_gate: Tensor,
    /// Up projection of the shared expert, `[shared_ff][embd]`.
    pub shared_up: Tensor,
    /// Down projection of the shared expert, `[embd][shared_ff]`.
    pub shared_down: Tensor,
}

/// How a file stores the gate and up projections of its experts.
#[derive(Debug, Clone)]
pub enum ExpertStacks {
    /// Two stacks, `[experts][expert_ff][embd]` each.
    Separate {
        /// Gate projections.
        gate: Tensor,
        /// Up projections.
        up: Tensor,
    },
    /// One stack, `[experts][2 * expert_ff][embd]`: gate rows, then up rows.
    Fused(Tensor),
}

/// Weights of the n-gram features.
#[derive(Debug, Clone)]
pub struct Ple {
    /// Keys, `[stream_dim][ple width]`.
    pub key: Tensor,
    /// Value, `[embd][ple width]`.
    pub value: Tensor,
    /// Key norm, `[stream_dim]`.
    pub norm_key: Tensor,
    /// Query norm, `[stream_dim]`.
    pub norm_query: Tensor,
    /// Norm before the convolution, `[stream_dim]`.
    pub norm_conv: Tensor,
    /// Convolution taps, `[stream_dim][conv_kernel]`; the last tap is the current token's.
    pub conv: Tensor,
}

/// The MTP block: drafts the token after the next.
#[derive(Debug, Clone)]
pub struct Mtp {
    /// Norm of the next token's embedding, `[embd]`.
    pub enorm: Tensor,
    /// Norm of the wide streams, `[stream_dim]`.
    pub hnorm: Tensor,
    /// Combiner, `[embd][2 * embd]`: embedding columns, then stream columns.
    pub eh_proj: Tensor,
    /// The mixer before the head.
    pub head: HcRead,
    /// Its decoder layer.
    pub layer: Layer,
    /// The block's own token embedding; without it the trunk's is used.
    pub embed_tokens: Option<Tensor>,
    /// The block's own head; without it the trunk's is used.
    pub head_out: Option<Tensor>,
}

impl Checkpoint {
    /// Every tensor of the model, in model order, the MTP block last.
    #[must_use]
    pub fn tensors(&self) -> Vec<&Tensor> {
        let mut all = self.trunk_tensors();
        all.extend(self.mtp.iter().flat_map(Mtp::tensors));
        all
    }

    /// Every tensor outside the MTP block, in model order.
    #[must_use]
    pub fn trunk_tensors(&self) -> Vec<&Tensor> {
        let mut all = vec![&self.token_embd];
        all.extend(&self.ngram);
        all.extend(self.layers.iter().flat_map(Layer::tensors));
        all.extend(self.output_hc.tensors());
        all.push(&self.output);
        all
    }

    /// Tensors and bytes of each part that the model has, in the order of [`Part`].
    #[must_use]
    pub fn parts(&self) -> Vec<(Part, usize, u64)> {
        let mut parts = std::collections::BTreeMap::new();
        for tensor in self.tensors() {
            let layer = Role::of_name(&tensor.name).and_then(|(_, layer)| layer);
            let part = tensor.role.part_at(layer, self.hp.layers.len());
            let (count, bytes) = parts.entry(part).or_insert((0, 0));
            *count += 1;
            *bytes += tensor.bytes.len() as u64;
        }
        parts.into_iter().map(|(part, (count, bytes))| (part, count, bytes)).collect()
    }
}

impl HcRead {
    fn tensors(&self) -> [&Tensor; 3] {
        [&self.norm, &self.down, &self.up]
    }
}

impl HyperConnection {
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.read.tensors().into_iter().chain([&self.inject])
    }
}

impl Layer {
    /// Every tensor of the layer, in model order.
    #[must_use]
    pub fn tensors(&self) -> Vec<&Tensor> {
        let mut all: Vec<_> = self.ple.iter().flat_map(Ple::tensors).collect();
        all.extend(self.hc_attn.tensors());
        all.extend(self.mixer.tensors());
        all.extend(self.hc_ffn.tensors());
        all.extend(self.moe.tensors());
        all
    }
}

impl Mixer {
    fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Self::Gdn(gdn) => gdn.tensors().to_vec(),
            Self::Attention(attention) => attention.tensors(),
        }
    }
}

impl Gdn {
    fn tensors(&self) -> [&Tensor; 9] {
        let Self { qkv, gate, beta, alpha, conv, dt, a, norm, out } = self;
        [qkv, gate, beta, alpha, conv, dt, a, norm, out]
    }
}

impl Attention {
    fn tensors(&self) -> Vec<&Tensor> {
        let Self { q, k, v, output, q_norm, k_norm, .. } = self;
        let indexer = [&self.index_q, &self.index_k, &self.index_q_norm, &self.index_k_norm];
        let mut all = vec![q, k, v, output, q_norm, k_norm];
        all.extend(indexer.into_iter().flatten());
        all
    }
}

impl Moe {
    fn tensors(&self) -> Vec<&Tensor> {
        let mut all = vec![&self.router];
        match &self.experts {
            ExpertStacks::Separate { gate, up } => all.extend([gate, up]),
            ExpertStacks::Fused(gate_up) => all.push(gate_up),
        }
        all.extend([&self.down, &self.shared_gate_inp, &self.shared_gate]);
        all.extend([&self.shared_up, &self.shared_down]);
        all
    }
}

impl Ple {
    fn tensors(&self) -> [&Tensor; 6] {
        let Self { key, value, norm_key, norm_query, norm_conv, conv } = self;
        [key, value, norm_key, norm_query, norm_conv, conv]
    }
}

impl Mtp {
    /// Every tensor of the block.
    #[must_use]
    pub fn tensors(&self) -> Vec<&Tensor> {
        let mut all = vec![&self.enorm, &self.hnorm, &self.eh_proj];
        all.extend(&self.embed_tokens);
        all.extend(self.layer.tensors());
        all.extend(self.head.tensors());
        all.extend(&self.head_out);
        all
    }
}
