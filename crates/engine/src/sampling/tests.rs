//! Settings, filters, penalties and draws.

use super::*;

fn drawing(seed: u64) -> SamplingParams {
    SamplingParams { temperature: 1.0, seed, ..SamplingParams::default() }
}

fn sample(params: &SamplingParams, logits: &[f32], position: usize) -> u32 {
    params.sample(&mut logits.to_vec(), &Context::default(), position).unwrap()
}

#[test]
fn fault_112_zero_temperature_is_greedy_and_negative_is_refused() {
    for temperature in [0.0, -0.0] {
        let params = SamplingParams { temperature, ..SamplingParams::default() };
        params.validate(4).unwrap();
        assert_eq!(sample(&params, &[0.0, 2.0, 2.0, 1.0], 0), 1);
    }
    for temperature in [-0.1, f32::NAN, f32::INFINITY] {
        let params = SamplingParams { temperature, ..SamplingParams::default() };
        assert!(matches!(
            params.validate(4),
            Err(SamplingError::OutOfRange { name: "temperature", .. })
        ));
    }
}

#[test]
fn fault_113_top_k_over_the_vocabulary_is_clamped_and_zero_is_off() {
    for top_k in [0, 4, 9_999_999] {
        let params = SamplingParams { top_k, ..drawing(1) };
        params.validate(4).unwrap();
        let drawn: Vec<u32> = (0..200).map(|p| sample(&params, &[0.0; 4], p)).collect();
        assert!((0..4).all(|t| drawn.contains(&t)), "top_k {top_k}");
    }
    let params = SamplingParams { top_k: 1, ..drawing(1) };
    assert!((0..50).all(|p| sample(&params, &[0.0, 0.5, 0.4], p) == 1));
}

#[test]
fn fault_115_seeds_differ_repeat_and_are_not_greedy() {
    let logits: Vec<f32> = (0..50).map(|i| (i as f32 * 0.7).sin()).collect();
    let text = |seed| -> Vec<u32> { (0..64).map(|p| sample(&drawing(seed), &logits, p)).collect() };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
    let greedy = sample(&SamplingParams::default(), &logits, 0);
    assert!(text(1).iter().any(|&t| t != greedy));
}

#[test]
fn fault_117_non_finite_logits_are_an_error_never_token_zero() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for logits in [
        [nan, 0.0, 1.0],
        [0.0, nan, 1.0],
        [0.0, 1.0, nan],
        [nan; 3],
        [inf, 0.0, 0.0],
        [0.0, 0.0, inf],
        [-inf; 3],
    ] {
        for params in [SamplingParams::default(), drawing(3)] {
            let result = params.sample(&mut logits.to_vec(), &Context::default(), 5);
            let error = result.expect_err(&format!("{logits:?}"));
            assert!(error.to_string().contains("non-finite logits at position 5"), "{error}");
        }
    }
    // A single forbidden token is no fault.
    assert_eq!(sample(&SamplingParams::default(), &[-inf, 1.0, 0.0], 0), 1);
    assert_ne!(sample(&drawing(1), &[-inf, 1.0, 0.0], 0), 0);
}

#[test]
fn forbidding_every_token_is_an_error() {
    for temperature in [0.0, 1.0] {
        let logit_bias = (0..3).map(|t| (t, f32::NEG_INFINITY)).collect();
        let params = SamplingParams { logit_bias, temperature, ..SamplingParams::default() };
        params.validate(3).unwrap();
        let result = params.sample(&mut [0.0, 1.0, 2.0], &Context::default(), 3);
        assert_eq!(result, Err(SamplingError::NothingLeft { position: 3 }));
    }
}

#[test]
fn draws_follow_the_filtered_distribution() {
    // Probabilities 0.5, 0.25, 0.125, 0.125 before the filters.
    let logits = [8f32.ln(), 4f32.ln(), 2f32.ln(), 2f32.ln()];
    let cases: [(SamplingParams, [f64; 4]); 5] = [
        (drawing(11), [0.5, 0.25, 0.125, 0.125]),
        (SamplingParams { top_k: 2, ..drawing(12) }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]),
        (SamplingParams { top_p: 0.7, ..drawing(13) }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]),
        (SamplingParams { min_p: 0.4, ..drawing(14) }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]),
        (
            SamplingParams { temperature: 0.5, ..drawing(15) },
            [64.0 / 88.0, 16.0 / 88.0, 4.0 / 88.0, 4.0 / 88.0],
        ),
    ];
    const DRAWS: usize = 40_000;
    for (params, expected) in cases {
        let mut counts = [0f64; 4];
        for position in 0..DRAWS {
            counts[sample(&params, &logits, position) as usize] += 1.0;
        }
        let terms = counts.iter().zip(expected).filter(|(_, p)| *p > 0.0);
        let chi: f64 =
            terms.map(|(c, p)| (c - p * DRAWS as f64).powi(2) / (p * DRAWS as f64)).sum();
        // The 99.9 % quantile of chi-square with 3 degrees of freedom is 16.3; seeds are fixed.
        assert!(chi < 16.3, "{params:?}: {counts:?}, chi-square {chi}");
        for (count, p) in counts.iter().zip(expected) {
            assert!(p > 0.0 || *count == 0.0, "{params:?}: {counts:?}");
        }
    }
}

