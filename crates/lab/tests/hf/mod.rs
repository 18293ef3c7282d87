//! A model file taken back to a Hugging Face folder, in the form that the released model has:
//! nested names, fused experts, a table in shards, a drafting block. Written from the description
//! of the two forms, not from the converter.

use std::fs;
use std::path::Path;

use gguf::{Gguf, Metadata};
use serde_json::{Map, Value, json};

/// A tensor of a folder.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) values: Vec<f32>,
}

/// A folder in the making.
pub(crate) struct Folder {
    pub(crate) config: Value,
    pub(crate) tensors: Vec<Tensor>,
}

const TRUNK: &str = "model.language_model.";

/// Sizes that the forms differ by.
struct Dims {
    embd: usize,
    key_heads: usize,
    value_heads: usize,
    head: usize,
}

fn values(file: &Gguf, name: &str) -> Vec<f32> {
    let info = file.tensor(name).unwrap_or_else(|| panic!("{name}"));
    let bytes = file.bytes(info);
    let mut values = vec![0f32; info.elements() as usize];
    quant::decode_row(info.ty, &bytes, &mut values).unwrap();
    values
}

fn shape(file: &Gguf, name: &str) -> Vec<u64> {
    file.tensor(name).unwrap().dims.iter().rev().copied().collect()
}

impl Folder {
    /// From a model's file and that of its drafting block.
    pub(crate) fn of(model: &Gguf, mtp: &Gguf) -> Folder {
        let meta = model.metadata();
        let number = |key: &str| meta.get_u32(&format!("qwen4exp.{key}")).unwrap().unwrap();
        let dims = Dims {
            embd: number("embedding_length") as usize,
            key_heads: number("ssm.group_count") as usize,
            value_heads: number("ssm.time_step_rank") as usize,
            head: number("ssm.state_size") as usize,
        };
        let mut folder = Folder { config: config(meta), tensors: Vec::new() };
        folder.copy(model, "token_embd.weight", &format!("{TRUNK}embed_tokens.weight"), 0.0);
        folder.copy(model, "output.weight", "lm_head.weight", 0.0);
        folder.mixer(model, "output_hc_", TRUNK);
        folder.table(model, meta);
        for n in 0..number("block_count") {
            folder.layer(model, n, &format!("{TRUNK}layers.{n}."), &dims);
        }
        let n = number("block_count");
        folder.layer(mtp, n, "mtp.layers.0.", &dims);
        let block = format!("blk.{n}.nextn.");
        folder.copy(mtp, &format!("{block}enorm.weight"), "mtp.pre_fc_norm_embedding.weight", 1.0);
        folder.copy(mtp, &format!("{block}hnorm.weight"), "mtp.pre_fc_norm_hidden.weight", 1.0);
        folder.mixer(mtp, &format!("{block}hc_head_"), "mtp.");
        let joined = values(mtp, &format!("{block}eh_proj.weight"));
        for (name, left) in [("embedding", 0), ("hidden", dims.embd)] {
            let rows = joined.chunks_exact(2 * dims.embd);
            let part = rows.flat_map(|row| &row[left..left + dims.embd]).copied().collect();
            let shape = vec![dims.embd as u64; 2];
            folder.push(format!("mtp.fc_{name}.weight"), shape, part);
        }
        // What the released model has, too, and the file does not.
        folder.push("model.visual.patch_embed.weight".to_owned(), vec![2, 2], vec![0.5; 4]);
        folder
    }

    fn push(&mut self, name: String, shape: Vec<u64>, values: Vec<f32>) {
        assert_eq!(shape.iter().product::<u64>(), values.len() as u64, "{name}");
        self.tensors.push(Tensor { name, shape, values });
    }

    /// A tensor that only changes its name, and what is added to its values.
    fn copy(&mut self, file: &Gguf, ours: &str, theirs: &str, added: f32) {
        let values = values(file, ours).into_iter().map(|value| value - added).collect();
        self.push(theirs.to_owned(), shape(file, ours), values);
    }

    fn mixer(&mut self, file: &Gguf, ours: &str, theirs: &str) {
        let base = format!("{theirs}hyper_connection_mixer.");
        self.hyper(file, ours, &base);
    }

