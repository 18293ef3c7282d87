//! Who drafts: damaged blocks and proposers that keep no rule change nothing, and what drafts are
//! drawn from is what they are meant to be drawn from.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::prompt;
use common::turns::*;
use cpu::Cpu;
use engine::speculation::{
    Ask, Drafter, Drafts, Head, NoDrafts, Proposer, Round, Source, SpecMode,
};
use engine::{Context, DraftStep, Engine, Error, Finish, Request, SamplingParams, Want};
use model::DraftVocab;

const PROMPT: &str = "eos";
#[test]
fn proposers_that_keep_no_rule_change_nothing() {
    struct Unruly(u32);
    impl Proposer<Cpu> for Unruly {
        fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
            self.0 += 1;
            ask.output.extend([1, 2, 3]);
            let mut tokens = vec![7; 40];
            tokens[self.0 as usize % 9] = u32::MAX;
            Ok(Drafts { tokens, left_out: vec![u32::MAX], matched: 99, ..Drafts::default() })
        }
    }
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(13));
    let request = Request { prompt: &prompt, sampling, ..Request::default() };
    let mut engine = model.engine(prompt.len() + 30, 32);
    let plain = model.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
    assert_eq!(plain.end.as_ref().unwrap().0, Finish::ContextFull);
    engine.reset(0).unwrap();
    assert_eq!(model.turn(&mut engine, &mut Unruly(0), &request, usize::MAX), plain);
}

#[test]
fn a_note_may_be_where_a_text_is_broken_off() {
    struct Noting(Oracle);
    impl Proposer<Cpu> for Noting {
        fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
            self.0.propose(ask)
        }
        fn observe(&mut self, _: &Round<'_>, _: &[u32]) -> Option<String> {
            Some("a note".to_owned())
        }
    }
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let text = model.plain(&prompt, &SamplingParams::default());
    let request = Request { prompt: &prompt, max_tokens: Some(20), ..Request::default() };
    let mut engine = model.engine(CONTEXT, 32);
    let mut noting = Noting(Oracle { texts: vec![text], plan: |_| (2, 4), rounds: 0 });
    let all = model.turn(&mut engine, &mut noting, &request, usize::MAX).events;
    let notes = all.iter().enumerate().filter(|(_, event)| event.starts_with("Note"));
    for (at, _) in notes {
        engine.reset(0).unwrap();
        noting.0.rounds = 0;
        let found = model.turn(&mut engine, &mut noting, &request, at);
        assert_eq!(found.events, all[..=at]);
        if at + 1 < all.len() {
            assert_eq!(found.end.unwrap().0, Finish::Cancelled);
        }
    }
}

#[test]
fn a_damaged_drafting_block_only_stops_drafting() {
    for value in [f32::NAN, f32::INFINITY] {
        for part in 0..9 {
            let mut model = Model::tiny();
            let mtp = model.checkpoint.mtp.as_mut().unwrap();
            let model::Mixer::Attention(attention) = &mut mtp.layer.mixer else { panic!() };
            match part {
                0 => put(&mut mtp.eh_proj, 0, value),
                1 => put(&mut mtp.layer.moe.router, 0, value),
                2 => put(&mut attention.q, 0, value),
                3 => put(&mut attention.k, 0, value),
                4 => put(&mut mtp.head.down, 0, value),
                5 => put(&mut mtp.layer.moe.down, 0, value),
                6 => put(&mut attention.v, 0, value),
                7 => put(&mut mtp.layer.hc_ffn.inject, 0, value),
                _ => {
                    let mut own = model.checkpoint.output.clone();
                    put(&mut own, 17, value);
                    mtp.head_out = Some(own);
                }
            }
            let prompt = prompt("tiny-f32", "budget_edge");
            for sampling in [endless(&model, &hot(2)), endless(&model, &SamplingParams::default())]
            {
                let request = Request {
                    prompt: &prompt,
                    max_tokens: Some(40),
                    sampling,
                    ..Request::default()
                };
                let mut engine = model.engine(CONTEXT, 32);
                let plain = model.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
                assert!(plain.end.is_ok());
                engine.reset(0).unwrap();
                let mut drafter = Drafter::new("mtp:4".parse().unwrap(), &engine);
                let found = model.turn(&mut engine, &mut drafter, &request, usize::MAX);
                assert_eq!(found, plain);
            }
        }
    }
}

