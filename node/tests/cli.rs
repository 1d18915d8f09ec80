//! The binary as its users call it: what it prints, where, and how it ends.

#![allow(clippy::expect_used)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

const DOCUMENT: &str = "name: two
version: 1.0.0
tasks:
  a.do: {version: 1.0.0}
  b.do: {version: 1.0.0}
steps:
  - {id: a, task: a.do, retry: {max_attempts: 1}}
  - {id: b, task: b.do, after: [a]}
";

const FAULTY: &str = "name: two
version: 1.0.0
tasks:
  a.do: {version: 1.0.0}
steps:
  - {id: a, task: a.doo}
  - {id: b, compute: \"1 +\", whenn: \"true\"}
";

const CASES: &str = "- name: good
  expect: {status: completed, events: 9}
- name: bad
  mocks: {a.do: {after: 90s, error: {code: E1}}}
  expect: {status: completed, includes: [StepSucceeded b]}
";

/// A directory with these files, in which `orbit` is run.
struct Place(TempDir);

impl Place {
    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        for (name, text) in files {
            let path = place.0.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        place
    }

    /// Runs `orbit`: stdout, stderr, exit code.
    fn orbit(&self, arguments: &[&str]) -> (String, String, i32) {
        let output = Command::new(orbit()).current_dir(self.0.path()).args(arguments).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (text(output.stdout), text(output.stderr), output.status.code().expect("an exit code"))
    }
}

fn orbit() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_orbit"))
}

#[test]
fn version_names_itself() {
    let (out, err, code) = Place::with(&[]).orbit(&["--version"]);
    assert!(out.starts_with(concat!("orbit ", env!("CARGO_PKG_VERSION"))), "{out}");
    assert_eq!((err.as_str(), code), ("", 0));
}

#[test]
fn wrong_usage_ends_with_2() {
    let place = Place::with(&[]);
    for arguments in [&[][..], &["check"], &["test"], &["tset"], &["check", "--output", "xml", "f"]] {
        let (out, err, code) = place.orbit(arguments);
        assert_eq!((out.as_str(), code), ("", 2), "{arguments:?}");
        assert!(err.contains("Usage") || err.contains("--help"), "{err}");
    }
}

#[test]
fn check_shows_what_it_found() {
    let place = Place::with(&[("two.yaml", DOCUMENT)]);
    let (out, err, code) = place.orbit(&["check", "two.yaml"]);
    assert_eq!((err.as_str(), code), ("", 0));
    assert!(out.starts_with("two.yaml: two 1.0.0 sha256:") && out.lines().count() == 1, "{out}");
    let place = Place::with(&[("two.test.yaml", CASES)]);
    let (out, ..) = place.orbit(&["check", "two.test.yaml"]);
    assert_eq!(out, "two.test.yaml: 2 cases\n");
}

