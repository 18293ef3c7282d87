//! Names of the files in a folder: they say what a file is of, so that one is found, and left out,
//! without being read.

use crate::fingerprint::Fingerprint;

/// What ends the name of a file that is not complete.
pub(super) const UNFINISHED: &str = ".tmp";

/// A beginning of a text under one model and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Text {
    /// Of model and settings.
    pub(super) context: u64,
    /// Of all tokens.
    pub(super) tokens: u64,
}

/// Whose states they are: what one owner saved can be deleted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// The owner of this name.
    pub fn named(name: &str) -> Self {
        let mut print = Fingerprint::new();
        print.add(name.as_bytes());
        Self(print.number())
    }
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// The rows of a piece, those of the attention layers only.
    Piece(Text),
    /// The rows of a piece, those of the drafting block, too.
    FullPiece(Text),
    /// A snapshot.
    State(Text, Owner),
}

impl Name {
    /// The name of a piece.
    pub(super) fn piece(text: Text, has_mtp: bool) -> Self {
        if has_mtp { Self::FullPiece(text) } else { Self::Piece(text) }
    }

    /// What a file of this name is; `None` for a name of something else.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (stem, ending) = name.split_once('.')?;
        let mut numbers = stem.split('-').map(parse_hex);
        let text = Text { context: numbers.next()??, tokens: numbers.next()?? };
        let owner = numbers.next();
        let found = match (ending, owner) {
            ("piece", None) => Self::Piece(text),
            ("full.piece", None) => Self::FullPiece(text),
            ("state", Some(owner)) => Self::State(text, Owner(owner?)),
            _ => return None,
        };
        numbers.next().is_none().then_some(found)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Piece(Text { context, tokens }) => {
                write!(f, "{context:016x}-{tokens:016x}.piece")
            }
            Self::FullPiece(Text { context, tokens }) => {
                write!(f, "{context:016x}-{tokens:016x}.full.piece")
            }
            Self::State(Text { context, tokens }, Owner(owner)) => {
                write!(f, "{context:016x}-{tokens:016x}-{owner:016x}.state")
            }
        }
    }
}

/// Sixteen digits as they are written here, and nothing else.
fn parse_hex(digits: &str) -> Option<u64> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:016x}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_none() {
        let text = Text { context: 7, tokens: u64::MAX };
        let names =
            [Name::Piece(text), Name::FullPiece(text), Name::State(text, Owner::named("a"))];
        for name in names {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        let other = ["", "lock", "notes.txt", "1-2.piece", "x.state", "a-b-c.state"];
        for name in other.map(str::to_owned).into_iter().chain([
            format!("{}{UNFINISHED}", names[0]),
            names[2].to_string().replace(".state", ".piece"),
            names[0].to_string().replace(".piece", ".state"),
            names[2].to_string().replace(".state", "-0000000000000000.state"),
            names[0].to_string().replace('f', "F"),
        ]) {
            assert_eq!(Name::parse(&name), None, "{name}");
        }
    }
}
