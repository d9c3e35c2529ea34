//! `install` and `uninstall`, as typed.

use clap::{Args, ValueEnum};

use super::switch::{Switch, SwitchArg as _};
use super::{GoDuration, duration};

/// `install`.
#[derive(Args, Clone, Debug)]
pub(crate) struct InstallArgs {
    /// Apply it, and wait until the agents are ready; without it the manifests are printed
    #[arg(long, switch(Switch::Off))]
    pub(crate) apply: bool,
    /// Add a component; may be given several times: tls, network-policy, ha
    #[arg(long, value_enum, value_name = "tls|network-policy|ha", value_delimiter = ',', hide_possible_values = true)]
    pub(crate) with: Vec<Component>,
    /// The agent's image, as it is called in a registry of your own [default: ghcr.io/kubectl-rotate/rotate-agent of this version]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub(crate) image: Option<String>,
    /// How many agents; one of them leads [default: 2, with ha 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) replicas: Option<u32>,
    /// With --apply: take over fields that somebody else has written
    #[arg(long, switch(Switch::Off))]
    pub(crate) force_conflicts: bool,
    /// With --apply: install this version over a newer one
    #[arg(long, switch(Switch::Off))]
    pub(crate) allow_downgrade: bool,
    /// With --apply: server, ask the API server about every object and change nothing
    #[arg(long, value_enum, default_value = "none", value_name = "none|server", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "server")]
    pub(crate) dry_run: ServerDryRun,
    /// With --apply: wait until the agents are ready
    #[arg(long, switch(Switch::On))]
    pub(crate) wait: bool,
    /// How long to wait for them, 0 for ever
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration())]
    pub(crate) timeout: GoDuration,
    /// One of: json, name, yaml
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<String>,
}

/// `uninstall`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UninstallArgs {
    /// Do not ask
    #[arg(long, short = 'y', switch(Switch::Off))]
    pub(crate) yes: bool,
    /// client: show what would be deleted; server: ask the API server about it too
    #[arg(long, value_enum, default_value = "none", value_name = "none|client|server", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How long to wait until everything is gone, 0 for ever
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration())]
    pub(crate) timeout: GoDuration,
    /// One of: name
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<String>,
}

/// `--with`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Component {
    /// The API over TLS, for programs in the cluster.
    Tls,
    /// Network policies.
    NetworkPolicy,
    /// Three agents on nodes of their own.
    Ha,
}

/// `--dry-run` of what only the API server can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerDryRun {
    /// Really do it.
    None,
    /// Ask the API server.
    Server,
}

/// `--dry-run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Really do it.
    None,
    /// Only show.
    Client,
    /// Ask the API server.
    Server,
}

/// The name of an image as kubelets read it: no API server looks at it, and Pods with another never start. It goes into YAML
/// and into an admission policy's expression.
fn image(typed: &str) -> Result<String, String> {
    let (name, digest) = typed.split_once('@').map_or((typed, None), |(name, digest)| (name, Some(digest)));
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    let (host, path) = match path.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (Some(host), rest),
        _ => (None, path),
    };
    let word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let host_fine = |host: &str| {
        let (name, port) = host.split_once(':').map_or((host, "0"), |(name, port)| (name, port));
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
            && port.parse::<u16>().is_ok()
    };
    let part_fine = |part: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(part.chars().next())
            && edge(part.chars().last())
            && part.chars().all(|c| word(c) && !c.is_ascii_uppercase())
    };
    let tag_fine = |tag: &str| (1..=128).contains(&tag.len()) && tag.chars().all(word) && !tag.starts_with(['.', '-']);
    let digest_fine = |digest: &str| {
        let hex = |hex: &str| hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit());
        digest.split_once(':').is_some_and(|(kind, rest)| kind.chars().all(|c| c.is_ascii_alphanumeric()) && hex(rest))
    };
    let fine = typed.len() <= 512
        && host.is_none_or(host_fine)
        && path.split('/').all(part_fine)
        && tag.is_none_or(tag_fine)
        && digest.is_none_or(digest_fine);
    if fine { Ok(typed.to_owned()) } else { Err("it is not the name of an image".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_as_kubelets_read_it() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        for name in [
            "rotate-agent",
            "rotate-agent:0.1.0",
            "ghcr.io/kubectl-rotate/rotate-agent:0.1.0",
            "localhost:5000/a/b_c.d:Latest",
            "Registry.Example.com:443/a:v1_x-y.z",
            &digest,
        ] {
            assert_eq!(image(name).as_deref(), Ok(name));
        }
        let short = "a@sha256:00";
        for name in [
            "",
            ":1",
            "a:",
            "a:b:c",
            "http://a/b",
            "A/b:1",
            "/a",
            "a/",
            "a//b",
            "a b",
            "a';x",
            "-a",
            "a@",
            short,
            "a:-x",
            "host.example:x/a",
            "a\nb",
            "é",
        ] {
            assert!(image(name).is_err(), "{name:?}");
        }
    }
}
