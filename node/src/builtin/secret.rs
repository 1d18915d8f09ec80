//! Secrets: read when they are sent, and kept out of whatever is recorded.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use http::HeaderValue;
use tokio::io::AsyncReadExt;

use super::failure::{Failure, Refusal};

/// Shorter ones could not be told from ordinary text in an answer.
const BYTES_MIN: usize = 8;
/// Longer ones no server takes in a header.
const BYTES_MAX: usize = 8 << 10;
/// Longest name.
const NAME_BYTES_MAX: usize = 100;
/// What stands in place of a secret that came back.
const HIDDEN: &str = "[secret]";

/// A secret and what it is called.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Secret {
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Whether a secret can be called so: the name of a file, and of no other one.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(fits)
}

/// Where secrets are read from: a file for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(pub(super) Option<PathBuf>);

impl Secrets {
    /// A secret as it is now. A line break at the end of its file is not part of it.
    pub(super) async fn read(&self, name: &str) -> Result<Secret, Failure> {
        let refused = |what: &str| Failure::refused(Refusal::Secret, format!("the secret {name} {what}"));
        let Some(dir) = self.0.as_ref().filter(|_| is_name(name)) else {
            return Err(refused("cannot be read: this node has no http_task.secrets_dir"));
        };
        // The reason stays in the log: it tells about the files of this machine.
        let unreadable = |error: std::io::Error| {
            tracing::warn!(name, %error, "a secret that a workflow names cannot be read");
            refused("is not there; the operator puts it into http_task.secrets_dir of every node")
        };
        let path = dir.join(name);
        // A pipe would be waited for.
        if !tokio::fs::metadata(&path).await.map_err(unreadable)?.is_file() {
            return Err(refused("is no file"));
        }
        let file = tokio::fs::File::open(&path).await.map_err(unreadable)?;
        let mut text = String::new();
        file.take(BYTES_MAX as u64 + 2).read_to_string(&mut text).await.map_err(unreadable)?;
        let secret = Secret(text.trim_end_matches(['\r', '\n']).to_owned());
        if !(BYTES_MIN..=BYTES_MAX).contains(&secret.0.len()) || secret.header().is_none() {
            return Err(refused(&format!(
                "cannot be sent: it has {BYTES_MIN} to {BYTES_MAX} bytes and can stand in a header"
            )));
        }
        Ok(secret)
    }
}

/// Finds secrets in what came back from a server.
#[derive(Debug, Default)]
pub(super) struct Redactor(Option<AhoCorasick>);

impl Redactor {
    pub(super) fn new<'s>(secrets: impl Iterator<Item = &'s Secret>) -> Result<Self, Failure> {
        let mut needles: Vec<String> = secrets.flat_map(spellings).collect();
        needles.sort();
        needles.dedup();
        if needles.is_empty() {
            return Ok(Self(None));
        }
        // Without regard to case: `%2F` is also written `%2f`.
        let finder =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).ascii_case_insensitive(true).build(needles);
        // What could not be kept out of the history is not sent.
        let too_many = |_| Failure::refused(Refusal::Secret, "there are too many secrets in one request");
        finder.map(|finder| Self(Some(finder))).map_err(too_many)
    }

    pub(super) fn bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        match &self.0 {
            Some(finder) if finder.is_match(bytes) => {
                let hidden = vec![HIDDEN; finder.patterns_len()];
                finder.replace_all_bytes(bytes, &hidden).into()
            }
            _ => bytes.into(),
        }
    }

    /// A text in which strings of JSON may be written with any escapes: each is looked at as what it means.
    pub(super) fn strings<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(finder) = self.0.as_ref().filter(|_| text.contains('\\')) else { return text.into() };
        let (mut out, mut rest) = (String::new(), text);
        while let Some(start) = rest.find('"') {
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let end = end_of_string(from.as_bytes()).unwrap_or(from.len());
            let (literal, behind) = from.split_at(end);
            let said = serde_json::from_str::<String>(literal).ok().filter(|said| finder.is_match(said));
            match said.and_then(|said| serde_json::to_string(&self.text(&said)).ok()) {
                Some(hidden) => out.push_str(&hidden),
                None => out.push_str(literal),
            }
            rest = behind;
        }
        out.push_str(rest);
        out.into()
    }

    pub(super) fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }
}

/// Where a string of JSON ends that begins with its quote.
fn end_of_string(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// The part of a text's base64 that does not depend on what stands before and behind it, for each of the three places
/// at which it may begin, in both alphabets, with padding or without.
fn in_base64(text: &str) -> impl Iterator<Item = String> {
    (0..3).flat_map(move |before| {
        let bytes = [&b"\0\0"[..before], text.as_bytes()].concat();
        // So many characters hold bits of what stands before; the last one holds bits of what follows.
        let (first, partial) = (before + usize::from(before > 0), !bytes.len().is_multiple_of(3));
        [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)].map(|encoded| {
            let last = encoded.len() - usize::from(partial);
            encoded.get(first..last).unwrap_or_default().to_owned()
        })
    })
}

