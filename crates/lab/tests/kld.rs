//! Comparing models by what they predict: against logits as `tuff logits` dumps them, with base
//! files, after interruptions, and with files that are damaged.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use cpu::{Cpu, CpuOptions};
use engine::{Engine, EngineConfig, Feed, Want};
use kernels::KvType;
use lab::FileError;
use lab::kld::base::{self, Base, Header};
use lab::kld::{self, Cut, Error, Keep, Report, Score};
use model::Checkpoint;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const CUT: Cut = Cut { ctx: 48, skip: 20, most: None };
const VOCABULARY: u64 = 7;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/qwen4exp").join(name)
}

fn engine(model: &str, kv: KvType) -> Engine<Cpu> {
    let file = gguf::Gguf::open(fixture(model)).unwrap();
    let checkpoint = Checkpoint::load(&file).unwrap();
    let config = EngineConfig { context: CUT.ctx, chunk: 16, kv, ..EngineConfig::default() };
    let cpu = Cpu::new(CpuOptions { threads: 1, ..CpuOptions::default() });
    Engine::new(cpu, &checkpoint, config, &mut |_| {}).unwrap()
}

fn ab() -> [Engine<Cpu>; 2] {
    [engine("quantmix.gguf", KvType::F32), engine("quantmix.gguf", KvType::Q8_0)]
}

