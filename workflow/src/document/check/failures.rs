//! `fail.code`: none of the codes that Orbit makes itself (L13).

use super::Report;
use crate::document::marked::join;
use crate::document::outline::Outline;
use crate::event::is_own_code;

pub(super) fn check(outline: &Outline<'_>, report: &mut Report) {
    for step in &outline.steps {
        let Some(code) = step.node.get("fail").and_then(|fail| fail.get("code")) else { continue };
        if code.text().is_some_and(is_own_code) {
            let message = format!("`{}` is one of Orbit's own codes", code.text().unwrap_or_default());
            report.fault(code.place, join(&join(&step.path, "fail"), "code"), message);
        }
    }
}
