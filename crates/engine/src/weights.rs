//! A checkpoint's tensors, loaded onto a backend.

use crate::Error;
use crate::reads::LayerBytes;
use crate::shapes::{gdn_shape, hc_shape, ple_shape, qsa_shape};
use crate::split::ExpertSplit;
use crate::stores::Stores;
use gguf::TensorType;
use kernels::gdn::GdnInput;
use kernels::moe::GateUp;
use kernels::mtp::{MtpNorms, NormExtent};
use kernels::rope::RopeScaling;
use kernels::stored::{StoredExperts, TableSource};
use kernels::weight::WeightShape;
use kernels::{
    Activations, Backend, GdnShape, HcShape, HcWeights, PleShape, PleWeights, QsaShape, Weight,
};
use model as file;
use model::{HyperParams, Purpose, Role};
use std::sync::Arc;

/// All weights of the trunk.
pub(crate) struct Weights<B: Backend> {
    pub(crate) token_embd: B::Matrix,
    pub(crate) output: B::Matrix,
    pub(crate) output_hc: HcReadWeights<B>,
    pub(crate) hc: HcShape,
    pub(crate) layers: Vec<Layer<B>>,
    /// Bytes of a row of the embedding.
    pub(crate) embed_row: u64,
    /// Bytes of the output matrix.
    pub(crate) output_bytes: u64,
}

/// One decoder layer.
pub(crate) struct Layer<B: Backend> {
    pub(crate) ple: Option<PleLayer<B>>,
    pub(crate) hc_attn: HcReadWeights<B>,
    pub(crate) mixer: Mixer<B>,
    pub(crate) hc_ffn: HcReadWeights<B>,
    pub(crate) moe: MoeLayer<B>,
    /// Without the table of n-gram features.
    pub(crate) bytes: LayerBytes,
}

impl<B: Backend> Layer<B> {
    /// Whether it attends a cache.
    pub(crate) fn is_attention(&self) -> bool {
        matches!(self.mixer, Mixer::Attention(_))
    }
}

/// Hyper-connection matrices; the final mixer has no inject.
pub(crate) struct HcReadWeights<B: Backend> {
    norm: B::Vector,
    down: B::Matrix,
    up: B::Matrix,
    inject: Option<B::Matrix>,
    /// Of all of it.
    pub(crate) bytes: u64,
}

impl<B: Backend> HcReadWeights<B> {
    pub(crate) fn weights(&self) -> HcWeights<'_, B::Matrix, B::Vector> {
        HcWeights { norm: &self.norm, down: &self.down, up: &self.up, inject: self.inject.as_ref() }
    }
}

/// The block that mixes tokens.
pub(crate) enum Mixer<B: Backend> {
    Gdn(Box<GdnLayer<B>>),
    Attention(Box<AttentionLayer<B>>),
}

pub(crate) struct GdnLayer<B: Backend> {
    pub(crate) shape: GdnShape,
    pub(crate) qkv: B::Matrix,
    pub(crate) gate: B::Matrix,
    pub(crate) alpha: B::Matrix,
    pub(crate) beta: B::Matrix,
    pub(crate) conv: B::Vector,
    pub(crate) dt: B::Vector,
    pub(crate) a: B::Vector,
    pub(crate) norm: B::Vector,
    pub(crate) out: B::Matrix,
}

impl<B: Backend> GdnLayer<B> {
    /// Inputs of the recurrence for rows of these convolved values and gates.
    pub(crate) fn scan_input<'a>(
        &'a self,
        qkv: &'a B::Buffer,
        alpha: &'a B::Buffer,
        beta: &'a B::Buffer,
    ) -> GdnInput<'a, B::Buffer, B::Vector> {
        GdnInput { qkv, alpha, beta, a: &self.a, dt: &self.dt }
    }
}

pub(crate) struct AttentionLayer<B: Backend> {
    pub(crate) shape: QsaShape,
    pub(crate) q: B::Matrix,
    pub(crate) k: B::Matrix,
    pub(crate) v: B::Matrix,
    pub(crate) q_norm: B::Vector,
    pub(crate) k_norm: B::Vector,
    pub(crate) index: Option<IndexerWeights<B>>,
    pub(crate) out: B::Matrix,
}

pub(crate) struct IndexerWeights<B: Backend> {
    pub(crate) q: B::Matrix,
    pub(crate) k: B::Matrix,
    pub(crate) q_norm: B::Vector,
    pub(crate) k_norm: B::Vector,
}

