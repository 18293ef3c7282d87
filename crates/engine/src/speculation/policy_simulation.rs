//! The adaptive mode against plain decoding and every fixed depth, on a virtual clock.
//!
//! A machine is a table of times, a text a chance of acceptance that may change along the way.
//! Policies see noisy times with pauses in them; the clock adds up the true ones, and what a text
//! accepts depends only on the place, so all policies meet the same text.

use super::{MAX_DEPTH, Offer, Plan, Policy, Round, Source, SpecMode};
use std::time::Duration;

/// Length of a run.
const TOKENS: usize = 20_000;
/// How much slower than plain, and than the best fixed depth, the adaptive mode may be.
const OVER_PLAIN: f64 = 1.02;
const OVER_FIXED: f64 = 1.05;
/// Texts of each kind.
const SEEDS: [u64; 2] = [0, 1];

/// Times in units of a plain window.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    windows: [f64; MAX_DEPTH + 1],
    first_draft: f64,
    draft: f64,
    /// Per token that the draft head catches up.
    catch_up: f64,
    /// What every window takes more at the end of the run than at its start.
    growth: f64,
}

const CPU: Machine = Machine {
    name: "cpu",
    windows: [1.0, 1.35, 1.7, 2.0, 2.35, 2.7, 3.0, 3.35, 3.7],
    first_draft: 0.12,
    draft: 0.08,
    catch_up: 0.005,
    growth: 0.0,
};
const GPU: Machine = Machine {
    name: "gpu",
    windows: [1.0, 1.03, 1.06, 1.09, 1.12, 1.15, 1.18, 1.21, 1.24],
    first_draft: 0.06,
    draft: 0.05,
    catch_up: 0.002,
    growth: 0.0,
};
/// Experts overlap more and more.
const EXPERTS: Machine = Machine {
    name: "experts",
    windows: [1.0, 1.45, 1.8, 2.08, 2.3, 2.48, 2.62, 2.74, 2.85],
    first_draft: 0.1,
    draft: 0.09,
    catch_up: 0.004,
    growth: 0.0,
};
/// Rows come in fours.
const TILES: Machine = Machine {
    name: "tiles",
    windows: [1.0, 1.04, 1.08, 1.12, 1.8, 1.84, 1.88, 1.92, 2.6],
    first_draft: 0.08,
    draft: 0.06,
    catch_up: 0.002,
    growth: 0.0,
};
/// Nothing is shared between rows, and drafts are dear.
const BAD: Machine = Machine {
    name: "bad",
    windows: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    first_draft: 0.4,
    draft: 0.4,
    catch_up: 0.01,
    growth: 0.0,
};
/// As the context grows, attention makes windows dear but not drafts.
const GROWING: Machine = Machine { name: "growing", growth: 2.0, ..CPU };
const MACHINES: [Machine; 6] = [CPU, GPU, EXPERTS, TILES, BAD, GROWING];

/// How confidences relate to what is accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Confidence {
    /// They are the chance of acceptance, which differs from draft to draft.
    Telling,
    /// They are noise.
    Noise,
}

#[derive(Clone, Copy)]
struct Text {
    name: &'static str,
    /// Chance that a first draft is accepted, in turn for `stretch` tokens each.
    chances: [f64; 2],
    stretch: usize,
    confidence: Confidence,
    lookups: Lookups,
    /// Another one is another text of the same kind.
    seed: u64,
}

/// What lookups offer.
#[derive(Clone, Copy, PartialEq)]
enum Lookups {
    None,
    /// Copied passages of 60 tokens, 150 tokens from one to the next, and short matches by chance.
    Copies,
    /// Matches of every length, nearly always wrong.
    Traps,
}

const fn text(name: &'static str, chances: [f64; 2], confidence: Confidence) -> Text {
    Text { name, chances, stretch: 200, confidence, lookups: Lookups::None, seed: 0 }
}

const TEXTS: [Text; 9] = [
    text("easy", [0.9, 0.9], Confidence::Telling),
    text("hard", [0.2, 0.2], Confidence::Telling),
    text("middling", [0.6, 0.6], Confidence::Telling),
    text("mixed", [0.9, 0.2], Confidence::Telling),
    text("easy, noise", [0.9, 0.9], Confidence::Noise),
    text("hard, noise", [0.2, 0.2], Confidence::Noise),
    text("middling, noise", [0.6, 0.6], Confidence::Noise),
    text("mixed, noise", [0.9, 0.2], Confidence::Noise),
    Text { stretch: 4000, ..text("long mixed, noise", [0.9, 0.2], Confidence::Noise) },
];

