//! The tokenizer against the fixtures: the full vocabulary of the family, and the small ones in
//! model files.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod text_support;

use model::tokenizer::{SkipSpecial, SpecialTokens, TokenKind, Tokenizer};
use text_support::{fixture, full, ids, json};

fn encode(tokenizer: &Tokenizer, text: &str, special: SpecialTokens) -> Vec<u32> {
    tokenizer.encode(text, special).unwrap()
}

#[test]
fn full_vocabulary_encodes_every_case() {
    let cases = json("tokenizer/cases.json");
    for case in cases["encode"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let parsed = encode(full(), text, SpecialTokens::Parse);
        assert_eq!(parsed, ids(&case["ids"]), "{text:?}");

        let as_text = case.get("ids_special_as_text").unwrap_or(&case["ids"]);
        assert_eq!(encode(full(), text, SpecialTokens::AsText), ids(as_text), "{text:?}");
        assert_eq!(
            full().decode_text(&parsed, SkipSpecial::No).unwrap(),
            case["decoded"].as_str().unwrap()
        );
    }
}

#[test]
fn full_vocabulary_decodes_byte_by_byte() {
    let cases = json("tokenizer/cases.json");
    for case in cases["decode"].as_array().unwrap() {
        let ids = ids(&case["ids"]);
        let expected = case["bytes_b64_after_each"].as_array().unwrap();
        let mut stream = full().stream(SkipSpecial::No);
        let mut text = String::new();
        for (n, (&id, expected)) in ids.iter().zip(expected).enumerate() {
            let bytes = full().decode(&ids[..=n], SkipSpecial::No).unwrap();
            assert_eq!(base64(&bytes), expected.as_str().unwrap());

            text += &stream.push(id).unwrap();
            let whole = String::from_utf8_lossy(&bytes[..bytes.len() - stream.pending()]);
            assert_eq!(text, whole, "only what is certain, and all of it");
        }
        text += &stream.finish();
        assert_eq!(text, case["text"].as_str().unwrap());
        assert_eq!(text, full().decode_text(&ids, SkipSpecial::No).unwrap());
    }
}

#[test]
fn full_vocabulary_spells_every_reachable_id() {
    let unreachable = ids(&json("tokenizer/unreachable_ids.json"));
    let mut checked = 0;
    for id in 0..full().vocab_size() as u32 {
        let bytes = full().token_bytes(id).unwrap();
        let Ok(text) = std::str::from_utf8(bytes) else { continue };
        if full().kind(id) == Some(TokenKind::Unused) {
            assert!(bytes.is_empty());
            continue;
        }
        assert_eq!(full().token_id(text), Some(id), "{text:?}");
        if !unreachable.contains(&id) {
            assert_eq!(encode(full(), text, SpecialTokens::Parse), [id], "{text:?}");
            checked += 1;
        }
    }
    assert!(checked > 240_000, "{checked}");
}

#[test]
fn full_vocabulary_knows_its_special_tokens() {
    let tokenizer = full();
    assert_eq!(tokenizer.vocab_size(), 248_320);
    assert_eq!(tokenizer.eos_id(), Some(248_046));
    assert_eq!(tokenizer.bos_id(), None);
    assert_eq!(tokenizer.stop_ids(), [248_044, 248_046, 248_063, 248_064, 248_065]);
    assert!(tokenizer.is_eog(248_044) && !tokenizer.is_eog(248_045));
    assert!(tokenizer.is_control(248_045) && !tokenizer.is_control(248_068));
    assert_eq!(tokenizer.token_id("<think>"), Some(248_068));
    assert_eq!(tokenizer.token_id(" world"), Some(1_814));
    assert_eq!(tokenizer.token_id("no such token"), None);
    assert_eq!(tokenizer.piece(248_069).as_deref(), Some("</think>"));
    assert_eq!(tokenizer.kind(248_320), None);
    assert_eq!(tokenizer.token_bytes(u32::MAX), None);
}

#[test]
fn skipping_leaves_out_control_tokens_only() {
    let text = "<|im_start|>user\n<think>x</think><|im_end|>";
    let ids = encode(full(), text, SpecialTokens::Parse);
    let shown = full().decode_text(&ids, SkipSpecial::Yes).unwrap();
    assert_eq!(shown, "user\n<think>x</think>");
    assert_eq!(full().decode_text(&ids, SkipSpecial::No).unwrap(), text);
    let mut stream = full().stream(SkipSpecial::Yes);
    let streamed: String = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    assert_eq!(streamed, shown);
}

#[test]
fn the_longest_added_token_wins() {
    let ids = encode(full(), "<tts_text_bos_single><tts_text_bos>", SpecialTokens::Parse);
    let names: Vec<_> = ids.iter().map(|&id| full().piece(id).unwrap()).collect();
    assert_eq!(names, ["<tts_text_bos_single>", "<tts_text_bos>"]);
}

#[test]
fn model_files_encode_every_manifest_text() {
    let manifest = json("qwen4exp/manifest.json");
    for entry in manifest["models"].as_array().unwrap() {
        let file = fixture("qwen4exp").join(entry["file"].as_str().unwrap());
        let gguf = gguf::Gguf::open(&file).unwrap();
        let tokenizer = Tokenizer::from_metadata(gguf.metadata()).unwrap();
        assert_eq!(tokenizer.vocab_size(), 512);
        assert_eq!(tokenizer.stop_ids(), [496, 498, 509]);
        for case in entry["tokenizer"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let ids = ids(&case["ids"]);
            assert_eq!(encode(&tokenizer, text, SpecialTokens::Parse), ids, "{text:?}");
        }
    }
}

