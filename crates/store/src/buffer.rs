//! Memory that a disk can write into directly: it begins at a multiple of the disk's block.

/// What offsets, lengths and addresses of direct reads are multiples of. Disks ask for 512 or 4096
/// bytes; pages are at least 4096.
pub(crate) const BLOCK: usize = 4096;

/// Bytes from a file, somewhere in memory that is aligned.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    /// Where the aligned part begins.
    start: usize,
}

impl Buffer {
    /// Room for `bytes` bytes from any place of a file.
    pub(crate) fn new(bytes: usize) -> Self {
        let memory = vec![0; Self::reserved(bytes)];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK - 1);
        Self { memory, start }
    }

    /// Memory that [`Buffer::new`] takes.
    pub(crate) fn reserved(bytes: usize) -> usize {
        // The bytes begin and end somewhere inside blocks, and so does the memory.
        bytes.next_multiple_of(BLOCK) + 2 * BLOCK
    }

    /// The aligned part: whole blocks.
    pub(crate) fn blocks_mut(&mut self) -> &mut [u8] {
        let len = (self.memory.len() - self.start) / BLOCK * BLOCK;
        &mut self.memory[self.start..self.start + len]
    }

    /// Where the aligned part begins in what [`Buffer::as_ref`] gives.
    pub(crate) fn start(&self) -> usize {
        self.start
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_file_fits_in_whole_blocks() {
        for bytes in [0, 1, 90, BLOCK - 1, BLOCK, BLOCK + 1, 1_000_000] {
            let mut buffer = Buffer::new(bytes);
            let blocks = buffer.blocks_mut();
            assert_eq!(blocks.as_ptr() as usize % BLOCK, 0);
            assert_eq!(blocks.len() % BLOCK, 0);
            for offset in [0, 1, BLOCK - 1] {
                let whole = (offset + bytes).next_multiple_of(BLOCK);
                assert!(blocks.len() >= whole, "{bytes} at {offset}");
            }
        }
    }
}
