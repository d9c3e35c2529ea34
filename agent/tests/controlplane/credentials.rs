//! Certificates, tokens and kubeconfigs, all made afresh in the temporary directory.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::json;

/// The authority's certificate.
pub(crate) const CA: &str = "ca.crt";
/// The certificate that all components serve with: for 127.0.0.1 and localhost.
pub(crate) const SERVING_CERTIFICATE: &str = "serving.crt";
/// Its key.
pub(crate) const SERVING_KEY: &str = "serving.key";
/// What service account tokens are signed with.
pub(crate) const SERVICE_ACCOUNT_KEY: &str = "service-accounts.key";
/// What they are verified with.
pub(crate) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-accounts.pub";
/// The API server's static tokens.
pub(crate) const TOKENS: &str = "tokens.csv";

/// The users that the API server knows from the start. Each component has its own, so that the audit log tells them from
/// the program under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum User {
    /// The test itself: a member of `system:masters`.
    Admin,
    /// Somebody who may do nothing but what every authenticated user may.
    Nobody,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok.
    Kwok,
    /// Karpenter.
    Karpenter,
    /// The agent under test, where it runs with all rights.
    Agent,
}

/// The tokens; everything else is in files.
pub(crate) struct Credentials {
    tokens: Vec<(User, String)>,
}

// === impl User ===

impl User {
    /// All of them.
    pub(crate) const ALL: [Self; 7] =
        [Self::Admin, Self::Nobody, Self::ControllerManager, Self::Scheduler, Self::Kwok, Self::Karpenter, Self::Agent];

    /// The name that the audit log shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Nobody => "nobody",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Scheduler => "system:kube-scheduler",
            Self::Kwok => "kwok",
            Self::Karpenter => "karpenter",
            Self::Agent => "agent",
        }
    }

    /// The file name of the user's kubeconfig.
    pub(crate) fn kubeconfig(self) -> String {
        kubeconfig_name(self.name())
    }

    fn groups(self) -> &'static str {
        if self == Self::Nobody { "" } else { "system:masters" }
    }
}

// === impl Credentials ===

impl Credentials {
    /// Makes everything and writes it into the directory.
    pub(crate) fn write(dir: &Path, server: &str) -> Result<Self> {
        write_certificates(dir)?;
        let service_accounts = KeyPair::generate()?;
        fs::write(dir.join(SERVICE_ACCOUNT_KEY), service_accounts.serialize_pem())?;
        fs::write(dir.join(SERVICE_ACCOUNT_PUBLIC_KEY), service_accounts.public_key_pem())?;

        let made = Self { tokens: User::ALL.map(|user| (user, random_token())).to_vec() };
        let mut lines = String::new();
        for (user, token) in &made.tokens {
            let name = user.name();
            lines += &format!("{token},{name},{name},\"{}\"\n", user.groups());
            made.write_kubeconfig(dir, name, server, token)?;
        }
        fs::write(dir.join(TOKENS), lines)?;
        Ok(made)
    }

    /// A fixed user's bearer token.
    pub(crate) fn token(&self, user: User) -> &str {
        self.tokens.iter().find(|(owner, _)| *owner == user).map_or("", |(_, token)| token)
    }

    /// Writes a kubeconfig (as JSON, which is YAML) for one token.
    pub(crate) fn write_kubeconfig(&self, dir: &Path, name: &str, server: &str, token: &str) -> Result<PathBuf> {
        let path = dir.join(kubeconfig_name(name));
        let cluster = json!({"server": server, "certificate-authority": dir.join(CA)});
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        });
        fs::write(&path, serde_json::to_vec_pretty(&config)?)?;
        Ok(path)
    }
}

fn kubeconfig_name(user: &str) -> String {
    format!("{}.kubeconfig", user.replace(':', "-"))
}

fn write_certificates(dir: &Path) -> Result<()> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "rotate test authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let key = KeyPair::generate()?;
    let mut serving = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    serving.distinguished_name.push(DnType::CommonName, "rotate test server");
    let serving = serving.signed_by(&key, &authority)?;

    fs::write(dir.join(CA), authority.pem())?;
    fs::write(dir.join(SERVING_CERTIFICATE), serving.pem())?;
    fs::write(dir.join(SERVING_KEY), key.serialize_pem())?;
    Ok(())
}

/// 128 bits that another process on this machine can't guess; `RandomState` is seeded by the system.
fn random_token() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}
