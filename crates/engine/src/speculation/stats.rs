//! What drafting did in an answer.

use super::mode::MAX_DEPTH;
use super::round::{Round, Source};
use std::fmt;
use std::time::Duration;

/// Counts and times of the rounds of an answer, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecStats {
    /// Rounds without drafts in plan.
    pub plain: SourceStats,
    /// Rounds with drafts of the head.
    pub mtp: SourceStats,
    /// Rounds with drafts from lookups.
    pub lookup: SourceStats,
    /// By depth, from the first draft on.
    pub depths: [DepthStats; MAX_DEPTH],
    /// First draft steps, which also catch up.
    pub catch_up: TimeStats,
    /// Further draft steps.
    pub draft_steps: TimeStats,
    /// Windows with drafts.
    pub verify: TimeStats,
    /// Windows without.
    pub plain_steps: TimeStats,
}

/// Rounds of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Rounds.
    pub rounds: u64,
    /// Tokens that they gave.
    pub tokens: u64,
    /// Drafts in windows.
    pub drafted: u64,
    /// Drafts accepted.
    pub accepted: u64,
}

/// Drafts of one depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthStats {
    /// Drafts in windows.
    pub drafted: u64,
    /// Those of them whose predecessors in the window were all accepted.
    pub reached: u64,
    /// Drafts accepted.
    pub accepted: u64,
}

/// Times of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeStats {
    /// How often.
    pub count: u64,
    /// All together.
    pub total: Duration,
}

impl SpecStats {
    /// Adds a round.
    pub fn add(&mut self, round: &Round<'_>) {
        let drafted = round.drafted.min(MAX_DEPTH);
        let accepted = round.accepted.min(drafted);
        let source = match round.source {
            Source::Plain => &mut self.plain,
            Source::Mtp => &mut self.mtp,
            Source::Lookup => &mut self.lookup,
        };
        source.rounds += 1;
        source.tokens += accepted as u64 + 1;
        source.drafted += drafted as u64;
        source.accepted += accepted as u64;
        for (i, depth) in self.depths[..drafted].iter_mut().enumerate() {
            depth.drafted += 1;
            depth.reached += u64::from(i <= accepted);
            depth.accepted += u64::from(i < accepted);
        }
        if let Some((first, further)) = round.draft_times.split_first() {
            self.catch_up.add(*first);
            further.iter().for_each(|&time| self.draft_steps.add(time));
        }
        let window = if drafted == 0 { &mut self.plain_steps } else { &mut self.verify };
        window.add(round.verify);
    }

    /// Adds what others counted.
    pub fn merge(&mut self, other: &Self) {
        self.plain.merge(other.plain);
        self.mtp.merge(other.mtp);
        self.lookup.merge(other.lookup);
        for (depth, other) in self.depths.iter_mut().zip(other.depths) {
            depth.drafted += other.drafted;
            depth.reached += other.reached;
            depth.accepted += other.accepted;
        }
        self.catch_up.merge(other.catch_up);
        self.draft_steps.merge(other.draft_steps);
        self.verify.merge(other.verify);
        self.plain_steps.merge(other.plain_steps);
    }

    /// All sources together.
    pub fn total(&self) -> SourceStats {
        let mut total = self.plain;
        total.merge(self.mtp);
        total.merge(self.lookup);
        total
    }

    /// Tokens per round, of rounds of any kind; `None` if there were none.
    pub fn tokens_per_round(&self) -> Option<f64> {
        ratio(self.total().tokens, self.total().rounds)
    }
}

impl SourceStats {
    /// Share of drafts accepted; `None` if there were none.
    pub fn acceptance(&self) -> Option<f64> {
        ratio(self.accepted, self.drafted)
    }

    fn merge(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.tokens += other.tokens;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
    }
}

impl DepthStats {
    /// Share accepted of drafts of this depth whose predecessors were; `None` if there were none.
    pub fn conditional(&self) -> Option<f64> {
        ratio(self.accepted, self.reached)
    }

    /// Share accepted of all drafts of this depth; `None` if there were none.
    pub fn cumulative(&self) -> Option<f64> {
        ratio(self.accepted, self.drafted)
    }
}

impl TimeStats {
    /// Mean time; `None` if there was none.
    pub fn mean(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.total.div_f64(self.count as f64))
    }

    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.total += time;
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
    }
}

/// One to three lines: all drafts, the sources if there were several, times.
impl fmt::Display for SpecStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let Some(acceptance) = total.acceptance() else {
            write!(f, "drafts: none in {}", rounds(total.rounds))?;
            return self.times(f);
        };
        let (accepted, drafted) = (total.accepted, total.drafted);
        write!(f, "drafts: {accepted} of {drafted} accepted ({})", percent(acceptance))?;
        let depths = self.depths.iter().filter_map(DepthStats::cumulative).map(percent);
        write!(f, "; by depth {}", depths.collect::<Vec<_>>().join(", "))?;
        if let Some(tokens) = self.tokens_per_round() {
            write!(f, "; {tokens:.1} tokens a round")?;
        }
        self.times(f)?;
        self.sources(f)
    }
}

