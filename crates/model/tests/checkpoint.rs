//! Loading: the fixtures and the sample as they are, and with tensors missing, bent or added.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::collections::HashSet;

use common::{Edit, fixture, released, sample};
use gguf::{Gguf, TensorType, Writer};
use model::{Checkpoint, Error, ExpertStacks, LayerKind, Mixer, Part, Problem, Role, TensorFault};

fn load(file: &Gguf) -> Checkpoint {
    Checkpoint::load(file).unwrap()
}

fn faults(file: &Gguf) -> Vec<TensorFault> {
    match Checkpoint::load(file).unwrap_err() {
        Error::Tensors(faults) => faults.0,
        other => panic!("another error: {other}"),
    }
}

fn names(tensors: &[TensorFault]) -> Vec<&str> {
    tensors.iter().map(|fault| fault.name.as_str()).collect()
}

/// Every tensor of the file is in the checkpoint once, with the file's sizes and bytes.
fn holds_the_whole_file(checkpoint: &Checkpoint) {
    let file = &checkpoint.file;
    let mut seen = HashSet::new();
    for tensor in checkpoint.tensors() {
        assert!(seen.insert(tensor.name.as_str()), "{} twice", tensor.name);
        let info = file.tensor(&tensor.name).unwrap();
        let elements = tensor.n_in * tensor.n_out * tensor.experts;
        assert_eq!(info.elements(), elements as u64, "{}", tensor.name);
        assert_eq!((info.ty, info.bytes), (tensor.ty, tensor.bytes.len() as u64));
        let (role, _) = Role::of_name(&tensor.name).unwrap();
        assert_eq!(role, tensor.role);
    }
    assert_eq!(seen.len(), file.tensors().len());
}

#[test]
fn fixtures_load_whole_and_without_warnings() {
    for name in common::MODELS {
        let checkpoint = load(&fixture(name));
        holds_the_whole_file(&checkpoint);
        assert!(checkpoint.mtp.is_none());
        assert_eq!(checkpoint.hp.vocab, 512);
        assert_eq!(checkpoint.warnings(), Vec::<String>::new(), "{name}");
        for (n, layer) in checkpoint.layers.iter().enumerate() {
            let is_sparse = n % 4 == 3;
            let kind = if is_sparse { LayerKind::Attention { block: 4 } } else { LayerKind::Gdn };
            assert_eq!(layer.kind, kind);
            assert_eq!(matches!(layer.mixer, Mixer::Attention(_)), is_sparse);
            assert_eq!(layer.ple.is_some(), n == 1);
        }
    }
}

#[test]
fn the_sample_holds_its_mtp_block() {
    let checkpoint = load(&sample());
    holds_the_whole_file(&checkpoint);
    let mtp = checkpoint.mtp.as_ref().unwrap();
    assert_eq!(checkpoint.layers.len(), 8);
    assert_eq!(mtp.layer.kind, LayerKind::Attention { block: 8 });
    assert_eq!((checkpoint.hp.mtp_layers, checkpoint.hp.mtp_block), (1, 8));
    assert!(mtp.embed_tokens.is_none() && mtp.head_out.is_none());
    assert!(checkpoint.mtp_file.is_none());
    let sampling = checkpoint.hp.sampling.unwrap();
    assert_eq!((sampling.temp, sampling.top_k, sampling.top_p), (Some(0.8), Some(20), Some(0.95)));
    assert_eq!(checkpoint.warnings(), Vec::<String>::new());
    let ExpertStacks::Separate { gate, .. } = &checkpoint.layers[0].moe.experts else {
        panic!("the sample's experts are separate");
    };
    assert_eq!((gate.n_in, gate.n_out, gate.experts, gate.ty.name()), (256, 256, 16, "IQ3_S"));
}

