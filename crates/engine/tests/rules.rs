//! Rules of a text: what they do, and that no draft changes it.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::jobs::*;
use cpu::Cpu;
use engine::batch::{Job, JobEvent, Limits, Scheduler, SlotView};
use engine::{
    Constraint, Detail, Event, Finish, Grammar, Matcher, Opening, ReasoningBudget, Rules,
    SamplingParams, TokenSet,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Id, bits of its log-probability, the likeliest in its place.
type TokenTold = (u32, Option<u32>, Vec<(u32, u32)>);

/// All that is told of a text.
#[derive(Debug, PartialEq)]
struct Told {
    tokens: Vec<u32>,
    finish: Finish,
    text: String,
    /// Of its tokens.
    details: Vec<TokenTold>,
}

fn told(scheduler: &mut Scheduler<Cpu>, job: Job) -> Told {
    let id = scheduler.submit(job).unwrap();
    let (mut text, mut details, mut done) = (String::new(), Vec::new(), None);
    while !scheduler.is_idle() {
        scheduler.step(&mut |of, event| {
            assert_eq!(of, id);
            match event {
                JobEvent::Text(Event::Text(piece)) => text.push_str(piece),
                JobEvent::Text(Event::Token { id, log_probs }) => {
                    let bits = log_probs.map(|found| found.drawn.to_bits());
                    let top = log_probs.map_or(&[][..], |found| &found.top);
                    let top = top.iter().map(|(id, p)| (*id, p.to_bits())).collect();
                    details.push((id, bits, top));
                }
                JobEvent::Text(_) => {}
                JobEvent::Done(summary) => done = Some(summary),
                JobEvent::Failed(error) => panic!("{error}"),
            }
            ControlFlow::Continue(())
        });
    }
    let summary = done.unwrap();
    Told { tokens: summary.tokens, finish: summary.finish, text, details }
}

/// What a job gets with each way of drafting, which must be the same.
fn same(job: &Job) -> Told {
    let mut scheduler = scheduler(1, Limits::default());
    let mut first: Option<Told> = None;
    for drafts in ["off", "mtp:3", "lookup", "mtp+lookup:8", "adaptive"] {
        let drafts_mode = drafts.parse().unwrap();
        let found = told(&mut scheduler, Job { drafts: drafts_mode, ..job.clone() });
        match &first {
            Some(first) => assert_eq!(&found, first, "{drafts}"),
            None => first = Some(found),
        }
    }
    first.unwrap()
}

fn story(max_tokens: usize, rules: Rules) -> Job {
    Job { rules, ..job(&sample(1, 8).1, "Once upon a time", max_tokens) }
}

#[test]
fn token_details_are_the_same_with_any_drafts_and_name_every_token() {
    let drawn = SamplingParams { temperature: 0.9, seed: 4, ..SamplingParams::default() };
    for sampling in [SamplingParams::default(), drawn] {
        let plain = Job { sampling, ..story(40, Rules::default()) };
        let expected = same(&plain);
        assert_eq!(expected.details, []);
        for detail in [Detail::Tokens, Detail::LogProbs(0), Detail::LogProbs(5)] {
            let rules = Rules { detail, ..Rules::default() };
            let found = same(&Job { rules, ..plain.clone() });
            assert_eq!((&found.tokens, &found.text), (&expected.tokens, &expected.text));
            let ids: Vec<u32> = found.details.iter().map(|detail| detail.0).collect();
            assert_eq!(ids, found.tokens);
            for (id, drawn, top) in &found.details {
                let Detail::LogProbs(count) = detail else {
                    assert_eq!((drawn, top.len()), (&None, 0));
                    continue;
                };
                assert_eq!(top.len(), count);
                assert!(f32::from_bits(drawn.unwrap()) <= 0.0);
                let greedy = plain.sampling.temperature == 0.0 && count > 0;
                assert!(!greedy || top[0] == (*id, drawn.unwrap()));
            }
        }
    }
}

#[test]
fn a_text_cannot_end_before_its_least_length() {
    let sampling = SamplingParams { logit_bias: bias_to_end(), ..SamplingParams::default() };
    let ended = same(&Job { sampling: sampling.clone(), ..story(40, Rules::default()) });
    assert!(matches!(ended.finish, Finish::EndOfText(_)) && ended.tokens.len() == 1);
    let rules = Rules { min_tokens: 12, ..Rules::default() };
    let found = same(&Job { sampling, ..story(40, rules) });
    assert!(matches!(found.finish, Finish::EndOfText(_)), "{:?}", found.finish);
    assert_eq!(found.tokens.len(), 13);
}

fn bias_to_end() -> Vec<(u32, f32)> {
    sample(1, 8).1.stop_ids().iter().map(|id| (*id, 100.0)).collect()
}

#[test]
fn a_reasoning_budget_ends_reasoning_after_so_many_tokens() {
    let (_, tokenizer) = sample(1, 8);
    let tag = tokenizer.token_id("</think>").unwrap();
    let close =
        [tokenizer.encode("\n", model::tokenizer::SpecialTokens::AsText).unwrap(), vec![tag]];
    let close = close.concat();
    let free = same(&story(30, Rules::default()));
    assert!(!free.tokens.contains(&tag));
    for tokens in [0, 1, 7, 29] {
        let reasoning = Some(ReasoningBudget { tokens, tag, close: close.clone() });
        let found = same(&story(30, Rules { reasoning, ..Rules::default() }));
        assert_eq!(found.tokens[..tokens], free.tokens[..tokens]);
        let forced = &found.tokens[tokens..(tokens + close.len()).min(30)];
        assert_eq!(forced, &close[..forced.len()]);
    }
    // Nothing is forced where the budget is not reached.
    let reasoning = Some(ReasoningBudget { tokens: 30, tag, close });
    let found = same(&story(30, Rules { reasoning, ..Rules::default() }));
    assert_eq!(found.tokens, free.tokens);
}

#[test]
fn fault_121_a_loop_of_one_token_ends_with_a_reason_of_its_own() {
    let token = 300;
    let sampling = SamplingParams { logit_bias: vec![(token, 1e6)], ..SamplingParams::default() };
    let rules = Rules { loop_tokens: 50, ..Rules::default() };
    let found = same(&Job { sampling: sampling.clone(), ..story(200, rules) });
    assert_eq!((found.finish, found.tokens), (Finish::Repetition, vec![token; 50]));
    let found = same(&Job { sampling, ..story(120, Rules::default()) });
    assert_eq!((found.finish, found.tokens.len()), (Finish::Length, 120));
}

#[test]
fn slots_can_be_watched() {
    let mut scheduler = scheduler(2, Limits::default());
    let id = scheduler.submit(story(6, Rules::default())).unwrap();
    let mut quiet = |_, _: JobEvent<'_>| ControlFlow::Continue(());
    assert_eq!(scheduler.slots().collect::<Vec<_>>(), [SlotView::Free { held: 0 }; 2]);
    scheduler.step(&mut quiet);
    let first = scheduler.slots().next().unwrap();
    assert!(matches!(first, SlotView::Answer { job, drawn: 1, .. } if job == id), "{first:?}");
    while !scheduler.is_idle() {
        scheduler.step(&mut quiet);
    }
    assert!(matches!(scheduler.slots().next(), Some(SlotView::Free { held }) if held > 4));
}

#[test]
fn an_answer_begins_as_it_must() {
    let tokens = vec![300, 301, 302];
    let opening = Some(Opening { after: None, tokens: tokens.clone() });
    let found = same(&story(20, Rules { opening, ..Rules::default() }));
    assert_eq!((&found.tokens[..3], found.tokens.len()), (&tokens[..], 20));
    // Behind a token that comes by itself.
    let free = same(&story(20, Rules::default()));
    let at = free.tokens.iter().position(|token| *token == free.tokens[8]).unwrap();
    let opening = Some(Opening { after: Some(free.tokens[at]), tokens: tokens.clone() });
    let found = same(&story(20, Rules { opening, ..Rules::default() }));
    assert_eq!(found.tokens[..=at], free.tokens[..=at]);
    assert_eq!(found.tokens[at + 1..at + 4], tokens);
}

/// A grammar that allows a third of the vocabulary, another one after each token; a text may end
/// after `least` tokens and is complete after `most`.
#[derive(Clone, Debug)]
struct Thirds {
    ends: Vec<u32>,
    vocab: u32,
    least: usize,
    most: usize,
    taken: Vec<u32>,
}

impl Thirds {
    fn rule(least: usize, most: usize) -> Constraint {
        let (vocab, tokenizer) = sample(1, 8);
        let vocab = vocab.hyper_params().vocab as u32;
        let (ends, taken) = (tokenizer.stop_ids().to_vec(), Vec::new());
        Constraint(Arc::new(Self { ends, vocab, least, most, taken }))
    }

    fn allows(&self, token: u32) -> bool {
        let sum = self.taken.iter().fold(7, |sum: u32, &t| sum.wrapping_mul(31).wrapping_add(t));
        match self.ends.contains(&token) {
            true => self.taken.len() >= self.least,
            false => token.wrapping_add(sum) % 3 == 0,
        }
    }
}

impl Grammar for Thirds {
    fn begin(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

impl Matcher for Thirds {
    fn allowed(&mut self) -> Result<TokenSet, String> {
        let mut set = TokenSet::default();
        (0..self.vocab).filter(|&token| self.allows(token)).for_each(|token| set.insert(token));
        Ok(set)
    }

    fn push(&mut self, token: u32) -> Result<(), String> {
        assert!(self.allows(token), "{token} after {:?}", self.taken);
        self.taken.push(token);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.taken.len() >= self.most
    }
}

#[test]
fn fault_094_a_grammar_is_kept_to_with_any_drafts() {
    let drawn = SamplingParams { temperature: 0.9, seed: 4, ..SamplingParams::default() };
    let (_, tokenizer) = sample(1, 8);
    let tag = tokenizer.token_id("</think>").unwrap();
    for sampling in [SamplingParams::default(), drawn] {
        let grammar = Some(Thirds::rule(0, 30));
        let rules = Rules { grammar, ..Rules::default() };
        let found = same(&Job { sampling: sampling.clone(), ..story(40, rules.clone()) });
        assert!(found.finish == Finish::Complete && found.tokens.len() == 30 || ended(&found));
        let cut = same(&Job { sampling: sampling.clone(), ..story(20, rules) });
        assert_eq!((&cut.tokens[..], cut.finish), (&found.tokens[..20], Finish::Length));

        // Behind reasoning that a budget ends, and an opening.
        let reasoning = Some(ReasoningBudget { tokens: 5, tag, close: vec![tag, 300] });
        let opening = Some(Opening { after: Some(tag), tokens: vec![300, 301] });
        let grammar = Some(Thirds::rule(9, 12));
        let rules = Rules { reasoning, opening, grammar, ..Rules::default() };
        let bias = bias_to_end();
        let found = same(&Job { sampling: sampling.clone(), ..story(40, rules.clone()) });
        assert_eq!(found.tokens[5..8], [tag, 300, 301]);
        assert!(found.finish == Finish::Complete && found.tokens.len() == 20 || ended(&found));
        // It cannot end before the grammar lets it, and then it does.
        let sampling = SamplingParams { logit_bias: bias, ..sampling };
        let found = same(&Job { sampling, ..story(40, rules) });
        assert!(ended(&found) && found.tokens.len() == 8 + 9 + 1, "{found:?}");
    }
}

fn ended(told: &Told) -> bool {
    matches!(told.finish, Finish::EndOfText(_))
}

#[test]
fn a_grammar_that_fails_fails_its_text_alone() {
    #[derive(Clone, Debug)]
    struct Fails(usize);
    impl Grammar for Fails {
        fn begin(&self) -> Box<dyn Matcher> {
            Box::new(self.clone())
        }
    }
    impl Matcher for Fails {
        fn allowed(&mut self) -> Result<TokenSet, String> {
            if self.0 == 0 { Err("too large".to_owned()) } else { Ok(TokenSet(vec![!0; 1000])) }
        }
        fn push(&mut self, _: u32) -> Result<(), String> {
            self.0 -= 1;
            Ok(())
        }
        fn is_complete(&self) -> bool {
            false
        }
    }
    let mut scheduler = scheduler(2, Limits::default());
    let grammar = Some(Constraint(Arc::new(Fails(6))));
    let bad = scheduler.submit(story(20, Rules { grammar, ..Rules::default() })).unwrap();
    let nothing = Some(Constraint(Arc::new(Thirds {
        ends: vec![],
        vocab: 0,
        least: 0,
        most: 9,
        taken: vec![],
    })));
    let empty =
        scheduler.submit(story(20, Rules { grammar: nothing, ..Rules::default() })).unwrap();
    let good = scheduler.submit(story(20, Rules::default())).unwrap();
    let (mut failed, mut done) = (Vec::new(), Vec::new());
    while !scheduler.is_idle() {
        scheduler.step(&mut |id, event| {
            match event {
                JobEvent::Failed(error) => failed.push((id, error.to_string())),
                JobEvent::Done(summary) => done.push((id, summary.tokens)),
                JobEvent::Text(_) => {}
            }
            ControlFlow::Continue(())
        });
    }
    assert_eq!(failed.len(), 2);
    let told = |id| failed.iter().find(|(of, _)| *of == id).unwrap().1.clone();
    assert!(told(bad).contains("too large") && told(empty).contains("no token may follow"));
    assert_eq!(done, [(good, same(&story(20, Rules::default())).tokens)]);
}
