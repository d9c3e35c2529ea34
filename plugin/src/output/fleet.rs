//! The fleet as a table.

use jiff::Timestamp;
use rotate_shared::NodeSummary;

use super::table::Table;
use super::{age, plan, rotation};

/// One line a node.
pub(crate) fn table(nodes: &[NodeSummary], now: Timestamp, wide: bool, headers: bool) -> String {
    let mut columns = vec!["NAME", "STATUS", "AGE", "PODS", "TO-MOVE", "MOVABLE", "BLOCKERS", "PROVIDER", "ROTATION"];
    if wide {
        columns.push("ALLOCATABLE");
    }
    let mut table = Table::new(&columns);
    for node in nodes {
        let mut row = vec![
            node.name.clone(),
            status(node),
            age::since(node.created_at, now),
            count(node.pods),
            count(node.movable_pods),
            node.movable.as_ref().map_or_else(|| UNKNOWN.to_owned(), plan::amounts),
            count(node.blockers),
            rotation::provider(node.provider).to_owned(),
            node.rotation.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        if wide {
            row.push(plan::amounts(&node.allocatable));
        }
        table.row(row);
    }
    table.render(headers, "")
}

/// What stands for a figure that the agent does not have; `-` is for what there is none of.
const UNKNOWN: &str = "?";

fn count(count: Option<u32>) -> String {
    count.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string())
}

/// As kubectl get nodes.
fn status(node: &NodeSummary) -> String {
    let ready = if node.ready { "Ready" } else { "NotReady" };
    if node.schedulable { ready.to_owned() } else { format!("{ready},SchedulingDisabled") }
}
