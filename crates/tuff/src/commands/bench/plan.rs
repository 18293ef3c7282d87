//! What is run: the tests, in which windows, and whether the model's context holds them.

use engine::{EngineConfig, Want, uniform};
use model::HyperParams;
use model::sizes::MAX_CONTEXT;

use super::Args;
use super::spec::SpecPlan;
use crate::args::DeviceArgs;
use crate::error::Error;

/// Windows per run of a verify test: one alone is too short to time well.
const VERIFY_WINDOWS: usize = 8;

/// Windows per run of a test of several slots.
const SLOT_WINDOWS: usize = 16;

/// Longest window to verify; drafts are of a few tokens, and all logits are kept.
const MAX_VERIFY: usize = 256;

/// A list of token counts; those of 0 are left out.
#[derive(Debug, Clone)]
pub(crate) struct Counts(Vec<usize>);

impl Counts {
    /// The counts, in the order given.
    pub(crate) fn to_vec(&self) -> Vec<usize> {
        self.0.clone()
    }
}

/// Parses a list with commas; an empty one has no tests.
pub(crate) fn parse_counts(text: &str) -> Result<Counts, String> {
    if text.trim().is_empty() {
        return Ok(Counts(Vec::new()));
    }
    let parse = |entry: &str| {
        let count: Option<usize> = entry.trim().parse().ok();
        let count = count.filter(|count| *count <= MAX_CONTEXT);
        count.ok_or_else(|| format!("{entry:?} is no number of tokens up to {MAX_CONTEXT}"))
    };
    let counts = text.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    Ok(Counts(counts.into_iter().filter(|count| *count > 0).collect()))
}

/// The three lists of token counts with what is not given filled in.
struct WindowCounts {
    prompt: Counts,
    decode: Counts,
    verify: Counts,
    slots: Counts,
}

impl WindowCounts {
    /// A list that is not given is as usual, or empty where drafts are compared.
    fn of(args: &Args, drafts: bool) -> WindowCounts {
        let or = |counts: &Option<Counts>, usual: &[usize]| match counts {
            Some(counts) => counts.clone(),
            None if drafts => Counts(Vec::new()),
            None => Counts(usual.to_vec()),
        };
        WindowCounts {
            prompt: or(&args.prompt, &[128, 512]),
            decode: or(&args.decode, &[64]),
            verify: or(&args.verify, &[1, 2, 3, 4, 8]),
            slots: or(&args.slots, &[]),
        }
    }
}

/// What a test does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Computes a prompt in chunks, from an empty state, for its last logits.
    Prompt,
    /// Computes tokens one by one, each for its logits.
    Decode,
    /// Computes windows of several tokens, each for all its logits.
    Verify,
    /// Computes windows of one token of each of several sequences.
    Slots,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Prompt => "prompt",
            Kind::Decode => "decode",
            Kind::Verify => "verify",
            Kind::Slots => "slots",
        }
    }
}

/// One test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) kind: Kind,
    /// Tokens of the prompt, tokens to decode, tokens of a window to verify, or sequences.
    pub(super) size: usize,
    /// Tokens before those that are timed.
    pub(super) depth: usize,
}

/// Timed windows of a run: so many tokens each, and which logits are wanted.
pub(super) type Windows = Vec<(usize, Want)>;

impl Test {
    /// `decode 64`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.kind.name(), self.size)
    }

    /// Tokens that a run times.
    pub(super) fn tokens(&self) -> usize {
        match self.kind {
            Kind::Prompt | Kind::Decode => self.size,
            Kind::Verify => self.size * VERIFY_WINDOWS,
            Kind::Slots => self.size * SLOT_WINDOWS,
        }
    }

    /// Windows that a run times.
    pub(super) fn windows(&self, chunk: usize) -> Windows {
        match self.kind {
            Kind::Prompt => chunks(self.size, chunk, Want::Last),
            Kind::Decode => vec![(1, Want::Last); self.size],
            Kind::Verify => vec![(self.size, Want::All); VERIFY_WINDOWS],
            Kind::Slots => vec![(self.size, Want::Last); SLOT_WINDOWS],
        }
    }
}

/// `tokens` in chunks, of which only the last gives logits.
pub(super) fn chunks(tokens: usize, chunk: usize, last: Want) -> Windows {
    let ends = (0..tokens).step_by(chunk).map(|start| (start + chunk).min(tokens) - start);
    let mut windows: Windows = ends.map(|size| (size, Want::Nothing)).collect();
    if let Some((_, want)) = windows.last_mut() {
        *want = last;
    }
    windows
}

/// Everything that is to be run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) tests: Vec<Test>,
    pub(super) repetitions: usize,
    /// Seconds of the sustained test; 0 is none.
    pub(super) sustained: u64,
    pub(super) depth: usize,
    pub(super) seed: u64,
    pub(super) config: EngineConfig,
    /// Texts that compare draft modes.
    pub(super) drafts: Option<SpecPlan>,
    /// The token at each position, the same in every test.
    pub(super) tokens: Vec<u32>,
}

