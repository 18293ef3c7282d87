//! The edges of a speculative round: whatever ends a text, wherever among accepted and rejected
//! drafts, the events, the tokens, the state and the turn after it are those of plain decoding.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::prompt;
use common::turns::*;
use cpu::Cpu;
use engine::speculation::{Ask, Drafter, Drafts, NoDrafts, Proposer, Source};
use engine::{Error, Finish, Request, SamplingParams};
use model::tokenizer::SkipSpecial;

const PROMPT: &str = "eos";
const MODES: [&str; 3] = ["mtp:8", "mtp+lookup:3", "adaptive"];

/// A request in an engine of these sizes.
struct Case<'a> {
    request: Request<'a>,
    context: usize,
    chunk: usize,
}

/// Two turns, the first broken off at `break_at`, plain and with every proposer.
fn same_as_plain(model: &Model, case: &Case<'_>, break_at: usize) -> [Turn; 2] {
    let Case { request, context, chunk } = case;
    let whole = model.plain(request.prompt, &request.sampling);
    let mut engine = model.engine(*context, *chunk);
    let first = model.turn(&mut engine, &mut NoDrafts, request, break_at);
    let mut prompt = [&first.history[..], &[19, 23]].concat();
    prompt.truncate(*context);
    let mut again = request.clone();
    again.prompt = &prompt;
    let second = model.turn(&mut engine, &mut NoDrafts, &again, usize::MAX);
    let whole_again = model.plain(&prompt, &request.sampling);

    let mut proposers: Vec<(&str, Box<dyn Proposer<Cpu>>)> = Vec::new();
    for plan in PLANS {
        let texts = vec![whole.clone(), whole_again.clone()];
        proposers.push(("oracle", Box::new(Oracle { texts, plan, rounds: 0 })));
    }
    for mode in MODES {
        proposers.push((mode, Box::new(Drafter::new(mode.parse().unwrap(), &engine))));
    }
    for (i, (name, mut proposer)) in proposers.into_iter().enumerate() {
        let about = format!("proposer {i}, {name}, of {request:?}, {context}, {chunk}, {break_at}");
        engine.reset(0).unwrap();
        let found = model.turn(&mut engine, &mut *proposer, request, break_at);
        assert_eq!(found, first, "{about}");
        let found = model.turn(&mut engine, &mut *proposer, &again, usize::MAX);
        assert_eq!(found, second, "second turn, {about}");
    }
    [first, second]
}

#[test]
fn token_limits_and_full_contexts_end_where_they_do_without_drafts() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    for max in [1, 2, 9, 10] {
        let sampling = endless(&model, &hot(3));
        let request =
            Request { prompt: &prompt, max_tokens: Some(max), sampling, ..Request::default() };
        let [first, _] =
            same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 32 }, usize::MAX);
        assert_eq!(first.end.as_ref().unwrap().0, Finish::Length);
    }
    for more in [0, 1, 2, 10] {
        let sampling = endless(&model, &hot(4));
        let request = Request { prompt: &prompt, sampling, ..Request::default() };
        let context = prompt.len() + more;
        for chunk in [1, 32] {
            let request = request.clone();
            let [first, _] = same_as_plain(&model, &Case { request, context, chunk }, usize::MAX);
            assert_eq!(first.end.as_ref().unwrap().0, Finish::ContextFull);
        }
    }
}

#[test]
fn fault_103_a_text_may_be_broken_off_at_any_event_and_goes_on() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(5));
    let request = Request { prompt: &prompt, max_tokens: Some(16), sampling, ..Request::default() };
    let all = same_as_plain(
        &model,
        &Case { request: request.clone(), context: CONTEXT, chunk: 10 },
        usize::MAX,
    );
    let events = all[0].events.len();
    assert!(events > 10, "{events}");
    for break_at in 0..events {
        let request = request.clone();
        let [first, _] =
            same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 10 }, break_at);
        assert_eq!(first.events.len(), break_at + 1);
    }
}

