//! Requantised files against the encoder and against their input, and runs that are stopped.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::fs;
use std::path::{Path, PathBuf};

use gguf::{Gguf, Metadata, SplitLimit, TensorType, Value, Writer};
use lab::imatrix::Imatrix;
use lab::requant::Requant;
use lab::transform::{
    self, Error, Flow, Outcome, Overwrite, Plan, PlannedPart, PlannedTensor, Recipe, Resume,
    Settings, Stage, Target,
};
use model::Checkpoint;
use tempfile::TempDir;

/// The shared experts of the small fixtures are too narrow.
const CHOICES: [&str; 3] = ["dense=q8_0", "experts=q4_1", "ffn_down_shexp=keep"];

/// A folder for the output, and how it is written.
struct Place {
    folder: TempDir,
    input: PathBuf,
    recipe: Recipe,
    settings: Settings,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn recipe(choices: &[&str]) -> Recipe {
    Recipe::new(choices.iter().map(|text| text.parse().unwrap()).collect())
}

/// Pieces so small that a stop in the middle of a tensor is usual.
fn settings() -> Settings {
    Settings {
        overwrite: Overwrite::Refuse,
        resume: Resume::IfPossible,
        threads: 3,
        piece_bytes: 20_000,
        inputs: Vec::new(),
    }
}

impl Place {
    fn new(input: &Path, choices: &[&str]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { inputs: vec![input.to_owned()], ..settings() };
        Place { folder, input: input.to_owned(), recipe: recipe(choices), settings }
    }

    fn tiny() -> Place {
        Place::new(&fixture("qwen4exp/tiny-f32.gguf"), &CHOICES)
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out.gguf")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("out.gguf.{suffix}"))
    }

    fn plan(&self) -> Result<Requant, Error> {
        Requant::plan(&Gguf::open(&self.input).unwrap(), &self.output(), &self.recipe, None)
    }

    /// Runs until `watch` has been asked so many times.
    fn run(&self, mut asked: usize) -> Result<Outcome, Error> {
        let requant = self.plan()?;
        let mut watch = |_| {
            asked = asked.saturating_sub(1);
            if asked == 0 { Flow::Stop } else { Flow::Continue }
        };
        transform::write(&requant.target, &requant, &self.settings, &mut watch)
    }