/// A prompt of the fixtures, long enough for four passages and a rest.
fn text() -> Vec<u32> {
    let manifest = fs::read_to_string(fixture("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let models = manifest["models"].as_array().unwrap();
    let model = models.iter().find(|m| m["file"] == "quantmix.gguf").unwrap();
    let tokens = model["prompts"]["long"]["tokens"].as_array().unwrap();
    tokens.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn go_on(_: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn exact(a: &mut Engine<Cpu>, b: &mut Engine<Cpu>) -> Vec<Score> {
    kld::compare([a, b], &text(), &CUT, &mut go_on).unwrap()
}

fn header(a: &Engine<Cpu>, keep: Keep) -> Header {
    Header::new(a, VOCABULARY, "kv f32".to_owned(), (&text(), &CUT), keep).unwrap()
}

fn from_base(path: &Path, b: &mut Engine<Cpu>) -> Vec<Score> {
    base::compare(Base::open(path).unwrap(), b, VOCABULARY, &mut go_on).unwrap()
}

/// Logits of a passage from an empty state, as `tuff logits` writes them.
fn dump(engine: &mut Engine<Cpu>, passage: &[u32]) -> Vec<f32> {
    engine.reset(0).unwrap();
    let rows = passage
        .iter()
        .flat_map(|&token| engine.forward(&[Feed::new(0, &[token], Want::All)]).unwrap());
    rows.collect()
}

/// ln of the softmax, worked out for itself.
fn ln_p(row: &[f32]) -> Vec<f64> {
    let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
    row.iter().map(|&x| f64::from(x) - total.ln()).collect()
}

#[test]
fn figures_are_those_of_dumped_logits() {
    let [mut a, mut b] = ab();
    let scores = exact(&mut a, &mut b);
    let (text, vocab) = (text(), a.hyper_params().vocab);
    let passages = text.len() / CUT.ctx;
    assert_eq!(scores.len(), passages * (CUT.ctx - 1 - CUT.skip));

    let mut all = scores.iter();
    for passage in text.chunks_exact(CUT.ctx) {
        let dumps = [dump(&mut a, passage), dump(&mut b, passage)];
        for position in CUT.skip..CUT.ctx - 1 {
            let score = all.next().unwrap();
            let row = |dump: &[f32]| ln_p(&dump[position * vocab..][..vocab]);
            let (p, q) = (row(&dumps[0]), row(&dumps[1]));
            let kl: f64 = p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum();
            // Rounding of sums over a vocabulary in f64.
            assert!((score.kl - kl).abs() < 1e-12, "{} {kl}", score.kl);
            let next = passage[position + 1] as usize;
            assert!((score.surprise[1] + p[next]).abs() < 1e-12);
            assert!((score.surprise[0] + q[next]).abs() < 1e-12);
            let top = |row: &[f64]| (0..vocab).rev().max_by(|&i, &j| row[i].total_cmp(&row[j]));
            assert_eq!(score.same_top, top(&p) == top(&q));
        }
    }
    assert!(Report::of(&scores).kl.value > 0.0);
}

#[test]
fn a_model_diverges_from_itself_by_exactly_nothing() {
    let mut again = engine("quantmix.gguf", KvType::Q8_0);
    let [_, mut b] = ab();
    let report = Report::of(&exact(&mut again, &mut b));
    assert!(report.kl.value == 0.0 && report.max == 0.0 && report.same_top.value == 1.0);
    assert!(report.ratio.value == 1.0 && report.ratio.error == 0.0);

    let folder = tempfile::tempdir().unwrap();
    for (n, tail) in [0.0, 1e-4, 0.5].into_iter().enumerate() {
        let path = folder.path().join(n.to_string());
        let header = header(&b, Keep { tail, draws: 8 });
        base::build(&path, &header, &mut b, &mut go_on).unwrap();
        let report = Report::of(&from_base(&path, &mut again));
        assert!(report.kl.value == 0.0 && report.max == 0.0 && report.bounds[0] == 0.0, "{tail}");
        assert!(report.same_top.value == 1.0 && report.ratio.value == 1.0);
    }
}

#[test]
fn a_base_file_gives_the_same_within_its_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let [mut a, mut b] = ab();
    let expected = exact(&mut a, &mut b);
    for (n, tail) in [0.0, 1e-6, 1e-3, 0.3].into_iter().enumerate() {
        let path = folder.path().join(n.to_string());
        let header = header(&a, Keep { tail, draws: 8 });
        let built = base::build(&path, &header, &mut a, &mut go_on).unwrap();
        assert_eq!((built.found, built.passages), (0, 4));
        assert_eq!(built.bytes, fs::metadata(&path).unwrap().len());
        for (found, expected) in from_base(&path, &mut b).iter().zip(&expected) {
            // Sums in another order: rounding of f64.
            let slack = 1e-12;
            assert!(found.low <= expected.kl + slack && expected.kl <= found.high + slack);
            if tail == 0.0 {
                assert!((found.kl - expected.kl).abs() < slack && found.low == found.high);
            }
            assert_eq!(found.surprise, expected.surprise);
            assert_eq!(found.same_top, expected.same_top);
        }
    }
}

/// Builds a file, interrupted once so many tokens are done.
fn interrupted(path: &Path, a: &mut Engine<Cpu>, after: usize) {
    let header = header(a, Keep::default());
    let mut stop = |done| match done < after {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let error = base::build(path, &header, a, &mut stop).unwrap_err();
    assert!(matches!(error, Error::Stopped));
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let [mut a, mut b] = ab();
    let (whole, path) = (folder.path().join("whole"), folder.path().join("resumed"));
    let header = header(&a, Keep::default());
    base::build(&whole, &header, &mut a, &mut go_on).unwrap();
    let bytes = fs::read(&whole).unwrap();

    interrupted(&path, &mut a, 20);
    interrupted(&path, &mut a, 100);
    let error = Base::open(&path).unwrap_err();
    assert!(matches!(error, Error::Incomplete { done: 2, all: 4 }), "{error}");
    let built = base::build(&path, &header, &mut a, &mut go_on).unwrap();
    assert_eq!((built.found, built.passages), (2, 4));
    assert!(fs::read(&path).unwrap() == bytes);

    // Wherever a crash cuts the file, or spoils its last bytes.
    for len in [0, 7, 60, 900, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..len]).unwrap();
        base::build(&path, &header, &mut a, &mut go_on).unwrap();
        assert!(fs::read(&path).unwrap() == bytes, "cut at {len}");
    }
    let mut spoiled = bytes.clone();
    spoiled[bytes.len() - 20..].fill(0);
    fs::write(&path, &spoiled).unwrap();
    assert_eq!(base::build(&path, &header, &mut a, &mut go_on).unwrap().found, 3);
    assert!(fs::read(&path).unwrap() == bytes);

    // A complete file costs nothing more.
    let mut never = |_| ControlFlow::Break(());
    assert_eq!(base::build(&path, &header, &mut a, &mut never).unwrap().found, 4);
    assert_eq!(from_base(&path, &mut b), from_base(&whole, &mut b));
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base");
    let [mut a, mut b] = ab();
    let header = header(&a, Keep::default());
    base::build(&path, &header, &mut a, &mut go_on).unwrap();
    let bytes = fs::read(&path).unwrap();

    let other_text = Header { tokens: vec![1; header.tokens.len()], ..header.clone() };
    let other_keep = Header { keep: Keep { draws: 9, ..header.keep }, ..header.clone() };
    let other_words = Header { vocabulary: 8, ..header.clone() };
    let other_model = Header { model: 1, ..header.clone() };
    for other in [other_text, other_keep, other_words, other_model] {
        let error = base::build(&path, &other, &mut a, &mut go_on).unwrap_err();
        assert!(matches!(error, Error::OtherBase { .. }), "{error}");
    }
    fs::write(folder.path().join("note"), "my notes, which are longer than a header").unwrap();
    let error = base::build(&folder.path().join("note"), &header, &mut a, &mut go_on).unwrap_err();
    assert!(matches!(error, Error::File(FileError::Foreign { .. })), "{error}");
    assert!(fs::read(&path).unwrap() == bytes);

    let base = Base::open(&path).unwrap();
    assert_eq!(base.header(), &header);
    let error = base::compare(base, &mut b, 8, &mut go_on).unwrap_err();
    assert!(matches!(error, Error::Vocabulary { .. }));
}

#[test]
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base");
    let [mut a, _] = ab();
    let header = header(&a, Keep { tail: 0.1, draws: 2 });
    base::build(&path, &header, &mut a, &mut go_on).unwrap();
    let bytes = fs::read(&path).unwrap();
    for len in (0..bytes.len()).step_by(131) {
        fs::write(&path, &bytes[..len]).unwrap();
        assert!(Base::open(&path).is_err(), "cut at {len}");
    }
    for at in (0..bytes.len()).step_by(173) {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= flip;
            fs::write(&path, &bytes).unwrap();
            assert!(Base::open(&path).is_err(), "byte {at}");
        }
    }
    fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    let error = Base::open(&path).unwrap_err();
    assert!(matches!(error, Error::File(FileError::Longer { .. })), "{error}");
}

