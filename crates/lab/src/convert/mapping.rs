//! Which tensors of the folder a model's tensors are made of (docs/qwen4exp.md, sections 2.2 and
//! 10.1). What is missing or wrong is noted, and the search goes on, so that all of it is reported.

use std::collections::HashMap;

use gguf::TensorType;
use model::{HyperParams, LayerKind, Role, Shape};

use super::assembly::{Assembly, Change, Column, HeadOrder, Segment, SourceTensor};
use super::error::{Fault, Problem};
use super::weights::{Stored, Weights, float_type};

/// A tensor of the model file: its role, name and shape, and what it is made of.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) assembly: Assembly,
}

/// Looks tensors up and notes faults.
pub(crate) struct Mapper<'a> {
    weights: &'a Weights,
    hp: &'a HyperParams,
    /// `model.` or `model.language_model.`.
    trunk: &'a str,
    pub(crate) sources: Vec<SourceTensor>,
    by_name: HashMap<String, usize>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) made: Vec<Made>,
}

/// Where the tensors of one layer are.
#[derive(Clone, Copy)]
struct Layer<'a> {
    /// Number in the model file.
    number: usize,
    /// What its names begin with.
    base: &'a str,
}

const FLOATS: &str = "F32, F16 or BF16";

#[rustfmt::skip]
const EVERY_LAYER: [(Role, &str, Change); 13] = [
    (Role::HcAttnNorm, "attn_hyper_connection.hc_norm.weight", Change::PlusOne),
    (Role::HcAttnDown, "attn_hyper_connection.input_mix_weight_down.weight", Change::None),
    (Role::HcAttnUp, "attn_hyper_connection.input_mix_weight_up.weight", Change::None),
    (Role::HcAttnInject, "attn_hyper_connection.block_inject_weight.weight", Change::None),
    (Role::HcFfnNorm, "mlp_hyper_connection.hc_norm.weight", Change::PlusOne),
    (Role::HcFfnDown, "mlp_hyper_connection.input_mix_weight_down.weight", Change::None),
    (Role::HcFfnUp, "mlp_hyper_connection.input_mix_weight_up.weight", Change::None),
    (Role::HcFfnInject, "mlp_hyper_connection.block_inject_weight.weight", Change::None),
    (Role::Router, "mlp.gate.weight", Change::None),
    (Role::SharedGateInp, "mlp.shared_expert_gate.weight", Change::None),
    (Role::SharedGate, "mlp.shared_expert.gate_proj.weight", Change::None),
    (Role::SharedUp, "mlp.shared_expert.up_proj.weight", Change::None),
    (Role::SharedDown, "mlp.shared_expert.down_proj.weight", Change::None),
];

#[rustfmt::skip]
const ATTENTION: [(Role, &str, Change); 8] = [
    (Role::AttnQ, "self_attn.q_proj.weight", Change::None),
    (Role::AttnK, "self_attn.k_proj.weight", Change::None),
    (Role::AttnV, "self_attn.v_proj.weight", Change::None),
    (Role::AttnOutput, "self_attn.o_proj.weight", Change::None),
    (Role::AttnQNorm, "self_attn.q_norm.weight", Change::PlusOne),
    (Role::AttnKNorm, "self_attn.k_norm.weight", Change::PlusOne),
    (Role::IndexQNorm, "self_attn.indexer.q_layernorm.weight", Change::PlusOne),
    (Role::IndexKNorm, "self_attn.indexer.k_layernorm.weight", Change::PlusOne),
];

#[rustfmt::skip]
const NGRAM: [(Role, &str, Change); 6] = [
    (Role::PleKey, "ple.key_proj.weight", Change::None),
    (Role::PleValue, "ple.value_proj.weight", Change::None),
    (Role::PleNormKey, "ple.norm_key.weight", Change::PlusOne),
    (Role::PleNormQuery, "ple.norm_query.weight", Change::PlusOne),
    (Role::PleNormConv, "ple.norm_conv.weight", Change::PlusOne),
    (Role::PleConv, "ple.conv1d.weight", Change::None),
];

#[rustfmt::skip]
const OUTPUT: [(Role, &str, Change); 3] = [
    (Role::OutputHcNorm, "hyper_connection_mixer.hc_norm.weight", Change::PlusOne),
    (Role::OutputHcDown, "hyper_connection_mixer.input_mix_weight_down.weight", Change::None),
    (Role::OutputHcUp, "hyper_connection_mixer.input_mix_weight_up.weight", Change::None),
];

