//! Many requests at once: each gets the bytes of a run of its own, and nobody stands in another's
//! way.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::jobs::*;
use cpu::Cpu;
use engine::batch::{Job, JobEvent, JobId, Limits, Refused, Scheduler};
use engine::speculation::SpecMode;
use engine::{Error, Event, Finish, SamplingError, SamplingParams};
use std::ops::ControlFlow;

#[test]
fn fault_019_thirty_two_identical_requests_give_one_answer() {
    for drafts in ["off", "mtp:2", "adaptive"] {
        let drafts: SpecMode = drafts.parse().unwrap();
        let mut scheduler = scheduler(8, Limits::default());
        let job = Job { drafts, ..job(scheduler.tokenizer(), "Once upon a time there was", 24) };
        let expected = solo(std::slice::from_ref(&job)).remove(0);
        let ids: Vec<JobId> = (0..32).map(|_| scheduler.submit(job.clone()).unwrap()).collect();
        let mut log = Log::default();
        log.run(&mut scheduler);
        for id in ids {
            assert_eq!(log.text(id), expected.1, "{drafts}");
            assert_eq!(log.done[&id].tokens, expected.0, "{drafts}");
        }
        let totals = scheduler.totals();
        assert_eq!((totals.ended, totals.refused), (32, 0));
        assert_eq!(totals.prefilled, 32 * job.prompt.len() as u64);
    }
}

#[test]
fn fault_142_sixteen_different_requests_are_each_as_alone() {
    let jobs = sixteen(&sample(1, 8).1);
    let expected = solo(&jobs);
    for (slots, chunk) in [(16, 48), (5, 48), (3, 9)] {
        let (engine, tokenizer) = sample(slots, chunk);
        let mut scheduler = Scheduler::new(engine, tokenizer, Limits::default());
        let mut log = Log::default();
        let mut ids = Vec::new();
        // They come one by one while others are at work.
        for job in &jobs {
            ids.push(scheduler.submit(job.clone()).unwrap());
            log.step(&mut scheduler);
        }
        log.run(&mut scheduler);
        for (i, (id, expected)) in ids.iter().zip(&expected).enumerate() {
            assert_eq!(log.done[id].tokens, expected.0, "request {i} on {slots} slots");
            assert_eq!(log.text(*id), expected.1, "request {i} on {slots} slots");
        }
    }
}

#[test]
fn fault_104_a_cancelled_request_goes_alone() {
    let mut scheduler = scheduler(2, Limits::default());
    let jobs = sixteen(scheduler.tokenizer());
    let expected = solo(&jobs[..4]);
    let mut log = Log::default();
    let ids: Vec<JobId> =
        jobs[..4].iter().map(|job| scheduler.submit(job.clone()).unwrap()).collect();
    log.step(&mut scheduler);
    // One that waits, then one that is live.
    assert!(scheduler.cancel(ids[2]));
    assert!(!scheduler.cancel(ids[2]));
    assert!(scheduler.cancel(ids[0]));
    log.run(&mut scheduler);
    assert_eq!(log.done[&ids[0]].finish, Finish::Cancelled);
    assert!(!log.done.contains_key(&ids[2]) && log.text(ids[2]).is_empty());
    for i in [1, 3] {
        assert_eq!(log.done[&ids[i]].tokens, expected[i].0, "request {i}");
    }
    assert!(!scheduler.cancel(ids[1]));
}

#[test]
fn fault_103_a_cancel_frees_the_slot_within_one_step_wherever_it_comes() {
    for drafts in ["off", "mtp:4"] {
        let drafts: SpecMode = drafts.parse().unwrap();
        // After so many steps: in the middle of the prompt, at its end, in rounds of the answer.
        for steps in [0, 1, 2, 5, 9] {
            let mut scheduler = scheduler(1, Limits::default());
            let long = "Once upon a time there was a king. ".repeat(10);
            let job = Job { drafts, ..job(scheduler.tokenizer(), &long, 100) };
            let expected = solo(std::slice::from_ref(&job)).remove(0);
            let mut log = Log::default();
            let first = scheduler.submit(job.clone()).unwrap();
            let next = scheduler.submit(job.clone()).unwrap();
            for _ in 0..steps {
                log.step(&mut scheduler);
            }
            assert!(scheduler.cancel(first));
            log.step(&mut scheduler);
            assert_eq!((scheduler.live(), scheduler.waiting()), (1, 0), "after {steps} steps");
            log.run(&mut scheduler);
            assert_eq!(log.done[&next].tokens, expected.0);
        }
    }
}