/// A number in [0, 1) that depends on nothing but where it is asked for.
fn random(stream: u64, place: usize, depth: usize) -> f64 {
    crate::uniform(stream, place as u64, depth as u32)
}

impl Text {
    fn random(&self, stream: u64, place: usize, depth: usize) -> f64 {
        random(10 * self.seed + stream, place, depth)
    }

    /// Confidence of the draft for `place` made at `depth`, and whether it is right.
    fn draft(&self, place: usize, depth: usize) -> (f32, bool) {
        // Deeper drafts are a little worse.
        let mean = self.chances[place / self.stretch % 2] * 0.98_f64.powi(depth as i32 - 1);
        let chance = match self.confidence {
            Confidence::Noise => mean,
            Confidence::Telling => {
                let sure = self.random(1, place, depth) < (mean - 0.1) / 0.87;
                if sure { 0.97 } else { 0.1 }
            }
        };
        let hit = self.random(2, place, depth) < chance;
        let shown = match self.confidence {
            Confidence::Noise => self.random(3, place, depth),
            Confidence::Telling => chance * (0.8 + 0.2 * self.random(3, place, depth)),
        };
        (shown as f32, hit)
    }

    fn copied(place: usize) -> bool {
        place % 150 < 60
    }

    fn lookup(&self, place: usize) -> Option<usize> {
        let by_chance = self.random(4, place, 0) < 0.3;
        match self.lookups {
            Lookups::None => None,
            Lookups::Copies if Self::copied(place) => Some(place % 150 + 2),
            Lookups::Copies => by_chance.then_some(2 + place % 2),
            Lookups::Traps => by_chance.then_some([2, 3, 4, 7, 12, 30][place % 6]),
        }
    }

    /// Whether a looked-up draft for `place` is right.
    fn lookup_hit(&self, place: usize) -> bool {
        let copied = self.lookups == Lookups::Copies && Self::copied(place);
        self.random(5, place, 0) < if copied { 0.97 } else { 0.08 }
    }
}

/// What the loop around the policy can do.
#[derive(Clone, Copy, PartialEq)]
enum Loop {
    /// All of it.
    Whole,
    /// It verifies every draft that was made and does not time draft steps.
    Simple,
}

/// One run of a policy.
struct Run {
    machine: Machine,
    text: Text,
    policy: Policy,
    ability: Loop,
    place: usize,
    clock: f64,
    samples: usize,
    /// Tokens that the draft head has not seen.
    behind: usize,
    /// Tokens that came from rounds with more than one row.
    by_drafts: usize,
}

impl Run {
    fn new(machine: Machine, text: Text, mode: SpecMode) -> Self {
        Self {
            machine,
            text,
            policy: Policy::new(mode, true),
            ability: Loop::Whole,
            place: 0,
            clock: 0.0,
            samples: 0,
            behind: 1,
            by_drafts: 0,
        }
    }

    /// Time of a run in plain windows.
    fn time(machine: Machine, text: Text, mode: SpecMode) -> f64 {
        let mut run = Self::new(machine, text, mode);
        run.until(TOKENS);
        run.clock
    }

    fn until(&mut self, place: usize) {
        while self.place < place {
            self.round();
        }
    }

    /// Lets true time pass; what a stop watch would have shown.
    fn spend(&mut self, time: f64) -> Duration {
        self.clock += time;
        self.samples += 1;
        let noise = 0.92 + 0.16 * random(6, self.samples, 0);
        let pause = if random(7, self.samples, 0) < 0.003 { 20.0 } else { 1.0 };
        Duration::from_secs_f64(time * noise * pause * 0.01)
    }

    fn window(&mut self, rows: usize) -> Duration {
        let grown = self.machine.growth * self.place as f64 / TOKENS as f64;
        self.spend(self.machine.windows[rows - 1] + grown)
    }

