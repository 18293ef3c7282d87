//! What goes wrong on the device while nobody waits for it. The first fault is kept until a
//! download reports it; a lost device stays lost.

use crate::NAME;
use kernels::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Faults of one device; copies share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    first: Option<Error>,
    /// Faults that were reported.
    reported: u64,
    lost: Option<String>,
}

impl Faults {
    /// Keeps what the device reports.
    pub(crate) fn watch(&self, device: &wgpu::Device) {
        let faults = self.clone();
        device.on_uncaptured_error(Arc::new(move |error| faults.add(of(&error))));
        let faults = self.clone();
        device.set_device_lost_callback(move |_, why| {
            let why = if why.is_empty() { "the driver gives no reason".to_owned() } else { why };
            faults.kept().lost.get_or_insert(why);
        });
    }

    /// Keeps a fault, unless there is an earlier one.
    pub(crate) fn add(&self, error: Error) {
        self.kept().first.get_or_insert(error);
    }

    /// The fault to report now, if any.
    pub(crate) fn take(&self) -> Result<(), Error> {
        let mut kept = self.kept();
        if let Some(why) = kept.lost.clone() {
            return Err(Error::DeviceLost { device: NAME, why });
        }
        let first = kept.first.take();
        kept.reported += u64::from(first.is_some());
        first.map_or(Ok(()), Err)
    }

    /// Rises with every fault that was reported: what was made before may not be what it should.
    pub(crate) fn reported(&self) -> u64 {
        self.kept().reported
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing that holds the lock can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of(error: &wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => {
            Error::OutOfMemory { device: NAME, bytes: 0, what: "an operation" }
        }
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            fault(description.clone())
        }
    }
}

/// A fault without a kind of its own.
pub(crate) fn fault(why: String) -> Error {
    Error::DeviceFault { device: NAME, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_is_reported_once_and_a_lost_device_always() {
        let faults = Faults::default();
        assert!(faults.take().is_ok());
        faults.add(fault("first".into()));
        faults.add(fault("second".into()));
        assert!(faults.take().unwrap_err().to_string().contains("first"));
        assert!(faults.take().is_ok());
        faults.kept().lost = Some("pulled out".into());
        for _ in 0..2 {
            let error = faults.take().unwrap_err();
            assert!(matches!(&error, Error::DeviceLost { .. }), "{error}");
        }
    }
}
