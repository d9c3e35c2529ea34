//! Authentication and authorization.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock,
    cluster::Cluster,
    object,
    settings::{Access, Identity, Rule},
    status::Failure,
};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    /// With its subresource: `pods/eviction`.
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Access {
    /// Who a token speaks for; `None` where it is unknown.
    fn identity(&self, token: &str) -> Option<&Identity> {
        self.tokens.get(token)
    }

    pub(crate) fn allows(&self, who: &Identity, what: Attributes<'_>) -> bool {
        self.rules.is_empty() || self.rules.iter().any(|rule| rule.allows(who, what))
    }
}

impl Rule {
    fn allows(&self, who: &Identity, what: Attributes<'_>) -> bool {
        let resource =
            if what.group.is_empty() { what.resource.to_owned() } else { format!("{}/{}", what.group, what.resource) };
        let one_of = |list: &[String], text: &str| list.iter().any(|item| item == "*" || item == text);
        (self.subject == "*" || self.subject == who.user || who.groups.contains(&self.subject))
            && one_of(&self.verbs, what.verb)
            && one_of(&self.resources, &resource)
            && (self.namespaces.is_empty() || one_of(&self.namespaces, what.namespace))
    }
}

/// The caller, from the `Authorization` header, or whom the caller acts as.
pub(crate) fn authenticate(
    cluster: &Cluster,
    header: Option<&str>,
    acts_as: Option<&str>,
) -> Result<Identity, Failure> {
    let caller = owner(cluster, header)?;
    let Some(user) = acts_as else { return Ok(caller) };
    let what = Attributes { verb: "impersonate", group: "", resource: "users", namespace: "", name: user };
    authorize(cluster, &caller, what)?;
    Ok(Identity { user: user.to_owned(), groups: vec!["system:authenticated".to_owned()], ..Identity::default() })
}

fn owner(cluster: &Cluster, header: Option<&str>) -> Result<Identity, Failure> {
    let access = cluster.access.lock();
    let administrator = || Identity {
        user: "system:admin".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..Identity::default()
    };
    match header.and_then(|header| header.strip_prefix("Bearer ")) {
        Some(token) => match access.identity(token.trim()) {
            Some(identity) if identity.audiences.is_empty() => Ok(identity.clone()),
            Some(_) => Err(Failure::unauthenticated()),
            None if access.tokens.is_empty() && !access.token_required => Ok(administrator()),
            None => Err(Failure::unauthenticated()),
        },
        None if access.token_required => Err(Failure::unauthenticated()),
        None => Ok(administrator()),
    }
}

/// Refuses in the API server's words.
pub(crate) fn authorize(cluster: &Cluster, who: &Identity, what: Attributes<'_>) -> Result<(), Failure> {
    let access = cluster.access.lock();
    if who.groups.iter().any(|group| group == "system:masters") || access.allows(who, what) {
        return Ok(());
    }
    let qualified =
        if what.group.is_empty() { what.resource.to_owned() } else { format!("{}.{}", what.resource, what.group) };
    let subject = if what.name.is_empty() { qualified } else { format!("{qualified} \"{}\"", what.name) };
    let place = if what.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", what.namespace)
    };
    let message = format!(
        "{subject} is forbidden: User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
        who.user, what.verb, what.resource, what.group
    );
    Err(Failure::unauthorised(what.resource, what.name, message))
}

/// `POST …/serviceaccounts/NAME/token`.
pub(crate) fn issue(cluster: &Cluster, namespace: &str, account: &str, request: &Value) -> Value {
    let audiences: Vec<String> =
        object::list(request, "/spec/audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let lifetime = object::number(request, "/spec/expirationSeconds").unwrap_or(3600);
    let expires = expiry(cluster.clock.now(), lifetime);
    let id = cluster.store().random().uid();
    let token = format!("sim.{id}.{}", expires.as_second());
    let identity = Identity {
        user: format!("system:serviceaccount:{namespace}:{account}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        audiences: audiences.clone(),
    };
    cluster.access.lock().tokens.insert(token.clone(), identity);
    let mut answer = request.clone();
    answer["kind"] = json!("TokenRequest");
    answer["apiVersion"] = json!("authentication.k8s.io/v1");
    answer["metadata"] =
        json!({"name": account, "namespace": namespace, "creationTimestamp": clock::seconds(cluster.clock.now())});
    answer["spec"]["audiences"] = json!(audiences);
    answer["spec"]["expirationSeconds"] = json!(lifetime);
    answer["status"] = json!({"token": token, "expirationTimestamp": clock::seconds(expires)});
    answer
}

fn expiry(now: Timestamp, lifetime: i64) -> Timestamp {
    clock::after(now, Duration::from_secs(u64::try_from(lifetime).unwrap_or(0)))
}

/// `POST tokenreviews`.
pub(crate) fn review_token(cluster: &Cluster, mut review: Value) -> Value {
    let token = object::text(&review, "/spec/token").to_owned();
    let wanted: Vec<String> =
        object::list(&review, "/spec/audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let now = cluster.clock.now().as_second();
    let mut parts = token.splitn(3, '.');
    let issued = match (parts.next(), parts.next(), parts.next().and_then(|expires| expires.parse::<i64>().ok())) {
        (Some("sim"), Some(id), Some(expires)) => Some((id.to_owned(), expires)),
        _ => None,
    };
    let expired = issued.as_ref().is_some_and(|(_, expires)| *expires <= now);
    let access = cluster.access.lock();
    review["kind"] = json!("TokenReview");
    review["apiVersion"] = json!("authentication.k8s.io/v1");
    let known = access.identity(&token).filter(|_| !expired);
    let identity = known
        .filter(|identity| wanted.is_empty() || identity.audiences.iter().any(|audience| wanted.contains(audience)));
    review["status"] = match identity {
        Some(identity) => {
            let mut user = json!({"username": identity.user, "groups": identity.groups});
            if let Some((id, _)) = issued {
                user["extra"] = json!({"authentication.kubernetes.io/credential-id": [format!("JTI={id}")]});
            }
            let both: Vec<&String> =
                identity.audiences.iter().filter(|a| wanted.is_empty() || wanted.contains(a)).collect();
            json!({"authenticated": true, "user": user, "audiences": both})
        }
        None => {
            let error = match known {
                Some(identity) => format!(
                    "[invalid bearer token, token audiences {:?} is invalid for the target audiences {wanted:?}]",
                    identity.audiences
                ),
                None => "invalid bearer token".to_owned(),
            };
            json!({"user": {}, "error": error})
        }
    };
    review
}

/// `POST subjectaccessreviews` and `selfsubjectaccessreviews`; the latter with the caller.
pub(crate) fn review_access(cluster: &Cluster, caller: Option<&Identity>, mut review: Value) -> Value {
    let own = Identity {
        user: object::text(&review, "/spec/user").to_owned(),
        groups: object::list(&review, "/spec/groups").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        ..Identity::default()
    };
    let who = caller.unwrap_or(&own);
    let attribute = |key: &str| object::text(&review, &format!("/spec/resourceAttributes/{key}")).to_owned();
    let (verb, group, namespace, name) =
        (attribute("verb"), attribute("group"), attribute("namespace"), attribute("name"));
    let mut resource = attribute("resource");
    if !attribute("subresource").is_empty() {
        resource = format!("{resource}/{}", attribute("subresource"));
    }
    let what = Attributes { verb: &verb, group: &group, resource: &resource, namespace: &namespace, name: &name };
    let allowed = authorize(cluster, who, what).is_ok();
    review["status"] = json!({"allowed": allowed});
    review
}
