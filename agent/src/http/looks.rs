//! Records looked for at the API server, because this agent has not heard of them: few at a time, however many ask.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::problem::Refusal;
use crate::rotation::store::{Entry, Store};

/// Looks under way at once; the others wait for their turn.
const AT_ONCE: usize = 4;
/// So many ids that somebody waited for are cleared away at once.
const LEFT: usize = 64;

type Found = Result<Arc<Entry>, Refusal>;
type Look = BoxFuture<'static, Found>;

/// The looks of one agent, cheaply cloned. Those who look for the same record share one.
#[derive(Clone, Debug)]
pub(crate) struct Looks {
    store: Store,
    turns: Arc<Semaphore>,
    // Written by request handlers, each for a moment.
    under_way: Arc<Mutex<HashMap<String, WeakShared<Look>>>>,
}

impl Looks {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, turns: Arc::new(Semaphore::new(AT_ONCE)), under_way: Arc::default() }
    }

    /// The record with this id.
    pub(super) async fn record(&self, id: &str) -> Found {
        self.look(id).await
    }

    fn look(&self, id: &str) -> Shared<Look> {
        let mut under_way = self.under_way.lock();
        // One that is over is not shared: the record may have been written since.
        let shared = under_way.get(id).and_then(WeakShared::upgrade).filter(|look| look.peek().is_none());
        shared.unwrap_or_else(|| {
            let (looks, name) = (self.clone(), id.to_owned());
            let look = async move {
                let _turn = looks.turns.acquire().await;
                looks.store.get(&name).await.map(Arc::new).map_err(Refusal::from)
            };
            let look = look.boxed().shared();
            if under_way.len() >= LEFT {
                under_way.retain(|_, look| look.upgrade().is_some());
            }
            under_way.insert(id.to_owned(), look.downgrade().expect("it was just made"));
            look
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::join_all;
    use kube::Client;
    use kube::client::Body;
    use rotate_shared::{Code, names};

    use super::*;
    use crate::clock::Clock;

    /// An API server without records that takes a second, and how much it was asked in all and at once.
    fn slow() -> (Looks, Arc<[AtomicUsize; 3]>) {
        let counts = Arc::new([const { AtomicUsize::new(0) }; 3]);
        let counted = Arc::clone(&counts);
        let nothing = tower::service_fn(move |_: http::Request<Body>| {
            let counted = Arc::clone(&counted);
            async move {
                counted[0].fetch_add(1, Ordering::Relaxed);
                let now = counted[1].fetch_add(1, Ordering::Relaxed) + 1;
                counted[2].fetch_max(now, Ordering::Relaxed);
                Clock::system().sleep(Duration::from_secs(1)).await;
                counted[1].fetch_sub(1, Ordering::Relaxed);
                let status =
                    br#"{"kind":"Status","status":"Failure","reason":"NotFound","message":"not found","code":404}"#;
                http::Response::builder().status(404).body(Body::from(status.to_vec()))
            }
        });
        let store = Store::new(Client::new(nothing, "default"), names::NAMESPACE, Clock::system());
        (Looks::new(store), counts)
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_look_for_the_same_record_share_one_look() {
        let (looks, counts) = slow();
        let found = join_all((0..100).map(|_| looks.record("0123456789"))).await;
        assert!(found.iter().all(|found| found.as_ref().is_err_and(|refusal| refusal.code() == Code::NotFound)));
        assert_eq!(counts[0].load(Ordering::Relaxed), 1);
        looks.record("0123456789").await.unwrap_err();
        assert_eq!(counts[0].load(Ordering::Relaxed), 2, "an answer is not kept");
    }

    #[tokio::test(start_paused = true)]
    async fn looks_for_many_records_wait_for_their_turn() {
        let (looks, counts) = slow();
        let ids: Vec<_> = (0..100).map(|number| format!("{number:010x}")).collect();
        join_all(ids.iter().map(|id| looks.record(id))).await;
        assert_eq!([&counts[0], &counts[2]].map(|count| count.load(Ordering::Relaxed)), [100, AT_ONCE]);
        assert!(looks.under_way.lock().len() <= ids.len());
        join_all(ids.iter().take(2).map(|id| looks.record(id))).await;
        assert!(looks.under_way.lock().len() <= LEFT, "ids are not kept");
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_hangs_up_does_not_take_the_look_from_the_others() {
        let (looks, counts) = slow();
        let first = tokio::spawn({
            let looks = looks.clone();
            async move { looks.record("0123456789").await.map(drop) }
        });
        Clock::system().sleep(Duration::from_millis(100)).await;
        let second = looks.look("0123456789");
        first.abort();
        assert!(second.await.is_err_and(|refusal| refusal.code() == Code::NotFound));
        assert_eq!(counts[0].load(Ordering::Relaxed), 1);
    }
}
