//! A conversation as a file holds it: a line that says what it is, with a checksum, then JSON.

use serde::{Deserialize, Serialize};

use crate::commands::chat::Think;

/// How the first line begins; version, checksum and a line break follow.
const MAGIC: &str = "tuff conversation";

/// Version of what is written here.
const VERSION: u32 = 1;

/// Everything that goes on when a conversation does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Name of the last model's file.
    pub(crate) model: String,
    /// What saved states depend on: model file, chat template, settings.
    pub(crate) fingerprint: String,
    /// The system message.
    pub(crate) system: Option<String>,
    /// The variable `reasoning_effort`.
    pub(crate) reasoning_effort: Option<String>,
    /// What is done with thinking.
    pub(crate) think: Think,
    /// What random choices follow from.
    pub(crate) seed: u64,
    /// What was said.
    pub(crate) turns: Vec<Turn>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(crate) enum Turn {
    /// Of the user.
    User {
        /// Its text.
        content: String,
    },
    /// Of the model.
    Assistant {
        /// What it thought before.
        reasoning_content: String,
        /// What it said.
        content: String,
    },
}

impl Turn {
    /// A message of the user.
    pub(crate) fn user(text: &str) -> Turn {
        Turn::User { content: text.to_owned() }
    }
}

/// Why the bytes of a file are no conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRecord {
    /// Nothing of this program, or not all of it.
    #[error("it is {0}")]
    Damaged(&'static str),
    /// What a later program wrote.
    #[error("it is of version {0}, this program reads version {VERSION}; use the newer tuff")]
    Newer(u32),
}

impl Record {
    /// The bytes of a file.
    ///
    /// # Errors
    /// What `serde_json` reports.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let body = serde_json::to_string_pretty(self)? + "\n";
        let sum = crc32fast::hash(body.as_bytes());
        Ok(format!("{MAGIC} {VERSION} {sum:08x}\n{body}").into_bytes())
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`BadRecord`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Record, BadRecord> {
        let cut = BadRecord::Damaged("cut or damaged");
        let foreign = BadRecord::Damaged("no conversation that tuff wrote");
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(foreign.clone())?;
        let head =
            std::str::from_utf8(&bytes[..end]).ok().and_then(|head| head.strip_prefix(MAGIC));
        let mut words = head.ok_or(foreign)?.split(' ').skip(1);
        let version = words.next().and_then(|word| word.parse::<u32>().ok()).ok_or(cut.clone())?;
        if version > VERSION {
            return Err(BadRecord::Newer(version));
        }
        let body = &bytes[end + 1..];
        let sum = format!("{:08x}", crc32fast::hash(body));
        if version != VERSION || words.next() != Some(&sum) || words.next().is_some() {
            return Err(cut);
        }
        serde_json::from_slice(body).map_err(|_| cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let content = "\u{1f642} \"quoted\"\n\u{7}".to_owned();
        let reasoning_content = String::new();
        Record {
            model: "m.gguf".to_owned(),
            fingerprint: "x".to_owned(),
            system: Some("Be brief.".to_owned()),
            reasoning_effort: None,
            think: Think::Hide,
            seed: u64::MAX,
            turns: vec![
                Turn::User { content: content.clone() },
                Turn::Assistant { reasoning_content, content },
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let record = record();
        assert_eq!(Record::from_bytes(&record.to_bytes().unwrap()), Ok(record));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_shows() {
        let good = record().to_bytes().unwrap();
        for len in 0..good.len() {
            assert!(Record::from_bytes(&good[..len]).is_err(), "{len}");
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::from_bytes(&bytes).is_err(), "bit {bit}");
        }
        assert!(Record::from_bytes(&[&good[..], b"\n"].concat()).is_err());
        let newer = String::from_utf8(good).unwrap().replacen(" 1 ", " 2 ", 1);
        assert_eq!(Record::from_bytes(newer.as_bytes()), Err(BadRecord::Newer(2)));
    }
}
