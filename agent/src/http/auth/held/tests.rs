use std::time::Duration;

use http_body_util::BodyExt as _;

use super::*;
use crate::http::slots::{Bound, Full, Owner, Slots};

const SIZE: usize = 1 << 20;

fn one() -> Arc<Slots> {
    Slots::new(Bound { all: 1, account: 1, token: 1 })
}

fn held(slots: &Arc<Slots>) -> Response {
    let slot = slots.take(Owner::default()).unwrap();
    until_sent(Response::new(Body::from(vec![b'x'; SIZE])), slot, Clock::system())
}

#[tokio::test(start_paused = true)]
async fn the_place_is_kept_while_most_of_the_answer_is_unsent() {
    let slots = one();
    let mut body = held(&slots).into_body();
    assert_eq!(body.size_hint().exact(), Some(SIZE as u64));
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((first.len(), body.size_hint().exact()), (PIECE, Some((SIZE - PIECE) as u64)));
    assert_eq!(slots.take(Owner::default()).unwrap_err(), Full::Token);
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(rest.len(), SIZE - PIECE);
    assert!(slots.take(Owner::default()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_taken_in_time_gives_its_place_back() {
    let slots = one();
    let mut body = held(&slots).into_body();
    body.frame().await.unwrap().unwrap();
    Clock::system().sleep(limits::SENDING - Duration::from_millis(1)).await;
    assert_eq!(slots.take(Owner::default()).unwrap_err(), Full::Token);
    Clock::system().sleep(Duration::from_millis(2)).await;
    assert!(slots.take(Owner::default()).is_ok());
    assert!(body.frame().await.unwrap().is_err(), "nobody takes it for whole");
    assert!(!body.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_given_up_gives_its_place_back_at_once() {
    let slots = one();
    drop(held(&slots));
    assert!(slots.take(Owner::default()).is_ok());
}