impl SpecStats {
    fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("draft", self.draft_steps, " a step"),
            ("verify", self.verify, ""),
            ("catch-up", self.catch_up, ""),
            ("plain", self.plain_steps, ""),
        ];
        let known = parts.iter().filter_map(|(name, time, unit)| {
            Some(format!("{name} {}{unit}", millis(time.mean()?)))
        });
        let known = known.collect::<Vec<_>>().join(", ");
        if known.is_empty() { Ok(()) } else { write!(f, "; {known}") }
    }

    fn sources(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("mtp", self.mtp), ("lookup", self.lookup), ("plain", self.plain)];
        let used: Vec<_> = all.into_iter().filter(|(_, source)| source.rounds > 0).collect();
        if used.len() < 2 {
            return Ok(());
        }
        let part = |(name, source): (&str, SourceStats)| match source.acceptance() {
            Some(share) => format!("{name} {}, {} accepted", rounds(source.rounds), percent(share)),
            None => format!("{name} {}", rounds(source.rounds)),
        };
        let parts = used.into_iter().map(part).collect::<Vec<_>>().join("; ");
        write!(f, "\nsources: {parts}")
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Two digits at least.
fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 9.95 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

fn rounds(count: u64) -> String {
    let noun = if count == 1 { "round" } else { "rounds" };
    format!("{count} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn mtp(times: &[Duration], drafted: usize, accepted: usize) -> Round<'_> {
        let verify = ms(14);
        let draft_times = times;
        Round { source: Source::Mtp, draft_times, drafted, accepted, verify, ..Round::default() }
    }

    #[test]
    fn counts_by_depth_and_source() {
        let mut stats = SpecStats::default();
        let times = [ms(2), ms(1), ms(1)];
        stats.add(&mtp(&times, 3, 3));
        stats.add(&mtp(&times[..2], 2, 0));
        stats.add(&mtp(&times, 3, 1));
        stats.add(&Round { verify: ms(10), ..Round::default() });
        assert_eq!(stats.depths[0], DepthStats { drafted: 3, reached: 3, accepted: 2 });
        assert_eq!(stats.depths[1], DepthStats { drafted: 3, reached: 2, accepted: 1 });
        assert_eq!(stats.depths[2], DepthStats { drafted: 2, reached: 1, accepted: 1 });
        assert_eq!(stats.depths[3], DepthStats::default());
        assert_eq!(stats.depths[1].conditional(), Some(0.5));
        assert_eq!(stats.depths[1].cumulative(), Some(1.0 / 3.0));
        assert_eq!(stats.mtp, SourceStats { rounds: 3, tokens: 7, drafted: 8, accepted: 4 });
        assert_eq!(stats.plain, SourceStats { rounds: 1, tokens: 1, drafted: 0, accepted: 0 });
        assert_eq!(stats.tokens_per_round(), Some(2.0));
        assert_eq!(stats.catch_up, TimeStats { count: 3, total: ms(6) });
        assert_eq!(stats.draft_steps, TimeStats { count: 5, total: ms(5) });
        assert_eq!(stats.verify.mean(), Some(ms(14)));
        assert_eq!(stats.plain_steps, TimeStats { count: 1, total: ms(10) });
    }

    #[test]
    fn reads_well() {
        let mut stats = SpecStats::default();
        assert_eq!(stats.to_string(), "drafts: none in 0 rounds");
        let times = [ms(2), ms(1)];
        stats.add(&mtp(&times, 2, 2));
        stats.add(&mtp(&times, 2, 1));
        assert_eq!(
            stats.to_string(),
            "drafts: 3 of 4 accepted (75 %); by depth 100 %, 50 %; 2.5 tokens a round; \
             draft 1.0 ms a step, verify 14 ms, catch-up 2.0 ms"
        );
        let lookup = Round { source: Source::Lookup, drafted: 1, verify: ms(12), ..mtp(&[], 0, 0) };
        stats.add(&lookup);
        stats.add(&Round { verify: ms(9), ..Round::default() });
        let text = stats.to_string();
        let sources =
            "\nsources: mtp 2 rounds, 75 % accepted; lookup 1 round, 0 % accepted; plain 1 round";
        assert!(text.ends_with(sources), "{text}");
        assert!(text.contains("plain 9.0 ms"), "{text}");
    }

    #[test]
    fn plain_answers_read_well_too() {
        let mut stats = SpecStats::default();
        stats.add(&Round { verify: ms(9), ..Round::default() });
        assert_eq!(stats.to_string(), "drafts: none in 1 round; plain 9.0 ms");
    }

    #[test]
    fn merging_is_adding_up() {
        let times = [ms(3), ms(1)];
        let rounds = [mtp(&times, 2, 1), mtp(&times[..1], 1, 1), Round::default()];
        let (mut all, mut a, mut b) = Default::default();
        let add = |stats: &mut SpecStats, round| stats.add(round);
        rounds.iter().for_each(|round| add(&mut all, round));
        add(&mut a, &rounds[0]);
        rounds[1..].iter().for_each(|round| add(&mut b, round));
        a.merge(&b);
        assert_eq!(a, all);
    }
}
