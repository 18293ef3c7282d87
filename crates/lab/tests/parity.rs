//! A parity run passes what is right, and names a planted wrong value, a planted off-by-one and a
//! planted wrong tile.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod toy;

use lab::OpCase;
use lab::parity::{Extent, Missed, Named, Report, Tiles, run};
use toy::{Toy, Way};

fn cases(filters: &[&str]) -> Vec<OpCase> {
    let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
    Extent::Quick.cases(&[3], &filters)
}

fn check(ways: &[Way], cases: &[OpCase], tiles: Tiles) -> Report {
    let named = |way: &Way| Named { name: format!("toy {way:?}"), backend: Toy::new(*way) };
    let mut devices: Vec<Named<Toy>> = ways.iter().map(named).collect();
    let report = run(&mut devices, cases, tiles, &mut |_| true).unwrap();
    let is_free = |device: &Named<Toy>| device.backend.tile().is_built_in();
    assert!(devices.iter().all(is_free), "no tile stays forced");
    report
}

#[test]
fn what_is_right_passes_in_every_family() {
    let cases = cases(&["Q8_0", "IQ3_S", "gdn", "hc", "qsa", "ple", "mtp", "argmax"]);
    let report = check(&[Way::Exact, Way::EightBits], &cases, Tiles::BuiltIn);
    assert!(report.misses.is_empty(), "{}", report.misses[0]);
    assert_eq!((report.cases(), report.tiles()), (2 * cases.len(), 0));
    for line in &report.lines {
        assert!(line.cases > 0 && line.worst.as_ref().unwrap().share <= 1.0);
        assert!(!line.bound.statement().is_empty());
    }
}

/// The misses of a toy with one fault, beside one without.
fn misses(way: Way, cases: &[OpCase]) -> Vec<Missed> {
    let report = check(&[Way::Exact, way], cases, Tiles::BuiltIn);
    let device = format!("toy {way:?}");
    assert!(report.misses.iter().all(|miss| miss.device == device));
    let counted: usize = report.lines.iter().map(|line| line.misses).sum();
    assert_eq!(counted, report.misses.len());
    report.misses
}

#[test]
fn a_wrong_value_is_named_with_its_place() {
    let cases = cases(&["gemv/Q8_0/160x75", "gdn_scan"]);
    let misses = misses(Way::WrongValue, &cases);
    assert_eq!(misses.len(), cases.len());
    let miss = &misses[0];
    assert_eq!(miss.case, "gemv/Q8_0/160x75/T3/f32");
    let place = miss.place.as_ref().unwrap();
    assert_eq!((place.row, place.column), (2, 70), "the fifth from the end");
    assert!(place.found != place.expected);
    let text = miss.to_string();
    assert!(text.contains("on toy WrongValue") && text.contains("y[row 2, 70]"), "{text}");
}

#[test]
fn an_off_by_one_is_caught() {
    let products = cases(&["gemv/Q8_0", "gemv/IQ4_NL"]);
    for way in [Way::WrongRow, Way::NeighbourGroup, Way::PastEnd, Way::Untouched] {
        assert_eq!(misses(way, &products).len(), products.len(), "{way:?}");
    }
    // A block too few, a step of the history too late, the wrong one of equal logits.
    for family in ["qsa_sparse/f16", "ple_mix", "argmax", "moe_down/Q8_0"] {
        assert!(!misses(Way::WrongRow, &cases(&[family])).is_empty(), "{family}");
    }
}

#[test]
fn a_wrong_tile_is_caught_and_no_other() {
    let cases = cases(&["gemv/Q8_0/160x75", "moe_gate_up/Q8_0", "moe_down/Q8_0/96", "argmax"]);
    let report = check(&[Way::Exact], &cases, Tiles::All);
    let products = cases.iter().filter(|case| case.shape().is_some()).count();
    assert_eq!(report.tiles(), 4 * products);
    assert_eq!(report.misses.len(), 2 * products);
    for miss in &report.misses {
        assert!(miss.tile.as_ref().unwrap().starts_with("wrong="), "{miss}");
    }
    let text = report.misses[0].to_string();
    let expected = "gemv/Q8_0/160x75/T3/f32 on toy Exact, tile wrong=1: uniform input, y[row 0, 0]";
    assert!(text.starts_with(expected) && text.ends_with("built-in tile"), "{text}");
}

#[test]
fn a_run_that_is_broken_off_has_no_report() {
    let cases = cases(&["gemv/Q8_0"]);
    let mut devices = [Named { name: "toy".to_owned(), backend: Toy::new(Way::Exact) }];
    assert!(run(&mut devices, &cases, Tiles::All, &mut |done| done < 2).is_none());
}

#[test]
fn a_miss_serialises_with_all_that_it_knows() {
    let report = check(&[Way::Nan], &cases(&["gemv/Q8_0/160x75"]), Tiles::BuiltIn);
    let json = serde_json::to_value(&report).unwrap();
    let miss = &json["misses"][0];
    let fields: Vec<&str> = miss.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["case", "device", "tile", "fault", "place"]);
    assert_eq!(
        (&miss["place"]["input"], &miss["place"]["output"]),
        (&"uniform".into(), &"y".into())
    );
    assert!(miss["place"]["found"].is_null(), "JSON has no NaN");
    assert!(json["lines"][0]["worst"].is_null(), "nothing passed");
}
