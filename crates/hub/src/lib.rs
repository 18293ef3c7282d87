//! Model files of the Hugging Face hub: which there are, fetching them, and finding those that were
//! fetched.
//!
//! Files lie where other programs that use the hub look for them; `hf-hub` knows that layout. The
//! transfer is our own: it goes on where an earlier one broke off, checks what came against the
//! checksum, and takes no path from the server that could lead out of the cache.
#![forbid(unsafe_code)]

mod cache;
mod choose;
mod error;
mod fetch;
mod hash;
mod name;
mod remote;
mod waiting;

pub use cache::Folder;
pub use choose::{Model, choose, models};
pub use error::Error;
pub use fetch::{Fetched, Progress, Watch, fetch};
pub use name::ModelName;
pub use remote::{Checksum, ENDPOINT, Listing, Remote, RemoteFile};
