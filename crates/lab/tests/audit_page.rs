//! The page of an audit is well-formed, safe to open and sensible, whatever was measured.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use lab::audit::report::{Effect, PartTime, Product, Report, WindowProfile, html};
use lab::audit::{Device, Drop, Found, Other};
use roxmltree::{Document, Node, ParsingOptions};

/// Name, uses, bytes of the weights, share of the bandwidth that one row reaches.
const PRODUCTS: [(&str, &str, usize, u64, f64); 11] = [
    ("attn_qkv", "matrix/IQ4_XS/2560x10240/int8", 36, 13_926_400, 0.78),
    ("attn_gate", "matrix/IQ4_XS/2560x6144/int8", 36, 8_355_840, 0.74),
    ("ssm_out", "matrix/IQ4_XS/6144x2560/int8", 48, 8_355_840, 0.71),
    ("attn_k", "matrix/IQ4_XS/2560x512/int8", 24, 696_320, 0.41),
    ("hc_down", "matrix/Q8_0/10240x320/int8", 96, 3_481_600, 0.66),
    ("hc_up", "matrix/Q8_0/320x10240/int8", 96, 3_481_600, 0.52),
    ("hc_inject", "matrix/F16/2560x4/f32", 96, 20_480, 0.02),
    ("ffn_gate_inp", "matrix/F16/2560x512/f32", 48, 2_621_440, 0.47),
    ("ffn_gate_exps", "experts/IQ3_S/2560x640/int8", 48, 14_080_000, 0.58),
    ("ffn_down_exps", "experts/IQ4_NL/640x2560/int8", 48, 9_216_000, 0.63),
    ("output", "matrix/Q6_K/2560x248320/int8", 1, 521_472_000, 0.93),
];

const READ: f64 = 21.4e9;

fn found(shape: &str, rows: usize, bytes: u64, share: f64) -> Found {
    let ops = bytes * 4 * rows as u64;
    let best = bytes as f64 / (share * READ) + ops as f64 / (40e9 + 80e9 * share) * 0.9;
    let gain = if shape.contains("IQ4_XS") && rows > 1 { 0.02 * rows.min(6) as f64 } else { 0.0 };
    Found {
        shape: shape.to_owned(),
        rows,
        bytes,
        ops,
        built_in: best / (1.0 - gain),
        best,
        ratio: 1.0 - gain,
        noise: 0.004,
        tile: if gain > 0.0 { vec![("rows".to_owned(), 32)] } else { vec![] },
        tried: 9,
        missed: None,
        time: 0.06,
    }
}

fn product(&(role, shape, uses, bytes, share): &(&str, &str, usize, u64, f64)) -> Product {
    let found = [1, 2, 3, 4, 8, 128].map(|rows| found(shape, rows, bytes, share));
    Product { shape: shape.to_owned(), roles: vec![role.to_owned()], uses, found: found.into() }
}

fn window(rows: usize) -> WindowProfile {
    let part = |(group, name, ms): (&str, &str, f64)| PartTime {
        group: group.to_owned(),
        name: name.to_owned(),
        seconds: ms / 1e3 * (0.6 + 0.4 * rows as f64),
        bytes: if name == "softmax" { 0 } else { (ms * 14e6) as u64 },
    };
    let parts = [
        ("dense", "attn_qkv", 30.1),
        ("dense", "ssm_out", 19.9),
        ("router", "ffn_gate_inp", 5.2),
        ("experts", "gate and up", 54.3),
        ("experts", "ffn_down_exps", 33.0),
        ("shared expert", "ffn_up_shexp", 9.0),
        ("hc", "hc_down", 19.1),
        ("gdn", "scan", 11.4),
        ("qsa", "softmax", 2.5),
        ("ple", "mixer", 4.0),
        ("mtp", "draft input", 1.1),
        ("head", "output", 26.2),
    ];
    let parts: Vec<_> = parts.into_iter().map(part).collect();
    let seconds = parts.iter().map(|part| part.seconds).sum::<f64>() * 1.04;
    WindowProfile { rows, seconds, parts }
}

