//! Lists of token ids, as people and programs write them: `1,2,3`, `1 2 3`, `[1, 2, 3]`.

use crate::error::Error;

/// Parses a list of ids: numbers separated by commas, blanks or line breaks, in brackets or not.
///
/// # Errors
/// [`Error::Refused`] for the first word that is no id.
pub(crate) fn parse(text: &str) -> Result<Vec<u32>, Error> {
    let text = text.trim();
    let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let words = inside.split(|c: char| c == ',' || c.is_whitespace()).filter(|w| !w.is_empty());
    words.enumerate().map(|(place, word)| parse_one(place, word)).collect()
}

fn parse_one(place: usize, word: &str) -> Result<u32, Error> {
    let id = word.parse().ok().filter(|_| word.bytes().all(|b| b.is_ascii_digit()));
    id.ok_or_else(|| {
        let shown: String = word.chars().take(20).flat_map(char::escape_debug).collect();
        let number = place + 1;
        let form = "ids are whole numbers such as 1,2,3";
        Error::Refused(format!("entry {number} of the token ids is \"{shown}\": {form}"))
    })
}

/// Writes ids as a list with commas, without blanks.
pub(crate) fn joined(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_writing_a_list_is_understood() {
        for text in ["1,2,30", "1 2 30", "[1, 2, 30]\n", "1\n2\n30\n", " [1,2,30] ", "1,2,30,"] {
            assert_eq!(parse(text).unwrap(), [1, 2, 30], "{text}");
        }
        for text in ["", " \n", "[]"] {
            assert_eq!(parse(text).unwrap(), [0u32; 0], "{text:?}");
        }
        assert_eq!(joined(&parse("[4294967295]").unwrap()), "4294967295");
    }

    #[test]
    fn what_is_no_id_is_named() {
        for text in ["1,x", "1,-2", "1,+2", "1,4294967296", "1,2.0", "[1,2", "1,[2]"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.exit_code(), 4, "{text}");
        }
        assert!(parse("5,six").unwrap_err().to_string().contains("entry 2"));
    }
}
