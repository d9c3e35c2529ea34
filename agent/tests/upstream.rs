//! Quantities and effective requests against Kubernetes' own code.
//!
//! `agent/tests/upstream/build` makes a small Go program that answers line by line (its protocol is at the top of its
//! `main.go`). Where it is not built, both tests are reported as ignored.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rotate_agent::cache::{Resources, decode};
use rotate_shared::Quantity;
use serde_json::{Value, json};

const CASES: u32 = 3000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("a_quantity_is_read_and_written_as_upstream_does", quantities),
        trial("effective_requests_of_a_pod_are_upstreams", requests),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &str, test: fn(&Path) -> Result<(), String>) -> Trial {
    match binary() {
        Some(binary) => Trial::test(name, move || test(&binary).map_err(Failed::from)),
        None => Trial::test(name, || Ok(())).with_kind("needs agent/tests/upstream/build").with_ignored_flag(true),
    }
}

/// The program, if it is built.
fn binary() -> Option<PathBuf> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/build");
    let answer = Command::new(build).arg("--print-dir").stderr(Stdio::null()).output().ok()?;
    let directory = String::from_utf8(answer.stdout).ok()?;
    answer.status.success().then(|| Path::new(directory.trim()).join("upstream"))
}

// === the program ===

struct Upstream {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Upstream {
    fn start(binary: &Path) -> Self {
        let mut process =
            Command::new(binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("upstream starts");
        let questions = process.stdin.take().expect("stdin is piped");
        let answers = BufReader::new(process.stdout.take().expect("stdout is piped"));
        Self { process, questions, answers }
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").expect("upstream reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("upstream answers");
        serde_json::from_str(&line).expect("upstream answers in JSON")
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a property, with the same cases each time.
fn hold<S: Strategy>(
    strategy: &S,
    mut property: impl FnMut(S::Value) -> Result<(), TestCaseError>,
) -> Result<(), String>
where
    S::Value: std::fmt::Debug,
{
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    // The runner wants a shared closure, and the program answers one question at a time.
    let property = std::cell::RefCell::new(&mut property);
    let mut runner = TestRunner::new_with_rng(config, rng);
    runner.run(strategy, |value| (property.borrow_mut())(value)).map_err(|failure| failure.to_string())
}

// === quantities ===

fn quantity_text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => r"[+-]?[0-9]{1,12}(\.[0-9]{0,12})?(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)",
        3 => r"[+-]?[0-9]{0,5}(\.[0-9]{0,5})?[eE][+-]?[0-9]{1,2}",
        1 => r"[0-9]{16,22}(|k|Ki|m|e3)",
        1 => r"0{1,3}[0-9]{1,3}(\.[0-9]{1,3}0{1,3})?(|m|Ki)",
        2 => r"[-+.0-9eEinumkKMGTP ]{0,8}",
        1 => any::<String>(),
    ]
}

fn quantities(binary: &Path) -> Result<(), String> {
    let mut upstream = Upstream::start(binary);
    hold(&quantity_text(), |text| {
        let answer = upstream.ask(&json!({ "quantity": text }));
        let ours = text.parse::<Quantity>();
        let beyond = answer["value"].is_null();
        match ours {
            Err(error) => prop_assert!(beyond, "we refuse {:?} ({}), upstream says {}", text, error, answer),
            Ok(ours) => {
                prop_assert!(answer.get("error").is_none(), "we read {:?} as {}, upstream refuses", text, ours);
                prop_assert!(!beyond, "we read {:?} as {}, upstream {}", text, ours, answer);
                prop_assert_eq!(&json!(ours.to_string()), &answer["canonical"], "{:?}", text);
                // Upstream's rounding wraps around for negative amounts with more than 63 bits of nano units (`scaledValue`
                // compares with the largest number only). No request is negative.
                if ours >= Quantity::ZERO {
                    prop_assert_eq!(&json!(ours.value()), &answer["value"], "{:?}", text);
                    prop_assert_eq!(&json!(ours.milli()), &answer["milli"], "{:?}", text);
                }
            }
        }
        Ok(())
    })
}

// === requests ===

const RESOURCES: [&str; 5] = ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"];

fn amount() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => r"[1-9][0-9]{0,3}m",
        4 => r"[0-9]{1,2}(\.[0-9]{1,3})?",
        4 => r"[1-9][0-9]{0,3}(Ki|Mi|Gi)",
        1 => r"[0-9]{1,2}\.[0-9]{1,4}(Ki|Mi|Gi|k|M)",
        1 => r"[1-9][0-9]{0,3}(n|u)",
        1 => r"[1-9]e[0-6]",
    ]
}