#[test]
fn a_separate_mtp_file() {
    let (trunk, file) = (fixture("tiny-f32"), fixture("tiny-f32-mtp"));
    let checkpoint = Checkpoint::load_with_mtp(&trunk, &file).unwrap();
    let mtp = checkpoint.mtp.as_ref().unwrap();
    assert_eq!(mtp.tensors().len(), 32);
    assert_eq!(mtp.layer.kind, LayerKind::Attention { block: 0 });
    let Mixer::Attention(attention) = &mtp.layer.mixer else { panic!("MTP is attention") };
    assert!(attention.index_q.is_some(), "a dense layer keeps the indexer that the file has");
    assert_eq!((checkpoint.hp.mtp_layers, checkpoint.hp.mtp_block), (1, 0));
    assert_eq!((mtp.eh_proj.n_in, mtp.eh_proj.n_out), (256, 128));
    assert!(checkpoint.mtp_file.is_some());
    assert_eq!(checkpoint.warnings(), Vec::<String>::new());
    assert!(checkpoint.parts().iter().any(|part| part.0 == Part::Mtp && part.1 == 32));
}

#[test]
fn an_mtp_file_with_its_own_embedding_and_head() {
    let trunk = fixture("tiny-f32");
    let own = Edit::of(&fixture("tiny-f32-mtp"))
        .add("token_embd.weight", &[128, 512], TensorType::F16)
        .add("output.weight", &[128, 512], TensorType::Q8_0);
    let shared = Checkpoint::load_with_mtp(&trunk, &own.open()).unwrap();
    assert!(shared.mtp.as_ref().unwrap().head_out.is_none(), "marked as shared");
    let unused = "tensors of the MTP file that are not used: token_embd.weight, output.weight";
    assert_eq!(shared.warnings(), [unused]);

    let own = own.unset("qwen4exp.nextn_shared_target_tensors");
    let mtp = Checkpoint::load_with_mtp(&trunk, &own.open()).unwrap().mtp.unwrap();
    let (embd, head) = (mtp.embed_tokens.unwrap(), mtp.head_out.unwrap());
    assert_eq!((embd.role, embd.ty), (Role::MtpEmbedTokens, TensorType::F16));
    assert_eq!((head.role, head.ty), (Role::MtpHeadOut, TensorType::Q8_0));

    let dedicated = Edit::of(&fixture("tiny-f32-mtp"))
        .add("blk.8.nextn.embed_tokens.weight", &[128, 512], TensorType::F32)
        .add("blk.8.nextn.shared_head_head.weight", &[128, 511], TensorType::F32);
    let Error::Tensors(faults) = Checkpoint::load_with_mtp(&trunk, &dedicated.open()).unwrap_err()
    else {
        panic!("a head of 511 rows is at fault");
    };
    assert_eq!(names(&faults.0), ["blk.8.nextn.shared_head_head.weight"]);
}

#[test]
fn an_mtp_file_of_another_model_is_refused_with_every_difference() {
    let error =
        Checkpoint::load_with_mtp(&fixture("quantmix"), &fixture("tiny-f32-mtp")).unwrap_err();
    let message = error.to_string();
    for word in ["embedding_length", "256", "128", "experts", "hyper-connections"] {
        assert!(message.contains(word), "{message}");
    }
    let error = Checkpoint::load_with_mtp(&fixture("tiny-16bit"), &fixture("tiny-f32-mtp"));
    assert!(error.unwrap_err().to_string().contains("trunk layers: the model has 4"));
    let error = Checkpoint::load_with_mtp(&fixture("tiny-f32"), &fixture("tiny-f32"));
    assert!(error.unwrap_err().to_string().contains("nextn_predict_layers"));
}

#[test]
fn an_mtp_file_is_not_a_model() {
    let error = Checkpoint::load(&fixture("tiny-f32-mtp")).unwrap_err();
    assert!(matches!(error, Error::MtpOnly { layers: 8 }), "{error}");
}

#[test]
fn a_reduced_draft_head_is_refused() {
    let edit = Edit::of(&fixture("tiny-f32-mtp"))
        .rename("blk.8.nextn.eh_proj.weight", "blk.8.nextn.fc_embd.weight");
    let error = Checkpoint::load_with_mtp(&fixture("tiny-f32"), &edit.open()).unwrap_err();
    assert!(error.to_string().contains("reduced vocabulary"), "{error}");
}

#[test]
fn an_announced_block_without_tensors_is_a_warning() {
    let mut edit = Edit::of(&sample());
    edit.tensors.retain(|entry| !entry.name.starts_with("blk.8."));
    let checkpoint = load(&edit.open());
    assert!(checkpoint.mtp.is_none());
    assert_eq!(checkpoint.hp.mtp_layers, 0);
    assert!(checkpoint.warnings()[0].contains("MTP block"));

    let half = Edit::of(&sample()).drop_tensor("blk.8.nextn.enorm.weight").open();
    assert_eq!(names(&faults(&half)), ["blk.8.nextn.enorm.weight"]);
}

