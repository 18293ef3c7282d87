//! The n-gram hash against literal rows: a known fault's, the released model's, the fixtures'.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use model::ngram::{context, context_at, rows};
use model::{HashSeed, HyperParams, PleParams};

fn released() -> PleParams {
    HyperParams::from_metadata(&common::released()).unwrap().ple.unwrap()
}

/// The rows of every position of a sequence.
fn all_rows(ple: &PleParams, tokens: &[u32]) -> Vec<Vec<u64>> {
    let mut out = Vec::new();
    let row = |position| {
        rows(ple, &context_at(ple, tokens, position).unwrap(), &mut out);
        out.clone()
    };
    (0..tokens.len()).map(row).collect()
}

fn bigram_and_trigram() -> PleParams {
    PleParams {
        layer: 0,
        ngram: 3,
        heads_per_ngram: 1,
        conv_kernel: 4,
        dilation: 3,
        row_width: 1,
        eos: 99,
        image: 99,
        multipliers: vec![3, 5, 7],
        offsets: vec![0, 101],
        sizes: vec![101, 103],
    }
}

/// Known fault 14: the first multiplier belongs to the current token, not to the oldest.
#[test]
fn fault_014_multiplier_zero_is_the_current_tokens() {
    let expected = [vec![1, 124], vec![56, 136], vec![12, 162]];
    assert_eq!(all_rows(&bigram_and_trigram(), &[7, 9, 11]), expected);
}

/// Known fault 16: rows after a rewind or a reused prefix equal those of a run from scratch,
/// because nothing but the ids before the position enters.
#[test]
fn fault_016_rows_depend_on_ids_by_position_alone() {
    let ple = released();
    let tokens = [5, 248_044, 17, 9419, 11, 1814, 3];
    let full = all_rows(&ple, &tokens);
    let mut out = Vec::new();
    for (position, expected) in full.iter().enumerate() {
        let keep = position.min(ple.ngram - 1);
        let before = &tokens[position - keep..position];
        rows(&ple, &context(&ple, before, tokens[position]), &mut out);
        // A window of ngram - 1 ids may have lost an end id further back, which changes nothing:
        // that id would only have cut entries that the window no longer has.
        assert_eq!(&out, expected, "position {position}");
    }
}

#[test]
fn end_ids_cut_the_context_but_not_their_own() {
    let ple = bigram_and_trigram();
    let ids = |before: &[u32], token| context(&ple, before, token).ids().to_vec();
    assert_eq!(ids(&[], 7), [7, 99, 99]);
    assert_eq!(ids(&[1, 2, 3], 7), [7, 3, 2]);
    assert_eq!(ids(&[1, 99], 7), [7, 99, 99]);
    assert_eq!(ids(&[99, 2], 7), [7, 2, 99]);
    assert_eq!(ids(&[1, 2], 99), [99, 2, 1]);
    assert!(context_at(&ple, &[1], 1).is_none());
}

#[test]
fn the_released_models_rows() {
    let ple = released();
    let cases: [(&[u32], [u64; 16]); 3] = [
        (
            &[9419],
            [
                6783314, 25893696, 59239020, 66167313, 81761837, 114435313, 124203423, 151975917,
                166590818, 187833462, 212087477, 223519364, 246888052, 271470774, 293268240,
                304278145,
            ],
        ),
        (
            &[9419, 11, 1814],
            [
                9385754, 32482397, 54062840, 76311413, 98272164, 118932639, 139929746, 141271114,
                167282821, 194187290, 209012959, 226273870, 249941911, 273630502, 281531265,
                301069159,
            ],
        ),
        (
            &[9419, 248044, 1814],
            [
                6660140, 33219734, 50262391, 66336483, 98313392, 116441792, 124386897, 143051852,
                168871838, 182669734, 211603889, 225170572, 244883930, 265817706, 299733716,
                311346508,
            ],
        ),
    ];
    for (tokens, expected) in cases {
        assert_eq!(all_rows(&ple, tokens).last().unwrap(), &expected, "{tokens:?}");
    }
}