#[test]
fn check_shows_every_fault_with_its_place() {
    let place = Place::with(&[("bad.yaml", FAULTY), ("two.yaml", DOCUMENT)]);
    let (out, err, code) = place.orbit(&["check", "bad.yaml", "two.yaml"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("two.yaml: two 1.0.0"), "{out}");
    let faults: Vec<_> = out.lines().filter(|line| line.starts_with("bad.yaml:")).collect();
    assert!(faults.iter().any(|line| line.starts_with("bad.yaml:6:19: /steps/0/task: ")), "{out}");
    assert!(faults.iter().any(|line| line.contains("whenn") && line.contains("did you mean `when`?")), "{out}");
    let sum = format!("error: INVALID_IR: {} faults in 1 file; correct them and try again\n", faults.len());
    assert_eq!(err, sum);
}

#[test]
fn check_puts_children_first_and_sees_what_only_both_show() {
    let parent = "{name: parent, version: 1.0.0, workflows: {child: {version: 1.0.0}}, \
                  steps: [{id: c, workflow: {name: child}}]}";
    let child = "{name: child, version: 1.0.0, tasks: {a.do: {version: 1.0.0}, a.undo: {version: 1.0.0}}, \
                 steps: [{id: a, task: a.do, compensate: {task: a.undo}}]}";
    let place = Place::with(&[("p.yaml", parent), ("c.yml", child)]);
    let (out, err, code) = place.orbit(&["check", "p.yaml", "c.yml"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("c.yml: child 1.0.0") && lines[1].starts_with("p.yaml: parent 1.0.0"), "{out}");
    assert!(lines[2].starts_with("p.yaml: warning: /steps/c: `c` calls child 1.0.0"), "{out}");
}

#[test]
fn check_can_be_read_by_programs() {
    let place = Place::with(&[("two.yaml", DOCUMENT), ("bad.yaml", FAULTY)]);
    let (out, _, code) = place.orbit(&["check", "two.yaml", "bad.yaml", "--output", "json"]);
    assert_eq!(code, 1);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["documents"][0]["name"], "two");
    assert_eq!(json["documents"][0]["file"], "two.yaml");
    assert_eq!(json["faults"][0]["file"], "bad.yaml");
    assert_eq!(json["faults"][0]["line"], 6);
    let (out, ..) = place.orbit(&["check", "two.yaml", "--output", "yaml"]);
    assert!(out.starts_with("documents:\n- file: two.yaml\n  name: two\n  version: \"1.0.0\"\n"), "{out}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let place = Place::with(&[("two.yaml", DOCUMENT), ("two.txt", DOCUMENT), ("dir/x", "")]);
    std::fs::write(place.0.path().join("latin.yaml"), b"name: two\nversion: \xe4").expect("a file");
    for (name, code, said) in [
        ("none.yaml", 2, "error: FILE_NOT_FOUND: there is no none.yaml; check the path\n"),
        ("dir", 2, "error: NOT_A_FILE: dir is a directory; name the files in it\n"),
        (
            "two.txt",
            2,
            "error: UNKNOWN_ENDING: two.txt is neither .yaml, .yml nor .json; give it the ending of what it is\n",
        ),
        ("latin.yaml", 1, "error: INVALID_IR: 1 fault in 1 file; correct them and try again\n"),
    ] {
        let (out, err, came) = place.orbit(&["check", name, "two.yaml"]);
        assert_eq!((err.as_str(), came), (said, code), "{name}");
        assert!(out.contains("two.yaml: two 1.0.0"), "the others are checked all the same: {out}");
    }
    let (out, ..) = place.orbit(&["check", "latin.yaml"]);
    assert_eq!(out, "latin.yaml:2:10: this is no UTF-8; save the file as UTF-8\n");
}

#[test]
fn test_tells_what_came_otherwise() {
    let place = Place::with(&[("two.yaml", DOCUMENT), ("two.test.yaml", CASES)]);
    let golden = "ok   two.test.yaml: good (9 events, 20ms)
FAIL two.test.yaml: bad (8 events, 1m30s)
     status: expected completed, came failed (E1)
     includes: expected \"StepSucceeded b\", in this order, came no such line
       nearest:
               0.000s x StepDispatched a
              90.000s x StepAttemptFailed a E1
              90.000s x StepFailed a E1 handled=false
              90.000s x StepClosing (workflow) failed
              90.000s x WorkflowFailed E1 compensation=none
2 cases of 1 document: 1 passed, 1 failed
";
    for file in ["two.yaml", "two.test.yaml", "."] {
        let (out, err, code) = place.orbit(&["test", file]);
        let out = out.replace("./two", "two");
        assert_eq!(out, golden, "{file}");
        assert_eq!(err, "error: CASES_FAILED: 1 of 2 cases failed; `-v` shows what happened in them\n");
        assert_eq!(code, 1);
    }
}

#[test]
fn test_runs_only_what_is_asked_for_and_shows_the_timeline() {
    let place = Place::with(&[("two.yaml", DOCUMENT), ("two.test.yaml", CASES)]);
    let (out, err, code) = place.orbit(&["test", "-v", "--only", "goo", "two.yaml", "two.test.yaml"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 11, "one file named twice is run once: {out}");
    assert_eq!(lines[1], "        0.000s x WorkflowCreated run=1  input={}");
    assert_eq!(lines[3], "        0.000s x StepScheduled a attempt=1  input={}");
    assert_eq!(lines[9], "        0.020s x WorkflowCompleted  output=null");
    assert_eq!(lines[10], "1 case of 1 document: 1 passed, 0 failed");
}

#[test]
fn test_with_nothing_to_run_is_wrong_usage() {
    let place = Place::with(&[
        ("two.yaml", DOCUMENT),
        ("two.test.yaml", CASES),
        ("alone.yaml", DOCUMENT),
        ("lost/lost.test.yaml", CASES),
        ("empty/x", ""),
    ]);
    for (arguments, said) in [
        (&["none.yaml"][..], "FILE_NOT_FOUND: there is no none.yaml"),
        (&["alone.yaml"], "NO_CASES: alone.yaml has no cases beside it; write them into alone.test.yaml"),
        (&["lost"], "NO_DOCUMENT: the cases lost/lost.test.yaml have no document"),
        (&["empty"], "NO_CASES: there is no case in what was named"),
        (&["two.yaml", "--only", "other"], "NO_CASES: no case has \"other\" in its name"),
    ] {
        let (out, err, code) = place.orbit(&[&["test"], arguments].concat());
        assert_eq!((out.as_str(), code), ("", 2), "{arguments:?}");
        assert!(err.starts_with(&format!("error: {said}")) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn test_shows_faults_of_document_and_cases() {
    let place = Place::with(&[("bad.yaml", FAULTY), ("bad.test.yaml", CASES), ("two.yaml", DOCUMENT)]);
    let (out, err, code) = place.orbit(&["test", "bad.yaml"]);
    assert!(out.starts_with("bad.yaml:6:19: /steps/0/task: "), "{out}");
    assert!(err.starts_with("error: INVALID_IR: "), "{err}");
    assert_eq!(code, 1);
    std::fs::write(place.0.path().join("two.test.yaml"), "- {name: x, expekt: 1}").expect("a file");
    let (out, err, code) = place.orbit(&["test", "two.yaml"]);
    assert!(out.starts_with("two.test.yaml:1:21: /0/expekt: case \"x\": unknown field `expekt`"), "{out}");
    assert_eq!((err.as_str(), code), ("error: INVALID_IR: 1 fault in two.test.yaml; correct them and try again\n", 1));
}

#[test]
fn check_and_test_look_names_up_in_the_document() {
    let cases = "- {name: x, mocks: {a.doo: {}}, expect: {status: completed}}";
    let place = Place::with(&[("two.yaml", DOCUMENT), ("two.test.yaml", cases)]);
    let said = "two.test.yaml:1:21: /0/mocks/a.doo: the workflow uses no task a.doo (did you mean `a.do`?)\n";
    for command in ["check", "test"] {
        let (out, _, code) = place.orbit(&[command, "two.test.yaml"]);
        assert_eq!((out.as_str(), code), (said, 1));
    }
}

#[test]
fn test_notes_a_call_that_no_outcome_fits() {
    let cases = "- {name: x, mocks: {a.do: [{when: call == 2}]}, expect: {status: completed}}";
    let place = Place::with(&[("two.yaml", DOCUMENT), ("two.test.yaml", cases)]);
    let (out, _, code) = place.orbit(&["test", "two.yaml"]);
    let note = "     note: call 1 of a.do matched no outcome of its mock and succeeded with {}";
    assert_eq!((out.lines().nth(1), code), (Some(note), 0));
}

#[test]
fn test_writes_junit_xml() {
    let place = Place::with(&[("two.yaml", DOCUMENT), ("two.test.yaml", CASES)]);
    let (_, _, code) = place.orbit(&["test", "two.yaml", "--junit", "out.xml"]);
    assert_eq!(code, 1);
    let xml = std::fs::read_to_string(place.0.path().join("out.xml")).expect("a file");
    assert!(xml.contains("<testsuites name=\"orbit test\" tests=\"2\" skipped=\"0\" failures=\"1\""), "{xml}");
    assert!(xml.contains("<testcase name=\"good\" classname=\"two.test.yaml\""), "{xml}");
    assert!(xml.contains("<failure message=\"status\">status: expected completed, came failed (E1)"), "{xml}");
    let (_, err, code) = place.orbit(&["test", "two.yaml", "--only", "good", "--junit", "no/out.xml"]);
    assert!(err.starts_with("error: OUTPUT_FAILED: no/out.xml could not be written"), "{err}");
    assert_eq!(code, 1);
}

/// A tool that reads nothing but the file must see that no case of it was run.
#[test]
fn test_writes_cases_that_cannot_be_run_as_an_error() {
    let place = Place::with(&[
        ("dir/two.yaml", DOCUMENT),
        ("dir/two.test.yaml", "- {name: x, expekt: 1}"),
        ("dir/bad.yaml", FAULTY),
        ("dir/bad.test.yaml", CASES),
        ("dir/good.yaml", DOCUMENT),
        ("dir/good.test.yaml", "- {name: good, expect: {status: completed}}"),
    ]);
    std::fs::write(place.0.path().join("latin.test.yaml"), b"- name: \xe4").expect("a file");
    std::fs::write(place.0.path().join("latin.yaml"), DOCUMENT).expect("a file");
    let (_, _, code) = place.orbit(&["test", "dir", "latin.yaml", "none.yaml", "--junit", "out.xml"]);
    assert_eq!(code, 2);
    let xml = std::fs::read_to_string(place.0.path().join("out.xml")).expect("a file");
    assert!(
        xml.contains("<testsuites name=\"orbit test\" tests=\"5\" skipped=\"0\" failures=\"0\" errors=\"4\""),
        "{xml}"
    );
    for said in [
        "<testcase name=\"cannot be run\" classname=\"dir/two.test.yaml\"",
        "<error message=\"INVALID_IR: 1 fault in dir/two.test.yaml; correct them and try again\">\
         dir/two.test.yaml:1:21: /0/expekt: ",
        "<testcase name=\"cannot be run\" classname=\"dir/bad.test.yaml\"",
        ">latin.test.yaml:1:9: this is no UTF-8",
        "<error message=\"FILE_NOT_FOUND: there is no none.yaml",
        "<testcase name=\"good\" classname=\"dir/good.test.yaml\"",
    ] {
        assert!(xml.contains(said), "{said} in {xml}");
    }
}

/// A reader that stops early is no error, however much was still to be printed.
#[test]
fn a_closed_pipe_is_nobodys_fault() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/language");
    let pipe = "set -o pipefail; \"$0\" test -v \"$1\" | head -1; echo \"${PIPESTATUS[0]}\"";
    let output = Command::new("bash").args(["-c", pipe]).arg(orbit()).arg(examples).output().expect("bash runs");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.starts_with("ok   ") && out.ends_with("\n0\n"), "{out}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_proto_files_compile_without_the_source_tree() {
    let place = Place::with(&[]);
    let (written, said, exit) = place.orbit(&["proto", "--out", "a/protos"]);
    assert_eq!((said.as_str(), exit), ("", 0));
    let root = place.0.path().join("a/protos");
    let files: Vec<_> = written.lines().map(|line| line.strip_prefix("a/protos/").expect("in there")).collect();
    let compiled = protox::compile(&files, [&root]).expect("they compile");
    let services: Vec<_> = compiled.file.iter().flat_map(|file| &file.service).map(|service| service.name()).collect();
    assert_eq!(services, ["WorkerService", "OrbitService"]);
    assert_eq!(compiled.file.len(), files.len(), "nothing else is needed");

    assert_eq!(place.orbit(&["proto", "--out", "a/protos"]).2, 0, "again");
    let (_, said, exit) = place.orbit(&["proto", "--out", "a/protos/orbit/api/v1/orbit.proto"]);
    assert!(exit == 1 && said.contains("OUTPUT_FAILED"), "{exit} {said}");
    assert_eq!(place.orbit(&["proto"]).2, 2);
}
