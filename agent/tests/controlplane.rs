//! Tests against a real control plane: what the harness promises, and what the agent does there.
//!
//! One control plane serves all of them; each test has a namespace of its own and nodes that only its Pods select. Where
//! the binaries are missing, every test is reported as ignored.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Result, anyhow};
use libtest_mimic::{Arguments, Failed, Trial};

#[path = "predicate/checks.rs"]
mod checks;
#[path = "controlplane/encodings.rs"]
mod encodings;
#[path = "controlplane/feed.rs"]
mod feed;
#[path = "controlplane/harness.rs"]
mod harness;
#[path = "controlplane/installed.rs"]
mod installed;
#[expect(dead_code, reason = "the scenarios use all of it")]
#[path = "controlplane/karpenter.rs"]
mod karpenter;
#[path = "controlplane/policies.rs"]
mod policies;
#[path = "controlplane/predicate.rs"]
mod predicate;
#[path = "controlplane/refusals.rs"]
mod refusals;
#[path = "controlplane/rights.rs"]
mod rights;
#[path = "controlplane/selftest.rs"]
mod selftest;
#[path = "controlplane/webhook.rs"]
mod webhook;

use harness::ControlPlane;

/// Started by the first test that runs, so that `--list` and filters stay cheap.
type Shared = Arc<OnceLock<Result<ControlPlane, String>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let shared = Shared::default();
    let trials = vec![
        trial(&shared, "deployment_runs_and_an_evicted_pod_is_replaced", async |plane| {
            selftest::a_deployment_runs_and_an_evicted_pod_is_replaced(plane).await
        }),
        trial(&shared, "disruption_budget_refuses", async |plane| selftest::a_disruption_budget_refuses(plane).await),
        trial(&shared, "late_node_receives_pods_only_once_it_is_ready", async |plane| {
            selftest::a_late_node_receives_pods_only_once_it_is_ready(plane).await
        }),
        trial(&shared, "pods_take_their_time_to_start_stop_and_complete", async |plane| {
            selftest::pods_take_their_time(plane).await
        }),
        trial(&shared, "daemon_and_stateful_sets_and_bare_pods_run", async |plane| {
            selftest::every_kind_of_workload_runs(plane).await
        }),
        trial(&shared, "pod_taken_for_not_ready_recovers", async |plane| {
            selftest::a_pod_that_the_controller_manager_takes_for_not_ready_recovers(plane).await
        }),
        trial(&shared, "stopped_pod_is_deleted_once", async |plane| {
            selftest::a_stopped_pod_is_deleted_once(plane).await
        }),
        trial(&shared, "lost_node_takes_its_pods_readiness", async |plane| {
            selftest::a_lost_node_takes_its_pods_readiness(plane).await
        }),
        trial(&shared, "karpenter_brings_a_node_for_a_pending_pod_and_takes_it_away", async |_| {
            selftest::karpenter_brings_a_node_and_takes_it_away().await
        }),
        trial(&shared, "api_server_comes_back_with_everything", async |_| {
            selftest::the_api_server_comes_back_with_everything().await
        }),
        trial(&shared, "audit_log_tells_who_asked_for_what", async |plane| {
            selftest::the_audit_log_tells_who_asked_for_what(plane).await
        }),
        trial(&shared, "both_encodings_are_read_to_the_same_values", async |plane| {
            encodings::both_encodings_are_read_to_the_same_values(plane).await
        }),
        trial(&shared, "every_way_of_reading_gives_the_same_cache", async |plane| {
            feed::every_way_of_reading_gives_the_same_cache(plane).await
        }),
        trial(&shared, "feed_survives_whatever_happens_to_its_connections", async |_| {
            feed::a_feed_survives_whatever_happens_to_its_connections().await
        }),
        trial(&shared, "rights_of_the_manifests_suffice_and_none_is_idle", async |_| {
            installed::the_rights_of_the_manifests_suffice_and_none_is_idle().await
        }),
        trial(&shared, "scoped_agent_reads_only_the_pods_it_works_on", async |_| {
            installed::a_scoped_agent_reads_only_the_pods_it_works_on().await
        }),
        trial(&shared, "what_admission_makes_of_placeholders_is_told_beforehand", async |_| {
            refusals::what_admission_makes_of_placeholders_is_told_beforehand().await
        }),
        trial(&shared, "predicate_and_translation_hold_on_the_real_scheduler", async |_| {
            predicate::predicate_and_translation_hold().await
        }),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Stops the control plane here, where everything is removed in order.
    drop(shared);
    conclusion.exit_code()
}

/// One test, on a runtime of its own; ignored, with the reason in its kind, where nothing is built.
fn trial(shared: &Shared, name: &str, test: impl AsyncFnOnce(&ControlPlane) -> Result<()> + Send + 'static) -> Trial {
    let shared = Arc::clone(shared);
    let run = move || -> Result<(), Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let started =
            shared.get_or_init(|| runtime.block_on(ControlPlane::start()).map_err(|error| format!("{error:#}")));
        let plane = started.as_ref().map_err(|error| anyhow!("{error}")).map_err(failed)?;
        runtime.block_on(test(plane)).map_err(failed)
    };
    match harness::binaries() {
        Some(_) => Trial::test(name, run),
        None => Trial::test(name, run).with_kind("needs agent/tests/controlplane/build").with_ignored_flag(true),
    }
}

fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}
