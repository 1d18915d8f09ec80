//! No release takes back what an earlier one promised: the `.proto` files against the golden list of all promises.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod promises;

use std::path::Path;

use orbit_proto::DESCRIPTORS;
use promises::{Promises, broken, compatible, promises};
use prost::Message;

/// `UPDATE_GOLDEN=1` adds promises that are missing; nothing but a person takes one back.
#[test]
fn the_proto_files_keep_every_promise() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/promises.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let line = |line: &str| line.split_once('\t').map(|(name, promise)| (name.to_owned(), promise.to_owned()));
    let golden: Promises = text.lines().map(|text| line(text).unwrap()).collect();
    let ours = promises(DESCRIPTORS);
    assert_eq!(broken(&golden, &ours), Vec::<String>::new());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let lines: String = ours.iter().map(|(name, promise)| format!("{name}\t{promise}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        return;
    }
    let new: Vec<_> = ours.keys().filter(|name| !golden.contains_key(*name)).collect();
    assert!(new.is_empty(), "new: UPDATE_GOLDEN=1 writes them down: {new:#?}");
}

#[test]
fn the_descriptors_hold_every_file_and_no_comments() {
    let set = prost_types::FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let mut packages: Vec<_> = set.file.iter().map(|file| file.package()).collect();
    packages.sort_unstable();
    assert_eq!(
        packages,
        ["api", "engine", "history", "node", "peer", "store", "worker"].map(|name| format!("orbit.{name}.v1"))
    );
    assert!(set.file.iter().all(|file| file.source_code_info.is_none()));
}

/// The descriptors of one file.
fn descriptors(body: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.proto"), format!("syntax = \"proto3\";\npackage a;\n{body}")).unwrap();
    protox::compile(["a.proto"], [directory.path()]).unwrap().encode_to_vec()
}

const OLD: &str = "
    message Ask { reserved 7; string key = 1; optional uint32 limit = 2; oneof kind { bool all = 3; Ask inner = 4; } }
    message Answer {
        repeated bytes rows = 1; map<string, uint64> counts = 2; enum How { NO = 0; YES = 1; } How how = 3;
    }
    enum Mood { UNKNOWN = 0; GOOD = 1; }
    service Desk { rpc Get(Ask) returns (Answer); rpc Watch(Ask) returns (stream Answer); }";

/// What is broken when `from` becomes `to` in the old file.
fn broken_by(from: &str, to: &str) -> Vec<String> {
    assert_eq!(OLD.matches(from).count(), 1, "{from}");
    compatible(&descriptors(OLD), &descriptors(&OLD.replace(from, to)))
}

#[test]
fn what_is_only_added_breaks_nothing() {
    assert_eq!(compatible(&descriptors(OLD), &descriptors(OLD)), Vec::<String>::new());
    let more = [
        ("string key = 1;", "string key = 1; string more = 5;"),
        ("Ask inner = 4;", "Ask inner = 4; uint32 page = 6;"),
        ("GOOD = 1;", "GOOD = 1; BAD = 2;"),
        ("rpc Get", "rpc Put(Ask) returns (Answer); rpc Get"),
        ("enum Mood", "message Another {} enum Mood"),
        ("reserved 7;", "reserved 7, 8;"),
    ];
    for (from, to) in more {
        assert_eq!(broken_by(from, to), Vec::<String>::new(), "{to}");
    }
}

#[test]
fn every_broken_promise_is_listed() {
    let cases = [
        ("string key = 1;", "", "a.Ask.key: removed"),
        ("string key = 1;", "reserved 1;", "a.Ask.key: removed"),
        ("string key = 1;", "string key = 9;", "a.Ask.key: was `string = 1`, is `string = 9`"),
        ("string key = 1;", "bytes key = 1;", "a.Ask.key: was `string = 1`, is `bytes = 1`"),
        ("string key = 1;", "string name = 1;", "a.Ask.key: removed"),
        ("string key = 1;", "repeated string key = 1;", "a.Ask.key: was `string = 1`, is `repeated string = 1`"),
        ("optional uint32", "uint32", "a.Ask.limit: was `optional uint32 = 2`, is `uint32 = 2`"),
        ("bool all = 3;", "", "a.Ask.all: removed"),
        ("reserved 7;", "bool again = 7;", "a.Ask.7: removed"),
        ("<string, uint64>", "<string, int64>", "a.Answer.CountsEntry.value: was `uint64 = 2`, is `int64 = 2`"),
        ("How how = 3;", "Mood how = 3;", "a.Answer.how: was `a.Answer.How = 3`, is `a.Mood = 3`"),
        ("YES = 1;", "", "a.Answer.How.YES: removed"),
        ("GOOD = 1;", "GOOD = 2;", "a.Mood.GOOD: was `= 1`, is `= 2`"),
        ("rpc Get(Ask) returns (Answer);", "", "a.Desk.Get: removed"),
        (
            "(stream Answer)",
            "(Answer)",
            "a.Desk.Watch: was `rpc (a.Ask) returns (stream a.Answer)`, is `rpc (a.Ask) returns (a.Answer)`",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(broken_by(from, to), [expected], "{to}");
    }
}

#[test]
fn a_removed_message_enum_or_service_is_listed_with_all_that_was_in_it() {
    let service = "service Desk { rpc Get(Ask) returns (Answer); rpc Watch(Ask) returns (stream Answer); }";
    assert_eq!(broken_by(service, ""), ["a.Desk: removed", "a.Desk.Get: removed", "a.Desk.Watch: removed"]);
    let mood = "enum Mood { UNKNOWN = 0; GOOD = 1; }";
    assert_eq!(broken_by(mood, ""), ["a.Mood: removed", "a.Mood.GOOD: removed", "a.Mood.UNKNOWN: removed"]);
    let (old, new) = (descriptors("message A { message B { bool c = 1; } }"), descriptors("message A {}"));
    assert_eq!(compatible(&old, &new), ["a.A.B: removed", "a.A.B.c: removed"]);
}

#[test]
fn the_proto_files_keep_what_each_release_promised() {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat");
    let mut releases = 0;
    for version in std::fs::read_dir(compat).unwrap() {
        let path = version.unwrap().path().join("descriptor.binpb");
        let old = std::fs::read(&path).unwrap();
        assert_eq!(compatible(&old, DESCRIPTORS), Vec::<String>::new(), "{}", path.display());
        releases += 1;
    }
    assert!(releases > 0);
}
