//! Clients that leave, at every stage, and those that stay beside them.

use crate::common::*;
use serde_json::{Value, json};
use std::io::Write;
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

/// Only where the system tells the end of a connection apart from bytes that nobody has read.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn what_lies_behind_a_request_keeps_no_slot() {
    let server = one_slot();
    let behind: [&[u8]; 4] = [b"x", b"\r\n", b"GET /health HTTP/1.1\r\n", &[b'x'; 40_000]];
    for (number, bytes) in behind.into_iter().enumerate() {
        for late in [false, true] {
            let before = server.status();
            let mut connection = server.open(CHAT, &endless(&json!({})));
            if !late {
                connection.write_all(bytes).unwrap();
            }
            server.wait("it runs", |now| generated(now) > generated(&before) + 1);
            if late {
                // Some while it is answered, and some more behind those.
                connection.write_all(bytes).unwrap();
                server.wait("it goes on", |now| generated(now) > generated(&before) + 9);
                connection.write_all(bytes).unwrap();
            }
            drop(connection);
            let after = server.wait("the slot is free", is_idle);
            let generated = generated(&after) - generated(&before);
            assert!(generated < CONTEXT as u64 / 2, "{number}, late {late}: {after}");
        }
    }
    // One who waits for an answer gets it, whatever it sent behind the request.
    let mut connection = server.open(CHAT, &chat("Hello!", json!({"max_tokens": 3})));
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    connection.write_all(health.as_bytes()).unwrap();
    let both = read_until(&mut connection, "{\"status\":\"ok\"}");
    assert!(both.contains("chat.completion"), "{both}");
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
