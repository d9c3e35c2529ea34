//! Which nodes a request means, and what it asks for, checked before anything is done.

use std::collections::HashSet;
use std::sync::Arc;

use rotate_shared::{Code, Options, OptionsRequest, Then};

use super::problem::Refusal;
use crate::cache::selector::Selector;
use crate::cache::{Node, State};

/// Free text is kept in the record: a few lines, not a document.
const TEXT: usize = 1024;

/// The nodes meant, each once: in the order of their names as given, or by name for a selector; so many at most.
pub(super) fn nodes(
    state: &State,
    names: &[String],
    selector: Option<&str>,
    most: usize,
) -> Result<Vec<Arc<Node>>, Refusal> {
    let nodes = meant(state, names, selector)?;
    if nodes.len() <= most {
        return Ok(nodes);
    }
    let count = nodes.len();
    let detail =
        format!("one request is for at most {most} nodes, and this one means {count}: ask for some of them at a time");
    Err(Refusal::new(Code::BadRequest, detail))
}

/// Whether nodes are named or selected at all, and not both.
pub(super) fn form(names: &[String], selector: Option<&str>) -> Result<(), Refusal> {
    let bad = |detail: &str| Err(Refusal::new(Code::BadRequest, detail));
    match (names, selector) {
        ([], None) => bad("name nodes, or give a selector"),
        ([_, ..], Some(_)) => bad("nodes are named or selected, not both"),
        ([], Some(text)) if text.trim().is_empty() => bad("the selector is empty: it would select every node"),
        ([], Some(text)) => read(text).map(drop),
        ([_, ..], None) => Ok(()),
    }
}

fn read(selector: &str) -> Result<Selector, Refusal> {
    Selector::parse(selector)
        .map_err(|error| Refusal::new(Code::BadRequest, format!("failed to read the selector: {error}")))
}

fn meant(state: &State, names: &[String], selector: Option<&str>) -> Result<Vec<Arc<Node>>, Refusal> {
    form(names, selector)?;
    match selector {
        None => {
            let mut seen = HashSet::new();
            let distinct = names.iter().filter(|name| seen.insert(name.as_str()));
            distinct.map(|name| state.node(name).cloned().ok_or_else(|| Refusal::not_found("nodes", name))).collect()
        }
        Some(text) => {
            let selected = select(state, Some(text))?;
            if selected.is_empty() {
                return Err(Refusal::new(Code::NotFound, format!("no node matches selector {text:?}")));
            }
            Ok(selected)
        }
    }
}

/// The nodes selected, by name; all without a selector.
pub(super) fn select(state: &State, selector: Option<&str>) -> Result<Vec<Arc<Node>>, Refusal> {
    let selector = read(selector.unwrap_or_default())?;
    let mut selected: Vec<_> = state.nodes().filter(|node| selector.matches(&node.labels)).cloned().collect();
    selected.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(selected)
}

/// What is meant by the options asked for.
pub(super) fn options(asked: OptionsRequest) -> Result<Options, Refusal> {
    let options = asked.resolve();
    let rules = [
        (options.max_concurrent > 0, "maxConcurrent must be at least 1"),
        (options.max_failures > 0, "maxFailures must be at least 1"),
        (options.grace_period_seconds >= -1, "gracePeriodSeconds must be -1 or more"),
        (
            options.pod_selector.as_ref().is_none_or(|selector| !selector.trim().is_empty()),
            "podSelector must not be empty: it would select every Pod, as none does",
        ),
        (
            options.pod_selector.is_none() || options.then != Some(Then::Delete),
            "podSelector leaves Pods on the node: then must be keep or uncordon, not delete",
        ),
        (
            options.pod_selector.as_ref().is_none_or(|selector| selector.len() <= TEXT),
            "podSelector must be at most 1024 bytes",
        ),
        (options.reason.as_ref().is_none_or(|reason| reason.len() <= TEXT), "reason must be at most 1024 bytes"),
    ];
    if let Some((_, rule)) = rules.iter().find(|(holds, _)| !holds) {
        return Err(Refusal::new(Code::BadRequest, *rule));
    }
    if let Some(selector) = &options.pod_selector {
        let read = Selector::parse(selector);
        read.map_err(|error| Refusal::new(Code::BadRequest, format!("failed to read podSelector: {error}")))?;
    }
    Ok(options)
}
