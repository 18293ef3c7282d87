//! The engine's thread: it owns the scheduler, steps it while there is work and sleeps otherwise.
//!
//! Requests come in by a bounded channel. Each has an outbox, which the thread never waits for: a
//! client that reads slowly gets its text later, one that leaves far too much unread is cut off,
//! and one that is gone has its request cancelled before the next step, in the queue or out of it.

use crate::ApiError;
use crate::error::ErrorKind;
use crate::outbox::Outbox;
use crate::output::{Output, Reader, ReaderSettings};
use crate::status::{Meter, Status};
use engine::batch::{Job, JobEvent, JobId, Scheduler};
use engine::{Event, Finish};
use kernels::Backend;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// A request: one job per answer, taken on together or not at all.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) answers: Vec<(Job, ReaderSettings)>,
    /// The field whose rule the answers are held to, if to any.
    pub(crate) ruled_by: String,
    pub(crate) outbox: Outbox,
    /// Told whether it was taken on.
    pub(crate) accepted: oneshot::Sender<Result<(), ApiError>>,
}

/// What the thread is told.
#[derive(Debug)]
enum Order {
    Take(Box<Submission>),
    /// Look whether to stop.
    Wake,
}

/// The engine's thread, as seen from outside.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    orders: mpsc::Sender<Order>,
    status: Arc<Mutex<Status>>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    /// Starts the thread; `room` is the number of requests that may be on their way to it.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start<B>(
        scheduler: Scheduler<B>,
        room: usize,
    ) -> std::io::Result<(Self, JoinHandle<()>)>
    where
        B: Backend + 'static,
        Scheduler<B>: Send,
    {
        let (orders, inbox) = mpsc::channel(room.max(1));
        let status = Arc::new(Mutex::new(Status::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = Thread {
            scheduler,
            inbox,
            active: HashMap::new(),
            meter: Meter::new(),
            status: status.clone(),
            stop: stop.clone(),
        };
        let handle = std::thread::Builder::new().name("engine".to_owned());
        let handle = handle.spawn(move || thread.run())?;
        Ok((Self { orders, status, stop }, handle))
    }

    /// Hands a request over.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if as many are on their way as may be, [`ErrorKind::Unavailable`] if the
    /// thread has ended.
    pub(crate) fn submit(&self, submission: Submission) -> Result<(), ApiError> {
        self.orders.try_send(Order::Take(Box::new(submission))).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ApiError {
                code: Some("queue_full"),
                ..ApiError::new(
                    ErrorKind::Busy { retry_after: 1 },
                    "too many requests are coming in; try again later",
                )
            },
            mpsc::error::TrySendError::Closed(_) => ApiError::going_down(),
        })
    }

    /// What goes on.
    pub(crate) fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the thread still takes requests.
    pub(crate) fn is_alive(&self) -> bool {
        !self.orders.is_closed()
    }

    /// Ends every request and the thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        // If it is full, the thread is not asleep.
        let _ = self.orders.try_send(Order::Wake);
    }
}

/// An answer that is being made.
struct Active {
    choice: usize,
    reader: Reader,
    ruled_by: String,
    outbox: Outbox,
}

struct Thread<B: Backend> {
    scheduler: Scheduler<B>,
    inbox: mpsc::Receiver<Order>,
    active: HashMap<JobId, Active>,
    meter: Meter,
    status: Arc<Mutex<Status>>,
    stop: Arc<AtomicBool>,
}

impl<B: Backend> Thread<B> {
    fn run(mut self) {
        loop {
            self.publish();
            if self.scheduler.is_idle() {
                // Nothing to do until somebody wants something.
                match self.inbox.blocking_recv() {
                    Some(order) => self.obey(order),
                    None => return,
                }
            }
            while let Ok(order) = self.inbox.try_recv() {
                self.obey(order);
            }
            if self.stop.load(Ordering::SeqCst) {
                return self.give_up();
            }
            self.drop_the_gone();
            if !self.scheduler.is_idle() {
                let active = &mut self.active;
                self.scheduler.step(&mut |id, event| take(active, id, event));
            }
        }
    }

    fn obey(&mut self, order: Order) {
        let Order::Take(submission) = order else { return };
        let Submission { answers, ruled_by, outbox, accepted } = *submission;
        if outbox.is_closed() {
            return;
        }
        let mut taken = Vec::with_capacity(answers.len());
        for (choice, (job, settings)) in answers.into_iter().enumerate() {
            match self.scheduler.submit(job) {
                Ok(id) => taken.push((id, choice, settings)),
                Err(refused) => {
                    for (id, ..) in taken {
                        self.scheduler.cancel(id);
                    }
                    let _ = accepted.send(Err(refused.into()));
                    return;
                }
            }
        }
        // Whoever waits for the word is gone if this fails, which shows in the outbox as well.
        let _ = accepted.send(Ok(()));
        for (id, choice, settings) in taken {
            let (mut reader, mut out) = (Reader::new(settings), Vec::new());
            reader.begin(&mut out);
            let _ = outbox.send(choice, out);
            let (ruled_by, outbox) = (ruled_by.clone(), outbox.clone());
            self.active.insert(id, Active { choice, reader, ruled_by, outbox });
        }
    }

    /// Cancels what nobody waits for any more.
    fn drop_the_gone(&mut self) {
        let Self { scheduler, active, .. } = self;
        active.retain(|&id, answer| {
            let gone = answer.outbox.is_closed();
            if gone {
                scheduler.cancel(id);
            }
            !gone
        });
    }

    fn publish(&mut self) {
        let found = self.meter.read(&self.scheduler);
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Tells everybody that nothing more comes.
    fn give_up(mut self) {
        for (_, answer) in self.active.drain() {
            let told = vec![Output::Failed(ApiError::going_down())];
            let _ = answer.outbox.send(answer.choice, told);
        }
    }
}

/// Passes an event on to whoever it is for.
fn take(active: &mut HashMap<JobId, Active>, id: JobId, event: JobEvent<'_>) -> ControlFlow<()> {
    let Some(answer) = active.get_mut(&id) else { return ControlFlow::Break(()) };
    let (mut out, mut last) = (Vec::new(), false);
    match event {
        JobEvent::Text(Event::Text(text)) => answer.reader.text(text, &mut out),
        JobEvent::Text(Event::Token { id, log_probs }) => answer.reader.token(id, log_probs),
        JobEvent::Text(Event::Note(note)) => tracing::info!("{note}"),
        JobEvent::Text(Event::Prompt { .. }) => {}
        JobEvent::Done(summary) => {
            last = true;
            match summary.finish {
                Finish::Cancelled if !answer.reader.is_complete() => {
                    let kind = ErrorKind::Internal;
                    let told = "the answer was not read for too long and was broken off";
                    out.push(Output::Failed(ApiError::new(kind, told)));
                }
                _ => answer.reader.finish(&summary, &mut out),
            }
        }
        JobEvent::Failed(error) => {
            last = true;
            tracing::warn!("a request failed: {error}");
            out.push(Output::Failed(ApiError::of_answer(error, &answer.ruled_by)));
        }
    }
    let flow = answer.outbox.send(answer.choice, out);
    let complete = answer.reader.is_complete();
    if last {
        active.remove(&id);
    }
    if complete { ControlFlow::Break(()) } else { flow }
}