/// Known fault 131: a tensor that is absent must not be left uninitialised. Some
/// tensors in turn, and then all at once.
#[test]
fn fault_131_missing_tensors_are_listed_by_name() {
    let file = fixture("tiny-16bit");
    let all: Vec<String> = file.tensors().iter().map(|info| info.name.clone()).collect();
    let full = Edit::of(&file);
    for name in ["token_embd.weight", "blk.1.ple_conv1d.weight", "blk.2.ssm_a"] {
        let file = full.clone().drop_tensor(name).open();
        let found = faults(&file);
        assert_eq!(names(&found), [name]);
        assert!(matches!(found[0].problem, Problem::Missing { .. }));
    }

    let none = Edit { tensors: Vec::new(), ..full }.add("unrelated", &[4], TensorType::F32).open();
    let found = faults(&none);
    let mut found = names(&found);
    let mut expected: Vec<&str> = all.iter().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let message = Checkpoint::load(&none).unwrap_err().to_string();
    assert!(message.starts_with(&format!("{} tensors are missing", all.len())), "{message}");
    assert!(message.contains("\n  blk.3.attn_q.weight: missing, expected shape {128, 512}"));
    assert!(message.contains("per_layer_token_embd.weight: missing, expected shape {16, 8214 or"));
}

#[test]
fn one_error_lists_missing_bent_and_undecodable_tensors() {
    let file = Edit::of(&fixture("tiny-f32"))
        .drop_tensor("blk.0.ssm_a")
        .replace("blk.1.ple_key.weight", &[128, 511], TensorType::F32)
        .replace("blk.2.ffn_down_exps.weight", &[32, 128, 15], TensorType::F32)
        .replace("blk.3.attn_q_norm.weight", &[64], TensorType::Q8_0)
        .replace("blk.3.attn_k.weight", &[128, 128], TensorType::I32)
        .replace("output.weight", &[128, 512, 1, 2], TensorType::F32)
        .replace("per_layer_token_embd.weight", &[16, 8213], TensorType::F32)
        .open();
    let message = Checkpoint::load(&file).unwrap_err().to_string();
    let lines = [
        "7 tensors are missing or not as the metadata says",
        "output.weight: expected shape {128, 512}, found {128, 512, 1, 2}",
        "per_layer_token_embd.weight: expected shape {16, 8214 or more}, found {16, 8213}",
        "blk.0.ssm_a: missing, expected shape {6}",
        "blk.1.ple_key.weight: expected shape {128, 512}, found {128, 511}",
        "blk.2.ffn_down_exps.weight: expected shape {32, 128, 16}, found {32, 128, 15}",
        "blk.3.attn_k.weight: format I32 cannot be used here, expected F32, F16, BF16 or",
        "blk.3.attn_q_norm.weight: format Q8_0 cannot be used here, expected F32, F16 or BF16",
    ];
    for line in lines {
        assert!(message.contains(line), "{line:?} is not in {message}");
    }
    assert_eq!(message.lines().count(), lines.len());
}

#[test]
fn fused_experts_and_trailing_ones() {
    let file = Edit::of(&fixture("tiny-f32"))
        .drop_tensor("blk.0.ffn_gate_exps.weight")
        .drop_tensor("blk.0.ffn_up_exps.weight")
        .add("blk.0.ffn_gate_up_exps.weight", &[128, 64, 16], TensorType::Q8_0)
        .replace("blk.0.ffn_gate_inp_shexp.weight", &[128, 1], TensorType::Q4_0)
        .open();
    let checkpoint = load(&file);
    let ExpertStacks::Fused(fused) = &checkpoint.layers[0].moe.experts else {
        panic!("layer 0 is fused");
    };
    assert_eq!((fused.n_in, fused.n_out, fused.experts), (128, 64, 16));
    assert!(matches!(checkpoint.layers[1].moe.experts, ExpertStacks::Separate { .. }));
    let gate = &checkpoint.layers[0].moe.shared_gate_inp;
    assert_eq!((gate.n_in, gate.n_out), (128, 1));
}

