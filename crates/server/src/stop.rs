//! How a server is asked to stop: once to end what it is doing, twice to end at once.

use std::io;
use tokio::sync::watch;

/// What is wanted of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// That it serves.
    Run,
    /// That it ends what it is doing, and takes nothing new.
    Drain,
    /// That it ends.
    Now,
}

/// Asks a server to stop.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<Wanted>);

/// What a server listens to.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<Wanted>);

/// Both ends.
pub fn stopper() -> (Stopper, StopSignal) {
    let (sender, receiver) = watch::channel(Wanted::Run);
    (Stopper(sender), StopSignal(receiver))
}

impl Stopper {
    /// Asks once more.
    pub fn ask(&self) {
        self.0.send_modify(|wanted| {
            *wanted = match wanted {
                Wanted::Run => Wanted::Drain,
                Wanted::Drain | Wanted::Now => Wanted::Now,
            };
        });
    }

    /// Asks whenever the program gets Ctrl-C or a request to terminate, on a thread of its own.
    ///
    /// # Errors
    /// If the system gives no thread or no signals.
    pub fn on_signals(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("signals".to_owned());
        // Before anything else is done: a signal must not come too early.
        let mut signals = {
            let _within = runtime.enter();
            Signals::new()?
        };
        let wait = async move {
            loop {
                signals.next().await;
                self.ask();
            }
        };
        thread.spawn(move || runtime.block_on(wait))?;
        Ok(())
    }
}

impl StopSignal {
    pub(crate) fn wanted(&self) -> Wanted {
        *self.0.borrow()
    }

    /// Waits until at least this is wanted.
    pub(crate) async fn wait(&mut self, wanted: Wanted) {
        if self.0.wait_for(|now| *now >= wanted).await.is_err() {
            // Nobody can ask any more.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
