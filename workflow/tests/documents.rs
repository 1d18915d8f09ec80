//! Documents as authors write them: every example has the normal form that it had when it was released, every broken
//! document is refused where it is broken, and the JSON Schema for editors agrees.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value as Json, json};
use workflow::contract::Contract;
use workflow::definition::Definition;
use workflow::document::{Compiled, Format, JSON_SCHEMA, compile};

/// Every document of the examples that show the language.
fn sources() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/language");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(stem) = name.strip_suffix(".yaml").filter(|stem| !stem.ends_with(".test")) {
            found.insert(stem.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    assert_eq!(found.len(), 47);
    found
}

fn compiled(name: &str, source: &str) -> Vec<Compiled> {
    compile(source, Format::Yaml).unwrap_or_else(|faults| panic!("{name}:\n{faults}"))
}

/// A released normal form never changes: its hash is what executions are pinned to.
#[test]
#[allow(clippy::disallowed_methods)] // A test may be told from outside to write files that are missing.
fn normal_forms_are_those_that_were_released() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/normal_form");
    for (name, source) in sources() {
        let documents = compiled(&name, &source);
        let forms: Vec<Json> = documents
            .iter()
            .map(|document| {
                let form: Json = serde_json::from_str(&document.normal_form).unwrap();
                json!({ "hash": document.hash, "normal_form": form })
            })
            .collect();
        let path = folder.join(format!("{name}.json"));
        if !path.exists() && std::env::var("UPDATE_GOLDEN").is_ok() {
            fs::write(&path, serde_json::to_string_pretty(&forms).unwrap() + "\n").unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{name}: run with UPDATE_GOLDEN=1"));
        let golden: Vec<Json> = serde_json::from_str(&golden).unwrap();
        assert_eq!(forms, golden, "{name}");
    }
}

#[test]
fn the_normal_form_of_a_normal_form_is_itself() {
    for (name, source) in sources() {
        for document in compiled(&name, &source) {
            for format in [Format::Json, Format::Yaml] {
                let again = compile(&document.normal_form, format).unwrap_or_else(|faults| panic!("{name}:\n{faults}"));
                assert_eq!(again.len(), 1);
                assert_eq!(again[0].normal_form, document.normal_form, "{name}");
                assert_eq!(again[0].hash, document.hash, "{name}");
            }
        }
    }
}

/// A node that has only the stored normal form decides as the one that compiled the source.
#[test]
fn a_definition_is_built_from_the_normal_form_alone() {
    for (name, source) in sources() {
        for document in compiled(&name, &source) {
            let built = Definition::from_normal_form(&document.normal_form).unwrap();
            assert_eq!(format!("{:?}", Sorted(&built)), format!("{:?}", Sorted(&document.definition)), "{name}");
            for (index, step) in built.steps.iter().enumerate() {
                assert_eq!(built.by_id[&step.id].0 as usize, index, "{name}");
                for &target in &step.depends_on {
                    assert_eq!(built.step(target).parent, step.parent);
                    assert!(built.step(target).position < step.position, "{name}: order of {}", step.id);
                    assert!(built.step(target).dependents.iter().any(|waiting| waiting.0 as usize == index));
                }
            }
        }
    }
}

/// A definition without its hash map, whose order is random.
struct Sorted<'a>(&'a Definition);

impl std::fmt::Debug for Sorted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let it = self.0;
        (&it.name, &it.hash, &it.steps, &it.root, &it.handlers, &it.tasks, &it.signals, &it.queries).fmt(f)?;
        (&it.input, &it.output, &it.attributes, &it.workflows, it.timeout_ms, it.watches_elsewhere).fmt(f)
    }
}

#[test]
fn a_broken_normal_form_is_an_error_and_no_panic() {
    for text in ["", "[]", "{}", r#"{"steps": [{}]}"#, r#"{"steps": [{"id": "a"}]}"#] {
        assert!(Definition::from_normal_form(text).is_err(), "{text}");
    }
    let form = r#"{"name": "a", "version": "1.0.0", "steps": [{"id": "a", "compute": "1 +"}]}"#;
    let error = Definition::from_normal_form(form).unwrap_err();
    assert_eq!(error.path, "/steps/0/compute");
}

/// One row of `bad_documents.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    what: String,
    document: Option<String>,
    generator: Option<String>,
    format: Option<String>,
    message: String,
    line: u32,
    column: u32,
    path: String,
    suggestion: Option<String>,
    faults: Option<usize>,
}

#[derive(Deserialize)]
struct BadDocuments {
    refused: Vec<Refused>,
}

