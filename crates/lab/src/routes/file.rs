//! Routes in a file.
//!
//! ```text
//! "TUFFROUT", u32 version, u32 layers, u32 experts, u32 used, u32 forecasts, u32 passage,
//! u32 length, model and settings in words (UTF-8), u64 tokens, tokens * u32 id,
//! tokens * layers * (1 + forecasts) * used expert numbers, u64 checksum (FNV-1a) of all before
//! ```
//!
//! All numbers are little-endian. An expert number is a byte where a layer has up to 256 experts,
//! otherwise 16 bits. Of a token, layer after layer: the experts it uses, then those that each of
//! [`FORECASTS`] names (zeros in layer 0), each list by falling router logit.

use super::{FORECASTS, Routes};
use crate::binary::{FileError, Kind, SumReader, SumWriter};
use std::io::{self, Read, Write};

const KIND: Kind = Kind {
    magic: b"TUFFROUT",
    version: 1,
    what: "routes",
    by: "tuff routes -o",
    if_cut: "write it again",
};

/// Choices that are read at a time.
const PIECE: usize = 1 << 16;

impl Routes {
    /// Writes the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut writer = SumWriter::begin(out, &KIND)?;
        let sizes = [self.layers, self.experts, self.used, FORECASTS.len(), self.passage];
        sizes.iter().try_for_each(|&size| writer.u32(size as u32))?;
        writer.text(&self.about)?;
        writer.u64(self.tokens.len() as u64)?;
        self.tokens.iter().try_for_each(|&token| writer.u32(token))?;
        for piece in self.choices.chunks(PIECE) {
            let bytes: Vec<u8> = match expert_bytes(self.experts) {
                1 => piece.iter().map(|&expert| expert as u8).collect(),
                _ => piece.iter().flat_map(|expert| expert.to_le_bytes()).collect(),
            };
            writer.bytes(&bytes)?;
        }
        writer.seal()
    }

    /// Reads a file of `len` bytes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(input: impl Read, len: u64) -> Result<Self, FileError> {
        let mut reader = SumReader::begin(input, len, &KIND)?;
        let mut size = |what| reader.u32(what).map(|size| size as usize);
        let (layers, experts) = (size("the number of layers")?, size("the number of experts")?);
        let (used, forecasts) = (size("the experts of a token")?, size("the forecasts")?);
        let passage = size("a passage's length")?;
        let sizes = [layers, experts, used, passage];
        if sizes.contains(&0) || used > experts || experts > 1 << 16 || forecasts != FORECASTS.len()
        {
            return Err(reader.bad("one of the sizes", &format!("{sizes:?}")));
        }
        let about = reader.text("the description of a model")?;
        let tokens = tokens(&mut reader)?;
        let per_token = layers.checked_mul((1 + forecasts) * used);
        let count = per_token.and_then(|per_token| per_token.checked_mul(tokens.len()));
        let count = count.ok_or_else(|| reader.bad("one of the sizes", &format!("{sizes:?}")))?;
        let choices = choices(&mut reader, count, experts)?;
        reader.check_seal("the file")?;
        reader.check_end()?;
        Ok(Self { about, layers, experts, used, tokens, passage, choices })
    }
}

/// Bytes of an expert's number.
fn expert_bytes(experts: usize) -> usize {
    if experts <= 256 { 1 } else { 2 }
}

fn tokens(reader: &mut SumReader<impl Read>) -> Result<Vec<u32>, FileError> {
    let count = reader.u64("the number of tokens")?;
    if count == 0 {
        return Err(reader.bad("the number of tokens", &count));
    }
    reader.expect(count.saturating_mul(4), "the text")?;
    (0..count).map(|_| reader.u32("a token of the text")).collect()
}

fn choices(
    reader: &mut SumReader<impl Read>,
    count: usize,
    experts: usize,
) -> Result<Vec<u16>, FileError> {
    let (what, width) = ("the chosen experts", expert_bytes(experts));
    reader.expect((count as u64).saturating_mul(width as u64), what)?;
    let mut choices = Vec::with_capacity(count);
    let mut bytes = vec![0; PIECE.min(count) * width];
    while choices.len() < count {
        let piece = &mut bytes[..PIECE.min(count - choices.len()) * width];
        reader.bytes(piece, what)?;
        match width {
            1 => choices.extend(piece.iter().map(|&expert| u16::from(expert))),
            _ => choices
                .extend(piece.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))),
        }
    }
    match choices.iter().find(|&&expert| usize::from(expert) >= experts) {
        Some(&expert) => Err(reader.bad("an expert's number", &expert)),
        None => Ok(choices),
    }
}

#[cfg(test)]
mod tests {
    use super::super::toy;
    use super::*;

    fn written(routes: &Routes) -> Vec<u8> {
        let mut bytes = Vec::new();
        routes.write(&mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Routes, FileError> {
        Routes::read(bytes, bytes.len() as u64)
    }

    #[test]
    fn what_is_written_is_read() {
        let narrow = toy::routes(&[[[0, 7], [1, 2]], [[3, 4], [5, 6]]], 1);
        assert_eq!(read(&written(&narrow)).unwrap(), narrow);
        let mut wide = Routes { experts: 512, ..narrow.clone() };
        wide.choices[0] = 511;
        assert_eq!(read(&written(&wide)).unwrap(), wide);
        // 2 tokens, 2 layers, 4 lists of 2 experts: a byte more for each of 32.
        assert_eq!(written(&wide).len(), written(&narrow).len() + 32);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_an_error() {
        let bytes = written(&toy::routes(&[[[0, 7], [1, 2]], [[3, 4], [5, 6]]], 1));
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "cut at {len}");
        }
        for bit in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes).is_err(), "bit {bit}");
        }
    }
}
