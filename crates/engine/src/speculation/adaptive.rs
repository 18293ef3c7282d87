//! Chooses what gives the most tokens per second, by measured times and acceptance.
//!
//! The rate of plain decoding is the yardstick. MTP drafts are made until they have lost so much
//! time against it that it is no chance; a chain goes on as long as the tokens still to be hoped
//! for cost less time than they do at the present rate. When nothing pays, short probes at growing
//! intervals find out whether the text turned easy.

use super::acceptance::Acceptance;
use super::costs::{Costs, Work};
use super::mode::MAX_DEPTH;
use super::policy::{Offer, Plan};
use super::round::{Round, Source};
use std::time::Duration;

/// Tokens from the end of drafting to the first probe, and most between two probes.
const FIRST_INTERVAL: usize = 32;
const LONGEST_INTERVAL: usize = 1024;
/// Drafting that lasted so many tokens was worth the probe: intervals start anew after it.
const WORTHWHILE: usize = 64;
/// Time that probes may lose: a share of all time, and so many plain tokens at once.
const PROBE_SHARE: f64 = 0.006;
const PROBE_CREDIT: f64 = 4.0;
/// Drafting ends when it lost so many plain tokens' time and its rate is below the plain one; a
/// probe when it lost so many; and whatever the rate is believed to be, when it lost so many.
const MOST_LOSS: f64 = 2.0;
const MOST_PROBE_LOSS: f64 = 1.0;
const MOST_LOSS_EVER: f64 = 5.0;
/// Recent rounds that a probe and a new text still go by.
const PROBE_MEMORY: f64 = 2.0;
const TEXT_MEMORY: f64 = 6.0;
const LOOKUP_MEMORY: f64 = 30.0;
/// What is kept of the achieved rate per round, and the rounds it needs to say anything.
const ACHIEVED_KEEP: f64 = 0.97;
const ACHIEVED_ROUNDS: f64 = 8.0;
/// Samples without a window of one row after which one is run, to know the yardstick.
const PLAIN_REFRESH: u64 = 1000;
/// Most tokens that a usual catch-up has; more of them take longer.
const USUAL_CATCH_UP: usize = MAX_DEPTH + 1;
/// Most time per token that a longer catch-up is charged with, in plain tokens.
const CATCH_UP_SHARE: f64 = 0.02;

/// State of the adaptive mode.
#[derive(Clone, Debug)]
pub(super) struct Adaptive {
    costs: Costs,
    acceptance: Acceptance,
    drafting: Drafting,
    /// Tokens between probes, and since the last one (or the end of drafting).
    interval: usize,
    waited: usize,
    /// Tokens since drafting began.
    drafted_for: usize,
    /// Time that drafting lost against plain decoding, in plain tokens: since it began (negative
    /// is a gain), and since its best moment.
    balance: f64,
    loss: f64,
    /// Tokens that the draft head has not been fed.
    behind: usize,
    achieved: Achieved,
    probes: Probes,
    /// Tokens per second that a draft has to beat.
    pace: f64,
}

/// Whether MTP drafts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drafting {
    /// They pay, as far as known.
    On,
    /// They do not.
    Off,
}

/// Fading sums over MTP rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Achieved {
    rounds: f64,
    tokens: f64,
    seconds: f64,
}

/// Time since drafting ended, and how much of it probes lost, in plain tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Probes {
    lost: f64,
    elapsed: f64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            costs: Costs::default(),
            acceptance: Acceptance::default(),
            drafting: Drafting::On,
            interval: FIRST_INTERVAL / 2,
            waited: 0,
            drafted_for: 0,
            balance: 0.0,
            loss: 0.0,
            behind: 1,
            achieved: Achieved::default(),
            probes: Probes::default(),
            pace: 0.0,
        }
    }
}

impl Adaptive {
    pub(super) fn new_text(&mut self) {
        self.acceptance.soften(TEXT_MEMORY);
        self.acceptance.soften_lookups(LOOKUP_MEMORY);
        self.achieved = Achieved::default();
        self.interval = FIRST_INTERVAL;
        self.behind = 1;
    }

