//! A connection on which no error leaves without words.
//!
//! What is no request that hyper could hand on, it answers by itself: a status, no body, and the connection is closed. There
//! is no other place to say what was wrong with it than where that answer is written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rotate_shared::{Code, Problem};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::limits;
use crate::http::problem::MEDIA_TYPE;

/// More than such an answer has.
const BARE: usize = 192;

/// Puts a problem document where an error without a body was to be sent.
pub(super) struct Worded<S> {
    stream: S,
    /// There while it is sent in the place of what hyper takes to be sent.
    instead: Option<Instead>,
}

struct Instead {
    bytes: Vec<u8>,
    sent: usize,
}

impl<S> Worded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, instead: None }
    }
}

impl<S: AsyncWrite + Unpin> Worded<S> {
    fn send_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(instead) = &mut self.instead {
            let left = &instead.bytes[instead.sent..];
            if left.is_empty() {
                self.instead = None;
                break;
            }
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, left))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            instead.sent += sent;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Worded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Worded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            let Some(worded) = worded(bytes) else { return Pin::new(&mut self.stream).poll_write(cx, bytes) };
            self.instead = Some(Instead { bytes: worded, sent: 0 });
        }
        // What waits is offered again, and is the same: all of it is taken at once.
        ready!(self.send_instead(cx))?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [one] => self.poll_write(cx, one),
            several => Pin::new(&mut self.stream).poll_write_vectored(cx, several),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The same with words, if the end of these bytes is an error without any. Each of ours has a type of content.
fn worded(bytes: &[u8]) -> Option<Vec<u8>> {
    if !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let end = bytes.len().saturating_sub(BARE);
    let begins = |at: &usize| bytes[*at..].starts_with(b"HTTP/1.1 4") || bytes[*at..].starts_with(b"HTTP/1.0 4");
    let begin = (end..bytes.len()).find(begins)?;
    let head = std::str::from_utf8(&bytes[begin..]).ok()?;
    let closes = head.contains("\r\nconnection: close\r\n") || head.starts_with("HTTP/1.0");
    if !closes || !head.contains("\r\ncontent-length: 0\r\n") || head.contains("\r\ncontent-type: ") {
        return None;
    }
    let status = head.get(9..12)?.parse().ok()?;
    let detail = match status {
        414 | 431 => format!(
            "the first line and the headers together are more than {} KiB, or more than 100 headers",
            limits::HEAD_BYTES >> 10
        ),
        _ => "this is not a request of HTTP/1.1, or one that can be understood in two ways".to_owned(),
    };
    let problem = Problem { status, ..Problem::new(Code::BadRequest, detail) };
    let body = serde_json::to_string(&problem).ok()?;
    let length = format!("\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\n", body.len());
    let head = head.replacen("\r\ncontent-length: 0\r\n", &length, 1);
    Some([&bytes[..begin], head.as_bytes(), body.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const BARE_ANSWER: &str = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\
                               date: Mon, 30 Nov 2026 11:18:37 GMT\r\n\r\n";

    async fn written(parts: &[&[u8]]) -> String {
        // Less than an answer: it is sent in pieces.
        let (ours, mut theirs) = duplex(16);
        let mut ours = Worded::new(ours);
        let reading = tokio::spawn(async move {
            let mut read = String::new();
            theirs.read_to_string(&mut read).await.unwrap();
            read
        });
        for part in parts {
            ours.write_all(part).await.unwrap();
        }
        ours.shutdown().await.unwrap();
        drop(ours);
        reading.await.unwrap()
    }

    #[tokio::test]
    async fn an_error_without_a_body_gets_one() {
        let answer = written(&[BARE_ANSWER.as_bytes()]).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 ") && head.contains("content-type: application/problem+json"), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
        let problem: Problem = serde_json::from_str(body).unwrap();
        assert_eq!((problem.status, problem.code), (431, Code::BadRequest));
        assert!(problem.detail.contains("32 KiB"), "{}", problem.detail);
    }

    #[tokio::test]
    async fn one_behind_the_answer_before_it_gets_one_too() {
        let before = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell";
        let answer = written(&[before.as_bytes(), BARE_ANSWER.as_bytes()]).await;
        let at_once = written(&[format!("{before}{BARE_ANSWER}").as_bytes()]).await;
        assert!(answer.starts_with(before) && answer.ends_with('}'), "{answer}");
        assert_eq!(answer, at_once);
    }

    #[tokio::test]
    async fn everything_else_goes_out_as_it_is() {
        for answer in [
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nHTTP/1.1 4\r\n0\r\n\r\n",
            "",
        ] {
            assert_eq!(written(&[answer.as_bytes()]).await, answer);
        }
    }
}
