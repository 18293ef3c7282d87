//! The server from its start to its end.

use crate::config::{Public, ServerConfig};
use crate::connections;
use crate::grammar::Grammars;
use crate::metrics::Metrics;
use crate::prepare::Defaults;
use crate::routes;
use crate::served::ServedModel;
use crate::service::{LARGE_BODIES, Service};
use crate::stop::{StopSignal, Wanted};
use crate::storage::Storage;
use crate::worker::Worker;
use engine::batch::Scheduler;
use kernels::Backend;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Time for connections and the engine to end once they were told to.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Requests that may be on their way to the engine beside those it has: a burst is refused by the
/// engine's own limit, which says what it is.
const ON_THE_WAY: usize = 256;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// Anybody could use it.
    #[error(
        "{address} can be reached from other machines, and no API key is set; set one with \
         --api-key-file or TUFF_API_KEY, listen on 127.0.0.1, or say --insecure-public"
    )]
    PublicWithoutKey {
        /// The address.
        address: SocketAddr,
    },
    /// The system gives no threads.
    #[error("cannot start the server's threads: {0}")]
    Threads(#[source] io::Error),
    /// Metrics cannot be made.
    #[error("cannot make the metrics: {0}")]
    Metrics(#[source] prometheus::Error),
}

/// Checks what can be told without a model.
///
/// # Errors
/// [`ServeError::PublicWithoutKey`].
pub fn check(config: &ServerConfig) -> Result<(), ServeError> {
    let address = config.address;
    let open = config.access.keys.is_empty() && config.public == Public::WithKey;
    if open && !address.ip().is_loopback() {
        return Err(ServeError::PublicWithoutKey { address });
    }
    Ok(())
}

/// Serves until `stop` says so; `ready` is told the address once connections are taken.
///
/// # Errors
/// [`ServeError`], before anything is served.
pub fn serve<B>(
    config: ServerConfig,
    model: ServedModel,
    scheduler: Scheduler<B>,
    stop: StopSignal,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError>
where
    B: Backend + 'static,
    Scheduler<B>: Send,
{
    check(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let result = runtime.block_on(run(config, model, scheduler, stop, ready));
    runtime.shutdown_timeout(LAST_WORDS);
    result
}

async fn run<B>(
    config: ServerConfig,
    model: ServedModel,
    scheduler: Scheduler<B>,
    mut stop: StopSignal,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError>
where
    B: Backend + 'static,
    Scheduler<B>: Send,
{
    let ServerConfig { address, access, mut limits, drafts, loop_tokens, drain, machine, .. } =
        config;
    let bind = |source| ServeError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let context = scheduler.request_tokens();
    // More could never be taken on, however often they were tried again.
    limits.choices = limits.choices.min(scheduler.room());
    let (worker, thread) = Worker::start(scheduler, ON_THE_WAY).map_err(ServeError::Threads)?;
    let service = Service {
        model,
        worker: worker.clone(),
        limits,
        access,
        defaults: Defaults { drafts, loop_tokens },
        grammars: Grammars::default(),
        context,
        started: Instant::now(),
        metrics: Metrics::new().map_err(ServeError::Metrics)?,
        preparing: Service::permits(),
        large_bodies: Semaphore::new(LARGE_BODIES),
        machine,
        storage: Storage::default(),
    };
    let router = routes::router(Arc::new(service));
    let mut serving = tokio::spawn(connections::answer(listener, router, limits, stop.clone()));
    ready(address);

    stop.wait(Wanted::Drain).await;
    tracing::info!("shutting down: no new connections, requests have {drain:?} to end");
    let mut all_ended = false;
    tokio::select! {
        _ = &mut serving => all_ended = true,
        () = tokio::time::sleep(drain) => tracing::warn!("requests that still run are broken off"),
        () = stop.wait(Wanted::Now) => {}
    }
    worker.stop();
    if stop.wanted() != Wanted::Now {
        if !all_ended {
            let _ = tokio::time::timeout(LAST_WORDS, serving).await;
        }
        let joined = tokio::task::spawn_blocking(move || drop(thread.join()));
        let _ = tokio::time::timeout(LAST_WORDS, joined).await;
    }
    Ok(())
}
