//! Converted folders against the files that they were made from, and folders that are wrong.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod hf;

use std::fs;
use std::path::{Path, PathBuf};

use gguf::{Gguf, Metadata, TensorType, Value};
use hf::{Folder, Tensor, safetensors};
use lab::convert::{Contents, Convert, Error, MtpBlock, Options, Problem, Vocabulary};
use lab::transform::{self, Flow, Overwrite, Recipe, Resume, Settings};
use model::Checkpoint;
use model::tokenizer::{SpecialTokens, Tokenizer};
use serde_json::json;
use tempfile::TempDir;

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn tiny(name: &str) -> Gguf {
    Gguf::open(root("fixtures/qwen4exp").join(name)).unwrap()
}

fn options() -> Options {
    Options {
        recipe: Recipe::default(),
        imatrix: None,
        mtp: MtpBlock::Include,
        vocabulary: Vocabulary::LeaveOut,
        contents: Contents::Everything,
        ignore: Vec::new(),
        name: None,
    }
}

/// A folder to convert, and one for what comes out.
struct Place {
    folder: TempDir,
    output: TempDir,
}

impl Place {
    fn empty() -> Place {
        Place { folder: tempfile::tempdir().unwrap(), output: tempfile::tempdir().unwrap() }
    }

    fn of(folder: &Folder) -> Place {
        let place = Place::empty();
        folder.write(place.folder.path(), 5);
        place
    }

    fn path(&self) -> PathBuf {
        self.output.path().join("out.gguf")
    }

    fn plan(&self, options: Options) -> Result<Convert, Error> {
        Convert::plan(self.folder.path(), &self.path(), options)
    }

    fn convert(&self, options: Options) -> Gguf {
        write(&self.plan(options).unwrap(), usize::MAX).unwrap();
        Gguf::open(self.path()).unwrap()
    }

    /// The message of a folder that cannot be converted.
    fn refused(&self) -> String {
        self.plan(options()).unwrap_err().to_string()
    }

    fn shard(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("model-{number:05}-of-00005.safetensors"))
    }
}

/// Writes, unless `watch` has been asked so many times.
fn write(convert: &Convert, mut asked: usize) -> Result<transform::Outcome, transform::Error> {
    let settings = Settings {
        overwrite: Overwrite::Refuse,
        resume: Resume::IfPossible,
        threads: 3,
        piece_bytes: 50_000,
        inputs: convert.inputs(),
    };
    transform::write(&convert.target, convert, &settings, &mut |_| {
        asked = asked.saturating_sub(1);
        if asked == 0 { Flow::Stop } else { Flow::Continue }
    })
}

fn taken_back() -> Folder {
    Folder::of(&tiny("tiny-f32.gguf"), &tiny("tiny-f32-mtp.gguf"))
}

