//! Running the real program in a folder of its own.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gguf::{Gguf, Metadata, TensorType, Writer};
use serde_json::Value;

/// What a run of the program left behind.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn new(output: Output) -> Run {
        Run {
            code: output.status.code().unwrap(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap()
    }

    /// Asserts success; returns standard output as text.
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.text()
    }

    /// Asserts a failure that is explained in one line.
    pub(crate) fn fails(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{} {}", self.text(), self.stderr);
        assert!(self.stderr.starts_with("tuff: "), "{}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        &self.stderr
    }
}

/// The program with none of the user's settings.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tuff"));
    command.current_dir(root());
    for variable in ["TUFF_CACHE", "TUFF_MODEL", "TUFF_LOG", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program in the project's folder, where it finds the sample model.
pub(crate) fn tuff<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    Run::new(command().args(args).output().unwrap())
}

/// As [`tuff`], with something on standard input.
pub(crate) fn tuff_with<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    stdin: impl AsRef<[u8]>,
) -> Run {
    let mut child = command().args(args).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // A program that refuses its arguments does not read.
    let _ = pipe.write_all(stdin.as_ref());
    drop(pipe);
    Run::new(child.wait_with_output().unwrap())
}

/// The arguments of a line without quotes.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

pub(crate) fn sample() -> PathBuf {
    root().join("models/sample/sample.gguf")
}

/// A JSON fixture.
pub(crate) fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap()
}

/// Little-endian floats.
pub(crate) fn read_f32(path: impl AsRef<Path>) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.len().is_multiple_of(4));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Ids with commas, of a JSON array.
pub(crate) fn id_list(array: &Value) -> String {
    let ids = array.as_array().unwrap().iter().map(|id| id.to_string());
    ids.collect::<Vec<_>>().join(",")
}

/// Writes a copy of a model without the tensors of these names; with changed metadata.
pub(crate) fn copy_without(from: &Path, without: &[&str], metadata: Metadata, to: &Path) {
    let file = Gguf::open(from).unwrap();
    let contents: Vec<_> = file.tensors().iter().map(|info| file.bytes(info)).collect();
    let mut writer = Writer::new(metadata);
    for (info, bytes) in file.tensors().iter().zip(&contents) {
        if !without.contains(&info.name.as_str()) {
            writer.tensor(info.name.clone(), &info.dims, info.ty, &bytes[..]);
        }
    }
    writer.write(to).unwrap();
}

/// The metadata of a model file.
pub(crate) fn metadata(path: &Path) -> Metadata {
    Gguf::open(path).unwrap().metadata().clone()
}

/// Writes a file that holds only metadata.
pub(crate) fn write_metadata(metadata: Metadata, to: &Path) {
    Writer::new(metadata).write(to).unwrap();
}

/// Writes a file with one tensor.
pub(crate) fn write_tensor(name: &str, dims: &[u64], ty: TensorType, bytes: Vec<u8>, to: &Path) {
    let mut writer = Writer::new(Metadata::new());
    writer.tensor(name, dims, ty, bytes);
    writer.write(to).unwrap();
}

/// The fields of a JSON object that a page of the manual documents after `heading`, sorted, `a.b`
/// for `b` inside `a`: what the table names in the first column, and what has a dot in the second.
pub(crate) fn documented(page: &str, heading: &str) -> Vec<String> {
    let manual = std::fs::read_to_string(root().join(page)).unwrap();
    let (_, section) = manual.split_once(&format!("\n{heading}\n")).unwrap();
    let (_, table) = section.split_once("| field |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut fields = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let quoted = |cell: usize| cells[cell].split('`').skip(1).step_by(2).map(str::to_owned);
        fields.extend(quoted(1));
        fields.extend(quoted(2).filter(|word| word.contains('.')));
    }
    fields.sort();
    fields
}

/// Every path of fields in a JSON value, sorted; elements of an array are all as its first.
pub(crate) fn paths(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    add_paths(value, "", &mut all);
    all.sort();
    all
}

fn add_paths(value: &Value, before: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let path =
                    if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
                add_paths(inner, &path, all);
                all.push(path);
            }
        }
        Value::Array(items) => {
            items.first().into_iter().for_each(|item| add_paths(item, before, all));
        }
        _ => {}
    }
}