pub(crate) struct MoeLayer<B: Backend> {
    pub(crate) router: B::Matrix,
    /// Where the experts are to be had, if not in their matrices.
    pub(crate) stored: Option<StoredExperts>,
    /// The router in 8 bits, for forecasts from what the layer before reads.
    pub(crate) forecast: Option<B::Matrix>,
    pub(crate) experts: ExpertWeights<B>,
    pub(crate) down: B::Matrix,
    pub(crate) shared_gate_inp: B::Matrix,
    pub(crate) shared_gate: B::Matrix,
    pub(crate) shared_up: B::Matrix,
    pub(crate) shared_down: B::Matrix,
    /// Inner width of the shared expert.
    pub(crate) shared_ff: usize,
    /// H.
    pub(crate) width: usize,
}

pub(crate) enum ExpertWeights<B: Backend> {
    Separate { gate: B::Matrix, up: B::Matrix },
    Fused(B::Matrix),
}

impl<B: Backend> ExpertWeights<B> {
    pub(crate) fn gate_up(&self) -> GateUp<'_, B::Matrix> {
        match self {
            Self::Separate { gate, up } => GateUp::Separate { gate, up },
            Self::Fused(both) => GateUp::Fused(both),
        }
    }
}

pub(crate) struct PleLayer<B: Backend> {
    pub(crate) shape: PleShape,
    pub(crate) table: B::Matrix,
    /// Bytes of a row of the table.
    pub(crate) table_row: u64,
    pub(crate) key: B::Matrix,
    pub(crate) value: B::Matrix,
    norm_key: B::Vector,
    norm_query: B::Vector,
    norm_conv: B::Vector,
    taps: B::Vector,
    /// Where the table's rows are to be had, if not in `table`.
    pub(crate) stored: Option<StoredTable>,
}

/// A table that is read row by row.
pub(crate) struct StoredTable {
    pub(crate) source: Arc<dyn TableSource>,
    pub(crate) name: String,
    pub(crate) ty: TensorType,
    /// Values of a row.
    pub(crate) width: usize,
}

impl<B: Backend> PleLayer<B> {
    pub(crate) fn weights(&self) -> PleWeights<'_, B::Vector> {
        PleWeights {
            norm_key: &self.norm_key,
            norm_query: &self.norm_query,
            norm_conv: &self.norm_conv,
            taps: &self.taps,
        }
    }
}

/// Loads tensors one by one, telling how far it is.
struct Loader<'a, B: Backend> {
    backend: &'a mut B,
    options: LoadOptions<'a>,
    done: u64,
    progress: &'a mut dyn FnMut(u64),
}

/// How weights are loaded, besides what the checkpoint says.
#[derive(Clone, Copy)]
pub(crate) struct LoadOptions<'a> {
    pub(crate) rope_scaling: RopeScaling,
    /// What is read as it is wanted, if anything is.
    pub(crate) stores: Option<&'a Stores>,
    /// Which experts the device holds, if not all.
    pub(crate) split: Option<&'a ExpertSplit>,
}

/// A tensor as devices take it.
pub(crate) fn weight(tensor: &file::Tensor) -> Result<Weight, Error> {
    let shape = WeightShape { n_in: tensor.n_in, n_out: tensor.n_out, experts: tensor.experts };
    Ok(Weight::new(tensor.name.clone(), tensor.ty, shape, tensor.bytes.clone())?)
}

fn bytes_of(tensor: &file::Tensor) -> u64 {
    tensor.bytes.len() as u64
}

/// Bytes of all routed experts of a layer.
fn expert_bytes(moe: &file::Moe) -> u64 {
    let gate_up = match &moe.experts {
        file::ExpertStacks::Separate { gate, up } => bytes_of(gate) + bytes_of(up),
        file::ExpertStacks::Fused(both) => bytes_of(both),
    };
    gate_up + bytes_of(&moe.down)
}

/// Bytes of a row of a matrix.
fn row_bytes(tensor: &file::Tensor) -> u64 {
    bytes_of(tensor) / (tensor.n_out as u64).max(1)
}

/// The least precision of what a role's tensors are multiplied with.
pub fn activations_of(role: Role) -> Activations {
    match role.purpose() {
        Purpose::ExactMatrix => Activations::F32,
        _ => Activations::Int8,
    }
}

