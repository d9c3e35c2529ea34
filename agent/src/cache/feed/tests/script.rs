//! An API server that answers what it was told to, in order, and remembers what it was asked.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;

/// What to answer.
#[derive(Debug)]
pub(super) enum Answer {
    Whole { status: u16, content_type: &'static str, header: Option<(&'static str, &'static str)>, body: Bytes },
    Stream(&'static str, mpsc::UnboundedReceiver<io::Result<Bytes>>),
    Held(oneshot::Receiver<Answer>),
    Never,
}

/// The other end of a watch. Dropping it ends the watch as a server does.
#[derive(Debug)]
pub(super) struct Watch(mpsc::UnboundedSender<io::Result<Bytes>>);

/// The other end of an answer that is not given yet.
#[derive(Debug)]
pub(super) struct Held(oneshot::Sender<Answer>);

const JSON: &str = "application/json";

/// Lists, streaming lists and watches of Pods follow the script; other kinds are empty and silent. A streaming list that
/// the script says nothing of is refused, as by a server that has none.
#[derive(Clone, Debug)]
pub(super) struct Script(Arc<Mutex<Scripted>>);

/// What to answer to paths that contain this.
type Otherwise = (&'static str, fn() -> Answer);

#[derive(Debug)]
struct Scripted {
    lists: VecDeque<Answer>,
    streams: VecDeque<Answer>,
    watches: VecDeque<Answer>,
    objects: HashMap<String, String>,
    otherwise: Vec<Otherwise>,
    asked: Vec<String>,
    /// Watches in which nothing happens.
    silent: Vec<Watch>,
}

pub(super) fn pod(name: &str, revision: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": revision},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})
}

pub(super) fn list(revision: &str, items: &[Value]) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": revision}, "items": items})
}

pub(super) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

/// A line of a watch.
pub(super) fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

pub(super) fn bookmark(revision: &str) -> String {
    event("BOOKMARK", &json!({"kind": "Pod", "metadata": {"resourceVersion": revision}}))
}

/// The bookmark that ends a streaming list.
pub(super) fn initial_end(revision: &str) -> String {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    event("BOOKMARK", &json!({"kind": "Pod", "metadata": {"resourceVersion": revision, "annotations": annotations}}))
}

/// What a server without the feature gate answers (as 1.33 does).
pub(super) fn unstreamed() -> Answer {
    let message = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for \
                   watch unless the WatchList feature gate is enabled";
    Answer::refused(422, &status(422, "Invalid", message))
}

impl Answer {
    pub(super) fn text(status: u16, text: String) -> Self {
        Self::Whole { status, content_type: JSON, header: None, body: text.into() }
    }

    pub(super) fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::Whole { status: 200, content_type, header: None, body: body.into() }
    }

    pub(super) fn json(value: &Value) -> Self {
        Self::text(200, value.to_string())
    }

    pub(super) fn refused(status: u16, said: &Value) -> Self {
        Self::text(status, said.to_string())
    }

    pub(super) fn header(self, name: &'static str, value: &'static str) -> Self {
        match self {
            Self::Whole { status, content_type, body, .. } => {
                Self::Whole { status, content_type, header: Some((name, value)), body }
            }
            other => other,
        }
    }
}

impl Watch {
    pub(super) fn send(&self, bytes: impl Into<Bytes>) {
        // Nobody listens any more: what the script says then is lost, as on a closed connection.
        let _ = self.0.send(Ok(bytes.into()));
    }

