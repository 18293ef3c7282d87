//! Every text is read whole, cut in two at every place, and character by character.

use super::*;
use serde_json::{Value, json};

fn functions() -> Arc<Functions> {
    let schema = json!({"properties": {
        "path": {"type": "string"},
        "content": {"type": "string"},
        "lines": {"type": "integer"},
        "force": {"type": "boolean"},
        "tags": {"type": "array"},
        "mode": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }});
    Arc::new(Functions::new([("write", &schema), ("now", &Value::Null)]))
}

/// All pieces, neighbours of a kind joined.
fn read(pieces: &[&str]) -> Vec<Piece> {
    let mut reader = CallReader::new(functions(), Calling::Free);
    let mut all = Vec::new();
    for piece in pieces {
        reader.push(piece).into_iter().for_each(|piece| emit(&mut all, piece));
    }
    reader.finish().into_iter().for_each(|piece| emit(&mut all, piece));
    assert_eq!(reader.pending(), 0);
    all
}

/// What `text` comes to, however it is cut.
fn all_cuts(text: &str) -> Vec<Piece> {
    let whole = read(&[text]);
    for (at, _) in text.char_indices() {
        assert_eq!(read(&[&text[..at], &text[at..]]), whole, "cut at {at} of {text:?}");
    }
    let chars: Vec<String> = text.chars().map(String::from).collect();
    assert_eq!(read(&chars.iter().map(String::as_str).collect::<Vec<_>>()), whole, "{text:?}");
    whole
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn call(name: &str, arguments: &str) -> [Piece; 3] {
    [Piece::Begin(name.to_owned()), Piece::Arguments(arguments.to_owned()), Piece::End]
}

fn write(parameters: &[(&str, &str)]) -> String {
    let one = |(key, value): &(&str, &str)| format!("<parameter={key}>\n{value}\n</parameter>\n");
    let all: String = parameters.iter().map(one).collect();
    format!("<tool_call>\n<function=write>\n{all}</function>\n</tool_call>")
}

#[test]
fn fault_086_a_call_is_the_same_for_every_cut() {
    let source =
        write(&[("path", "a/b.txt"), ("lines", "12"), ("force", "true"), ("tags", "[1, \"x\"]")]);
    let arguments = r#"{"path":"a/b.txt","lines":12,"force":true,"tags":[1, "x"]}"#;
    assert_eq!(all_cuts(&source), call("write", arguments));
    let expected = [vec![text("Let me see.")], call("write", arguments).to_vec()].concat();
    assert_eq!(all_cuts(&format!("Let me see.\n\n{source}")), expected);
    assert_eq!(all_cuts(&format!("Let me see.\n\n{source}\n")), expected);
}

#[test]
fn parallel_calls_and_calls_without_arguments() {
    let now = "<tool_call>\n<function=now>\n</function>\n</tool_call>";
    let both = [call("now", "{}"), call("write", r#"{"path":"x"}"#)].concat();
    let other = write(&[("path", "x")]);
    assert_eq!(all_cuts(&format!("{now}\n{other}")), both);
    assert_eq!(all_cuts(&format!("{now}{other}")), both);
    let after = [both, vec![text("Done.\n")]].concat();
    assert_eq!(all_cuts(&format!("{now}\n{other}\n\nDone.\n")), after);
    let joined = "<tool_call><function=now></function><function=now></function></tool_call>";
    assert_eq!(all_cuts(joined), [call("now", "{}"), call("now", "{}")].concat());
}

#[test]
fn fault_088_values_have_the_types_of_the_schema() {
    let source = write(&[
        ("path", "null"),
        ("content", "12"),
        ("lines", "12"),
        ("mode", "null"),
        ("new", "[1]"),
        ("more", "a b"),
    ]);
    let arguments =
        r#"{"path":"null","content":"12","lines":12,"mode":null,"new":[1],"more":"a b"}"#;
    assert_eq!(all_cuts(&source), call("write", arguments));
}

#[test]
fn values_may_hold_anything() {
    for value in [
        "",
        "\n",
        "\n\nlines\n\n",
        "quotes \" and \\ and \u{1} \t",
        "\u{4f60}\u{597d} \u{1f642}",
        "a </parameter> b",
        "x\n</parameter>\ny",
        "<tool_call>\n<function=now>",
        "</function> and </tool_call>",
        "</think><think>",
        "<para",
        "a < b",
    ] {
        let arguments = json!({"content": value, "path": "p"}).to_string();
        let found = all_cuts(&write(&[("content", value), ("path", "p")]));
        assert_eq!(found, call("write", &arguments), "{value:?}");
    }
}

#[test]
fn what_is_no_call_stays_text() {
    for source in [
        "",
        "plain",
        "ends with lines\n\n",
        "\n\n",
        "1 < 2 <tool",
        "<tool_call>",
        "<tool_call>\n{\"name\": \"now\"}\n</tool_call>",
        "<tool_call>\n<function=>\n",
        "<tool_call>\n<function=a<b>",
        "the tag <tool_call> is\n\n<tool_call> a tag\n\n",
        "</function></tool_call></parameter>",
    ] {
        let expected = if source.is_empty() { vec![] } else { vec![text(source)] };
        assert_eq!(all_cuts(source), expected, "{source:?}");
    }
    let long = format!("<tool_call>\n<function={}>", "x".repeat(MAX_NAME + 1));
    assert_eq!(all_cuts(&long), [text(&long)]);
}

#[test]
fn odd_calls_are_read_as_well_as_they_can_be() {
    let begin = |name: &str| Piece::Begin(name.to_owned());
    let arguments = |text: &str| Piece::Arguments(text.to_owned());
    // Blanks are left out or added, ends are forgotten, keys come twice.
    let cases = [
        (
            "<tool_call><function=write><parameter=path>x</parameter></function></tool_call>",
            r#"{"path":"x"}"#,
        ),
        (
            "<tool_call> <function= write > junk <parameter= path >\nx\n</parameter>\n </function>",
            r#"{"path":"x"}"#,
        ),
        (
            "<tool_call>\n<function=write>\n<parameter=path>\nx\n</parameter>\n</tool_call>",
            r#"{"path":"x"}"#,
        ),
        (
            "<tool_call>\n<function=write>\n<parameter=path>\nx\n</parameter>\n<parameter=path>\ny\n\
             </parameter>\n</function>",
            r#"{"path":"x"}"#,
        ),
        ("<tool_call>\n<function=write>\n<parameter=a<b>\n</function>", "{}"),
    ];
    for (source, expected) in cases {
        assert_eq!(all_cuts(source), call("write", expected), "{source}");
    }
    // A call that breaks off has no end, and its arguments are the beginning of JSON.
    let cut = "<tool_call>\n<function=write>\n<parameter=path>\nabc";
    assert_eq!(all_cuts(cut), [begin("write"), arguments("{\"path\":\"abc")]);
    let cut = "<tool_call>\n<function=write>\n<parameter=lines>\n12";
    assert_eq!(all_cuts(cut), [begin("write"), arguments("{\"lines\":")]);
    let cut = "<tool_call>\n<function=write>\n<parameter=lines>\n12\n</parameter>\n";
    assert_eq!(all_cuts(cut), [begin("write"), arguments("{\"lines\":12")]);
    assert_eq!(all_cuts("<tool_call>\n<function=write>\n"), [begin("write")]);
}

#[test]
fn what_is_left_of_a_forced_call_that_was_cut_off_is_not_told() {
    let read = |calling, text: &str| {
        let mut reader = CallReader::new(functions(), calling);
        [reader.push(text), reader.finish()].concat()
    };
    let whole = "\n\n<tool_call>\n<function=now>\n";
    for end in 1..whole.len() - 2 {
        let cut = &whole[..end];
        assert_eq!(read(Calling::Forced, cut), [], "{cut:?}");
        let text: String = read(Calling::Free, cut)
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(text, cut);
    }
    assert_eq!(read(Calling::Forced, whole), [Piece::Begin("now".to_owned())]);
    assert_eq!(read(Calling::Forced, "a < b"), [text("a < b")]);
}

#[test]
fn fault_085_long_text_goes_out_as_it_comes() {
    let mut reader = CallReader::new(functions(), Calling::Free);
    reader.push("<tool_call>\n<function=write>\n<parameter=content>\n");
    let mut found = String::new();
    for number in 0..500 {
        let line = format!("line \"{number}\"\n");
        for piece in reader.push(&line) {
            let Piece::Arguments(fragment) = piece else { panic!("{piece:?}") };
            found.push_str(&fragment);
        }
        // Only the line break may wait: it might belong to the end tag.
        assert!(reader.pending() <= 1);
        assert_eq!(found.matches("line").count(), number + 1);
    }
    let rest = reader.push("</parameter>\n</function>\n</tool_call>");
    assert_eq!(rest, [Piece::Arguments("\"}".to_owned()), Piece::End]);
}

#[test]
fn fragments_are_always_the_beginning_of_the_whole() {
    let source = write(&[("content", "a\n\"b\"\n\u{4f60}"), ("lines", "3"), ("path", "p")]);
    let all = all_cuts(&source);
    let Piece::Arguments(whole) = &all[1] else { panic!("{all:?}") };
    let mut reader = CallReader::new(functions(), Calling::Free);
    let mut sofar = String::new();
    for c in source.chars() {
        for piece in reader.push(c.encode_utf8(&mut [0; 4])) {
            if let Piece::Arguments(fragment) = piece {
                sofar.push_str(&fragment);
                assert!(whole.starts_with(&sofar), "{sofar}");
            }
        }
    }
    assert_eq!(&sofar, whole);
}
