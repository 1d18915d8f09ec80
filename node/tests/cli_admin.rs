//! `orbit admin check`, against a server that answers as the API says.

#![allow(clippy::expect_used)]

mod fake;

use fake::{Fake, ok, refusal};

const HEALTH: &str = r#"{"status":"ok","shards":[{"id":0,"role":"leader"},{"id":1,"role":"follower"}]}"#;

const CLEAN: &str = concat!(
    r#"{"findings_total":0,"shards":[{"shard":0,"node":1,"index":9,"executions":3,"runs":3,"events":20,"rows":40,"#,
    r#""findings":[],"findings_total":0,"replicas":[{"node":1,"name":"a","hash":"0f"},"#,
    r#"{"node":2,"name":"b","not_compared":"it does not answer"}]}]}"#,
);

const FOUND: &str = concat!(
    r#"{"findings_total":3,"shards":[{"shard":1,"node":1,"index":9,"executions":1,"runs":1,"events":5,"rows":9,"#,
    r#""findings":[{"rule":"timers","execution_id":"e1","run":1,"place":"timer x","found":"no row","#,
    r#""expected":"a row","advice":"look at it"},{"rule":"replicas","place":"node 2 (b)","found":"hash 1","#,
    r#""expected":"hash 2","advice":"replace it"}],"findings_total":3,"#,
    r#""replicas":[{"node":1,"name":"a","hash":"02"},{"node":2,"name":"b","hash":"01"}]}]}"#,
);

fn server(second: &'static str) -> Fake {
    Fake::new(move |seen| match (seen.method.as_str(), seen.path.as_str(), seen.body.as_str()) {
        ("GET", "/v1/health", _) => ok(HEALTH),
        ("POST", "/v1/admin/check", r#"{"shard":0}"#) => ok(CLEAN),
        ("POST", "/v1/admin/check", r#"{"shard":1}"#) => ok(second),
        _ => refusal(404, "NOT_FOUND", "no such route"),
    })
}

const FIRST: &str = concat!(
    "1 of 2: shard 0, 3 executions, 20 events, 1 of 2 replicas compared, 0 findings; ",
    "node 2 was not compared: it does not answer\n",
);

#[test]
fn each_shard_is_told_and_nothing_found_is_good() {
    let server = server(CLEAN);
    let (out, err, code) = server.orbit(&["admin", "check"]);
    assert_eq!((out.as_str(), code), ("everything is as it must be\n", 0), "{err}");
    assert!(err.starts_with(FIRST), "{err}");
    let (_, _, code) = server.orbit(&["admin", "check", "--shard", "0"]);
    assert_eq!(code, 0);
    assert_eq!(server.seen().len(), 4, "one shard needs no list of them");
    assert_eq!(server.orbit(&["admin", "check", "--shard", "7"]).2, 1, "there is none");
}

#[test]
fn findings_are_a_table_with_what_to_do_and_an_exit_code() {
    let (out, err, code) = server(FOUND).orbit(&["admin", "check"]);
    let table = "SHARD  RULE      EXECUTION  RUN  PLACE       FOUND
1      timers    e1         1    timer x     no row; expected: a row
1      replicas                  node 2 (b)  hash 1; expected: hash 2
timers: look at it
replicas: replace it
and 1 more
";
    assert_eq!((out.as_str(), code), (table, 1), "{err}");
    assert!(err.contains("FINDINGS: 3 findings"), "{err}");
    let (out, _, code) = server(FOUND).orbit(&["admin", "check", "--output", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((report["findings_total"].as_u64(), report["shards"][1]["shard"].as_u64(), code), (Some(3), Some(1), 1));
    assert_eq!(report["shards"][0]["replicas"][1]["not_compared"], "it does not answer");
}
