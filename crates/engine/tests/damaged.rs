//! Files that load but hold numbers which are none: an error, never a text made of them.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::{Context, Engine, Error, SamplingError, SamplingParams, Want};
use gguf::{Gguf, Writer};
use kernels::Backend;
use kernels::reference::Reference;
use model::Checkpoint;

/// `tiny-f32` with the first value of tensor `name` replaced.
fn with_value(name: &str, value: f32) -> Checkpoint {
    let file = Gguf::open(fixture("tiny-f32.gguf")).unwrap();
    let mut writer = Writer::new(file.metadata().clone());
    for tensor in file.tensors() {
        let mut bytes = file.bytes(tensor).to_vec();
        if tensor.name == name {
            bytes[..4].copy_from_slice(&value.to_le_bytes());
        }
        writer.tensor(&tensor.name, &tensor.dims, tensor.ty, bytes);
    }
    let folder = std::env::temp_dir().join(format!("tuff-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}-{value}.gguf"));
    writer.write(&path).unwrap();
    let damaged = Checkpoint::load(&Gguf::open(&path).unwrap()).unwrap();
    // The mapping outlives the name.
    std::fs::remove_file(&path).unwrap();
    damaged
}

fn first_token<B: Backend>(backend: B, checkpoint: &Checkpoint) -> Result<u32, Error> {
    let mut engine = Engine::new(backend, checkpoint, config(1, 64), &mut |_| {})?;
    let tokens = prompt("tiny-f32", "budget_edge");
    let mut logits = engine.prefill(0, &tokens, Want::Last)?;
    let position = tokens.len();
    Ok(SamplingParams::default().sample(&mut logits, &Context::default(), position)?)
}

#[test]
fn fault_133_nan_in_a_matrix_ends_in_an_error() {
    for name in [
        "blk.0.attn_qkv.weight",
        "blk.0.ffn_gate_inp.weight",
        "blk.3.attn_v.weight",
        "blk.3.indexer.k_proj.weight",
        "blk.3.indexer.q_proj.weight",
        "blk.7.ffn_gate_inp_shexp.weight",
        "output_hc_down.weight",
        "output.weight",
    ] {
        let damaged = with_value(name, f32::NAN);
        for result in
            [first_token(Reference, &damaged), first_token(cpu(2, Isa::detect()), &damaged)]
        {
            let is_non_finite =
                matches!(result, Err(Error::Sampling(SamplingError::NonFinite { .. })));
            assert!(is_non_finite, "{name}: {result:?}");
        }
    }
}

#[test]
fn fault_133_nan_or_infinity_in_a_vector_is_refused_at_load() {
    for name in ["blk.0.ssm_a", "blk.3.attn_k_norm.weight", "blk.3.indexer.k_norm.weight"] {
        for value in [f32::NAN, f32::INFINITY] {
            let result = first_token(cpu(1, Isa::detect()), &with_value(name, value));
            match result {
                Err(Error::NonFiniteWeight { name: named, index: 0 }) => assert_eq!(named, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
