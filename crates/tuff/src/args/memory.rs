//! Options that limit memory.

use clap::Args;
use engine::memory::{LimitSource, MemoryLimit, Ram};

use crate::units;

/// How much memory a model may take.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct MemoryArgs {
    /// Memory that the model may take, as in 8GiB or 900M (K, M, G and T alone are binary): what
    /// does not fit is refused before anything is loaded. auto is what the system says is free,
    /// less where a container or ulimit allows less, but for a margin.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_size)]
    ram: Ram,
    /// Memory of the GPU that the model may take. auto is what the GPU gives.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_size)]
    vram: Ram,
}

impl MemoryArgs {
    /// How much memory is asked for.
    pub(crate) fn ram(&self) -> Ram {
        self.ram
    }

    /// How much of the GPU's memory may be taken; `None` if it is to say so itself.
    pub(crate) fn vram(&self) -> Option<MemoryLimit> {
        match self.vram {
            Ram::Auto => None,
            Ram::Bytes(bytes) => Some(MemoryLimit { bytes, source: LimitSource::Setting }),
        }
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
