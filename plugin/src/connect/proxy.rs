//! Through which proxy a cluster is reached, as kubectl has it: the kubeconfig's own, else the environment's, which is for other
//! machines than this one, and not for what `NO_PROXY` names. kube compares `NO_PROXY` with the proxy and not with the server.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use rotate_shared::host;

use crate::secret::without_credentials;

/// The proxy for this server. `own`: that of the kubeconfig, whatever the environment says.
///
/// # Errors
///
/// It is not an address, or not that of a proxy.
pub(super) fn of(
    server: &Uri,
    own: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let either = |name: &str| given(name).or_else(|| given(&name.to_lowercase()));
    let proxy = match own.filter(|own| !own.is_empty()) {
        Some(own) => own,
        None => match either("HTTPS_PROXY").filter(|_| is_for(server, &either("NO_PROXY").unwrap_or_default())) {
            Some(proxy) => proxy,
            None => return Ok(None),
        },
    };
    let proxy = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
    let told = without_credentials(&proxy);
    let address: Uri = proxy.parse().map_err(|error| format!("the proxy {told:?} is not an address: {error}"))?;
    match address.scheme_str() {
        Some("http" | "https" | "socks5") => Ok(Some(address)),
        _ => Err(format!("the proxy {told:?} cannot be gone through: it begins with http://, https:// or socks5://")),
    }
}

/// Whether the environment's proxy is for this server.
fn is_for(server: &Uri, except: &str) -> bool {
    let this_machine = host::is_loopback(server.host().unwrap_or_default());
    server.scheme_str() == Some("https")
        && !this_machine
        && Matcher::builder().all("http://any").no(except).build().intercept(server).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(server: &str, own: Option<&str>, environment: &[(&str, &str)]) -> Option<String> {
        let found =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let server = server.parse().expect("an address");
        of(&server, own.map(str::to_owned), found).expect("an address").map(|proxy| proxy.to_string())
    }

    const CLUSTER: &str = "https://k8s.example.com:6443";
    const PROXY: (&str, &str) = ("HTTPS_PROXY", "http://proxy.corp:3128");

    #[test]
    fn the_environments_proxy_is_for_other_machines_and_for_tls() {
        assert_eq!(proxy(CLUSTER, None, &[PROXY]).as_deref(), Some("http://proxy.corp:3128/"));
        assert_eq!(
            proxy(CLUSTER, None, &[("https_proxy", "proxy.corp:3128")]).as_deref(),
            Some("http://proxy.corp:3128/")
        );
        assert_eq!(proxy(CLUSTER, None, &[("HTTPS_PROXY", "")]), None);
        for server in
            ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443", "http://k8s.example.com"]
        {
            assert_eq!(proxy(server, None, &[PROXY]), None, "{server}");
        }
    }

    #[test]
    fn no_proxy_is_about_the_server_and_not_about_the_proxy() {
        for except in ["k8s.example.com", ".example.com", "x, example.com", "*"] {
            assert_eq!(proxy(CLUSTER, None, &[PROXY, ("NO_PROXY", except)]), None, "{except}");
        }
        for except in ["proxy.corp", ".corp,10.0.0.0/8", "ample.com"] {
            assert!(proxy(CLUSTER, None, &[PROXY, ("no_proxy", except)]).is_some(), "{except}");
        }
        assert_eq!(proxy("https://10.1.2.3", None, &[PROXY, ("NO_PROXY", "10.0.0.0/8")]), None);
    }

    #[test]
    fn the_kubeconfigs_own_proxy_is_gone_through_whatever_the_environment_says() {
        let environment = [PROXY, ("NO_PROXY", "*")];
        assert_eq!(proxy(CLUSTER, Some("socks5://a:1"), &environment).as_deref(), Some("socks5://a:1/"));
        assert_eq!(proxy("https://127.0.0.1:6443", Some("http://a:1"), &[]).as_deref(), Some("http://a:1/"));
    }

    #[test]
    fn what_is_no_address_is_told() {
        let error = of(&CLUSTER.parse().expect("an address"), Some("http://a b".to_owned()), |_| None).unwrap_err();
        assert!(error.starts_with("the proxy \"http://a b\" is not an address"), "{error}");
    }

    #[test]
    fn a_password_is_not_repeated() {
        for own in ["http://someone:secret@a b", "someone:secret@a b", "ftp://someone:secret@a", "socks4://x:secret@a"]
        {
            let error = of(&CLUSTER.parse().expect("an address"), Some(own.to_owned()), |_| None).unwrap_err();
            assert!(error.contains("…@a") && !error.contains("secret"), "{error}");
        }
    }
}
