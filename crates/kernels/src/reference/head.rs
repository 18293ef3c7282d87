//! Embedding, kept rows, best token.

use super::Reference;
use crate::{Head, Weight};

impl Head for Reference {
    fn embed(&mut self, table: &Weight, tokens: &[u32], streams: usize, x: &mut Vec<f32>) {
        let width = table.n_in();
        for (&token, copies) in tokens.iter().zip(x.chunks_exact_mut(streams * width)) {
            let (first, others) = copies.split_at_mut(width);
            table.decode_row(token as usize, first);
            others.chunks_exact_mut(width).for_each(|copy| copy.copy_from_slice(first));
        }
    }

    fn gather_rows(
        &mut self,
        x: &Vec<f32>,
        rows: &[usize],
        width: usize,
        (out, first): (&mut Vec<f32>, usize),
    ) {
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(width).skip(first)) {
            out.copy_from_slice(&x[row * width..][..width]);
        }
    }

    fn argmax(&mut self, logits: &Vec<f32>, rows: usize, width: usize) -> Vec<Option<u32>> {
        logits.chunks_exact(width).take(rows).map(crate::scalar::argmax).collect()
    }
}
