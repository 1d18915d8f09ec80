//! Names one hand-over of one attempt, to whoever holds it.
//!
//! ```text
//! base64url, no padding:  format 1 | run u32 | seq u64 | 8 random bytes | execution id
//! ```
//!
//! It is good while the StepDispatched at `seq` stands in that run with those bytes, so any node can route it and
//! nothing is kept per token. The random bytes are shown to the worker alone.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::event::Seq;

const FORMAT: u8 = 1;
const FIXED_BYTES: usize = 1 + 4 + 8 + 8;
/// Ids are at most 1 000 characters (derived ones); anything longer is no token of ours.
const TOKEN_BYTES_MAX: usize = 4 * 1_000 * 2;

/// A token, read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The execution.
    pub execution_id: String,
    /// Its run.
    pub run: u32,
    /// Place of the StepDispatched.
    pub seq: Seq,
    /// Random part.
    pub nonce: [u8; 8],
}

/// The text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no token of a hand-over")]
pub struct TokenError;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.execution_id.len());
        bytes.push(FORMAT);
        bytes.extend(self.run.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.nonce);
        bytes.extend(self.execution_id.as_bytes());
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError)?;
        let (fixed, id) = bytes.split_first_chunk::<FIXED_BYTES>().ok_or(TokenError)?;
        let [format, rest @ ..] = fixed;
        if *format != FORMAT {
            return Err(TokenError);
        }
        let (run, rest) = rest.split_first_chunk::<4>().ok_or(TokenError)?;
        let (seq, nonce) = rest.split_first_chunk::<8>().ok_or(TokenError)?;
        Ok(Self {
            execution_id: String::from_utf8(id.to_vec()).map_err(|_| TokenError)?,
            run: u32::from_be_bytes(*run),
            seq: u64::from_be_bytes(*seq),
            nonce: nonce.try_into().map_err(|_| TokenError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_same_after_a_round_trip() {
        let token = Token { execution_id: "order:7".into(), run: 3, seq: 1 << 40, nonce: [1, 2, 3, 4, 5, 6, 7, 8] };
        assert_eq!(token.to_string().parse(), Ok(token));
    }

    #[test]
    fn the_format_is_golden() {
        let token = Token { execution_id: "x".into(), run: 1, seq: 5, nonce: [9; 8] };
        assert_eq!(token.to_string(), "AQAAAAEAAAAAAAAABQkJCQkJCQkJeA");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "x", "AQ", "AgAAAAEAAAAAAAAABQkJCQkJCQkJeA", "AQAAAAEAAAAAAAAABQkJCQkJCQkJ/w", &"A".repeat(100_000)]
        {
            assert_eq!(text.parse::<Token>(), Err(TokenError), "{}", text.len());
        }
    }
}
