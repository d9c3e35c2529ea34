//! An answer that keeps its place until it was sent, or given up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::http::limits;
use crate::http::slots::Slot;

/// What is given to the connection at once. It takes more only once little of what it has is unsent, so that the place is
/// kept for as long as there is much.
const PIECE: usize = 16 << 10;

/// Keeps a place until the answer was sent, or for [`limits::SENDING`]: whoever takes an answer byte by byte must not keep
/// others waiting.
pub(super) fn until_sent(response: Response, slot: Slot, clock: Clock) -> Response {
    response.map(|body| {
        let answer = Arc::new(Mutex::new(Some(Answer { body, rest: Bytes::new(), _slot: slot })));
        let late = Arc::clone(&answer);
        // The connection asks for nothing while its reader takes nothing: somebody else has to look at the clock.
        let watch = tokio::spawn(async move {
            clock.sleep(limits::SENDING).await;
            drop(late.lock().take());
        });
        Body::new(Held { answer, watch })
    })
}

/// What is left of an answer; of known length where it was before.
struct Answer {
    body: Body,
    /// Of the body, what is next.
    rest: Bytes,
    _slot: Slot,
}

/// The answer as the connection sees it: nothing is left of it once its time is over.
struct Held {
    // Taken by the connection's task or by the watch, each for a moment.
    answer: Arc<Mutex<Option<Answer>>>,
    watch: JoinHandle<()>,
}

impl Answer {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return other,
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self.answer.lock() {
            Some(answer) => answer.poll(cx),
            None => Poll::Ready(Some(Err(axum::Error::new("the answer was not taken in time")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.answer.lock().as_ref().is_some_and(|answer| answer.rest.is_empty() && answer.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let answer = self.answer.lock();
        let Some(answer) = answer.as_ref() else { return SizeHint::default() };
        let (body, rest) = (answer.body.size_hint(), answer.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.watch.abort();
        drop(self.answer.lock().take());
    }
}

#[cfg(test)]
mod tests;
