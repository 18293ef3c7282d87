//! Grammars made to hurt: each is refused or works within its limits, and soon.

use super::tests::{compile, tokenizer};
use super::*;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Compiles and takes some steps with whatever token is allowed first; what came of it.
fn run(rule: Rule) -> Result<(), String> {
    let started = Instant::now();
    let mut worst = Duration::ZERO;
    let name = format!("{rule:?}").chars().take(60).collect::<String>();
    let result = compile(rule).map_err(|error| error.message).and_then(|constraint| {
        let mut matcher = constraint.0.begin();
        for step in 0..40u32 {
            if matcher.is_complete() {
                break;
            }
            let begun = Instant::now();
            let allowed = matcher.allowed()?;
            worst = worst.max(begun.elapsed());
            let ids = 0..tokenizer().vocab_size() as u32;
            let mut may = ids.filter(|id| allowed.contains(*id) && !tokenizer().is_eog(*id));
            let Some(token) = may.nth(step as usize % 3).or_else(|| may.next()) else { break };
            matcher.push(token)?;
        }
        Ok(())
    });
    let took = started.elapsed();
    println!(
        "{name} {took:?} {worst:?} {:?}",
        result.as_ref().map_err(|e: &String| e.chars().take(150).collect::<String>())
    );
    // Far more than it takes on an idle machine: this is to tell seconds from minutes.
    assert!(took < Duration::from_secs(30), "{name} took {took:?}");
    assert!(worst < Duration::from_secs(2), "a step of {name} took {worst:?}");
    result
}

fn nested(depth: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(inner, |schema, _| wrap(schema))
}

#[test]
fn hostile_schemas_are_bounded() {
    let array = |schema| json!({"type": "array", "items": schema});
    assert!(run(Rule::Schema(nested(90, json!({}), array))).is_ok());
    assert!(run(Rule::Schema(nested(400, json!({}), array))).is_err());
    let any = |schema: Value| json!({"anyOf": [schema.clone(), {"allOf": [schema]}]});
    let _ = run(Rule::Schema(nested(12, json!({"type": "string"}), any)));
    let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
        "b": {"$ref": "#/$defs/a"}}});
    let _ = run(Rule::Schema(circle));
    let tree = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array",
        "items": {"$ref": "#/$defs/a"}}}});
    assert_eq!(run(Rule::Schema(tree)), Ok(()));
    let chain: Map<String, Value> = (0..2000)
        .map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", (i + 1) % 2000)})))
        .collect();
    let _ = run(Rule::Schema(json!({"$ref": "#/$defs/d0", "$defs": chain})));
    let wide: Map<String, Value> =
        (0..3000).map(|i| (format!("property{i}"), json!({"type": "string"}))).collect();
    let _ = run(Rule::Schema(json!({"type": "object", "properties": wide})));
    let values: Vec<String> = (0..5000).map(|i| format!("value {i}")).collect();
    let _ = run(Rule::Schema(json!({"enum": values})));
    for bounds in [
        json!({"type": "string", "minLength": 1_000_000, "maxLength": 2_000_000}),
        json!({"type": "array", "minItems": 1_000_000, "items": {"type": "string"}}),
        json!({"type": "integer", "minimum": -1e300, "maximum": 1e300}),
        json!({"type": "number", "multipleOf": 1e-300}),
        json!({"type": "string", "pattern": "(a{1,100}){1,100}(b{1,100}){1,100}"}),
        json!({"type": "string", "maxLength": u64::MAX}),
        json!({"type": "array", "maxItems": u64::MAX}),
        json!({"type": "string", "pattern": "("}),
        json!({"minLength": "x".repeat(300), "type": "string"}),
        json!({"type": "string", "format": "\u{e9}".repeat(80)}),
        json!({"type": ["string", "\u{e9}".repeat(80)], "minLength": "\u{e9}".repeat(90)}),
    ] {
        let _ = run(Rule::Schema(bounds));
    }
    let long = run(Rule::Schema(json!({"const": "x".repeat(300_000)})));
    assert!(long.unwrap_err().contains("bytes"));
}

#[test]
fn hostile_expressions_are_bounded() {
    for regex in [
        "(a*)*b",
        "(x+x+)+y",
        "a{1000000}",
        "x?a{1000000}",
        "((a{1,500}){1,500}){1,500}",
        "(.*a){20}",
        "[^a]{0,100000}",
        "(?i)(?:\\w+\\s*){50,100}",
        "\\p{L}{1000}",
        "(?=x)y",
        "(a)\\1",
        "[",
        "/",
        "a|",
        "^a$",
    ] {
        let _ = run(Rule::Regex(regex.to_owned()));
    }
    assert!(run(Rule::Regex("(".repeat(100_000))).is_err());
    assert!(run(Rule::Regex(format!("{}a{}", "(".repeat(100), ")*".repeat(100)))).is_ok());
}

#[test]
fn hostile_grammars_are_bounded() {
    let open = format!("start: {}\"a\"{}", "(".repeat(50_000), ")".repeat(50_000));
    assert!(run(Rule::Lark(open)).is_err());
    let chain = |rule: &str| {
        let rules = (0..9000).map(|i| format!("{rule}{i}: \"x\" {rule}{}\n", i + 1));
        let rules: String = rules.collect();
        format!("start: {rule}0\n{rules}{rule}9000: \"y\"\n")
    };
    let _ = run(Rule::Lark(chain("a")));
    let _ = run(Rule::Lark(chain("A")));
    for endless in ["start: start", "start: a\na: b\nb: a"] {
        let told = run(Rule::Lark(endless.to_owned())).unwrap_err();
        assert!(told.contains("no text"), "{told}");
    }
    for lark in [
        "start: start start | \"a\" |",
        "start: (\"a\"*)*",
        "start: \"a\"{1,1000000}",
        "start: x x x x\nx: (\"a\" | \"aa\" | \"aaa\")*",
        "start: A\nA: A",
        "start: @other",
        "start: <|no_such_token|>",
        "start: <[0-999999999]>",
        "start: %json {",
        "start: %json {\"not\": {}}",
        "start: %regex {\"substring_chars\": \"x\"}",
        "start: a[max_tokens=999999999999]\na: /.*/",
        "start[stop=\"x\"]: /.*/",
        "%import common.WORD\nstart: WORD",
        "%llguidance {\"no_forcing\": true, \"x\": 1}\nstart: \"a\"",
        "",
        "start",
        ":::",
        "\u{0}",
        "start: \"\\ud800\"",
    ] {
        let _ = run(Rule::Lark(lark.to_owned()));
    }
}
