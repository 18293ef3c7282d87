//! A model that gives logits which are no numbers: an error for whoever meets them, and for nobody
//! else.

use crate::common::*;
use gguf::Gguf;
use serde_json::json;

const PATH: &str = "/v1/completions";

/// The sample model with a scale in the embedding of `token` that is no number.
fn damaged(token: u64) -> tempfile::TempPath {
    let file = Gguf::open(sample()).unwrap();
    let tensor = file.tensor("token_embd.weight").unwrap();
    let at = file.file_offset(tensor) + token * tensor.row_bytes();
    let mut bytes = std::fs::read(sample()).unwrap();
    let at = usize::try_from(at).unwrap();
    // The first two bytes of a Q5_K block are its scale in f16.
    bytes[at..at + 2].copy_from_slice(&[0x00, 0x7e]);
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn fault_117_logits_that_are_no_numbers_end_their_request_and_no_other() {
    let token = shared().whole("/tokenize", &json!({"content": " dragon"}))["tokens"][0].clone();
    let path = damaged(token.as_u64().unwrap());
    let server = start(Setup { file: path.to_path_buf(), ..Setup::default() });
    let good = completion("Once upon a time", json!({"max_tokens": 40, "temperature": 0}));
    let bad = json!({"prompt": [token], "max_tokens": 5});
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| server.whole(PATH, &good));
        let error = server.post(PATH, &bad).error(500);
        assert_eq!(error["code"], "non_finite_logits");
        assert!(error["message"].as_str().unwrap().contains("non-finite logits"), "{error}");
        // In a stream the error is the last event.
        let mut streamed = bad.clone();
        streamed["stream"] = true.into();
        let reply = server.post(PATH, &streamed);
        let events = data(&reply.text);
        let last: serde_json::Value = serde_json::from_str(events.last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], "non_finite_logits", "{reply:?}");
        let beside = beside.join().unwrap();
        let alone = shared().whole(PATH, &good);
        assert_eq!(beside["choices"], alone["choices"]);
    });
    assert_eq!(server.whole(PATH, &good)["object"], "text_completion");
}
