//! What holds for every route and every method, whatever it does. The tables of the code are walked, so a new route is
//! looked at by itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;

use orbit_node::gateway::http::route::{ROUTES, Route, Takes};
use prost::Message;
use prost_types::FileDescriptorSet;
use support::{Answer, Ask, Ended, Node, frame, raw_call};

/// The route with something in place of its names.
fn target(route: &Route) -> String {
    let part = |part: &str| match part.strip_prefix('{').and_then(|part| part.split_once('}')) {
        Some((_, behind)) => format!("some-thing{behind}"),
        None => part.to_owned(),
    };
    route.path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn ask(route: &Route) -> Ask {
    Ask::new(route.method, &target(route))
}

async fn expect(node: &Node, what: &str, request: Ask, status: u16, code: &str) -> Answer {
    let answer = node.ask(request).await;
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{what}: {}", answer.text());
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_what_is_not_for_it() {
    let node = Node::start().await;
    for route in ROUTES {
        let what = |fault: &str| format!("{} {}: {fault}", route.method, route.path);
        let patch = Ask::new("PATCH", &target(route));
        let answer = expect(&node, &what("another method"), patch, 405, "METHOD_NOT_ALLOWED").await;
        let allowed: BTreeSet<_> = answer.headers["allow"].split(',').collect();
        assert!(allowed.contains(route.method) && !allowed.contains("PATCH"), "{}: {allowed:?}", route.path);

        let odd = Ask::new(route.method, &format!("{}?colour=red", target(route)));
        let odd = if route.takes == Takes::Document { odd.json("{}") } else { odd };
        let answer = expect(&node, &what("an unknown parameter"), odd, 400, "INVALID_REQUEST").await;
        assert!(answer.text().contains("colour"), "{}", answer.text());

        let host = ask(route).header("host", "evil.example");
        expect(&node, &what("a foreign host"), host, 403, "FORBIDDEN").await;
        let origin = ask(route).header("origin", "https://evil.example");
        expect(&node, &what("a foreign page"), origin, 403, "FORBIDDEN").await;
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_body_is_looked_at() {
    let node = Node::start().await;
    for route in ROUTES.iter().filter(|route| route.takes != Takes::Nothing) {
        let what = |fault: &str| format!("{} {}: {fault}", route.method, route.path);
        for media_type in ["text/plain", "text/yaml", "", "application/json; charset=latin1", "multipart/form-data"] {
            let text = ask(route).body(media_type, "{}");
            expect(&node, &what(media_type), text, 415, "UNSUPPORTED_MEDIA_TYPE").await;
        }
        if route.takes != Takes::Document {
            let yaml = ask(route).body("application/yaml", "{}");
            expect(&node, &what("YAML"), yaml, 415, "UNSUPPORTED_MEDIA_TYPE").await;
        }
        let packed = ask(route).json("{}").header("content-encoding", "gzip");
        expect(&node, &what("a compressed body"), packed, 415, "UNSUPPORTED_MEDIA_TYPE").await;

        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(4 << 20));
        expect(&node, &what("a long body"), ask(route).json(&long), 413, "PAYLOAD_TOO_LARGE").await;
        let endless = ask(route).json("").header("content-length", "99999999999");
        expect(&node, &what("an endless body"), endless, 413, "PAYLOAD_TOO_LARGE").await;
        let chunk = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
        let chunked = ask(route).body("application/json", chunk).header("transfer-encoding", "chunked");
        expect(&node, &what("a long body of unknown length"), chunked, 413, "PAYLOAD_TOO_LARGE").await;

        for body in [&b"{"[..], b"[]", b"null", b"\"text\"", b"{\"a\": \"\xff\"}", b"{} {}", b"\0", b"{\"a\": 1,}"] {
            let shown = String::from_utf8_lossy(body).into_owned();
            let answer = node.ask(ask(route).body("application/json", body)).await;
            let code = answer.code();
            let expected: &[(u16, &str)] = match route.takes {
                Takes::Document => &[(400, "INVALID_IR"), (400, "INVALID_REQUEST")],
                // These are payloads, for an execution that is not there.
                Takes::Payload if [&b"[]"[..], b"null", b"\"text\""].contains(&body) => &[(404, "NOT_FOUND")],
                _ => &[(400, "INVALID_REQUEST")],
            };
            assert!(expected.contains(&(answer.status, code.as_str())), "{}: {code}", what(&shown));
        }
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_are_refused_by_name_except_from_workers() {
    let node = Node::start().await;
    for route in ROUTES {
        let answer = match route.takes {
            Takes::Json | Takes::WorkerJson => node.ask(ask(route).json("{\"colour\": \"red\"}")).await,
            _ => continue,
        };
        let refused = answer.text().contains("unknown field `colour`");
        assert_eq!(refused, route.takes == Takes::Json, "{} {}: {}", route.method, route.path, answer.text());
        if refused {
            assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_REQUEST"));
            let known = ["expected `", "expected one of `", "there are no fields"];
            let names_the_known = known.iter().any(|known| answer.text().contains(known));
            assert!(names_the_known, "{} {}: {}", route.method, route.path, answer.text());
        }
        let twice =
            node.ask(ask(route).json("{\"token\": \"a\", \"token\": \"b\", \"reason\": \"\", \"reason\": \"\"}")).await;
        assert_eq!((twice.status, twice.code().as_str()), (400, "INVALID_REQUEST"), "{}", route.path);
    }
    node.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_and_every_answer_is_stamped() {
    let node = Node::start().await;
    for path in
        ["/", "/v1", "/v2/health", "/v1/executions/", "/v1/executions/a/b/c", "/v1/Health", "/../etc/passwd", "/ui"]
    {
        expect(&node, path, Ask::new("GET", path), 404, "NOT_FOUND").await;
    }
    expect(&node, "no UTF-8", Ask::new("GET", "/v1/executions/%ff"), 400, "INVALID_REQUEST").await;
    expect(&node, "OPTIONS of a browser", Ask::new("OPTIONS", "/v1/executions"), 405, "METHOD_NOT_ALLOWED").await;
    let health = node.ask(Ask::new("GET", "/v1/health")).await;
    health.is_stamped();
    assert_eq!((health.status, health.json()["api_version"].as_str()), (200, Some("orbit-api/1")));
    let head = node.ask(Ask::new("HEAD", "/v1/health")).await;
    head.is_stamped();
    assert_eq!((head.status, head.body.len()), (200, 0));
    let metrics = node.ask(Ask::new("GET", "/v1/metrics")).await;
    assert!(
        metrics.text().contains("orbit_http_requests_total{route=\"/v1/health\",status=\"200\"} 1"),
        "{}",
        metrics.text()
    );
    assert!(!metrics.text().contains("passwd"), "what callers make up is no label");
    node.server.stop().await.unwrap();
}

/// The reference of the API.
const REFERENCE: &str = include_str!("../../docs/api.md");

#[test]
fn the_reference_has_a_section_for_every_route_and_for_no_other() {
    let sections: Vec<_> = REFERENCE.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let routes: Vec<_> = ROUTES.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    for route in &routes {
        let count = sections.iter().filter(|section| *section == route).count();
        assert_eq!(count, 1, "docs/api.md has {count} sections \"### `{route}`\"");
    }
    let gone: Vec<_> = sections.iter().filter(|section| !routes.iter().any(|route| route == *section)).collect();
    assert!(gone.is_empty(), "docs/api.md tells of routes that are not there: {gone:?}");
}

/// Bodies and answers over HTTP have the names of gRPC, so this is about both.
#[test]
fn the_reference_names_every_method_and_every_field() {
    let set = FileDescriptorSet::decode(orbit_proto::DESCRIPTORS).unwrap();
    let public = |package: &str| ["orbit.api.v1", "orbit.worker.v1"].contains(&package);
    let mut names = BTreeSet::new();
    for file in set.file.iter().filter(|file| public(file.package())) {
        let methods = file.service.iter().flat_map(|service| &service.method);
        names.extend(methods.map(|method| method.name().to_owned()));
        let fields = file.message_type.iter().flat_map(|message| &message.field);
        names.extend(fields.map(|field| field.name().to_owned()));
    }
    let told = |name: &str| [format!("`{name}`"), format!("`{name}?`")].iter().any(|name| REFERENCE.contains(name));
    let missing: Vec<_> = names.iter().filter(|name| !told(name)).collect();
    assert!(missing.is_empty() && names.len() > 50, "docs/api.md does not name {missing:?}");
}

#[test]
fn no_two_routes_are_the_same() {
    let all: BTreeSet<_> = ROUTES.iter().map(|route| (route.method, route.path)).collect();
    assert_eq!(all.len(), ROUTES.len());
    let operations: BTreeSet<_> = ROUTES.iter().map(|route| route.operation).collect();
    assert_eq!(operations.len(), ROUTES.len());
}

/// `/package.Service/Method` of all that the node serves to others than nodes.
fn methods() -> Vec<String> {
    let set = FileDescriptorSet::decode(orbit_proto::DESCRIPTORS).unwrap();
    let mut methods = Vec::new();
    for file in set.file.iter().filter(|file| file.package() != "orbit.peer.v1") {
        for service in &file.service {
            let name = |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
            methods.extend(service.method.iter().map(|method| name(method.name())));
        }
    }
    assert!(methods.iter().any(|method| method == "/orbit.worker.v1.WorkerService/Work"), "{methods:?}");
    methods
}

fn refused(code: tonic::Code, orbit: &str) -> Ended {
    Ended { code, orbit: Some(orbit.to_owned()), reason: Some(orbit.to_owned()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_refuses_what_is_no_message() {
    let node = Node::start().await;
    let mut channel = node.grpc().await;
    let invalid = || refused(tonic::Code::InvalidArgument, "INVALID_REQUEST");
    for method in methods() {
        let cases = [
            ("a frame cut off", frame(0, 100, b"\x0a\x01a"), invalid()),
            ("half a head", vec![0, 0, 0], invalid()),
            // Field 1 as bytes that go on beyond the end.
            ("a message that lies about a length", frame(0, 3, b"\x0a\x7fa"), invalid()),
            ("a group that never ends", frame(0, 2, b"\x7b\x7b"), invalid()),
            (
                "a message of 5 MiB",
                frame(0, 5 << 20, &vec![0; 5 << 20]),
                refused(tonic::Code::OutOfRange, "PAYLOAD_TOO_LARGE"),
            ),
            ("a length of 4 GiB", frame(0, u32::MAX, b"abc"), refused(tonic::Code::OutOfRange, "PAYLOAD_TOO_LARGE")),
            ("an unknown flag", frame(7, 0, b""), invalid()),
            ("a compressed message", frame(1, 3, b"abc"), invalid()),
        ];
        for (what, body, expected) in cases {
            assert_eq!(raw_call(&mut channel, &method, body, &[]).await, expected, "{method}: {what}");
        }
        let foreign = raw_call(&mut channel, &method, frame(0, 0, b""), &[("origin", "https://evil.example")]).await;
        assert_eq!(foreign, refused(tonic::Code::PermissionDenied, "FORBIDDEN"), "{method}: a foreign page");
        let foreign = raw_call(&mut channel, &method, frame(0, 0, b""), &[("host", "evil.example")]).await;
        assert_eq!(foreign, refused(tonic::Code::PermissionDenied, "FORBIDDEN"), "{method}: a foreign host");
    }
    for method in ["/orbit.worker.v1.WorkerService/Fly", "/orbit.none.v1.None/Poll", "/", "/v1/health"] {
        let unknown = raw_call(&mut channel, method, frame(0, 0, b""), &[]).await;
        assert_eq!(unknown, refused(tonic::Code::Unimplemented, "METHOD_NOT_ALLOWED"), "{method}");
    }
    let health = node.ask(Ask::new("GET", "/v1/health")).await;
    assert_eq!(health.status, 200, "the node is as it was");
    node.server.stop().await.unwrap();
}

/// What a client learns of a node by one of the two forms of reflection, which differ in nothing but the name.
macro_rules! reflected {
    ($form:ident, $node:expr) => {{
        use tonic_reflection::pb::$form::ServerReflectionRequest;
        use tonic_reflection::pb::$form::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$form::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$form::server_reflection_response::MessageResponse;
        let mut client = ServerReflectionClient::new($node.grpc().await);
        let ask = |what| ServerReflectionRequest { host: String::new(), message_request: Some(what) };
        let symbol = "orbit.worker.v1.WorkerService".to_owned();
        let asked =
            [ask(MessageRequest::ListServices(String::new())), ask(MessageRequest::FileContainingSymbol(symbol))];
        let mut answers = client.server_reflection_info(tokio_stream::iter(asked)).await.unwrap().into_inner();
        let mut next = async || answers.message().await.unwrap().unwrap().message_response;
        let Some(MessageResponse::ListServicesResponse(list)) = next().await else { panic!("a list") };
        let Some(MessageResponse::FileDescriptorResponse(files)) = next().await else { panic!("a file") };
        let services: BTreeSet<String> = list.service.into_iter().map(|service| service.name).collect();
        (services, files.file_descriptor_proto)
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_answers_in_both_of_its_forms() {
    let node = Node::start().await;
    let (newer, older) = (reflected!(v1, node), reflected!(v1alpha, node));
    for (services, file) in [&newer, &older] {
        let served = [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "orbit.api.v1.OrbitService",
            "orbit.worker.v1.WorkerService",
        ];
        assert_eq!(*services, served.map(str::to_owned).into(), "and not what only nodes ask of each other");
        let file = prost_types::FileDescriptorProto::decode(file[0].as_slice()).unwrap();
        assert_eq!(file.name(), "orbit/worker/v1/worker.proto");
    }
    node.server.stop().await.unwrap();
}
