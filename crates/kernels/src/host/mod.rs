//! States, plans and selections in host memory, shared by the implementations that live there.

mod memory;
mod plan;
mod selection;
mod state;

pub use memory::zeroed;
pub use plan::{Group, Plan};
pub use selection::Selection;
pub use state::{GdnState, KvSlot, PleState, QsaState};
