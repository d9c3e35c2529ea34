//! Each connection flag means what it means in kubectl.

use std::io::Write;

use clap::Parser;
use tempfile::NamedTempFile;

use super::*;
use crate::cli::Cli;

const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: c1, cluster: {server: 'https://one.example:6443'}}
- {name: c2, cluster: {server: 'https://two.example:6443', tls-server-name: two}}
users:
- {name: u1, user: {token: t1}}
- {name: u2, user: {username: someone, password: secret}}
contexts:
- {name: one, context: {cluster: c1, user: u1}}
- {name: two, context: {cluster: c2, user: u2}}
";

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("it can be written");
    file
}

async fn configured(text: &str, line: &[&str]) -> Result<Config, Failure> {
    let file = file(text);
    let path = file.path().to_str().expect("a plain path");
    let given = if line.contains(&"--kubeconfig") { &[][..] } else { &["--kubeconfig", path] };
    let line = [&["kubectl-rotate", "fleet"], given, line].concat();
    config(&Cli::try_parse_from(line).expect("clap takes it").connection.meant()).await
}

async fn of(line: &[&str]) -> Config {
    configured(KUBECONFIG, line).await.expect("a good kubeconfig")
}

fn token(config: &Config) -> Option<String> {
    use kube::config::AuthInfo;
    let AuthInfo { token, .. } = &config.auth_info;
    serde_json::to_value(AuthInfo { token: token.clone(), ..AuthInfo::default() })
        .expect("it can be written")
        .get("token")
        .and_then(|token| token.as_str().map(str::to_owned))
}

#[tokio::test]
async fn the_current_context_is_used_without_flags() {
    let config = of(&[]).await;
    assert_eq!(config.cluster_url.to_string(), "https://one.example:6443/");
    assert!(config.auth_info.token.is_some());
}

#[tokio::test]
async fn context_cluster_and_user_choose_entries() {
    assert_eq!(of(&["--context", "two"]).await.cluster_url.host(), Some("two.example"));
    let config = of(&["--cluster", "c2"]).await;
    assert_eq!(config.cluster_url.host(), Some("two.example"));
    assert!(config.auth_info.token.is_some(), "the user is still that of context one");
    assert_eq!(of(&["--user", "u2"]).await.auth_info.username.as_deref(), Some("someone"));
}

#[tokio::test]
async fn server_and_tls_flags_override_the_cluster() {
    assert_eq!(of(&["-s", "https://three.example"]).await.cluster_url.host(), Some("three.example"));
    assert_eq!(of(&["--tls-server-name", "x"]).await.tls_server_name.as_deref(), Some("x"));
    assert!(of(&["--insecure-skip-tls-verify"]).await.accept_invalid_certs);
    assert!(!of(&["--insecure-skip-tls-verify=false"]).await.accept_invalid_certs);
}

#[tokio::test]
async fn the_certificate_authority_of_the_command_line_replaces_the_clusters() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let authority = rcgen::CertificateParams::new(["ca.example".to_owned()]).expect("a name").self_signed(&key);
    let authority = authority.expect("a certificate");
    let given = file(&authority.pem());
    let config = of(&["--certificate-authority", given.path().to_str().expect("a plain path")]).await;
    assert_eq!(config.root_cert, Some(vec![authority.der().to_vec()]));
    assert_eq!(of(&[]).await.root_cert, None);
}

#[tokio::test]
async fn a_namespace_is_accepted_and_changes_nothing() {
    assert_eq!(of(&["-n", "shop"]).await.default_namespace, of(&[]).await.default_namespace);
}

#[tokio::test]
async fn the_kubeconfig_of_the_command_line_is_read_and_no_other() {
    let other = file(&KUBECONFIG.replace("one.example", "other.example"));
    let config = configured(KUBECONFIG, &["--kubeconfig", other.path().to_str().expect("a plain path")]).await;
    assert_eq!(config.expect("a good kubeconfig").cluster_url.host(), Some("other.example"));
}

#[tokio::test]
async fn a_certificate_authority_that_is_not_there_is_named() {
    let failure = configured(KUBECONFIG, &["--certificate-authority", "/nowhere/ca.crt"]).await.err();
    assert!(failure.expect("it fails").to_string().contains("/nowhere/ca.crt"));
}

#[tokio::test]
async fn credentials_on_the_command_line_win() {
    let config = of(&["--user", "u2", "--token", "abc"]).await;
    assert_eq!(token(&config).as_deref(), Some("abc"));
    assert_eq!(config.auth_info.username, None);
    let config = of(&["--client-certificate", "c.pem", "--client-key", "k.pem"]).await;
    assert_eq!(config.auth_info.client_certificate.as_deref(), Some("c.pem"));
    assert_eq!(config.auth_info.client_key.as_deref(), Some("k.pem"));
}

