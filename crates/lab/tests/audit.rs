//! The search for tiles never chooses one that gives wrong values, and what it found comes back
//! from a file that is whole, and from no other.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod toy;

use gguf::TensorType;
use kernels::moe::MoeChoice;
use kernels::tiles::{RowClass, Tile};
use kernels::{Activations, Error};
use lab::Projection;
use lab::audit::{Effort, Found, Gain, Products, Search, Store, StoreError, Subject, sweep};
use std::fs;
use std::time::Duration;
use toy::{Toy, Way};

fn subject(products: Products) -> Subject {
    Subject {
        roles: vec!["weights".to_owned()],
        uses: 1,
        products,
        ty: TensorType::Q8_0,
        n_in: 128,
        n_out: 70,
        activations: Activations::Int8,
    }
}

fn effort(search: Search) -> Effort {
    // Any difference is worth an entry: the test is about what must never be one.
    Effort { time: Duration::ZERO, cold_bytes: 0, share: 0.5, least: 0.0, search }
}

#[test]
fn a_wrong_tile_is_never_chosen_however_fast() {
    let experts = Products::Experts(Projection::GateUp, MoeChoice { experts: 8, used: 2 });
    let down = Products::Experts(Projection::Down, MoeChoice { experts: 8, used: 2 });
    for products in [Products::Matrix, experts, down] {
        for rows in [1, 4] {
            let mut toy = Toy::new(Way::Exact);
            let subject = subject(products);
            let found = sweep(&mut toy, &subject, rows, &effort(Search::On), &mut || true).unwrap();
            assert!(found.tile.iter().all(|(name, _)| name != "wrong"), "{found:?}");
            assert_eq!(found.tried, 2, "the harmless ones, and no wrong one");
            assert!(toy.tile().is_built_in(), "no tile stays forced");
        }
    }
}

#[test]
fn no_tile_is_tried_where_the_built_in_one_is_not_as_the_reference() {
    let subject = subject(Products::Matrix);
    let mut toy = Toy::new(Way::WrongValue);
    let found = sweep(&mut toy, &subject, 4, &effort(Search::On), &mut || true).unwrap();
    assert_eq!((found.tried, found.tile.len()), (0, 0));
    assert!(found.missed.unwrap().contains("gemv/Q8_0/128x70/T4/int8 on toy"));
    // Without a search nothing is held against it.
    let found = sweep(&mut toy, &subject, 4, &effort(Search::Off), &mut || true).unwrap();
    assert_eq!(found.missed, None);
}

#[test]
fn a_tile_that_the_driver_refuses_is_passed_over_and_a_lost_device_ends_the_search() {
    let subject = subject(Products::Matrix);
    let mut toy = Toy::new(Way::Refused);
    let found = sweep(&mut toy, &subject, 1, &effort(Search::On), &mut || true).unwrap();
    assert_eq!((found.tried, found.missed), (1, None));
    let mut toy = Toy::new(Way::Lost);
    let error = sweep(&mut toy, &subject, 1, &effort(Search::On), &mut || true).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(toy.tile().is_built_in(), "no tile stays forced");
}

#[test]
fn nothing_is_tried_without_a_search_or_without_time() {
    let subject = subject(Products::Matrix);
    let mut toy = Toy::new(Way::Exact);
    let found = sweep(&mut toy, &subject, 1, &effort(Search::Off), &mut || true).unwrap();
    assert_eq!((found.tried, found.tile.len(), found.ratio), (0, 0, 1.0));
    let found = sweep(&mut toy, &subject, 1, &effort(Search::On), &mut || false).unwrap();
    assert_eq!((found.tried, found.tile.len()), (0, 0));
    assert_eq!(found.shape, subject.shape().name());
}

fn found(rows: usize, tile: &[(&str, u32)]) -> Found {
    Found {
        shape: subject(Products::Matrix).shape().name(),
        rows,
        bytes: 1000,
        ops: 2000,
        built_in: 2e-3,
        best: 1e-3,
        ratio: 0.5,
        noise: 0.01,
        tile: tile.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        tried: 3,
        missed: None,
        time: 0.06,
    }
}

#[test]
fn entries_come_back_and_take_the_place_of_earlier_ones() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new/folder");
    let mut store = Store::load(&folder, "cpu a").unwrap();
    assert!(store.found().is_empty() && store.table().is_empty());
    store.put(found(1, &[("tasks", 4)])).unwrap();
    store.put(found(4, &[])).unwrap();
    store.put(found(1, &[("tasks", 8), ("panels", 2)])).unwrap();
    let again = Store::load(&folder, "cpu a").unwrap();
    assert_eq!(again.path(), store.path());
    assert_eq!(again.found(), store.found());
    assert_eq!(again.found().len(), 2);
    let shape = subject(Products::Matrix).shape();
    let entry = again.get(&shape.name(), 1).unwrap();
    assert_eq!(entry, &found(1, &[("tasks", 8), ("panels", 2)]));
    assert!(again.get(&shape.name(), 2).is_none());
    // Only what beats the built-in tile is in the table, once a whole window was seen to gain.
    assert!(again.table().is_empty() && again.full_table().len() == 1);
    store.put_gains(&[(1, Gain::Yes), (4, Gain::Yes), (8, Gain::No)]).unwrap();
    store.put_gains(&[(4, Gain::No)]).unwrap();
    let table = Store::load(&folder, "cpu a").unwrap().table();
    assert_eq!(table.len(), 1);
    let tile = Tile::new([("tasks", 8), ("panels", 2)]);
    assert_eq!(table.get(&shape, RowClass::of(1)), Some(&tile));
    assert_eq!(table.get(&shape, RowClass::of(4)), None);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing unfinished is left");
    // Other tiles have to show it anew.
    store.put(found(1, &[("tasks", 2)])).unwrap();
    assert!(store.table().is_empty());
}

#[test]
fn another_device_has_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::new(folder.path(), "cpu a");
    store.put(found(1, &[("tasks", 4)])).unwrap();
    // They differ in what a file name cannot hold.
    assert!(Store::load(folder.path(), "cpu/a").unwrap().found().is_empty());
    let other = Store::path_in(folder.path(), "cpu b");
    fs::copy(store.path(), &other).unwrap();
    let error = Store::load(folder.path(), "cpu b").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"cpu a\"") && text.contains(&other.display().to_string()), "{text}");
}

#[test]
fn a_damaged_file_and_one_of_another_version_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::new(folder.path(), "cpu a");
    store.put(found(1, &[("tasks", 4)])).unwrap();
    let text = fs::read_to_string(store.path()).unwrap();
    let unusable = |bytes: &[u8]| {
        fs::write(store.path(), bytes).unwrap();
        let error = Store::load(folder.path(), "cpu a").unwrap_err();
        let StoreError::Unusable { why, .. } = error else { panic!("{error}") };
        why
    };
    assert!(!unusable(&text.as_bytes()[..text.len() / 2]).is_empty());
    assert!(!unusable(b"").is_empty());
    assert!(!unusable(text.replace("\"rows\": 1", "\"rows\": -1").as_bytes()).is_empty());
    let other = text.replacen("\"version\": 3", "\"version\": 999", 1);
    assert!(other != text && unusable(other.as_bytes()).contains("999"));
    fs::write(store.path(), [0xff, 0xfe]).unwrap();
    let error = Store::load(folder.path(), "cpu a").unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    fs::remove_file(store.path()).unwrap();
    fs::create_dir(store.path()).unwrap();
    assert!(Store::load(folder.path(), "cpu a").is_err());
}
