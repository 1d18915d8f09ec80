//! The same meaning in any notation gives the same normal form; nothing that is written makes the compiler panic.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::marked::Marked;
use super::{Compiled, Format, compile, yaml};

const SOURCES: [&str; 8] = [
    include_str!("../../../examples/language/race.yaml"),
    include_str!("../../../examples/language/charging-station.yaml"),
    include_str!("../../../examples/language/parked-delivery.yaml"),
    include_str!("../../../examples/language/expressions.yaml"),
    include_str!("../../../examples/language/cluster-manager.yaml"),
    include_str!("../../../examples/language/next-run.yaml"),
    include_str!("../../../examples/language/answer-with-reminders.yaml"),
    include_str!("../../../examples/language/poll-until-done.yaml"),
];

fn one(source: &str, format: Format) -> Compiled {
    compile(source, format).unwrap_or_else(|faults| panic!("{faults}\n{source}")).remove(0)
}

/// JSON with the members of every object in an order that `seed` decides.
fn shuffled(json: &Json, seed: &mut u64, out: &mut String) {
    match json {
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for last in (1..members.len()).rev() {
                members.swap(last, (next(seed) % (last as u64 + 1)) as usize);
            }
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&Json::from(key.as_str()).to_string());
                out.push_str(if next(seed).is_multiple_of(2) { ": " } else { " :\n " });
                shuffled(value, seed, out);
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ",\n " } else { "" });
                shuffled(item, seed, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// YAML in block style, every text in double quotes.
fn block_yaml(json: &Json, indent: usize, out: &mut String) {
    let space = " ".repeat(indent);
    match json {
        Json::Object(members) if !members.is_empty() => {
            for (key, value) in members.iter().rev() {
                out.push_str(&format!("\n{space}{}: ", Json::from(key.as_str())));
                block_yaml(value, indent + 2, out);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n{space}- "));
                block_yaml(item, indent + 2, out);
            }
        }
        other => out.push_str(&other.to_string()),
    }
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn plain(source: &str) -> Vec<Json> {
    yaml::read(source).unwrap().iter().map(Marked::to_json).collect()
}

#[test]
fn block_style_means_the_same() {
    for source in SOURCES {
        let wanted = one(source, Format::Yaml);
        let mut text = String::new();
        block_yaml(&plain(source)[0], 0, &mut text);
        assert_eq!(one(&text, Format::Yaml).normal_form, wanted.normal_form);
    }
}

#[test]
fn remarks_and_descriptions_do_not_change_the_hash() {
    let bare = "name: a\nversion: 1.0.0\nsteps: [{id: one, sleep: 1s}]\n";
    let more =
        "description: it sleeps\nx-owner: us\nname: a\nversion: 1.0.0\nsteps: [{id: one, sleep: 1000, x-why: 1}]\n";
    assert_eq!(one(bare, Format::Yaml).hash, one(more, Format::Yaml).hash);
    let other = "name: a\nversion: 1.0.0\nsteps: [{id: one, sleep: 2s}]\n";
    assert_ne!(one(bare, Format::Yaml).hash, one(other, Format::Yaml).hash);
}

#[test]
fn what_holds_anyway_is_not_stored_and_what_is_written_is_kept() {
    let source = "name: a\nversion: 1.0.0\ntasks: {t: {version: 1.0.0}}\nsteps:\n  - id: one\n    task: t\n    \
                  on_failure: fail\n    for: {each: \"[1]\", as: item}\n    retry: {max_attempts: 3}\n    \
                  compensate: {task: t, always: false, on_failure: fail}\n";
    let form: Json = serde_json::from_str(&one(source, Format::Yaml).normal_form).unwrap();
    let step = &form["steps"][0];
    assert_eq!(step.get("on_failure"), None);
    assert_eq!(step["for"], serde_json::json!({ "each": "[1]" }));
    assert_eq!(step["retry"], serde_json::json!({ "max_attempts": 3 }));
    assert_eq!(step["compensate"], serde_json::json!({ "task": "t" }));
    assert_eq!(form["ir_version"], "orbit-ir/1");
}

#[test]
fn steps_stand_in_the_order_of_the_walk() {
    let source = "name: a\nversion: 1.0.0\nsteps:\n  - {id: c, when: \"steps.a.status == 'failed'\", sleep: 1s}\n  \
                  - {id: b, sleep: 1s}\n  - {id: a, after: [b], sleep: 1s}\n  - {id: d, sleep: 1s}\n";
    let form: Json = serde_json::from_str(&one(source, Format::Yaml).normal_form).unwrap();
    let ids: Vec<_> = form["steps"].as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["b", "a", "c", "d"]);
    assert_eq!(form["steps"][2]["depends_on"], serde_json::json!(["a"]));
}

/// A block waits for what its inside names outside; undo, `done_when` and handlers wait for nobody.
#[test]
fn naming_a_step_is_waiting_for_it_but_not_everywhere() {
    let source = "name: a\nversion: 1.0.0\ntasks: {t: {version: 1.0.0}}\ndone_when: \"steps.x.output == 1\"\nsteps:\n  \
                  - {id: x, compute: \"1\"}\n  - {id: y, compute: \"1\"}\n  \
                  - id: box\n    done_when: \"steps.y.output == 1\"\n    \
                  steps: [{id: in_it, task: t, input: \"${steps.x.output}\"}]\n  \
                  - {id: z, task: t, compensate: {task: t, input: \"${steps.y.output}\"}}\n\
                  handlers: {exit: [{id: bye, task: t, input: \"${steps.x.output}\"}]}\n";
    let definition = one(source, Format::Yaml).definition;
    let waits = |id: &str| {
        let step = definition.step_named(id).unwrap();
        step.depends_on.iter().map(|&index| definition.step(index).id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(waits("box"), ["x"]);
    assert!(waits("in_it").is_empty() && waits("z").is_empty() && waits("bye").is_empty());
}

#[test]
fn the_core_schema_reads_yes_and_on_as_texts() {
    let json =
        &plain("a: yes\nb: on\nc: 0x1F\nd: 1e3\ne: ~\nf: '1'\ng: 1.10\nh: 2027-01-01\ni: no\nj: 0o17\nk: -0\n")[0];
    let wanted = serde_json::json!({
        "a": "yes", "b": "on", "c": 31, "d": 1000, "e": null, "f": "1", "g": 1.1, "h": "2027-01-01", "i": "no", "j": 15,
        "k": 0
    });
    assert_eq!(*json, wanted);
}

#[test]
fn a_key_may_have_an_anchor_and_a_tag_like_any_other_text() {
    let json = &plain("&k name: 1\n!!str 2: *k\n!!str yes: {*k : 3}\n&n 4: *n\n")[0];
    assert_eq!(*json, serde_json::json!({"name": 1, "2": "name", "yes": {"name": 3}, "4": 4}));
}

#[test]
fn warnings_say_what_is_probably_not_meant() {
    let source = "name: a\nversion: 1.0.0\ntasks: {t: {version: 1.0.0}}\ninput: {type: object}\nsteps:\n  \
                  - {id: x, when: \"input.a == 1\", task: t, compensate: {task: t, input: \"${output.id}\"}}\n  \
                  - {id: bad, task: t, input: \"${steps.x.output}\"}\n  \
                  - {id: good, when: \"steps.x.status == 'succeeded'\", task: t, input: \"${steps.x.output}\"}\n  \
                  - {id: fine, task: t, input: \"${coalesce(steps.x.output, 1)}\"}\n";
    let warnings = one(source, Format::Yaml).warnings;
    let paths: Vec<_> = warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(paths, ["/steps/1/input", "/steps/0/compensate"]);
}

/// The warnings of a document whose declarations, and members of the root after them, are `head` and `steps`.
fn warnings(head: &str, steps: &str) -> Vec<String> {
    let head = format!("name: a\nversion: 1.0.0\ntasks: {{t: {{version: 1.0.0}}}}\n{head}steps:\n{steps}");
    one(&head, Format::Yaml).warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect()
}

/// (declarations, steps, what a warning says; none: there is no warning)
#[test]
fn what_can_hardly_be_meant_is_warned_of() {
    const INPUT: &str = "input: {type: object, properties: {expense_id: {type: string}}}\n";
    const OPEN: &str = "input: {type: object, properties: {a: {}}, additionalProperties: true}\n";
    const SKIPPED: &str = "  - {id: s, when: \"execution.run == 1\", task: t}\n";
    let skipped = |more: &str| format!("{SKIPPED}  - {{id: u, task: t, {more}}}\n");
    let given = |value: &str| format!("  - {{id: s, task: t, after: []}}\n  - {{id: u, task: t, input: {value}}}\n");
    let box_of = |more: &str| {
        format!("  - {{id: bl, {more}steps: [{{id: s, task: t}}]}}\n  - {{id: u, compute: \"steps.bl.output.x\"}}\n")
    };
    let rows = [
        (INPUT, given("\"${input.expenseid}\""), "(did you mean `expense_id`?)"),
        (INPUT, given("\"${input.expense_id}\""), ""),
        (OPEN, given("\"${input.b}\""), ""),
        ("", given("\"${input.b}\""), ""),
        ("", box_of(""), "the block `bl` has no `result`"),
        ("", box_of("result: {x: 1}, "), ""),
        ("", given("steps.s.output.id"), "this is sent as text; write \"${steps.s.output.id}\""),
        (INPUT, given("{a: [input.expense_id]}"), "/steps/1/input/a/0: this is sent as text"),
        ("", given("\"{{ steps.s.output }}\""), "this is sent as text"),
        ("", given("$(date)"), "this is sent as text"),
        (INPUT, given("input.expense_id is missing"), ""),
        (INPUT, given("input.other"), ""),
        ("", given("steps.other.output"), ""),
        ("input: {order_id: string}\n", given("1"), "properties: {order_id: {type: string}}"),
        ("output: {type: object, requird: [a]}\n", given("1"), "(did you mean `required`?)"),
        ("input: {properties: {a: {type: string, minLenght: 1}}}\n", given("1"), "/input/properties/a/minLenght"),
        ("input: {properties: {requird: {type: string}}, x-why: 1}\n", given("1"), ""),
        ("timeout: 30\n", given("1"), "/timeout: 30 means 30 ms; write 30s or 30ms"),
        ("timeout: 30000\n", given("1"), ""),
        ("ir_version: orbit-ir/1\ntimeout: 30\n", given("1"), ""),
        ("", given("\"${steps.s.status == 'success'}\""), "no step ever has the status `success`"),
        ("", given("\"${'complete' != steps.s.status}\""), "no step ever has the status `complete`"),
        ("", given("\"${steps.s.status in ['failed', 'skiped']}\""), "(did you mean `skipped`?)"),
        ("", given("\"${steps.s.status in ['failed', 'skipped']}\""), ""),
        ("", skipped("when: \"steps.s.output.id > 4\""), "/steps/1/when: `s` may be skipped"),
        ("", skipped("when: \"steps.s.output.ok == true\""), ""),
        ("", skipped("when: \"steps.s.status == 'succeeded' && steps.s.output.id > 4\""), ""),
        ("", skipped("input: \"${coalesce(steps.s.output.id, 4)}\""), ""),
    ];
    for (head, steps, wanted) in rows {
        let found = warnings(head, &steps);
        match wanted {
            "" => assert!(found.is_empty(), "{steps}: {found:?}"),
            _ => assert!(found.len() == 1 && found[0].contains(wanted), "{steps}: {found:?}"),
        }
    }
}

#[test]
fn a_wait_without_an_end_in_a_handler_of_the_end_is_warned_of() {
    let handlers = |wait: &str| {
        let head = "signals: {s: {}, u: {}}\nhandlers:\n";
        let box_of = |more: &str| format!("{{id: box{more}, steps: [{{id: w, await: {{signal: s{wait}}}}}]}}");
        let deadline = box_of("2, deadline: 1h").replace("id: w", "id: w2");
        warnings(
            &format!("{head}  exit: [{}, {deadline}]\n  event: {{u: [{{id: e, await: {{signal: s}}}}]}}\n", box_of("")),
            "  - {id: a, await: {signal: s}}\n",
        )
    };
    let found = handlers("");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("/handlers/exit/0/steps/0/await: no signal is taken any more"), "{found:?}");
    assert!(handlers(", timeout: 1h").is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_of_keys_gives_the_same_hash(which in 0..SOURCES.len(), seed in any::<u64>()) {
        let wanted = one(SOURCES[which], Format::Yaml);
        let (mut seed, mut text) = (seed, String::new());
        shuffled(&plain(SOURCES[which])[0], &mut seed, &mut text);
        for format in [Format::Json, Format::Yaml] {
            let again = one(&text, format);
            prop_assert_eq!(&again.normal_form, &wanted.normal_form);
            prop_assert_eq!(&again.hash, &wanted.hash);
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        which in 0..SOURCES.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, any::<char>()), 1..12),
    ) {
        let mut text: Vec<char> = SOURCES[which].chars().collect();
        for (at, what, character) in edits {
            let at = at.index(text.len().max(1)).min(text.len());
            match what {
                0 if at < text.len() => { text.remove(at); }
                1 => text.insert(at, character),
                2 => text.insert(at, ['{', '[', ':', '&', '*', '"', '\n', '\t', '$', '-'][character as usize % 10]),
                3 if at < text.len() => text.truncate(at.max(1)),
                4 => {
                    let copy = text[at..(at + 40).min(text.len())].to_vec();
                    text.splice(at..at, copy);
                }
                _ if at < text.len() => text[at] = character,
                _ => {}
            }
        }
        let text: String = text.into_iter().collect();
        // Whatever the verdict is: there is one, and every fault has a place.
        for format in [Format::Yaml, Format::Json] {
            if let Err(faults) = compile(&text, format) {
                prop_assert!(faults.list().iter().all(|fault| fault.line > 0 && fault.column > 0));
            }
        }
    }
}