#[test]
fn top_p_keeps_the_token_that_crosses_and_works_on_large_vocabularies() {
    let logits: Vec<f32> = (0..100_000).map(|i| -((i % 1000) as f32) * 1e-3).collect();
    let params = SamplingParams { top_p: 0.5, ..drawing(1) };
    let kept = filter::candidates(&params, &logits);
    let weight = |x: f32| f64::from(x).exp();
    let total: f64 = logits.iter().map(|&x| weight(x)).sum();
    let mass: f64 = kept.iter().map(|c| weight(c.1)).sum::<f64>() / total;
    assert!((0.5..0.5 + 1e-4).contains(&mass), "{mass}");
    let worst = kept.iter().map(|c| c.1).fold(0.0, f32::min);
    let kept_ids: std::collections::HashSet<u32> = kept.iter().map(|c| c.0).collect();
    assert!((0..100_000).all(|i| kept_ids.contains(&i) || logits[i as usize] <= worst));
}

#[test]
fn a_tiny_temperature_is_greedy_in_effect() {
    let params = SamplingParams { temperature: 1e-30, ..drawing(9) };
    assert!((0..100).all(|p| sample(&params, &[1.0, 3.0, 2.0], p) == 1));
}

#[test]
fn penalties_count_prompt_and_output_as_documented() {
    let context = Context { prompt: &[0, 1], output: &[2, 2, 3] };
    let after = |params: SamplingParams| {
        let mut logits = [2.0, -2.0, 2.0, 2.0, 2.0];
        penalty::apply(&params, Tokens::All, &context, &mut logits);
        logits
    };
    let base = SamplingParams::default();
    assert_eq!(
        after(SamplingParams { repetition_penalty: 2.0, ..base.clone() }),
        [1.0, -4.0, 1.0, 1.0, 2.0]
    );
    assert_eq!(
        after(SamplingParams { presence_penalty: 0.5, ..base.clone() }),
        [2.0, -2.0, 1.5, 1.5, 2.0]
    );
    assert_eq!(
        after(SamplingParams { frequency_penalty: 0.5, ..base.clone() }),
        [2.0, -2.0, 1.0, 1.5, 2.0]
    );
    assert_eq!(
        after(SamplingParams { repetition_penalty: 2.0, penalty_window: 1, ..base }),
        [2.0, -2.0, 2.0, 1.0, 2.0]
    );
}

#[test]
fn bias_outside_the_vocabulary_is_refused() {
    let params = SamplingParams { logit_bias: vec![(8, 1.0)], ..SamplingParams::default() };
    assert_eq!(params.validate(8), Err(SamplingError::BiasToken { token: 8, vocab: 8 }));
}

#[test]
fn huge_settings_never_make_a_logit_infinite() {
    let context = Context { prompt: &[], output: &[0, 0, 1] };
    let base = SamplingParams::default();
    let cases = [
        SamplingParams { logit_bias: vec![(0, f32::MAX); 3], ..base.clone() },
        SamplingParams { repetition_penalty: 1e-45, ..base.clone() },
        SamplingParams { frequency_penalty: f32::MIN, ..base.clone() },
        SamplingParams { presence_penalty: f32::MIN, frequency_penalty: f32::MIN, ..base },
    ];
    for params in cases {
        for temperature in [0.0, 1e-30, 1.0] {
            let params = SamplingParams { temperature, ..params.clone() };
            params.validate(3).unwrap();
            // Token 0 is favoured beyond measure; token 1 stays forbidden by the model.
            let logits = &mut [1.0, f32::NEG_INFINITY, 3.0];
            assert_eq!(params.sample(logits, &context, 0), Ok(0), "{params:?}");
            assert_eq!(logits[1], f32::NEG_INFINITY, "{params:?}");
        }
    }
}