fn bad_documents() -> Vec<Refused> {
    toml::from_str::<BadDocuments>(include_str!("bad_documents.toml")).unwrap().refused
}

#[test]
fn broken_documents_are_refused_where_they_are_broken() {
    let rows = bad_documents();
    assert!(rows.len() > 180);
    for row in rows {
        let source = row.source();
        let format = if row.format.as_deref() == Some("json") { Format::Json } else { Format::Yaml };
        let faults = match compile(&source, format) {
            Ok(_) => panic!("accepted: {}", row.what),
            Err(faults) => faults,
        };
        let first = &faults.list()[0];
        assert!(first.message.contains(&row.message), "{}: {first}", row.what);
        assert_eq!((first.line, first.column), (row.line, row.column), "{}: {first}", row.what);
        assert_eq!(first.path, row.path, "{}: {first}", row.what);
        assert_eq!(first.suggestion, row.suggestion, "{}: {first}", row.what);
        assert_eq!(faults.list().len(), row.faults.unwrap_or(1), "{}:\n{faults}", row.what);
    }
}

impl Refused {
    fn source(&self) -> String {
        match (&self.document, self.generator.as_deref()) {
            (Some(document), None) => document.clone(),
            (None, Some(name)) => generated(name),
            _ => panic!("{}: a document or a generator", self.what),
        }
    }
}

/// Documents that are too long to be written down.
fn generated(name: &str) -> String {
    const HEAD: &str = "name: a\nversion: 1.0.0\n";
    const STEPS: &str = "steps: [{id: one, sleep: 1s}]\n";
    match name {
        "flow_levels" | "json_levels" => "[".repeat(10_000),
        "block_levels" => (0..1_500).map(|level| " ".repeat(level) + "a:").collect::<Vec<_>>().join("\n"),
        "json_object_levels" => "{\"a\":".repeat(10_000),
        "alias_bomb" => {
            let nine = |text: String| vec![text; 9].join(", ");
            let levels = (1..10).map(|level| format!("a{level}: &a{level} [{}]\n", nine(format!("*a{}", level - 1))));
            format!("a0: &a0 [{}]\n{}", nine("x".to_owned()), levels.collect::<String>())
        }
        "alias_text" => format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 100].join(", ")),
        "nul" => "name: a\0b\n".to_owned(),
        "five_mebibytes" => "x".repeat(5 << 20),
        "many_steps" => {
            let steps = (0..1_001).map(|step| format!("  - {{id: s{step}, sleep: 1s}}\n"));
            format!("{HEAD}steps:\n{}", steps.collect::<String>())
        }
        "nine_blocks" => {
            let open = (0..9).map(|block| format!("[{{id: b{block}, steps: ")).collect::<String>();
            format!("{HEAD}steps: {open}[{{id: one, sleep: 1s}}]{}\n", "}]".repeat(9))
        }
        "deep_expression" => format!("{HEAD}result: \"${{{}1{}}}\"\n{STEPS}", "(".repeat(5_000), ")".repeat(5_000)),
        "long_expression" => format!("{HEAD}result: \"${{{}1}}\"\n{STEPS}", "1 + ".repeat(20_000)),
        _ => panic!("no generator {name}"),
    }
}

fn schema() -> Contract {
    let schema: Json = serde_json::from_str(JSON_SCHEMA).unwrap();
    Contract::compile(&schema).unwrap()
}

#[test]
fn the_json_schema_takes_every_document_and_its_normal_form() {
    let schema = schema();
    for (name, source) in sources() {
        for document in compiled(&name, &source) {
            let form = workflow::value::Payload::parse(&document.normal_form).unwrap();
            assert_eq!(schema.check(&form), Ok(()), "{name}");
        }
    }
    for (name, document) in plain_documents() {
        let document = workflow::value::Payload::parse(&document).unwrap();
        assert_eq!(schema.check(&document), Ok(()), "{name}");
    }
}

/// What one place alone shows, the schema refuses exactly when the compiler does; what needs more is the compiler's.
#[test]
fn the_json_schema_refuses_what_it_can_see() {
    let schema = schema();
    let (mut seen, mut unseen) = (0, 0);
    for row in plain_documents_that_are_refused() {
        let document = workflow::value::Payload::parse(&row.1).unwrap();
        match (schema.check(&document), row.2) {
            (Err(_), true) => seen += 1,
            (Ok(()), false) => unseen += 1,
            (verdict, visible) => panic!("{}: {verdict:?}, visible: {visible}", row.0),
        }
    }
    assert!(seen > 10 && unseen > 3, "{seen} {unseen}");
}