#[test]
fn stop_strings_end_in_the_middle_of_accepted_drafts() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(6));
    let whole = model.plain(&prompt, &sampling);
    let output = &whole[prompt.len()..];
    let mut stopped = 0;
    for end in [1, 2, 5, 9, 10, 13] {
        for len in [1, 3] {
            let tokens = &output[end.max(len) - len..end];
            let mut text = model.tokenizer.decode_text(tokens, SkipSpecial::Yes).unwrap();
            if len == 3 {
                text = text.chars().skip(1).collect();
            }
            let request = Request {
                prompt: &prompt,
                max_tokens: Some(20),
                sampling: sampling.clone(),
                stop: vec![text, "never in there".to_owned()],
            };
            let [first, _] =
                same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 32 }, usize::MAX);
            stopped += usize::from(matches!(first.end, Ok((Finish::StopString(_), ..))));
        }
    }
    assert!(stopped > 6, "{stopped}");
}

#[test]
fn an_end_of_text_may_be_drafted() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let mut ended = 0;
    for seed in 0..6 {
        let stops = model.tokenizer.stop_ids().iter().map(|&id| (id, 3.0));
        let sampling = SamplingParams { logit_bias: stops.collect(), ..hot(seed) };
        let request =
            Request { prompt: &prompt, max_tokens: Some(40), sampling, ..Request::default() };
        let [first, _] =
            same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 32 }, usize::MAX);
        ended += usize::from(
            matches!(first.end, Ok((Finish::EndOfText(_), ref tokens, _)) if tokens.len() > 2),
        );
    }
    assert!(ended > 2, "{ended}");
}

#[test]
fn fault_117_non_finite_logits_end_a_round_where_they_end_a_plain_text() {
    let mut model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(8));
    let whole = model.plain(&prompt, &sampling);
    let output = &whole[prompt.len()..];
    let mut stopped = 0;
    for at in 0..12 {
        let bad = output[at];
        if prompt.contains(&bad) || output[..at].contains(&bad) {
            continue;
        }
        let damaged =
            Model { checkpoint: model.checkpoint.clone(), tokenizer: model.tokenizer.clone() };
        model.checkpoint.token_embd = damaged.checkpoint.token_embd.clone();
        put(&mut model.checkpoint.token_embd, bad as usize, f32::NAN);
        // Where a stop string ends the text with the last token before it, nobody meets it.
        let text = model.tokenizer.decode_text(&[bad], SkipSpecial::Yes).unwrap();
        for (plan, stop) in PLANS.iter().flat_map(|plan| [(plan, None), (plan, Some(&text))]) {
            let request = Request {
                prompt: &prompt,
                max_tokens: Some(30),
                sampling: sampling.clone(),
                stop: stop.into_iter().cloned().collect(),
            };
            let mut engine = model.engine(CONTEXT, 32);
            let plain = model.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
            match &plain.end {
                Err(error) => {
                    let position = format!("position {} ", prompt.len() + at + 1);
                    assert!(error.contains(&position), "{error}");
                }
                Ok((finish, ..)) => {
                    assert!(matches!(finish, Finish::StopString(_)));
                    stopped += 1;
                }
            }
            engine.reset(0).unwrap();
            let mut oracle = Oracle { texts: vec![whole.clone()], plan: *plan, rounds: 0 };
            let found = model.turn(&mut engine, &mut oracle, &request, usize::MAX);
            assert_eq!(found.events, plain.events);
            assert_eq!(found.end, plain.end);
            assert_eq!(found.history, plain.history);
            assert!(!engine.is_broken(0).unwrap());
        }
        model = damaged;
    }
    assert!(stopped > 10, "{stopped}");
}

#[test]
fn a_rejected_draft_with_nan_leaves_no_trace() {
    let mut model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(9));
    let whole = model.plain(&prompt, &sampling);
    let bad = (0..256).find(|id| !whole.contains(id)).unwrap();
    put(&mut model.checkpoint.token_embd, bad as usize, f32::NAN);
    struct Bad(u32);
    impl Proposer<Cpu> for Bad {
        fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
            Ok(Drafts {
                source: Source::Lookup,
                tokens: vec![self.0; ask.room],
                ..Drafts::default()
            })
        }
    }
    let request = Request { prompt: &prompt, max_tokens: Some(60), sampling, ..Request::default() };
    let mut engine = model.engine(CONTEXT, 32);
    let plain = model.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
    engine.reset(0).unwrap();
    let found = model.turn(&mut engine, &mut Bad(bad), &request, usize::MAX);
    assert!(found.end.is_ok(), "{:?}", found.end);
    assert_eq!(found, plain);
}
