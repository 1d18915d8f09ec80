//! A node in this process, and clients that say exactly what they are told, also what no proper client would.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use orbit_node::config::{Config, Flags};
use orbit_node::server::{Exposure, Server};
use serde_json::Value;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tower::{Service, ServiceExt};

/// How long anything may take here.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A node with data of its own on free ports.
pub struct Node {
    pub server: Server,
    pub dir: TempDir,
}

impl Node {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(settings: &[(&'static str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_alone(&config(&dir, settings), Exposure::Loopback).await.unwrap();
        tokio::time::timeout(PATIENCE, server.ready()).await.expect("each shard gets a leader");
        Self { server, dir }
    }

    pub fn http(&self) -> SocketAddr {
        self.server.addresses.http
    }

    pub async fn grpc(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.server.addresses.grpc)).unwrap();
        endpoint.connect().await.unwrap()
    }

    /// One request over HTTP on a connection of its own.
    pub async fn ask(&self, request: Ask) -> Answer {
        let address = self.http();
        tokio::task::spawn_blocking(move || request.send(address)).await.unwrap()
    }
}

/// Free ports, data in a directory, and what else is said.
pub fn config(dir: &TempDir, settings: &[(&'static str, &str)]) -> Config {
    let mut flags =
        Flags::default().with("data_dir", dir.path().join("data").to_str().unwrap()).with("cluster.shards", "2");
    for key in ["http.listen", "grpc.listen", "peer.listen", "health.listen"] {
        flags = flags.with(key, "127.0.0.1:0");
    }
    for (key, value) in settings {
        flags = flags.with(key, *value);
    }
    Config::load(None, &BTreeMap::new(), &flags).unwrap()
}

/// A request over HTTP/1.1, byte for byte.
#[derive(Clone)]
pub struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Names it instead of what is sent otherwise.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", media_type)
    }

    pub fn json(self, body: &str) -> Self {
        self.body("application/json", body)
    }

    fn head(&self, address: SocketAddr) -> String {
        let given = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.target);
        if !given("host") {
            head += &format!("host: {address}\r\n");
        }
        if !given("content-length") && !given("transfer-encoding") && !self.body.is_empty() {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    /// Sends it and hears the answer.
    pub fn send(&self, address: SocketAddr) -> Answer {
        let mut stream = self.only_send(address);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        Answer::read(&bytes)
    }

    /// Sends it and hears nothing yet.
    pub fn only_send(&self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(self.head(address).as_bytes()).unwrap();
        stream.write_all(&self.body).expect("the node takes in what it is sent");
        stream
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&bytes[..end]).expect("a head in UTF-8");
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers: BTreeMap<_, _> = lines.filter_map(pair).collect();
        assert!(!headers.contains_key("transfer-encoding"), "the reader here knows no chunks");
        Self { status, headers, body: bytes[end + 4..].to_vec() }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The code of an error, after a look at whether all of it is as it should be.
    pub fn code(&self) -> String {
        self.is_stamped();
        let body = self.json();
        let error = &body["error"];
        assert_eq!(self.headers["content-type"], "application/json");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        let known = ["code", "message", "details"];
        assert!(error.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{body}");
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        error["code"].as_str().unwrap().to_owned()
    }

    /// Every answer has both headers, and none lets foreign pages in.
    pub fn is_stamped(&self) {
        assert_eq!(self.headers.get("x-orbit-api-version").map(String::as_str), Some("orbit-api/1"), "{self:?}");
        assert!(self.headers.get("x-request-id").is_some_and(|id| id.len() == 36), "{self:?}");
        assert!(!self.headers.keys().any(|name| name.starts_with("access-control-")), "{self:?}");
    }
}

/// What a gRPC call ended with: its status and Orbit's code in the metadata.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: tonic::Code,
    pub orbit: Option<String>,
    pub reason: Option<String>,
}

/// Sends bytes as the body of a gRPC call.
pub async fn raw_call(channel: &mut Channel, method: &str, body: Vec<u8>, headers: &[(&str, &str)]) -> Ended {
    let mut request = http::Request::post(format!("http://localhost{method}")).header("te", "trailers");
    request = request.header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(tonic::body::Body::new(Full::new(Bytes::from(body)))).unwrap();
    let call = async { channel.ready().await.unwrap().call(request).await.unwrap() };
    let response = tokio::time::timeout(PATIENCE, call).await.unwrap_or_else(|_| panic!("{method} hangs"));
    let (parts, body) = response.into_parts();
    let mut headers = parts.headers;
    if !headers.contains_key("grpc-status") {
        let body = http_body_util::BodyExt::collect(body);
        let body = tokio::time::timeout(PATIENCE, body).await.unwrap_or_else(|_| panic!("{method} hangs"));
        headers.extend(body.unwrap().trailers().cloned().unwrap_or_default());
    }
    ended(&tonic::Status::from_header_map(&headers).expect("a status"))
}

/// What stands in a status.
pub fn ended(status: &tonic::Status) -> Ended {
    use tonic_types::StatusExt;
    let orbit = status.metadata().get("orbit-error-code").map(|code| code.to_str().unwrap().to_owned());
    let reason = status.get_error_details().error_info().map(|info| info.reason.clone());
    Ended { code: status.code(), orbit, reason }
}

/// A message of gRPC: flag, length as announced, bytes.
pub fn frame(flag: u8, announced: u32, bytes: &[u8]) -> Vec<u8> {
    [&[flag], &announced.to_be_bytes()[..], bytes].concat()
}
