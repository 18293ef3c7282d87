//! Tests of the container through the crate's public face: well-formed, malformed and hostile
//! files, split sets, folders, the writer.

// The lint knows test functions, but not the functions that only tests call.
#![allow(clippy::unwrap_used)]

mod builder;
mod fault_header;
mod fault_tensors;
mod fixtures;
mod folder;
mod hostile;
mod known_faults;
mod open;
mod round_trip;
mod split;
mod split_faults;
