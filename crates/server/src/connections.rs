//! Connections: only so many at once, and none that keeps its headers to itself, does not read or
//! has nobody at its other end.

use crate::config::RequestLimits;
use crate::patient::Patient;
use crate::socket::watched;
use crate::stop::{StopSignal, Wanted};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Time until the next try where the system has no connection to give, as when there are too many
/// open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers connections until `stop` asks for the end, and then those that are open.
pub(crate) async fn answer(
    listener: TcpListener,
    router: Router,
    limits: RequestLimits,
    mut stop: StopSignal,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut open = JoinSet::new();
    loop {
        // Those for whom there is no place wait in the system's queue.
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            Some(_) = open.join_next() => continue,
            () = stop.wait(Wanted::Drain) => break,
        };
        match accepted {
            Ok((stream, place)) => {
                open.spawn(connection(stream, router.clone(), limits, (place, stop.clone())));
            }
            Err(error) => {
                tracing::warn!("a connection could not be taken: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn connection(
    stream: TcpStream,
    router: Router,
    limits: RequestLimits,
    (_place, mut stop): (OwnedSemaphorePermit, StopSignal),
) {
    // Small events are to go out at once.
    let _ = stream.set_nodelay(true);
    let (stream, watch) = watched(stream);
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .serve_connection(TokioIo::new(Patient::new(stream, limits.write_time)), service);
    tokio::pin!(connection);
    let served = async {
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.wait(Wanted::Drain) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    let ended = tokio::select! {
        // What can be answered at once is, also to one who has gone right after asking.
        biased;
        ended = served => ended,
        () = watch.gone() => return,
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended early: {error}");
    }
}
