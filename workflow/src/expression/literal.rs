//! How CEL writes numbers and strings.

/// How many characters of a string literal stand before its first quote (`r`, `b`, `rb`…); none where no string
/// begins. They are ASCII.
pub(super) fn prefix(text: &str) -> Option<usize> {
    let length = text.bytes().take(2).take_while(|byte| matches!(byte, b'r' | b'R' | b'b' | b'B')).count();
    text[length..].starts_with(['"', '\'']).then_some(length)
}

/// The length of the string literal at the beginning, prefix and quotes included; none when it does not end.
pub(super) fn quoted_length(text: &str, prefix: usize) -> Option<usize> {
    let raw = text[..prefix].contains(['r', 'R']);
    let quote = quote(&text[prefix..]);
    let mut at = prefix + quote.len();
    loop {
        let rest = &text[at..];
        if rest.starts_with(quote) {
            return Some(at + quote.len());
        }
        let mut characters = rest.chars();
        match characters.next()? {
            '\n' | '\r' if quote.len() == 1 => return None,
            '\\' if !raw => at += 1 + characters.next()?.len_utf8(),
            other => at += other.len_utf8(),
        }
    }
}

/// The quotes a string begins with: one or three of a kind.
fn quote(text: &str) -> &str {
    ["\"\"\"", "'''"].into_iter().find(|quote| text.starts_with(quote)).unwrap_or(&text[..1])
}

/// The text that a literal stands for; `quoted` is what [`quoted_length`] has measured.
pub(super) fn unquote(quoted: &str, prefix: usize) -> Result<String, String> {
    let quotes = quote(&quoted[prefix..]).len();
    let inner = &quoted[prefix + quotes..quoted.len() - quotes];
    if prefix > 0 {
        return Ok(inner.to_owned());
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (c, length) = escape(&rest[at + 1..])?;
        text.push(c);
        rest = &rest[at + 1 + length..];
    }
    text.push_str(rest);
    Ok(text)
}

/// The character that an escape stands for, and how long the escape is behind its backslash.
fn escape(text: &str) -> Result<(char, usize), String> {
    let Some(first) = text.chars().next() else { return Err("a backslash at the end of a string".to_owned()) };
    let simple = match first {
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        '\\' | '\'' | '"' | '`' | '?' => Some(first),
        _ => None,
    };
    if let Some(c) = simple {
        return Ok((c, 1));
    }
    let (start, length, radix) = match first {
        'x' | 'X' => (1, 2, 16),
        'u' => (1, 4, 16),
        'U' => (1, 8, 16),
        '0'..='3' => (0, 3, 8),
        _ => return Err(format!("unknown escape \\{first} in a string")),
    };
    let unreadable = || format!("the escape \\{first} in a string needs {length} digits");
    let digits = text.get(start..start + length).ok_or_else(unreadable)?;
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(unreadable());
    }
    let number = u32::from_str_radix(digits, radix).map_err(|_| unreadable())?;
    let c = char::from_u32(number).ok_or_else(|| format!("the escape \\{first}{digits} is no character"))?;
    Ok((c, start + length))
}

/// The length of the number at the beginning, without a suffix, and whether it is a double.
pub(super) fn number_length(text: &str) -> Result<(usize, bool), String> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        let length = hexadecimal.bytes().take_while(u8::is_ascii_hexdigit).count();
        return if length == 0 {
            Err("a hexadecimal number without digits".to_owned())
        } else {
            Ok((2 + length, false))
        };
    }
    let mut length = digits(0);
    let mut double = false;
    if bytes.get(length) == Some(&b'.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
        double = true;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign));
        if exponent == 0 {
            return Err("a number whose exponent has no digits".to_owned());
        }
        length += 1 + sign + exponent;
        double = true;
    }
    Ok((length, double))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_measured() {
        for (text, expected) in [
            ("1", Some((1, false))),
            ("12.5+1", Some((4, true))),
            ("1.foo", Some((1, false))),
            ("1e5", Some((3, true))),
            ("1E-5x", Some((4, true))),
            (".5", Some((2, true))),
            ("0xFfu", Some((4, false))),
            ("0x", None),
            ("1e", None),
            ("1e+", None),
        ] {
            assert_eq!(number_length(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn strings_are_measured_and_unquoted() {
        for (text, expected) in [
            (r#"'a'"#, Some("a")),
            (r#""a'b" + 'c'"#, Some("a'b")),
            (r"'a\'b'", Some("a'b")),
            (r"r'a\'", Some(r"a\")),
            ("'''a'b\nc'''", Some("a'b\nc")),
            ("''", Some("")),
            ("''''''", Some("")),
            (r"'\n\t\\\x41\u00e4\U0001F600\101'", Some("\n\t\\Aä😀A")),
            (r"'\q'", None),
            (r"'\u12'", None),
            (r"'\uD800'", None),
            (r"'\x+1'", None),
            ("'a\nb'", None),
            ("'a", None),
            (r"'a\", None),
            ("'''a''", None),
        ] {
            let read = prefix(text).and_then(|prefix| {
                let length = quoted_length(text, prefix)?;
                unquote(&text[..length], prefix).ok()
            });
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
