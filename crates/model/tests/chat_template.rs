//! Chat templates against the reference renders, and what they may not do.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod text_support;

use model::chat::{ChatTemplate, RenderInput, TemplateError};
use serde_json::json;
use text_support::cases::{Case, TEMPLATES, cases, template};

#[test]
fn fault_091_every_case_renders_as_the_reference_does() {
    for name in TEMPLATES {
        let template = template(name);
        let mut count = 0;
        for case in cases(name) {
            check_case(&template, &case);
            count += 1;
        }
        assert_eq!(count, 114);
    }
}

fn check_case(template: &ChatTemplate, case: &Case) {
    let rendered = template.render(&case.input());
    match (&case.rendered, rendered) {
        (Some(expected), Ok(text)) => assert_eq!(&text, expected, "{}", case.name),
        (None, Err(TemplateError::Raised { message })) if case.raised => {
            assert_eq!(message, case.error, "{}", case.name);
        }
        (None, Err(TemplateError::Failed { message, line })) if !case.raised => {
            assert_eq!(message, case.error, "{}", case.name);
            assert!(line > 0);
        }
        (_, result) => panic!("{}: {result:?}", case.name),
    }
}

/// Renders one user message `x`.
fn render(source: &str) -> Result<String, TemplateError> {
    render_with(source, "x")
}

fn render_with(source: &str, content: &str) -> Result<String, TemplateError> {
    let messages = [json!({"role": "user", "content": content})];
    ChatTemplate::new(source)?.render(&RenderInput { messages: &messages, ..Default::default() })
}

#[test]
fn blocks_leave_no_lines_behind() {
    let source = "a\n  {% if true %}\nb\n  {% endif %}\n{# c #}\nd\n";
    assert_eq!(render(source).unwrap(), "a\nb\nd");
}

#[test]
fn loop_controls_work() {
    let source = "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}\
                  {% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}";
    assert_eq!(render(source).unwrap(), "013");
}

#[test]
fn nothing_is_escaped_for_html() {
    assert_eq!(render_with("{{ messages[0].content }}", "<&'\">").unwrap(), "<&'\">");
    let json = render_with("{{ messages|tojson }}", "<&'>").unwrap();
    assert_eq!(json, r#"[{"role": "user", "content": "<&'>"}]"#);
    assert_eq!(render("{{ [1, {}]|tojson(indent=2) }}").unwrap(), "[\n  1,\n  {}\n]");
}

#[test]
fn python_methods_work() {
    let cases = [
        ("{{ '</t>a</t>b'.split('</t>')[-1] }}", "b"),
        ("{{ ' \\x1f x '.strip() }}|{{ 'xx y'.lstrip('x') }}|{{ 'y\\n'.rstrip('\\n') }}", "x| y|y"),
        ("{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}", "bcab"),
        ("{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }}", "True True"),
        ("{{ messages[0].get('name', 'none') }}", "none"),
        (
            "{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}",
            "role=user;content=x;",
        ),
        ("{{ 'a-b'.replace('-', '+').upper() }}", "A+B"),
    ];
    for (source, expected) in cases {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
}

#[test]
fn the_date_can_be_asked_for() {
    let date = render("{{ strftime_now('%Y-%m-%d') }}").unwrap();
    assert!(date.len() == 10 && date.starts_with("20"), "{date}");
}

#[test]
fn kwargs_reach_the_template_but_do_not_replace_the_conversation() {
    let template = ChatTemplate::new("{{ messages|length }}{{ flag }}").unwrap();
    let kwargs = json!({"flag": "on", "messages": [1, 2, 3]}).as_object().unwrap().clone();
    let input = RenderInput { kwargs, ..Default::default() };
    assert_eq!(template.render(&input).unwrap(), "0on");
}

#[test]
fn token_variables_are_the_texts_of_the_tokens() {
    let template = ChatTemplate::new("{{ eos_token }}{{ bos_token is defined }}").unwrap();
    let template = template.with_token_variables(text_support::full());
    assert_eq!(template.render(&RenderInput::default()).unwrap(), "<|im_end|>False");
}

#[test]
fn broken_templates_are_refused_with_their_line() {
    let error = ChatTemplate::new("a\n{% if %}").unwrap_err();
    assert!(matches!(error, TemplateError::Syntax { line: 2, .. }), "{error}");
    let error = ChatTemplate::new(" ".repeat(2_000_000)).unwrap_err();
    assert!(matches!(error, TemplateError::SourceTooLong { .. }), "{error}");
    let nested = format!("{}1{}", "{{ ".to_owned() + &"(".repeat(5000), ")".repeat(5000) + " }}");
    assert!(matches!(ChatTemplate::new(nested), Err(TemplateError::Syntax { .. })));
    let blocks = "{% if true %}".repeat(5000);
    assert!(matches!(ChatTemplate::new(blocks), Err(TemplateError::Syntax { .. })));
}

#[test]
fn unknown_functions_and_filters_are_named() {
    for source in ["{{ open('x') }}", "{{ 1|frobnicate }}", "{% include 'x' %}"] {
        let error = render(source).unwrap_err();
        assert!(matches!(error, TemplateError::Failed { line: 1, .. }), "{source}: {error:?}");
    }
    let message = render("\n{{ 1|frobnicate }}").unwrap_err().to_string();
    assert!(message.contains("line 2") && message.contains("frobnicate"), "{message}");
}

#[test]
fn endless_templates_are_stopped() {
    let cases = [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{{ ('x' * 1000000) * 1000000 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    ];
    for source in cases {
        let error = render(source).unwrap_err();
        let stopped = matches!(
            error,
            TemplateError::OutOfFuel { .. }
                | TemplateError::OutputTooLong { .. }
                | TemplateError::Failed { .. }
        );
        assert!(stopped, "{source}: {error:?}");
    }
}

#[test]
fn values_that_share_their_parts_do_not_explode() {
    let double = "{% set a = [a, a] %}".repeat(40);
    for shown in ["{{ a|tojson }}", "{{ a }}"] {
        let source = format!("{{% set a = ['x'] %}}{double}{shown}");
        let error = render(&source).unwrap_err();
        assert!(matches!(error, TemplateError::OutputTooLong { .. }), "{shown}: {error}");
    }
}

#[test]
fn deep_values_do_not_overflow_the_stack() {
    let nest = format!("{{% set n.a = {}n.a{} %}}", "[".repeat(50), "]".repeat(50));
    let deep = format!(
        "{{% set n = namespace(a=[]) %}}{{% for i in range(400) %}}{}{{% endfor %}}",
        nest.repeat(20)
    );
    for shown in ["{{ n.a|tojson }}", "{{ n.a }}", "{{ n.a == [n.a] }}"] {
        render(&format!("{deep}{shown}")).unwrap();
    }
    let error = render(&deep.replace("400", "4000")).unwrap_err();
    assert!(matches!(error, TemplateError::OutOfFuel { .. }), "{error}");
}

#[test]
fn long_conversations_fit_the_budget() {
    let template = template(TEMPLATES[0]);
    let mut messages = Vec::new();
    for turn in 0..3000 {
        messages.push(json!({"role": "user", "content": format!("{turn}")}));
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "f", "arguments": {"a": 1, "b": "2"}}}]}));
        messages.push(json!({"role": "tool", "content": "y"}));
    }
    messages.push(json!({"role": "user", "content": "z ".repeat(2_000_000)}));
    let input = RenderInput { messages: &messages, ..Default::default() };
    let text = template.render(&input).unwrap();
    assert!(text.len() > 4_000_000);
}

#[test]
fn an_empty_template_writes_nothing() {
    assert_eq!(render("").unwrap(), "");
}
