//! The API server that kubectl's flags and kubeconfig mean.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use rotate_agent::client::said;
use rotate_agent::clock::Clock;
use rotate_shared::causes;

use super::proxy;
use crate::cli::ConnectionFlags;
use crate::failure::Failure;

/// Names for the entries that flags alone make up.
const FROM_FLAGS: &str = "from-flags";

/// The configuration that these flags mean, in kubectl's order: flags, then kubeconfig, then the Pod's own service
/// account.
///
/// # Errors
///
/// A kubeconfig that cannot be read or names what does not exist, and none at all outside a cluster.
pub(crate) async fn config(flags: &ConnectionFlags) -> Result<Config, Failure> {
    if flags.insecure_skip_tls_verify == Some(true) && flags.certificate_authority.is_some() {
        return Err(Failure::Usage(
            "--certificate-authority and --insecure-skip-tls-verify together are not clear: give one of them"
                .to_owned(),
        ));
    }
    let config = from_files(flags).await?;
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(Failure::Cluster(
            "the file of the certificate authority holds no certificate in PEM form".to_owned(),
        ));
    }
    Ok(config)
}

async fn from_files(flags: &ConnectionFlags) -> Result<Config, Failure> {
    let Some(mut kubeconfig) = kubeconfig(flags)? else { return without_kubeconfig(flags).await };
    if kubeconfig.contexts.is_empty() && kubeconfig.clusters.is_empty() {
        return without_kubeconfig(flags).await;
    }
    let context_name = flags.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == context_name);
    let Some(context) = context.and_then(|context| context.context.clone()) else {
        return Err(Failure::Cluster(match context_name.as_str() {
            "" => "the kubeconfig has no current context: choose one with --context".to_owned(),
            name => format!("context {name:?} does not exist in the kubeconfig"),
        }));
    };
    let cluster_name = flags.cluster.clone().unwrap_or(context.cluster);
    let user_name = flags.user.clone().or(context.user).unwrap_or_else(|| FROM_FLAGS.to_owned());
    let cluster = kubeconfig.clusters.iter_mut().find(|cluster| cluster.name == cluster_name);
    let Some(cluster) = cluster else {
        return Err(Failure::Cluster(format!("cluster {cluster_name:?} does not exist in the kubeconfig")));
    };
    let cluster = cluster.cluster.get_or_insert_default();
    apply_to_cluster(flags, cluster);
    let proxy = cluster.proxy_url.clone();
    let position = kubeconfig.auth_infos.iter().position(|user| user.name == user_name);
    if position.is_none() && flags.user.is_some() {
        return Err(Failure::Cluster(format!("user {user_name:?} does not exist in the kubeconfig")));
    }
    let position = position.unwrap_or_else(|| {
        kubeconfig.auth_infos.push(NamedAuthInfo { name: user_name.clone(), ..NamedAuthInfo::default() });
        kubeconfig.auth_infos.len() - 1
    });
    apply_to_user(flags, kubeconfig.auth_infos[position].auth_info.get_or_insert_default())?;
    let options = KubeConfigOptions { context: Some(context_name), cluster: Some(cluster_name), user: Some(user_name) };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)?;
    finished(flags, config, proxy)
}

/// Names out of the kubeconfig; none where there is no kubeconfig.
///
/// # Errors
///
/// It cannot be read.
pub(crate) fn names(
    flags: &ConnectionFlags,
    of: impl FnOnce(&Kubeconfig) -> Vec<String>,
) -> Result<Vec<String>, Failure> {
    Ok(kubeconfig(flags)?.map(|kubeconfig| of(&kubeconfig)).unwrap_or_default())
}

/// The kubeconfig that is meant; `None`: there is none.
fn kubeconfig(flags: &ConnectionFlags) -> Result<Option<Kubeconfig>, Failure> {
    if let Some(path) = &flags.kubeconfig {
        return read(path).map(Some).map_err(|error| unreadable(path, error));
    }
    let listed = listed();
    if !listed.is_empty() {
        return merged(&listed).map(Some);
    }
    match Kubeconfig::read() {
        Ok(kubeconfig) => Ok(Some(kubeconfig)),
        // No file in the usual place is no mistake; one that is there and broken is.
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(KubeconfigError::FindPath) => Ok(None),
        Err(KubeconfigError::ReadConfig(error, path)) => {
            Err(unreadable(&path.clone(), KubeconfigError::ReadConfig(error, path)))
        }
        Err(error) => Err(unusable(error)),
    }
}