    pub(super) fn fail(self) {
        let _ = self.0.send(Err(io::Error::other("connection reset")));
    }
}

impl Held {
    pub(super) fn answer(self, answer: Answer) {
        self.0.send(answer).unwrap();
    }
}

impl Script {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Scripted {
            lists: VecDeque::new(),
            streams: VecDeque::new(),
            watches: VecDeque::new(),
            objects: HashMap::new(),
            otherwise: Vec::new(),
            asked: Vec::new(),
            silent: Vec::new(),
        })))
    }

    pub(super) fn list(self, list: &Value) -> Self {
        self.answer_list(Answer::json(list))
    }

    pub(super) fn answer_list(self, answer: Answer) -> Self {
        self.0.lock().lists.push_back(answer);
        self
    }

    pub(super) fn watch(self, answer: Answer) -> Self {
        self.0.lock().watches.push_back(answer);
        self
    }

    pub(super) fn open_watch(&self) -> Watch {
        self.open_typed_watch(JSON)
    }

    pub(super) fn open_typed_watch(&self, content_type: &'static str) -> Watch {
        let (watch, answer) = Self::open(content_type);
        self.0.lock().watches.push_back(answer);
        watch
    }

    /// A watch that begins with what there is.
    pub(super) fn open_stream(&self) -> Watch {
        self.open_typed_stream(JSON)
    }

    pub(super) fn open_typed_stream(&self, content_type: &'static str) -> Watch {
        let (watch, answer) = Self::open(content_type);
        self.0.lock().streams.push_back(answer);
        watch
    }

    pub(super) fn stream(self, answer: Answer) -> Self {
        self.0.lock().streams.push_back(answer);
        self
    }

    fn open(content_type: &'static str) -> (Watch, Answer) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Watch(sender), Answer::Stream(content_type, receiver))
    }

    pub(super) fn hold_list(&self) -> Held {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().lists.push_back(Answer::Held(receiver));
        Held(sender)
    }

    /// Answers a GET of this path, whenever it comes.
    pub(super) fn object(&self, path: &str, object: &Value) {
        self.0.lock().objects.insert(path.to_owned(), object.to_string());
    }

    /// Answers watches of Pods when the script has no more.
    pub(super) fn otherwise(self, answer: fn() -> Answer) -> Self {
        self.otherwise_for("pods?watch", answer)
    }

    /// Answers requests whose path contains this.
    pub(super) fn otherwise_for(self, part: &'static str, answer: fn() -> Answer) -> Self {
        self.0.lock().otherwise.push((part, answer));
        self
    }

    /// What was asked for so far, as far as it contains this.
    pub(super) fn asked(&self, part: &str) -> Vec<String> {
        self.0.lock().asked.iter().filter(|path| path.contains(part)).cloned().collect()
    }

    pub(super) fn client(&self) -> Client {
        let script = self.clone();
        let serve = move |request: Request<kube::client::Body>| {
            let script = script.clone();
            async move { Ok::<_, Infallible>(respond(script.next(&request.uri().to_string())).await) }
        };
        Client::new(tower::service_fn(serve), "default")
    }

    fn next(&self, path: &str) -> Answer {
        let mut script = self.0.lock();
        script.asked.push(path.to_owned());
        if let Some(object) = script.objects.get(path) {
            return Answer::text(200, object.clone());
        }
        let scripted = match path.strip_prefix("/api/v1/pods?") {
            Some(query) if query.contains("sendInitialEvents") => {
                Some(script.streams.pop_front().unwrap_or_else(unstreamed))
            }
            Some(query) if query.starts_with("watch") => script.watches.pop_front(),
            Some(_) => script.lists.pop_front(),
            None => None,
        };
        if let Some(answer) = scripted {
            return answer;
        }
        match script.otherwise.iter().find(|(part, _)| path.contains(part)) {
            Some((_, answer)) => answer(),
            None if path.contains("sendInitialEvents") => {
                let (watch, answer) = Self::open(JSON);
                watch.send(initial_end("1"));
                script.silent.push(watch);
                answer
            }
            None if path.contains("watch=true") => Answer::Never,
            None => Answer::json(&list("1", &[])),
        }
    }
}

async fn respond(answer: Answer) -> Response<Body> {
    let mut answer = answer;
    loop {
        answer = match answer {
            Answer::Whole { status, content_type, header, body } => {
                let mut response = Response::builder().status(status).header("content-type", content_type);
                if let Some((name, value)) = header {
                    response = response.header(name, value);
                }
                return response.body(Body::from(body)).unwrap();
            }
            Answer::Stream(content_type, receiver) => {
                let body = Body::from_stream(UnboundedReceiverStream::new(receiver));
                return Response::builder().header("content-type", content_type).body(body).unwrap();
            }
            Answer::Held(receiver) => receiver.await.unwrap_or(Answer::Never),
            Answer::Never => std::future::pending().await,
        }
    }
}
