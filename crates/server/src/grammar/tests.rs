//! What grammars let through, token by token, with the sample model's vocabulary.

use super::*;
use crate::request::{Tool, ToolChoice};
use engine::Matcher;
use model::tokenizer::SpecialTokens;
use serde_json::{Value, json};
use std::sync::LazyLock;

pub(super) fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/sample/sample.gguf");
        Tokenizer::from_metadata(gguf::Gguf::open(path).unwrap().metadata()).unwrap()
    });
    &TOKENIZER
}

pub(super) fn grammars() -> &'static Grammars {
    static GRAMMARS: LazyLock<Grammars> = LazyLock::new(Grammars::default);
    &GRAMMARS
}

pub(super) fn compile(rule: Rule) -> Result<Constraint, ApiError> {
    let format = Format::Rule { rule, field: "f".to_owned() };
    grammars().constraint(tokenizer(), &format, None).map(Option::unwrap)
}

/// Whether a text is let through up to its end, and may end there.
fn takes(constraint: &Constraint, text: &str) -> bool {
    let mut matcher = constraint.0.begin();
    let tokens = tokenizer().encode(text, SpecialTokens::Parse).unwrap();
    tokens.iter().all(|token| step(&mut *matcher, *token)) && may_end(&mut *matcher)
}

fn step(matcher: &mut dyn Matcher, token: u32) -> bool {
    !matcher.is_complete() && matcher.allowed().unwrap().contains(token) && {
        matcher.push(token).unwrap();
        true
    }
}

fn may_end(matcher: &mut dyn Matcher) -> bool {
    let ends = tokenizer().stop_ids();
    let allowed = matcher.allowed().unwrap();
    let all = ends.iter().all(|end| allowed.contains(*end));
    assert!(all || !ends.iter().any(|end| allowed.contains(*end)), "all ends or none");
    assert!(all || !matcher.is_complete());
    all
}

#[track_caller]
fn check(constraint: &Constraint, good: &[&str], bad: &[&str]) {
    for text in good {
        assert!(takes(constraint, text), "{text:?} must be let through");
    }
    for text in bad {
        assert!(!takes(constraint, text), "{text:?} must not be let through");
    }
}