    /// `offer.room` is at least 1.
    pub(super) fn plan(&mut self, offer: Offer) -> Plan {
        // The yardstick comes first.
        let (Some(seconds), Some(age)) = (self.costs.window(1), self.costs.age(Work::Window(1)))
        else {
            return Plan::Plain;
        };
        let plain = 1.0 / seconds;
        let drafts = offer.mtp.then(|| self.mtp_rate(offer.room)).flatten();
        let drafts = drafts.filter(|&rate| self.wants_mtp(rate < plain));
        self.pace = drafts.map_or(plain, |rate| rate.max(plain));
        if let Some((depth, rate)) = self.best_lookup(offer)
            && rate > self.pace
        {
            return Plan::Lookup { depth };
        }
        match drafts {
            Some(_) if age > PLAIN_REFRESH => Plan::Plain,
            Some(_) => Plan::Mtp { depth: offer.room },
            None => Plan::Plain,
        }
    }

    /// Turns MTP drafts on and off; whether to make some now.
    fn wants_mtp(&mut self, below_plain: bool) -> bool {
        let off = self.drafting == Drafting::Off;
        let enough = if below_plain { MOST_LOSS } else { MOST_LOSS_EVER };
        if !off && self.loss > enough {
            self.leave();
        } else if off && self.waited >= self.interval && self.probes.affordable() {
            self.acceptance.soften(PROBE_MEMORY);
            self.achieved = Achieved::default();
            // A probe is drafting that may lose less.
            self.drafting = Drafting::On;
            self.drafted_for = 0;
            self.balance = 0.0;
            self.loss = MOST_LOSS - MOST_PROBE_LOSS;
        }
        self.drafting != Drafting::Off
    }

    /// Ends drafting, and says when to try again.
    fn leave(&mut self) {
        if self.drafted_for >= WORTHWHILE && self.balance < 0.0 {
            self.interval = FIRST_INTERVAL;
            self.probes = Probes::default();
        } else {
            self.interval = (2 * self.interval).min(LONGEST_INTERVAL);
            self.probes.lost += self.balance.max(0.0);
        }
        self.waited = 0;
        self.drafting = Drafting::Off;
    }

    /// Tokens per second of MTP rounds: of the best depth by the rates of acceptance, or what was
    /// achieved lately, which confidences may make better.
    fn mtp_rate(&self, room: usize) -> Option<f64> {
        let mut seconds = self.costs.first_draft()?;
        let (mut tokens, mut chance, mut best) = (1.0, 1.0, 0.0_f64);
        for depth in 1..=room {
            chance *= self.acceptance.by_depth(depth);
            tokens += chance;
            best = best.max(tokens / (seconds + self.costs.window(depth + 1)?));
            seconds += self.costs.draft()?;
        }
        Some(self.achieved.rate().map_or(best, |rate| rate.max(best)))
    }

    /// Depth and rate of the best lookup, if one is offered.
    fn best_lookup(&self, offer: Offer) -> Option<(usize, f64)> {
        let matched = offer.lookup?;
        let (mut tokens, mut chance) = (1.0, 1.0);
        let mut best: Option<(usize, f64)> = None;
        for depth in 1..=offer.room {
            chance *= self.acceptance.of_lookup(matched, depth);
            tokens += chance;
            let rate = tokens / self.costs.window(depth + 1)?;
            if best.is_none_or(|(_, other)| rate > other) {
                best = Some((depth, rate));
            }
        }
        best
    }

    pub(super) fn deeper(&self, confidences: &[f32], depth: usize) -> bool {
        let made = confidences.len();
        let (Some(step), Some((_, stop))) = (self.costs.draft(), self.best_cut(confidences)) else {
            return false;
        };
        let (mut tokens, mut chance) = self.hopes(confidences);
        // Not only the next one: a dear row may lead to cheap ones.
        (made + 1..=depth).any(|next| {
            chance *= self.acceptance.by_depth(next);
            tokens += chance;
            let seconds = self.costs.window(next + 1).unwrap_or(f64::INFINITY);
            tokens - self.pace * (seconds + (next - made) as f64 * step) > stop
        })
    }

    pub(super) fn keep(&self, confidences: &[f32]) -> usize {
        self.best_cut(confidences).map_or(confidences.len(), |(kept, _)| kept)
    }

