//! Who may: tokens that the cluster issues and the roles of `manifests/`, over real sockets.

use http::Method;
use rotate_shared::{Code, RotationList, names};

use crate::guarded::{code, guarded};

#[tokio::test]
async fn an_operator_begins_a_rotation_and_is_known_by_the_token() {
    let world = guarded().await;
    let token = world.token("rotate-operator", names::AUDIENCE).await;
    let body = r#"{"nodes":["a"],"claimedUser":"ada"}"#;
    let (status, answer) = world.send(Method::POST, "/v1/rotations", &token, body).await;
    assert_eq!(status, 201, "{answer}");
    let requested_by = serde_json::from_str::<RotationList>(&answer).unwrap().items.remove(0).requested_by;
    assert_eq!(requested_by.claimed.as_deref(), Some("ada"));
    assert!(requested_by.credential_id.unwrap().starts_with("JTI="));
}

#[tokio::test]
async fn a_viewer_looks_and_plans_and_begins_nothing() {
    let world = guarded().await;
    let token = world.token("rotate-viewer", names::AUDIENCE).await;
    for path in ["/v1/rotations", "/v1/nodes", "/v1/nodes/a", "/v1/cache"] {
        assert_eq!(world.send(Method::GET, path, &token, "").await.0, 200, "{path}");
    }
    assert_eq!(world.send(Method::POST, "/v1/plans", &token, r#"{"nodes":["a"]}"#).await.0, 200);
    let (status, answer) = world.send(Method::POST, "/v1/rotations", &token, r#"{"nodes":["a"]}"#).await;
    assert_eq!((status, code(&answer)), (403, Code::Forbidden));
    let (status, _) = world.send(Method::POST, "/v1/rotations/0123456789/cancel", &token, "{}").await;
    assert_eq!(status, 403);
    assert!(world.agent.views().list().is_empty());
}

#[tokio::test]
async fn a_token_for_the_api_server_is_worth_nothing_here() {
    let world = guarded().await;
    let token = world.token("rotate-operator", "https://kubernetes.default.svc").await;
    let (status, answer) = world.send(Method::GET, "/v1/rotations", &token, "").await;
    assert_eq!((status, code(&answer)), (401, Code::Unauthenticated));
}
