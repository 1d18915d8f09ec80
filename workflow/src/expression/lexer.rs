//! From a text to tokens: CEL's, with the places of each.

use super::CompileError;
use super::literal;

/// A token and where it begins, in characters.
#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    pub kind: Kind<'t>,
    pub offset: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'t> {
    /// An integer without its sign; whether it fits is known when the sign is.
    Integer(u64),
    /// `1u`: never negative.
    Unsigned(u64),
    Double(f64),
    Text(String),
    Name(&'t str),
    /// An operator or bracket.
    Symbol(&'static str),
    End,
}

/// Longer ones first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ".", ",", "-", "+", "*", "/", "%", "?", ":", "!",
    "<", ">",
];

/// The tokens of a text, [`Kind::End`] last.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, CompileError> {
    let mut lexer = Lexer { rest: text, offset: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let offset = lexer.offset;
        let kind = lexer.token().map_err(|message| CompileError::new(offset, message))?;
        let at_end = kind == Kind::End;
        tokens.push(Token { kind, offset });
        if at_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    rest: &'t str,
    /// Characters before `rest`.
    offset: usize,
}

impl<'t> Lexer<'t> {
    /// White space and comments.
    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.find(|c| !matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}')).unwrap_or(self.rest.len());
            self.take(blank);
            if !self.rest.starts_with("//") {
                return;
            }
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        self.offset += taken.chars().count();
        taken
    }

    fn token(&mut self) -> Result<Kind<'t>, String> {
        let Some(first) = self.rest.chars().next() else { return Ok(Kind::End) };
        let second = self.rest[first.len_utf8()..].chars().next();
        if first.is_ascii_digit() || first == '.' && second.is_some_and(|c| c.is_ascii_digit()) {
            return self.number();
        }
        if let Some(length) = literal::prefix(self.rest) {
            return self.quoted(length);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(Kind::Name(self.take(name_length(self.rest))));
        }
        match SYMBOLS.iter().find(|symbol| self.rest.starts_with(**symbol)) {
            Some(symbol) => {
                self.take(symbol.len());
                Ok(Kind::Symbol(symbol))
            }
            None => Err(match first {
                '=' => "unexpected `=`: equality is `==`".to_owned(),
                '&' => "unexpected `&`: and is `&&`".to_owned(),
                '|' => "unexpected `|`: or is `||`".to_owned(),
                '`' => "quoted names are not part of this language: write m['name']".to_owned(),
                _ => format!("unexpected character {first:?}"),
            }),
        }
    }

    fn number(&mut self) -> Result<Kind<'t>, String> {
        let (length, double) = literal::number_length(self.rest)?;
        let digits = self.take(length);
        let unsigned = !double && self.rest.starts_with(['u', 'U']);
        if unsigned {
            self.take(1);
        }
        if name_length(self.rest) > 0 {
            return Err("a number ends where a name begins".to_owned());
        }
        if double {
            let value = digits.parse::<f64>().ok().filter(|value| value.is_finite());
            return value.map(Kind::Double).ok_or_else(|| "a number beyond a double".to_owned());
        }
        let value = match digits.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
            None => digits.parse(),
        };
        let value = value.map_err(|_| "an integer beyond 64 bits: write it as a double, as in 1e20".to_owned())?;
        Ok(if unsigned { Kind::Unsigned(value) } else { Kind::Integer(value) })
    }

    fn quoted(&mut self, prefix: usize) -> Result<Kind<'t>, String> {
        let length = literal::quoted_length(self.rest, prefix).ok_or("a string that does not end")?;
        if self.rest[..prefix].contains(['b', 'B']) {
            return Err("bytes are not part of this language: use a string, or base64()".to_owned());
        }
        let quoted = self.take(length);
        literal::unquote(quoted, prefix).map(Kind::Text)
    }
}

/// How long the name at the beginning is; 0 where there is none.
fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}