impl Plan {
    /// The tests of a command line, on an engine with these settings.
    ///
    /// # Errors
    /// [`Error::Refused`] if there are none or the model cannot hold one.
    pub(super) fn new(
        args: &Args,
        device: &DeviceArgs,
        hp: &HyperParams,
        drafts: Option<SpecPlan>,
    ) -> Result<Plan, Error> {
        let depth = args.depth;
        let counts = WindowCounts::of(args, drafts.is_some());
        let of = |kind, counts: &Counts, depth| {
            let test = move |&size: &usize| Test { kind, size, depth };
            counts.0.iter().map(test).collect::<Vec<_>>()
        };
        let mut tests = of(Kind::Prompt, &counts.prompt, 0);
        tests.extend(of(Kind::Decode, &counts.decode, depth));
        tests.extend(of(Kind::Verify, &counts.verify, depth));
        tests.extend(of(Kind::Slots, &counts.slots, depth));
        check_any(&tests, args.sustained, drafts.is_some())?;
        let longest = tests.iter().map(|test| test.depth + test.tokens()).max().unwrap_or(0);
        let text = drafts.as_ref().map_or(0, SpecPlan::longest);
        let slots = tests.iter().filter(|test| test.kind == Kind::Slots);
        let slots = slots.map(|test| test.size).max().unwrap_or(1);
        let config = device.config(longest.max(text), hp.context);
        let config = EngineConfig { slots, ..config };
        for test in &tests {
            check(test, config.rope_scaling.reach(hp.context))?;
        }
        check_chunk(&tests, config.chunk)?;
        let repetitions = usize::try_from(args.repetitions).unwrap_or(usize::MAX);
        let (sustained, seed) = (args.sustained, args.seed);
        let tokens = tokens(seed, longest, hp.vocab);
        Ok(Plan { tests, repetitions, sustained, depth, seed, config, drafts, tokens })
    }

    /// The test that the sustained test repeats.
    pub(super) fn decode(&self) -> Option<Test> {
        self.tests.iter().copied().find(|test| test.kind == Kind::Decode)
    }
}

/// Random ids of the vocabulary, the same for a seed everywhere.
pub(super) fn tokens(seed: u64, count: usize, vocab: usize) -> Vec<u32> {
    let id = |position| (uniform(seed, position, 0) * vocab as f64) as u32;
    (0..count as u64).map(id).collect()
}

fn check_any(tests: &[Test], sustained: u64, drafts: bool) -> Result<(), Error> {
    if tests.is_empty() && !drafts {
        let advice =
            "every test is left out: give -p, -n or --verify a number of tokens, or --spec";
        return Err(Error::Refused(advice.to_owned()));
    }
    if sustained > 0 && tests.iter().all(|test| test.kind != Kind::Decode) {
        let advice = "--sustained repeats the decode test: give -n a number of tokens";
        return Err(Error::Refused(advice.to_owned()));
    }
    Ok(())
}

fn check(test: &Test, context: usize) -> Result<(), Error> {
    let name = test.name();
    if matches!(test.kind, Kind::Verify | Kind::Slots) && test.size > MAX_VERIFY {
        let advice = "longer windows are what -p measures";
        let text = format!("{name}: windows are of up to {MAX_VERIFY} tokens; {advice}");
        return Err(Error::Refused(text));
    }
    let tokens = test.depth.saturating_add(test.tokens());
    if tokens > context {
        let text = format!("{name}: it takes {tokens} tokens with what comes before, the model's");
        return Err(Error::Refused(format!("{text} context is {context}; take fewer")));
    }
    Ok(())
}

fn check_chunk(tests: &[Test], chunk: usize) -> Result<(), Error> {
    let whole = tests.iter().filter(|test| matches!(test.kind, Kind::Verify | Kind::Slots));
    match whole.max_by_key(|test| test.size) {
        Some(test) if test.size > chunk => Err(Error::Refused(format!(
            "{}: a window holds {chunk} tokens; raise --chunk or take fewer",
            test.name()
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_counts() {
        assert_eq!(parse_counts("1,2, 30").unwrap().0, [1, 2, 30]);
        for none in ["", " ", "0", "0,0"] {
            assert!(parse_counts(none).unwrap().0.is_empty(), "{none:?}");
        }
        assert_eq!(parse_counts("0,5").unwrap().0, [5]);
        for wrong in ["x", "1,,2", "-1", "1.5", "99999999999", "1 2"] {
            assert!(parse_counts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prompt_is_cut_into_chunks() {
        let sizes = |tokens, chunk| {
            let windows = chunks(tokens, chunk, Want::Last);
            let wanted: Vec<bool> = windows.iter().map(|(_, w)| *w == Want::Last).collect();
            assert_eq!(wanted.iter().filter(|wanted| **wanted).count(), usize::from(tokens > 0));
            windows.into_iter().map(|(size, _)| size).collect::<Vec<_>>()
        };
        assert_eq!(sizes(5, 2), [2, 2, 1]);
        assert_eq!(sizes(4, 4), [4]);
        assert_eq!(sizes(0, 4), [0usize; 0]);
    }

    #[test]
    fn ids_are_of_the_vocabulary_and_depend_on_the_seed() {
        let ids = tokens(1, 1000, 7);
        assert!(ids.iter().all(|id| *id < 7));
        assert!((0..7).all(|id| ids.contains(&id)));
        assert_eq!(ids, tokens(1, 1000, 7));
        assert_ne!(ids, tokens(2, 1000, 7));
    }
}
