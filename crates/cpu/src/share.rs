//! One output slice written by several threads, each its own places.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice that tasks of one [`crate::pool::Pool::run`] share.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a, T> {
    data: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: the pointer comes from an exclusive borrow that lives as long as `self`, and the methods
// that write through it require that no two tasks touch the same element.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above; moving the pointer to another thread moves no data.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { data: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// Elements `range`, to be written.
    ///
    /// # Safety
    /// No other task may touch any of them at the same time.
    pub(crate) unsafe fn slice(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: in bounds by the assertion; not aliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// No other task may touch it at the same time.
    #[inline]
    pub(crate) unsafe fn set(&self, index: usize, value: T) {
        assert!(index < self.len);
        // SAFETY: in bounds by the assertion; not aliased by the caller's promise.
        unsafe { self.data.add(index).write(value) }
    }
}
