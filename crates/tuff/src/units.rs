//! Numbers for people: bytes with a unit, counts with separators.

/// Bytes in decimal units, as disks and downloads count them: `24.0 MB`.
pub(crate) fn bytes(count: u64) -> String {
    scaled(count, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Reads a number of bytes with its unit: `4GiB`, `500 MB`, `0`. K, M, G and T alone are binary.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let advice = "write a number and a unit, as in 4GiB or 500MB; 0 is none";
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| advice.to_owned())?;
    let factor = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" if number == 0.0 => 1.0,
        "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        "k" | "kib" => (1u64 << 10) as f64,
        "m" | "mib" => (1u64 << 20) as f64,
        "g" | "gib" => (1u64 << 30) as f64,
        "t" | "tib" => (1u64 << 40) as f64,
        _ => return Err(advice.to_owned()),
    };
    Ok((number * factor) as u64)
}

/// A count of weights: `41.5 M`.
pub(crate) fn weights(count: u64) -> String {
    scaled(count, &["", "thousand", "M", "B", "T", "thousand T", "M T"]).trim_end().to_owned()
}

/// Three digits and the unit that makes them short.
fn scaled(count: u64, units: &[&str]) -> String {
    if count < 1000 {
        return format!("{count} {}", units[0]);
    }
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {}", units[unit])
}

/// A count with its noun: `1 tensor`, `2 tensors`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A number with a separator between thousands: `24,017,664`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of 1 in percent, with a decimal: `16.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_999, "10.0 kB"),
            (24_017_664, "24.0 MB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (31_000_000_000, "31.0 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(weights(41_450_000), "41.5 M");
        assert_eq!(weights(12), "12");
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        let cases = [
            ("0", 0),
            ("4GiB", 4 << 30),
            ("4g", 4 << 30),
            ("500 MB", 500_000_000),
            ("1.5k", 1536),
            ("12B", 12),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "4", "GiB", "-1GiB", "4XiB", "1.2.3k", "\u{664}k", "1 0k"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_percents() {
        assert_eq!([0.0, 0.163, 1.0].map(percent), ["0.0 %", "16.3 %", "100.0 %"]);
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| count(n, "tensor")), ["0 tensors", "1 tensor", "2 tensors"]);
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(24_017_664), "24,017,664");
    }
}
