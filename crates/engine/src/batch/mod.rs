//! Many texts at once: requests join and leave at any step, and each step is one window over all
//! that have a slot, prompts beside answers.
//!
//! What a request gets does not depend on its company: its bytes are those of a run of its own.

mod job;
mod limits;
mod scheduler;

pub use job::{Job, JobEvent, JobId, JobSummary};
pub use limits::{Limits, Refused};
pub use scheduler::{JobSink, Scheduler, Totals};