    fn hyper(&mut self, file: &Gguf, ours: &str, base: &str) {
        self.copy(file, &format!("{ours}norm.weight"), &format!("{base}hc_norm.weight"), 1.0);
        for way in ["down", "up"] {
            let theirs = format!("{base}input_mix_weight_{way}.weight");
            self.copy(file, &format!("{ours}{way}.weight"), &theirs, 0.0);
        }
    }

    fn table(&mut self, file: &Gguf, meta: &Metadata) {
        let layers = meta.get_u64_array("qwen4exp.ple.layers").unwrap().unwrap();
        let base = format!("{TRUNK}layers.{}.ple.", layers[0]);
        let n = layers[0];
        let ours = |name: &str| format!("blk.{n}.ple_{name}.weight");
        self.copy(file, &ours("key"), &format!("{base}key_proj.weight"), 0.0);
        self.copy(file, &ours("value"), &format!("{base}value_proj.weight"), 0.0);
        for name in ["norm_key", "norm_query", "norm_conv"] {
            self.copy(file, &ours(name), &format!("{base}{name}.weight"), 1.0);
        }
        let taps = shape(file, &ours("conv1d"));
        let taps = vec![taps[0], 1, taps[1]];
        self.push(format!("{base}conv1d.weight"), taps, values(file, &ours("conv1d")));
        // Three shards, the last one shorter.
        let (all, shape) = (
            values(file, "per_layer_token_embd.weight"),
            shape(file, "per_layer_token_embd.weight"),
        );
        let width = shape[1];
        let rows = shape[0].div_ceil(3);
        for (i, part) in all.chunks((rows * width) as usize).enumerate() {
            let name = format!("{base}ple_embedding.ngram_embedding.shard_{i}.weight");
            self.push(name, vec![part.len() as u64 / width, width], part.to_vec());
        }
    }

    fn layer(&mut self, file: &Gguf, n: u32, base: &str, dims: &Dims) {
        for (ours, theirs) in [("attn", "attn"), ("ffn", "mlp")] {
            let theirs = format!("{base}{theirs}_hyper_connection.");
            self.hyper(file, &format!("blk.{n}.hc_{ours}_"), &theirs);
            let inject = format!("blk.{n}.hc_{ours}_inject.weight");
            self.copy(file, &inject, &format!("{theirs}block_inject_weight.weight"), 0.0);
        }
        self.experts(file, n, base);
        if file.tensor(&format!("blk.{n}.attn_qkv.weight")).is_some() {
            self.gdn(file, n, base, dims);
        } else {
            self.attention(file, n, base);
        }
    }

    fn experts(&mut self, file: &Gguf, n: u32, base: &str) {
        let ours = |name: &str| format!("blk.{n}.ffn_{name}.weight");
        self.copy(file, &ours("gate_inp"), &format!("{base}mlp.gate.weight"), 0.0);
        let gate = values(file, &ours("gate_inp_shexp"));
        let name = format!("{base}mlp.shared_expert_gate.weight");
        self.push(name, vec![1, gate.len() as u64], gate);
        for part in ["gate", "up", "down"] {
            let theirs = format!("{base}mlp.shared_expert.{part}_proj.weight");
            self.copy(file, &ours(&format!("{part}_shexp")), &theirs, 0.0);
        }
        let stack = shape(file, &ours("gate_exps"));
        let size = (stack[1] * stack[2]) as usize;
        let (gate, up) = (values(file, &ours("gate_exps")), values(file, &ours("up_exps")));
        let pairs = gate.chunks_exact(size).zip(up.chunks_exact(size));
        let both = pairs.flat_map(|(gate, up)| gate.iter().chain(up)).copied().collect();
        let name = format!("{base}mlp.experts.gate_up_proj");
        self.push(name, vec![stack[0], 2 * stack[1], stack[2]], both);
        self.copy(file, &ours("down_exps"), &format!("{base}mlp.experts.down_proj"), 0.0);
    }