#[test]
fn sample_model_round_trips_text() {
    let file = fixture("../models/sample/sample.gguf");
    let tokenizer = Tokenizer::from_metadata(gguf::Gguf::open(&file).unwrap().metadata()).unwrap();
    assert_eq!(tokenizer.vocab_size(), 8192);
    let texts = ["Hello, world!", "<think>\n\n</think>", "\u{4f60}\u{597d}\u{1f642} 12\r\n\tx", ""];
    for text in texts {
        for special in [SpecialTokens::Parse, SpecialTokens::AsText] {
            let ids = encode(&tokenizer, text, special);
            assert_eq!(tokenizer.decode_text(&ids, SkipSpecial::No).unwrap(), text);
        }
    }
}

#[test]
fn long_texts_of_one_kind_are_split_to_the_end() {
    for piece in ["a", " ", "\n", "!", "1", "\u{301}", "\u{4f60}", " \n", "a ", "\u{a0}"] {
        let text = piece.repeat(50_000);
        let ids = encode(full(), &text, SpecialTokens::Parse);
        assert_eq!(full().decode_text(&ids, SkipSpecial::No).unwrap(), text, "{piece:?}");
    }
    let text = format!("{}x", " ".repeat(1_200_000));
    let ids = encode(full(), &text, SpecialTokens::Parse);
    assert_eq!(full().decode_text(&ids, SkipSpecial::No).unwrap(), text);
}

/// The plain base64 alphabet with padding, as the fixture uses it.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |block: &[u8], n: usize| {
        let at = |i: usize| u32::from(block.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        if n <= block.len() { DIGITS[(bits >> (18 - 6 * n) & 63) as usize].into() } else { '=' }
    };
    bytes.chunks(3).flat_map(|block| (0..4).map(move |n| digit(block, n))).collect()
}

#[test]
fn fault_073_characters_split_over_tokens_wait_for_their_rest() {
    let text = "\u{1f642}\u{4f60} \u{d55c}";
    let tokenizer = Tokenizer::from_metadata(&text_support::bytes_only()).unwrap();
    let ids = encode(&tokenizer, text, SpecialTokens::AsText);
    assert_eq!(ids.len(), text.len(), "a byte each");
    let mut stream = tokenizer.stream(SkipSpecial::Yes);
    let pieces: Vec<String> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    let shown: Vec<&str> = pieces.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    assert_eq!(shown, ["\u{1f642}", "\u{4f60}", " ", "\u{d55c}"]);
    assert_eq!(stream.finish(), "");
}

#[test]
fn fault_074_lone_continuation_bytes_do_not_stall() {
    let (tokenizer, id_of) = byte_ids();
    let mut stream = tokenizer.stream(SkipSpecial::Yes);
    for _ in 0..100 {
        assert_eq!(stream.push(id_of(0x80)).unwrap(), "\u{FFFD}");
    }
    assert_eq!(stream.push(id_of(b'x')).unwrap(), "x");
}

#[test]
fn fault_092_invalid_bytes_become_replacement_characters() {
    let (tokenizer, id_of) = byte_ids();
    let cases: [&[u8]; 5] =
        [b"\xC0\x80ok", b"\xED\xA0\x80ok", b"\xF4\x90\x80\x80ok", b"\xE5", b"\xE5\xBDok"];
    for bytes in cases {
        let ids: Vec<u32> = bytes.iter().map(|&byte| id_of(byte)).collect();
        assert_eq!(tokenizer.decode(&ids, SkipSpecial::No).unwrap(), bytes, "lossless");
        let mut stream = tokenizer.stream(SkipSpecial::Yes);
        let mut text: String = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
        text += &stream.finish();
        assert_eq!(text, String::from_utf8_lossy(bytes));
    }
}

/// A tokenizer in which every byte is one token, and the id of each byte.
fn byte_ids() -> (Tokenizer, impl Fn(u8) -> u32) {
    let tokenizer = Tokenizer::from_metadata(&text_support::bytes_only()).unwrap();
    let lookup = tokenizer.clone();
    (tokenizer, move |byte| (0..256).find(|&id| lookup.token_bytes(id).unwrap() == [byte]).unwrap())
}

#[test]
fn fault_089_no_added_id_comes_out_of_text() {
    let mut text = String::new();
    for (token, _) in full().added_tokens() {
        text += token;
        text += " x";
        text += token;
    }
    let ids = encode(full(), &text, SpecialTokens::AsText);
    assert!(ids.iter().all(|&id| full().kind(id) == Some(TokenKind::Normal)));
    assert_eq!(full().decode_text(&ids, SkipSpecial::Yes).unwrap(), text);
}

#[test]
fn ids_outside_the_vocabulary_are_errors() {
    let error = full().decode(&[1, 248_320], SkipSpecial::No).unwrap_err().to_string();
    assert!(error.contains("248320"), "{error}");
    let mut stream = full().stream(SkipSpecial::No);
    assert!(stream.push(u32::MAX).is_err());
    assert_eq!(stream.push(64).unwrap(), "a");
    assert_eq!(full().decode_text(&[248_100], SkipSpecial::No).unwrap(), "");
}
