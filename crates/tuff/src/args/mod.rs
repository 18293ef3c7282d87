//! Options that several commands share, as clap sees them. Each group can turn itself into the
//! settings of the library below once the model file is known.

mod engine;
mod formats;
mod memory;
mod model;
mod sampling;
mod server;
mod speculation;
mod text;

pub(crate) use engine::{Chosen, DeviceArgs, EngineArgs, MAX_THREADS, OtherDeviceArgs, parse_isa};
pub(crate) use formats::{FormatArgs, WriteArgs, format_lists};
pub(crate) use model::ModelArg;
pub(crate) use sampling::{SamplingArgs, advised};
pub(crate) use server::ServerArgs;
pub(crate) use speculation::{BlockArgs, Drafting, SpecArgs, uses_block, wants_block};
pub(crate) use text::{TextArgs, read_file, read_stdin};