/// The ways in which servers write back what they were sent: the value, or its parts (`Bearer …`, user and password),
/// as they are, in JSON, in a URL, in base64.
fn spellings(secret: &Secret) -> Vec<String> {
    let mut plain = vec![secret.0.clone()];
    plain.extend(secret.0.split_whitespace().map(str::to_owned));
    for part in secret.0.split_whitespace() {
        let decoded = STANDARD.decode(part).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        plain.extend(
            decoded
                .iter()
                .flat_map(|pair| [pair.as_str()].into_iter().chain(pair.splitn(2, ':').skip(1)))
                .map(str::to_owned),
        );
    }
    plain.retain(|text| text.len() >= BYTES_MIN);
    let mut all = Vec::new();
    for text in plain {
        let json = serde_json::to_string(&text).unwrap_or_default();
        let json = json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
        all.push(json.replace('/', "\\/"));
        all.push(json);
        all.push(url::form_urlencoded::byte_serialize(text.as_bytes()).collect());
        all.push(url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20"));
        let in_url: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        all.push(in_url.replace("%2F", "/"));
        all.push(in_url.replace("%2F", "/").replace('+', "%20"));
        all.push(STANDARD.encode(&text));
        all.extend(in_base64(&text));
        all.push(text);
    }
    all.retain(|text| text.len() >= BYTES_MIN);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(secret: &str, text: &str) -> String {
        Redactor::new([Secret(secret.to_owned())].iter()).unwrap().text(text)
    }

    #[test]
    fn what_a_server_writes_back_of_a_secret_is_hidden() {
        let secret = "Bearer ab/cd+\"ef=gh";
        for echoed in [
            "Bearer ab/cd+\"ef=gh",
            "ab/cd+\"ef=gh",
            r#"ab/cd+\"ef=gh"#,
            r#"ab\/cd+\"ef=gh"#,
            "ab%2Fcd%2B%22ef%3Dgh",
            "ab%2fcd%2b%22ef%3dgh",
            "Bearer%20ab%2Fcd%2B%22ef%3Dgh",
            "Bearer+ab%2Fcd%2B%22ef%3Dgh",
            &STANDARD.encode(secret),
            &STANDARD.encode("ab/cd+\"ef=gh"),
        ] {
            assert_eq!(redact(secret, &format!("<{echoed}>")), "<[secret]>", "{echoed}");
        }
        let basic = format!("Basic {}", STANDARD.encode("user:correct horse"));
        for echoed in ["user:correct horse", "correct horse", &STANDARD.encode("user:correct horse")] {
            assert_eq!(redact(&basic, &format!("<{echoed}>")), "<[secret]>", "{echoed}");
        }
        assert_eq!(redact(secret, "Bearer of good news"), "Bearer of good news", "a short part is ordinary text");
        assert_eq!(Redactor::new([].iter()).unwrap().text("x"), "x");
    }

    /// Servers escape what they need not, and put secrets into the middle of what they encode: that they were read back
    /// out of such spellings, and recorded, was found by an attack.
    #[test]
    fn escapes_and_encodings_hide_no_secret() {
        let secret = "tok_S3cr&t/Val+ue\"9<x>";
        let redactor = Redactor::new([Secret(secret.to_owned())].iter()).unwrap();
        let strings = |text: &str| redactor.strings(text).into_owned();
        let go = r#"{"v": "tok_S3cr\u0026t/Val+ue\"9\u003cx\u003e", "n": 1.10, "k\n": "other \u0041"}"#;
        assert_eq!(strings(go), r#"{"v": "[secret]", "n": 1.10, "k\n": "other \u0041"}"#);
        let every: String = secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        assert_eq!(strings(&format!("[\"<{every}>\", \"open\\")), "[\"<[secret]>\", \"open\\");
        assert!(!redact(secret, "tok_S3cr%26t/Val%2Bue%229%3Cx%3E").contains("S3cr"));
        for before in ["", "u", "u:", "u:t", "user:"] {
            for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                let encoded = engine.encode(format!("{before}{secret}{before}"));
                let left = redact(secret, &encoded);
                assert!(left.contains("[secret]") && left.len() < "[secret]".len() + 2 * before.len() + 6, "{left}");
            }
        }
    }

    #[tokio::test]
    async fn a_secret_is_a_file_of_its_name_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(dir.path().join(name), text).unwrap();
        write("good", b"Bearer 12345678\n");
        write("short", b"1234567\n");
        write("lines", b"12345678\r\nx-evil: 1\r\n");
        write("long", &vec![b'x'; BYTES_MAX + 1]);
        write("binary", &[0xff; 20]);
        write(".hidden", b"1234567890");
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        let secrets = Secrets(Some(dir.path().to_owned()));
        assert_eq!(secrets.read("good").await.unwrap(), Secret("Bearer 12345678".into()));
        for name in ["short", "lines", "long", "binary", "dir", "absent", ".hidden", "../good", "a/b", "", "."] {
            let failure = secrets.read(name).await.unwrap_err();
            assert_eq!((failure.error.code.as_str(), failure.error.retryable), ("ADAPTER_DISABLED", false), "{name}");
            assert!(!format!("{failure:?}").contains("12345678"), "{name}");
        }
        assert!(Secrets(None).read("good").await.is_err());
        assert_eq!(format!("{:?}", Secret("12345678".into())), "[secret]");
    }
}
