//! Many requests at once with a prompt cache: each gets the bytes of a run of its own, and nothing
//! is computed twice.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::jobs::*;
use cpu::Cpu;
use engine::batch::{Job, JobId, Limits, Scheduler};
use engine::cache::StateCache;
use engine::speculation::SpecMode;
use engine::{Finish, SamplingParams};
use model::tokenizer::SpecialTokens;

const ROOMY: usize = 256 << 20;

fn cached(slots: usize, chunk: usize, budget: usize) -> Scheduler<Cpu> {
    let (engine, tokenizer) = sample(slots, chunk);
    let cache = StateCache::for_states(budget);
    Scheduler::new(engine, tokenizer, Limits::default()).with_cache(cache)
}

/// A beginning that is worth saving.
fn preface() -> String {
    "Once upon a time there was a king who had three daughters and a garden. ".repeat(8)
}

fn submit(scheduler: &mut Scheduler<Cpu>, job: &Job) -> JobId {
    scheduler.submit(job.clone()).unwrap()
}

#[test]
fn fault_019_thirty_two_identical_requests_are_computed_once() {
    for drafts in ["off", "mtp:2", "adaptive"] {
        let drafts: SpecMode = drafts.parse().unwrap();
        let mut scheduler = cached(8, 48, ROOMY);
        let job = Job { drafts, ..job(scheduler.tokenizer(), &preface(), 24) };
        let expected = solo(std::slice::from_ref(&job)).remove(0);
        let ids: Vec<JobId> = (0..32).map(|_| submit(&mut scheduler, &job)).collect();
        let mut log = Log::default();
        log.run(&mut scheduler);
        for id in &ids {
            assert_eq!(log.text(*id), expected.1, "{drafts}");
            assert_eq!(log.done[id].tokens, expected.0, "{drafts}");
        }
        let len = job.prompt.len();
        assert!(len > 100, "long enough to be worth it");
        // The first computes it; of the others each its last token, which logits follow from.
        let prefilled: Vec<usize> = ids.iter().map(|id| log.done[id].prefilled).collect();
        assert_eq!((prefilled[0], &prefilled[1..]), (len, &[1; 31][..]), "{drafts}");
        let totals = scheduler.totals();
        assert_eq!((totals.prefilled, totals.reused), (len as u64 + 31, 31 * (len as u64 - 1)));
    }
}

/// Sixteen requests with a common beginning, each with a word of its own.
fn common_beginning(scheduler: &Scheduler<Cpu>) -> Vec<Job> {
    let preface = scheduler.tokenizer().encode(&preface(), SpecialTokens::AsText).unwrap();
    let mut jobs = sixteen(scheduler.tokenizer());
    for job in &mut jobs {
        job.prompt.splice(0..0, preface.iter().copied());
        job.boundaries = vec![preface.len()];
    }
    jobs
}

#[test]
fn sixteen_code_words_behind_a_common_beginning() {
    let jobs = common_beginning(&cached(1, 48, 0));
    let expected = solo(&jobs);
    for (slots, chunk, budget) in
        [(16, 48, ROOMY), (5, 48, ROOMY), (3, 9, ROOMY), (6, 48, 1 << 20), (4, 48, 100 << 10)]
    {
        for marked in [true, false] {
            let mut scheduler = cached(slots, chunk, budget);
            let mut log = Log::default();
            let mut ids = Vec::new();
            for job in &jobs {
                let boundaries = if marked { job.boundaries.clone() } else { Vec::new() };
                ids.push(submit(&mut scheduler, &Job { boundaries, ..job.clone() }));
            }
            log.run(&mut scheduler);
            for (i, (id, expected)) in ids.iter().zip(&expected).enumerate() {
                let what = format!("request {i}, {slots} slots, {budget} bytes, {marked}");
                assert_eq!(log.done[id].tokens, expected.0, "{what}");
                assert_eq!(log.text(*id), expected.1, "{what}");
            }
            let cache = scheduler.cache().unwrap();
            assert!(cache.bytes() <= budget);
            let all: u64 = jobs.iter().map(|job| job.prompt.len() as u64).sum();
            let totals = scheduler.totals();
            assert_eq!(totals.prefilled + totals.reused, all);
            let preface = jobs[0].boundaries[0] as u64;
            let spared = if budget == ROOMY { 15 * preface } else { 0 };
            assert!(totals.reused >= spared, "{} of {all} tokens spared", totals.reused);
        }
    }
    // A foreign answer would show: no two are alike.
    let texts: std::collections::HashSet<&str> =
        expected.iter().map(|(_, text)| &text[..]).collect();
    assert_eq!(texts.len(), expected.len());
}