#[rustfmt::skip]
const MTP: [(Role, &str, Change); 5] = [
    (Role::MtpEnorm, "pre_fc_norm_embedding.weight", Change::PlusOne),
    (Role::MtpHnorm, "pre_fc_norm_hidden.weight", Change::PlusOne),
    (Role::MtpHeadNorm, "hyper_connection_mixer.hc_norm.weight", Change::PlusOne),
    (Role::MtpHeadDown, "hyper_connection_mixer.input_mix_weight_down.weight", Change::None),
    (Role::MtpHeadUp, "hyper_connection_mixer.input_mix_weight_up.weight", Change::None),
];

impl<'a> Mapper<'a> {
    pub(crate) fn new(weights: &'a Weights, hp: &'a HyperParams, trunk: &'a str) -> Mapper<'a> {
        let (sources, by_name) = (Vec::new(), HashMap::new());
        let (faults, made) = (Vec::new(), Vec::new());
        Mapper { weights, hp, trunk, sources, by_name, faults, made }
    }

    /// The whole model. `tied` takes the embedding for the head.
    pub(crate) fn model(&mut self, tied: bool) {
        let (hp, trunk) = (self.hp, self.trunk);
        let embedding = format!("{trunk}embed_tokens.weight");
        self.plain(Role::TokenEmbd, 0, &embedding, Change::None);
        let head = if tied { embedding } else { "lm_head.weight".to_owned() };
        self.plain(Role::Output, 0, &head, Change::None);
        let base = |n: usize| format!("{trunk}layers.{n}.");
        self.all(&OUTPUT, Layer { number: 0, base: trunk });
        if let Some(ple) = &hp.ple {
            self.table(&base(ple.layer), ple.row_width as u64, ple.rows_needed());
        }
        for (number, kind) in hp.layers.iter().enumerate() {
            let base = base(number);
            let layer = Layer { number, base: &base };
            self.layer(layer, *kind);
            if hp.ple.as_ref().is_some_and(|ple| ple.layer == number) {
                self.all(&NGRAM, layer);
            }
        }
        if hp.mtp_layers > 0 {
            let number = hp.layers.len();
            let kind = LayerKind::Attention { block: hp.mtp_block };
            self.layer(Layer { number, base: "mtp.layers.0." }, kind);
            self.all(&MTP, Layer { number, base: "mtp." });
            self.mtp_input(number);
        }
    }

    fn layer(&mut self, layer: Layer<'_>, kind: LayerKind) {
        self.all(&EVERY_LAYER, layer);
        self.experts(layer);
        match kind {
            LayerKind::Gdn => self.gdn(layer),
            LayerKind::Attention { .. } => {
                self.all(&ATTENTION, layer);
                self.indexer(layer);
            }
        }
    }

    fn all(&mut self, roles: &[(Role, &str, Change)], layer: Layer<'_>) {
        for (role, name, change) in roles {
            self.plain(*role, layer.number, &format!("{}{name}", layer.base), *change);
        }
    }

    /// A tensor that is taken as it is, but for its values.
    fn plain(&mut self, role: Role, number: usize, name: &str, change: Change) {
        let dims = self.dims(role);
        let Some(source) = self.source(name, &theirs(&dims)) else { return };
        let assembly = Assembly::of(dims[0], vec![whole(source, rows(&dims))]);
        self.push(role, number, dims, Assembly { change, ..assembly });
    }

    fn push(&mut self, role: Role, number: usize, dims: Vec<u64>, assembly: Assembly) {
        self.made.push(Made { role, name: role.name(number), dims, assembly });
    }

    /// Our shape of a role, the row length first.
    fn dims(&self, role: Role) -> Vec<u64> {
        let dims = match role.shape(self.hp) {
            Some(Shape::Vector(n)) => vec![n],
            Some(Shape::Matrix(n_in, n_out)) => vec![n_in, n_out],
            Some(Shape::Experts(n_in, n_out, experts)) => vec![n_in, n_out, experts],
            // The table and roles that the model does not have are not asked for.
            Some(Shape::Table(..)) | None => vec![1],
        };
        dims.into_iter().map(|dim| dim as u64).collect()
    }

    fn find(&self, name: &str) -> Option<&'a Stored> {
        self.weights.tensors.get(name)
    }

    /// A tensor of this shape, the contiguous dimension last.
    fn source(&mut self, name: &str, expected: &[u64]) -> Option<usize> {
        let Some(stored) = self.find(name) else {
            return self.fault(name, Problem::Missing { expected: expected.to_vec() });
        };
        if !same_shape(&stored.shape, expected) {
            let (expected, found) = (expected.to_vec(), stored.shape.clone());
            return self.fault(name, Problem::Shape { expected, found });
        }
        self.known(name, stored)
    }

