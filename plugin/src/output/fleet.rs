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
            node.pods.to_string(),
            node.movable_pods.to_string(),
            plan::amounts(&node.movable),
            node.blockers.to_string(),
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

/// As kubectl get nodes.
fn status(node: &NodeSummary) -> String {
    let ready = if node.ready { "Ready" } else { "NotReady" };
    if node.schedulable { ready.to_owned() } else { format!("{ready},SchedulingDisabled") }
}
