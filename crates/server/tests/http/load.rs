//! Many clients at once: some leave, some send nonsense, and the others get what they get alone.

use crate::common::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

const PATH: &str = "/v1/completions";
const CLIENTS: usize = 48;

fn body(number: usize) -> Value {
    let temperature = [0.0, 0.8][number % 2];
    let text = ["Once upon a time", "The sea was", "Long ago there lived"][number % 3];
    completion(text, json!({"max_tokens": 12, "temperature": temperature, "seed": number % 5}))
}

#[test]
fn fault_142_a_crowd_changes_nobodys_answer_and_leaves_nothing_behind() {
    let server = start(Setup { slots: 3, queue: 12, ..Setup::default() });
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let client = &|number: usize| match number % 6 {
        0 => {
            let mut streamed = body(number);
            streamed["stream"] = true.into();
            drop(server.open(PATH, &streamed));
        }
        1 => drop(server.request("POST", PATH, &[], "{\"prompt\": [").error(400)),
        _ => {
            let reply = server.post(PATH, &body(number));
            if reply.status == 429 {
                assert!(reply.header("retry-after").is_some());
                refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            assert_eq!(reply.status, 200, "{reply:?}");
            let alone = shared().whole(PATH, &body(number));
            assert_eq!(reply.json()["choices"], alone["choices"], "client {number}");
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || client(number));
        }
    });
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    assert!(answered > 0 && answered + refused == CLIENTS / 6 * 4, "{answered} and {refused}");
    server.wait("all are gone", |now| now["queue"] == json!({"live": 0, "waiting": 0}));
    assert_eq!(server.whole(PATH, &body(0))["object"], "text_completion");
}
