//! What comes to the port for other nodes and is no node of this cluster: each row is refused in a bounded time, the
//! node goes on, and its log is not filled by whoever repeats it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use orbit_proto::peer::peer_service_client::PeerServiceClient;
use orbit_proto::peer::{Frame, FrameBatch, FrameKind, Hello};
use prost::Message;
use serde_json::Value;
use support::{Ask, Node, PATIENCE};
use tracing::Level;
use tracing_subscriber::layer::{Context, SubscriberExt};
use uuid::Uuid;

/// Who greets, and what the node says.
struct Greeting {
    what: &'static str,
    change: fn(&mut Hello),
    answer: &'static str,
}

const GREETINGS: [Greeting; 6] = [
    Greeting {
        what: "of another cluster",
        change: |hello| hello.cluster = Uuid::from_u128(1).as_bytes().to_vec().into(),
        answer: "this node belongs to another cluster",
    },
    Greeting { what: "of no cluster", change: |hello| hello.cluster.clear(), answer: "another cluster" },
    Greeting {
        what: "of an older protocol",
        change: |hello| hello.protocol = 0,
        answer: "it speaks version 0 of the protocol, this node 1",
    },
    Greeting {
        what: "of a newer protocol",
        change: |hello| hello.protocol = u32::MAX,
        answer: "it speaks version 4294967295 of the protocol, this node 1",
    },
    Greeting {
        what: "that means another node",
        change: |hello| hello.target_node_id = 9,
        answer: "this is node 1, not 9",
    },
    Greeting {
        what: "that does not know the format of the cluster",
        change: |hello| hello.format = 0,
        answer: "node 7 (version 0.0.1) knows formats up to 1, the cluster has format 2: start it with a newer version",
    },
];

/// What else may come first on a stream; nothing is answered, and the stream ends.
fn odd_frames() -> Vec<(&'static str, FrameBatch)> {
    let frame = |kind: i32, body: &'static [u8]| FrameBatch {
        frames: vec![Frame { group: 0, seq: 0, kind, body: bytes::Bytes::from_static(body) }],
    };
    vec![
        ("no frame at all", FrameBatch::default()),
        ("a vote before a greeting", frame(FrameKind::Vote.into(), b"")),
        ("entries before a greeting", frame(FrameKind::Append.into(), b"\xff\xff\xff")),
        ("a kind that nobody knows", frame(99, b"")),
        ("a greeting that cannot be read", frame(FrameKind::Hello.into(), b"\x0a\xff\xff\xff\xff\x0f")),
    ]
}

/// Bytes on a bare connection: the node hangs up.
fn raw() -> Vec<(&'static str, Vec<u8>)> {
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // Length u24, type, flags, stream u32.
    let huge = [preface, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat();
    vec![
        ("HTTP/1.1", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec()),
        ("TLS", [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[7; 500]].concat()),
        ("zeros", vec![0; 4_096]),
        ("a frame of HTTP/2 longer than any may be", huge),
        ("settings that are none", [preface, &[0, 0, 1, 4, 0, 0, 0, 0, 0, 7]].concat()),
        ("half a preface, then the end", preface[..9].to_vec()),
    ]
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let of_peers = event.metadata().target().starts_with("orbit_raft::network");
        if of_peers && *event.metadata().level() <= Level::WARN {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn hello(node: &Node) -> Hello {
    let cluster: Value = serde_json::from_slice(&node.ask(Ask::new("GET", "/v1/cluster")).await.body).unwrap();
    let cluster: Uuid = cluster["cluster"].as_str().unwrap().parse().unwrap();
    Hello {
        protocol: 1,
        cluster: cluster.as_bytes().to_vec().into(),
        node_id: 7,
        incarnation: Uuid::from_u128(7).as_bytes().to_vec().into(),
        target_node_id: 1,
        format: 2,
        rules: vec![1],
        version: "0.0.1".to_owned(),
    }
}

/// What the node answers to the first message of a stream that stays open; nothing when it ends the stream.
async fn exchange(peer: SocketAddr, first: FrameBatch) -> Option<Frame> {
    let mut client = PeerServiceClient::connect(format!("http://{peer}")).await.unwrap();
    let messages = stream::iter([first]).chain(stream::pending());
    let asked = async {
        let mut answers = client.exchange(messages).await.ok()?.into_inner();
        answers.next().await?.ok()?.frames.into_iter().next()
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("an answer, or the end")
}

fn greeting(hello: &Hello) -> FrameBatch {
    let body = hello.encode_to_vec().into();
    FrameBatch { frames: vec![Frame { group: 0, seq: 0, kind: FrameKind::Hello.into(), body }] }
}

async fn answers(node: &Node, after: &str) {
    assert_eq!(node.ask(Ask::new("GET", "/v1/health")).await.status, 200, "after {after}");
    let frame = exchange(node.server.addresses.peer, greeting(&hello(node).await)).await.expect(after);
    assert_eq!(frame.kind(), FrameKind::Hello, "a peer is let in after {after}");
}

/// Sends bytes and waits until the node hangs up.
fn hangs_up(peer: SocketAddr, bytes: &[u8], what: &str) {
    let mut stream = TcpStream::connect(peer).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The node may have hung up in the middle.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let end = stream.read_to_end(&mut Vec::new());
    let late = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!late, "{what}: the node does not hang up");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_no_peer_is_refused_and_breaks_nothing() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(warnings.clone())).unwrap();
    let node = Node::start().await;
    let peer = node.server.addresses.peer;
    answers(&node, "nothing").await;
    for Greeting { what, change, answer } in GREETINGS {
        let mut hello = hello(&node).await;
        change(&mut hello);
        let before = warnings.0.load(Ordering::SeqCst);
        for _ in 0..20 {
            let frame = exchange(peer, greeting(&hello)).await.expect(what);
            assert_eq!(frame.kind(), FrameKind::Refused, "{what}");
            let said = String::from_utf8(frame.body.to_vec()).unwrap();
            assert!(said.contains(answer), "{what}: {said}");
        }
        let lines = warnings.0.load(Ordering::SeqCst) - before;
        assert!(lines <= 1, "{what}: {lines} lines of the log for the same thing");
        answers(&node, what).await;
    }
    for (what, first) in odd_frames() {
        let answer = exchange(peer, first).await;
        assert!(answer.is_none_or(|frame| frame.kind() == FrameKind::Refused), "{what}");
        answers(&node, what).await;
    }
    for (what, bytes) in raw() {
        tokio::task::spawn_blocking(move || hangs_up(peer, &bytes, what)).await.unwrap();
        answers(&node, what).await;
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_give_their_places_back() {
    let node = Node::start_with(&[("limits.connections", "16")]).await;
    let peer = node.server.addresses.peer;
    let silent = |bytes: &'static [u8]| {
        let mut stream = TcpStream::connect(peer).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // More than there are places: nothing, half a preface, and a whole one without a frame after it.
    let all: [&[u8]; 3] = [b"", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    let silent: Vec<_> = (0..48).map(|n| silent(all[n % 3])).collect();
    // They stay connected, and a peer gets in all the same, once their time is over.
    let let_in = async {
        loop {
            let asked = tokio::time::timeout(Duration::from_secs(1), exchange(peer, greeting(&hello(&node).await)));
            if asked.await.is_ok_and(|frame| frame.is_some()) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), let_in).await.expect("a peer is let in");
    drop(silent);
    node.server.stop().await.unwrap();
}