    /// How many of the drafts to verify, and what the window then gains: its tokens less those
    /// that its time is worth.
    fn best_cut(&self, confidences: &[f32]) -> Option<(usize, f64)> {
        let (mut tokens, mut chance) = (1.0, 1.0);
        let mut best = (0, 1.0 - self.pace * self.costs.window(1)?);
        for (i, &confidence) in confidences.iter().take(MAX_DEPTH).enumerate() {
            chance *= self.acceptance.of_draft(i + 1, confidence);
            tokens += chance;
            let gain = tokens - self.pace * self.costs.window(i + 2)?;
            if gain > best.1 {
                best = (i + 1, gain);
            }
        }
        Some(best)
    }

    /// Tokens expected of a window with these drafts, and the chance that all are accepted.
    fn hopes(&self, confidences: &[f32]) -> (f64, f64) {
        let (mut tokens, mut chance) = (1.0, 1.0);
        for (i, &confidence) in confidences.iter().enumerate() {
            chance *= self.acceptance.of_draft(i + 1, confidence);
            tokens += chance;
        }
        (tokens, chance)
    }

    pub(super) fn observe(&mut self, round: &Round<'_>) {
        let tokens = round.tokens();
        self.costs.observe(Work::Window(round.drafted + 1), round.verify);
        if let Some((first, further)) = round.draft_times.split_first() {
            self.observe_first_draft(*first);
            further.iter().for_each(|&time| self.costs.observe(Work::Draft, time));
        }
        self.acceptance.observe(round);
        self.waited += tokens;
        self.drafted_for += tokens;
        if let (Some(seconds), Some(plain)) = (self.seconds_of(round), self.costs.window(1)) {
            self.account(round, seconds, plain);
        }
        self.behind = if round.source == Source::Mtp { tokens } else { self.behind + tokens };
    }

    /// What the round should have taken: measured times would add their noise to the rates.
    fn seconds_of(&self, round: &Round<'_>) -> Option<f64> {
        let window = self.costs.window(round.drafted + 1)?;
        if round.source != Source::Mtp {
            return Some(window);
        }
        let made = round.confidences.len().max(round.drafted).max(1);
        Some(window + self.costs.first_draft()? + (made - 1) as f64 * self.costs.draft()?)
    }

    /// Books what the round took, in `seconds` where a plain window takes `plain`.
    fn account(&mut self, round: &Round<'_>, seconds: f64, plain: f64) {
        self.probes.elapsed += seconds / plain;
        if round.source != Source::Mtp {
            return;
        }
        self.achieved.add(round.tokens(), seconds);
        let lost = seconds / plain - round.tokens() as f64;
        self.loss = (self.loss + lost).max(0.0);
        self.balance += lost + self.long_catch_up(plain) / plain;
    }

    /// The first draft step also feeds the head what it has not seen, which may be a lot.
    fn observe_first_draft(&mut self, time: Duration) {
        if self.behind <= USUAL_CATCH_UP {
            self.costs.observe(Work::FirstDraft, time);
        } else if let Some(usual) = self.costs.first_draft() {
            let more = (time.as_secs_f64() - usual).max(0.0);
            let per_token = Duration::from_secs_f64(more / self.behind as f64);
            self.costs.observe(Work::CatchUp, per_token);
        }
    }

    /// Seconds that the tokens of a long plain stretch added to the first draft step.
    fn long_catch_up(&self, plain: f64) -> f64 {
        let long = self.behind > USUAL_CATCH_UP;
        let per_token = self.costs.catch_up().min(CATCH_UP_SHARE * plain);
        if long { per_token * self.behind as f64 } else { 0.0 }
    }
}

impl Achieved {
    fn add(&mut self, tokens: usize, seconds: f64) {
        self.rounds = ACHIEVED_KEEP * self.rounds + 1.0;
        self.tokens = ACHIEVED_KEEP * self.tokens + tokens as f64;
        self.seconds = ACHIEVED_KEEP * self.seconds + seconds;
    }

    fn rate(&self) -> Option<f64> {
        (self.rounds >= ACHIEVED_ROUNDS).then(|| self.tokens / self.seconds)
    }
}

impl Probes {
    fn affordable(&self) -> bool {
        self.lost <= PROBE_SHARE * self.elapsed + PROBE_CREDIT
    }
}
