//! From a GGUF file to a [`Checkpoint`]: every tensor that the hyper-parameters ask for is looked
//! up by name and checked, and one error lists all that is wrong.

use gguf::{Gguf, TensorInfo, TensorType};

use crate::checkpoint::{
    Attention, Checkpoint, ExpertStacks, Gdn, HcRead, HyperConnection, Layer, Mixer, Moe, Mtp, Ple,
    Tensor,
};
use crate::error::{Error, Problem, TensorFault, TensorFaults};
use crate::hparams::{HyperParams, LayerKind};
use crate::mtp_file::{self, MtpSource};
use crate::role::{Accepts, Role, Shape};

impl Checkpoint {
    /// Loads a model, with its MTP block if the file holds one.
    ///
    /// # Errors
    /// As [`HyperParams::from_metadata`]; [`Error::Tensors`] lists every tensor that is missing,
    /// has another shape or cannot be decoded; [`Error::MtpOnly`] for a file without a trunk.
    pub fn load(file: &Gguf) -> Result<Self, Error> {
        let hp = mtp_file::model_params(file)?;
        let source = MtpSource::inside(file, &hp)?;
        build(file, hp, source)
    }

    /// Loads a model with the MTP block of a separate file; a block inside the model's own file
    /// is then left unused.
    ///
    /// # Errors
    /// As [`Checkpoint::load`], for both files; [`Error::MtpMismatch`] if their dimensions differ.
    pub fn load_with_mtp(file: &Gguf, mtp: &Gguf) -> Result<Self, Error> {
        let hp = mtp_file::model_params(file)?;
        let source = MtpSource::separate(mtp, &hp)?;
        build(file, hp, source)
    }
}

fn build(file: &Gguf, mut hp: HyperParams, source: MtpSource<'_>) -> Result<Checkpoint, Error> {
    hp.mtp_layers = usize::from(source.file().is_some());
    hp.mtp_block = source.block();
    let mut faults = Vec::new();
    let mut loader = Loader { file, hp: &hp, faults: &mut faults };
    let trunk = loader.trunk();
    let mut mtp = None;
    if let Some(mtp_file) = source.file() {
        let mut loader = Loader { file: mtp_file, hp: &hp, faults: &mut faults };
        mtp = loader.mtp(&source);
    }
    match trunk {
        Some(trunk) if faults.is_empty() => Ok(Checkpoint {
            token_embd: trunk.token_embd,
            output: trunk.output,
            output_hc: trunk.output_hc,
            ngram: trunk.ngram,
            layers: trunk.layers,
            mtp,
            file: file.clone(),
            mtp_file: source.into_separate_file(),
            hp,
        }),
        _ => Err(Error::Tensors(TensorFaults(faults))),
    }
}

/// The tensors of a model without its MTP block.
struct Trunk {
    token_embd: Tensor,
    output: Tensor,
    output_hc: HcRead,
    ngram: Option<Tensor>,
    layers: Vec<Layer>,
}

/// Looks tensors up in one file and notes every fault. A structure is None if a part of it is at
/// fault; its other parts are looked up all the same, so that no fault goes unnoticed.
struct Loader<'a> {
    file: &'a Gguf,
    hp: &'a HyperParams,
    faults: &'a mut Vec<TensorFault>,
}

