//! What a caller is told who is refused.

use crate::command::Refusal;

/// A public code, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: &'static str,
    /// Empty where the code says it all.
    pub(super) why: String,
}

impl Refused {
    pub(super) fn because(code: &'static str, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

impl From<&'static str> for Refused {
    fn from(code: &'static str) -> Self {
        Self::because(code, "")
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let why = match &refusal {
            Refusal::InvalidInput(_) | Refusal::InvalidSignal(_) | Refusal::NotRedrivable(_) => refusal.to_string(),
            _ => String::new(),
        };
        Self::because(refusal.code(), why)
    }
}

/// `refused CODE`, and why in brackets.
impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, why } = self;
        if why.is_empty() { write!(f, "refused {code}") } else { write!(f, "refused {code} ({why})") }
    }
}
