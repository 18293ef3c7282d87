//! Many texts at once: requests join and leave at any step, and each step is one window over all
//! that have a slot, prompts beside answers.
//!
//! With a cache, no beginning of a prompt is computed twice while it is there: not after another
//! request, and not beside it either. What a request gets does not depend on its company: its bytes
//! are those of a run of its own.

mod admission;
mod job;
mod limits;
mod prefixes;
mod rounds;
mod scheduler;
mod totals;
mod view;

pub use job::{Job, JobEvent, JobId, JobSummary};
pub use limits::{Limits, Refused};
pub use scheduler::{JobSink, Scheduler};
pub use totals::Totals;
pub use view::SlotView;