#[test]
fn schemas_let_their_values_through_and_nothing_else() {
    let schema = json!({"type": "object", "additionalProperties": false,
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"]});
    let constraint = compile(Rule::Schema(schema)).unwrap();
    let good = [
        r#"{"name":"x","age":3}"#,
        "{\n  \"name\": \"\u{e9}\\n\\\"\",\n  \"age\": 0\n}",
        r#"{ "name" : "<b>" , "age" : 10 }"#,
    ];
    let endless = format!("{{{}\"name\": \"x\", \"age\": 1}}", " ".repeat(50));
    let bad = [
        r#"{"name":"x"}"#,
        r#"{"age":3,"name":"x"}"#,
        r#"{"name":"x","age":-1}"#,
        r#"{"name":"x","age":3,"b":1}"#,
        r#"{"name":"x","age":"3"}"#,
        r#" {"name":"x","age":3}"#,
        r#"{"name":"x","age":3} "#,
        "{\"name\":\"a\nb\",\"age\":3}",
        "{\"name\":\"</think>\",\"age\":3}",
        &endless,
    ];
    check(&constraint, &good, &bad);
    let any = compile(Rule::Schema(json!({"type": "object"}))).unwrap();
    check(&any, &["{}", r#"{"a": [1, null, {"b": true}]}"#], &["[]", "1", "{} {}"]);
    let reference = json!({"$ref": "#/$defs/n", "$defs": {"n": {"enum": ["a", 1]}}});
    let constraint = compile(Rule::Schema(reference)).unwrap();
    check(&constraint, &["\"a\"", "1"], &["2", "a", ""]);
}

#[test]
fn fault_095_what_cannot_be_enforced_is_named_with_its_place() {
    for (schema, told) in [
        (json!({"properties": {"a": {"if": {}, "then": {}}}}), "#/properties/a"),
        (json!({"type": "array", "contains": {"type": "integer"}}), "contains"),
        (json!({"type": "array", "uniqueItems": true, "items": {}}), "uniqueItems"),
        (json!({"properties": {"not": {"type": "string"}}, "not": {}}), "#"),
        (json!({"type": "string", "format": "made-up"}), "made-up"),
        (json!({"type": "wrong"}), "wrong"),
        (json!({"$ref": "https://example.org/x"}), "example.org"),
        (json!({"$ref": "#/$defs/none"}), "none"),
        (json!({"type": "integer", "minimum": 5, "maximum": 4}), ""),
        (json!({"x-guidance": {"lenient": true}}), "x-guidance"),
        (json!(false), "object"),
    ] {
        let error = compile(Rule::Schema(schema.clone())).unwrap_err();
        assert!(error.message.contains(told), "{schema}: {error}");
        assert_eq!((error.param.as_deref(), error.status()), (Some("f"), 400));
    }
}

#[test]
fn expressions_grammars_and_choices_are_kept_to() {
    let date = compile(Rule::Regex("[0-9]{4}-[01][0-9]".to_owned())).unwrap();
    check(&date, &["2024-12"], &["2024-1", "2024-123", "x2024-12", ""]);
    let lark = "start: greeting \" \" NAME\ngreeting: \"hi\" | \"hello\"\nNAME: /[a-z]+/";
    let lark = compile(Rule::Lark(lark.to_owned())).unwrap();
    check(&lark, &["hi there", "hello you"], &["hi", "hey there", "hi There"]);
    let texts = ["yes", "no", "say \"it\"\n"].map(str::to_owned);
    let choice = compile(Rule::Choice(texts.to_vec())).unwrap();
    check(&choice, &["yes", "no", "say \"it\"\n"], &["maybe", "", "yes no"]);
    let gbnf = compile(Rule::Lark("root ::= \"a\"".to_owned())).unwrap_err();
    assert!(gbnf.message.contains("GBNF"), "{gbnf}");
}

fn tool(name: &str, strict: bool, parameters: Value) -> Tool {
    let function = json!({"name": name, "strict": strict, "parameters": parameters});
    let definition = json!({"type": "function", "function": function});
    Tool { name: name.to_owned(), definition, parameters }
}

fn calls(tools: &[Tool], choice: &ToolChoice, format: &Format) -> Result<Constraint, ApiError> {
    let calls = Calls::new(tools, choice, true, *format != Format::Text).unwrap();
    grammars().constraint(tokenizer(), format, Some(&calls)).map(Option::unwrap)
}

fn weather() -> Tool {
    let parameters = json!({"type": "object", "additionalProperties": false,
        "required": ["city", "days"], "properties": {"city": {"type": "string"},
            "unit": {"type": "string", "enum": ["C", "F"]},
            "days": {"type": "array", "items": {"type": "integer"}}}});
    tool("weather", true, parameters)
}

const CITY: &str = "<parameter=city>\nRome\n</parameter>\n";
const DAYS: &str = "<parameter=days>\n[1, 2]\n</parameter>\n";

#[test]
fn calls_have_declared_arguments_of_their_types() {
    let tools = [weather(), tool("now", false, json!({"type": "object", "properties": {}}))];
    let end = "</function>\n</tool_call>";
    let whole = format!("{CITY}{DAYS}{end}");
    let unit = format!("{CITY}<parameter=unit>\nC\n</parameter>\n{DAYS}{end}");
    let lines = format!("<parameter=city>\na\n</b>\n\n</parameter>\n{DAYS}{end}");
    let no_days = format!("{CITY}{end}");
    let wrong_unit = format!("{CITY}<parameter=unit>\nK\n</parameter>\n{DAYS}{end}");
    let wrong_days = format!("{CITY}<parameter=days>\n[\"x\"]\n</parameter>\n{end}");
    let extra = format!("{CITY}{DAYS}<parameter=x>\n1\n</parameter>\n{end}");
    let named = calls(&tools, &ToolChoice::Function("weather".into()), &Format::Text).unwrap();
    check(
        &named,
        &[&whole, &unit, &lines],
        &[&no_days, &wrong_unit, &wrong_days, &extra, "", CITY],
    );
    let required = calls(&tools, &ToolChoice::Required, &Format::Text).unwrap();
    let one = format!("=weather>\n{whole}");
    let two = format!("{one}\n<tool_call>\n<function=now>\n{end}");
    let unknown = format!("=later>\n{end}");
    check(&required, &[&one, &two, &format!("=now>\n{end}")], &[&unknown, "", &whole]);
    let auto = calls(&tools, &ToolChoice::Auto, &Format::Text).unwrap();
    let call = format!("<tool_call>\n<function{one}");
    let spoken = format!("I look.\n{call}\nDone.");
    let wrong = format!("<tool_call>\n<function=weather>\n{no_days}");
    check(&auto, &["No call.", &call, &spoken, ""], &[&wrong, "<tool_call>", "a<tool_call>b"]);
    let rule = Rule::Schema(json!({"type": "integer"}));
    let format = Format::Rule { rule, field: "f".to_owned() };
    let either = calls(&tools, &ToolChoice::Auto, &format).unwrap();
    check(&either, &["12", &call], &["No call.", &spoken, ""]);
}

#[test]
fn strict_functions_are_enforced_or_refused_and_others_as_far_as_they_can_be() {
    let odd = |strict| {
        let items = json!({"type": "array", "uniqueItems": true, "items": {"type": "integer"}});
        [tool("f", strict, json!({"properties": {"x": items}, "required": ["x"]}))]
    };
    let error = calls(&odd(true), &ToolChoice::Auto, &Format::Text).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("tools"));
    let loose = calls(&odd(false), &ToolChoice::Required, &Format::Text).unwrap();
    let call =
        |value| format!("=f>\n<parameter=x>\n{value}\n</parameter>\n</function>\n</tool_call>");
    check(&loose, &[&call("[1, 1]"), &call("[\"a\"]")], &[&call("1"), &call("abc")]);
    let text = json!({"properties": {"x": {"type": "string", "pattern": "a+"}}});
    let error = calls(&[tool("f", true, text)], &ToolChoice::Auto, &Format::Text).unwrap_err();
    assert!(error.message.contains("properties.x.pattern"), "{error}");
    let free = [tool("f", false, json!({"anyOf": [{"type": "object"}]}))];
    let free = calls(&free, &ToolChoice::Required, &Format::Text).unwrap();
    check(&free, &[&call("anything"), "=f>\n</function>\n</tool_call>"], &["=f>\n"]);
}
