use super::*;
use crate::rotation::record::Ending;
use crate::rotation::testing::{after as at, entry};

/// A rotation that came into its present phase 100 seconds after it was asked for.
fn record(phase: Phase) -> Record {
    let mut record = entry(&[]).record;
    record.enter(phase, at(100));
    record
}

fn refused() -> Notice {
    notice(Code::EvictionRefused, "Pod shop/p1")
}

fn notice(code: Code, object: &str) -> Notice {
    Notice { code, object: object.to_owned(), message: "it is so".to_owned(), remedy: String::new() }
}

/// One rotation, looked at again and again.
struct Watched {
    ages: Ages,
    record: Record,
    request: Request,
    progress: Progress,
    read: bool,
}

impl Watched {
    fn new(phase: Phase) -> Self {
        let (ages, request, progress) = Default::default();
        Self { ages, record: record(phase), request, progress, read: true }
    }

    /// The second since when the last of these is waited for.
    fn look(&mut self, second: i64, notices: &[Notice]) -> Option<i64> {
        let Self { ages, record, request, progress, read } = self;
        let look = Look { record, request, progress: *progress, read: *read, now: at(second) };
        let waiting = ages.date(&look, notices.to_vec());
        waiting.last().map(|waiting| waiting.since.as_second() - at(0).as_second())
    }
}

#[test]
fn a_wait_is_as_old_as_its_code_and_object_whatever_its_words() {
    let mut watched = Watched::new(Phase::Draining);
    assert_eq!(watched.look(200, &[refused()]), Some(200));
    let again = Notice { message: "it is so (2 times)".to_owned(), ..refused() };
    assert_eq!(watched.look(201, &[again]), Some(200));
    assert_eq!(watched.look(400, &[refused()]), Some(200), "said at each look, however far apart they are");
    assert_eq!(watched.look(401, &[refused(), notice(Code::EvictionRefused, "Pod shop/p2")]), Some(401));
    assert_eq!(watched.look(402, &[refused(), notice(Code::Throttled, "Pod shop/p1")]), Some(402));
}

#[test]
fn a_wait_that_is_not_said_for_a_moment_is_the_same_one() {
    let mut watched = Watched::new(Phase::Draining);
    watched.look(200, &[refused()]);
    watched.look(230, &[refused()]);
    watched.look(231, &[]);
    watched.look(234, &[]);
    assert_eq!(watched.look(235, &[refused()]), Some(200));
    watched.look(236, &[]);
    watched.look(246, &[]);
    assert_eq!(watched.look(247, &[refused()]), Some(247), "it was over for longer than any call takes");
}

#[test]
fn a_wait_after_something_has_moved_is_another_one() {
    let mut watched = Watched::new(Phase::Draining);
    let missing = notice(Code::WaitingForReplacement, "ReplicaSet shop/cart");
    watched.look(200, std::slice::from_ref(&missing));
    watched.progress.evicted = 1;
    assert_eq!(watched.look(201, std::slice::from_ref(&missing)), Some(200), "said all along it goes on");
    watched.progress.landed = 1;
    watched.look(202, &[]);
    assert_eq!(watched.look(203, &[missing]), Some(203), "the next Pod's replacement");
}

#[test]
fn a_pause_is_as_old_as_the_request_for_it() {
    let paused = notice(Code::Paused, "Rotation 1");
    let mut watched = Watched::new(Phase::Draining);
    watched.request = Request { paused: true, paused_at: Some(at(150)), ..Request::default() };
    assert_eq!(watched.look(400, std::slice::from_ref(&paused)), Some(150));
    watched.request.paused_at = Some(at(405));
    assert_eq!(watched.look(406, std::slice::from_ref(&paused)), Some(405), "resumed and paused again");
    watched.request.paused_at = Some(at(500));
    assert_eq!(watched.look(407, std::slice::from_ref(&paused)), Some(407), "no clock shows a wait from the future");

    let mut of_an_earlier_version = Watched::new(Phase::Draining);
    of_an_earlier_version.request.paused = true;
    assert_eq!(of_an_earlier_version.look(400, &[paused]), Some(400));
}

#[test]
fn after_a_restart_what_lasts_as_long_as_the_phase_is_as_old_as_the_phase() {
    for (phase, code) in [
        (Phase::Queued, Code::WaitingForSlot),
        (Phase::Surging, Code::Reserving),
        (Phase::Settling, Code::WaitingForReplacement),
        (Phase::Removing, Code::WaitingForReboot),
        (Phase::Removing, Code::NodeLeaving),
    ] {
        let mut watched = Watched::new(phase);
        watched.read = false;
        watched.look(200, &[notice(Code::NotReady, "the agent's cache")]);
        watched.read = true;
        watched.look(230, &[]);
        assert_eq!(watched.look(233, &[notice(code, "x")]), Some(100), "{phase} {code}");
        watched.request.resumed_at = Some(at(220));
        assert_eq!(watched.look(234, &[notice(code, "y")]), Some(220), "{phase} {code}: the pause was none of it");
        assert_eq!(watched.look(245, &[notice(code, "z")]), Some(245), "{phase} {code}: seen to begin");
    }
}

#[test]
fn after_a_restart_what_may_have_begun_at_any_time_is_as_old_as_the_first_look() {
    for (phase, code) in [
        (Phase::Draining, Code::EvictionRefused),
        (Phase::Draining, Code::PodDisruptionBudget),
        (Phase::Draining, Code::WaitingForReplacement),
        (Phase::Settling, Code::ApiError),
    ] {
        assert_eq!(Watched::new(phase).look(200, &[notice(code, "x")]), Some(200), "{phase} {code}");
    }
}

#[test]
fn after_a_restart_what_an_ending_waits_for_is_as_old_as_the_ending() {
    let ending = |phase| {
        let mut watched = Watched::new(Phase::Draining);
        watched.record.ending = Some(Ending { phase, since: at(150), uncordon: false });
        watched
    };
    let missing = notice(Code::WaitingForReplacement, "x");
    assert_eq!(ending(Phase::Stopped).look(200, std::slice::from_ref(&missing)), Some(150));
    assert_eq!(ending(Phase::Superseded).look(200, &[notice(Code::NodeLeaving, "x")]), Some(150));
    assert_eq!(ending(Phase::Superseded).look(200, &[missing]), Some(200), "other hands evict when they will");
}

#[test]
fn a_new_term_begins_no_wait_anew_and_is_given_time_to_read() {
    let missing = |object| notice(Code::WaitingForReplacement, object);
    let mut watched = Watched::new(Phase::Settling);
    watched.look(200, &[]);
    assert_eq!(watched.look(250, &[missing("x")]), Some(250));
    watched.ages.begin_term();
    assert_eq!(watched.look(251, &[missing("x")]), Some(250));
    assert_eq!(watched.look(255, &[missing("y")]), Some(100), "its volumes were not read before");
}
