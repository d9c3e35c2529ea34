//! Options of a rotation: as asked (every field optional, unknown ones refused) and as meant.

use serde::{Deserialize, Serialize};

/// How room is reserved before and while Pods are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SurgeMode {
    /// One placeholder for each Pod to move.
    #[default]
    PerPod,
    /// One placeholder of the sum of all: the fewest writes, and all Pods leave at once.
    Single,
    /// No room is reserved: an ordinary drain.
    None,
}

/// What becomes of the node once it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// It is taken away by its provider; where nothing is known that could, only the Node object is deleted and the
    /// machine runs on.
    Delete,
    /// The node stays, cordoned.
    Keep,
    /// The node stays, is waited for until it was rebooted, and is uncordoned.
    Uncordon,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $default:expr,)*) => {
        /// What a rotation was asked to do, every default filled in. Unknown fields are ignored: a newer agent may
        /// have written the record.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "camelCase", default)]
        pub struct Options {
            $($(#[$doc])* pub $name: $ty,)*
            /// What becomes of the empty node. Default by provider: `keep` where nothing else removes it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub then: Option<Then>,
            /// Only Pods with these labels are looked at, as with `kubectl drain`; the others stay, and so the node does
            /// too. Default all.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub pod_selector: Option<String>,
            /// Free text of the person who asked.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub reason: Option<String>,
        }

        impl Default for Options {
            fn default() -> Self {
                Self { $($name: $default,)* then: None, pod_selector: None, reason: None }
            }
        }

        /// Options as asked: what is left out takes the default of [`Options`]; a field that the agent does not know is
        /// refused by name, so that an older agent never ignores a wish.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct OptionsRequest {
            $($(#[$doc])*
            #[serde(default, skip_serializing_if = "Option::is_none")] pub $name: Option<$ty>,)*
            /// What becomes of the empty node. Default by provider: `keep` where nothing else removes it.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub then: Option<Then>,
            /// Only Pods with these labels are looked at, as with `kubectl drain`; the others stay, and so the node does
            /// too. Default all.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(format = "label-selector", min_length = 1, max_length = 1024))]
            pub pod_selector: Option<String>,
            /// Free text of the person who asked, at most 1024 bytes.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(max_length = 1024))]
            pub reason: Option<String>,
        }

        impl OptionsRequest {
            /// What is meant by what was asked.
            #[must_use]
            pub fn resolve(self) -> Options {
                let default = Options::default();
                Options {
                    $($name: self.$name.unwrap_or(default.$name),)*
                    then: self.then,
                    pod_selector: self.pod_selector,
                    reason: self.reason,
                }
            }
        }
    };
}

options! {
    /// How room is reserved. Default `per-pod`.
    surge: SurgeMode = SurgeMode::PerPod,
    /// Seconds until a surge that does not come is given up and rolled back. Default 900.
    surge_timeout_seconds: u64 = 900,
    /// Seconds to wait for replacements to become Ready before going on with a warning. Default 300.
    settle_timeout_seconds: u64 = 300,
    /// Evict Pods without a controller and Pods of other schedulers too. Default false.
    force: bool = false,
    /// Evict Pods with emptyDir data on disk too; the data is lost. Default false.
    delete_emptydir_data: bool = false,
    /// Leave `DaemonSet` Pods where they are instead of refusing. Default true.
    ignore_daemonsets: bool = true,
    /// Seconds a Pod gets to shut down; −1 takes the Pod's own. Default −1.
    #[cfg_attr(feature = "openapi", schema(minimum = -1))]
    grace_period_seconds: i64 = -1,
    /// Delete Pods instead of evicting them, which bypasses disruption budgets. Default false.
    disable_eviction: bool = false,
    /// Evict Pods that can run only on this node; they stay Pending. Default false.
    evict_pinned: bool = false,
    /// Evict Pods, and rotate a node, marked as not to be disrupted. Default false.
    ignore_do_not_disrupt: bool = false,
    /// Allow a control-plane node. Default false.
    allow_control_plane: bool = false,
    /// How many nodes of the batch may be in work at once. Default 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    max_concurrent: u32 = 1,
    /// How many failed nodes end the batch. Default 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    max_failures: u32 = 1,
    /// Seconds that `--then=uncordon` waits for the empty node to be rebooted; 0 does not wait. Default 900.
    reboot_timeout_seconds: u64 = 900,
    /// A Pod that should have been gone for more seconds than these is not waited for; 0 waits for all. Default 0.
    skip_wait_for_delete_timeout_seconds: u64 = 0,
}