#[test]
fn fault_064_a_follow_up_turn_computes_its_own_tokens_only() {
    for drafts in ["off", "mtp:3", "adaptive"] {
        let drafts: SpecMode = drafts.parse().unwrap();
        let mut scheduler = cached(2, 48, ROOMY);
        let mut log = Log::default();
        let first = Job { drafts, ..job(scheduler.tokenizer(), &preface(), 20) };
        let one = submit(&mut scheduler, &first);
        log.run(&mut scheduler);
        let answer = log.done[&one].tokens.clone();
        let question = scheduler.tokenizer().encode(" And then", SpecialTokens::AsText).unwrap();
        let prompt = [&first.prompt[..], &answer, &question].concat();
        let second = Job { prompt, ..first.clone() };
        // Others use every slot meanwhile.
        for job in sixteen(scheduler.tokenizer()).iter().take(6) {
            submit(&mut scheduler, job);
        }
        log.run(&mut scheduler);
        let two = submit(&mut scheduler, &second);
        log.run(&mut scheduler);
        let summary = &log.done[&two];
        // The answer's last token was drawn and never fed.
        assert_eq!(summary.prefilled, question.len() + 1, "{drafts}");
        assert_eq!(summary.reused, first.prompt.len() + answer.len() - 1, "{drafts}");
        assert_eq!(summary.tokens, solo(&[second]).remove(0).0, "{drafts}");
    }
}

#[test]
fn fault_065_a_shortened_prompt_is_a_miss() {
    let mut scheduler = cached(1, 48, ROOMY);
    let long = job(scheduler.tokenizer(), &preface(), 6);
    let mut log = Log::default();
    submit(&mut scheduler, &long);
    log.run(&mut scheduler);
    let short = Job { prompt: long.prompt[..40].to_vec(), ..long.clone() };
    let id = submit(&mut scheduler, &short);
    log.run(&mut scheduler);
    assert_eq!((log.done[&id].reused, log.done[&id].prefilled), (0, 40));
    assert_eq!(log.done[&id].tokens, solo(&[short]).remove(0).0);
}

#[test]
fn who_waits_for_a_prompt_that_is_broken_off_goes_on_alone() {
    let mut scheduler = cached(3, 16, ROOMY);
    let job = job(scheduler.tokenizer(), &preface(), 8);
    let expected = solo(std::slice::from_ref(&job)).remove(0);
    let ids: Vec<JobId> = (0..3).map(|_| submit(&mut scheduler, &job)).collect();
    let mut log = Log::default();
    for _ in 0..3 {
        log.step(&mut scheduler);
    }
    assert_eq!(scheduler.totals().prefilled, 48, "one computes, two wait");
    scheduler.cancel(ids[0]);
    log.run(&mut scheduler);
    assert_eq!(
        (log.done[&ids[0]].finish.clone(), log.done[&ids[0]].prefilled),
        (Finish::Cancelled, 48)
    );
    // What it had computed is not lost.
    assert_eq!((log.done[&ids[1]].reused, log.done[&ids[2]].prefilled), (48, 1));
    for id in &ids[1..] {
        assert_eq!(log.done[id].tokens, expected.0);
    }
}

#[test]
fn who_waited_for_the_same_prompt_waits_for_each_other_when_it_is_broken_off() {
    let mut scheduler = cached(4, 16, ROOMY);
    let jobs: Vec<Job> = common_beginning(&scheduler)[..4]
        .iter()
        .map(|job| Job { boundaries: Vec::new(), ..job.clone() })
        .collect();
    let expected = solo(&jobs);
    let common = common_beginning(&scheduler)[0].boundaries[0];
    let ids: Vec<JobId> = jobs.iter().map(|job| submit(&mut scheduler, job)).collect();
    let mut log = Log::default();
    log.step(&mut scheduler);
    scheduler.cancel(ids[0]);
    log.run(&mut scheduler);
    let own: usize = jobs[1..].iter().map(|job| job.prompt.len() - common).sum();
    // Sixteen tokens by the first, the rest by the second; nobody computes it beside another. The
    // code words begin with what they have in common, too.
    assert!(scheduler.totals().prefilled as usize <= common + own, "{:?}", scheduler.totals());
    for (id, expected) in ids.iter().zip(&expected).skip(1) {
        assert_eq!(log.done[id].tokens, expected.0);
    }
}

#[test]
fn what_is_reused_twice_by_one_request_counts_once() {
    let mut scheduler = cached(3, 48, ROOMY);
    let long = job(scheduler.tokenizer(), &preface(), 2);
    let short = Job { prompt: long.prompt[..40].to_vec(), ..long.clone() };
    let mut log = Log::default();
    submit(&mut scheduler, &short);
    log.run(&mut scheduler);
    // Both have the beginning; then one waits for what the other computes.
    let ids = [&long, &long].map(|job| submit(&mut scheduler, job));
    log.run(&mut scheduler);
    let reused = ids.map(|id| log.done[&id].reused);
    assert!(0 < reused[0] && reused[0] < reused[1]);
    assert_eq!(scheduler.totals().reused, (reused[0] + reused[1]) as u64);
}

