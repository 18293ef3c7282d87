//! One of two settings: engine options as they stand in quotes on the command line.

use clap::Parser;

use crate::args::DeviceArgs;

/// A setting.
#[derive(Debug, Clone)]
pub(super) struct Config {
    /// As it was given, with single blanks.
    pub(super) text: String,
    pub(super) device: DeviceArgs,
}

/// The options alone, as clap reads them.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, args_override_self = true)]
struct Options {
    #[command(flatten)]
    device: DeviceArgs,
}

/// Parses options with blanks between them. None of their values has a blank in it.
pub(super) fn parse_config(text: &str) -> Result<Config, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match Options::try_parse_from(&words) {
        Ok(Options { device }) => Ok(Config { text: words.join(" "), device }),
        Err(error) => {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            let fault = first.strip_prefix("error: ").unwrap_or(first);
            Err(format!("{fault}; it is a list of engine options like \"--threads 1 --kv q8_0\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_quotes_are_those_of_the_engine() {
        let config = parse_config(" --threads 3   --isa portable ").unwrap();
        assert_eq!(config.text, "--threads 3 --isa portable");
        assert_eq!(config.device.cpu_options().threads, 3);
        assert_eq!(config.device.cpu_options().isa, cpu::Isa::Portable);
        assert_eq!(parse_config("").unwrap().text, "");
        for wrong in ["--threds 1", "x", "--kv q9", "--threads", "-m x", "--ctx 5", "--help"] {
            let fault = parse_config(wrong).unwrap_err();
            assert!(fault.contains("engine options") && !fault.contains('\n'), "{fault}");
        }
    }
}
