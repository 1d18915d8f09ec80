//! Messages about the form of a cases file, in the words of its author.

/// What the reader of the file calls its types, and what they are to an author.
const WORDS: [(&str, &str); 12] = [
    ("a sequence", "a list"),
    ("sequence", "a list"),
    ("a map", "an object"),
    ("map", "an object"),
    ("a string", "a text"),
    ("a boolean", "true or false"),
    ("bool", "true or false"),
    ("usize", "a whole number from 0"),
    ("u64", "a whole number from 0"),
    ("unit value", "null"),
    ("null", "null"),
    ("unit", "null"),
];

/// `message` of the reader without the names of its types; what would be right, where that can be seen.
pub(super) fn plain(message: &str) -> String {
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let Some((found, expected)) = wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) else {
        return message.to_owned();
    };
    let text = found.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"'));
    let hint = match (expected, text) {
        ("struct MockError", Some(code)) => format!("; write {{code: {code}}}"),
        ("a sequence", Some(line)) => format!("; write [{line}]"),
        _ => String::new(),
    };
    format!("expected {}, found {}{hint}", words(expected), words(found))
}

fn words(of_reader: &str) -> String {
    if let Some((_, plain)) = WORDS.iter().find(|(word, _)| *word == of_reader) {
        return (*plain).to_owned();
    }
    if of_reader.starts_with("struct ") {
        return "an object".to_owned();
    }
    let known =
        [("string ", "the text "), ("integer ", "the number "), ("floating point ", "the number "), ("boolean ", "")];
    match known.iter().find_map(|(begin, plain)| of_reader.strip_prefix(begin).map(|rest| (plain, rest))) {
        Some((plain, rest)) => format!("{plain}{}", rest.replace('`', "")),
        None => of_reader.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_of_types_do_not_show() {
        for (message, said) in [
            (
                "invalid type: string \"SMTP_DOWN\", expected struct MockError",
                "expected an object, found the text \"SMTP_DOWN\"; write {code: SMTP_DOWN}",
            ),
            (
                "invalid type: string \"StepSucceeded x\", expected a sequence",
                "expected a list, found the text \"StepSucceeded x\"; write [StepSucceeded x]",
            ),
            ("invalid type: integer `5`, expected struct Expect", "expected an object, found the number 5"),
            ("invalid type: map, expected a string", "expected a text, found an object"),
            ("invalid value: integer `-1`, expected usize", "expected a whole number from 0, found the number -1"),
            ("missing field `status`", "missing field `status`"),
        ] {
            assert_eq!(plain(message), said);
        }
    }
}