    fn known(&mut self, name: &str, stored: &Stored) -> Option<usize> {
        if let Some(index) = self.by_name.get(name) {
            return Some(*index);
        }
        let Some(ty) = float_type(&stored.dtype) else {
            let found = stored.dtype.clone();
            return self.fault(name, Problem::Type { expected: FLOATS, found });
        };
        let (file, start) = (stored.file, stored.start);
        self.by_name.insert(name.to_owned(), self.sources.len());
        self.sources.push(SourceTensor { name: name.to_owned(), file, start, ty });
        Some(self.sources.len() - 1)
    }

    fn fault(&mut self, name: &str, problem: Problem) -> Option<usize> {
        self.faults.push(Fault { tensor: name.to_owned(), problem });
        None
    }

    /// Whether a tensor of the folder is part of the model.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.by_name.contains_key(name) || self.faults.iter().any(|fault| fault.tensor == name)
    }

    /// The shards of the n-gram table, below each other.
    fn table(&mut self, base: &str, width: u64, needed: u64) {
        let name = |i: usize| format!("{base}ple.ple_embedding.ngram_embedding.shard_{i}.weight");
        let single = format!("{base}ple.ple_embedding.ngram_embedding.weight");
        let names = match self.find(&single) {
            Some(_) => vec![single],
            None => (0..).map(name).take_while(|name| self.find(name).is_some()).collect(),
        };
        let (mut segments, mut total) = (Vec::new(), 0u64);
        for name in &names {
            let Some(stored) = self.find(name) else { continue };
            let rows = stored.shape.first().copied().unwrap_or(0);
            if let Some(source) = self.source(name, &[rows, width]) {
                segments.push(whole(source, rows));
                total = total.saturating_add(rows);
            }
        }
        if segments.len() < names.len() {
            return;
        }
        if total < needed {
            // The number of shards is nowhere else: what is missing is the next one.
            let expected = vec![needed - total, width];
            self.fault(&name(names.len()), Problem::Missing { expected });
            return;
        }
        let assembly = Assembly::of(width, segments);
        self.push(Role::NgramTable, 0, vec![width, total], assembly);
    }

    /// Routed experts: fused as the released model has them, or each on its own.
    fn experts(&mut self, layer: Layer<'_>) {
        let fused = format!("{}mlp.experts.gate_up_proj", layer.base);
        let alone = format!("{}mlp.experts.0.gate_proj.weight", layer.base);
        let dims = [Role::GateExps, Role::UpExps, Role::DownExps].map(|role| self.dims(role));
        let [gate, up, down] = match self.find(&alone) {
            Some(_) => ["gate_proj", "up_proj", "down_proj"]
                .map(|part| self.stack(layer, part, &dims[usize::from(part == "down_proj") * 2])),
            None => self.fused(layer, &fused, &dims),
        };
        let roles =
            [Role::GateExps, Role::UpExps, Role::DownExps].into_iter().zip([gate, up, down]);
        for ((role, segments), dims) in roles.zip(dims) {
            if let Some(segments) = segments {
                let assembly = Assembly::of(dims[0], segments);
                self.push(role, layer.number, dims, assembly);
            }
        }
    }

    fn stack(&mut self, layer: Layer<'_>, part: &str, dims: &[u64]) -> Option<Vec<Segment>> {
        let mut segments = Vec::new();
        for expert in 0..dims[2] {
            let name = format!("{}mlp.experts.{expert}.{part}.weight", layer.base);
            segments.extend(self.source(&name, &[dims[1], dims[0]]).map(|s| whole(s, dims[1])));
        }
        (segments.len() as u64 == dims[2]).then_some(segments)
    }

    /// Gate above up in one stack.
    fn fused(
        &mut self,
        layer: Layer<'_>,
        name: &str,
        dims: &[Vec<u64>; 3],
    ) -> [Option<Vec<Segment>>; 3] {
        let &[embd, ff, experts] = dims[0].as_slice() else { return [None, None, None] };
        let both = self.source(name, &[experts, 2 * ff, embd]);
        let half = |source: usize, offset: u64| {
            let segment = |e| Segment { source, first: e * 2 * ff + offset, rows: ff };
            (0..experts).map(segment).collect::<Vec<_>>()
        };
        let down = format!("{}mlp.experts.down_proj", layer.base);
        let down = self.source(&down, &[experts, embd, ff]);
        [
            both.map(|source| half(source, 0)),
            both.map(|source| half(source, ff)),
            down.map(|source| vec![whole(source, experts * embd)]),
        ]
    }

    /// Gated DeltaNet: all that belongs to value heads changes its order.
    fn gdn(&mut self, layer: Layer<'_>) {
        let (gdn, keys) = (self.hp.gdn, 2 * self.hp.gdn_key_dim() as u64);
        let order =
            HeadOrder { key_heads: gdn.key_heads as u64, value_heads: gdn.value_heads as u64 };
        let width = gdn.head_dim as u64;
        // (role, name, rows before the value heads, rows of a value head)
        let by_rows = [
            (Role::GdnQkv, "in_proj_qkv.weight", keys, width),
            (Role::GdnGate, "in_proj_z.weight", 0, width),
            (Role::GdnBeta, "in_proj_b.weight", 0, 1),
            (Role::GdnAlpha, "in_proj_a.weight", 0, 1),
            (Role::GdnConv, "conv1d.weight", keys, width),
        ];
        for (role, name, before, each) in by_rows {
            let dims = self.dims(role);
            let name = format!("{}linear_attn.{name}", layer.base);
            let Some(source) = self.source(&name, &theirs(&dims)) else { continue };
            let head = |j| Segment { source, first: before + order.source(j) * each, rows: each };
            let first = (before > 0).then_some(Segment { source, first: 0, rows: before });
            let segments = first.into_iter().chain((0..order.value_heads).map(head)).collect();
            let assembly = Assembly::of(dims[0], segments);
            self.push(role, layer.number, dims, assembly);
        }
        let by_columns = [
            (Role::GdnDt, "dt_bias", Change::None),
            (Role::GdnA, "A_log", Change::NegExp),
            (Role::GdnOut, "out_proj.weight", Change::None),
        ];
        for (role, name, change) in by_columns {
            let dims = self.dims(role);
            let name = format!("{}linear_attn.{name}", layer.base);
            let Some(source) = self.source(&name, &theirs(&dims)) else { continue };
            let assembly = Assembly::of(dims[0], vec![whole(source, rows(&dims))]);
            let assembly = Assembly { order: Some(order), change, ..assembly };
            self.push(role, layer.number, dims, assembly);
        }
        let name = format!("{}linear_attn.norm.weight", layer.base);
        self.plain(Role::GdnNorm, layer.number, &name, Change::None);
    }

    /// Queries above keys in one matrix.
    fn indexer(&mut self, layer: Layer<'_>) {
        let (q, k) = (self.dims(Role::IndexQ), self.dims(Role::IndexK));
        let name = format!("{}self_attn.indexer.index_qk_proj.weight", layer.base);
        let Some(source) = self.source(&name, &[q[1] + k[1], q[0]]) else { return };
        for (role, dims, first) in [(Role::IndexQ, q.clone(), 0), (Role::IndexK, k, q[1])] {
            let segment = Segment { source, first, rows: dims[1] };
            let assembly = Assembly::of(dims[0], vec![segment]);
            self.push(role, layer.number, dims, assembly);
        }
    }

    /// What the drafting block makes of a token and of the streams, side by side.
    fn mtp_input(&mut self, number: usize) {
        let dims = self.dims(Role::MtpEhProj);
        let embd = self.hp.embd as u64;
        let parts = ["mtp.fc_embedding.weight", "mtp.fc_hidden.weight"];
        let found = parts.map(|name| self.source(name, &[embd, embd]));
        let [Some(embedding), Some(hidden)] = found else { return };
        let column = |source| Column {
            width: embd,
            segments: vec![Segment { source, first: 0, rows: embd }],
        };
        let columns = vec![column(embedding), column(hidden)];
        let assembly = Assembly { columns, order: None, change: Change::None };
        self.push(Role::MtpEhProj, number, dims, assembly);
    }

    /// The type with the most bits among the tensors that something is made of.
    pub(crate) fn widest(&self, assembly: &Assembly) -> TensorType {
        let types = || assembly.sources().map(|source| self.sources[source].ty);
        match types().next() {
            Some(first) if types().all(|ty| ty == first) => first,
            // F16 and BF16 have values that the other lacks.
            _ => TensorType::F32,
        }
    }
}

fn whole(source: usize, rows: u64) -> Segment {
    Segment { source, first: 0, rows }
}

fn rows(dims: &[u64]) -> u64 {
    dims[1..].iter().product()
}

/// Our shape in their order.
fn theirs(dims: &[u64]) -> Vec<u64> {
    dims.iter().rev().copied().collect()
}

/// Dimensions of 1 may be written or left out.
fn same_shape(found: &[u64], expected: &[u64]) -> bool {
    let long = |shape: &[u64]| shape.iter().copied().filter(|dim| *dim != 1).collect::<Vec<_>>();
    long(found) == long(expected)
}
