//! Options that limit memory.

use clap::{Args, ValueEnum, value_parser};
use engine::memory::{LimitSource, MemoryLimit, Ram};
use engine::store::Way;
use engine::{Ahead, StoreSettings};
use kernels::moe::RoutingDials;

use crate::units;

/// How much memory a model may take.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct MemoryArgs {
    /// Memory that the model may take, as in 8GiB or 900M (K, M, G and T alone are binary). Experts
    /// for which there is none are read from the file when they are used; a model of which the rest
    /// does not fit is refused before anything is loaded. auto is what the system says is free,
    /// less where a container or ulimit allows less, but for a margin.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_size)]
    ram: Ram,
    /// Memory of the GPU that the model may take. auto is what the GPU gives. Experts for which it
    /// is too small stay in memory, where the processors multiply them.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_size)]
    vram: Ram,
    /// Which experts are read before they are chosen, where not all are in memory. Changes speed,
    /// never a result.
    #[arg(long, value_enum, value_name = "WHICH", default_value = "next-layer")]
    read_ahead: ReadAhead,
    /// How experts are read, where not all are in memory.
    #[arg(long, value_enum, value_name = "HOW", default_value = "direct")]
    disk_reads: DiskReads,
    /// Reads under way at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u64).range(1..=256))]
    disk_queue: u64,
    /// Changes results: in place of a chosen expert that is not in memory, use one that is and has
    /// at least this share of its probability, as in 0.7.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Lossy")]
    prefer_resident: Option<f32>,
    /// Changes results: windows of 2 to 16 tokens, as checking drafts makes them, use at most so
    /// many experts of a layer, those most probable over all their tokens.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), help_heading = "Lossy")]
    window_experts: Option<u64>,
    /// Bytes for saved states of earlier texts, which the command adds.
    #[arg(skip)]
    saved_states: u64,
}

/// Which experts are read before they are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReadAhead {
    /// None.
    Never,
    /// Those that the next layer would choose from this layer's input.
    NextLayer,
}

/// How weights are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DiskReads {
    /// Past the system's cache of files, where the file system can.
    Direct,
    /// Through the system's cache of files.
    Cached,
}

impl MemoryArgs {
    /// With so many bytes for saved states of earlier texts.
    pub(crate) fn with_saved_states(self, saved_states: u64) -> Self {
        Self { saved_states, ..self }
    }

    /// How much memory is asked for.
    pub(crate) fn ram(&self) -> Ram {
        self.ram
    }

    /// Bytes for saved states of earlier texts.
    pub(crate) fn saved_states(&self) -> u64 {
        self.saved_states
    }

    /// How a store reads.
    pub(crate) fn store(&self, defaults: StoreSettings) -> StoreSettings {
        StoreSettings {
            ahead: match self.read_ahead {
                ReadAhead::Never => Ahead::Never,
                ReadAhead::NextLayer => Ahead::NextLayer,
            },
            way: match self.disk_reads {
                DiskReads::Direct => Way::Direct,
                DiskReads::Cached => Way::Cached,
            },
            threads: self.disk_queue as usize,
            ..defaults
        }
    }

    /// What may be traded for speed.
    pub(crate) fn dials(&self) -> RoutingDials {
        RoutingDials {
            prefer_resident: self.prefer_resident,
            window_experts: self.window_experts.map(|experts| experts as usize),
        }
    }

    /// What is traded for speed, in words; nothing if nothing is.
    pub(crate) fn dials_in_words(&self) -> String {
        let resident =
            self.prefer_resident.map(|share| format!(", experts in memory from {share}"));
        let window = self.window_experts.map(|count| format!(", {count} experts a window"));
        resident.into_iter().chain(window).collect()
    }

    /// The same memory with other trades where they are given.
    pub(crate) fn with_dials(&self, prefer_resident: Option<f32>, window: Option<u64>) -> Self {
        Self {
            prefer_resident: prefer_resident.or(self.prefer_resident),
            window_experts: window.or(self.window_experts),
            ..self.clone()
        }
    }

    /// How much of the GPU's memory may be taken; `None` if it is to say so itself.
    pub(crate) fn vram(&self) -> Option<MemoryLimit> {
        match self.vram {
            Ram::Auto => None,
            Ram::Bytes(bytes) => Some(MemoryLimit { bytes, source: LimitSource::Setting }),
        }
    }
}

/// A part of a probability.
pub(super) fn parse_share(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("write a number above 0 and at most 1".to_owned()),
    }
}

fn parse_size(text: &str) -> Result<Ram, String> {
    if text.trim().eq_ignore_ascii_case("auto") {
        return Ok(Ram::Auto);
    }
    match units::parse_bytes(text) {
        Ok(bytes @ 1..) => Ok(Ram::Bytes(bytes)),
        _ => Err("write a number and a unit, as in 8GiB or 900M, or auto".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_or_auto() {
        assert_eq!(parse_size("auto"), Ok(Ram::Auto));
        assert_eq!(parse_size("8G"), Ok(Ram::Bytes(8 << 30)));
        assert_eq!(parse_size("1.5GiB"), Ok(Ram::Bytes(3 << 29)));
        assert_eq!(parse_size("900M"), Ok(Ram::Bytes(900 << 20)));
        for text in ["", "0", "0G", "8", "-1G", "all"] {
            assert!(parse_size(text).is_err_and(|error| error.contains("or auto")), "{text}");
        }
    }
}
