//! `tuff draft-vocab build` and `tuff inspect --draft-vocab`.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::*;
use tempfile::TempDir;

const TEXT: &str = "Once upon a time there was a little girl. Once upon a time there was a fox.";

/// A folder for a list, and texts in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    fn list(&self) -> String {
        self.path("draft.ids").to_str().unwrap().to_owned()
    }

    fn build(&self, arguments: &[&str]) -> Run {
        let (list, first) = (self.list(), ["draft-vocab", "build", "-o"]);
        tuff(first.into_iter().chain([list.as_str()]).chain(arguments.iter().copied()))
    }

    fn inspect(&self, arguments: &[&str]) -> Run {
        let (list, first) = (self.list(), ["inspect", "--draft-vocab"]);
        tuff(first.into_iter().chain([list.as_str()]).chain(arguments.iter().copied()))
    }
}

fn ids(path: impl AsRef<Path>) -> Vec<i32> {
    let bytes = fs::read(path).unwrap();
    assert!(bytes.len().is_multiple_of(4));
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn a_corpus_gives_a_list_that_covers_it() {
    let place = Place::new();
    let corpus = place.text("corpus.txt", TEXT);
    let more = place.text("more.txt", "A fox<|im_end|>");
    let run = place.build(&["--corpus", &corpus, &more]);
    run.ok();
    assert!(run.stderr.contains("100.0 % of the corpus"), "{}", run.stderr);
    let list = ids(place.list());
    assert!(list.is_sorted() && list.len() > 256);
    let tokens = tuff(["tokenize", "--json", TEXT]).json();
    let has = |id: &serde_json::Value| list.contains(&(id.as_i64().unwrap() as i32));
    assert!(tokens.as_array().unwrap().iter().all(has));

    let report = place.inspect(&["--text", &corpus]).ok().to_owned();
    assert!(report.contains("100.0 % in the draft vocabulary\n"), "{report}");
    assert!(!report.contains("missing"), "{report}");
    let bytes = report.lines().find(|line| line.contains("single bytes")).unwrap();
    assert_eq!(words(bytes)[2], "256", "{report}");
    assert_eq!(words(bytes).last(), Some(&"256"), "{report}");
    assert!(report.contains("latin") && report.contains("control"), "{report}");
}

#[test]
fn what_a_list_lacks_of_a_text_is_shown() {
    let place = Place::new();
    let corpus = place.text("corpus.txt", "Once");
    place.build(&["--corpus", &corpus, "--quiet"]).ok();
    let text = place.text("text.txt", TEXT);
    let report = place.inspect(&["--text", &text]).ok().to_owned();
    assert!(report.contains("the most frequent:\n"), "{report}");
    let missing = report.lines().find(|line| line.contains("\" there\"")).unwrap();
    assert_eq!(words(missing)[1], "2", "{report}");
    let piped = tuff_with(["inspect", "--draft-vocab", &place.list(), "--text", "-"], TEXT);
    let after_name = |report: &str| report.rsplit_once(" tokens, ").unwrap().1.to_owned();
    assert_eq!(after_name(piped.ok()), after_name(&report));
}

#[test]
fn scripts_choose_and_size_limits() {
    let place = Place::new();
    place.build(&["--scripts", "latin"]).ok();
    let all = ids(place.list());
    let run = place.build(&["--scripts", "Latin", "--size", "1000"]);
    assert!(run.stderr.contains("1,000 ids, 12.2 % of the vocabulary of 8,192"), "{}", run.stderr);
    let some = ids(place.list());
    assert_eq!(some.len(), 1000);
    assert!(some.iter().all(|id| all.contains(id)) && all.len() > 1000);

    // The same size from a corpus first, then filled from the script.
    let corpus = place.text("corpus.txt", TEXT);
    place.build(&["--corpus", &corpus, "--scripts", "latin", "--size", "1000"]).ok();
    assert_eq!(ids(place.list()).len(), 1000);
    let report = place.inspect(&["--text", &corpus]).ok().to_owned();
    assert!(report.contains("100.0 % in the draft vocabulary\n"), "{report}");
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 2, "no temporary file stays");
}

#[test]
fn a_recipe_that_gives_no_list_is_refused() {
    let place = Place::new();
    let empty = place.text("empty.txt", "");
    assert!(place.build(&["--corpus", &empty]).fails(4).contains("nothing to choose"));
    let small = place.build(&["--scripts", "latin", "--size", "256"]);
    assert!(small.fails(4).contains("raise --size"), "{}", small.stderr);
    place.build(&["--corpus", "/nonexistent/text"]).fails(1);
    assert!(!place.path("draft.ids").exists());
    let unknown = place.build(&["--scripts", "klingon"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("no script \"klingon\""), "{}", unknown.stderr);
}

#[test]
fn files_that_are_no_list_are_refused() {
    let place = Place::new();
    let words = |ids: &[i32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    let cases = [
        (Vec::new(), "is empty"),
        (vec![0; 6], "multiple of 4"),
        (words(&[1, 8192]), "entry 2"),
        (words(&[-1]), "is -1"),
        (vec![0; 4 * 8193], "8193 ids or more"),
        (fs::read(sample()).unwrap(), "8193 ids or more"),
    ];
    for (bytes, part) in cases {
        fs::write(place.path("draft.ids"), bytes).unwrap();
        let run = place.inspect(&[]);
        assert!(run.fails(4).contains(part), "{part}: {}", run.stderr);
        assert!(run.stderr.contains("draft.ids: "), "{}", run.stderr);
    }
    fs::remove_file(place.path("draft.ids")).unwrap();
    place.inspect(&[]).fails(1);
}

#[test]
fn metadata_alone_is_enough() {
    let place = Place::new();
    let file = place.path("vocabulary.gguf");
    write_metadata(metadata(&sample()), &file);
    let file = file.to_str().unwrap();
    place.build(&["-m", file, "--scripts", "latin"]).ok();
    place.inspect(&["-m", file]).ok();
}