#[tokio::test]
async fn impersonation_flags_reach_the_configuration() {
    let line = ["--as", "a", "--as-uid", "7", "--as-group", "g", "--as-group", "h", "--as-user-extra", "k=v"];
    let info = of(&line).await.auth_info;
    assert_eq!(info.impersonate.as_deref(), Some("a"));
    assert_eq!(info.impersonate_uid.as_deref(), Some("7"));
    assert_eq!(info.impersonate_groups, Some(vec!["g".to_owned(), "h".to_owned()]));
    assert_eq!(info.impersonate_user_extra.expect("set")["k"], ["v"]);
}

#[tokio::test]
async fn impersonating_a_group_without_a_user_is_refused() {
    let failure = configured(KUBECONFIG, &["--as-group", "g"]).await.expect_err("it fails");
    assert_eq!(failure.exit_code(), 2);
}

#[tokio::test]
async fn the_request_timeout_bounds_each_request() {
    assert_eq!(of(&["--request-timeout", "5s"]).await.read_timeout, Some(std::time::Duration::from_secs(5)));
    assert_eq!(of(&["--request-timeout", "0"]).await.read_timeout, None);
    let bare = of(&["--request-timeout=5"]).await.read_timeout;
    assert_eq!(bare, Some(std::time::Duration::from_secs(5)), "kubectl takes a number for seconds");
}

#[tokio::test]
async fn what_does_not_exist_is_named() {
    for (line, name) in [(["--context", "x"], "context"), (["--cluster", "x"], "cluster"), (["--user", "x"], "user")] {
        let failure = configured(KUBECONFIG, &line).await.expect_err("it fails");
        assert_eq!(failure.to_string(), format!("{name} \"x\" does not exist in the kubeconfig"));
        assert_eq!(failure.exit_code(), 1);
    }
}

#[tokio::test]
async fn a_broken_kubeconfig_is_one_clear_failure() {
    for text in ["{", "clusters: 5", "\u{0}"] {
        let failure = configured(text, &[]).await.expect_err("it fails");
        assert!(failure.to_string().starts_with("the kubeconfig cannot be used: "), "{failure}");
        assert_eq!(failure.exit_code(), 1);
    }
}

#[tokio::test]
async fn an_empty_kubeconfig_and_a_server_is_enough() {
    let config = configured("", &["--server", "http://127.0.0.1:1"]).await.expect("enough");
    assert_eq!(config.cluster_url.port_u16(), Some(1));
}

#[tokio::test]
async fn a_flag_with_nothing_in_it_is_one_not_given() {
    let line = ["--context", "", "--cluster", "", "--user", "", "-s", "", "--tls-server-name", "", "--token", ""];
    let more =
        ["--certificate-authority", "", "--client-certificate", "", "--client-key", "", "--as", "", "--as-group="];
    let config = of(&[&line[..], &more].concat()).await;
    assert_eq!(config.cluster_url.host(), Some("one.example"));
    assert_eq!(token(&config).as_deref(), Some("t1"), "nobody is made anonymous by an empty variable");
    assert_eq!((config.tls_server_name, config.auth_info.impersonate_groups), (None, None));
    let cli = Cli::try_parse_from(["kubectl-rotate", "fleet", "--kubeconfig", ""]).expect("clap takes it");
    assert_eq!(cli.connection.meant().kubeconfig, None);
}

#[tokio::test]
async fn checking_and_not_checking_the_server_at_once_is_refused() {
    let authority = ["--certificate-authority", "ca.pem", "--insecure-skip-tls-verify"];
    assert_eq!(configured(KUBECONFIG, &authority).await.expect_err("it is refused").exit_code(), 2);
}

#[tokio::test]
async fn an_authority_without_a_certificate_is_said_to_be_none() {
    let empty = file("not a certificate\n");
    let path = empty.path().to_str().expect("a plain path");
    let failure = configured(KUBECONFIG, &["--certificate-authority", path]).await.expect_err("it fails");
    assert!(failure.to_string().contains("holds no certificate"), "{failure}");
}

#[test]
fn a_file_in_half_a_character_of_windows_is_a_failure_and_no_panic() {
    for bytes in [&b"\xff\xfe\0"[..], b"\xfe\xff\0", b"\xff\xfe\0\xd8"] {
        let mut file = NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes).expect("it can be written");
        let failure = kubeconfig(&ConnectionFlags { kubeconfig: Some(file.path().to_owned()), ..Default::default() });
        let told = failure.expect_err("it is broken").to_string();
        assert!(told.contains("UTF-16") && told.contains(&file.path().display().to_string()), "{told}");
    }
}

#[test]
fn a_server_that_does_not_know_the_caller_is_told_as_kubectl_tells_it() {
    let status = kube::core::Status { code: 401, message: "Unauthorized".to_owned(), ..kube::core::Status::default() };
    let failure = refused(kube::Error::Api(Box::new(status)), "https://x");
    assert_eq!(failure.line().as_deref(), Some("error: You must be logged in to the server (Unauthorized)"));
    assert_eq!(failure.exit_code(), 7);
}
