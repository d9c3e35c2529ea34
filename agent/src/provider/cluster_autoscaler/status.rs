//! What cluster-autoscaler tells of its groups in a ConfigMap: as YAML since 1.30, as text before.

mod text;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, fmt::strtime};
use serde::Deserialize;

/// It writes every ten seconds; after this long without a word it does not work.
const STALE: SignedDuration = SignedDuration::from_mins(5);
/// Before its text form.
const TEXT: &str = "Cluster-autoscaler status at ";

/// What is known of cluster-autoscaler's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// There is no such ConfigMap.
    #[default]
    Absent,
    /// It may not be read, in the API server's words.
    Forbidden(String),
    /// It was not understood, and why.
    Unreadable(String),
    /// It was.
    Read(Told),
}

/// Its word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// When it was given.
    pub at: Timestamp,
    /// Whether it says that it works.
    pub running: bool,
    /// Its groups.
    pub groups: Vec<GroupStatus>,
}

/// What it tells of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// What the cloud calls it.
    pub name: String,
    /// How many of its nodes are Ready.
    pub ready: u32,
    /// How many nodes the cloud was asked for.
    pub target: u32,
    /// How many it has at least.
    pub min: u32,
    /// How many it has at most.
    pub max: u32,
    /// Why it does not grow for the time being, though it could.
    pub held_up: Option<String>,
}

// === impl Status ===

impl Status {
    /// Reads the ConfigMap's `status`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let told = if text.trim_start().starts_with(TEXT) { text::parse(text.trim_start()) } else { yaml(text) };
        told.map_or_else(Self::Unreadable, Self::Read)
    }

    /// Its word, where it can be relied on.
    ///
    /// # Errors
    ///
    /// Why it cannot: fits after "the autoscaler's status …".
    pub fn told(&self, now: Timestamp) -> Result<&Told, String> {
        match self {
            Self::Absent => Err("is not there".to_owned()),
            Self::Forbidden(message) => Err(format!("may not be read: {message}")),
            Self::Unreadable(why) => Err(format!("cannot be read: {why}")),
            Self::Read(told) => {
                let age = now.duration_since(told.at);
                if age > STALE {
                    let age = SignedDuration::from_mins(age.as_mins());
                    return Err(format!("was last written {age:#} ago, while it is written every 10s"));
                }
                // The word of saved objects is dated so, to be as fresh as they are.
                if age < -STALE && told.at != Timestamp::MAX {
                    return Err(format!("is dated {}, which is yet to come: whether it is old is not known", told.at));
                }
                if !told.running {
                    return Err("says that it is not running yet".to_owned());
                }
                Ok(told)
            }
        }
    }
}

/// The form of 1.30 and later.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    time: String,
    autoscaler_status: String,
    node_groups: Option<Vec<Written>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    name: String,
    health: Health,
    scale_up: ScaleUp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Health {
    status: String,
    node_counts: Counts,
    cloud_provider_target: u32,
    min_size: u32,
    max_size: u32,
    last_probe_time: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Counts {
    registered: Registered,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Registered {
    ready: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScaleUp {
    status: String,
    backoff_info: BackoffInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BackoffInfo {
    error_code: String,
    error_message: String,
}

fn yaml(text: &str) -> Result<Told, String> {
    let document: Document = serde_saphyr::from_str(text).map_err(|error| first_line(&error.to_string()))?;
    let written = document.node_groups.unwrap_or_default();
    let probed = written.iter().filter_map(|group| time(&group.health.last_probe_time)).max();
    let at = time(&document.time).or(probed).ok_or("it does not say when it was written")?;
    let group = |written: Written| GroupStatus {
        held_up: held_up(&written.health.status, &written.scale_up.status, &because(&written.scale_up.backoff_info)),
        name: written.name,
        ready: written.health.node_counts.registered.ready,
        target: written.health.cloud_provider_target,
        min: written.health.min_size,
        max: written.health.max_size,
    };
    Ok(Told { at, running: document.autoscaler_status == "Running", groups: written.into_iter().map(group).collect() })
}

fn because(info: &BackoffInfo) -> String {
    let parts = [&*info.error_code, &*info.error_message].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

/// Why a group does not grow, from its two conditions.
fn held_up(health: &str, scale_up: &str, because: &str) -> Option<String> {
    let because = if because.is_empty() { String::new() } else { format!(" ({because})") };
    if scale_up == "Backoff" {
        return Some(format!("it does not grow for a while, since it failed to{because}"));
    }
    (health == "Unhealthy").then(|| "it is unhealthy: too many of its nodes are not Ready".to_owned())
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A time as Go prints one (`2026-07-26 10:00:00.12 +0000 UTC m=+571.7`), or by RFC 3339.
fn time(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let mut words = text.split_whitespace();
    let (date, time, offset) = (words.next()?, words.next()?, words.next()?);
    let parsed = strtime::parse("%Y-%m-%d %H:%M:%S%.f %z", format!("{date} {time} {offset}")).ok()?;
    let offset = parsed.offset()?;
    let zoned = parsed.to_datetime().ok()?.to_zoned(TimeZone::fixed(offset)).ok()?;
    Some(zoned.timestamp())
}

#[cfg(test)]
mod tests;