/// The files that `$KUBECONFIG` lists.
fn listed() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// All of them as one. As with kubectl, a file that is not there is passed over.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, Failure> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        match read(path) {
            Ok(kubeconfig) => merged = merged.merge(kubeconfig).map_err(unusable)?,
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(path, error)),
        }
    }
    Ok(merged)
}

/// kube ends the program at a file that begins like one of Windows' and ends in the middle of a character.
fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let failed = |error| KubeconfigError::ReadConfig(error, path.to_owned());
    let mut file = File::open(path).map_err(failed)?;
    let mut mark = Vec::new();
    file.by_ref().take(2).read_to_end(&mut mark).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if [&[0xff, 0xfe][..], &[0xfe, 0xff]].contains(&&*mark) && length % 2 == 1 {
        return Err(failed(io::Error::new(
            io::ErrorKind::InvalidData,
            "UTF-16 that ends in the middle of a character",
        )));
    }
    Kubeconfig::read_from(path)
}

/// Names the file, and leaves out the excerpt below what the parser says.
fn unreadable(path: &Path, error: KubeconfigError) -> Failure {
    let said = match error {
        KubeconfigError::Parse(error) => {
            let text = error.to_string();
            let said = text.lines().next().unwrap_or_default();
            said.strip_prefix("error: ").unwrap_or(said).to_owned()
        }
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        error => return unusable(error),
    };
    Failure::Cluster(format!("the kubeconfig cannot be used: {}: {said}", path.display()))
}

async fn without_kubeconfig(flags: &ConnectionFlags) -> Result<Config, Failure> {
    if flags.server.is_some() {
        let mut cluster = Cluster::default();
        apply_to_cluster(flags, &mut cluster);
        let mut user = AuthInfo::default();
        apply_to_user(flags, &mut user)?;
        let name = || FROM_FLAGS.to_owned();
        let kubeconfig = Kubeconfig {
            clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
            auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..NamedAuthInfo::default() }],
            contexts: vec![NamedContext {
                name: name(),
                context: Some(Context { cluster: name(), user: Some(name()), ..Context::default() }),
                ..NamedContext::default()
            }],
            current_context: Some(name()),
            ..Kubeconfig::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        return finished(flags, config.map_err(unusable)?, None);
    }
    if let Some(name) = flags.context.as_ref().or(flags.cluster.as_ref()).or(flags.user.as_ref()) {
        return Err(Failure::Cluster(format!("there is no kubeconfig that {name:?} could be in")));
    }
    match Config::incluster() {
        Ok(mut config) => {
            apply_to_user(flags, &mut config.auth_info)?;
            finished(flags, config, None)
        }
        Err(_) => Err(Failure::Cluster(
            "no kubeconfig was found ($KUBECONFIG, ~/.kube/config), and this is not a Pod of a cluster: give \
             --kubeconfig FILE or --server URL"
                .to_owned(),
        )),
    }
}

