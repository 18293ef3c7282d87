//! Lists of token ids, as people and programs write them: `1,2,3`, `1 2 3`, `[1, 2, 3]`.

use crate::error::Error;

/// Parses a list of ids: numbers separated by commas, blanks or line breaks, in brackets or not. A
/// comma may end the list.
///
/// # Errors
/// [`Error::Refused`] for the first entry that is no id, or empty.
pub(crate) fn parse(text: &str) -> Result<Vec<u32>, Error> {
    let text = text.trim();
    let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let inside = inside.trim_end();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    if inside.is_empty() {
        return Ok(Vec::new());
    }
    let mut ids = Vec::new();
    for entry in inside.split(',') {
        if entry.trim().is_empty() {
            return Err(refused(ids.len(), ""));
        }
        for word in entry.split_whitespace() {
            let id = word.parse().ok().filter(|_| word.bytes().all(|b| b.is_ascii_digit()));
            ids.push(id.ok_or_else(|| refused(ids.len(), word))?);
        }
    }
    Ok(ids)
}

/// What is wrong with the entry after `before` others.
fn refused(before: usize, word: &str) -> Error {
    let shown: String = word.chars().take(20).flat_map(char::escape_debug).collect();
    let number = before + 1;
    let found = if word.is_empty() { "empty".to_owned() } else { format!("\"{shown}\"") };
    let form = "ids are whole numbers such as 1,2,3";
    Error::Refused(format!("entry {number} of the token ids is {found}: {form}"))
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

    #[test]
    fn an_empty_entry_is_named() {
        for (text, entry) in
            [("1,2,,3", 3), (",1", 1), ("1 2, ,3", 3), ("[1,,]", 2), ("1,,", 2), (",,", 1)]
        {
            let error = parse(text).unwrap_err();
            assert_eq!(error.exit_code(), 4, "{text}");
            let message = error.to_string();
            assert!(message.contains(&format!("entry {entry} ")), "{text}: {message}");
            assert!(message.contains("empty"), "{text}: {message}");
        }
    }
}