#[test]
fn fault_101_a_sink_that_breaks_off_ends_its_own_request() {
    let mut scheduler = scheduler(2, Limits::default());
    let jobs = sixteen(scheduler.tokenizer());
    let expected = solo(&jobs[..2]);
    let (a, b) =
        (scheduler.submit(jobs[0].clone()).unwrap(), scheduler.submit(jobs[1].clone()).unwrap());
    let mut log = Log::default();
    while !scheduler.is_idle() {
        scheduler.step(&mut |id, event| {
            let gone = id == a && matches!(event, JobEvent::Text(Event::Text(_)));
            let _ = log.take(id, event);
            if gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    assert_eq!(log.done[&a].finish, Finish::Cancelled);
    assert!(log.done[&a].tokens.len() < expected[0].0.len());
    assert_eq!(log.done[&b].tokens, expected[1].0);
}

#[test]
fn a_long_prompt_does_not_stall_an_answer() {
    let (engine, tokenizer) = sample(2, 48);
    let limits = Limits { prompt_rows: 8, ..Limits::default() };
    let mut scheduler = Scheduler::new(engine, tokenizer, limits);
    let short = job(scheduler.tokenizer(), "Once upon", 60);
    let long = job(scheduler.tokenizer(), &"a very long story ".repeat(60), 5);
    let first = scheduler.submit(short).unwrap();
    let mut log = Log::default();
    while log.text(first).is_empty() {
        log.step(&mut scheduler);
    }
    let second = scheduler.submit(long.clone()).unwrap();
    // Every step gives the short one a token, and the long one a piece of its prompt.
    for _ in 0..20 {
        let before = *scheduler.totals();
        log.step(&mut scheduler);
        let after = scheduler.totals();
        assert!(after.generated > before.generated && after.prefilled <= before.prefilled + 8);
    }
    assert!(scheduler.totals().prefilled >= 160);
    log.run(&mut scheduler);
    assert_eq!(log.done[&second].tokens, solo(&[long]).remove(0).0);
}

#[test]
fn nobody_starves_where_a_window_is_too_short_for_all() {
    for chunk in [1, 2, 4, 9] {
        let (engine, tokenizer) = sample(6, chunk);
        let mut scheduler = Scheduler::new(engine, tokenizer, Limits::default());
        let drafts: SpecMode = "mtp:4".parse().unwrap();
        let jobs: Vec<Job> = ["Once", "The", "It", "My", "Two", "When"]
            .map(|text| Job { drafts, ..job(scheduler.tokenizer(), text, 60) })
            .to_vec();
        let ids: Vec<JobId> =
            jobs.iter().map(|job| scheduler.submit(job.clone()).unwrap()).collect();
        let mut log = Log::default();
        // Each has a prompt of a token or two, and there are at least two rows in two steps.
        for _ in 0..40 {
            log.step(&mut scheduler);
        }
        assert!(ids.iter().all(|&id| !log.text(id).is_empty()), "windows of {chunk}");
        log.run(&mut scheduler);
        for (id, expected) in ids.iter().zip(solo(&jobs)) {
            assert_eq!(log.done[id].tokens, expected.0, "windows of {chunk}");
        }
    }
}

#[test]
fn a_long_prompt_is_not_starved_by_short_ones_that_keep_coming() {
    // One row beside an answer, or one row at all.
    for (chunk, prompt_rows, answer) in [(1, 64, false), (2, 64, true), (48, 0, true)] {
        let (engine, tokenizer) = sample(4, chunk);
        let limits = Limits { prompt_rows, ..Limits::default() };
        let mut scheduler = Scheduler::new(engine, tokenizer, limits);
        let short = job(scheduler.tokenizer(), "Once upon", 1);
        let long = Job { prompt: (300..330).collect(), ..short.clone() };
        if answer {
            scheduler.submit(job(scheduler.tokenizer(), "The", 390)).unwrap();
        }
        let id = scheduler.submit(long).unwrap();
        let (mut log, mut steps) = (Log::default(), 0);
        while !log.done.contains_key(&id) {
            while scheduler.waiting() < 4 {
                scheduler.submit(short.clone()).unwrap();
            }
            log.step(&mut scheduler);
            steps += 1;
            // A row in every turn of four slots, each of which takes two steps.
            assert!(steps <= 2 * 4 * 30 + 8, "windows of {chunk}, {prompt_rows} rows for prompts");
        }
    }
}

#[test]
fn answers_take_turns_with_each_other_and_with_prompts_that_keep_coming() {
    for (slots, chunk) in [(4, 1), (3, 1), (4, 2), (4, 3)] {
        let (engine, tokenizer) = sample(slots, chunk);
        let mut scheduler = Scheduler::new(engine, tokenizer, Limits::default());
        let of = |text: &str, tokens| job(scheduler.tokenizer(), text, tokens);
        let (a, b) = (of("Once", 390), of("The", 12));
        let other = Job { prompt: (300..340).collect(), ..of("It", 1) };
        let [a, b] = [a, b].map(|job| scheduler.submit(job).unwrap());
        let mut log = Log::default();
        for step in 0..2 * slots * 14 {
            while scheduler.waiting() < slots {
                scheduler.submit(other.clone()).unwrap();
            }
            log.step(&mut scheduler);
            assert!(scheduler.totals().steps == step as u64 + 1, "no window is left out");
        }
        let text = log.text(a).len();
        assert!(log.done.contains_key(&b) && text > 0, "{slots} slots, windows of {chunk}");
    }
}

#[test]
fn stop_strings_and_limits_end_a_round_in_the_middle_and_no_other_text() {
    let long = job(&sample(1, 8).1, "Once upon a time", 50);
    let text: Vec<char> = solo(std::slice::from_ref(&long)).remove(0).1.chars().collect();
    // One text that ends at many places: some of them with drafts behind that are right, too.
    let ended = |i: usize| {
        let stop: String = text[text.len() * i / 10..].iter().take(4).collect();
        let drafts = ["mtp:4", "mtp:4", "lookup", "off"][i % 4].parse().unwrap();
        let (stop, max_tokens) = match i {
            0..3 => (Vec::new(), Some(i)),
            _ => (vec![String::new(), stop], None),
        };
        Job { stop, drafts, max_tokens, ..long.clone() }
    };
    let jobs: Vec<Job> = (0..10).map(ended).collect();
    let expected = solo(&jobs);
    for (slots, chunk) in [(10, 48), (3, 9)] {
        let (engine, tokenizer) = sample(slots, chunk);
        let mut scheduler = Scheduler::new(engine, tokenizer, Limits::default());
        let ids: Vec<JobId> =
            jobs.iter().map(|job| scheduler.submit(job.clone()).unwrap()).collect();
        let mut log = Log::default();
        log.run(&mut scheduler);
        for (i, (id, expected)) in ids.iter().zip(&expected).enumerate() {
            assert_eq!((&log.done[id].tokens, log.text(*id)), (&expected.0, &expected.1[..]));
            let finish = &log.done[id].finish;
            let stopped = matches!(finish, Finish::StopString(_));
            assert!(if i < 3 { *finish == Finish::Length } else { stopped }, "{i}: {finish:?}");
            assert!(i > 2 || log.done[id].tokens.len() == i);
        }
        // What was drawn behind the end is not in the state, either.
        for id in ids.iter().skip(3).filter(|_| slots == 10) {
            let prompt = [&long.prompt[..], &log.done[id].tokens, &[300]].concat();
            let next = Job { prompt, max_tokens: Some(1), ..long.clone() };
            let id = scheduler.submit(next).unwrap();
            log.run(&mut scheduler);
            assert_eq!(log.done[&id].prefilled, 2);
        }
    }
}

#[test]
fn who_asks_for_no_drafts_gets_none_whoever_had_the_slot_before() {
    let mut scheduler = scheduler(1, Limits::default());
    let mut log = Log::default();
    let mut drafted = Vec::new();
    for drafts in ["mtp:2", "off", "mtp:2", "lookup", "off"] {
        let drafts = drafts.parse().unwrap();
        let job = Job { drafts, ..job(scheduler.tokenizer(), "Once upon a time", 12) };
        let before = scheduler.totals().drafted;
        let id = scheduler.submit(job).unwrap();
        log.run(&mut scheduler);
        let total = log.done[&id].speculation.total().drafted;
        assert_eq!(scheduler.totals().drafted - before, total);
        drafted.push(total > 0);
    }
    assert_eq!([drafted[0], drafted[1], drafted[2], drafted[4]], [true, false, true, false]);
}

#[test]
fn limits_are_exact() {
    let (engine, tokenizer) = sample(2, 48);
    let per_token = engine.cache_bytes_per_token();
    let limits = Limits {
        queue: 0,
        request_tokens: 30,
        cache_bytes: Some(60 * per_token),
        ..Limits::default()
    };
    let mut scheduler = Scheduler::new(engine, tokenizer, limits);
    let of = |prompt| Job {
        prompt: vec![300; prompt],
        max_tokens: None,
        sampling: SamplingParams { logit_bias: vec![(300, 100.0)], ..Default::default() },
        ..Job::default()
    };
    // Whoever may go on for ever comes to the limit of a request; two of those fit to the byte.
    let ids = [of(30), of(20)].map(|job| scheduler.submit(job).unwrap());
    assert_eq!(scheduler.submit(of(20)), Err(Refused::QueueFull { limit: 0 }));
    let mut log = Log::default();
    log.step(&mut scheduler);
    assert_eq!((scheduler.live(), scheduler.waiting()), (2, 0));
    log.run(&mut scheduler);
    for (id, tokens) in ids.iter().zip([1, 11]) {
        let summary = &log.done[id];
        assert_eq!((summary.tokens.len(), &summary.finish), (tokens, &Finish::ContextFull));
    }
    for _ in 0..2 {
        scheduler.submit(of(20)).unwrap();
    }
    log.step(&mut scheduler);
    assert_eq!((scheduler.live(), scheduler.waiting()), (2, 0));
    assert_eq!(scheduler.submit(of(20)), Err(Refused::QueueFull { limit: 0 }));
}

#[test]
fn what_is_too_much_is_refused_at_once() {
    let limits = Limits { queue: 2, request_tokens: 100, ..Limits::default() };
    let mut scheduler = scheduler(1, limits);
    let good = job(scheduler.tokenizer(), "Hello", 5);
    let submit = |scheduler: &mut Scheduler<Cpu>, job: Job| scheduler.submit(job).unwrap_err();
    assert_eq!(submit(&mut scheduler, Job::default()), Refused::NoTokens);
    let long = Job { prompt: vec![300; 101], ..Job::default() };
    assert_eq!(submit(&mut scheduler, long), Refused::PromptTooLong { tokens: 101, limit: 100 });
    let foreign = Job { prompt: vec![1, 99_999], ..Job::default() };
    assert!(matches!(
        submit(&mut scheduler, foreign),
        Refused::TokenOutOfRange { token: 99_999, .. }
    ));
    let sampling = SamplingParams { temperature: f32::NAN, ..SamplingParams::default() };
    let unusable = Job { sampling, ..good.clone() };
    assert!(matches!(submit(&mut scheduler, unusable), Refused::Sampling(_)));
    for _ in 0..3 {
        scheduler.submit(good.clone()).unwrap();
    }
    assert_eq!(submit(&mut scheduler, good.clone()), Refused::QueueFull { limit: 2 });
    assert_eq!(scheduler.totals().refused, 5);
    let mut log = Log::default();
    log.run(&mut scheduler);
    assert_eq!(log.done.len(), 3);
    scheduler.submit(good).unwrap();
}

#[test]
fn requests_wait_for_memory_in_their_order() {
    let (engine, tokenizer) = sample(4, 48);
    let per_token = engine.cache_bytes_per_token();
    let limits = Limits { cache_bytes: Some(70 * per_token), ..Limits::default() };
    let mut scheduler = Scheduler::new(engine, tokenizer, limits);
    let of = |tokens: usize| Job {
        prompt: vec![300; 10],
        max_tokens: Some(tokens - 10),
        ..Job::default()
    };
    assert!(matches!(
        scheduler.submit(of(71)),
        Err(Refused::TooMuchMemory { bytes, limit }) if bytes == 71 * per_token && bytes > limit
    ));
    for tokens in [40, 60, 20, 10 + 1] {
        scheduler.submit(of(tokens)).unwrap();
    }
    let mut log = Log::default();
    log.step(&mut scheduler);
    // The second does not fit beside the first, and nobody overtakes it.
    assert_eq!((scheduler.live(), scheduler.waiting()), (1, 3));
    log.run(&mut scheduler);
    assert_eq!(log.done.len(), 4);
}

#[test]
fn a_request_that_fails_hurts_no_other() {
    let mut scheduler = scheduler(3, Limits::default());
    let vocab = 8192;
    let jobs = sixteen(scheduler.tokenizer());
    let expected = solo(&jobs[..2]);
    let a = scheduler.submit(jobs[0].clone()).unwrap();
    // Every token is forbidden: nothing can be drawn.
    let sampling = SamplingParams {
        logit_bias: (0..vocab).map(|id| (id, f32::NEG_INFINITY)).collect(),
        ..SamplingParams::default()
    };
    let bad = scheduler.submit(Job { sampling, ..jobs[2].clone() }).unwrap();
    let b = scheduler.submit(jobs[1].clone()).unwrap();
    let mut log = Log::default();
    log.run(&mut scheduler);
    assert!(matches!(log.failed[&bad], Error::Sampling(SamplingError::NothingLeft { .. })));
    assert_eq!(log.done[&a].tokens, expected[0].0);
    assert_eq!(log.done[&b].tokens, expected[1].0);
}

#[test]
fn fault_143_a_text_alone_then_in_company_then_alone_is_the_same() {
    let mut scheduler = scheduler(3, Limits::default());
    let jobs = sixteen(scheduler.tokenizer());
    let long = job(scheduler.tokenizer(), "Long ago there lived a", 90);
    let expected = solo(&[long.clone(), jobs[3].clone(), jobs[9].clone()]);
    let mut log = Log::default();
    let alone = scheduler.submit(long).unwrap();
    let mut company = Vec::new();
    for at in 0..60 {
        // Twice somebody comes, and leaves before the next one.
        if at == 10 || at == 35 {
            company.push(scheduler.submit(jobs[if at == 10 { 3 } else { 9 }].clone()).unwrap());
        }
        log.step(&mut scheduler);
    }
    log.run(&mut scheduler);
    for (id, expected) in [alone, company[0], company[1]].iter().zip(&expected) {
        assert_eq!(log.done[id].tokens, expected.0);
    }
}

#[test]
fn fault_140_slots_are_used_again_beside_long_lived_neighbours() {
    let mut scheduler = scheduler(3, Limits::default());
    let neighbour = job(scheduler.tokenizer(), "It was a dark and", 150);
    let short: Vec<Job> = sixteen(scheduler.tokenizer())
        .into_iter()
        .map(|job| Job { stop: Vec::new(), ..job })
        .collect();
    let expected_neighbour = solo(std::slice::from_ref(&neighbour)).remove(0);
    let expected = solo(&short);
    let long = scheduler.submit(neighbour).unwrap();
    let mut log = Log::default();
    let mut ids = Vec::new();
    for (i, job) in short.iter().enumerate() {
        ids.push(scheduler.submit(job.clone()).unwrap());
        for _ in 0..3 {
            log.step(&mut scheduler);
        }
        if i % 5 == 4 {
            scheduler.cancel(ids[i]);
        }
    }
    log.run(&mut scheduler);
    assert_eq!(log.done[&long].tokens, expected_neighbour.0);
    for (i, (id, expected)) in ids.iter().zip(&expected).enumerate() {
        let Some(summary) = log.done.get(id) else { continue };
        if summary.finish != Finish::Cancelled {
            assert_eq!(summary.tokens, expected.0, "request {i}");
        }
    }
}

#[test]
fn hours_of_joining_and_leaving_in_short() {
    let jobs = sixteen(&sample(1, 8).1);
    let expected = solo(&jobs);
    for (seed, slots, chunk) in [(1, 4, 48), (2, 2, 9), (3, 7, 16)] {
        let (engine, tokenizer) = sample(slots, chunk);
        let per_token = engine.cache_bytes_per_token();
        let limits = Limits {
            queue: 3,
            request_tokens: 300,
            cache_bytes: Some(400 * per_token),
            prompt_rows: 8,
        };
        let mut scheduler = Scheduler::new(engine, tokenizer, limits);
        let (mut log, mut dice) = (Log::default(), Dice(seed));
        let mut submitted: Vec<(JobId, usize)> = Vec::new();
        let (mut cancelled, mut refused) = (0, 0);
        for _ in 0..500 {
            match dice.roll(8) {
                0 | 1 => {
                    let which = dice.roll(jobs.len());
                    match scheduler.submit(jobs[which].clone()) {
                        Ok(id) => submitted.push((id, which)),
                        Err(Refused::QueueFull { limit: 3 }) => refused += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                2 if !submitted.is_empty() => {
                    // Any of them, also one that has ended.
                    let at = dice.roll(submitted.len());
                    cancelled += usize::from(scheduler.cancel(submitted[at].0));
                }
                _ => log.step(&mut scheduler),
            }
            assert!(scheduler.live() <= slots && scheduler.waiting() <= 3 + slots);
        }
        log.run(&mut scheduler);
        assert!(log.failed.is_empty() && cancelled > 5 && submitted.len() > 30);
        let totals = scheduler.totals();
        assert_eq!((totals.ended, totals.refused), (submitted.len() as u64, refused));
        for (id, which) in submitted {
            // A request that was cancelled in the queue never said anything.
            let Some(summary) = log.done.get(&id) else {
                assert!(log.text(id).is_empty());
                continue;
            };
            let (tokens, text) = &expected[which];
            if summary.finish == Finish::Cancelled {
                assert!(tokens.starts_with(&summary.tokens) && text.starts_with(log.text(id)));
            } else {
                assert_eq!((&summary.tokens, log.text(id)), (tokens, text.as_str()));
            }
        }
    }
}
