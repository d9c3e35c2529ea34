//! A connection that is given up once its reader takes nothing for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clock::Clock;

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Writes fail once the other side has taken no byte for so long. Reads are bounded by who reads.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    clock: Clock,
    /// There while a write waits.
    until: Option<Wait>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration, clock: Clock) -> Self {
        Self { stream, patience, clock, until: None }
    }

    fn wait<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let (clock, patience) = (self.clock, self.patience);
        let until = self.until.get_or_insert_with(|| Box::pin(async move { clock.sleep(patience).await }));
        ready!(until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wait(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wait(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.wait(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wait(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_given_up_and_a_slow_one_is_not() {
        let clock = Clock::system();
        let patience = Duration::from_secs(30);
        let (ours, mut theirs) = duplex(16);
        let mut ours = Patient::new(ours, patience, clock);
        let begun = clock.now();
        let slow = tokio::spawn(async move {
            let mut taken = [0; 16];
            for _ in 0..4 {
                clock.sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut taken).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 80]).await.unwrap();
        assert_eq!(clock.now().duration_since(begun).as_secs(), 80);
        let _theirs = slow.await.unwrap();
        let error = ours.write_all(&[0; 80]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(clock.now().duration_since(begun).as_secs(), 110);
    }
}
