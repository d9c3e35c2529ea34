//! Who may: tokens that the cluster issues and the roles of `manifests/`, over real sockets.

use std::net::SocketAddr;
use std::path::Path;

use http::{Method, Request};
use kube::Client;
use rotate_agent::clock::Clock;
use rotate_agent::{Agent, Config, Listen, bootstrap};
use rotate_shared::{Code, Problem, RotationList, names};
use rotate_sim::{Access, NodeSpec, Rule, Settings, Sim};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A cluster with the roles of `manifests/`, an agent that asks it, and where that listens.
struct Guarded {
    client: Client,
    agent: Agent,
    control: SocketAddr,
}

async fn guarded() -> Guarded {
    let sim = Sim::start(Settings::default());
    let client = Client::new(sim.router(), "default");
    bootstrap::create(&client, &bootstrap::objects()).await.unwrap();
    sim.add_node(NodeSpec::new("a"));
    for account in people().into_iter().filter(|object| object["kind"] == "ServiceAccount") {
        sim.create(account);
    }
    sim.set_access(Access { rules: rules(), ..Access::default() });
    let mut agent = Agent::start(Config::default(), client.clone(), Clock::system());
    let any = "127.0.0.1:0".parse().unwrap();
    let listen = agent.listen(Listen { control: any, authenticate: true, ops: any }).await.unwrap();
    agent.ready().await;
    Guarded { client, agent, control: listen.control }
}

fn people() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/base/people-rbac.yaml");
    serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// What the two accounts' roles grant, and everything to the agent itself, which calls as the administrator.
fn rules() -> Vec<Rule> {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rules = vec![Rule::all("system:admin")];
    for role in people().iter().filter(|object| object["kind"] == "ClusterRole") {
        let subject =
            format!("system:serviceaccount:{}:{}", names::NAMESPACE, role["metadata"]["name"].as_str().unwrap());
        for rule in role["rules"].as_array().unwrap() {
            let group = rule["apiGroups"][0].as_str().unwrap();
            rules.push(Rule {
                subject: subject.clone(),
                verbs: texts(&rule["verbs"]),
                resources: texts(&rule["resources"]).iter().map(|resource| format!("{group}/{resource}")).collect(),
                namespaces: Vec::new(),
            });
        }
    }
    rules
}

impl Guarded {
    /// A token as `kubectl create token` makes it.
    async fn token(&self, account: &str, audience: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", names::NAMESPACE);
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "audiences": [audience], "expirationSeconds": 600 },
        });
        let header = Request::post(path).header("content-type", "application/json");
        let answer: Value = self.client.request(header.body(request.to_string().into_bytes()).unwrap()).await.unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn send(&self, method: Method, path: &str, token: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(self.control).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

fn code(body: &str) -> Code {
    serde_json::from_str::<Problem>(body).unwrap().code
}

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
