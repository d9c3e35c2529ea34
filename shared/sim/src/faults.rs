//! Faults on request: answers that fail, come late or get lost, and watches that end.

use std::{sync::Arc, time::Duration};

use crate::cluster::Cluster;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This status instead of carrying the request out, with `Retry-After` seconds where given.
    Status {
        /// HTTP status code.
        code: u16,
        /// Seconds, for throttling as the API server does it.
        retry_after: Option<u32>,
    },
    /// An admission webhook refuses with this message.
    Denied {
        /// The webhook's words.
        message: String,
        /// How long it takes to say them.
        after: Duration,
    },
    /// Carried out after a while.
    Delay(Duration),
    /// Carried out, but the answer is a 504.
    LostAnswer,
}

/// Which requests, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `GET`, `POST` …; `*` for any.
    pub method: String,
    /// What the path contains.
    pub path: String,
    /// How many requests are still to meet it.
    pub times: usize,
    /// What happens to them.
    pub effect: Effect,
}

/// What is going wrong now.
#[derive(Debug, Default)]
pub(crate) struct State {
    rules: Vec<Fault>,
    refusing: bool,
}

impl State {
    /// What happens to this request; using one of a rule's times up.
    pub(crate) fn meet(&mut self, method: &str, path: &str) -> Option<Effect> {
        if self.refusing {
            return Some(Effect::Status { code: 503, retry_after: None });
        }
        let rule = self.rules.iter_mut().find(|rule| {
            rule.times > 0 && (rule.method == "*" || rule.method == method) && path.contains(&rule.path)
        })?;
        rule.times -= 1;
        let effect = rule.effect.clone();
        self.rules.retain(|rule| rule.times > 0);
        Some(effect)
    }
}

/// Makes things go wrong.
#[derive(Clone, Debug)]
pub struct Faults {
    cluster: Arc<Cluster>,
}

impl Faults {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }

    /// The next requests that match meet this.
    pub fn add(&self, fault: Fault) {
        self.cluster.faults.lock().rules.push(fault);
    }

    /// The next `times` requests with this method whose path contains `path` are answered `code`.
    pub fn fail(&self, method: &str, path: &str, code: u16, times: usize) {
        self.effect(method, path, times, Effect::Status { code, retry_after: None });
    }

    /// The next `times` such requests take `delay` longer.
    pub fn delay(&self, method: &str, path: &str, delay: Duration, times: usize) {
        self.effect(method, path, times, Effect::Delay(delay));
    }

    /// The next `times` such requests are carried out, but nobody hears of it.
    pub fn lose_answers(&self, method: &str, path: &str, times: usize) {
        self.effect(method, path, times, Effect::LostAnswer);
    }

    /// The next `times` such requests are refused by an admission webhook.
    pub fn deny(&self, method: &str, path: &str, message: &str, times: usize) {
        self.deny_late(method, path, message, times, Duration::ZERO);
    }

    /// The next `times` such requests are refused by an admission webhook that takes `after` for it.
    pub fn deny_late(&self, method: &str, path: &str, message: &str, times: usize, after: Duration) {
        self.effect(method, path, times, Effect::Denied { message: message.to_owned(), after });
    }

    fn effect(&self, method: &str, path: &str, times: usize, effect: Effect) {
        self.add(Fault { method: method.to_owned(), path: path.to_owned(), times, effect });
    }

    /// While set, every request is answered 503.
    pub fn refuse(&self, refusing: bool) {
        self.cluster.faults.lock().refusing = refusing;
    }

    /// Nothing more goes wrong.
    pub fn clear(&self) {
        *self.cluster.faults.lock() = State::default();
    }

    /// Ends the watches that are open now.
    pub fn drop_watches(&self) {
        self.cluster.signal.send_modify(|signal| signal.watches += 1);
    }

    /// Forgets history: watches from an older version, and lists half read, answer 410.
    pub fn compact(&self) {
        self.cluster.store().compact();
    }
}
