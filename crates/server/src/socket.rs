//! A socket that tells when its client is gone, also while nobody reads it.
//!
//! While an answer is made, hyper looks for the end of what the client sends, which is how it
//! learns that nobody waits any more. It does so by reading, and does not read past bytes that came
//! behind the request: with such bytes in the way a client that is gone would keep its slot.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The socket, to be read and written.
#[derive(Debug)]
pub(crate) struct Socket {
    reading: Arc<OwnedReadHalf>,
    writing: OwnedWriteHalf,
}

/// An eye on it.
#[derive(Debug)]
pub(crate) struct Watch(Arc<OwnedReadHalf>);

/// A socket and an eye on it.
pub(crate) fn watched(stream: TcpStream) -> (Socket, Watch) {
    let (reading, writing) = stream.into_split();
    let reading = Arc::new(reading);
    (Socket { reading: reading.clone(), writing }, Watch(reading))
}

impl Watch {
    /// Waits until the client sends no more, whatever it sent before that nobody has read yet.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) async fn gone(&self) {
        // To wait until it is readable would do for no time at all if bytes are there. Urgent
        // bytes, which are not asked for, are never announced; the end is, with them as with all.
        let found = self.0.ready(tokio::io::Interest::PRIORITY).await;
        if found.is_ok_and(|found| !found.is_read_closed()) {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for ever: other systems do not tell it apart from bytes.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) async fn gone(&self) {
        std::future::pending::<()>().await;
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream: &TcpStream = (*self.reading).as_ref();
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writing).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writing).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.writing.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writing).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writing).poll_shutdown(cx)
    }
}