    fn round(&mut self) {
        let offer = Offer { mtp: true, lookup: self.text.lookup(self.place), room: MAX_DEPTH };
        match self.policy.plan(offer) {
            Plan::Plain => {
                let verify = self.window(1);
                self.finish(&Round { verify, ..Round::default() });
            }
            Plan::Mtp { depth } => self.mtp_round(depth),
            Plan::Lookup { depth } => {
                let hits = (1..=depth).take_while(|i| self.text.lookup_hit(self.place + i));
                let accepted = hits.count();
                let matched = offer.lookup.unwrap();
                let verify = self.window(depth + 1);
                let source = Source::Lookup;
                let drafted = depth;
                let round =
                    Round { source, matched, drafted, accepted, verify, ..Round::default() };
                self.finish(&round);
            }
        }
    }

    fn mtp_round(&mut self, depth: usize) {
        let (mut confidences, mut hits, mut draft_times) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let step = if hits.is_empty() {
                self.machine.first_draft + self.machine.catch_up * self.behind as f64
            } else {
                self.machine.draft
            };
            draft_times.push(self.spend(step));
            let (confidence, hit) = self.text.draft(self.place + hits.len() + 1, hits.len() + 1);
            confidences.push(confidence);
            hits.push(hit);
            if !self.policy.deeper(&confidences) {
                break;
            }
        }
        assert!(hits.len() <= depth);
        let drafted = match self.ability {
            Loop::Whole => self.policy.keep(&confidences),
            Loop::Simple => hits.len(),
        };
        if self.ability == Loop::Simple {
            draft_times.clear();
        }
        let accepted = hits[..drafted].iter().take_while(|&&hit| hit).count();
        let left_out_hit = if accepted == drafted { hits.get(drafted).copied() } else { None };
        let verify = self.window(drafted + 1);
        self.finish(&Round {
            source: Source::Mtp,
            confidences: &confidences,
            matched: 0,
            drafted,
            accepted,
            left_out_hit,
            draft_times: &draft_times,
            verify,
        });
    }

    fn finish(&mut self, round: &Round<'_>) {
        self.policy.observe(round);
        self.place += round.tokens();
        self.behind += round.tokens();
        if round.source == Source::Mtp {
            self.behind = round.tokens();
        }
        if round.drafted > 0 {
            self.by_drafts += round.tokens();
        }
    }
}

/// Times of plain, of the best fixed mode and of the adaptive one, in plain windows per token.
fn compare(machine: Machine, text: Text, fixed: impl Iterator<Item = SpecMode>) -> [f64; 3] {
    let plain = Run::time(machine, text, SpecMode::Off);
    let adaptive = Run::time(machine, text, SpecMode::Adaptive);
    let times = fixed.map(|mode| (Run::time(machine, text, mode), mode));
    let (best, mode) = times.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    let per_token = TOKENS as f64;
    println!(
        "{:8} {:18} plain {:.3}  best {:.3} {:12}  adaptive {:.3}  {:+.1} % / {:+.1} %",
        machine.name,
        text.name,
        plain / per_token,
        best / per_token,
        mode.to_string(),
        adaptive / per_token,
        100.0 * (adaptive / plain - 1.0),
        100.0 * (adaptive / best.min(plain) - 1.0),
    );
    [plain, best.min(plain), adaptive]
}

/// Compares on every machine and asserts the bounds of all comparisons together, so that a failing
/// run shows every row.
fn check(texts: &[Text], modes: &[SpecMode]) {
    let mut broken = Vec::new();
    for machine in MACHINES {
        for text in texts.iter().flat_map(|&text| SEEDS.map(|seed| Text { seed, ..text })) {
            let [plain, best, adaptive] = compare(machine, text, modes.iter().copied());
            if adaptive > OVER_PLAIN * plain || adaptive > OVER_FIXED * best {
                broken.push(format!("{} {} {}", machine.name, text.name, text.seed));
            }
        }
    }
    assert!(broken.is_empty(), "adaptive is too slow on {broken:?}");
}

fn mtp_depths() -> Vec<SpecMode> {
    (1..=MAX_DEPTH).map(|depth| SpecMode::Mtp { depth }).collect()
}

#[test]
fn adaptive_keeps_up_with_every_fixed_depth() {
    check(&TEXTS, &mtp_depths());
}

