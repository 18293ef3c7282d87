//! `tuff serve` as a user starts it: address, settings from a file, refusals, and its end.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that is killed when it is dropped.
struct Served {
    child: Child,
    address: String,
    /// The line with the address.
    line: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tuff"));
    command.arg("serve").args(arguments).env_remove("TUFF_API_KEY").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

fn start(mut command: Command) -> Served {
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap_or_else(|| panic!("{line:?}")).1;
    let address = address.split_whitespace().next().unwrap().to_owned();
    Served { child, address, line }
}

/// The whole response to a request without keep-alive.
fn ask(served: &Served, method: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(&served.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}content-length: \
         {length}\r\n\r\n{body}",
        served.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn a_server_says_where_it_is_and_answers_there() {
    let served = start(command(&["--port", "0", "--slots", "2", "--ctx", "256"]));
    assert!(served.line.contains("serving sample, 2 slots of 256 tokens"), "{}", served.line);
    assert!(!served.address.ends_with(":0") && served.address.starts_with("127.0.0.1:"));
    let body = r#"{"prompt": "Once upon a time", "max_tokens": 4}"#;
    let response = ask(&served, "POST", "/v1/completions", "", body);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("\"completion_tokens\":4"), "{response}");
}

#[test]
fn settings_come_from_a_file_and_the_command_line_wins() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "# keys\nsecret\n").unwrap();
    let path = folder.path().join("server.toml");
    let text = format!(
        "port = 0\nslots = 3\nctx = 300\nmodel-name = \"mine\"\nalias = [\"a\", \"b\"]\n\
         api-key-file = {:?}\n",
        keys.display().to_string()
    );
    std::fs::write(&path, text).unwrap();
    let config = path.to_str().unwrap();
    let served = start(command(&["--config", config, "--slots", "1"]));
    assert!(served.line.contains("serving mine, 1 slot of 300 tokens"), "{}", served.line);
    let response = ask(&served, "GET", "/v1/models/b", "", "");
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    let key = "authorization: Bearer secret\r\n";
    let response = ask(&served, "GET", "/v1/models/b", key, "");
    assert!(response.contains("\"id\":\"mine\""), "{response}");

    for (text, told) in [
        ("prot = 0", "there is no option \"prot\""),
        ("port = true", "port must be a text or a number"),
        ("port = 0\nport", "line 2"),
        ("config = \"x\"", "there is no option \"config\""),
        ("port = 99999", "server.toml: invalid value '99999' for '--port <PORT>'"),
        ("max-body = \"0\"", "server.toml: invalid value '0' for '--max-body <SIZE>'"),
    ] {
        std::fs::write(&path, text).unwrap();
        let output = command(&["--config", config]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{error}");
        assert!(error.contains(told), "{text}: {error}");
    }
}

#[test]
fn what_cannot_be_served_is_told_before_the_model_is_loaded() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (arguments, code, told) in [
        (vec!["--host", "0.0.0.0", "--port", "0"], 4, "--insecure-public"),
        (vec!["--host", "no such host"], 4, "--host"),
        (vec!["--api-key-file", empty], 4, "holds no key"),
        (vec!["--api-key-file", "/no/such/file"], 1, "cannot read"),
        (vec!["--slots", "0"], 2, "--slots"),
        (vec!["--max-body", "0"], 2, "--max-body"),
        (vec!["--cors-origin", "example.org"], 2, "https://example.org"),
        (vec!["--cors-origin", "https://example.org/x"], 2, "without a path"),
        (vec!["--host", "192.0.2.1", "--insecure-public", "-q"], 1, "cannot listen on 192.0.2.1"),
    ] {
        let output = command(&arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn a_key_in_the_environment_is_taken_as_it_is() {
    let mut with_key = command(&["--port", "0", "--slots", "1", "--ctx", "256"]);
    with_key.env("TUFF_API_KEY", "#secret");
    let served = start(with_key);
    let response = ask(&served, "GET", "/v1/models", "", "");
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    let key = "authorization: Bearer #secret\r\n";
    let response = ask(&served, "GET", "/v1/models", key, "");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    for key in ["", " ", "a\nb"] {
        let output = command(&["--port", "0"]).env("TUFF_API_KEY", key).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{key:?}: {error}");
        assert!(error.contains("TUFF_API_KEY"), "{key:?}: {error}");
    }
}

#[cfg(unix)]
#[test]
fn fault_110_a_signal_ends_the_server() {
    for signal in ["-TERM", "-INT"] {
        let mut served = start(command(&["--port", "0", "--slots", "1", "--ctx", "256"]));
        let killed = Command::new("kill").args([signal, &served.child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        assert!(served.child.wait().unwrap().success(), "{signal}");
    }
}
