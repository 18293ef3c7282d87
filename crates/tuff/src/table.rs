//! Tables that read well as they are and as Markdown.

/// Where the text of a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// Lines of a table with these columns.
pub(crate) fn table(columns: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        longest.max(columns[column].0.chars().count())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let cells = cells.iter().zip(columns).zip(&widths);
        let padded = cells.map(|((cell, (_, side)), &width)| match side {
            Side::Left => format!("{cell:<width$}"),
            Side::Right => format!("{cell:>width$}"),
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = columns.iter().zip(&widths).map(|((_, side), width)| match side {
        Side::Left => "-".repeat(width + 2),
        Side::Right => format!("{}:", "-".repeat(width + 1)),
    });
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = line(&names);
    text += &format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    for row in rows {
        text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_markdown() {
        let rows = [["a", "1.5"], ["long", "22.5"]].map(|row| row.map(str::to_owned).to_vec());
        let text = table(&[("x", Side::Left), ("ms", Side::Right)], &rows);
        let expected = "\
| x    |   ms |
|------|-----:|
| a    |  1.5 |
| long | 22.5 |
";
        assert_eq!(text, expected);
    }
}