/// A report as an audit of a model on a small machine gives it.
fn report() -> Report {
    let effect = |rows, before: f64, after: f64, noise: f64| Effect {
        rows,
        before,
        after,
        noise,
        estimated_gain: before * 0.05,
        used: after < before - 2.0 * noise * before,
    };
    Report {
        version: "0.1.0".to_owned(),
        device: Device {
            key: "Some Processor 7B13 avx2 threads=2".to_owned(),
            read: READ,
            copy: 17.9e9,
            launch: 1.9e-6,
            int8_ops: 128e9,
            f32_ops: 61e9,
        },
        backend: "cpu".to_owned(),
        drop: Some(Drop {
            seconds: 60.0,
            first: 128e9,
            last: 111e9,
            tenths: [128., 127., 127., 124., 119., 115., 113., 112., 111., 111.]
                .map(|ops| ops * 1e9)
                .into(),
        }),
        model: Some("flash-next-IQ3_S.gguf".to_owned()),
        share: 0.4,
        products: PRODUCTS.iter().map(product).collect(),
        others: vec![Other {
            case: "attention/qsa/f16/ctx4096/T4".to_owned(),
            rows: 4,
            seconds: 812e-6,
            bytes: 8_388_608,
        }],
        windows: vec![window(1), window(4)],
        effects: vec![effect(1, 0.216, 0.2158, 0.003), effect(4, 0.475, 0.452, 0.004)],
        table: "tiles/some-processor.json".to_owned(),
        notes: vec!["IQ1_S has no kernel".to_owned()],
    }
}

fn empty() -> Report {
    Report {
        drop: None,
        model: None,
        products: vec![],
        others: vec![],
        windows: vec![],
        effects: vec![],
        notes: vec![],
        ..report()
    }
}

/// Reads a page as XML and checks that its numbers are numbers and that it asks for nothing.
fn checked(report: &Report) -> String {
    let page = html(report);
    // To look at: a folder that the pages go to as well.
    if let Ok(folder) = std::env::var("TUFF_PAGES") {
        let name = std::thread::current().name().unwrap_or("page").replace("::", "-");
        std::fs::write(format!("{folder}/{name}.html"), &page).unwrap();
    }
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&page, options).unwrap();
    for node in document.descendants().filter(Node::is_element) {
        assert!(!["script", "link", "img", "iframe", "a"].contains(&node.tag_name().name()));
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
            check_numbers(attribute.name(), attribute.value());
        }
        if let Some(ids) = node.attribute("aria-labelledby") {
            for id in ids.split(' ') {
                let named = document.descendants().filter(|node| node.attribute("id") == Some(id));
                assert_eq!(named.count(), 1, "{id}");
            }
        }
    }
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
    page
}

/// Coordinates lie within a picture with some room around it.
fn check_numbers(name: &str, value: &str) {
    if ["x", "y", "width", "height", "d", "viewBox", "transform"].contains(&name) {
        let digits = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
        for number in value.split(digits).filter(|text| !text.is_empty()) {
            let number: f64 = number.parse().unwrap();
            assert!((-1000.0..=2000.0).contains(&number), "{name}={value}");
        }
    }
    if ["width", "height"].contains(&name) {
        assert!(!value.starts_with('-'), "{name}={value}");
    }
}

fn plots(page: &str) -> Vec<&str> {
    let ids = ["roofline", "bandwidth", "gains", "window", "clock"];
    ids.into_iter().filter(|id| page.contains(&format!("id=\"{id}-desc\""))).collect()
}

#[test]
fn a_whole_report_has_all_plots_and_tables() {
    let page = checked(&report());
    assert_eq!(plots(&page), ["roofline", "bandwidth", "gains", "window", "clock"]);
    assert_eq!(page.matches("<table>").count(), 5);
    for text in [
        "Of 11 products, the 8 with the most time",
        "In a window of 4 rows (493.75 ms), &quot;experts&quot; takes the most time: 39 %",
        "The tile table makes a whole window of 4 rows faster by 4.8 %",
        "In a whole window of 1 row the tile table gains nothing beyond the noise",
        "the device lost 13 % of its speed",
        "<li>IQ1_S has no kernel</li>",
        "<td class=\"wrap\">output (matrix/Q6_K/2560x248320/int8)</td>",
    ] {
        assert!(page.replace('\u{a0}', " ").contains(text), "{text}");
    }
}

#[test]
fn a_report_of_nothing_says_so() {
    let page = checked(&empty());
    assert!(plots(&page).is_empty() && !page.contains("<table>"));
    assert!(page.contains("Audit of the shapes of the full-size model"));
    assert_eq!(page.matches("No product was measured").count(), 4);
    assert!(page.contains("No whole window was measured"));
    assert!(!page.contains("Speed over time"));
}

#[test]
fn products_without_times_are_no_products() {
    let unmeasured = |product: &mut Product| product.found.clear();
    let mut report = report();
    report.products.iter_mut().for_each(unmeasured);
    assert_eq!(plots(&checked(&report)), ["window", "clock"]);
}