#[test]
fn a_vocabulary_known_only_from_the_embedding() {
    let silent = Edit::of(&fixture("tiny-16bit")).unset("qwen4exp.vocab_size");
    assert_eq!(load(&silent.open()).hp.vocab, 512);
    let outside = silent.set("qwen4exp.ple.eos_token_id", 512_u32).open();
    let message = Checkpoint::load(&outside).unwrap_err().to_string();
    assert!(message.contains("eos_token_id is 512"), "{message}");
}

#[test]
fn a_table_without_its_keys_is_not_silently_ignored() {
    let mut edit = Edit::of(&fixture("tiny-16bit"));
    let keys: Vec<String> = edit.meta.iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys.iter().filter(|key| key.contains(".ple.")) {
        edit.meta.remove(key);
    }
    let message = Checkpoint::load(&edit.open()).unwrap_err().to_string();
    assert!(message.contains("qwen4exp.ple.layers is missing"), "{message}");
    edit.tensors.retain(|entry| !entry.name.contains("ple_") && !entry.name.starts_with("per_"));
    let checkpoint = load(&edit.open());
    assert!(checkpoint.ngram.is_none() && checkpoint.layers[1].ple.is_none());
}

/// Known fault 128: quantised decay and write gates drift, so they are reported.
#[test]
fn fault_128_coarse_gates_are_reported() {
    let file = Edit::of(&fixture("tiny-f32"))
        .replace("blk.0.ssm_alpha.weight", &[128, 6], TensorType::Q4_0)
        .replace("blk.4.ssm_beta.weight", &[128, 6], TensorType::Q8_0)
        .replace("blk.2.hc_ffn_inject.weight", &[512, 4], TensorType::Q5_0)
        .replace("blk.3.hc_ffn_inject.weight", &[512, 4], TensorType::Q8_0)
        .add("v.patch_embd.weight", &[4], TensorType::F32)
        .add("blk.0.attn_q.weight", &[4], TensorType::F32)
        .open();
    let warnings = load(&file).warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].ends_with("contexts: blk.0.ssm_alpha.weight, blk.4.ssm_beta.weight"));
    assert!(warnings[1].ends_with("layers: blk.2.hc_ffn_inject.weight"));
    assert!(warnings[2].ends_with("not used: v.patch_embd.weight, blk.0.attn_q.weight"));
}

#[test]
fn parts_add_up_to_the_file() {
    let checkpoint = load(&sample());
    let parts = checkpoint.parts();
    let tensors: usize = parts.iter().map(|part| part.1).sum();
    let bytes: u64 = parts.iter().map(|part| part.2).sum();
    assert_eq!(tensors, checkpoint.file.tensors().len());
    assert_eq!(bytes, checkpoint.file.tensors().iter().map(|info| info.bytes).sum::<u64>());
    let counts: Vec<_> = parts.iter().map(|(part, count, _)| (*part, *count)).collect();
    let expected = [
        (Part::Embedding, 1),
        (Part::NgramTable, 1),
        (Part::TrunkDense, 8 * 5),
        (Part::Experts, 8 * 3),
        (Part::HyperConnections, 3 + 8 * 8),
        (Part::Gdn, 6 * 9),
        (Part::Attention, 2 * 6),
        (Part::Indexer, 2 * 4),
        (Part::Ple, 6),
        (Part::Head, 1),
        (Part::Mtp, 32),
    ];
    assert_eq!(counts, expected);
}

/// A file that promises the largest model and holds nothing: an error, at once.
#[test]
fn a_promise_of_a_huge_model_costs_nothing() {
    let mut meta = released();
    let huge = [("block_count", 4096_u32), ("embedding_length", 1 << 20), ("expert_count", 65536)];
    for (key, number) in huge {
        meta.insert(format!("qwen4exp.{key}"), number);
    }
    meta.insert("qwen4exp.attention.compress_ratios", vec![4_i32; 4096]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge.gguf");
    Writer::new(meta).write(&path).unwrap();
    let found = faults(&Gguf::open(&path).unwrap());
    assert_eq!(found.len(), 3072 * 25 + 1024 * 26 + 6 + 6);
}
