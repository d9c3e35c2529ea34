use super::*;

const YAML: &str = r#"
time: 2026-07-26 10:00:00.090873082 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    nodeCounts:
      registered:
        total: 5
        ready: 4
        notStarted: 1
        unready:
          total: 2
          resourceUnready: 0
      longUnregistered: 5
      unregistered: 6
    lastProbeTime: "2026-07-26T10:00:00.088071148Z"
  scaleDown:
    status: CandidatesPresent
    candidates: 1
nodeGroups:
- name: eks-web-2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30
  health:
    status: Healthy
    nodeCounts:
      registered:
        total: 3
        ready: 2
    cloudProviderTarget: 3
    minSize: 1
    maxSize: 10
    lastProbeTime: "2026-07-26T10:00:00.088071148Z"
  scaleUp:
    status: NoActivity
- name: mig-a
  health:
    status: Unhealthy
    cloudProviderTarget: 5
    minSize: 0
    maxSize: 5
  scaleUp:
    status: Backoff
    backoffInfo:
      errorCode: QUOTA_EXCEEDED
      errorMessage: "Instance creation failed: quota"
"#;

const TEXT_FORM: &str = "Cluster-autoscaler status at 2026-07-26 10:00:00.182 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=1 unready=0 notStarted=0 longNotStarted=0 registered=1 longUnregistered=0)
               LastProbeTime:      2026-07-26 10:00:00.18 +0000 UTC m=+43.664545435
  ScaleUp:     NoActivity (ready=1 registered=1)
  ScaleDown:   NoCandidates (candidates=0)

NodeGroups:
  Name:        eks-web-2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30
  Health:      Healthy (ready=2 unready=0 (resourceUnready=0) notStarted=0 longNotStarted=0 registered=3 longUnregistered=0 cloudProviderTarget=3 (minSize=1, maxSize=10))
               LastProbeTime:      2026-07-26 10:00:00.18 +0000 UTC m=+43.664545435
  ScaleUp:     NoActivity (ready=2 cloudProviderTarget=3)
  ScaleDown:   NoCandidates (candidates=0)

  Name:        https://x/zones/us-east1-b/instanceGroups/gke-c-p-abc12345-grp
  Health:      Healthy (ready=5 unready=0 notStarted=0 longNotStarted=0 registered=5 longUnregistered=0 cloudProviderTarget=5 (minSize=0, maxSize=5))
  ScaleUp:     Backoff (ready=5 cloudProviderTarget=5)
";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn told(text: &str) -> Told {
    match Status::parse(text) {
        Status::Read(told) => told,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_forms_tell_sizes_and_limits() {
    for text in [YAML, TEXT_FORM] {
        let told = told(text);
        assert_eq!(told.at.as_second(), at("2026-07-26T10:00:00Z").as_second());
        let [web, other] = &*told.groups else { panic!("{:?}", told.groups) };
        assert_eq!(web.name, "eks-web-2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30");
        assert_eq!((web.ready, web.target, web.min, web.max), (2, 3, 1, 10));
        assert_eq!(web.held_up, None);
        assert_eq!((other.target, other.min, other.max), (5, 0, 5));
        assert!(other.held_up.as_ref().unwrap().contains("does not grow for a while"), "{other:?}");
    }
    let why = told(YAML).groups[1].held_up.clone().unwrap();
    assert!(why.ends_with("(QUOTA_EXCEEDED: Instance creation failed: quota)"), "{why}");
    assert!(told(TEXT_FORM).groups[1].name.starts_with("https://x/zones/"));
}

#[test]
fn what_is_old_or_not_running_or_nonsense_is_not_relied_on() {
    let now = at("2026-07-26T10:04:00Z");
    assert!(Status::parse(YAML).told(now).is_ok());
    let old = Status::parse(YAML).told(at("2026-07-26T10:12:00Z")).unwrap_err();
    assert_eq!(old, "was last written 11m ago, while it is written every 10s");
    let early = Status::parse(YAML).told(at("2026-07-26T09:54:00Z")).unwrap_err();
    assert!(early.starts_with("is dated 2026-07-26T10:00:00"), "{early}");
    let initializing = YAML.replace("autoscalerStatus: Running", "autoscalerStatus: Initializing");
    assert!(Status::parse(&initializing).told(now).unwrap_err().contains("not running"));
    for nonsense in
        ["", "[", "nodeGroups: 7", "autoscalerStatus: Running\nnodeGroups: []", "Cluster-autoscaler status at noon:"]
    {
        let error = Status::parse(nonsense).told(now).unwrap_err();
        assert!(error.starts_with("cannot be read: "), "{nonsense:?}: {error}");
    }
    assert_eq!(Status::Absent.told(now).unwrap_err(), "is not there");
    assert!(Status::Forbidden("no".to_owned()).told(now).unwrap_err().ends_with("no"));
}

#[test]
fn a_status_that_is_meant_to_do_harm_is_refused_in_bounded_time() {
    let lols = (1..9).map(|level| {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("a{level}: &a{level} [{before}]\n")
    });
    let bomb = format!("a0: &a0 [lol]\n{}nodeGroups: *a8\n", lols.collect::<String>());
    for harm in
        [bomb, "[".repeat(200_000), "a: ".repeat(100_000), "\u{0}".repeat(1000), format!("- {}", "é".repeat(500_000))]
    {
        assert!(matches!(Status::parse(&harm), Status::Unreadable(_)), "{}", &harm[..20]);
    }
}

#[test]
fn json_is_yaml_and_a_status_without_groups_is_read() {
    let told = told(r#"{"time":"2026-07-26 10:00:00 +0200 CEST","autoscalerStatus":"Running","nodeGroups":null}"#);
    assert_eq!((told.at, told.groups.len()), (at("2026-07-26T08:00:00Z"), 0));
}
