//! Fetching from a server that plays the hub, and plays it badly.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod server;

use hub::{Error, Fetched, Folder, ModelName, Remote, fetch};
use server::{Fault, Hub, sha256};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn name(text: &str) -> ModelName {
    text.parse().unwrap()
}

fn pull(hub: &Hub, folder: &Path, model: &str) -> Result<Fetched, Error> {
    pull_as(hub, folder, model, None)
}

fn pull_as(hub: &Hub, folder: &Path, model: &str, token: Option<&str>) -> Result<Fetched, Error> {
    let remote = Remote::new(Some(&hub.endpoint()), token.map(str::to_owned));
    fetch(&remote, &Folder::new(folder), &name(model), &mut |_| ControlFlow::Continue(()))
}

#[test]
fn a_model_is_fetched_once_and_found_again() {
    let (content, cache) = (bytes(3_000_000), tempfile::tempdir().unwrap());
    let hub = Hub::start().with("m-Q4_K_M.gguf", &content).with("m-Q8_0.gguf", b"other");
    let found = pull(&hub, cache.path(), "org/m:Q4_K_M").unwrap();
    assert_eq!(fs::read(&found.path).unwrap(), content);
    assert_eq!((found.bytes, found.transferred), (3_000_000, 3_000_000));
    let again = pull(&hub, cache.path(), "org/m:q4_k_m").unwrap();
    assert_eq!((&again.path, again.transferred), (&found.path, 0));
    let folder = Folder::new(cache.path());
    assert_eq!(folder.find(&name("org/m:Q4_K_M")).unwrap(), found.path);
    assert_eq!(folder.find(&name("org/m")).unwrap(), found.path);
    for absent in ["org/m:Q8_0", "org/n"] {
        let error = folder.find(&name(absent)).unwrap_err();
        assert!(error.to_string().contains(&format!("tuff pull {absent}")), "{error}");
    }
    let error = pull(&hub, cache.path(), "org/m").unwrap_err().to_string();
    assert!(error.contains("m-Q4_K_M, m-Q8_0"), "{error}");
    // The layout is that of other programs.
    let repo = cache.path().join("models--org--m");
    assert_eq!(fs::read(repo.join("blobs").join(sha256(&content))).unwrap(), content);
    let commit = fs::read_to_string(repo.join("refs/main")).unwrap();
    assert_eq!(found.path, repo.join("snapshots").join(commit).join("m-Q4_K_M.gguf"));
}

#[test]
fn a_split_model_comes_with_all_of_its_parts() {
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::start()
        .with("BF16/m-BF16-00002-of-00002.gguf", b"two")
        .with("BF16/m-BF16-00001-of-00002.gguf", b"one");
    let found = pull(&hub, cache.path(), "org/m").unwrap();
    assert_eq!(fs::read(&found.path).unwrap(), b"one");
    let second = found.path.with_file_name("m-BF16-00002-of-00002.gguf");
    assert_eq!(fs::read(second).unwrap(), b"two");
}

#[test]
fn a_transfer_that_broke_off_goes_on_where_it_was() {
    let (content, cache) = (bytes(5_000_000), tempfile::tempdir().unwrap());
    // Within one call: the connection is cut several times.
    let hub =
        Hub::start().with("m.gguf", &content).failing(Fault::Cut { after: 900_000, times: 4 });
    let found = pull(&hub, cache.path(), "org/m").unwrap();
    assert_eq!(fs::read(&found.path).unwrap(), content);
    assert_eq!(found.transferred, 5_000_000, "no byte came twice");
    assert!(hub.ranges().iter().filter(|from| **from > 0).count() == 4, "{:?}", hub.ranges());

    // In another call: the user broke it off.
    let cache = tempfile::tempdir().unwrap();
    let remote = Remote::new(Some(&hub.endpoint()), None);
    let mut stop = |progress: hub::Progress<'_>| match progress.done > 2_000_000 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let broken = fetch(&remote, &Folder::new(cache.path()), &name("org/m"), &mut stop);
    assert!(matches!(broken, Err(Error::Interrupted)));
    let found = pull(&hub, cache.path(), "org/m").unwrap();
    assert!(found.transferred < 3_000_000, "{}", found.transferred);
    assert_eq!(fs::read(&found.path).unwrap(), content);
}