#[test]
fn one_number_of_rows_and_no_better_tile_are_enough() {
    let mut report = report();
    report.products.truncate(1);
    report.products[0].found.truncate(1);
    let page = checked(&Report { windows: vec![], drop: None, effects: vec![], ..report });
    assert_eq!(plots(&page), ["roofline", "bandwidth"]);
    assert!(page.contains("None of 9 other tiles beats a built-in one"));
    assert!(!page.contains("8 products with the most time"));
}

#[test]
fn names_of_ceilings_that_are_close_do_not_overlap() {
    for (int8_ops, f32_ops) in [(100e9, 99e9), (99e9, 100e9), (100e9, 100e9), (97e9, 118e9)] {
        let mut report = report();
        (report.device.int8_ops, report.device.f32_ops) = (int8_ops, f32_ops);
        let page = checked(&report);
        let height = |name: &str| -> f64 {
            let before = page.split_once(&format!("\">{name} arithmetic")).unwrap().0;
            before.rsplit_once("y=\"").unwrap().1.parse().unwrap()
        };
        assert!((height("int8") - height("f32")).abs() >= 12.0, "{int8_ops} {f32_ops}");
    }
}

#[test]
fn products_beyond_a_measured_limit_are_said_to_be() {
    let mut report = report();
    (report.device.read, report.device.copy) = (READ / 10.0, READ / 20.0);
    report.device.int8_ops = 10e9;
    let page = checked(&report).replace('\u{a0}', " ");
    assert!(page.contains("At T = 1 the big products are faster than memory was measured"));
    assert!(page.contains("At T = 128 the big products are faster than arithmetic was measured"));
}

#[test]
fn hostile_names_stay_text() {
    let name =
        "</title><script>alert('1')</script>&amp;\"\u{0}\u{1b}[31m\u{202e}\u{ffff}]]>--><!--";
    let mut report = report();
    report.model = Some(name.to_owned());
    report.device.key = name.to_owned();
    report.backend = name.to_owned();
    report.version = name.to_owned();
    report.table = name.to_owned();
    report.notes = vec![name.to_owned()];
    report.others[0].case = name.to_owned();
    for product in &mut report.products {
        product.shape = name.to_owned();
        product.roles = vec![name.to_owned(), name.repeat(1000), String::new()];
        product.found.iter_mut().for_each(|found| found.tile = vec![(name.to_owned(), 1)]);
    }
    for part in report.windows.iter_mut().flat_map(|window| &mut window.parts) {
        (part.group, part.name) = (name.to_owned(), name.to_owned());
    }
    let page = checked(&report);
    assert!(!page.contains("<script") && !page.contains("<!--") && !page.contains('\u{202e}'));
    assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;&quot;"));
    assert_eq!(plots(&page).len(), 5);
}

#[test]
fn values_that_are_no_measurement_break_nothing() {
    let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e-300, 1e300, 5e-324];
    for value in strange {
        for part in 0..5 {
            let mut report = report();
            let Report { device, drop, products, windows, effects, .. } = &mut report;
            match part {
                0 => (device.read, device.copy, device.launch) = (value, value, value),
                1 => (device.int8_ops, device.f32_ops) = (value, value),
                2 => products.iter_mut().flat_map(|product| &mut product.found).for_each(|found| {
                    (found.best, found.built_in) = (value, value);
                    (found.ratio, found.noise) = (value, value);
                }),
                3 => {
                    let drop = drop.as_mut().unwrap();
                    (drop.seconds, drop.first, drop.last) = (value, value, value);
                    drop.tenths[3] = value;
                }
                _ => {
                    windows.iter_mut().for_each(|window| window.seconds = value);
                    windows[0].parts.iter_mut().for_each(|part| part.seconds = value);
                    effects[0].before = value;
                    (effects[1].noise, effects[1].estimated_gain) = (value, value);
                    report.others[0].seconds = value;
                    report.share = value;
                }
            }
            checked(&report);
        }
    }
}

#[test]
fn nothing_but_zeros_is_a_page() {
    let mut report = report();
    for found in report.products.iter_mut().flat_map(|product| &mut product.found) {
        (found.bytes, found.ops, found.rows, found.best) = (0, 0, 0, 0.0);
    }
    for part in report.windows.iter_mut().flat_map(|window| &mut window.parts) {
        (part.seconds, part.bytes) = (0.0, 0);
    }
    report.windows.iter_mut().for_each(|window| window.seconds = 0.0);
    report.drop = Some(Drop { seconds: 0.0, first: 0.0, last: 0.0, tenths: vec![] });
    let page = checked(&report);
    assert!(plots(&page).is_empty(), "{:?}", plots(&page));
}
