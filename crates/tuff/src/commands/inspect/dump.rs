//! Decoding one tensor into a file of floats.

use std::path::Path;

use gguf::TensorInfo;

use crate::error::Error;
use crate::interrupt;
use crate::model_file::ModelFile;
use crate::output::OutputFile;
use crate::terminal::note;
use crate::units;

/// Elements decoded at a time: a row of any known model at once, and never much memory.
const PIECE_ELEMENTS: usize = 1 << 16;

/// Writes a tensor's values, row by row.
///
/// # Errors
/// [`Error::Refused`] for an unknown tensor or a type without a decoder; [`Error::File`].
pub(crate) fn write(file: &ModelFile, name: &str, path: &Path) -> Result<(), Error> {
    let Some(info) = file.gguf.tensor(name) else {
        return Err(Error::Refused(format!(
            "{} has no tensor {name:?}; `tuff inspect --tensors` lists those it has",
            file.path.display()
        )));
    };
    let _watch = interrupt::watch();
    let bytes = file.gguf.bytes(info);
    let mut output = OutputFile::create(path)?;
    let (blocks, block_elements) = (piece_blocks(info), info.ty.block_elements());
    let mut values = vec![0.0; blocks * block_elements];
    for piece in bytes.chunks(blocks * info.ty.block_bytes()) {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let values = &mut values[..piece.len() / info.ty.block_bytes() * block_elements];
        quant::decode_row(info.ty, piece, values)
            .map_err(|error| Error::Refused(format!("tensor {name}: {error}")))?;
        output.write_f32(values)?;
    }
    output.finish()?;
    let (rows, length, ty) = (info.rows(), info.n_in(), info.ty);
    let size = units::bytes(info.elements().saturating_mul(size_of::<f32>() as u64));
    note(&format!("{}: {rows} rows of {length} values from {ty}, {size}", path.display()));
    Ok(())
}

/// Whole blocks to decode at a time, at least one.
fn piece_blocks(info: &TensorInfo) -> usize {
    (PIECE_ELEMENTS / info.ty.block_elements()).max(1)
}
