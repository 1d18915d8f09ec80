//! What a release promises about its messages: nothing that has a name and a number is ever removed or changed.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto, ServiceDescriptorProto,
};

/// Every promise by its name, with what is promised.
pub type Promises = BTreeMap<String, String>;

/// All promises of an encoded `FileDescriptorSet`.
pub fn promises(descriptors: &[u8]) -> Promises {
    let set = FileDescriptorSet::decode(descriptors).expect("an encoded FileDescriptorSet");
    let mut promises = Promises::new();
    for file in &set.file {
        add_file(file, &mut promises);
    }
    promises
}

/// Every promise of `old` that `new` breaks. More promises are welcome.
pub fn broken(old: &Promises, new: &Promises) -> Vec<String> {
    old.iter()
        .filter_map(|(name, before)| match new.get(name) {
            None => Some(format!("{name}: removed")),
            Some(now) if now != before => Some(format!("{name}: was `{before}`, is `{now}`")),
            Some(_) => None,
        })
        .collect()
}

/// Every promise of the older `FileDescriptorSet` that the newer one breaks.
pub fn compatible(old: &[u8], new: &[u8]) -> Vec<String> {
    broken(&promises(old), &promises(new))
}

fn add_file(file: &FileDescriptorProto, promises: &mut Promises) {
    for message in &file.message_type {
        add_message(file.package(), message, promises);
    }
    for words in &file.enum_type {
        add_enum(file.package(), words, promises);
    }
    for service in &file.service {
        add_service(file.package(), service, promises);
    }
}

fn add_message(parent: &str, message: &DescriptorProto, promises: &mut Promises) {
    let name = format!("{parent}.{}", message.name());
    promises.insert(name.clone(), "message".to_owned());
    for field in &message.field {
        promises.insert(format!("{name}.{}", field.name()), field_text(message, field));
    }
    // Ends are exclusive here. Each number alone, so that ranges may grow.
    for number in message.reserved_range.iter().flat_map(|range| range.start()..range.end().min(range.start() + 1_000))
    {
        promises.insert(format!("{name}.{number}"), "reserved".to_owned());
    }
    for reserved in &message.reserved_name {
        promises.insert(format!("{name}.{reserved}"), "reserved".to_owned());
    }
    for nested in &message.nested_type {
        add_message(&name, nested, promises);
    }
    for words in &message.enum_type {
        add_enum(&name, words, promises);
    }
}

/// As in the `.proto` file: whether it is there, its type, its number, and the `oneof` around it.
fn field_text(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let presence = match field.label() {
        Label::Repeated => "repeated ",
        _ if field.proto3_optional() => "optional ",
        _ => "",
    };
    let around = match field.oneof_index {
        Some(index) if !field.proto3_optional() => format!(" in {}", message.oneof_decl[index as usize].name()),
        _ => String::new(),
    };
    format!("{presence}{} = {}{around}", type_text(field), field.number())
}

fn type_text(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum | Type::Group => field.type_name().trim_start_matches('.').to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    }
}

fn add_enum(parent: &str, words: &EnumDescriptorProto, promises: &mut Promises) {
    let name = format!("{parent}.{}", words.name());
    for value in &words.value {
        promises.insert(format!("{name}.{}", value.name()), format!("= {}", value.number()));
    }
    promises.insert(name, "enum".to_owned());
}

fn add_service(package: &str, service: &ServiceDescriptorProto, promises: &mut Promises) {
    let name = format!("{package}.{}", service.name());
    for method in &service.method {
        promises.insert(format!("{name}.{}", method.name()), method_text(method));
    }
    promises.insert(name, "service".to_owned());
}

fn method_text(method: &MethodDescriptorProto) -> String {
    let side =
        |streams: bool, name: &str| format!("{}{}", if streams { "stream " } else { "" }, name.trim_start_matches('.'));
    let asked = side(method.client_streaming(), method.input_type());
    let answered = side(method.server_streaming(), method.output_type());
    format!("rpc ({asked}) returns ({answered})")
}
