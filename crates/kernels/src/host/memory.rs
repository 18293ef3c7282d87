//! Memory that may be refused.
//!
//! Sizes of states and buffers follow from a model file and from settings, and a system that
//! overcommits grants any of them, only to kill the process when the pages are used. So what the
//! system says it has left is asked first.

use super::available_memory;
use crate::Error;

/// Smaller requests are not worth a look at the system's figures.
const LARGE: usize = 16 << 20;

/// A zeroed vector, or an error when memory is short.
///
/// # Errors
/// [`Error::OutOfMemory`], naming `what` the memory was for.
pub fn zeroed(len: usize, what: &'static str) -> Result<Vec<f32>, Error> {
    let mut values = Vec::new();
    grow(&mut values, len, what)?;
    values.resize(len, 0.0);
    Ok(values)
}

/// Makes room for `rows` rows of `width` values, growing by half at least so that the copying of a
/// long sequence stays linear, but not beyond the `most` rows that there will ever be.
pub(super) fn reserve<T>(
    values: &mut Vec<T>,
    (rows, most): (usize, usize),
    width: usize,
) -> Result<(), Error> {
    let len = rows.saturating_mul(width);
    if len <= values.capacity() {
        return Ok(());
    }
    let by_half = values.capacity() + values.capacity() / 2;
    grow(values, len.max(by_half.min(most.saturating_mul(width))), "keys and values")
}

/// Makes the capacity at least `len` values.
fn grow<T>(values: &mut Vec<T>, len: usize, what: &'static str) -> Result<(), Error> {
    let bytes = len.saturating_mul(size_of::<T>());
    let short = || Error::OutOfMemory { device: "host", bytes, what };
    if bytes >= LARGE && available_memory().is_some_and(|left| bytes as u64 > left) {
        return Err(short());
    }
    values.try_reserve_exact(len.saturating_sub(values.len())).map_err(|_| short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_136_more_than_there_is_is_refused_before_it_is_touched() {
        // A tebibyte: an overcommitting system would grant it.
        let result = zeroed(1 << 38, "a test");
        assert!(matches!(result, Err(Error::OutOfMemory { bytes, .. }) if bytes == 1 << 40));
        let mut values = vec![1.0; 3];
        assert!(reserve(&mut values, (1 << 30, usize::MAX), 1 << 8).is_err());
        assert_eq!(values, [1.0; 3]);
        assert!(zeroed(usize::MAX, "a test").is_err());
    }

    #[test]
    fn room_grows_by_half_and_ends_at_the_most_that_is_needed() {
        let mut values: Vec<f32> = Vec::new();
        let capacities = [100, 101, 160, 230].map(|rows| {
            reserve(&mut values, (rows, 240), 4).unwrap();
            values.capacity()
        });
        assert_eq!(capacities, [400, 600, 900, 960]);
        reserve(&mut values, (300, 240), 4).unwrap();
        assert_eq!(values.capacity(), 1200);
    }
}
