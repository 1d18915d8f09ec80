use serde_json::{Value, json};

use super::*;

fn call(accept: &[u16]) -> Call {
    Call {
        method: http::Method::GET,
        url: "https://a.example/x?token=private".parse().unwrap(),
        headers: http::HeaderMap::new(),
        secrets: Vec::new(),
        body: bytes::Bytes::new(),
        timeout: Duration::from_secs(1),
        accept: accept.to_vec(),
    }
}

fn answer(status: u16, headers: &[(&str, &str)], body: Option<&[u8]>) -> Answer {
    Answer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: body.map(<[u8]>::to_vec),
        too_many_redirects: false,
    }
}

fn of(answer: &Answer, accept: &[u16]) -> Result<Value, Failure> {
    let outcome = outcome(answer, &call(accept), &Redactor::default(), SystemTime::UNIX_EPOCH);
    outcome.map(|payload| serde_json::from_str(payload.as_str()).unwrap())
}

fn body(media_type: &str, bytes: &[u8]) -> Value {
    let mut output = of(&answer(200, &[("content-type", media_type)], Some(bytes)), &[]).unwrap();
    output["headers"].take();
    output
}

#[test]
fn a_body_is_json_when_it_says_so_and_is() {
    let of = |body: Value| json!({"status": 200, "headers": null, "body": body});
    for media_type in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json", "text/json"] {
        assert_eq!(body(media_type, br#"{"a": [1, null]}"#), of(json!({"a": [1, null]})), "{media_type}");
    }
    assert_eq!(body("text/plain", b"[1]"), of(json!("[1]")));
    assert_eq!(body("application/json", b"[1"), of(json!("[1")), "what is none stays a text");
    assert_eq!(body("application/json", b""), of(json!(null)));
    assert_eq!(body("application/json", "\u{feff}[1]".as_bytes()), of(json!([1])));
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    assert_eq!(body("application/json", deep.as_bytes()), of(json!(deep)), "deeper than a payload may be");
    let gzip = [0x1f, 0x8b, 8, 0, 0xff];
    let output = body("application/json", &gzip);
    assert_eq!(output["body"], STANDARD.encode(gzip), "nothing is decompressed");
    assert_eq!(output["encoding"], "base64");
}

#[test]
fn no_digit_of_a_number_is_lost() {
    let answer = answer(200, &[("content-type", "application/json")], Some(b"[12345678901234567890123, 1.10]"));
    let output = outcome(&answer, &call(&[]), &Redactor::default(), SystemTime::UNIX_EPOCH).unwrap();
    assert!(output.as_str().contains("[12345678901234567890123, 1.10]"), "{}", output.as_str());
}

#[test]
fn a_status_from_400_on_fails_unless_it_is_accepted() {
    for (status, retryable) in [
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (409, false),
        (422, false),
        (408, true),
        (425, true),
        (429, true),
        (500, true),
        (501, true),
        (502, true),
        (503, true),
        (504, true),
        (599, true),
    ] {
        let Failure { error, unknown } = of(&answer(status, &[], Some(b"no")), &[]).unwrap_err();
        assert_eq!((error.code.as_str(), error.retryable, unknown), ("HTTP_ERROR", retryable, false), "{status}");
        let details: Value = serde_json::from_str(error.details.unwrap().as_str()).unwrap();
        assert_eq!(details, json!({"status": status, "headers": {}, "body": "no"}));
        assert!(error.message.starts_with(&format!("GET https://a.example/x answered {status}")), "{}", error.message);
        assert_eq!(of(&answer(status, &[], Some(b"no")), &[status]).unwrap()["status"], status);
    }
    for status in [200, 201, 204, 301, 304, 399] {
        assert!(of(&answer(status, &[], Some(b"")), &[]).is_ok(), "{status}");
    }
    let astray = Answer { too_many_redirects: true, ..answer(302, &[("location", "/")], Some(b"")) };
    let Failure { error, .. } = of(&astray, &[]).unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("HTTP_ERROR", false));
}

#[test]
fn a_body_that_is_too_long_fails_an_answer_that_was_good_and_is_left_out_of_one_that_was_not() {
    let Failure { error, .. } = of(&answer(200, &[], None), &[]).unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("PAYLOAD_TOO_LARGE", false));
    assert!(TaskError::leaves_outcome_unknown(&error.code));
    let Failure { error, .. } = of(&answer(503, &[], None), &[]).unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("HTTP_ERROR", true), "the status counts");
    let details: Value = serde_json::from_str(error.details.unwrap().as_str()).unwrap();
    assert_eq!(details, json!({"status": 503, "headers": {}, "body": null, "body_omitted": true}));
}

#[test]
fn a_server_says_in_seconds_or_by_its_own_clock_when_to_come_again() {
    let wait = |status, headers: &[(&str, &str)]| {
        let details = of(&answer(status, headers, Some(b"")), &[]).unwrap_err().error.details.unwrap();
        serde_json::from_str::<Value>(details.as_str()).unwrap()["retry_after_ms"].as_u64()
    };
    let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
    assert_eq!(wait(429, &[("retry-after", "120")]), Some(120_000));
    assert_eq!(wait(503, &[date, ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")]), Some(30_000));
    assert_eq!(wait(503, &[date, ("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT")]), Some(0));
    assert_eq!(wait(503, &[("retry-after", "Thu, 01 Jan 1970 00:00:07 GMT")]), Some(7_000), "by the node's clock");
    assert_eq!(wait(503, &[("retry-after", "99999999999999999999999")]), None);
    assert_eq!(wait(503, &[("retry-after", "soon")]), None);
    assert_eq!(wait(503, &[("retry-after", "-5")]), None);
    assert_eq!(wait(404, &[("retry-after", "120")]), None, "it is not tried again");
}