#[test]
fn drafts_are_drawn_with_the_noise_of_the_positions_that_they_are_for() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let (sampling, depth) = (hot(12), 6);
    let mut engine = model.engine(CONTEXT, 32);
    let vocab = engine.hyper_params().vocab;
    for share in [1, 3] {
        let start = |engine: &mut Engine<Cpu>| {
            engine.reset(0).unwrap();
            engine.prefill(0, &prompt, Want::Nothing).unwrap();
        };
        start(&mut engine);
        // A draw from the block's logits, of the tokens that it may draft, is what plain sampling
        // makes of them at the token's place.
        let mut expected = vec![42];
        while expected.len() <= depth {
            let (mut logits, token) = (Vec::new(), expected[expected.len() - 1]);
            engine.draft(&[DraftStep { slot: 0, token }], Head::Full, &mut logits).unwrap();
            let outside = logits.iter_mut().enumerate().filter(|(id, _)| id % share > 0);
            outside.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
            let context = Context { prompt: &prompt, output: &expected };
            let position = prompt.len() + expected.len();
            expected.push(sampling.sample(&mut logits, &context, position).unwrap());
        }
        start(&mut engine);
        if share > 1 {
            let ids = (0..vocab as u32).step_by(share).collect();
            let ids = DraftVocab::new(ids, vocab).unwrap();
            engine.load_draft_vocab(&model.checkpoint, ids).unwrap();
        }
        let mut drafter = Drafter::new(SpecMode::Mtp { depth }, &engine);
        let (engine, mut output) = (&mut engine, vec![42]);
        let (prompt, output, sampling) = (&prompt[..], &mut output, &sampling);
        let ask = Ask { engine, slot: 0, prompt, output, sampling, room: 8 };
        assert_eq!(drafter.propose(ask).unwrap().tokens, expected[1..], "one of {share} tokens");
        assert_eq!(*output, [42]);
    }
}

#[test]
fn drafts_in_vain_from_a_part_of_the_vocabulary_bring_the_whole_one() {
    let model = Model::tiny();
    let mut engine = model.engine(CONTEXT, 32);
    let vocab = engine.hyper_params().vocab;
    let ids = DraftVocab::new(vec![1, 2, 3], vocab).unwrap();
    engine.load_draft_vocab(&model.checkpoint, ids).unwrap();
    let mut drafter = Drafter::new(SpecMode::Mtp { depth: 1 }, &engine);
    let mut note = |token: u32, accepted: usize| {
        let round = Round { source: Source::Mtp, drafted: 1, accepted, ..Round::default() };
        let proposer: &mut dyn Proposer<Cpu> = &mut drafter;
        // What is drawn behind the drafts was not there to be drafted.
        proposer.observe(&round, &[token, 200])
    };
    assert!((0..100).all(|i| note(1 + i % 3, 1).is_none()), "all are inside");
    let switch = (0..100).find_map(|i| if i % 2 == 0 { note(2, 1) } else { note(77, 0) });
    assert!(switch.unwrap().contains("the full vocabulary"));
}

#[test]
fn a_draft_left_out_is_judged_where_all_before_it_were_right() {
    /// Two drafts, and one more that is left out: right ones, but for the places given.
    struct LeavingOut {
        text: Vec<u32>,
        wrong: Option<usize>,
        hits: Vec<Option<bool>>,
    }
    impl Proposer<Cpu> for LeavingOut {
        fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
            let coming = &self.text[ask.prompt.len() + ask.output.len()..][..3];
            let mut tokens = coming.to_vec();
            if let Some(wrong) = self.wrong {
                tokens[wrong] = (tokens[wrong] + 1) % 256;
            }
            let left_out = tokens.split_off(2);
            Ok(Drafts { source: Source::Mtp, tokens, left_out, ..Drafts::default() })
        }

        fn observe(&mut self, round: &Round<'_>, _: &[u32]) -> Option<String> {
            self.hits.push(round.left_out_hit);
            None
        }
    }
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &SamplingParams::default());
    let text = model.plain(&prompt, &sampling);
    for (wrong, hit) in [(None, Some(true)), (Some(2), Some(false)), (Some(1), None)] {
        let mut proposer = LeavingOut { text: text.clone(), wrong, hits: Vec::new() };
        let (sampling, max_tokens) = (sampling.clone(), Some(13));
        let request = Request { prompt: &prompt, max_tokens, sampling, ..Request::default() };
        model.turn(&mut model.engine(CONTEXT, 32), &mut proposer, &request, usize::MAX);
        assert!(proposer.hits.len() >= 4);
        assert!(proposer.hits.iter().all(|&found| found == hit), "{:?}", proposer.hits);
    }
}