    fn attention(&mut self, file: &Gguf, n: u32, base: &str) {
        let base = format!("{base}self_attn.");
        let ours = |name: &str| format!("blk.{n}.{name}.weight");
        for name in ["q", "k", "v"] {
            self.copy(
                file,
                &ours(&format!("attn_{name}")),
                &format!("{base}{name}_proj.weight"),
                0.0,
            );
        }
        self.copy(file, &ours("attn_output"), &format!("{base}o_proj.weight"), 0.0);
        for name in ["q", "k"] {
            let norm = ours(&format!("attn_{name}_norm"));
            self.copy(file, &norm, &format!("{base}{name}_norm.weight"), 1.0);
            let norm = ours(&format!("indexer.{name}_norm"));
            self.copy(file, &norm, &format!("{base}indexer.{name}_layernorm.weight"), 1.0);
        }
        let (q, k) = (ours("indexer.q_proj"), ours("indexer.k_proj"));
        let rows = shape(file, &q)[0] + shape(file, &k)[0];
        let width = shape(file, &q)[1];
        let both = [values(file, &q), values(file, &k)].concat();
        self.push(format!("{base}indexer.index_qk_proj.weight"), vec![rows, width], both);
    }

    fn gdn(&mut self, file: &Gguf, n: u32, base: &str, dims: &Dims) {
        let base = format!("{base}linear_attn.");
        let ours = |name: &str| format!("blk.{n}.{name}");
        let keys = 2 * dims.key_heads * dims.head;
        let rows = [
            ("attn_qkv.weight", "in_proj_qkv.weight", keys, dims.head),
            ("attn_gate.weight", "in_proj_z.weight", 0, dims.head),
            ("ssm_beta.weight", "in_proj_b.weight", 0, 1),
            ("ssm_alpha.weight", "in_proj_a.weight", 0, 1),
            ("ssm_conv1d.weight", "conv1d.weight", keys, dims.head),
            ("ssm_dt.bias", "dt_bias", 0, 1),
            ("ssm_a", "A_log", 0, 1),
        ];
        for (name, theirs, before, each) in rows {
            let mut shape = shape(file, &ours(name));
            let all = values(file, &ours(name));
            let width = if shape.len() > 1 { shape[1] as usize } else { 1 };
            let (head, tail) = all.split_at(before * width);
            let mut found = [head, &dims.grouped(tail, each * width)].concat();
            if theirs == "A_log" {
                found.iter_mut().for_each(|value| *value = (-*value).ln());
            }
            if theirs == "conv1d.weight" {
                shape.insert(1, 1);
            }
            self.push(format!("{base}{theirs}"), shape, found);
        }
        self.copy(file, &ours("ssm_norm.weight"), &format!("{base}norm.weight"), 0.0);
        let out = values(file, &ours("ssm_out.weight"));
        let width = dims.value_heads * dims.head;
        let found = out.chunks_exact(width).flat_map(|row| dims.grouped(row, dims.head)).collect();
        self.push(format!("{base}out_proj.weight"), shape(file, &ours("ssm_out.weight")), found);
    }

    /// Writes the folder, the tensors in so many shards.
    pub(crate) fn write(&self, path: &Path, shards: usize) {
        fs::write(path.join("config.json"), self.config.to_string()).unwrap();
        let mut map = Map::new();
        let size = self.tensors.len().div_ceil(shards);
        for (i, tensors) in self.tensors.chunks(size).enumerate() {
            let name = format!("model-{:05}-of-{shards:05}.safetensors", i + 1);
            let list = tensors.iter().map(|tensor| {
                map.insert(tensor.name.clone(), json!(name));
                let bytes = tensor.values.iter().flat_map(|v| v.to_le_bytes()).collect();
                (tensor.name.clone(), "F32", tensor.shape.clone(), bytes)
            });
            fs::write(path.join(&name), safetensors(list.collect())).unwrap();
        }
        let index = json!({"metadata": {}, "weight_map": map});
        fs::write(path.join("model.safetensors.index.json"), index.to_string()).unwrap();
    }
}

