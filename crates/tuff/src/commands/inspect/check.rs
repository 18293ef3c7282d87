//! Looking at every block of every tensor.

use std::fmt;

use gguf::{Gguf, TensorInfo};

use crate::progress::{Progress, Show, Unit};

/// What the look at all blocks found.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Tensors that were looked at.
    pub(crate) tensors: usize,
    /// Tensors of integer types and such, which have nothing to check.
    pub(crate) skipped: usize,
    /// Tensors with bad blocks.
    pub(crate) bad: Vec<BadTensor>,
}

/// A tensor with bad blocks.
#[derive(Debug)]
pub(crate) struct BadTensor {
    /// The tensor's name.
    pub(crate) name: String,
    /// Rows with a bad block.
    pub(crate) bad_rows: u64,
    /// Rows in all.
    pub(crate) rows: u64,
    /// The first bad row.
    pub(crate) first_row: u64,
    /// The first bad block of that row.
    pub(crate) block: usize,
    /// The field that is bad there.
    pub(crate) field: &'static str,
}

impl fmt::Display for BadTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadTensor { name, bad_rows, rows, first_row, block, field } = self;
        write!(f, "{name}: {bad_rows} of {rows} rows are bad; the first is row {first_row}, ")?;
        write!(f, "block {block}: infinite, NaN or reserved {field}")
    }
}

/// Checks the scales of all blocks, and the elements of plain floats.
pub(crate) fn check(file: &Gguf) -> Checked {
    let total = file.tensors().iter().map(|info| info.bytes).fold(0, u64::saturating_add);
    let mut progress = Progress::new(Show::OnTerminal, "checking", Unit::Bytes);
    let mut checked = Checked::default();
    let mut done: u64 = 0;
    for info in file.tensors() {
        match check_tensor(file, info) {
            Ok(bad) => {
                checked.tensors += 1;
                checked.bad.extend(bad);
            }
            Err(Unsupported) => checked.skipped += 1,
        }
        done = done.saturating_add(info.bytes);
        progress.set(done, total);
    }
    checked
}

/// The tensor's type has no blocks to check.
struct Unsupported;

fn check_tensor(file: &Gguf, info: &TensorInfo) -> Result<Option<BadTensor>, Unsupported> {
    let bytes = file.bytes(info);
    let mut found: Option<BadTensor> = None;
    let Ok(row_bytes @ 1..) = usize::try_from(info.row_bytes()) else { return Err(Unsupported) };
    for (row, bytes) in (0..).zip(bytes.chunks_exact(row_bytes)) {
        let (block, field) = match quant::check_row(info.ty, bytes) {
            Ok(()) => continue,
            Err(quant::Error::BadScale { block, field, .. }) => (block, field),
            Err(_) => return Err(Unsupported),
        };
        let bad = found.get_or_insert_with(|| BadTensor {
            name: info.name.clone(),
            bad_rows: 0,
            rows: info.rows(),
            first_row: row,
            block,
            field,
        });
        bad.bad_rows += 1;
    }
    Ok(found)
}
