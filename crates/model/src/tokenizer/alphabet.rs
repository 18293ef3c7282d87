//! The printable alphabet in which byte-level BPE vocabularies spell bytes: visible Latin-1
//! characters stand for themselves, the other 68 bytes for U+0100 onwards, in order.

/// The character of each byte.
const CHARS: [char; 256] = chars();

const fn chars() -> [char; 256] {
    let mut table = ['\0'; 256];
    let mut next = 256;
    let mut byte = 0;
    while byte < 256 {
        let visible = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let code = if visible { byte as u32 } else { next };
        next += !visible as u32;
        table[byte] = match char::from_u32(code) {
            Some(c) => c,
            None => panic!("codes stay below 324"),
        };
        byte += 1;
    }
    table
}

/// The spelling of one byte.
pub(super) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that a character spells, `None` outside the alphabet.
pub(super) fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ (33..=126 | 161..=172 | 174..=255) => u8::try_from(code).ok(),
        code @ 256..=288 => u8::try_from(code - 256).ok(),
        code @ 289..=322 => u8::try_from(code - 289 + 127).ok(),
        323 => Some(173),
        _ => None,
    }
}

/// Bytes spelled in the alphabet.
pub(super) fn spell(bytes: &[u8], into: &mut String) {
    into.extend(bytes.iter().map(|&byte| char_of(byte)));
}

/// The bytes that a token spells. A token with a character outside the alphabet was stored as
/// plain text and stands for its own UTF-8 bytes.
pub(super) fn read(token: &str, into: &mut Vec<u8>) {
    let start = into.len();
    for c in token.chars() {
        match byte_of(c) {
            Some(byte) => into.push(byte),
            None => {
                into.truncate(start);
                into.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        let mut seen = std::collections::HashSet::new();
        for byte in 0..=255u8 {
            let c = char_of(byte);
            assert!(seen.insert(c));
            assert!(!c.is_whitespace() && !c.is_control(), "{byte}");
            assert_eq!(byte_of(c), Some(byte));
        }
        assert_eq!(char_of(b' '), '\u{120}');
        assert_eq!(char_of(b'\n'), '\u{10a}');
        assert_eq!(byte_of(' '), None);
        assert_eq!(byte_of('\u{144}'), None);
    }

    #[test]
    fn text_outside_the_alphabet_stands_for_itself() {
        let mut bytes = Vec::new();
        read("\u{120}a", &mut bytes);
        assert_eq!(bytes, b" a");
        bytes.clear();
        read("a b", &mut bytes);
        assert_eq!(bytes, b"a b");
    }
}
