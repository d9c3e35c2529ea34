//! The figures as a table.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use super::process::Figures;
use super::{Reader, Run};

/// What the others are compared with.
const OURS: Reader = Reader::Ours;

pub(super) fn print(run: &Run, rows: &[(Reader, Figures)]) -> anyhow::Result<()> {
    let ours = rows.iter().find(|(reader, _)| *reader == OURS).map(|(_, figures)| figures.clone());
    let mut text = String::new();
    let (pods, churn) = (run.cluster.pods, run.cluster.churn);
    writeln!(
        text,
        "{pods} Pods, {churn} replaced a second; figures of the reading process; × compares with our cache over protobuf"
    )?;
    writeln!(
        text,
        "{:34} {:>9} {:>9} {:>7} {:>10} {:>10} {:>7} {:>8} {:>12} {:>7} {:>12}",
        "client", "ready s", "CPU s", "×", "peak MiB", "RSS MiB", "×", "peak/RSS", "heap bytes", "×", "allocations",
    )?;
    for (reader, figures) in rows {
        let against = |of: fn(&Figures) -> Option<f64>| match (ours.as_ref().and_then(of), of(figures)) {
            (Some(ours), Some(theirs)) if ours > 0.0 => format!("{:.1}", theirs / ours),
            _ => String::new(),
        };
        writeln!(
            text,
            "{:34} {:>9.2} {:>9.3} {:>7} {:>10.1} {:>10.1} {:>7} {:>8.2} {:>12} {:>7} {:>12}",
            name(*reader),
            figures.ready.as_secs_f64(),
            figures.cpu.as_secs_f64(),
            against(|figures| Some(figures.cpu.as_secs_f64())),
            mebibytes(figures.peak_rss),
            mebibytes(figures.rss),
            against(|figures| Some(mebibytes(figures.rss))),
            mebibytes(figures.peak_rss) / mebibytes(figures.rss),
            shown(figures.kept),
            against(|figures| figures.kept.map(|bytes| float(bytes.unsigned_abs()))),
            shown(figures.allocations),
        )?;
        if figures.pods != run.cluster.pods && churn == 0 {
            writeln!(text, "  it has {} Pods!", figures.pods)?;
        }
        if churn > 0 {
            let after = figures.settled_cpu.saturating_sub(figures.cpu);
            let each = after / u32::try_from((3 * churn * run.settle).max(1)).unwrap_or(u32::MAX);
            writeln!(
                text,
                "  then {:.3} s of CPU in {} s, {} an event",
                after.as_secs_f64(),
                run.settle,
                micros(each)
            )?;
        }
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn name(reader: Reader) -> &'static str {
    match reader {
        Reader::Ours => "our cache, protobuf",
        Reader::OursJson => "our cache, JSON",
        Reader::Agent => "rotate-agent (whole process)",
        Reader::Reflector => "kube reflector, typed",
        Reader::ReflectorCleared => "kube reflector, typed and cleared",
    }
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn micros(duration: Duration) -> String {
    format!("{:.1} µs", duration.as_secs_f64() * 1e6)
}

fn mebibytes(bytes: u64) -> f64 {
    float(bytes) / f64::from(1 << 20)
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a machine's memory are far below 2⁵³")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}
