//! Names that tests, RBAC rules and other versions of us meet at.

/// Namespace of the agent: records, Lease.
pub const NAMESPACE: &str = "kubectl-rotate";
/// Namespace of the placeholders; holds nothing else.
pub const ROOM_NAMESPACE: &str = "kubectl-rotate-room";
/// Deployment, service account and Lease of the agent.
pub const AGENT: &str = "rotate-agent";
/// Service account that people begin and end rotations as.
pub const OPERATOR: &str = "rotate-operator";
/// Role that lets a person act as [`OPERATOR`].
pub const OPERATE: &str = "rotate-operate";
/// Service account that people look at rotations as.
pub const VIEWER: &str = "rotate-viewer";
/// Role that lets a person act as [`VIEWER`].
pub const VIEW: &str = "rotate-view";
/// Secret with the agent's certificate, where it listens with TLS.
pub const TLS_SECRET: &str = "rotate-agent-tls";
/// `PriorityClass` of the placeholders.
pub const PRIORITY_CLASS: &str = "rotate-placeholder";
/// Value of [`PRIORITY_CLASS`]. cluster-autoscaler ignores Pods below its `--expendable-pods-priority-cutoff`,
/// −10 by default: at −11 a placeholder never triggers a scale-up (measured on 1.36.1).
pub const PLACEHOLDER_PRIORITY: i32 = -10;
/// Label and annotation: the id of the rotation an object belongs to.
pub const ROTATION: &str = "kubectl-rotate.dev/rotation";
/// Label on placeholders: the class of Pods it holds room for.
pub const CLASS: &str = "kubectl-rotate.dev/class";
/// Label on placeholders: the UID of the Pod it holds room for.
pub const POD_UID: &str = "kubectl-rotate.dev/pod-uid";
/// Annotation on nodes: the rotation whose cordon this is. Absent: the cordon is a person's.
pub const CORDONED_BY: &str = "kubectl-rotate.dev/cordoned-by";
/// Annotation on nodes: the rotation that set the autoscaler annotations, and which of them, with what they said before (`id:key,key=before`).
pub const PROTECTED_BY: &str = "kubectl-rotate.dev/protected-by";
/// Karpenter's annotation on nodes and Pods that keeps it from disrupting them.
pub const KARPENTER_DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// cluster-autoscaler's annotation on nodes that keeps it from scaling them down.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// cluster-autoscaler's annotation on Pods.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Annotation that Cluster API puts on the nodes of its Machines.
pub const CLUSTER_API_MACHINE: &str = "cluster.x-k8s.io/machine";
/// Label of a node's host name. Pins compare with this label's value, not with the node's name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Label of a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Audience of the tokens that the agent accepts.
pub const AUDIENCE: &str = "kubectl-rotate.dev";
/// API group of the verbs checked by `SubjectAccessReview`.
pub const AUTHORIZATION_GROUP: &str = "kubectl-rotate.dev";
/// Where the agent's control port listens unless told otherwise.
pub const CONTROL_ADDR: &str = "127.0.0.1:8470";
/// The port of [`CONTROL_ADDR`], which a port-forward leads to.
pub const CONTROL_PORT: u16 = 8470;
/// Header of each answer of the agent: its version, so that a caller that does not fit finds out without asking for it.
pub const VERSION_HEADER: &str = "rotate-version";
/// Labels of the agent's Pods, as a selector.
pub const AGENT_SELECTOR: &str = "app.kubernetes.io/name=kubectl-rotate,app.kubernetes.io/component=agent";
/// Where the agent's ops port listens unless told otherwise: every address, of IPv4 as well.
pub const OPS_ADDR: &str = "[::]:8471";
/// Where the agent listens with TLS unless told otherwise, once it has a certificate.
pub const TLS_ADDR: &str = "[::]:8443";
/// ConfigMap of what nodes of autoscaled groups were like.
pub const GROUPS: &str = "rotate-groups";
/// Prefix of the names of records.
pub const RECORD_PREFIX: &str = "rotation-";

/// The id of the `attempt`-th rotation of the node with this UID: ten hexadecimal digits, the same for every agent, so
/// that creating the same record twice is a conflict.
#[must_use]
pub fn rotation_id(node_uid: &str, attempt: u32) -> String {
    format!("{:010x}", mixed(fnv1a(&format!("{node_uid}/{attempt}"))) >> 24)
}

/// The name of the placeholder of a rotation for one Pod. Always a valid name of at most 63 characters, whatever the
/// Pod is called.
#[must_use]
pub fn placeholder_name(rotation: &str, pod_uid: &str, attempt: u32) -> String {
    format!("room-{rotation}-{:010x}-{attempt}", fnv1a(pod_uid) >> 24)
}

/// 64-bit FNV-1a: stable over versions and platforms, which the standard library's hasher does not promise.
#[must_use]
pub fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of MurmurHash3 (`fmix64`): each bit of what goes in changes about half of those that come out. FNV-1a alone
/// hardly mixes its last byte, and ids of one node's rotations would differ by one digit.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_id_is_ten_hexadecimal_digits_and_the_same_everywhere() {
        // Records of other versions are found by it: this value may never change.
        assert_eq!(rotation_id("f3b1c1de-0c0b-4f0e-9c55-6b1b1f2f7a10", 0), "dcfdf3984a");
        let ids: BTreeSet<_> = (0..1000).map(|attempt| rotation_id("uid", attempt)).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 10 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }

    #[test]
    fn ids_of_one_nodes_rotations_do_not_look_alike() {
        let ids: Vec<_> = (0..8).map(|attempt| rotation_id("f3b1c1de-0c0b-4f0e-9c55-6b1b1f2f7a10", attempt)).collect();
        for (place, one) in ids.iter().enumerate() {
            for other in &ids[place + 1..] {
                let same = one.bytes().zip(other.bytes()).filter(|(one, other)| one == other).count();
                assert!(same <= 4 && one[..3] != other[..3], "{one} {other}");
            }
        }
    }

    #[test]
    fn a_placeholders_name_is_valid_and_unique_whatever_the_pod_is_called() {
        let uids: Vec<String> = (0..1000).map(|number| format!("{}{number}", "x".repeat(250))).collect();
        let names: BTreeSet<_> = uids.iter().map(|uid| placeholder_name("0123456789", uid, u32::MAX)).collect();
        assert_eq!(names.len(), 1000);
        for name in names {
            assert!(name.len() <= 63, "{name}");
            assert!(name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')), "{name}");
        }
        assert_ne!(placeholder_name("0123456789", "uid", 0), placeholder_name("0123456789", "uid", 1));
    }

    #[test]
    fn the_control_port_is_the_one_that_the_agent_listens_on() {
        assert!(CONTROL_ADDR.ends_with(&format!(":{CONTROL_PORT}")));
    }

    #[test]
    fn every_label_key_is_valid() {
        for key in [ROTATION, CLASS, POD_UID, CORDONED_BY, PROTECTED_BY] {
            let (prefix, name) = key.split_once('/').unwrap();
            assert!(prefix.len() <= 253 && name.len() <= 63, "{key}");
        }
    }
}
