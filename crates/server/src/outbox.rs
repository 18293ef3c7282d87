//! The way of a request's events to the client: never waited for by the engine, and never longer
//! than a client may leave unread.

use crate::output::Output;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Bytes that a client may leave unread; about a million tokens of text.
const MOST_UNREAD: usize = 8 << 20;
/// What an event takes beside its text.
const PER_EVENT: usize = 64;

/// An event and the answer it belongs to.
pub(crate) type Numbered = (usize, Output);

/// The sending end; one for all answers of a request.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    events: mpsc::UnboundedSender<Numbered>,
    unread: Arc<AtomicUsize>,
}

/// The receiving end. Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct Inbox {
    events: mpsc::UnboundedReceiver<Numbered>,
    unread: Arc<AtomicUsize>,
}

/// Both ends.
pub(crate) fn outbox() -> (Outbox, Inbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    (Outbox { events: sender, unread: unread.clone() }, Inbox { events: receiver, unread })
}

impl Outbox {
    /// Whether nobody reads any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.events.is_closed()
    }

    /// Sends events of one answer; breaks off if nobody reads them, or not fast enough.
    pub(crate) fn send(&self, choice: usize, outputs: Vec<Output>) -> ControlFlow<()> {
        for output in outputs {
            self.unread.fetch_add(bytes(&output), Ordering::Relaxed);
            if self.events.send((choice, output)).is_err() {
                return ControlFlow::Break(());
            }
        }
        match self.unread.load(Ordering::Relaxed) > MOST_UNREAD {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Inbox {
    /// The next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Numbered> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// As [`Inbox::next`], without waiting.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Numbered>> {
        let next = self.events.poll_recv(context);
        if let Poll::Ready(Some((_, output))) = &next {
            self.unread.fetch_sub(bytes(output), Ordering::Relaxed);
        }
        next
    }
}

fn bytes(output: &Output) -> usize {
    PER_EVENT
        + match output {
            Output::Text { text, tokens } => {
                let count = |token: &crate::output::TokenOutput| 1 + token.top.len();
                text.len() + tokens.iter().map(count).sum::<usize>() * PER_EVENT
            }
            Output::Reasoning(text) | Output::CallArguments { fragment: text, .. } => text.len(),
            Output::CallBegin { id, name, .. } => id.len() + name.len(),
            Output::CallEnd { .. } | Output::Finish { .. } | Output::Failed(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reads_nothing_is_cut_off_and_one_that_reads_is_not() {
        let text = || vec![Output::Reasoning("x".repeat(1 << 20))];
        let (outbox, _inbox) = outbox();
        let sent = (0..20).take_while(|_| outbox.send(0, text()).is_continue()).count();
        assert_eq!(sent, 7);

        let (outbox, mut inbox) = super::outbox();
        let mut context = Context::from_waker(std::task::Waker::noop());
        for _ in 0..50 {
            assert!(outbox.send(0, text()).is_continue());
            assert!(inbox.poll(&mut context).is_ready());
        }
        drop(inbox);
        assert!(outbox.is_closed() && outbox.send(0, text()).is_break());
    }
}
