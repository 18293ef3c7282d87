//! Tokens that hold a part of a character.

use std::ops::RangeInclusive;

/// The code points of the characters that can begin with these bytes, the first ones of a UTF-8
/// sequence; empty if none can.
pub(super) fn completions(begun: &[u8]) -> RangeInclusive<u32> {
    #[allow(clippy::reversed_empty_ranges)] // An empty range is meant.
    const NONE: RangeInclusive<u32> = 1..=0;
    let Some((&lead, more)) = begun.split_first() else { return NONE };
    let (length, bits, least) = match lead {
        0xC2..=0xDF => (2, lead & 0x1F, 0x80),
        0xE0..=0xEF => (3, lead & 0x0F, 0x800),
        0xF0..=0xF4 => (4, lead & 0x07, 0x1_0000),
        _ => return NONE,
    };
    if begun.len() >= length {
        return NONE;
    }
    let code = more.iter().fold(u32::from(bits), |code, byte| code << 6 | u32::from(byte & 0x3F));
    let open = 6 * (length - begun.len());
    let first = code << open;
    first.max(least)..=first | ((1 << open) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_leads_to_every_character_that_has_it() {
        for c in ['\u{e9}', '\u{7ff}', '\u{800}', '\u{4f60}', '\u{ffff}', '\u{1f642}', char::MAX] {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            for len in 1..bytes.len() {
                assert!(completions(&bytes[..len]).contains(&u32::from(c)), "{c:?} {len}");
            }
        }
        assert_eq!(completions(b"\xE4\xBD"), 0x4F40..=0x4F7F);
        assert_eq!(completions(b"\xE0"), 0x800..=0xFFF);
    }

    #[test]
    fn what_begins_no_character_leads_nowhere() {
        for bytes in [&b""[..], b"a", b"\x80", b"\xBD\xA0", b"\xFF", b"\xC0", b"\xE4\xBD\xA0"] {
            assert!(completions(bytes).is_empty(), "{bytes:x?}");
        }
    }
}