/// FNV-1a, as the files have it.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    let step = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step).to_le_bytes()
}

#[test]
fn numbers_that_cannot_be_are_errors_under_right_checksums_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base");
    let [mut a, _] = ab();
    let keep = Keep { tail: 0.1, draws: 2 };
    let header = Header { about: String::new(), ..header(&a, keep) };
    base::build(&path, &header, &mut a, &mut go_on).unwrap();
    let bytes = fs::read(&path).unwrap();
    // Version, vocab, ctx, skip, tail, draws, length of the description, passages; without a
    // description, tokens follow. Of the first passage: number, scale, next logit, kept, first id.
    let header_end = 60 + 4 * header.tokens.len();
    let passage = header_end + 8;
    let (kept, id) = (passage + 20, passage + 24);
    assert_eq!(checksum(&bytes[..header_end]), bytes[header_end..passage]);
    let places = [8, 12, 32, 36, 44, 48, 52, 56, 60, passage, passage + 4, passage + 12, kept, id];
    for place in places {
        for value in [0, 1, 0x7fff_ffff, 0xffc0_0000, u32::MAX] {
            let mut bytes = bytes.clone();
            bytes[place..place + 4].copy_from_slice(&u32::to_le_bytes(value));
            let sum = checksum(&bytes[..header_end]);
            bytes[header_end..passage].copy_from_slice(&sum);
            fs::write(&path, &bytes).unwrap();
            // Few of them leave a file that is right; none may panic or take memory for nothing.
            let opened = Base::open(&path);
            if value == u32::MAX {
                assert!(opened.is_err(), "{place}");
            }
        }
    }
}

#[test]
fn logits_that_are_no_numbers_are_told() {
    struct Broken(Engine<Cpu>);
    impl kld::Predictor for Broken {
        fn vocab(&self) -> usize {
            kld::Predictor::vocab(&self.0)
        }
        fn chunk(&self) -> usize {
            kld::Predictor::chunk(&self.0)
        }
        fn begin(&mut self) -> Result<(), engine::Error> {
            kld::Predictor::begin(&mut self.0)
        }
        fn feed(
            &mut self,
            tokens: &[u32],
            want: Want,
            logits: &mut Vec<f32>,
        ) -> Result<(), engine::Error> {
            kld::Predictor::feed(&mut self.0, tokens, want, logits)?;
            logits.iter_mut().skip(5).step_by(1000).for_each(|logit| *logit = f32::NAN);
            Ok(())
        }
        fn fingerprint(&self) -> u64 {
            0
        }
    }
    let [mut a, b] = ab();
    let mut broken = Broken(b);
    let error = kld::compare([&mut a, &mut broken], &text(), &CUT, &mut go_on).unwrap_err();
    assert!(error.to_string().starts_with("B gives a logit"), "{error}");
}
