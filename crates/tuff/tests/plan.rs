//! `tuff plan`, and what does not fit.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use common::*;
use gguf::Gguf;
use serde_json::Value;

fn plan(arguments: &str) -> Run {
    tuff(["plan"].into_iter().chain(words(arguments)))
}

fn number(json: &Value, path: &str) -> u64 {
    json.pointer(path).unwrap().as_u64().unwrap_or_else(|| panic!("{path}: {json:#}"))
}

#[test]
fn weights_are_all_of_the_file_and_the_parts_add_up() {
    let json = plan("--json --ram 8G").json();
    let gguf = Gguf::open(sample()).unwrap();
    let bytes: u64 = gguf.tensors().iter().map(|info| info.bytes).sum();
    let weights = ["/dense", "/experts/bytes", "/table"].map(|part| number(&json, part));
    assert_eq!(weights.iter().sum::<u64>(), bytes);
    let is_expert = |name: &str| name.contains("_exps.");
    let experts = gguf.tensors().iter().filter(|info| is_expert(&info.name));
    assert_eq!(weights[1], experts.map(|info| info.bytes).sum::<u64>());
    let fixed = [
        "/dense",
        "/vectors",
        "/states/recurrent",
        "/states/keys_values",
        "/states/index_keys",
        "/states/drafting",
        "/buffers",
        "/table_cache",
        "/program",
    ];
    let fixed: u64 = fixed.iter().map(|part| number(&json, part)).sum();
    assert_eq!(number(&json, "/ram/fixed"), fixed);
    assert_eq!(number(&json, "/ram/whole"), fixed + weights[1]);
    assert_eq!(number(&json, "/ram/smallest"), fixed + number(&json, "/experts/least"));
    assert_eq!(json["ram"]["limit"]["source"], "setting");
    assert_eq!(number(&json, "/ram/limit/bytes"), 8 << 30);
    assert_eq!((&json["placement"]["experts"], &json["fits"]), (&"mapped".into(), &true.into()));
}

#[test]
fn settings_change_what_they_should() {
    let of = |arguments: &str| plan(&format!("--json --ram 64G {arguments}")).json();
    let one = of("--ctx 1000 --slots 1 --kv f16");
    let changes = [
        ("--ctx 2000", "/states/keys_values", 2, 1),
        ("--ctx 1000 --slots 3", "/states/keys_values", 3, 1),
        ("--ctx 1000 --slots 3", "/states/recurrent", 3, 1),
        ("--ctx 1000 --kv f32", "/states/keys_values", 2, 1),
        ("--ctx 1000 --kv q8_0", "/states/keys_values", 34, 64),
        ("--ctx 1000 --kv q8_0", "/states/index_keys", 1, 1),
    ];
    for (arguments, part, times, by) in changes {
        assert_eq!(number(&of(arguments), part) * by, number(&one, part) * times, "{arguments}");
    }
    let small = of("--ctx 1000 --chunk 16");
    assert!(number(&small, "/buffers") < number(&one, "/buffers"));
    let alone = of("--ctx 1000 --spec off");
    assert_eq!(number(&alone, "/states/drafting"), 0);
    assert!(number(&alone, "/states/recurrent") < number(&one, "/states/recurrent"));
    assert!(number(&alone, "/dense") < number(&one, "/dense"));
}

/// The smallest setting that is told does, and a MiB less does not; nor is the model loaded then.
#[test]
fn what_does_not_fit_is_refused_with_the_smallest_setting_that_would_do() {
    let settings = "--ctx 4000 --chunk 128 --slots 2";
    let run = plan(&format!("{settings} --ram 16M --json"));
    assert_eq!((&run.json()["fits"], &run.json()["placement"]), (&false.into(), &Value::Null));
    let told = run.fails(1).to_owned();
    let (_, rest) = told.split_once("--ram ").unwrap();
    let mib: u64 = rest.split_once('M').unwrap().0.parse().unwrap();
    assert!(told.contains("fewer --slots") && told.contains("--kv q8_0"), "{told}");
    assert_eq!(number(&run.json(), "/ram/smallest").div_ceil(1 << 20), mib);
    let enough = plan(&format!("{settings} --ram {mib}M --json"));
    enough.ok();
    let json = enough.json();
    assert_eq!(json["placement"]["experts"], "stored");
    let cache = number(&json, "/placement/cache_bytes");
    assert_eq!(cache, (mib << 20) - number(&json, "/ram/fixed"));
    assert!(cache >= number(&json, "/experts/least"));
    let held = number(&json, "/placement/held");
    assert!(held >= 2 * number(&json, "/experts/used") && held < number(&json, "/experts/count"));
    let short = format!("{settings} --ram {}M", mib - 1);
    assert!(plan(&short).fails(1).contains("of memory and may take"));
    let run = |mib: u64| format!("run -p a -n 1 --ctx 4000 --chunk 128 --ram {mib}M");
    let told = tuff(words(&run(16))).fails(1).to_owned();
    assert!(told.contains("--ram") && !told.contains("slots"), "{told}");
    tuff(words(&run(mib))).ok();
}