impl Loader<'_> {
    /// A tensor that must be there.
    fn tensor(&mut self, role: Role, layer: usize) -> Option<Tensor> {
        let name = role.name(layer);
        let expected = role.shape(self.hp)?;
        match self.file.tensor(&name) {
            Some(info) => self.checked(role, info, expected),
            None => self.fault(name, Problem::Missing { expected }),
        }
    }

    /// A tensor that may be absent, but must be right if it is there.
    fn optional(&mut self, role: Role, layer: usize) -> Option<Tensor> {
        let info = self.file.tensor(&role.name(layer))?;
        self.checked(role, info, role.shape(self.hp)?)
    }

    fn checked(&mut self, role: Role, info: &TensorInfo, expected: Shape) -> Option<Tensor> {
        let name = info.name.clone();
        let Some(sizes) = expected.sizes(&info.dims) else {
            return self.fault(name, Problem::Shape { expected, found: info.dims.clone() });
        };
        if let Some(expected) = unusable(info.ty, role.accepts()) {
            let found = info.ty.name().to_owned();
            return self.fault(name, Problem::Format { found, expected });
        }
        Some(Tensor {
            name,
            role,
            ty: info.ty,
            n_in: sizes.n_in,
            n_out: sizes.n_out,
            experts: sizes.experts,
            bytes: self.file.bytes(info),
        })
    }

    fn fault(&mut self, name: String, problem: Problem) -> Option<Tensor> {
        self.faults.push(TensorFault { name, problem });
        None
    }

    fn trunk(&mut self) -> Option<Trunk> {
        let token_embd = self.tensor(Role::TokenEmbd, 0);
        let output = self.tensor(Role::Output, 0);
        let roles = [Role::OutputHcNorm, Role::OutputHcDown, Role::OutputHcUp];
        let output_hc = self.hc_read(roles, 0);
        let ngram = self.hp.ple.as_ref().and_then(|_| self.tensor(Role::NgramTable, 0));
        let kinds = self.hp.layers.iter().enumerate();
        let layers: Vec<_> = kinds.map(|(n, kind)| self.layer(*kind, n)).collect();
        Some(Trunk {
            token_embd: token_embd?,
            output: output?,
            output_hc: output_hc?,
            ngram,
            layers: layers.into_iter().collect::<Option<_>>()?,
        })
    }

    fn mtp(&mut self, source: &MtpSource<'_>) -> Option<Mtp> {
        let n = self.hp.layers.len();
        let enorm = self.tensor(Role::MtpEnorm, n);
        let hnorm = self.tensor(Role::MtpHnorm, n);
        let eh_proj = self.tensor(Role::MtpEhProj, n);
        let head = self.hc_read([Role::MtpHeadNorm, Role::MtpHeadDown, Role::MtpHeadUp], n);
        let layer = self.layer(LayerKind::Attention { block: self.hp.mtp_block }, n);
        let mut own = |role, copy: Role| match self.optional(role, n) {
            None if source.has_copies() => {
                let info = self.file.tensor(&copy.name(n))?;
                self.checked(role, info, role.shape(self.hp)?)
            }
            own => own,
        };
        let embed_tokens = own(Role::MtpEmbedTokens, Role::TokenEmbd);
        let head_out = own(Role::MtpHeadOut, Role::Output);
        Some(Mtp {
            enorm: enorm?,
            hnorm: hnorm?,
            eh_proj: eh_proj?,
            head: head?,
            layer: layer?,
            embed_tokens,
            head_out,
        })
    }

    fn layer(&mut self, kind: LayerKind, n: usize) -> Option<Layer> {
        let attn = [Role::HcAttnNorm, Role::HcAttnDown, Role::HcAttnUp];
        let ffn = [Role::HcFfnNorm, Role::HcFfnDown, Role::HcFfnUp];
        let hc_attn = self.hyper_connection(attn, Role::HcAttnInject, n);
        let mixer = match kind {
            LayerKind::Gdn => self.gdn(n).map(|gdn| Mixer::Gdn(Box::new(gdn))),
            LayerKind::Attention { block } => {
                self.attention(block, n).map(|attention| Mixer::Attention(Box::new(attention)))
            }
        };
        let hc_ffn = self.hyper_connection(ffn, Role::HcFfnInject, n);
        let moe = self.moe(n);
        let owns_ple = self.hp.ple.as_ref().is_some_and(|ple| ple.layer == n);
        let ple = if owns_ple { self.ple(n) } else { None };
        Some(Layer { kind, hc_attn: hc_attn?, hc_ffn: hc_ffn?, mixer: mixer?, moe: moe?, ple })
    }

    fn hc_read(&mut self, [norm, down, up]: [Role; 3], n: usize) -> Option<HcRead> {
        let (norm, down, up) = (self.tensor(norm, n), self.tensor(down, n), self.tensor(up, n));
        Some(HcRead { norm: norm?, down: down?, up: up? })
    }

    fn hyper_connection(
        &mut self,
        read: [Role; 3],
        inject: Role,
        n: usize,
    ) -> Option<HyperConnection> {
        let read = self.hc_read(read, n);
        let inject = self.tensor(inject, n);
        Some(HyperConnection { read: read?, inject: inject? })
    }

    fn gdn(&mut self, n: usize) -> Option<Gdn> {
        let qkv = self.tensor(Role::GdnQkv, n);
        let gate = self.tensor(Role::GdnGate, n);
        let beta = self.tensor(Role::GdnBeta, n);
        let alpha = self.tensor(Role::GdnAlpha, n);
        let conv = self.tensor(Role::GdnConv, n);
        let dt = self.tensor(Role::GdnDt, n);
        let a = self.tensor(Role::GdnA, n);
        let norm = self.tensor(Role::GdnNorm, n);
        let out = self.tensor(Role::GdnOut, n);
        Some(Gdn {
            qkv: qkv?,
            gate: gate?,
            beta: beta?,
            alpha: alpha?,
            conv: conv?,
            dt: dt?,
            a: a?,
            norm: norm?,
            out: out?,
        })
    }

    fn attention(&mut self, block: usize, n: usize) -> Option<Attention> {
        let q = self.tensor(Role::AttnQ, n);
        let k = self.tensor(Role::AttnK, n);
        let v = self.tensor(Role::AttnV, n);
        let output = self.tensor(Role::AttnOutput, n);
        let q_norm = self.tensor(Role::AttnQNorm, n);
        let k_norm = self.tensor(Role::AttnKNorm, n);
        let known = self.hp.indexer.heads > 0;
        let mut indexer = |role| match (block, known) {
            (1.., _) => self.tensor(role, n),
            (0, true) => self.optional(role, n),
            (0, false) => None,
        };
        Some(Attention {
            index_q: indexer(Role::IndexQ),
            index_k: indexer(Role::IndexK),
            index_q_norm: indexer(Role::IndexQNorm),
            index_k_norm: indexer(Role::IndexKNorm),
            q: q?,
            k: k?,
            v: v?,
            output: output?,
            q_norm: q_norm?,
            k_norm: k_norm?,
        })
    }

    fn moe(&mut self, n: usize) -> Option<Moe> {
        let router = self.tensor(Role::Router, n);
        let experts = self.experts(n);
        let down = self.tensor(Role::DownExps, n);
        let shared_gate_inp = self.tensor(Role::SharedGateInp, n);
        let shared_gate = self.tensor(Role::SharedGate, n);
        let shared_up = self.tensor(Role::SharedUp, n);
        let shared_down = self.tensor(Role::SharedDown, n);
        Some(Moe {
            router: router?,
            experts: experts?,
            down: down?,
            shared_gate_inp: shared_gate_inp?,
            shared_gate: shared_gate?,
            shared_up: shared_up?,
            shared_down: shared_down?,
        })
    }

    fn experts(&mut self, n: usize) -> Option<ExpertStacks> {
        let has = |role: Role| self.file.tensor(&role.name(n)).is_some();
        if has(Role::GateUpExps) && !has(Role::GateExps) && !has(Role::UpExps) {
            return self.tensor(Role::GateUpExps, n).map(ExpertStacks::Fused);
        }
        let (gate, up) = (self.tensor(Role::GateExps, n), self.tensor(Role::UpExps, n));
        Some(ExpertStacks::Separate { gate: gate?, up: up? })
    }

    fn ple(&mut self, n: usize) -> Option<Ple> {
        let key = self.tensor(Role::PleKey, n);
        let value = self.tensor(Role::PleValue, n);
        let norm_key = self.tensor(Role::PleNormKey, n);
        let norm_query = self.tensor(Role::PleNormQuery, n);
        let norm_conv = self.tensor(Role::PleNormConv, n);
        let conv = self.tensor(Role::PleConv, n);
        Some(Ple {
            key: key?,
            value: value?,
            norm_key: norm_key?,
            norm_query: norm_query?,
            norm_conv: norm_conv?,
            conv: conv?,
        })
    }
}

/// What a role wants instead of a format, if that format cannot serve.
fn unusable(ty: TensorType, accepts: Accepts) -> Option<&'static str> {
    let is_float = matches!(ty, TensorType::F32 | TensorType::F16 | TensorType::BF16);
    match accepts {
        Accepts::Floats if !is_float => Some("F32, F16 or BF16"),
        Accepts::Weights if !is_float && (!ty.is_quantized() || ty.is_activation_only()) => {
            Some("F32, F16, BF16 or a quantised weight format")
        }
        _ => None,
    }
}
