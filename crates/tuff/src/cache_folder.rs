//! The folder of what can be measured or found out again.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use crate::error::Error;

/// Names the folder in place of the user's cache folder.
const VARIABLE: &str = "TUFF_CACHE";

/// A folder of this name in it.
///
/// # Errors
/// [`Error::Refused`] where the system has no home folder.
pub(crate) fn of(name: &str) -> Result<PathBuf, Error> {
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder).join(name));
    }
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Error::Refused(format!("there is no folder for measurements: {error}; set {VARIABLE}"))
    })?;
    Ok(base.cache_dir().join("tuff").join(name))
}
