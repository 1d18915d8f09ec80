//! What the rules need to know of a Rust file: its functions, which of them are tests, and how long each is.

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Block, ImplItemFn, ItemFn, Macro, Signature, TraitItemFn,
    visit::{self, Visit},
};

/// One function, method, or test inside a macro such as `proptest!`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its own name, without the modules around it.
    pub name: String,
    /// Where `fn` stands, from 1.
    pub line: usize,
    /// From `fn` to the closing brace, both included.
    pub lines: usize,
    /// Whether an attribute whose path ends in `test` stands before it.
    pub is_test: bool,
}

/// All functions of a file in the order in which they stand.
///
/// # Errors
/// When the text is no Rust file.
pub fn functions(text: &str) -> syn::Result<Vec<Function>> {
    let file = syn::parse_file(text)?;
    let mut found = Functions::default();
    found.visit_file(&file);
    Ok(found.0)
}

#[derive(Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        let line = signature.fn_token.span.start().line;
        let end = body.brace_token.span.close().end().line;
        let is_test =
            attributes.iter().any(|a| a.path().segments.last().is_some_and(|segment| segment.ident == "test"));
        self.0.push(Function { name: signature.ident.to_string(), line, lines: end - line + 1, is_test });
    }

    /// Tokens of a macro are no syntax tree, so the shape `#[test] … fn name … { … }` is looked for in them.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut is_test = false;
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) if group.stream().to_string() == "test" => is_test = true,
                TokenTree::Ident(word) if word == "fn" => {
                    let Some(TokenTree::Ident(name)) = tokens.get(index + 1) else { continue };
                    let line = word.span().start().line;
                    let body = tokens[index..].iter().find_map(|t| match t {
                        TokenTree::Group(g) if g.delimiter() == proc_macro2::Delimiter::Brace => Some(g),
                        _ => None,
                    });
                    let end = body.map_or(line, |b| b.span_close().end().line);
                    self.0.push(Function { name: name.to_string(), line, lines: end - line + 1, is_test });
                    is_test = false;
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.attrs, &item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.scan(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_async_tests_and_tests_in_macros_are_seen() {
        let text = "
            trait T { fn given(&self) { } fn asked(&self); }
            #[tokio::test] async fn waits() {}
            mod tests { #[test] fn inside() {} }
            proptest! {
                #[test]
                fn property(x in 0..3) {
                    check(x);
                }
            }";
        let found = functions(text).unwrap();
        let seen: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.is_test, f.lines)).collect();
        let expected = [("given", false, 1), ("waits", true, 1), ("inside", true, 1), ("property", true, 3)];
        assert_eq!(seen, expected);
    }
}