fn apply_to_cluster(flags: &ConnectionFlags, cluster: &mut Cluster) {
    if let Some(server) = &flags.server {
        cluster.server = Some(if server.contains("://") { server.clone() } else { format!("https://{server}") });
    }
    if let Some(name) = &flags.tls_server_name {
        cluster.tls_server_name = Some(name.clone());
    }
    if let Some(file) = &flags.certificate_authority {
        cluster.certificate_authority = Some(file.clone());
        cluster.certificate_authority_data = None;
    }
    if let Some(skip) = flags.insecure_skip_tls_verify {
        cluster.insecure_skip_tls_verify = Some(skip);
        if skip {
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
    }
}

fn apply_to_user(flags: &ConnectionFlags, user: &mut AuthInfo) -> Result<(), Failure> {
    if let Some(token) = &flags.token {
        // A token on the command line is meant to be used, whatever else the kubeconfig has.
        *user = AuthInfo { token: Some(token.to_string().into()), ..AuthInfo::default() };
    }
    if let Some(file) = &flags.client_certificate {
        user.client_certificate = Some(file.clone());
        user.client_certificate_data = None;
    }
    if let Some(file) = &flags.client_key {
        user.client_key = Some(file.clone());
        user.client_key_data = None;
    }
    if let Some(name) = &flags.impersonate {
        user.impersonate = Some(name.clone());
    }
    if let Some(uid) = &flags.as_uid {
        user.impersonate_uid = Some(uid.clone());
    }
    if !flags.as_group.is_empty() {
        user.impersonate_groups = Some(flags.as_group.clone());
    }
    if !flags.as_user_extra.is_empty() {
        let mut extra: HashMap<String, Vec<String>> = HashMap::new();
        for pair in &flags.as_user_extra {
            let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                return Err(Failure::Usage(format!("--as-user-extra takes KEY=VALUE, not {pair:?}")));
            };
            extra.entry(key.to_owned()).or_default().push(value.to_owned());
        }
        user.impersonate_user_extra = Some(extra);
    }
    let others = user.impersonate_uid.is_some() || user.impersonate_groups.is_some();
    if user.impersonate.is_none() && (others || user.impersonate_user_extra.is_some()) {
        return Err(Failure::Usage("--as-uid, --as-group and --as-user-extra need --as".to_owned()));
    }
    Ok(())
}

fn finished(flags: &ConnectionFlags, mut config: Config, proxy: Option<String>) -> Result<Config, Failure> {
    let proxy = proxy::of(&config.cluster_url, proxy, |name| std::env::var(name).ok());
    config.proxy_url = proxy.map_err(Failure::Cluster)?;
    if let Some(timeout) = flags.request_timeout.map(|timeout| timeout.0).filter(|timeout| !timeout.is_zero()) {
        config.connect_timeout = Some(timeout);
        config.read_timeout = Some(timeout);
        config.reset_reader_on_write = true;
    }
    Ok(config)
}

fn unusable(error: KubeconfigError) -> Failure {
    Failure::Cluster(format!("the kubeconfig cannot be used: {}", causes::whole(&error)))
}

/// How long a busy API server is waited for in all.
const BUSY: Duration = Duration::from_secs(30);

/// Asks again as long as the API server puts it off (429), as kubectl does: it has done nothing yet.
pub(super) async fn patiently<T, F>(clock: Clock, ask: impl Fn() -> F) -> kube::Result<T>
where
    F: Future<Output = kube::Result<T>>,
{
    let mut waited = Duration::ZERO;
    loop {
        let error = match ask().await {
            Err(kube::Error::Api(status)) if status.code == 429 => status,
            answer => return answer,
        };
        let asked = error.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let wait = Duration::from_secs(u64::from(asked).max(1));
        waited += wait;
        if waited > BUSY {
            return Err(kube::Error::Api(error));
        }
        clock.sleep(wait).await;
    }
}

/// What the API server at `server` answered instead of what was asked for.
pub(crate) fn refused(error: kube::Error, server: &str) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 401 => Failure::NotLoggedIn(status.message),
        kube::Error::Api(status) if status.code == 403 => Failure::NotAuthorised(status.message),
        // It may well answer the next time.
        kube::Error::Api(status) if status.code == 429 || status.code >= 500 => {
            Failure::Cluster(format!("the API server answered: {}", status.message))
        }
        kube::Error::Api(status) => Failure::Other(format!("the API server answered: {}", status.message)),
        error if has(&error, ErrorKind::TimedOut) => {
            Failure::Cluster(format!("the API server at {server} did not answer in time"))
        }
        error if has(&error, ErrorKind::ConnectionRefused) => {
            let at = server.trim_end_matches('/').rsplit("://").next().unwrap_or_default();
            Failure::Cluster(format!(
                "the connection to the server {at} was refused - did you specify the right host or port?"
            ))
        }
        error => Failure::Cluster(format!("the API server at {server} cannot be asked: {}", said(&error))),
    }
}

/// Whether that is what the system said.
fn has(error: &kube::Error, kind: ErrorKind) -> bool {
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(|error| error.kind() == kind)
}

#[cfg(test)]
mod tests;