#[test]
fn servers_that_know_no_ranges_send_it_all_again() {
    let (content, cache) = (bytes(2_000_000), tempfile::tempdir().unwrap());
    let hub =
        Hub::start().with("m.gguf", &content).failing(Fault::CutAndNoRanges { after: 700_000 });
    let found = pull(&hub, cache.path(), "org/m").unwrap();
    assert_eq!(fs::read(&found.path).unwrap(), content);
    assert!(found.transferred > 2_000_000);
}

#[test]
fn what_comes_is_held_against_the_checksum() {
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::start().with("m.gguf", &bytes(100_000)).failing(Fault::Flip { times: 1 });
    let error = pull(&hub, cache.path(), "org/m").unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    assert!(Folder::new(cache.path()).find(&name("org/m")).is_err());
    // What was wrong is gone, so that the next time is a new one.
    assert_eq!(fs::read(pull(&hub, cache.path(), "org/m").unwrap().path).unwrap(), bytes(100_000));

    // A part that is not the beginning of the file.
    let cache = tempfile::tempdir().unwrap();
    let blobs = cache.path().join("models--org--m/blobs");
    fs::create_dir_all(&blobs).unwrap();
    let part = blobs.join(format!("{}.part", sha256(&bytes(100_000))));
    fs::write(&part, vec![0; 5000]).unwrap();
    assert!(matches!(pull(&hub, cache.path(), "org/m"), Err(Error::Checksum { .. })));
    fs::write(&part, vec![0; 200_000]).unwrap();
    assert_eq!(pull(&hub, cache.path(), "org/m").unwrap().transferred, 100_000);
}

#[test]
fn more_than_the_size_is_not_written() {
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::start().with("m.gguf", &bytes(100_000)).failing(Fault::Longer);
    let error = pull(&hub, cache.path(), "org/m").unwrap_err();
    assert!(error.to_string().contains("more than the file's size"), "{error}");
}

#[test]
fn tokens_open_doors_and_are_not_told_to_others() {
    let cache = tempfile::tempdir().unwrap();
    let files = Hub::start().with("m.gguf", b"content");
    let hub =
        Hub::start().with("m.gguf", b"content").wanting("secret").elsewhere(&files.endpoint());
    let error = pull(&hub, cache.path(), "org/m").unwrap_err();
    assert!(error.to_string().contains("HF_TOKEN"), "{error}");
    let found = pull_as(&hub, cache.path(), "org/m", Some("secret")).unwrap();
    assert_eq!(fs::read(found.path).unwrap(), b"content");
    assert!(hub.saw("Bearer secret") && !files.saw("secret"));
}

#[test]
fn absent_things_are_told() {
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::start().with("m.gguf", b"x").failing(Fault::Missing);
    let error = pull(&hub, cache.path(), "org/m").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let error = pull(&hub, cache.path(), "org/none").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let gone = { Hub::start().endpoint() };
    let remote = Remote::new(Some(&gone), None);
    assert!(matches!(remote.list(&name("org/m")), Err(Error::Transport { .. })));
    let hub = Hub::start().with_size("m.gguf", u64::MAX / 2);
    let error = pull(&hub, cache.path(), "org/m").unwrap_err();
    assert!(matches!(error, Error::Space { .. }), "{error}");
}

