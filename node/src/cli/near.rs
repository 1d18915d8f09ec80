//! The name that was meant.

/// ` (did you mean `x`?)` for the known name that is nearest to what was written, if one is near enough.
pub(crate) fn meant<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let far = |name: &str| strsim::osa_distance(&written.to_lowercase(), &name.to_lowercase());
    let allowed = (written.chars().count() / 3).clamp(1, 3);
    let near = known.into_iter().map(|name| (far(name), name)).filter(|(far, _)| *far <= allowed).min();
    near.map(|(_, name)| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn only_what_is_near_was_meant() {
        let known = ["expense.scan", "expense.pay", "a"];
        assert_eq!(meant("expence.scan", known), " (did you mean `expense.scan`?)");
        assert_eq!(meant("Expense.Pay", known), " (did you mean `expense.pay`?)");
        assert_eq!(meant("mail.send", known), "");
        assert_eq!(meant("x", []), "");
    }
}
