//! Drafts against the draws that check them.

use super::*;

/// Logits as a model gives them: few likely tokens, and some that are equal.
fn logits(count: usize, salt: u64) -> Vec<f32> {
    let value = |token| (uniform(salt, 0, token).ln() * -2.0) as f32;
    (0..count as u32).map(|token| (value(token) * 8.0).round() / 8.0).collect()
}

/// Greedy, plain and filtered settings; some with penalties and biases.
fn settings(seed: u64) -> Vec<SamplingParams> {
    let base = SamplingParams { seed, ..SamplingParams::default() };
    let at = |temperature| SamplingParams { temperature, ..base.clone() };
    let penalised = SamplingParams {
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.2,
        logit_bias: vec![(3, f32::NEG_INFINITY), (7, 1.5), (99, f32::MAX)],
        ..at(0.9)
    };
    vec![
        base.clone(),
        at(0.3),
        at(1.0),
        at(2.5),
        at(1e-30),
        SamplingParams { top_k: 5, ..at(1.2) },
        SamplingParams { top_p: 0.8, ..at(1.0) },
        SamplingParams { min_p: 0.2, ..at(1.5) },
        SamplingParams { top_k: 20, top_p: 0.9, min_p: 0.05, ..at(0.7) },
        SamplingParams { temperature: 0.0, ..penalised.clone() },
        SamplingParams { penalty_window: 2, ..penalised.clone() },
        penalised,
    ]
}

const CONTEXT: Context<'static> = Context { prompt: &[1, 2, 30], output: &[5, 2, 5] };

#[test]
fn with_the_targets_distribution_a_draft_is_the_targets_draw() {
    let all: Vec<u32> = (0..100).collect();
    for seed in 0..40 {
        let given = logits(100, seed);
        for params in settings(seed) {
            for position in [0, 1, 77, 5_000] {
                let (mut target, mut plain, mut listed) =
                    (given.clone(), given.clone(), given.clone());
                let drawn = params.sample(&mut target, &CONTEXT, position).unwrap();
                let draft = params.draft(&mut plain, None, &CONTEXT, position).unwrap();
                assert_eq!(draft.token, drawn, "{params:?} at {position}");
                assert_eq!(params.draft(&mut listed, Some(&all), &CONTEXT, position), Some(draft));
                assert_eq!((&plain, &listed), (&target, &target));
            }
        }
    }
}

#[test]
fn a_subset_with_the_winner_gives_the_winner() {
    // Filters are left out: of a subset they may keep other tokens than of all.
    let unfiltered = |p: &SamplingParams| p.top_k == 0 && p.top_p == 1.0 && p.min_p == 0.0;
    let mut inside = 0;
    for seed in 0..40 {
        let given = logits(100, seed);
        let ids: Vec<u32> = (0..100).filter(|id| id % 3 != 1).collect();
        for params in settings(seed).into_iter().filter(unfiltered) {
            let drawn = params.sample(&mut given.clone(), &CONTEXT, 9).unwrap();
            let mut listed: Vec<f32> = ids.iter().map(|&id| given[id as usize]).collect();
            let draft = params.draft(&mut listed, Some(&ids), &CONTEXT, 9).unwrap();
            assert!(ids.contains(&draft.token));
            if ids.contains(&drawn) {
                inside += 1;
                assert_eq!(draft.token, drawn, "{params:?}");
            }
        }
    }
    assert!(inside > 100, "{inside}");
}

#[test]
fn penalties_and_biases_meet_their_tokens_in_a_subset() {
    let context = Context { prompt: &[], output: &[40, 41] };
    let ids = [10, 40, 50];
    let draft = |params: SamplingParams| {
        let mut logits = [1.0, 2.0, 0.5];
        let draft = params.draft(&mut logits, Some(&ids), &context, 0).unwrap();
        (draft.token, logits)
    };
    let base = SamplingParams::default();
    assert_eq!(draft(base.clone()), (40, [1.0, 2.0, 0.5]));
    let params = SamplingParams { presence_penalty: 1.5, ..base.clone() };
    assert_eq!(draft(params), (10, [1.0, 0.5, 0.5]));
    let params = SamplingParams { logit_bias: vec![(50, 2.0), (1, 9.0)], ..base };
    assert_eq!(draft(params), (50, [1.0, 2.0, 2.5]));
}

#[test]
fn confidence_is_the_unfiltered_probability() {
    // Probabilities 1/2, 1/4, 1/8, 1/8 at temperature 1.
    let given = [8f32.ln(), 4f32.ln(), 2f32.ln(), 2f32.ln()];
    let confidence = |params: &SamplingParams| {
        let draft = params.draft(&mut given.clone(), None, &Context::default(), 4).unwrap();
        (draft.token as usize, draft.confidence)
    };
    let (token, share) = confidence(&SamplingParams::default());
    assert_eq!(token, 0);
    assert!((share - 0.5).abs() < 1e-6, "{share}");
    for seed in 0..20 {
        let params =
            SamplingParams { temperature: 0.5, top_k: 2, seed, ..SamplingParams::default() };
        let (token, share) = confidence(&params);
        // Squares of the above, of all four tokens though two can be drawn.
        let expected = [64.0, 16.0][token] / 88.0;
        assert!((share - expected).abs() < 1e-6, "{share}");
    }
    let params = SamplingParams { temperature: 1e-38, ..SamplingParams::default() };
    assert_eq!(confidence(&params), (0, 1.0));
}

#[test]
fn nothing_to_draw_from_gives_no_draft() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let none = Context::default();
    for temperature in [0.0, 1.0] {
        let params = SamplingParams { temperature, ..SamplingParams::default() };
        for mut logits in [[nan, 0.0], [0.0, inf], [-inf; 2]] {
            assert_eq!(params.draft(&mut logits, None, &none, 0), None, "{logits:?}");
        }
        assert_eq!(params.draft(&mut [], None, &none, 0), None);
        assert_eq!(params.draft(&mut [1.0, 2.0], Some(&[4]), &none, 0), None);
        let logit_bias = vec![(0, -inf), (1, -inf)];
        let forbidding = SamplingParams { logit_bias, ..params };
        assert_eq!(forbidding.draft(&mut [1.0, 2.0], None, &none, 0), None);
    }
}

#[test]
fn a_forbidden_token_leaves_the_confidence_finite() {
    let mut logits = [f32::NEG_INFINITY, 1.0, 1.0];
    let draft = SamplingParams::default().draft(&mut logits, None, &Context::default(), 0).unwrap();
    assert_eq!(draft, Draft { token: 1, confidence: 0.5 });
}