impl<B: Backend> Loader<'_, B> {
    fn weight(&mut self, tensor: &file::Tensor) -> Result<Weight, Error> {
        self.done += tensor.bytes.len() as u64;
        (self.progress)(self.done);
        weight(tensor)
    }

    /// A matrix or a stack of them.
    fn matrix(&mut self, tensor: &file::Tensor) -> Result<B::Matrix, Error> {
        let weight = self.weight(tensor)?;
        Ok(self.backend.load_matrix(&weight, activations_of(tensor.role))?)
    }

    /// A matrix, or a stack of them, that no product reads.
    fn unread(&mut self, tensor: &file::Tensor) -> Result<B::Matrix, Error> {
        let weight = self.weight(tensor)?;
        Ok(self.backend.load_unread(&weight, activations_of(tensor.role))?)
    }

    /// A stack of experts.
    fn stack(&mut self, tensor: &file::Tensor, layer: usize) -> Result<B::Matrix, Error> {
        let LoadOptions { stores, split, .. } = self.options;
        let Some(held) = split.and_then(|split| split.layer(layer)) else {
            let stored = stores.is_some_and(|stores| stores.layer(layer).is_some());
            return if stored { self.unread(tensor) } else { self.matrix(tensor) };
        };
        let weight = self.weight(tensor)?;
        Ok(self.backend.load_experts(&weight, activations_of(tensor.role), held)?)
    }

    /// A table of which rows are gathered.
    fn table(&mut self, tensor: &file::Tensor) -> Result<B::Matrix, Error> {
        let weight = self.weight(tensor)?;
        Ok(self.backend.load_table(&weight)?)
    }

    fn vector(&mut self, tensor: &file::Tensor) -> Result<B::Vector, Error> {
        let weight = self.weight(tensor)?;
        let vector = self.backend.load_vector(&weight)?;
        // Vectors are small, so a damaged one is found here and not in the text it spoils.
        match weight.decode().iter().position(|x| !x.is_finite()) {
            Some(index) => Err(Error::NonFiniteWeight { name: weight.name().to_owned(), index }),
            None => Ok(vector),
        }
    }

    fn hc_read(&mut self, hc: &file::HcRead) -> Result<HcReadWeights<B>, Error> {
        let bytes = [&hc.norm, &hc.down, &hc.up].map(bytes_of).iter().sum();
        Ok(HcReadWeights {
            norm: self.vector(&hc.norm)?,
            down: self.matrix(&hc.down)?,
            up: self.matrix(&hc.up)?,
            inject: None,
            bytes,
        })
    }

    fn hyper_connection(&mut self, hc: &file::HyperConnection) -> Result<HcReadWeights<B>, Error> {
        let mut read = self.hc_read(&hc.read)?;
        read.inject = Some(self.matrix(&hc.inject)?);
        read.bytes += bytes_of(&hc.inject);
        Ok(read)
    }

    fn gdn(&mut self, shape: GdnShape, gdn: &file::Gdn) -> Result<GdnLayer<B>, Error> {
        Ok(GdnLayer {
            shape,
            qkv: self.matrix(&gdn.qkv)?,
            gate: self.matrix(&gdn.gate)?,
            alpha: self.matrix(&gdn.alpha)?,
            beta: self.matrix(&gdn.beta)?,
            conv: self.vector(&gdn.conv)?,
            dt: self.vector(&gdn.dt)?,
            a: self.vector(&gdn.a)?,
            norm: self.vector(&gdn.norm)?,
            out: self.matrix(&gdn.out)?,
        })
    }

    fn attention(
        &mut self,
        shape: QsaShape,
        attention: &file::Attention,
    ) -> Result<AttentionLayer<B>, Error> {
        let file::Attention { index_q, index_k, index_q_norm, index_k_norm, .. } = attention;
        let index = match (index_q, index_k, index_q_norm, index_k_norm) {
            (Some(q), Some(k), Some(q_norm), Some(k_norm)) if shape.block > 0 => {
                Some(IndexerWeights {
                    q: self.matrix(q)?,
                    k: self.matrix(k)?,
                    q_norm: self.vector(q_norm)?,
                    k_norm: self.vector(k_norm)?,
                })
            }
            // A dense layer, or one whose file left the indexer out: everything is attended.
            _ => None,
        };
        let shape = if index.is_some() { shape } else { QsaShape { block: 0, ..shape } };
        Ok(AttentionLayer {
            shape,
            q: self.matrix(&attention.q)?,
            k: self.matrix(&attention.k)?,
            v: self.matrix(&attention.v)?,
            q_norm: self.vector(&attention.q_norm)?,
            k_norm: self.vector(&attention.k_norm)?,
            index,
            out: self.matrix(&attention.output)?,
        })
    }

    /// A copy of a router in 8 bits.
    fn forecast(&mut self, router: &file::Tensor) -> Result<B::Matrix, Error> {
        let weight = weight(router)?;
        let ty = TensorType::Q8_0;
        if !router.n_in.is_multiple_of(ty.block_elements()) {
            return Ok(self.backend.load_matrix(&weight, activations_of(router.role))?);
        }
        let row_bytes = router.n_in / ty.block_elements() * ty.block_bytes();
        let mut bytes = vec![0; router.n_out * row_bytes];
        let mut values = vec![0.0; router.n_in];
        for (row, bytes) in bytes.chunks_exact_mut(row_bytes).enumerate() {
            weight.decode_row(row, &mut values);
            // Which experts a damaged router foretells is of no matter: it chooses none by this.
            values.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
            quant::encode_row(ty, &values, None, bytes).map_err(|_| Error::NonFiniteWeight {
                name: router.name.clone(),
                index: row * router.n_in,
            })?;
        }
        let shape = WeightShape { n_in: router.n_in, n_out: router.n_out, experts: 1 };
        let copy = Weight::new(router.name.clone(), ty, shape, bytes.into())?;
        Ok(self.backend.load_matrix(&copy, Activations::Int8)?)
    }

    fn moe(&mut self, moe: &file::Moe, layer: usize) -> Result<MoeLayer<B>, Error> {
        let experts = match &moe.experts {
            file::ExpertStacks::Separate { gate, up } => {
                let (gate, up) = (self.stack(gate, layer)?, self.stack(up, layer)?);
                ExpertWeights::Separate { gate, up }
            }
            file::ExpertStacks::Fused(both) => ExpertWeights::Fused(self.stack(both, layer)?),
        };
        let LoadOptions { stores, split, .. } = self.options;
        // On a device with its own memory a forecast is one more wait, and it holds what is hot.
        let ahead = stores.is_some_and(Stores::looks_ahead) && split.is_none();
        let forecast = if ahead { Some(self.forecast(&moe.router)?) } else { None };
        Ok(MoeLayer {
            router: self.matrix(&moe.router)?,
            stored: stores.and_then(|stores| stores.layer(layer)),
            forecast,
            experts,
            down: self.stack(&moe.down, layer)?,
            shared_gate_inp: self.matrix(&moe.shared_gate_inp)?,
            shared_gate: self.matrix(&moe.shared_gate)?,
            shared_up: self.matrix(&moe.shared_up)?,
            shared_down: self.matrix(&moe.shared_down)?,
            shared_ff: moe.shared_down.n_in,
            width: moe.shared_down.n_out,
        })
    }

    fn ple(
        &mut self,
        shape: PleShape,
        ple: &file::Ple,
        table: &file::Tensor,
    ) -> Result<PleLayer<B>, Error> {
        let source = self.options.stores.and_then(Stores::table);
        let stored = source.map(|source| StoredTable {
            source: source.clone(),
            name: table.name.clone(),
            ty: table.ty,
            width: table.n_in,
        });
        Ok(PleLayer {
            shape,
            stored,
            table: self.table(table)?,
            table_row: row_bytes(table),
            key: self.matrix(&ple.key)?,
            value: self.matrix(&ple.value)?,
            norm_key: self.vector(&ple.norm_key)?,
            norm_query: self.vector(&ple.norm_query)?,
            norm_conv: self.vector(&ple.norm_conv)?,
            taps: self.vector(&ple.conv)?,
        })
    }

    fn layer(
        &mut self,
        hp: &HyperParams,
        (number, layer): (usize, &file::Layer),
        table: Option<&file::Tensor>,
    ) -> Result<Layer<B>, Error> {
        let before = self.done;
        let ple = match (&layer.ple, table, &hp.ple) {
            (Some(ple), Some(table), Some(params)) => {
                Some(self.ple(ple_shape(hp, params), ple, table)?)
            }
            _ => None,
        };
        let mixer = match &layer.mixer {
            file::Mixer::Gdn(gdn) => Mixer::Gdn(Box::new(self.gdn(gdn_shape(hp), gdn)?)),
            file::Mixer::Attention(attention) => {
                let shape = qsa_shape(hp, layer.kind, self.options.rope_scaling);
                Mixer::Attention(Box::new(self.attention(shape, attention)?))
            }
        };
        let hc_attn = self.hyper_connection(&layer.hc_attn)?;
        let hc_ffn = self.hyper_connection(&layer.hc_ffn)?;
        let moe = self.moe(&layer.moe, number)?;
        let gathered = table.filter(|_| ple.is_some()).map_or(0, bytes_of);
        let experts = expert_bytes(&layer.moe);
        let bytes = LayerBytes {
            dense: self.done - before - gathered - experts,
            expert: experts / (layer.moe.down.experts as u64).max(1),
        };
        Ok(Layer { ple, hc_attn, mixer, hc_ffn, moe, bytes })
    }
}