#[test]
fn whatever_boundaries_are_given_texts_are_the_same_and_end() {
    let mut one = job(cached(1, 48, 0).tokenizer(), &preface(), 4);
    let len = 130;
    one.prompt.truncate(len);
    let with = |prompt: &[u32], boundaries: Vec<usize>, max_tokens| Job {
        prompt: prompt.to_vec(),
        boundaries,
        max_tokens: Some(max_tokens),
        ..one.clone()
    };
    let more = [&one.prompt[..], &[301]].concat();
    let jobs = [
        with(&one.prompt, vec![len, 90, 5, 5, 90, usize::MAX, 0, 64, 64], 4),
        with(&more, vec![len, len, len + 1, 1], 4),
        with(&one.prompt[..len - 1], vec![usize::MAX; 3], 1),
        with(&one.prompt, (0..2 * len).rev().collect(), 0),
        with(&[&one.prompt[..100], &[301, 302]].concat(), vec![101, 100, 99], 4),
        with(&more, Vec::new(), 4),
    ];
    let expected = solo(&jobs);
    // What one state of the longest prompt takes, to the byte.
    let exact = {
        let mut scheduler = cached(1, 48, ROOMY);
        submit(&mut scheduler, &with(&more, vec![len], 1));
        Log::default().run(&mut scheduler);
        scheduler.cache().unwrap().bytes() / 2
    };
    for (slots, chunk, budget) in [(6, 48, ROOMY), (2, 7, ROOMY), (3, 48, exact), (3, 5, 1)] {
        let mut scheduler = cached(slots, chunk, budget);
        let ids: Vec<JobId> = jobs.iter().map(|job| submit(&mut scheduler, job)).collect();
        let (mut log, mut steps) = (Log::default(), 0);
        while !scheduler.is_idle() {
            log.step(&mut scheduler);
            assert!(scheduler.cache().unwrap().bytes() <= budget);
            steps += 1;
            assert!(steps < 4 * 6 * len, "somebody waits for ever");
        }
        for (id, (job, expected)) in ids.iter().zip(jobs.iter().zip(&expected)) {
            let summary = &log.done[id];
            assert_eq!(summary.tokens, expected.0, "{slots} slots, {budget} bytes");
            let computed = if job.max_tokens == Some(0) { 0 } else { job.prompt.len() };
            assert_eq!(summary.reused + summary.prefilled, computed);
        }
    }
}

#[test]
fn a_request_is_given_the_slot_that_holds_its_text() {
    let mut scheduler = cached(3, 48, 0);
    assert!(scheduler.cache().is_none());
    let mut log = Log::default();
    let jobs: Vec<Job> = ["Once upon a time", "It was a dark", "The little dog"]
        .map(|text| job(scheduler.tokenizer(), text, 10))
        .to_vec();
    let ids: Vec<JobId> = jobs.iter().map(|job| submit(&mut scheduler, job)).collect();
    log.run(&mut scheduler);
    for i in [1, 0, 2] {
        let answer = &log.done[&ids[i]].tokens;
        let prompt = [&jobs[i].prompt[..], answer, &[300, 301]].concat();
        let next = Job { prompt, ..jobs[i].clone() };
        let id = submit(&mut scheduler, &next);
        log.run(&mut scheduler);
        assert_eq!(log.done[&id].prefilled, 3);
        assert_eq!(log.done[&id].tokens, solo(&[next]).remove(0).0);
    }
}

#[test]
fn idle_slots_give_their_memory_to_who_needs_it() {
    let (engine, tokenizer) = sample(3, 48);
    let per_token = engine.cache_bytes_per_token();
    let limits = Limits { cache_bytes: Some(100 * per_token), ..Limits::default() };
    let mut scheduler = Scheduler::new(engine, tokenizer, limits);
    let of = |first: u32, prompt: usize, tokens: usize| Job {
        prompt: vec![first; prompt],
        max_tokens: Some(tokens),
        sampling: SamplingParams { logit_bias: vec![(300, 100.0)], ..Default::default() },
        ..Job::default()
    };
    let mut log = Log::default();
    for first in [310, 320, 330] {
        submit(&mut scheduler, &of(first, 25, 5));
        log.run(&mut scheduler);
    }
    // 29 tokens each are held; 60 leave room for one of the three.
    submit(&mut scheduler, &of(320, 55, 5));
    log.run(&mut scheduler);
    let (engine, _) = scheduler.into_parts();
    let held: usize = (0..3).map(|slot| engine.history(slot).unwrap().len()).sum();
    assert!(held <= 100, "{held} tokens");
    assert!((0..3).any(|slot| engine.history(slot).unwrap().first() == Some(&330)));
}
