//! Tables of text.

/// Columns side by side; a column of numbers in every row but the first is set to the right.
pub(crate) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let numeric = |column: usize| {
        let mut cells = rows.iter().skip(1).filter_map(|row| row.get(column)).peekable();
        cells.peek().is_some() && cells.all(|cell| is_number(cell))
    };
    let layout: Vec<_> = (0..count).map(|column| (width(column), numeric(column))).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&layout).map(|(cell, &(width, right))| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn is_number(cell: &str) -> bool {
    let number = cell.strip_suffix(" %").unwrap_or(cell);
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b',' || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_set_to_the_right() {
        let rows = [["name", "bytes"], ["a", "1,024"], ["long", "7"]];
        let rows: Vec<Vec<String>> = rows.map(|row| row.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(columns(&rows), ["name  bytes", "a     1,024", "long      7"]);
    }
}