    fn whole(&self) -> Vec<u8> {
        self.run(usize::MAX).unwrap();
        self.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.output()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The rows of a tensor, decoded, and encoded by the encoder itself.
fn encoded(file: &Gguf, name: &str, ty: TensorType, importance: Option<&[f32]>) -> Vec<u8> {
    let info = file.tensor(name).unwrap();
    let n_in = info.n_in() as usize;
    let (mut values, mut out) = (vec![0f32; n_in], Vec::new());
    let rows = file.bytes(info);
    for (row, raw) in rows.chunks_exact(info.row_bytes() as usize).enumerate() {
        quant::decode_row(info.ty, raw, &mut values).unwrap();
        let mut bytes = vec![0; ty.row_bytes(n_in as u64).unwrap() as usize];
        let columns = importance.map(|all| {
            let matrix = row / info.dims[1] as usize;
            &all[matrix * n_in..(matrix + 1) * n_in]
        });
        quant::encode_row(ty, &values, columns, &mut bytes).unwrap();
        out.extend(bytes);
    }
    out
}

/// Without the label, which may change.
fn unlabelled(metadata: &Metadata) -> Metadata {
    let mut metadata = metadata.clone();
    metadata.remove("general.file_type");
    metadata.remove("general.quantization_version");
    metadata
}

#[test]
fn chosen_tensors_are_the_encoders_and_all_others_keep_their_bytes() {
    let choices = [
        "dense=q8_0",
        "experts=q4_0",
        "ffn_down_exps=iq4_nl",
        "token_embd=q5_1",
        "ffn_down_shexp=keep",
    ];
    for name in ["tiny-f32", "tiny-16bit", "quantmix"] {
        let place = Place::new(&fixture(&format!("qwen4exp/{name}.gguf")), &choices);
        place.whole();
        let (before, after) =
            (Gguf::open(&place.input).unwrap(), Gguf::open(place.output()).unwrap());
        assert_eq!(unlabelled(before.metadata()), unlabelled(after.metadata()));
        assert_eq!(before.alignment(), after.alignment());
        assert_eq!(before.tensors().len(), after.tensors().len());
        let mut changed = 0;
        for (old, new) in before.tensors().iter().zip(after.tensors()) {
            assert_eq!((&old.name, &old.dims), (&new.name, &new.dims));
            let found = after.bytes(new);
            if old.ty == new.ty {
                assert!(before.bytes(old)[..] == found[..], "{}", old.name);
            } else {
                assert!(encoded(&before, &old.name, new.ty, None) == found[..], "{}", old.name);
                changed += 1;
            }
        }
        assert!(changed > 30, "{changed}");
        let ty = |name: &str| after.tensor(name).unwrap().ty;
        assert_eq!(ty("blk.0.ffn_gate_exps.weight"), TensorType::Q4_0);
        assert_eq!(ty("blk.0.ffn_down_exps.weight"), TensorType::IQ4_NL);
        assert_eq!(ty("token_embd.weight"), TensorType::Q5_1);
        assert_eq!(
            ty("blk.0.ssm_alpha.weight"),
            before.tensor("blk.0.ssm_alpha.weight").unwrap().ty
        );
        Checkpoint::load(&after).unwrap();
        assert_eq!(place.names(), ["out.gguf"], "nothing else stays");
    }
}

#[test]
fn labels_follow_the_formats() {
    let place = Place::new(
        &fixture("qwen4exp/tiny-f32.gguf"),
        &CHOICES.map(|choice| if choice == "experts=q4_1" { "experts=q8_0" } else { choice }),
    );
    place.whole();
    let after = Gguf::open(place.output()).unwrap();
    let before = Gguf::open(&place.input).unwrap();
    assert_eq!(after.metadata().get("general.quantization_version"), Some(&Value::U32(2)));
    let expected = before.metadata().get("general.file_type").map(|_| Value::U32(7));
    assert_eq!(after.metadata().get("general.file_type"), expected.as_ref());
}

#[test]
fn sizes_are_those_of_the_files() {
    let place = Place::tiny();
    let requant = place.plan().unwrap();
    place.whole();
    let after = Gguf::open(place.output()).unwrap();
    let bytes = |file: &Gguf| file.tensors().iter().map(|info| info.bytes).sum::<u64>();
    let before = Gguf::open(&place.input).unwrap();
    let expected = (before.tensors().len(), bytes(&before), bytes(&after));
    assert_eq!(requant.sizes.total(), expected);
    assert_eq!(requant.target.file_bytes(), fs::metadata(place.output()).unwrap().len());
}

#[test]
fn importance_reaches_the_encoder_matrix_by_matrix() {
    let place = Place::new(&fixture("qwen4exp/tiny-f32.gguf"), &["experts=iq4_nl", "attn_q=q4_0"]);
    let before = Gguf::open(&place.input).unwrap();
    let name = "blk.0.ffn_up_exps.weight";
    let dims = before.tensor(name).unwrap().dims.clone();
    let sums: Vec<f32> = (0..dims[0] * dims[2]).map(|i| ((i * 37) % 101) as f32 + 0.5).collect();
    let mut writer = Writer::new(Metadata::new());
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let ty = TensorType::F32;
    writer.tensor(format!("{name}.in_sum2"), &[dims[0], dims[2]], ty, bytes(&sums));
    let counts = vec![2.0; dims[2] as usize];
    writer.tensor(format!("{name}.counts"), &[1, dims[2]], ty, bytes(&counts));
    let path = place.folder.path().join("imatrix.gguf");
    writer.write(&path).unwrap();

    let imatrix = Imatrix::read(&path).unwrap();
    let requant = Requant::plan(&before, &place.output(), &place.recipe, Some(imatrix)).unwrap();
    assert!(!requant.without_importance.contains(&name.to_owned()));
    assert!(requant.without_importance.contains(&"blk.0.ffn_gate_exps.weight".to_owned()));
    transform::write(&requant.target, &requant, &place.settings, &mut |_| Flow::Continue).unwrap();
    let after = Gguf::open(place.output()).unwrap();
    let halves: Vec<f32> = sums.iter().map(|sum| sum / 2.0).collect();
    let found = after.bytes(after.tensor(name).unwrap());
    assert!(encoded(&before, name, TensorType::IQ4_NL, Some(&halves)) == found[..]);
    assert!(encoded(&before, name, TensorType::IQ4_NL, None) != found[..]);

    let other = Requant::plan(
        &before,
        &place.output(),
        &recipe(&["attn_q=q4_0"]),
        Some({
            let mut writer = Writer::new(Metadata::new());
            writer.tensor("blk.3.attn_q.weight.in_sum2", &[3, 1], ty, bytes(&[1.0; 3]));
            writer.tensor("blk.3.attn_q.weight.counts", &[1, 1], ty, bytes(&[1.0]));
            writer.write(&path).unwrap();
            Imatrix::read(&path).unwrap()
        }),
    );
    let message = other.unwrap_err().to_string();
    assert!(message.contains("another model"), "{message}");
}

#[test]
fn a_run_stopped_anywhere_gives_the_bytes_of_one_that_was_not() {
    let expected = Place::tiny().whole();
    for seed in 1..5usize {
        let place = Place::tiny();
        let (mut asked, mut stops) = (seed, 0);
        let outcome = loop {
            // Asked once for each piece that is there already, so a run must be asked more often
            // than the one before it to get further.
            asked += (seed * 7919 + stops * 104_729) % (29 * seed) + 1;
            match place.run(asked) {
                Ok(outcome) => break outcome,
                Err(Error::Stopped { done, total }) => assert!(done < total),
                Err(error) => panic!("{error}"),
            }
            stops += 1;
            assert!(!place.output().exists(), "not before it is complete");
        };
        assert!(outcome.resumed > 0 && outcome.repaired == 0 && stops > 1, "{seed}: {outcome:?}");
        assert!(place.bytes() == expected);
        assert_eq!(place.names(), ["out.gguf"]);
    }
}

#[test]
fn damage_to_the_state_is_found_and_repaired() {
    let expected = Place::tiny().whole();
    let place = Place::tiny();
    assert!(matches!(place.run(150), Err(Error::Stopped { .. })));
    let (partial, journal) = (place.beside("partial"), place.beside("journal"));
    let (file, lines) = (fs::read(&partial).unwrap(), fs::read(&journal).unwrap());
    let title = lines.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(lines.len() > title + 1000);
    // A journal that ends anywhere, as after the machine lost power.
    for cut in [0, 1, title - 1, title, title + 1, title + 500, lines.len() - 1] {
        fs::write(&partial, &file).unwrap();
        fs::write(&journal, &lines[..cut]).unwrap();
        let outcome = place.run(usize::MAX).unwrap();
        assert_eq!(outcome.repaired, 0, "{cut}");
        assert!(place.bytes() == expected, "{cut}");
        fs::remove_file(place.output()).unwrap();
    }
    // A finished piece that the disk has lost.
    let mut torn = file.clone();
    let header = torn.len() - expected.len();
    assert_eq!(header, 0);
    let data = Gguf::open(&place.input).unwrap();
    let start = (data.file_offset(&data.tensors()[0]) as usize).min(torn.len() - 5000);
    torn[start + 4096..start + 4160].fill(0xa5);
    fs::write(&partial, &torn).unwrap();
    fs::write(&journal, &lines).unwrap();
    let outcome = place.run(usize::MAX).unwrap();
    assert!(outcome.repaired > 0 && outcome.resumed > 0, "{outcome:?}");
    assert!(place.bytes() == expected);
}

#[test]
fn a_journal_of_another_run_is_refused_until_it_is_told_to_begin_anew() {
    let mut place = Place::tiny();
    assert!(matches!(place.run(40), Err(Error::Stopped { .. })));
    let other = recipe(&["dense=q5_0", "experts=q4_1", "ffn_down_shexp=keep"]);
    let recipe = std::mem::replace(&mut place.recipe, other);
    let message = place.run(usize::MAX).unwrap_err().to_string();
    assert!(message.contains("other formats") && message.contains("--restart"), "{message}");
    // A changed input is another run, too.
    let copy = place.folder.path().join("copy.gguf");
    fs::copy(&place.input, &copy).unwrap();
    let input = std::mem::replace(&mut place.input, copy);
    place.recipe = recipe;
    assert!(matches!(place.run(usize::MAX), Err(Error::OtherRun { .. })));
    place.settings.resume = Resume::Restart;
    let found = place.whole();
    place.input = input;
    assert!(found == Place::tiny().whole());
}

#[test]
fn a_state_that_is_not_one_is_refused() {
    let place = Place::tiny();
    fs::write(place.beside("journal"), "my diary\n").unwrap();
    assert!(matches!(place.run(usize::MAX), Err(Error::Journal { line: 1, .. })));
    assert_eq!(fs::read(place.beside("journal")).unwrap(), b"my diary\n");
    fs::remove_file(place.beside("journal")).unwrap();

    assert!(matches!(place.run(60), Err(Error::Stopped { .. })));
    fs::write(place.beside("partial"), "short").unwrap();
    assert!(matches!(place.run(usize::MAX), Err(Error::Unfinished { .. })));
    fs::remove_file(place.beside("partial")).unwrap();
    assert!(matches!(place.run(usize::MAX), Err(Error::Unfinished { .. })));
}

#[test]
fn existing_files_and_the_input_are_not_written_over() {
    let mut place = Place::tiny();
    fs::write(place.output(), "something").unwrap();
    assert!(matches!(place.run(usize::MAX), Err(Error::Exists { .. })));
    assert_eq!(place.names(), ["out.gguf"]);
    place.settings.overwrite = Overwrite::Replace;
    assert!(place.whole() == Place::tiny().whole());

    let copy = place.beside("partial");
    fs::copy(&place.input, &copy).unwrap();
    for input in [place.output(), copy] {
        let before = fs::read(&input).unwrap();
        place.settings.inputs = vec![input.clone()];
        assert!(matches!(place.run(usize::MAX), Err(Error::OverInput { .. })));
        assert!(fs::read(&input).unwrap() == before);
    }
}

#[test]
fn an_unfinished_file_of_somebody_else_is_left_alone() {
    let mut place = Place::tiny();
    fs::write(place.beside("partial"), "a download").unwrap();
    assert!(matches!(place.run(usize::MAX), Err(Error::Foreign { .. })));
    assert_eq!(fs::read(place.beside("partial")).unwrap(), b"a download");
    assert_eq!(place.names(), ["out.gguf.partial"]);
    place.settings.resume = Resume::Restart;
    place.whole();
    assert_eq!(place.names(), ["out.gguf"]);
}

#[test]
fn a_split_model_is_split_in_the_same_places_and_its_names_come_last() {
    let folder = tempfile::tempdir().unwrap();
    let source = Gguf::open(fixture("qwen4exp/tiny-16bit.gguf")).unwrap();
    let bytes: Vec<_> = source.tensors().iter().map(|info| source.bytes(info)).collect();
    let mut metadata = source.metadata().clone();
    metadata.insert("general.alignment", 64u32);
    let mut writer = Writer::new(metadata);
    for (info, bytes) in source.tensors().iter().zip(&bytes) {
        writer.tensor(info.name.clone(), &info.dims, info.ty, &bytes[..]);
    }
    let parts = writer.write_split(folder.path().join("in"), SplitLimit::Tensors(40)).unwrap();
    assert!(parts.len() > 2);

    let place = Place::new(&parts[1], &CHOICES);
    let count = parts.len() as u16;
    let outputs = gguf::split_paths(&place.output(), count);
    assert!(matches!(place.run(30), Err(Error::Stopped { .. })));
    place.run(usize::MAX).unwrap();
    assert_eq!(place.names().len(), parts.len());
    let (before, after) = (Gguf::open(&parts[0]).unwrap(), Gguf::open(&outputs[1]).unwrap());
    assert_eq!(after.parts(), outputs);
    for part in 0..parts.len() {
        let metadata = |file: &Gguf| unlabelled(file.part_metadata(part));
        assert_eq!(metadata(&before), metadata(&after), "{part}");
    }
    for (old, new) in before.tensors().iter().zip(after.tensors()) {
        assert_eq!((&old.name, old.part), (&new.name, new.part));
        let found = after.bytes(new);
        let same = old.ty == new.ty && before.bytes(old)[..] == found[..];
        assert!(same || encoded(&before, &old.name, new.ty, None) == found[..], "{}", old.name);
        assert!(after.file_offset(new).is_multiple_of(64));
    }
    Checkpoint::load(&after).unwrap();

    // Died while the names were being given: the state says that only they are missing.
    let again = Place::new(&parts[0], &CHOICES);
    assert!(matches!(again.run(30), Err(Error::Stopped { .. })));
    let first = &gguf::split_paths(&again.output(), count)[0];
    let with = |path: &Path, suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let journal = with(first, ".journal");
    let title = fs::read_to_string(&journal).unwrap().lines().next().unwrap().to_owned();
    fs::write(&journal, format!("{title}\ncomplete\n")).unwrap();
    for (made, path) in outputs.iter().zip(gguf::split_paths(&again.output(), count)) {
        fs::remove_file(with(&path, ".partial")).unwrap();
        let named = made == outputs.last().unwrap();
        fs::copy(made, if named { path } else { with(&path, ".partial") }).unwrap();
    }
    again.run(usize::MAX).unwrap();
    assert_eq!(again.names().len(), parts.len());
    assert!(fs::read(first).unwrap() == fs::read(&outputs[0]).unwrap());
}

#[test]
fn impossible_widths_name_the_tensors_and_the_sizes() {
    let place = Place::new(&fixture("qwen4exp/tiny-f32.gguf"), &["attn_q=q4_k"]);
    let Err(Error::Narrow(narrow)) = place.plan() else { panic!("it does not fit") };
    assert_eq!(narrow[0].ty, TensorType::Q4_K);
    let message = Error::Narrow(narrow).to_string();
    assert!(message.contains("attn_q.weight (128 x") && message.contains("have 256"), "{message}");
}

#[test]
fn a_choice_about_nothing_is_refused() {
    let place = Place::new(&fixture("qwen4exp/tiny-f32.gguf"), &["nextn.eh_proj=q8_0"]);
    let message = place.plan().unwrap_err().to_string();
    assert!(message.contains("no tensor for \"nextn.eh_proj\""), "{message}");
}

#[test]
fn values_that_cannot_be_encoded_are_named_and_leave_a_state() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.gguf");
    let mut values = vec![0.25f32; 64 * 40];
    values[64 * 7 + 3] = f32::NAN;
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut writer = Writer::new(Metadata::new());
    writer.tensor("blk.0.attn_k.weight", &[64, 40], TensorType::F32, bytes.clone());
    writer.tensor("blk.0.attn_q.weight", &[64, 40], TensorType::F32, bytes);
    writer.tensor("blk.0.attn_v.weight", &[64, 40], TensorType::I32, vec![0; 64 * 40 * 4]);
    writer.write(&input).unwrap();
    let place = Place::new(&input, &["attn_q=q8_0"]);
    let error = place.run(usize::MAX).unwrap_err();
    assert!(matches!(&error, Error::Row { row: 7, .. }), "{error}");
    assert!(error.to_string().contains("attn_q.weight\", row 7: element 3 is NaN"), "{error}");
    assert_eq!(place.names(), ["out.gguf.journal", "out.gguf.partial"]);
    let integers = Place::new(&input, &["attn_v=q8_0"]).plan();
    assert!(matches!(integers, Err(Error::Undecodable { ty: TensorType::I32, .. })));
}

#[test]
fn a_disk_that_is_too_full_is_found_before_the_start() {
    let place = Place::tiny();
    // A petabyte and more.
    let dims = vec![1 << 24, 1 << 24];
    let tensor = PlannedTensor {
        name: "blk.0.attn_k.weight".to_owned(),
        dims,
        ty: TensorType::F32,
        encoded: true,
    };
    let part = PlannedPart { metadata: Metadata::new(), tensors: vec![tensor] };
    let target = Target::new(&Plan { parts: vec![part] }, &place.output()).unwrap();
    let error = transform::check(&target, &place.settings).unwrap_err();
    assert!(matches!(error, Error::Space { needed, free, .. } if needed > free), "{error}");
    assert!(place.names().is_empty());
}

#[test]
fn progress_counts_every_byte() {
    let place = Place::tiny();
    let requant = place.plan().unwrap();
    let total: u64 = requant.target.tensor_bytes().sum();
    let mut last = 0;
    let mut watch = |step: transform::Progress| {
        assert_eq!((step.stage, step.total), (Stage::Writing, total));
        assert!(step.done >= last);
        last = step.done;
        Flow::Continue
    };
    let outcome = transform::write(&requant.target, &requant, &place.settings, &mut watch).unwrap();
    assert_eq!(last, total);
    assert_eq!(outcome, Outcome { resumed: 0, repaired: 0, total });
}
