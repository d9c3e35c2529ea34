//! The table at the end: medians of what criterion has measured, and what was counted.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::SIZES;
use crate::decode::Decoded;
use crate::world::Grown;

/// A row: what it is, criterion's name without the number of Pods, the goal.
const BY_SIZE: [(&str, &str, &str); 11] = [
    ("candidate requests, realistic Pods", "candidate_requests/realistic", "≤ 100 ns at 50k, 1M ≤ 1.5 × 1k"),
    ("candidate requests, plain Pods", "candidate_requests/plain", ""),
    ("  the same through the lock", "candidate_requests/through_the_lock", ""),
    ("  the same by a scan of all Pods", "candidate_requests/full_scan", ""),
    ("absorb guard, realistic Pods", "absorb_guard/realistic", "≤ 50 ns, flat"),
    ("absorb guard, plain Pods", "absorb_guard/plain", ""),
    ("apply one event, a Pod modified", "apply_event/modified", "≤ 2 µs at 50k, 1M ≤ 1.5 × 50k"),
    ("apply one event, a Pod replaced", "apply_event/replaced", "≤ 2 µs at 50k, 1M ≤ 1.5 × 50k"),
    ("initial sync in memory, protobuf", "initial_sync/protobuf", ""),
    ("initial sync in memory, JSON", "initial_sync/json", ""),
    ("  whole Kubernetes types, JSON", "initial_sync/k8s_openapi", ""),
];

pub(crate) fn print(decoded: &Decoded, grown: &[Grown], hostile: &Grown) {
    let mut text = String::new();
    sizes(&mut text).and_then(|()| decoders(&mut text, decoded)).expect("a String takes everything");
    footprints(&mut text, grown, hostile).expect("a String takes everything");
    // Whoever closed the pipe has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn sizes(text: &mut String) -> std::fmt::Result {
    write!(text, "\n{:36}", "median, by number of Pods")?;
    SIZES.iter().try_for_each(|pods| write!(text, "{pods:>12}"))?;
    writeln!(text, "   goal")?;
    for (name, path, goal) in BY_SIZE {
        write!(text, "{name:36}")?;
        for pods in SIZES {
            write!(text, "{:>12}", median(&format!("{path}/{pods}")).map_or_else(|| "–".to_owned(), time))?;
        }
        writeln!(text, "   {goal}")?;
    }
    Ok(())
}

fn decoders(text: &mut String, decoded: &Decoded) -> std::fmt::Result {
    let whole = median("decode_json/k8s_openapi");
    writeln!(
        text,
        "\n{:36}{:>12}{:>14}{:>10}{:>12}   goal",
        "decode one Pod", "median", "allocations", "at most", "times faster"
    )?;
    let rows = [
        (
            "ours, protobuf",
            median("decode_protobuf/ours"),
            decoded.protobuf,
            Some(decoded.most_protobuf),
            "≥ 20 times, ≤ 2",
        ),
        ("ours, JSON", median("decode_json/ours"), decoded.json, Some(decoded.most_json), "≥ 4 times, ≤ 12"),
        ("whole Kubernetes type, JSON", whole, decoded.whole, None, ""),
    ];
    for (name, nanos, allocations, most, goal) in rows {
        let faster = nanos.zip(whole).map_or_else(String::new, |(nanos, whole)| format!("{:.1}", whole / nanos));
        let most = most.map_or_else(String::new, |most| most.to_string());
        let nanos = nanos.map_or_else(|| "–".to_owned(), time);
        writeln!(text, "{name:36}{nanos:>12}{allocations:>14.1}{most:>10}{faster:>14}   {goal}")?;
    }
    Ok(())
}

fn footprints(text: &mut String, grown: &[Grown], hostile: &Grown) -> std::fmt::Result {
    writeln!(
        text,
        "\n{:24}{:>8}{:>14}{:>14}{:>14}{:>12}{:>16}   goal",
        "bytes, counted", "nodes", "for all Pods", "bytes a Pod", "bytes a node", "peak/kept", "sync in memory",
    )?;
    for (kind, goal, Grown { footprint, sync }) in
        grown.iter().map(|grown| ("Pods", "≤ 100 a Pod", grown)).chain([("hostile Pods", "", hostile)])
    {
        let whole = footprint.pod_bytes + footprint.node_bytes;
        let peak = footprint.peak_bytes + footprint.node_bytes;
        #[expect(clippy::cast_precision_loss, reason = "bytes of a machine's memory are far below 2⁵³")]
        let peak = peak as f64 / whole as f64;
        let pods = format!("{} {kind}", footprint.pods);
        writeln!(
            text,
            "{pods:24}{:>8}{:>14}{:>14.1}{:>14.1}{peak:>12.2}{:>16}   {goal}",
            footprint.nodes,
            footprint.pod_bytes,
            footprint.bytes_a_pod(),
            footprint.bytes_a_node(),
            time(sync.as_secs_f64() * 1e9),
        )?;
    }
    Ok(())
}

/// Where criterion keeps what it has measured, wherever it is started.
pub(crate) fn measured() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("criterion")
}

/// Nanoseconds; `None`: it was not measured, now or before.
fn median(benchmark: &str) -> Option<f64> {
    let path = measured().join(benchmark).join("new/estimates.json");
    let estimates: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    estimates.pointer("/median/point_estimate")?.as_f64()
}

fn time(nanos: f64) -> String {
    match nanos {
        1e9.. => format!("{:.2} s", nanos / 1e9),
        1e6.. => format!("{:.1} ms", nanos / 1e6),
        1e3.. => format!("{:.2} µs", nanos / 1e3),
        _ => format!("{nanos:.1} ns"),
    }
}
