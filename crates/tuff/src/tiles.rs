//! The tile table of this machine: where `tuff audit` keeps it and the engine finds it.

use std::path::PathBuf;

use kernels::tiles::Tunable;
use lab::audit::Store;

use crate::cache_folder;
use crate::error::Error;

/// The folder of tile tables.
///
/// # Errors
/// [`Error::Refused`] where the system has no home folder.
pub(crate) fn folder() -> Result<PathBuf, Error> {
    cache_folder::of("tiles")
}

/// Gives a device the tiles that an audit found for it. What is missing or unusable costs time and
/// nothing else, so it is logged.
pub(crate) fn equip<D: Tunable>(device: &mut D) {
    let Ok(folder) = folder() else { return };
    match Store::load(&folder, &device.device_key()) {
        Ok(store) => {
            let table = store.table();
            if !table.is_empty() {
                let path = store.path().display();
                tracing::info!("{} tiles from {path}", table.len());
                device.set_tiles(table);
            }
        }
        Err(error) => tracing::warn!("{error}; run tuff audit again"),
    }
}