fn plain_documents() -> Vec<(&'static str, String)> {
    let whole = |step: Json| json!({ "name": "a", "version": "1.0.0", "x-owner": 1, "steps": [step] }).to_string();
    vec![
        ("a task", whole(json!({ "id": "a", "task": "t", "timeout": "1h30m", "queue_timeout": 5 }))),
        ("a chosen task", whole(json!({ "id": "a", "task": "${input.t}", "on_failure": "suspend" }))),
        ("a sleep", whole(json!({ "id": "a", "sleep": "${input.ms}", "x-why": "because" }))),
        ("a moment", whole(json!({ "id": "a", "sleep_until": "2027-01-31T08:00:00Z" }))),
        ("an undo", whole(json!({ "id": "a", "task": "t", "compensate": { "task": "u", "always": true } }))),
        ("a wait", whole(json!({ "id": "a", "await": { "signal": ["s"], "on_timeout": "continue" } }))),
    ]
}

/// (what, document, whether form alone shows it)
fn plain_documents_that_are_refused() -> Vec<(&'static str, String, bool)> {
    let whole = |step: Json| json!({ "name": "a", "version": "1.0.0", "steps": [step] }).to_string();
    let rows = vec![
        ("no steps", json!({ "name": "a", "version": "1.0.0" }).to_string(), true),
        (
            "a bad name",
            json!({ "name": "A", "version": "1.0.0", "steps": [{"id": "a", "sleep": 1}] }).to_string(),
            true,
        ),
        (
            "a number as version",
            json!({ "name": "a", "version": 1.1, "steps": [{"id": "a", "sleep": 1}] }).to_string(),
            true,
        ),
        (
            "build metadata",
            json!({ "name": "a", "version": "1.0.0+b", "steps": [{"id": "a", "sleep": 1}] }).to_string(),
            true,
        ),
        ("an unknown field", whole(json!({ "id": "a", "sleep": 1, "colour": "red" })), true),
        ("no kind", whole(json!({ "id": "a" })), true),
        ("two kinds", whole(json!({ "id": "a", "sleep": 1, "compute": "1" })), true),
        ("retry on a sleep", whole(json!({ "id": "a", "sleep": 1, "retry": {} })), true),
        ("result on a task", whole(json!({ "id": "a", "task": "orbit.http.request", "result": 1 })), true),
        ("compensate on await", whole(json!({ "id": "a", "await": {"signal": "s"}, "compensate": {} })), true),
        ("a bad duration", whole(json!({ "id": "a", "sleep": "soon" })), true),
        (
            "an undo without action",
            whole(json!({ "id": "a", "task": "orbit.http.request", "compensate": {"input": 1} })),
            true,
        ),
        (
            "an undo with two",
            whole(json!({ "id": "a", "sleep": 1, "compensate": {"task": "t", "workflow": {"name": "c"}} })),
            true,
        ),
        ("a bad rule", whole(json!({ "id": "a", "compute": "1", "on_failure": [{"when": "true"}] })), true),
        ("an empty list of signals", whole(json!({ "id": "a", "await": {"signal": []} })), true),
        ("on_deadline alone", whole(json!({ "id": "a", "task": "orbit.http.request", "on_deadline": "fail" })), true),
        ("no CEL", whole(json!({ "id": "a", "compute": "1 +" })), false),
        ("an unknown step", whole(json!({ "id": "a", "compute": "steps.b.output" })), false),
        ("an undeclared task", whole(json!({ "id": "a", "task": "t" })), false),
        ("one of Orbit's codes", whole(json!({ "id": "a", "fail": {"code": "TIMEOUT"} })), false),
        ("a cycle", whole(json!({ "id": "a", "sleep": 1, "after": ["a"] })), false),
    ];
    for (what, document, _) in &rows {
        assert!(compile(document, Format::Json).is_err(), "{what}");
    }
    rows
}

/// What is written in the examples is meant as it is written.
#[test]
fn no_example_is_warned_of() {
    for (name, source) in sources() {
        for document in compiled(&name, &source) {
            let warnings = document.warnings.iter().map(ToString::to_string);
            // Some show that an undo may go without the key, or that a result may be null.
            let is_shown = |text: &String| {
                text.contains("this undo needs") || text.contains("/result") && text.contains("may be skipped")
            };
            let others: Vec<String> = warnings.filter(|warning| !is_shown(warning)).collect();
            assert!(others.is_empty(), "{name}:\n{}", others.join("\n"));
        }
    }
}
