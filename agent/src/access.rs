//! What a client may do, as the API server sees it.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

/// Whether this client may do this to objects of a resource, everywhere or in a namespace; `None`: the answer does not say.
///
/// # Errors
///
/// The API server cannot be asked.
pub async fn may(
    client: &Client,
    verb: &str,
    group: &str,
    resource: &str,
    namespace: Option<&str>,
) -> kube::Result<Option<bool>> {
    let text = |text: &str| Some(text.to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: text(verb),
                group: text(group),
                resource: text(resource),
                namespace: namespace.map(ToOwned::to_owned),
                ..ResourceAttributes::default()
            }),
            non_resource_attributes: None,
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::<SelfSubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.map(|status| status.allowed))
}
