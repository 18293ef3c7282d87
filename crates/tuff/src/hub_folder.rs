//! Where models of the Hugging Face hub lie on this machine.

use std::env;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use hub::{Folder, ModelName};

use crate::error::Error;

/// An environment variable, if it says something.
pub(crate) fn setting(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Whether the user wants no server to be asked.
pub(crate) fn is_offline() -> bool {
    let value = setting("HF_HUB_OFFLINE").unwrap_or_default().to_ascii_lowercase();
    ["1", "true", "yes", "on"].contains(&value.as_str())
}

/// The folder, as other programs of the hub find it.
///
/// # Errors
/// If there is no home folder, and no variable names another.
pub(crate) fn folder() -> Result<Folder, Error> {
    if let Some(cache) = setting("HF_HUB_CACHE") {
        return Ok(Folder::new(cache));
    }
    let home = setting("HF_HOME").map(PathBuf::from);
    let home = home.or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.home_dir().join(".cache").join("huggingface"))
    });
    Ok(Folder::new(home.ok_or(hub::Error::NoHome)?.join("hub")))
}

/// The file that a path stands for if there is none of its name and it is the name of a model of
/// the hub; `None` if it is not.
///
/// # Errors
/// If the model was not fetched, or several are meant.
pub(crate) fn find(path: &Path) -> Result<Option<PathBuf>, Error> {
    let name = path.to_str().and_then(|text| text.parse::<ModelName>().ok());
    let Some(name) = name.filter(|_| !path.exists()) else { return Ok(None) };
    // A path that looks like a file is one that is missing.
    let is_file = path.extension().is_some_and(|ending| ending == "gguf");
    if is_file {
        return Ok(None);
    }
    Ok(Some(folder()?.find(&name)?))
}