/// Weights of the drafting block.
pub(crate) struct MtpWeights<B: Backend> {
    enorm: B::Vector,
    hnorm: B::Vector,
    extent: NormExtent,
    /// From `[embedding | streams]` to streams.
    pub(crate) eh_proj: B::Matrix,
    pub(crate) layer: Layer<B>,
    /// The mixer before the head.
    pub(crate) head_hc: HcReadWeights<B>,
    /// Its own embedding; the trunk's otherwise.
    pub(crate) embed: Option<B::Matrix>,
    /// Its own head; the trunk's otherwise.
    pub(crate) head: Option<B::Matrix>,
    /// Bytes of what a step reads beside embedding, layer and head.
    pub(crate) input_bytes: u64,
    /// Bytes of a row of its own embedding.
    pub(crate) embed_row: Option<u64>,
    /// Bytes of its own head.
    pub(crate) head_bytes: Option<u64>,
}

impl<B: Backend> MtpWeights<B> {
    pub(crate) fn norms(&self) -> MtpNorms<'_, B::Vector> {
        MtpNorms { embedding: &self.enorm, streams: &self.hnorm, extent: self.extent }
    }

    /// Loads the block of `checkpoint`, if it has one; `progress` counts on from `done` bytes.
    pub(crate) fn load(
        backend: &mut B,
        checkpoint: &file::Checkpoint,
        (extent, options): (NormExtent, LoadOptions<'_>),
        (done, progress): (u64, &mut dyn FnMut(u64)),
    ) -> Result<Option<Self>, Error> {
        let Some(mtp) = &checkpoint.mtp else { return Ok(None) };
        let mut loader = Loader { backend, options, done, progress };
        let number = checkpoint.layers.len();
        let own = |loader: &mut Loader<'_, B>, tensor: &Option<file::Tensor>| {
            tensor.as_ref().map(|tensor| loader.matrix(tensor)).transpose()
        };
        Ok(Some(Self {
            enorm: loader.vector(&mtp.enorm)?,
            hnorm: loader.vector(&mtp.hnorm)?,
            extent,
            eh_proj: loader.matrix(&mtp.eh_proj)?,
            layer: loader.layer(&checkpoint.hp, (number, &mtp.layer), None)?,
            head_hc: loader.hc_read(&mtp.head)?,
            embed: own(&mut loader, &mtp.embed_tokens)?,
            head: own(&mut loader, &mtp.head_out)?,
            input_bytes: [&mtp.enorm, &mtp.hnorm, &mtp.eh_proj].map(bytes_of).iter().sum(),
            embed_row: mtp.embed_tokens.as_ref().map(row_bytes),
            head_bytes: mtp.head_out.as_ref().map(bytes_of),
        }))
    }
}

impl<B: Backend> Weights<B> {
    /// Loads the trunk; `progress` is told the bytes done so far. Returns their number too.
    pub(crate) fn load(
        backend: &mut B,
        checkpoint: &file::Checkpoint,
        options: LoadOptions<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Self, u64), Error> {
        let hp = &checkpoint.hp;
        let mut loader = Loader { backend, options, done: 0, progress };
        let token_embd = loader.unread(&checkpoint.token_embd)?;
        let table = checkpoint.ngram.as_ref();
        let layers = checkpoint.layers.iter().enumerate().map(|l| loader.layer(hp, l, table));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let output_hc = loader.hc_read(&checkpoint.output_hc)?;
        let output = loader.matrix(&checkpoint.output)?;
        let done = loader.done;
        let embed_row = row_bytes(&checkpoint.token_embd);
        let output_bytes = bytes_of(&checkpoint.output);
        let hc = hc_shape(hp);
        Ok((Self { token_embd, output, output_hc, hc, layers, embed_row, output_bytes }, done))
    }
}