impl Dims {
    /// From the file's order of value heads, one of each key head in turn, to the folder's.
    fn grouped(&self, tiled: &[f32], each: usize) -> Vec<f32> {
        let per_key = self.value_heads / self.key_heads;
        let heads = (0..self.key_heads).flat_map(|k| (0..per_key).map(move |i| (k, i)));
        let at = heads.map(|(k, i)| (i * self.key_heads + k) * each);
        at.flat_map(|at| &tiled[at..at + each]).copied().collect()
    }
}

/// The bytes of a `.safetensors` file.
pub(crate) fn safetensors(tensors: Vec<(String, &str, Vec<u64>, Vec<u8>)>) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    for (name, dtype, shape, bytes) in tensors {
        let (start, end) = (data.len(), data.len() + bytes.len());
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
        header.insert(name, entry);
        data.extend(bytes);
    }
    let text = Value::Object(header).to_string();
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &data].concat()
}

/// The configuration that a model's metadata would have come from.
fn config(meta: &Metadata) -> Value {
    let number = |key: &str| meta.get_u32(&format!("qwen4exp.{key}")).unwrap().unwrap();
    let float = |key: &str| meta.get_f32(&format!("qwen4exp.{key}")).unwrap().unwrap();
    let ratios = meta.get_u32_array("qwen4exp.attention.compress_ratios").unwrap().unwrap();
    let kind = |ratio: &u32| if *ratio > 0 { "full_attention" } else { "linear_attention" };
    let kinds: Vec<&str> = ratios[..number("block_count") as usize].iter().map(kind).collect();
    let sections = meta.get_u32_array("qwen4exp.rope.dimension_sections").unwrap().unwrap();
    let sizes = meta.get_u64_array("qwen4exp.ple.head_vocab_sizes").unwrap().unwrap();
    let layer = meta.get_u32_array("qwen4exp.ple.layers").unwrap().unwrap()[0] + 1;
    json!({
        "model_type": "qwen4_exp",
        "text_config": {
            "model_type": "qwen4_exp_text",
            "hidden_act": "silu",
            "tie_word_embeddings": false,
            "layer_types": kinds,
            "num_hidden_layers": number("block_count"),
            "max_position_embeddings": number("context_length"),
            "hidden_size": number("embedding_length"),
            "vocab_size": number("vocab_size"),
            "num_attention_heads": number("attention.head_count"),
            "num_key_value_heads": number("attention.head_count_kv"),
            "head_dim": number("attention.key_length"),
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": float("rope.freq_base"),
                "partial_rotary_factor":
                    f64::from(number("rope.dimension_count"))
                        / f64::from(number("attention.key_length")),
                "mrope_section": &sections[..3],
            },
            "num_experts": number("expert_count"),
            "num_experts_per_tok": number("expert_used_count"),
            "moe_intermediate_size": number("expert_feed_forward_length"),
            "shared_expert_intermediate_size": number("expert_shared_feed_forward_length"),
            "linear_conv_kernel_dim": number("ssm.conv_kernel"),
            "linear_key_head_dim": number("ssm.state_size"),
            "linear_value_head_dim": number("ssm.state_size"),
            "linear_num_key_heads": number("ssm.group_count"),
            "linear_num_value_heads": number("ssm.time_step_rank"),
            "hc_count": number("hyper_connection.count"),
            "hc_lowrank": number("hyper_connection.low_rank"),
            "indexer_n_heads": number("attention.indexer.head_count"),
            "indexer_head_dim": number("attention.indexer.key_length"),
            "indexer_budget": number("attention.indexer.top_k"),
            "indexer_compress_ratio": ratios.iter().max(),
            "ple_layer_ids": [layer],
            "ple_embed_dim":
                number("embedding_length_per_layer_input") as usize * sizes.len(),
            "ple_conv_kernel_size": number("ple.conv_kernel"),
            "ngram_size": number("ple.ngram_size"),
            "heads_per_ngram": number("ple.heads_per_ngram"),
            "ngram_vocab_size_base": sizes[0],
            "seed": 1234,
            "eos_token_id": [number("ple.eos_token_id"), 0],
        },
        "image_token_id": meta.get_u32("qwen4exp.ple.image_token_id").unwrap(),
    })
}
