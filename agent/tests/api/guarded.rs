//! A cluster with the roles of `manifests/`, an agent that asks it who may what, and callers of its port.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use rotate_agent::clock::Clock;
use rotate_agent::{Agent, Config, Listen, bootstrap};
use rotate_shared::{Code, Problem, RotationList, names};
use rotate_sim::{Access, NodeSpec, Rule, Settings, Sim, objects};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The cluster, without an agent.
pub(crate) struct Cluster {
    pub(crate) sim: Sim,
    pub(crate) client: Client,
}

/// With an agent in this process.
pub(crate) struct Guarded {
    pub(crate) cluster: Cluster,
    pub(crate) agent: Agent,
    pub(crate) control: SocketAddr,
}

pub(crate) async fn guarded() -> Guarded {
    let cluster = Cluster::start().await;
    let mut agent = Agent::start(Config::default(), cluster.client.clone(), Clock::system());
    let any = "127.0.0.1:0".parse().unwrap();
    let listen = agent.listen(Listen { control: any, authenticate: true, ops: any }).await.unwrap();
    agent.ready().await;
    Guarded { cluster, agent, control: listen.control }
}

impl Cluster {
    /// One node, `a`. Pods take an hour to start: what is begun does not end by itself.
    pub(crate) async fn start() -> Self {
        let sim = Sim::start(Settings { pod_start: Duration::from_secs(3600), ..Settings::default() });
        let client = Client::new(sim.router(), "default");
        bootstrap::create(&client, &bootstrap::objects()).await.unwrap();
        sim.add_node(NodeSpec::new("a"));
        for account in people().into_iter().filter(|object| object["kind"] == "ServiceAccount") {
            sim.create(account);
        }
        let cluster = Self { sim, client };
        cluster.withdraw_all();
        cluster
    }

    /// Tokens that were made until now are worth nothing from now on.
    pub(crate) fn withdraw_all(&self) {
        self.sim.set_access(access());
    }

    /// A token as `kubectl create token` makes it.
    pub(crate) async fn token(&self, account: &str, audience: &str) -> String {
        self.token_for(account, audience, 600).await
    }

    pub(crate) async fn token_for(&self, account: &str, audience: &str, seconds: u32) -> String {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", names::NAMESPACE);
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "audiences": [audience], "expirationSeconds": seconds },
        });
        let header = Request::post(path).header("content-type", "application/json");
        let answer: Value = self.client.request(header.body(request.to_string().into_bytes()).unwrap()).await.unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Two more nodes, and a Pod that starts for an hour on one of them: a rotation of that one waits.
    pub(crate) async fn busy_node(&self) -> String {
        self.sim.create(objects::namespace("shop", &json!({})));
        for name in ["b", "c"] {
            self.sim.add_node(NodeSpec::new(name));
        }
        self.sim.create(objects::deployment("web", "shop", 1, objects::template("web", "100m", "64Mi")));
        let node =
            |sim: &Sim| sim.list("pods").iter().find_map(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned()));
        self.sim.until(|sim| node(sim).is_some()).await;
        node(&self.sim).unwrap()
    }
}

/// What the roles grant, and no token.
pub(crate) fn access() -> Access {
    Access { rules: rules(), ..Access::default() }
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
    pub(crate) async fn token(&self, account: &str, audience: &str) -> String {
        self.cluster.token(account, audience).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, token: &str, body: &str) -> (u16, String) {
        send(self.control, method, path, token, body).await
    }

    /// Sends this and reads until the agent closes.
    pub(crate) async fn say(&self, request: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.control).await.unwrap();
        // The agent may answer before it has read all.
        let _ = stream.write_all(request).await;
        read(stream).await
    }
}

/// Asks for one thing.
pub(crate) async fn send(addr: SocketAddr, method: Method, path: &str, token: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    read(stream).await
}

/// Begins to rotate a node.
pub(crate) async fn rotate(addr: SocketAddr, token: &str, node: &str) -> String {
    let body = json!({ "nodes": [node] }).to_string();
    let (status, answer) = send(addr, Method::POST, "/v1/rotations", token, &body).await;
    assert_eq!(status, 201, "{answer}");
    serde_json::from_str::<RotationList>(&answer).unwrap().items.remove(0).id
}

/// A stream of events, once its first event was read; or the refusal.
pub(crate) async fn follow(addr: SocketAddr, token: &str, id: &str) -> Result<TcpStream, (u16, String)> {
    let request = format!(
        "GET /v1/rotations/{id}/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    while !said.starts_with(b"HTTP/1.1 200") || !String::from_utf8_lossy(&said).contains("\ndata: ") {
        match stream.read(&mut piece).await {
            Ok(read @ 1..) => said.extend_from_slice(&piece[..read]),
            _ => return Err(parts(&String::from_utf8(said).unwrap())),
        }
    }
    Ok(stream)
}

async fn read(mut stream: TcpStream) -> (u16, String) {
    let mut answer = Vec::new();
    // The connection may be reset behind an early answer: what it said before that counts.
    let _ = stream.read_to_end(&mut answer).await;
    parts(&String::from_utf8(answer).unwrap())
}

fn parts(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    if status >= 400 && !body.is_empty() && !body.starts_with("[-] ") {
        assert!(head.contains("content-type: application/problem+json"), "{head}");
    }
    (status, body.to_owned())
}

pub(crate) fn code(body: &str) -> Code {
    serde_json::from_str::<Problem>(body).unwrap().code
}
