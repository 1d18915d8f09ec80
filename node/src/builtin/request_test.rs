use serde_json::json;

use super::*;

fn task(input: &Value) -> Task {
    Task {
        token: "t".into(),
        execution_id: "x".into(),
        run: 1,
        workflow: "w".into(),
        workflow_version: "1.0.0".into(),
        step_id: "s".into(),
        task_name: "orbit.http.request".into(),
        contract_version: String::new(),
        input: workflow::value::Payload::parse(&input.to_string()).unwrap(),
        idempotency_key: "0123abcd".into(),
        attempt: 1,
        redelivery: false,
        deadline_ms: None,
        timeout_ms: None,
        heartbeat_timeout_ms: None,
        last_heartbeat_details: None,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    }
}

fn call(input: Value) -> Call {
    Call::of(&task(&input)).unwrap()
}

fn fault(input: &Value) -> String {
    let failure = Call::of(&task(input)).expect_err(&input.to_string());
    assert_eq!((failure.error.code.as_str(), failure.error.retryable), ("INPUT_CONTRACT_VIOLATION", false));
    failure.error.message
}

fn url_of(url: &str) -> String {
    call(json!({"method": "GET", "url": url})).url.to_string()
}

#[test]
fn a_request_is_what_the_document_says_with_the_key_of_its_unit() {
    let call = call(json!({
        "method": "post", "url": "https://a.example/x?a=1#part", "query": {"b": ["2 3", 4], "c": true, "d": null},
        "headers": {"X-One": "1", "x-two": 2, "x-none": null, "Authorization": {"secret": "stripe"}},
        "body": {"n": 12345678901234567890_u64}, "timeout": "1m30s", "accept": [404],
    }));
    assert_eq!(call.method, Method::POST);
    assert_eq!(call.url.as_str(), "https://a.example/x?a=1&b=2+3&b=4&c=true");
    assert_eq!(call.headers["idempotency-key"], "0123abcd");
    assert_eq!(call.headers["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!((&call.headers["x-one"], &call.headers["x-two"]), (&"1".parse().unwrap(), &"2".parse().unwrap()));
    assert_eq!(call.headers["content-type"], "application/json");
    assert!(!call.headers.contains_key("x-none") && !call.headers.contains_key("authorization"));
    assert_eq!(call.secrets, [(header::AUTHORIZATION, "stripe".to_owned())]);
    assert_eq!(call.body, r#"{"n":12345678901234567890}"#, "no digit is lost");
    assert_eq!(call.timeout, Duration::from_secs(90));
    assert!(call.accepts(StatusCode::NOT_FOUND) && call.accepts(StatusCode::FOUND) && !call.accepts(StatusCode::GONE));
}

#[test]
fn a_text_is_sent_as_it_is_and_nothing_as_nothing() {
    let sent = |body: Value| {
        let call = call(json!({"method": "POST", "url": "http://a.example", "body": body}));
        (call.body, call.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned()))
    };
    assert_eq!(sent(json!("a \"b\"\n")), (Bytes::from("a \"b\"\n"), Some("text/plain; charset=utf-8".into())));
    assert_eq!(sent(json!([1])), (Bytes::from("[1]"), Some("application/json".into())));
    assert_eq!(sent(json!(null)), (Bytes::new(), None));
    let typed =
        json!({"method": "PUT", "url": "http://a.example", "body": "<a/>", "headers": {"Content-Type": "text/xml"}});
    assert_eq!(call(typed).headers["content-type"], "text/xml");
}

#[test]
fn a_step_with_a_timeout_has_that_and_no_other() {
    let bare = json!({"method": "GET", "url": "http://a.example"});
    assert_eq!(Call::of(&task(&bare)).unwrap().timeout, TIMEOUT);
    let step = Task { timeout_ms: Some(120_000), ..task(&bare) };
    assert!(Call::of(&step).unwrap().timeout > Duration::from_millis(120_000), "the engine ends it first");
}

/// What somebody who may write documents could try: other protocols, requests within requests, other hosts.
#[test]
fn what_is_more_than_a_request_is_refused() {
    let get = |url: &str| json!({"method": "GET", "url": url});
    for (url, says) in [
        ("file:///etc/passwd", "begins with file:"),
        ("ftp://a.example/", "begins with ftp:"),
        ("gopher://a.example:25/x", "begins with gopher:"),
        ("unix:/run/docker.sock", "begins with unix:"),
        ("data:text/plain,x", "begins with data:"),
        ("javascript:alert(1)", "begins with javascript:"),
        ("/relative", "is no URL"),
        ("", "is no URL"),
        ("http://", "is no URL"),
        ("http://user@a.example/", "has a user or a password"),
        ("http://user:secret@a.example/", "has a user or a password"),
        ("http://a.example:0/", "has no host and port"),
        ("http://a.example:99999/", "is no URL"),
        ("http://[fe80::1%25eth0]/", "is no URL"),
        ("http://[fe80::1%eth0]/", "is no URL"),
        ("http://a b.example/", "is no URL"),
        ("http://a\u{0}b/", "is no URL"),
        ("http://1.2.3.4.5/", "is no URL"),
    ] {
        let fault = fault(&get(url));
        assert!(fault.contains(says), "{url}: {fault}");
    }
    assert!(fault(&get(&format!("http://a.example/{}", "x".repeat(URL_BYTES_MAX)))).contains("longer than"));
    for method in ["CONNECT", "TRACE", "GET /x HTTP/1.1\r\nhost: b", "", "BREW"] {
        assert!(fault(&json!({"method": method, "url": "http://a.example"})).contains("`method`"), "{method}");
    }
    for name in RESERVED.iter().copied().chain(["Host", "IDEMPOTENCY-KEY", "Transfer-Encoding"]) {
        let message = fault(&json!({"method": "GET", "url": "http://a.example", "headers": {name: "x"}}));
        assert!(message.contains("is set by Orbit itself"), "{name}: {message}");
    }
    for headers in [
        json!({"a b": "x"}),
        json!({"": "x"}),
        json!({"a\r\nb": "x"}),
        json!({"a:": "x"}),
        json!({"a": "x\r\nhost: b"}),
        json!({"a": "x\ny"}),
        json!({"a": "x\u{0}"}),
        json!({"a": ["x"]}),
        json!({"a": {"secret": "../../etc/passwd"}}),
        json!({"a": {"secret": ".hidden"}}),
        json!({"a": {"secret": ""}}),
        json!({"a": {"secret": 1}}),
        json!({"a": {"secret": "x", "prefix": "y"}}),
        json!({"a": {}}),
        json!({"Aa": "x", "aA": "y"}),
        json!({"a": "x".repeat(HEADER_BYTES_MAX)}),
        Value::Object((0..=HEADERS_MAX).map(|n| (format!("x-{n}"), json!("x"))).collect()),
    ] {
        let message = fault(&json!({"method": "GET", "url": "http://a.example", "headers": headers}));
        assert!(message.starts_with("`headers"), "{headers}: {message}");
    }
}

#[test]
fn what_has_another_form_is_refused_with_its_field() {
    let get = |url: &str| json!({"method": "GET", "url": url});
    for (field, value) in [
        ("timeout", json!("2h")),
        ("timeout", json!(0)),
        ("timeout", json!("soon")),
        ("accept", json!([200])),
        ("accept", json!([600])),
        ("accept", json!((0..=ACCEPT_MAX).map(|_| 404).collect::<Vec<_>>())),
        ("query", json!({"a": {"b": 1}})),
        ("proxy", json!("http://b.example")),
    ] {
        let mut input = get("http://a.example");
        input[field] = value;
        assert!(fault(&input).contains(field), "{input}");
    }
    for input in [json!(null), json!([]), json!("x"), json!({}), json!({"method": "GET"})] {
        fault(&input);
    }
}

/// Every spelling of an address is the address: what is checked is what is connected to.
#[test]
fn a_host_is_read_as_browsers_read_it() {
    for spelt in [
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://１２７.０.０.１/",
        "http://0x7f.1/",
    ] {
        assert_eq!(url_of(spelt), "http://127.0.0.1/", "{spelt}");
    }
    assert_eq!(url_of("http://[::ffff:127.0.0.1]/"), "http://[::ffff:7f00:1]/");
    assert_eq!(url_of("http://a.example\\@b.example/"), "http://a.example/@b.example/");
    assert_eq!(url_of("http://EXAMPLE.com:80/"), "http://example.com/");
    assert_eq!(url_of("http:\\\\a.example"), "http://a.example/");
}
