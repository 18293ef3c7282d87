//! A small vocabulary for tests.

use gguf::Metadata;
use model::tokenizer::Tokenizer;

/// Control tokens, user-defined tokens and single bytes.
pub(super) const BASIC: usize = 2 + 1 + 256;

const WORDS: [&[u8]; 8] = [
    b" the",
    b"->",
    " \u{43d}\u{430}".as_bytes(),
    " caf\u{e9}".as_bytes(),
    "\u{4f60}\u{597d}".as_bytes(),
    // The first two bytes of U+4F60.
    b"\xE4\xBD",
    "x \u{43d}".as_bytes(),
    b" and",
];

/// The 256 bytes, the words, two control tokens, a user-defined one, and an unused id.
pub(super) fn tokenizer() -> Tokenizer {
    let mut tokens: Vec<String> = (0..=255).map(|byte| spelled(byte).to_string()).collect();
    let mut types = vec![1; 256 + WORDS.len()];
    tokens.extend(WORDS.map(|word| word.iter().map(|&byte| spelled(byte)).collect()));
    for (token, kind) in [("<|im_end|>", 3), ("<|x|>", 3), ("<think>", 4), ("[PAD]", 5)] {
        tokens.push(token.to_owned());
        types.push(kind);
    }
    let mut metadata = Metadata::new();
    metadata.insert("tokenizer.ggml.model", "gpt2");
    metadata.insert("tokenizer.ggml.pre", "qwen35");
    metadata.insert("tokenizer.ggml.tokens", tokens);
    metadata.insert("tokenizer.ggml.token_type", types);
    metadata.insert("tokenizer.ggml.merges", Vec::<String>::new());
    Tokenizer::from_metadata(&metadata).unwrap()
}

/// A byte in the alphabet of byte-level BPE.
fn spelled(byte: u8) -> char {
    let visible = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let code = match visible(byte) {
        true => u32::from(byte),
        false => 256 + (0..byte).filter(|&b| !visible(b)).count() as u32,
    };
    char::from_u32(code).unwrap()
}
