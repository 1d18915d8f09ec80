//! `ci/tidy.toml`: findings that are let pass, each with a reason. An exception that excuses nothing is a finding too.

use serde::Deserialize;

use crate::Finding;

/// Where the exceptions stand.
pub const PATH: &str = "ci/tidy.toml";

/// The list of exceptions.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default)]
    except: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    rule: String,
    /// A file, or a folder with `/` at its end.
    path: String,
    /// What the message must contain (a function's name, say); without it every finding of the rule in the path.
    about: Option<String>,
    reason: String,
}

impl Exception {
    fn covers(&self, finding: &Finding) -> bool {
        let place = finding.path == self.path || (self.path.ends_with('/') && finding.path.starts_with(&self.path));
        let subject = self.about.as_ref().is_none_or(|about| finding.message.contains(about));
        self.rule == finding.rule && place && subject
    }
}

impl Exceptions {
    /// Reads the list.
    ///
    /// # Errors
    /// When it is no TOML of this form.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// What remains: findings that no exception covers, exceptions that cover none or give no reason.
    #[must_use]
    pub fn apply(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let mut remaining: Vec<Finding> = Vec::new();
        for exception in &self.except {
            let subject = format!("the exception from {} for {}", exception.rule, exception.path);
            if !findings.iter().any(|finding| exception.covers(finding)) {
                remaining.push(Finding::about("exceptions", PATH, format!("{subject} excuses nothing any more")));
            }
            if exception.reason.split_whitespace().count() < 3 {
                remaining.push(Finding::about("exceptions", PATH, format!("{subject} has no reason")));
            }
        }
        remaining.extend(findings.into_iter().filter(|f| !self.except.iter().any(|exception| exception.covers(f))));
        remaining
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(extra: &str) -> Exceptions {
        Exceptions::parse(&format!("[[except]]\nrule = \"width\"\npath = \"a/\"\n{extra}")).unwrap()
    }

    #[test]
    fn only_what_is_excused_passes() {
        let findings = vec![Finding::at("width", "a/x.rs", 3, "wide"), Finding::at("width", "b.rs", 1, "wide")];
        let remaining = list("reason = \"written by a tool\"").apply(findings);
        assert_eq!(remaining, [Finding::at("width", "b.rs", 1, "wide")]);
    }

    #[test]
    fn a_stale_exception_and_one_without_a_reason_are_found() {
        let remaining = list("reason = \"because\"\nabout = \"narrow\"").apply(vec![]);
        let messages: Vec<_> = remaining.iter().map(|f| f.message.as_str()).collect();
        assert!(messages[0].ends_with("excuses nothing any more") && messages[1].ends_with("has no reason"));
    }
}
