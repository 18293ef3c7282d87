//! Clients that leave, at every stage, and those that stay beside them.

use crate::common::*;
use serde_json::{Value, json};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

fn one_slot() -> Server {
    let mut setup = Setup { slots: 1, ..Setup::default() };
    // Drafts in every round: a cancel may come in the middle of one.
    setup.config.drafts = "mtp:3".parse().unwrap();
    start(setup)
}

/// A request that goes on until the context is full.
fn endless(more: &Value) -> Value {
    let mut body = chat("Go on and on.", json!({"repetition_stop": 0}));
    body["logit_bias"] = json!({"300": 100});
    body["temperature"] = 0.into();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn is_idle(status: &Value) -> bool {
    status["queue"] == json!({"live": 0, "waiting": 0})
}

fn generated(status: &Value) -> u64 {
    status["totals"]["tokens_generated"].as_u64().unwrap()
}

#[test]
fn fault_101_and_103_a_client_that_is_gone_frees_its_slot() {
    let server = one_slot();
    for stream in [true, false] {
        let before = server.status();
        let mut connection = server.open(CHAT, &endless(&json!({"stream": stream})));
        if stream {
            read_until(&mut connection, "reasoning_content");
        }
        server.wait("it runs", |now| generated(now) > generated(&before) + 1);
        drop(connection);
        let after = server.wait("the slot is free", is_idle);
        // Long before it would have ended by itself.
        assert!(
            generated(&after) - generated(&before) < CONTEXT as u64 / 2,
            "stream {stream}: {after}"
        );
        // Nothing goes on behind it.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(generated(&server.status()), generated(&after));
    }
    assert_eq!(
        server.whole(CHAT, &chat("Hello!", json!({"max_tokens": 3})))["object"],
        "chat.completion"
    );
}

#[test]
fn fault_104_one_who_leaves_the_queue_disturbs_nobody() {
    let server = one_slot();
    let body = endless(&json!({"stream": true, "max_tokens": 200}));
    let expected = joined_chat(&server.events(CHAT, &body));
    let active = std::thread::scope(|scope| {
        let before = server.status();
        let active = scope.spawn(|| joined_chat(&server.events(CHAT, &body)));
        server.wait("A is live", |now| generated(now) > generated(&before));
        let queued = server.open(CHAT, &endless(&json!({})));
        server.wait("B waits", |now| now["queue"]["waiting"] == 1);
        drop(queued);
        server.wait("B is gone, A is not", |now| now["queue"] == json!({"live": 1, "waiting": 0}));
        active.join().unwrap()
    });
    assert_eq!(comparable(active), comparable(expected));
}

#[test]
fn a_request_of_several_answers_goes_as_a_whole() {
    let server = start(Setup { slots: 2, ..Setup::default() });
    let mut connection = server.open(CHAT, &endless(&json!({"stream": true, "n": 4})));
    read_until(&mut connection, "reasoning_content");
    server.wait("two wait", |now| now["queue"] == json!({"live": 2, "waiting": 2}));
    drop(connection);
    server.wait("all are gone", is_idle);
}

#[test]
fn one_who_does_not_read_stalls_nobody() {
    let server = start(Setup { slots: 2, ..Setup::default() });
    let silent = server.open(CHAT, &endless(&json!({"stream": true})));
    server.wait("it runs", |now| now["queue"]["live"] == 1);
    for _ in 0..3 {
        server.whole(CHAT, &chat("Hello!", json!({"max_tokens": 3})));
    }
    server.wait("it ends unread", is_idle);
    drop(silent);
}
