//! Which drafts a user asks for.

use std::fmt;
use std::str::FromStr;

/// Most drafts of one round; its window then has one row more.
pub const MAX_DEPTH: usize = 8;

/// Depth of `mtp` and `mtp+lookup` without a number.
const MTP_DEPTH: usize = 2;

/// Where drafts come from and how many a round has. Depths are `1..=MAX_DEPTH`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecMode {
    /// No drafts.
    Off,
    /// The model's draft head.
    Mtp {
        /// Drafts of a round.
        depth: usize,
    },
    /// Earlier occurrences of the latest tokens.
    Lookup {
        /// Drafts of a round.
        depth: usize,
    },
    /// Long matches if there are any, else the draft head.
    MtpLookup {
        /// Drafts of a round, whatever their source.
        depth: usize,
    },
    /// What measured times and acceptance say pays best.
    #[default]
    Adaptive,
}

/// A mode that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// No such mode.
    #[error(
        "unknown draft mode {text:?}; use off, mtp, lookup, mtp+lookup or adaptive, the middle \
         three also with a number of drafts, as in mtp:3"
    )]
    Unknown {
        /// What was given.
        text: String,
    },
    /// The mode takes no number.
    #[error("draft mode {text:?}: off and adaptive take no number of drafts")]
    NoDepth {
        /// What was given.
        text: String,
    },
    /// The number is unusable.
    #[error("draft mode {text:?}: the number of drafts must be 1 to {MAX_DEPTH}")]
    BadDepth {
        /// What was given.
        text: String,
    },
}

impl FromStr for SpecMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let (name, depth) = match text.split_once(':') {
            Some((name, depth)) => (name, Some(depth)),
            None => (text, None),
        };
        let depth_or = |default| depth.map_or(Ok(default), |depth| parse_depth(depth, text));
        match name {
            "off" | "adaptive" if depth.is_some() => Err(ModeError::NoDepth { text: text.into() }),
            "off" => Ok(Self::Off),
            "adaptive" => Ok(Self::Adaptive),
            "mtp" => Ok(Self::Mtp { depth: depth_or(MTP_DEPTH)? }),
            "lookup" => Ok(Self::Lookup { depth: depth_or(MAX_DEPTH)? }),
            "mtp+lookup" => Ok(Self::MtpLookup { depth: depth_or(MTP_DEPTH)? }),
            _ => Err(ModeError::Unknown { text: text.into() }),
        }
    }
}

/// Digits only: `parse` would also take a sign.
fn parse_depth(depth: &str, text: &str) -> Result<usize, ModeError> {
    let digits = depth.bytes().all(|b| b.is_ascii_digit());
    let value = depth.parse().ok().filter(|n| digits && (1..=MAX_DEPTH).contains(n));
    value.ok_or_else(|| ModeError::BadDepth { text: text.into() })
}

impl fmt::Display for SpecMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Mtp { depth } => write!(f, "mtp:{depth}"),
            Self::Lookup { depth } => write!(f, "lookup:{depth}"),
            Self::MtpLookup { depth } => write!(f, "mtp+lookup:{depth}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_mode() {
        let cases = [
            ("off", SpecMode::Off),
            ("mtp", SpecMode::Mtp { depth: 2 }),
            ("mtp:1", SpecMode::Mtp { depth: 1 }),
            ("mtp:8", SpecMode::Mtp { depth: 8 }),
            ("lookup", SpecMode::Lookup { depth: 8 }),
            ("lookup:3", SpecMode::Lookup { depth: 3 }),
            ("mtp+lookup", SpecMode::MtpLookup { depth: 2 }),
            ("mtp+lookup:5", SpecMode::MtpLookup { depth: 5 }),
            ("adaptive", SpecMode::Adaptive),
        ];
        for (text, mode) in cases {
            assert_eq!(text.parse(), Ok(mode), "{text}");
            assert_eq!(mode.to_string().parse(), Ok(mode), "{text} again");
        }
    }

    #[test]
    fn names_what_it_cannot_read() {
        for text in ["", "MTP", "mtp ", "lookup+mtp", ":", ":2", "on"] {
            let error = text.parse::<SpecMode>().unwrap_err();
            assert_eq!(error, ModeError::Unknown { text: text.into() });
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
        for text in ["mtp:0", "mtp:9", "mtp:", "mtp:+2", "lookup:-1", "mtp:2:2", "mtp:2 "] {
            let error = text.parse::<SpecMode>().unwrap_err();
            assert_eq!(error, ModeError::BadDepth { text: text.into() });
            assert!(error.to_string().contains("1 to 8"), "{error}");
        }
        for text in ["off:1", "adaptive:2", "off:"] {
            assert_eq!(text.parse::<SpecMode>(), Err(ModeError::NoDepth { text: text.into() }));
        }
    }
}
