//! The tile table of this machine: where `tuff audit` keeps it and the engine finds it.

use std::path::PathBuf;

use etcetera::BaseStrategy;
use kernels::tiles::Tunable;
use lab::audit::Store;

use crate::error::Error;

/// Names the folder in place of the user's cache folder.
pub(crate) const FOLDER: &str = "TUFF_CACHE";

/// The folder of what can be measured again.
///
/// # Errors
/// [`Error::Refused`] where the system has no home folder.
pub(crate) fn folder() -> Result<PathBuf, Error> {
    if let Some(folder) = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder).join("tiles"));
    }
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Error::Refused(format!("there is no folder for measurements: {error}; set {FOLDER}"))
    })?;
    Ok(base.cache_dir().join("tuff").join("tiles"))
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