#[test]
fn no_path_of_a_server_leads_out_of_the_cache() {
    for path in [
        "../m.gguf",
        "a/../../m.gguf",
        "/etc/m.gguf",
        "..\\m.gguf",
        "C:\\m.gguf",
        "a//m.gguf",
        "./m.gguf",
        "a/\u{0}m.gguf",
        "a/\n.gguf",
        "C:m.gguf",
    ] {
        let cache = tempfile::tempdir().unwrap();
        let hub = Hub::start().with(path, b"evil");
        assert!(
            matches!(pull(&hub, cache.path(), "org/m"), Err(Error::NoModel { .. })),
            "{path:?}"
        );
    }
    for list in [
        r#"{"sha": "../../x", "siblings": []}"#,
        r#"{"siblings": []}"#,
        r#"{"sha": "0123456789012345678901234567890123456789"}"#,
        "[",
        "null",
        "",
    ] {
        let cache = tempfile::tempdir().unwrap();
        let hub = Hub::start().listing(list);
        assert!(matches!(pull(&hub, cache.path(), "org/m"), Err(Error::Answer { .. })), "{list}");
    }
    let cache = tempfile::tempdir().unwrap();
    let file =
        r#"{"rfilename": "m.gguf", "size": 1, "lfs": {"sha256": "../../../../x", "size": 1}}"#;
    let commit = "0123456789012345678901234567890123456789";
    let hub = Hub::start().listing(&format!(r#"{{"sha": "{commit}", "siblings": [{file}]}}"#));
    assert!(matches!(pull(&hub, cache.path(), "org/m"), Err(Error::NoChecksum { .. })));
}

/// `printf hello | git hash-object --stdin` says so.
const HELLO: &str = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";

#[test]
fn small_files_are_held_against_their_name_in_git() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let listing = |more: &str| {
        let file = format!(r#"{{"rfilename": "m.gguf", "size": 5{more}}}"#);
        format!(r#"{{"sha": "{commit}", "siblings": [{file}]}}"#)
    };
    let blob = format!(r#", "blobId": "{HELLO}""#);
    let cache = tempfile::tempdir().unwrap();
    let evil = Hub::start().with("m.gguf", b"hellO").listing(&listing(&blob));
    let error = pull(&evil, cache.path(), "org/m").unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    let good = Hub::start().with("m.gguf", b"hello").listing(&listing(&blob));
    assert_eq!(fs::read(pull(&good, cache.path(), "org/m").unwrap().path).unwrap(), b"hello");
    // Neither nothing, nor the name of the note that git has of a large file, nor half a name.
    let note = format!(r#"{blob}, "lfs": {{"size": 5}}"#);
    for more in ["", note.as_str(), r#", "blobId": "b6fc""#] {
        let cache = tempfile::tempdir().unwrap();
        let hub = Hub::start().with("m.gguf", b"hello").listing(&listing(more));
        let error = pull(&hub, cache.path(), "org/m").unwrap_err();
        assert!(matches!(error, Error::NoChecksum { .. }), "{more}: {error}");
    }
}

#[test]
fn a_server_that_stalls_is_asked_again_and_does_not_keep_anybody_waiting() {
    let (content, cache) = (bytes(2_000_000), tempfile::tempdir().unwrap());
    let stall = |times| Fault::Stall { after: 700_000, times };
    let hub = Hub::start().with("m.gguf", &content).failing(stall(2));
    let idle = Duration::from_millis(300);
    let remote = Remote::with_idle(Some(&hub.endpoint()), None, idle);
    let folder = Folder::new(cache.path());
    let mut on = |_: hub::Progress<'_>| ControlFlow::Continue(());
    let found = fetch(&remote, &folder, &name("org/m"), &mut on).unwrap();
    assert_eq!(fs::read(&found.path).unwrap(), content);
    assert_eq!(found.transferred, 2_000_000, "no byte came twice");

    // One that only stalls is given up, and whoever wants to stop is heard long before that.
    let cache = tempfile::tempdir().unwrap();
    let folder = Folder::new(cache.path());
    let hub = Hub::start().with("m.gguf", &content).failing(stall(usize::MAX));
    let remote = Remote::new(Some(&hub.endpoint()), None);
    let started = Instant::now();
    let mut last = (0, Instant::now());
    let mut stop = |progress: hub::Progress<'_>| {
        if progress.done > last.0 {
            last = (progress.done, Instant::now());
        }
        let waited = last.0 > 0 && last.1.elapsed() > Duration::from_millis(500);
        if waited { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let broken = fetch(&remote, &folder, &name("org/m"), &mut stop);
    assert!(matches!(broken, Err(Error::Interrupted)), "{broken:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());

    let hub = Hub::start().with("m.gguf", &content).failing(Fault::Stall { after: 0, times: 99 });
    let remote = Remote::with_idle(Some(&hub.endpoint()), None, Duration::from_millis(50));
    let given_up = fetch(&remote, &folder, &name("org/m"), &mut on);
    assert!(matches!(given_up, Err(Error::Transport { .. })), "{given_up:?}");
}

#[test]
fn two_at_once_do_not_write_the_same_file() {
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::start().with("m.gguf", &bytes(3_000_000));
    let remote = Remote::new(Some(&hub.endpoint()), None);
    let mut other = None;
    let mut watch = |progress: hub::Progress<'_>| {
        if other.is_none() && progress.done < 3_000_000 {
            other = Some(pull(&hub, cache.path(), "org/m"));
        }
        ControlFlow::Continue(())
    };
    fetch(&remote, &Folder::new(cache.path()), &name("org/m"), &mut watch).unwrap();
    assert!(matches!(other, Some(Err(Error::Busy { .. }))), "{other:?}");
}
