//! What every endpoint works with: the model, the engine's thread, the limits.

use crate::ApiError;
use crate::config::{Access, Machine, RequestLimits};
use crate::error::ErrorKind;
use crate::grammar::Grammars;
use crate::metrics::Metrics;
use crate::outbox::{Inbox, outbox};
use crate::prepare::{Defaults, prepare};
use crate::request::Generate;
use crate::served::ServedModel;
use crate::status::Surroundings;
use crate::storage::Storage;
use crate::worker::{Submission, Worker};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Semaphore, oneshot};

/// Conversations that are made tokens at a time; more would only take turns.
const PREPARING: usize = 4;

/// Large bodies that are read at a time; more wait, for as long as a body may take to come.
pub(crate) const LARGE_BODIES: usize = 8;

/// The server behind its endpoints.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) model: ServedModel,
    pub(crate) worker: Worker,
    pub(crate) limits: RequestLimits,
    pub(crate) access: Access,
    pub(crate) defaults: Defaults,
    pub(crate) grammars: Grammars,
    /// Tokens that a request may have, prompt and answer together.
    pub(crate) context: usize,
    pub(crate) started: Instant,
    pub(crate) metrics: Metrics,
    pub(crate) preparing: Arc<Semaphore>,
    pub(crate) large_bodies: Semaphore,
    pub(crate) machine: Machine,
    pub(crate) storage: Storage,
}

/// A request that was taken on.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its events.
    pub(crate) inbox: Inbox,
    /// Tokens of its prompt.
    pub(crate) prompt_tokens: usize,
}

impl Service {
    pub(crate) fn permits() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(PREPARING))
    }

    /// What is around the engine; the system is asked now.
    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings { machine: self.machine, storage: self.storage.look() }
    }

    /// Does work that takes a while and waits for nothing, on a thread of its own. Few at a time.
    ///
    /// # Errors
    /// Those of the work; a fault of ours if it panics.
    pub(crate) async fn compute<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Service) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let failed = || ApiError::new(ErrorKind::Internal, "the request could not be prepared");
        let permit = self.preparing.clone().acquire_owned().await.map_err(|_| failed())?;
        let service = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&service)
        });
        done.await.map_err(|_| failed())?
    }

    /// Has answers made. Dropping what is returned cancels them.
    ///
    /// # Errors
    /// Whatever keeps the request from being taken on.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: Generate,
        id: &str,
    ) -> Result<Started, ApiError> {
        let id = id.to_owned();
        let ruled_by = request.ruled_by().to_owned();
        let work = move |service: &Service| {
            prepare(&service.model, &service.grammars, service.defaults, &request, &id)
        };
        let answers = self.compute(work).await?;
        let prompt_tokens = answers.first().map_or(0, |(job, _)| job.prompt.len());
        let (outbox, inbox) = outbox();
        let (accepted, word) = oneshot::channel();
        self.worker.submit(Submission { answers, ruled_by, outbox, accepted })?;
        word.await.map_err(|_| ApiError::going_down())??;
        Ok(Started { inbox, prompt_tokens })
    }
}

/// Twenty-four characters that nobody else has.
pub(crate) fn unique() -> String {
    // The standard library keys its hash maps with random numbers of the system.
    let word = || RandomState::new().build_hasher().finish();
    let second = word() as u32;
    format!("{:016x}{second:08x}", word())
}

/// A number that nobody can guess, for requests without a seed.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