#[test]
fn the_fixtures_rows() {
    let mut checked = 0;
    for model in common::manifest()["models"].as_array().unwrap() {
        let file = model["file"].as_str().unwrap();
        let gguf = common::fixture(file.strip_suffix(".gguf").unwrap());
        let ple = HyperParams::from_metadata(gguf.metadata()).unwrap().ple.unwrap();
        for (name, prompt) in model["prompts"].as_object().unwrap() {
            let Some(expected) = prompt.get("ple_rows") else { continue };
            let expected: Vec<Vec<u64>> = serde_json::from_value(expected.clone()).unwrap();
            let tokens: Vec<u32> = serde_json::from_value(prompt["tokens"].clone()).unwrap();
            assert_eq!(all_rows(&ple, &tokens), expected, "{file} {name}");
            checked += 1;
        }
    }
    assert!(checked >= 3, "the manifest gives rows for at least one prompt of each model");
}

#[test]
fn longer_grams_extend_shorter_ones() {
    let two = PleParams {
        ngram: 4,
        heads_per_ngram: 2,
        multipliers: vec![3, 5, 7, u64::MAX],
        offsets: vec![0, 101, 204, 311, 420, 533],
        sizes: vec![101, 103, 107, 109, 113, 127],
        ..bigram_and_trigram()
    };
    let mut out = vec![42];
    rows(&two, &context(&two, &[4, 5, 6], 8), &mut out);
    let bigram = (8 * 3) ^ (6 * 5);
    let trigram = bigram ^ (5 * 7);
    let fourgram = trigram ^ 4_u64.wrapping_mul(u64::MAX);
    let expected = [
        bigram % 101,
        101 + bigram % 103,
        204 + trigram % 107,
        311 + trigram % 109,
        420 + fourgram % 113,
        533 + fourgram % 127,
    ];
    assert_eq!(out, expected);
}

#[test]
fn constants_follow_from_the_seed() {
    let seed = HashSeed {
        seed: 1234,
        vocab: 248_320,
        ngram: 3,
        heads_per_ngram: 8,
        base: 20_000_000,
        layer_number: 0,
    };
    let constants = seed.derive().unwrap();
    assert_eq!(constants.multipliers, common::RELEASED_MULTIPLIERS);
    assert_eq!(constants.sizes, common::RELEASED_SIZES);
    assert_eq!(constants.offsets, common::RELEASED_OFFSETS);

    let tiny = HashSeed { vocab: 512, heads_per_ngram: 4, base: 1000, ..seed };
    for model in common::MODELS {
        let gguf = common::fixture(model);
        let ple = HyperParams::from_metadata(gguf.metadata()).unwrap().ple.unwrap();
        let constants = tiny.derive().unwrap();
        assert_eq!((constants.multipliers, constants.sizes), (ple.multipliers, ple.sizes));
        assert_eq!(constants.offsets, ple.offsets);
    }
    let second = HashSeed { layer_number: 1, ..tiny }.derive().unwrap();
    assert_eq!(second.sizes[..2], [1051, 1061], "a second layer goes on where the first ended");
}

#[test]
fn a_seed_out_of_range_is_refused() {
    let good =
        HashSeed { seed: 1, vocab: 512, ngram: 3, heads_per_ngram: 4, base: 1000, layer_number: 0 };
    let bad = [
        HashSeed { vocab: 0, ..good },
        HashSeed { ngram: 1, ..good },
        HashSeed { ngram: 9, ..good },
        HashSeed { heads_per_ngram: 0, ..good },
        HashSeed { base: u64::MAX, ..good },
        HashSeed { layer_number: 64, ..good },
    ];
    assert!(good.derive().is_ok());
    for seed in bad {
        assert!(seed.derive().is_err(), "{seed:?}");
    }
}
