//! Kernel shapes from hyper-parameters.

use kernels::rope::RopeScaling;
use kernels::{GdnShape, HcShape, PleShape, QsaShape};
use model::{HyperParams, LayerKind, PleParams};

pub(crate) fn hc_shape(hp: &HyperParams) -> HcShape {
    HcShape { streams: hp.hc.streams, width: hp.embd, eps: hp.rms_eps }
}

pub(crate) fn gdn_shape(hp: &HyperParams) -> GdnShape {
    let gdn = &hp.gdn;
    GdnShape {
        key_heads: gdn.key_heads,
        value_heads: gdn.value_heads,
        head_dim: gdn.head_dim,
        conv_kernel: gdn.conv_kernel,
        eps: hp.rms_eps,
    }
}

pub(crate) fn qsa_shape(hp: &HyperParams, kind: LayerKind, rope_scaling: RopeScaling) -> QsaShape {
    let (attn, indexer) = (&hp.attn, &hp.indexer);
    let block = match kind {
        LayerKind::Attention { block } => block,
        LayerKind::Gdn => 0,
    };
    QsaShape {
        heads: attn.heads,
        kv_heads: attn.kv_heads,
        head_dim: attn.head_dim,
        rope_dims: attn.rope_dims,
        rope_base: attn.rope_base,
        rope_scaling,
        index_heads: indexer.heads,
        index_dim: indexer.head_dim,
        budget: indexer.budget,
        block,
        eps: hp.rms_eps,
    }
}

pub(crate) fn ple_shape(hp: &HyperParams, ple: &PleParams) -> PleShape {
    PleShape {
        streams: hp.hc.streams,
        width: hp.embd,
        kernel: ple.conv_kernel,
        dilation: ple.dilation,
        eps: hp.rms_eps,
    }
}