fn amounts() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(&RESOURCES[..]), amount(), 0..4)
        .prop_map(|amounts| amounts.into_iter().map(|(name, amount)| (name.to_owned(), json!(amount))).collect())
}

/// What may be left out.
fn maybe(strategy: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::option::weighted(0.5, strategy).prop_map(|value| value.unwrap_or(Value::Null))
}

/// An object without its nulls: as it would be sent.
fn object(fields: &[(&str, &Value)]) -> Value {
    let present = fields.iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| ((*name).to_owned(), (*value).clone())).collect()
}

fn resources() -> impl Strategy<Value = Value> {
    maybe(amounts()).prop_map(|requests| object(&[("requests", &requests)]))
}

/// A container and its status, if it has one.
fn container() -> impl Strategy<Value = (Value, Value)> {
    let status =
        maybe((maybe(resources()), maybe(amounts())).prop_map(|(resources, allocated)| {
            object(&[("resources", &resources), ("allocatedResources", &allocated)])
        }));
    let restart = prop::option::of(prop::sample::select(&["Always", "Always", "OnFailure"][..]));
    (maybe(resources()), restart, status).prop_map(|(resources, restart, status)| {
        (object(&[("resources", &resources), ("restartPolicy", &json!(restart))]), status)
    })
}

/// Names containers `prefix-0`, …; their statuses in reverse order, so that only the names tell whose they are.
fn named(prefix: &str, containers: Vec<(Value, Value)>) -> (Value, Value) {
    let with_name = |(place, mut value): (usize, Value)| {
        value["name"] = json!(format!("{prefix}-{place}"));
        value
    };
    let (specs, statuses): (Vec<_>, Vec<_>) = containers.into_iter().unzip();
    let specs = specs.into_iter().enumerate().map(with_name).collect();
    let statuses =
        statuses.into_iter().enumerate().filter(|(_, status)| !status.is_null()).map(with_name).rev().collect();
    (Value::Array(specs), Value::Array(statuses))
}

/// At most one of each type: the API server keeps them apart by it.
fn conditions() -> impl Strategy<Value = Value> {
    let pending = prop::option::of(prop::sample::select(&["Infeasible", "Deferred"][..]));
    let condition = |kind: &str, reason: &str| json!({ "type": kind, "status": "True", "reason": reason });
    pending.prop_map(move |reason| {
        let pending = reason.map(|reason| condition("PodResizePending", reason));
        std::iter::once(condition("Ready", "Infeasible")).chain(pending).collect()
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 1..4);
    let init_containers = prop::collection::vec(container(), 0..4);
    let pod_level = (maybe(resources()), maybe(resources()), maybe(amounts()));
    (containers, init_containers, maybe(amounts()), pod_level, conditions()).prop_map(
        |(containers, init_containers, overhead, (spec_level, status_level, allocated), conditions)| {
            let (containers, container_statuses) = named("app", containers);
            let (init_containers, init_container_statuses) = named("init", init_containers);
            json!({
                "metadata": {
                    "namespace": "shop", "name": "web", "uid": "web", "creationTimestamp": "2026-01-05T00:00:00Z",
                },
                "spec": object(&[
                    ("containers", &containers),
                    ("initContainers", &init_containers),
                    ("overhead", &overhead),
                    ("resources", &spec_level),
                ]),
                "status": object(&[
                    ("containerStatuses", &container_statuses),
                    ("initContainerStatuses", &init_container_statuses),
                    ("resources", &status_level),
                    ("allocatedResources", &allocated),
                    ("conditions", &conditions),
                ]),
            })
        },
    )
}

/// In the scheduler's units, without zeros.
fn units(resources: &Resources) -> BTreeMap<String, i64> {
    let fixed = [
        ("cpu", resources.milli_cpu),
        ("memory", resources.memory),
        ("ephemeral-storage", resources.ephemeral_storage),
    ];
    let other = resources.other.iter().map(|(name, amount)| (&**name, *amount));
    let all = fixed.into_iter().chain(other).filter(|(_, amount)| *amount != 0);
    all.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

fn requests(binary: &Path) -> Result<(), String> {
    let mut upstream = Upstream::start(binary);
    hold(&pod(), |pod| {
        let answer = upstream.ask(&json!({ "pod": pod }));
        let Some(theirs) = answer["units"].as_object() else {
            return Err(TestCaseError::fail(format!("upstream refuses the Pod: {answer}")));
        };
        let theirs: BTreeMap<_, _> = theirs
            .iter()
            .filter_map(|(name, amount)| Some((name.clone(), amount.as_i64()?)))
            .filter(|(_, amount)| *amount != 0)
            .collect();
        let text = pod.to_string();
        let ours = decode::pod(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(units(&ours.shape.requests), theirs);
        Ok(())
    })
}
