//! The tables of this module against the `.proto` file: the same names under the same numbers, and nothing left out.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::events::TABLE;
use super::parts::{PARTS, WORDS};

/// Numbers and names of a message or an enum.
type Members = BTreeMap<i32, String>;

fn file() -> FileDescriptorProto {
    let set = FileDescriptorSet::decode(orbit_proto::DESCRIPTORS).unwrap();
    set.file.into_iter().find(|file| file.package() == "orbit.history.v1").unwrap()
}

fn members(table: &[(i32, &str)]) -> Members {
    table.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
}

fn fields(message: &DescriptorProto) -> Members {
    message.field.iter().map(|field| (field.number(), field.name().to_owned())).collect()
}

/// `StepFanOut` → `step_fan_out`.
fn snake(name: &str) -> String {
    let split = |c: char| if c.is_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.to_string() };
    name.chars().map(split).collect::<String>().trim_start_matches('_').to_owned()
}

#[test]
fn messages_have_the_fields_of_the_proto_file() {
    let mut ours: BTreeMap<&str, Members> = BTreeMap::new();
    ours.extend(TABLE.iter().map(|(_, name, fields)| (*name, members(fields))));
    ours.extend(PARTS.iter().map(|(name, fields)| (*name, members(fields))));
    let file = file();
    let theirs: BTreeMap<&str, Members> =
        file.message_type.iter().filter(|m| m.name() != "Event").map(|m| (m.name(), fields(m))).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn kinds_have_the_numbers_of_the_proto_file() {
    let mut ours: Members = TABLE.iter().map(|(kind, name, _)| (*kind as i32, snake(name))).collect();
    ours.insert(super::TIMESTAMP_MS as i32, "timestamp_ms".to_owned());
    let file = file();
    let event = file.message_type.iter().find(|message| message.name() == "Event").unwrap();
    assert_eq!(ours, fields(event));
    for field in event.field.iter().filter(|field| field.oneof_index.is_some()) {
        let kind = field.type_name().rsplit('.').next().unwrap();
        assert_eq!(field.name(), snake(kind));
    }
}

#[test]
fn words_have_the_numbers_of_the_proto_file() {
    let upper = |name: &str| snake(name).to_uppercase();
    let word = |name: &str, word: &str| format!("{}_{}", upper(name), upper(word));
    let ours: BTreeMap<&str, Members> = WORDS
        .iter()
        .map(|(name, words)| {
            let mut members: Members = words.iter().map(|(number, text)| (*number, word(name, text))).collect();
            members.insert(0, word(name, "Unspecified"));
            (*name, members)
        })
        .collect();
    let file = file();
    let theirs: BTreeMap<&str, Members> = file
        .enum_type
        .iter()
        .map(|e| (e.name(), e.value.iter().map(|value| (value.number(), value.name().to_owned())).collect()))
        .collect();
    assert_eq!(ours, theirs);
}