#[test]
fn the_table_says_what_takes_how_much_where() {
    let text = plan("--ram 8GiB").ok().to_owned();
    let parts = [
        "1 slot of ",
        "| dense weights ",
        "mapped file",
        "n-gram table",
        "read on demand",
        "8.00 GiB, as was asked for",
        "(100.0 %)",
        "Everything fits",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    let auto = plan("").ok().to_owned();
    assert_eq!(auto.contains("left:    system"), cfg!(target_os = "linux"), "{auto}");
    let run = plan("--ram 16M");
    assert!(run.text().contains("does not fit"));
    run.fails(1);
}

#[test]
fn a_gpu_holds_all_but_the_table() {
    let json = plan("--backend gpu --vram 8G --ram 8G --json").json();
    let parts = ["/vectors", "/dense", "/experts/bytes", "/buffers", "/states/recurrent"];
    let least: u64 = parts.iter().map(|part| number(&json, part)).sum();
    let need = number(&json, "/vram/needed");
    assert!(least < need && json["fits"] == true);
    assert_eq!(json["placement"]["experts"], "gpu");
    let run = plan("--backend gpu --vram 1M --ram 8G");
    let told = run.fails(1);
    // Without routed experts, which may stay beside it.
    let least = number(&json, "/vram/smallest");
    assert_eq!(need - least, number(&json, "/experts/bytes"));
    let mib = least.div_ceil(1 << 20);
    assert!(told.contains(&format!("--vram {mib}M would do")), "{told}");
    // The GPU's memory is not told, so that without a limit all is well.
    assert!(plan("--backend gpu").ok().contains("what the GPU gives"));
}

/// From the smallest setting that is told on, up to all experts.
#[test]
fn what_a_gpu_has_no_room_for_stays_beside_it() {
    let of = |limits: &str| plan(&format!("--backend gpu --json {limits}"));
    let json = of("--vram 8G --ram 8G").json();
    let [need, least] = ["/vram/needed", "/vram/smallest"].map(|path| number(&json, path));
    let count = number(&json, "/experts/count");
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let mut last = 0;
    for vram in [mib(least), mib(least) + 1, mib(need) - 1] {
        let json = of(&format!("--vram {vram}M --ram 8G")).json();
        let placed = &json["placement"];
        assert_eq!((&placed["experts"], &json["fits"]), (&"split".into(), &true.into()));
        assert_eq!(number(placed, "/device_bytes"), (vram << 20) - least);
        assert!(placed["cache_bytes"].is_null());
        let held = number(placed, "/held");
        assert!((last..count).contains(&held), "{held} of {count} after {last}");
        last = held;
    }
    assert!(last > 0);
    let fits = of(&format!("--vram {}M --ram 8G", mib(need))).json();
    assert_eq!(fits["placement"]["experts"], "gpu");

    // Neither has room for all the others: they are read.
    let half = format!("--vram {}M", mib((least + need) / 2));
    let json = of(&format!("{half} --ram 8G")).json();
    let whole = number(&json, "/ram/needed");
    let told = of(&format!("{half} --ram 16M")).fails(1).to_owned();
    let (_, rest) = told.split_once("--ram ").unwrap();
    let enough: u64 = rest.split_once('M').unwrap().0.parse().unwrap();
    assert!(enough << 20 < whole, "{told}");
    assert!(of(&format!("{half} --ram {}M", enough - 1)).code != 0);
    let json = of(&format!("{half} --ram {enough}M")).json();
    assert!(number(&json, "/placement/cache_bytes") >= number(&json, "/experts/least"));
    assert_eq!(number(&json, "/ram/needed"), enough << 20);

    let text = plan(&format!("--backend gpu --ram 8G {half}")).ok().to_owned();
    for part in ["on GPU; mapped file", "without routed experts", "the processors multiply them"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn sizes_are_read_with_their_unit() {
    for wrong in ["8", "0", "much", "-1G"] {
        assert_eq!(plan(&format!("--ram={wrong}")).code, 2, "{wrong}");
        assert_eq!(plan(&format!("--vram={wrong}")).code, 2, "{wrong}");
    }
    assert_eq!(plan("--slots 0").code, 2);
    assert!(plan("--ctx 99999999").code != 0);
}
