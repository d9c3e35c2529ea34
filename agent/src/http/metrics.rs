//! Metrics in Prometheus' text format, counted when asked for.

use std::fmt::{self, Write as _};

use axum::extract::State;
use axum::response::IntoResponse;
use http::header;
use rotate_shared::{FeedInfo, Phase};

use super::state::Api;
use super::traffic::Traffic;

/// `GET /metrics`.
pub(super) async fn metrics(State(api): State<Api>) -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, text(&api).expect("a String takes everything"))
}

/// A family of metrics with a value for each feed that has one.
type Family = (&'static str, &'static str, fn(&FeedInfo) -> Option<u64>);

const GAUGES: [Family; 4] = [
    ("rotate_feed_synced", "Whether a watched kind was read whole.", |feed| Some(u64::from(feed.synced))),
    ("rotate_feed_connected", "Whether a watch is open.", |feed| Some(u64::from(feed.connected))),
    ("rotate_feed_age_seconds", "Seconds since the API server was last heard of.", |feed| feed.age_seconds),
    ("rotate_feed_reading_objects", "Objects that the list under way has brought so far.", |feed| feed.reading),
];

const COUNTERS: [Family; 6] = [
    ("rotate_feed_objects_total", "Objects that were read, in lists and as they changed.", |feed| Some(feed.objects)),
    ("rotate_feed_lists_total", "Complete lists that were read.", |feed| Some(feed.lists)),
    ("rotate_feed_errors_total", "Lists and watches that failed.", |feed| Some(feed.errors)),
    ("rotate_feed_stalls_total", "Watches that fell silent and were given up.", |feed| Some(feed.stalls)),
    ("rotate_feed_unreadable_total", "Objects that could not be read.", |feed| Some(feed.unreadable)),
    ("rotate_feed_unknown_events_total", "Events of a type that is not known.", |feed| Some(feed.unknown)),
];

fn text(api: &Api) -> Result<String, fmt::Error> {
    let mut text = Text::default();
    text.gauge("rotate_build_info", "The version that runs.", &[("version", env!("CARGO_PKG_VERSION"), 1)])?;
    text.plain("rotate_leader", "Whether this agent leads.", u64::from(api.term.borrow().is_some()))?;

    let mut info = api.cache_info();
    // Their sum is told; which nodes and namespaces are looked at is nobody's business here.
    info.feeds.retain(|feed| feed.scope.is_none());
    text.plain("rotate_cache_pods", "Pods in the cache.", info.pods)?;
    text.plain("rotate_cache_nodes", "Nodes in the cache.", info.nodes)?;
    text.plain("rotate_cache_disruption_budgets", "Disruption budgets in the cache.", info.disruption_budgets)?;
    text.plain("rotate_cache_shapes", "Different shapes that the Pods in the cache share.", info.shapes)?;
    text.plain(
        "rotate_cache_label_sets",
        "Different sets of labels that the Pods in the cache share.",
        info.label_sets,
    )?;
    let of_feeds = |value: fn(&FeedInfo) -> Option<u64>| -> Vec<(&str, &str, u64)> {
        info.feeds.iter().filter_map(|feed| Some(("kind", feed.kind.as_str(), value(feed)?))).collect()
    };
    for (name, help, value) in GAUGES {
        text.gauge(name, help, &of_feeds(value))?;
    }
    for (name, help, value) in COUNTERS {
        text.counter(name, help, &of_feeds(value))?;
    }

    let rotations = api.views.list();
    let count = |phase: Phase| rotations.iter().filter(|rotation| rotation.phase == phase).count() as u64;
    let names: Vec<_> = Phase::ALL.iter().map(|phase| (phase.to_string(), count(*phase))).collect();
    let phases: Vec<_> = names.iter().map(|(phase, count)| ("phase", phase.as_str(), *count)).collect();
    text.gauge("rotate_rotations", "Rotations that are kept, by phase.", &phases)?;
    traffic(&mut text, &api.traffic)?;
    Ok(text.0)
}

fn traffic(text: &mut Text, traffic: &Traffic) -> fmt::Result {
    let open: Vec<_> = Traffic::PORTS.iter().map(|(port, name)| ("port", *name, traffic.connections(*port))).collect();
    text.gauge("rotate_connections", "Connections that are open, by port.", &open)?;
    text.plain("rotate_streams", "Streams of events that are open.", traffic.streams())?;
    let refused: Vec<_> = Traffic::REASONS.iter().map(|(why, name)| ("reason", *name, traffic.refused(*why))).collect();
    text.counter("rotate_refused_total", "Connections and requests that were refused, by reason.", &refused)?;
    #[cfg(feature = "tls")]
    {
        use std::sync::atomic::Ordering::Relaxed;
        let certificate = &traffic.certificate;
        let loads = [("loaded", certificate.loaded.load(Relaxed)), ("failed", certificate.failed.load(Relaxed))];
        let loads = loads.map(|(result, count)| ("result", result, count));
        text.counter("rotate_tls_certificate_reads_total", "Certificates read because the files changed.", &loads)?;
        let stale = certificate.stale.load(Relaxed);
        text.plain("rotate_tls_certificate_stale", "Whether the files hold a certificate that cannot be used.", stale)?;
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn plain(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}")
    }

    fn gauge(&mut self, name: &str, help: &str, values: &[(&str, &str, u64)]) -> fmt::Result {
        self.family("gauge", name, help, values)
    }

    fn counter(&mut self, name: &str, help: &str, values: &[(&str, &str, u64)]) -> fmt::Result {
        self.family("counter", name, help, values)
    }

    /// Label values are our own words: nothing in them needs escaping.
    fn family(&mut self, kind: &str, name: &str, help: &str, values: &[(&str, &str, u64)]) -> fmt::Result {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        for (label, label_value, value) in values {
            writeln!(self.0, "{name}{{{label}=\"{label_value}\"}} {value}")?;
        }
        Ok(())
    }
}