#[test]
fn adaptive_keeps_up_where_lookups_help_or_mislead() {
    let mut modes = mtp_depths();
    modes.extend((1..=MAX_DEPTH).map(|depth| SpecMode::Lookup { depth }));
    modes.extend((1..=MAX_DEPTH).map(|depth| SpecMode::MtpLookup { depth }));
    let hard = text("copies, else hard", [0.2, 0.2], Confidence::Telling);
    let middling = text("copies, middling", [0.6, 0.6], Confidence::Noise);
    let traps = text("traps", [0.2, 0.2], Confidence::Noise);
    let texts = [
        Text { lookups: Lookups::Copies, ..hard },
        Text { lookups: Lookups::Copies, ..middling },
        Text { lookups: Lookups::Traps, ..traps },
    ];
    check(&texts, &modes);
}

#[test]
fn a_simple_loop_is_served_too() {
    for machine in [CPU, GPU, EXPERTS] {
        for text in TEXTS {
            let mut run = Run::new(machine, text, SpecMode::Adaptive);
            run.ability = Loop::Simple;
            run.until(TOKENS);
            let fixed = mtp_depths().into_iter().map(|mode| Run::time(machine, text, mode));
            let best = fixed.fold(TOKENS as f64, f64::min);
            println!(
                "simple {} {} {:+.1} %",
                machine.name,
                text.name,
                100.0 * (run.clock / best - 1.0)
            );
            assert!(run.clock <= OVER_FIXED * best, "{} {}", machine.name, text.name);
        }
    }
}

#[test]
fn a_short_text_loses_little() {
    for machine in MACHINES {
        let mut run = Run::new(machine, TEXTS[5], SpecMode::Adaptive);
        run.until(100);
        let mut plain = Run::new(machine, TEXTS[5], SpecMode::Off);
        plain.until(run.place);
        let plain = plain.clock;
        println!("first 100 {} {:.1} of {plain:.1}", machine.name, run.clock);
        assert!(run.clock < plain + 12.0, "{}: {}", machine.name, run.clock);
    }
}

#[test]
fn many_short_texts_lose_little() {
    for machine in [CPU, GPU, EXPERTS, TILES, BAD] {
        let time = |text, mode| {
            let mut run = Run::new(machine, text, mode);
            for answer in 1..=TOKENS / 100 {
                run.until(100 * answer);
                run.policy.new_text();
            }
            run.clock
        };
        for text in TEXTS {
            let adaptive = time(text, SpecMode::Adaptive);
            let fixed = mtp_depths().into_iter().map(|mode| time(text, mode));
            let best = fixed.fold(TOKENS as f64, f64::min);
            let slower = adaptive / best - 1.0;
            println!("short {} {} {:+.1} %", machine.name, text.name, 100.0 * slower);
            assert!(adaptive <= OVER_PLAIN * TOKENS as f64, "{} {}", machine.name, text.name);
            assert!(adaptive <= OVER_FIXED * best, "{} {}", machine.name, text.name);
        }
    }
}

#[test]
fn comes_back_when_the_text_turns_easy() {
    for confidence in [Confidence::Telling, Confidence::Noise] {
        let text = Text { stretch: 6000, ..text("", [0.1, 0.9], confidence) };
        let mut run = Run::new(CPU, text, SpecMode::Adaptive);
        run.until(6000 + 3 * 1024);
        run.by_drafts = 0;
        let from = run.place;
        run.until(11_000);
        let share = run.by_drafts as f64 / (run.place - from) as f64;
        assert!(share > 0.9, "{confidence:?}: {share}");
    }
}

#[test]
fn probes_become_rare_when_nothing_pays() {
    let mut run = Run::new(BAD, TEXTS[5], SpecMode::Adaptive);
    run.until(TOKENS / 4);
    let (place, clock) = (run.place, run.clock);
    run.until(TOKENS);
    let plain = (run.place - place) as f64;
    let lost = run.clock - clock - plain;
    assert!(lost < 0.01 * plain, "{lost} of {plain}");
}

#[test]
fn decisions_depend_on_nothing_but_what_was_observed() {
    let runs = [0; 2].map(|_| Run::time(EXPERTS, TEXTS[3], SpecMode::Adaptive));
    assert_eq!(runs[0], runs[1]);
}