#[test]
fn a_file_taken_back_to_a_folder_is_converted_to_itself() {
    let place = Place::of(&taken_back());
    let plan = place.plan(options()).unwrap();
    assert_eq!(plan.left_out, ["model.visual.patch_embed.weight"]);
    let found = place.convert(options());
    let sources = [tiny("tiny-f32.gguf"), tiny("tiny-f32-mtp.gguf")];
    let tensors = sources.iter().flat_map(|file| file.tensors().iter().map(move |t| (file, t)));
    let mut count = 0;
    for (source, expected) in tensors {
        let name = &expected.name;
        let info = found.tensor(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((&info.dims, info.ty), (&expected.dims, TensorType::F32), "{name}");
        let floats = |file: &Gguf, info| -> Vec<f32> {
            let bytes = file.bytes(info);
            bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
        };
        let pairs = floats(&found, info).into_iter().zip(floats(source, expected));
        for (a, b) in pairs {
            // A decay goes through a logarithm, a norm through a subtraction: both round once.
            let slack = if name.contains("norm") || name.ends_with("ssm_a") { 4e-7 } else { 0.0 };
            assert!((a - b).abs() <= slack * b.abs().max(1.0), "{name}: {a} {b}");
        }
        count += 1;
    }
    assert_eq!(count, found.tensors().len());
    assert_metadata(&found, &sources[0]);
    let loaded = Checkpoint::load(&found).unwrap();
    assert!(loaded.mtp.is_some());
}

/// The keys of the model's numbers are those of the file, but for what the drafting block adds.
fn assert_metadata(found: &Gguf, expected: &Gguf) {
    let numbers = |file: &Gguf| {
        let entries = file.metadata().iter().filter(|(key, _)| key.starts_with("qwen4exp."));
        entries.map(|(key, value)| (key.to_owned(), value.clone())).collect::<Metadata>()
    };
    let (mut found, expected) = (numbers(found), numbers(expected));
    assert_eq!(found.remove("qwen4exp.nextn_predict_layers"), Some(Value::U32(1)));
    assert_eq!(found.insert("qwen4exp.block_count", 8u32), Some(Value::U32(9)));
    let ratios = vec![0i32, 0, 0, 4, 0, 0, 0, 4, 4];
    let trunk = Value::from(ratios[..8].to_vec());
    let old = found.insert("qwen4exp.attention.compress_ratios", trunk);
    assert_eq!(old, Some(Value::from(ratios)));
    assert_eq!(found.len(), expected.len());
    for (key, value) in expected.iter() {
        assert_eq!(found.get(key), Some(value), "{key}");
    }
}

#[test]
fn the_drafting_block_can_be_left_out() {
    let place = Place::of(&taken_back());
    let found = place.convert(Options { mtp: MtpBlock::LeaveOut, ..options() });
    assert_eq!(found.tensors().len(), tiny("tiny-f32.gguf").tensors().len());
    assert!(Checkpoint::load(&found).unwrap().mtp.is_none());
    assert_eq!(found.metadata().get_u32("qwen4exp.block_count").unwrap(), Some(8));
}

#[test]
fn formats_by_role_are_those_of_the_encoder() {
    let place = Place::of(&taken_back());
    let choices = ["matrices=f16", "experts=q4_0", "ffn_down_exps=iq4_nl", "inject=q8_0"];
    let recipe = Recipe::new(choices.iter().map(|text| text.parse().unwrap()).collect());
    let found = place.convert(Options { recipe, ..options() });
    let plain = tiny("tiny-f32.gguf");
    for (name, ty) in [
        ("blk.3.attn_q.weight", TensorType::F16),
        ("blk.0.ffn_up_exps.weight", TensorType::Q4_0),
        ("blk.7.ffn_down_exps.weight", TensorType::IQ4_NL),
        ("blk.2.hc_ffn_inject.weight", TensorType::Q8_0),
        ("blk.0.ssm_alpha.weight", TensorType::F32),
    ] {
        let (info, source) = (found.tensor(name).unwrap(), plain.tensor(name).unwrap());
        assert_eq!(info.ty, ty, "{name}");
        let n_in = source.n_in() as usize;
        let (mut values, bytes) = (vec![0f32; n_in], plain.bytes(source));
        let mut expected = Vec::new();
        for row in bytes.chunks_exact(n_in * 4) {
            quant::decode_row(TensorType::F32, row, &mut values).unwrap();
            let mut out = vec![0; ty.row_bytes(n_in as u64).unwrap() as usize];
            quant::encode_row(ty, &values, None, &mut out).unwrap();
            expected.extend(out);
        }
        assert!(found.bytes(info)[..] == expected[..], "{name}");
    }
    let label = found.metadata().get("general.file_type");
    assert!(label.is_some());
}

#[test]
fn a_stopped_conversion_goes_on() {
    let place = Place::of(&taken_back());
    place.convert(options());
    let expected = fs::read(place.path()).unwrap();
    fs::remove_file(place.path()).unwrap();
    let mut asked = 3;
    let outcome = loop {
        match write(&place.plan(options()).unwrap(), asked) {
            Ok(outcome) => break outcome,
            Err(transform::Error::Stopped { .. }) => asked += 97,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(outcome.resumed > 0);
    assert!(fs::read(place.path()).unwrap() == expected);
}

#[test]
fn numbers_and_vocabulary_of_the_sample_model_are_those_of_its_file() {
    let output = tempfile::tempdir().unwrap();
    let (vocabulary, contents) = (Vocabulary::Include, Contents::Metadata);
    let path = output.path().join("out.gguf");
    let name = Some("qwen4exp sample 41M".to_owned());
    let options = Options { vocabulary, contents, name, ..options() };
    let convert = Convert::plan(&root("fixtures/hf-small"), &path, options).unwrap();
    assert!(convert.has_template);
    write(&convert, usize::MAX).unwrap();
    let found = Gguf::open(&path).unwrap();
    let expected = Gguf::open(root("models/sample/sample.gguf")).unwrap();
    // Its file was made by another converter. The folder names no beginning of a text, and neither
    // says how its file is labelled.
    let others = [
        "bos_token_id",
        "description",
        "license",
        "size_label",
        "general.quant",
        "file_type",
        "quantize.imatrix",
    ];
    let compared = |key: &str| !others.iter().any(|other| key.contains(other));
    let mut count = 0;
    for (key, value) in expected.metadata().iter().filter(|(key, _)| compared(key)) {
        assert_eq!(found.metadata().get(key), Some(value), "{key}");
        count += 1;
    }
    assert_eq!(count, found.metadata().len());
    assert_eq!(found.tensors().len(), 0);
}

#[test]
fn the_vocabulary_gives_the_ids_of_the_folders_own_tokenizer() {
    let output = tempfile::tempdir().unwrap();
    let (vocabulary, contents) = (Vocabulary::Include, Contents::Metadata);
    let path = output.path().join("out.gguf");
    let folder = root("fixtures/hf-small");
    let convert =
        Convert::plan(&folder, &path, Options { vocabulary, contents, ..options() }).unwrap();
    write(&convert, usize::MAX).unwrap();
    let ours = Tokenizer::from_metadata(Gguf::open(&path).unwrap().metadata()).unwrap();
    let theirs = tokenizers::Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    for text in [
        "Once upon a time there was a small fox.",
        "  indented\n\n\tcode(x) = 12345  \r\n",
        "It's don't WE'LL i'm",
        "caf\u{e9} cafe\u{301} na\u{ef}ve \u{4f60}\u{597d} \u{1f642}\u{1f468}\u{200d}\u{1f469}",
        "<|im_start|>user\nhi<|im_end|>\n<think>\n</think><tool_call>x</tool_call>",
        "",
        " ",
        "\u{a0}\u{2003}x\u{0}y",
        "\u{5d0}\u{5b8} \u{928}\u{92e}\u{938}\u{94d}\u{924}\u{947} \u{e2a}\u{e27}\u{e31}",
    ] {
        let expected = theirs.encode_fast(text, false).unwrap();
        let found = ours.encode(text, SpecialTokens::Parse).unwrap();
        assert_eq!(found, expected.get_ids(), "{text:?}");
    }
}

#[test]
fn tensors_that_are_missing_or_wrong_are_all_named() {
    let mut folder = taken_back();
    let at = |folder: &Folder, name: &str| {
        let found = folder.tensors.iter().position(|tensor| tensor.name.ends_with(name));
        found.unwrap_or_else(|| panic!("{name}"))
    };
    let missing = at(&folder, "layers.2.linear_attn.A_log");
    folder.tensors.remove(missing);
    let wrong = at(&folder, "layers.3.self_attn.k_proj.weight");
    folder.tensors[wrong].shape = vec![64, 256];
    let place = Place::of(&folder);
    let Err(Error::Tensors(faults)) = place.plan(options()) else { panic!("it is wrong") };
    assert_eq!(faults.len(), 2, "{faults:?}");
    let expected = vec![6];
    assert_eq!(faults[0].problem, Problem::Missing { expected });
    let (expected, found) = (vec![128, 128], vec![64, 256]);
    assert_eq!(faults[1].problem, Problem::Shape { expected, found });
    let message = place.refused();
    assert!(message.contains("layers.2.linear_attn.A_log [6] is missing"), "{message}");

    let mut folder = taken_back();
    let shard = at(&folder, "ngram_embedding.shard_2.weight");
    folder.tensors.remove(shard);
    let message = Place::of(&folder).refused();
    assert!(message.contains("shard_2.weight") && message.contains("is missing"), "{message}");
}

#[test]
fn tensors_that_nothing_is_known_about_must_be_left_out_by_name() {
    let mut folder = taken_back();
    for name in ["model.language_model.layers.0.mystery.weight", "extra.scale"] {
        folder.tensors.push(Tensor { name: name.to_owned(), shape: vec![2], values: vec![1.0; 2] });
    }
    let place = Place::of(&folder);
    let message = place.refused();
    assert!(message.contains("mystery.weight") && message.contains("--ignore"), "{message}");
    let ignore = vec!["*.mystery.*".to_owned()];
    let Err(Error::Unknown(names)) = place.plan(Options { ignore, ..options() }) else {
        panic!("one is left");
    };
    assert_eq!(names, ["extra.scale"]);
    let ignore = vec!["*.mystery.*".to_owned(), "extra.scale".to_owned()];
    let plan = place.plan(Options { ignore, ..options() }).unwrap();
    assert_eq!(plan.left_out.len(), 3);
}

#[test]
fn shards_that_are_missing_cut_or_elsewhere_are_named() {
    let place = Place::of(&taken_back());
    let bytes = fs::read(place.shard(3)).unwrap();
    fs::remove_file(place.shard(3)).unwrap();
    let message = place.refused();
    assert!(message.contains("1 of the 5 files") && message.contains("model-00003"), "{message}");
    fs::write(place.shard(3), &bytes[..bytes.len() - 1]).unwrap();
    let message = place.refused();
    assert!(message.contains("are not in the file"), "{message}");
    fs::write(place.shard(3), &bytes[..100]).unwrap();
    assert!(place.refused().contains("cut short"), "{}", place.refused());
    fs::copy(place.shard(2), place.shard(3)).unwrap();
    assert!(place.refused().contains("in another file, too"), "{}", place.refused());
    let empty = safetensors(Vec::new());
    fs::write(place.shard(3), empty).unwrap();
    assert!(place.refused().contains("where the index has it"), "{}", place.refused());
    fs::write(place.shard(3), &bytes).unwrap();
    place.plan(options()).unwrap();

    let index = place.folder.path().join("model.safetensors.index.json");
    for name in ["../other.safetensors", "/etc/passwd", ".."] {
        fs::write(&index, json!({"weight_map": {"x": name}}).to_string()).unwrap();
        assert!(place.refused().contains("not a file of this folder"), "{}", place.refused());
    }
    fs::write(&index, "{\"weight_map\": {}}").unwrap();
    assert!(matches!(place.plan(options()), Err(Error::NoWeights { .. })));
}

#[test]
fn fault_013_hostile_descriptions_are_refused() {
    let place = Place::empty();
    fs::write(place.folder.path().join("config.json"), taken_back().config.to_string()).unwrap();
    let path = place.folder.path().join("model.safetensors");
    let with = |header: &str, data: usize| {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), &vec![0; data]].concat()
    };
    let entry = |dtype: &str, shape: &str, start: &str, end: &str| {
        format!(
            "{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}}}"
        )
    };
    let max = u64::MAX.to_string();
    let cases = [
        (Vec::new(), "no .safetensors file"),
        (u64::MAX.to_le_bytes().to_vec(), "cut short"),
        ((1u64 << 40).to_le_bytes().to_vec(), "cut short"),
        (with("nothing", 0), "damaged"),
        (with(&"[".repeat(100_000), 0), "damaged"),
        (with("{\"a\":{}}", 0), "lacks dtype"),
        (with(&entry("F32", "[1]", "0", "5"), 4), "are not in the file"),
        (with(&entry("F32", "[1]", "4", "0"), 4), "are not in the file"),
        (with(&entry("F32", "[1]", &max, &max), 4), "are not in the file"),
        (with(&entry("F32", "[1]", "0", "2"), 4), "does not have 2 bytes"),
        (with(&entry("F32", "[4294967296,4294967296,4]", "0", "0"), 4), "does not have 0 bytes"),
        (with(&entry("F32", "[-1]", "0", "4"), 4), "damaged"),
        (
            with(
                "{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},\
                 \"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[2,6]}}",
                6,
            ),
            "share bytes",
        ),
    ];
    for (bytes, part) in cases {
        fs::write(&path, &bytes).unwrap();
        assert!(place.refused().contains(part), "{part}: {}", place.refused());
    }
    fs::write(&path, with(&entry("F4", "[8]", "0", "4"), 4)).unwrap();
    assert!(matches!(place.plan(options()), Err(Error::Tensors(_) | Error::Unknown(_))));
}

#[test]
fn weights_of_other_types_are_refused_by_name() {
    let folder = taken_back();
    let place = Place::of(&folder);
    let name = "lm_head.weight";
    let tensor = folder.tensors.iter().find(|tensor| tensor.name == name).unwrap();
    let shape = tensor.shape.clone();
    let size = (shape[0] * shape[1]) as usize;
    // In a file of its own, without an index, beside the others.
    let rest: Vec<_> = folder.tensors.iter().filter(|tensor| tensor.name != name).collect();
    let list = rest.iter().map(|tensor| {
        let bytes = tensor.values.iter().flat_map(|v| v.to_le_bytes()).collect();
        (tensor.name.clone(), "F32", tensor.shape.clone(), bytes)
    });
    for number in 1..=5 {
        fs::remove_file(place.shard(number)).unwrap();
    }
    fs::remove_file(place.folder.path().join("model.safetensors.index.json")).unwrap();
    fs::write(place.folder.path().join("a.safetensors"), safetensors(list.collect())).unwrap();
    let head = vec![(name.to_owned(), "F8_E4M3", shape, vec![0; size])];
    fs::write(place.folder.path().join("b.safetensors"), safetensors(head)).unwrap();
    let message = place.refused();
    assert!(
        message.contains("lm_head.weight is F8_E4M3 and should be F32, F16 or BF16"),
        "{message}"
    );
}

#[test]
fn configurations_that_describe_no_such_model_are_refused() {
    let folder = taken_back();
    let place = Place::of(&folder);
    let with = |key: &str, value: serde_json::Value| {
        let mut config = folder.config.clone();
        config["text_config"][key] = value;
        fs::write(place.folder.path().join("config.json"), config.to_string()).unwrap();
        place.refused()
    };
    let cases = [
        ("model_type", json!("llama"), "only qwen4_exp"),
        ("hidden_act", json!("gelu"), "only \"silu\""),
        ("num_experts", json!(null), "num_experts is missing"),
        ("num_experts", json!(-3), "num_experts is -3"),
        ("num_experts", json!(0), "expert_count"),
        ("num_attention_heads", json!(3), "head_count"),
        ("layer_types", json!(["linear_attention"]), "for each layer"),
        ("layer_types", json!(null), "full_attention_interval"),
        ("num_hidden_layers", json!(4_000_000_000u32), "layer_types"),
        ("rope_parameters", json!({"rope_type": "yarn", "rope_theta": 1e7}), "only \"default\""),
        ("ple_layer_ids", json!([0]), "counted from 1"),
        ("ple_embed_dim", json!(129), "hash heads"),
        ("linear_value_head_dim", json!(64), "linear_key_head_dim"),
        ("eos_token_id", json!(9999), "eos_token_id"),
        ("hidden_size", json!(256), "[512, 256]"),
    ];
    for (key, value, part) in cases {
        let message = with(key, value);
        assert!(message.contains(part), "{key}: {message}");
    }
    fs::write(place.folder.path().join("config.json"), "{").unwrap();
    assert!(place.refused().contains("config.json: "), "{}", place.refused());
    fs::remove_file(place.folder.path().join("config.json")).unwrap();
    assert!(matches!(place.plan(options()), Err(Error::Read { .. })));
}

#[test]
fn tokenizers_that_no_file_can_carry_are_refused() {
    type Change<'a> = &'a dyn Fn(&mut serde_json::Value);
    let small = root("fixtures/hf-small");
    let place = Place::empty();
    for name in ["config.json", "tokenizer_config.json", "generation_config.json"] {
        fs::copy(small.join(name), place.folder.path().join(name)).unwrap();
    }
    let options = || {
        let (vocabulary, contents) = (Vocabulary::Include, Contents::Metadata);
        Options { vocabulary, contents, ..options() }
    };
    let refused = || place.plan(options()).unwrap_err().to_string();
    assert!(refused().contains("--no-tokenizer"), "{}", refused());
    let text = fs::read_to_string(small.join("tokenizer.json")).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    let path = place.folder.path().join("tokenizer.json");
    let with = |change: Change<'_>| {
        let mut changed = whole.clone();
        change(&mut changed);
        fs::write(&path, changed.to_string()).unwrap();
        refused()
    };
    let cases: [(Change<'_>, &str); 7] = [
        (&|t| t["model"]["type"] = json!("WordPiece"), "only BPE"),
        (&|t| t["normalizer"] = json!({"type": "NFKC"}), "not NFC"),
        (&|t| t["pre_tokenizer"] = json!({"type": "Whitespace"}), "pattern of qwen35"),
        (&|t| t["model"]["vocab"]["zz"] = json!(8192), "8192 rows"),
        (&|t| t["model"]["merges"][0] = json!(["zzz", "yyy"]), "tokenizer.json: "),
        (&|t| t["added_tokens"][2]["content"] = json!("<|other|>"), "eos_token"),
        (&|t| t["model"] = json!(7), "tokenizer.json: "),
    ];
    for (change, part) in cases {
        let message = with(change);
        assert!(message.contains(part), "{part}: {message}");
    }
    fs::write(&path, &text).unwrap();
    place.plan(options()).unwrap();
}
