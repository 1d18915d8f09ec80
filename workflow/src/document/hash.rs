//! What a definition is known by: a digest of its meaning.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

/// Fields of the document that say nothing about what it does.
const BESIDE: [&str; 4] = ["source", "source_map", "definition_hash", "description"];

/// `sha256:<hex>` over the canonical JSON (RFC 8785) of a normal form.
pub(super) fn definition_hash(normal_form: &Json) -> String {
    let mut hashed = normal_form.clone();
    if let Json::Object(members) = &mut hashed {
        members.retain(|name, _| !BESIDE.contains(&name.as_str()));
    }
    let digest = Sha256::digest(canonical(&hashed));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Canonical JSON (RFC 8785).
pub(super) fn canonical(json: &Json) -> String {
    // It fails only for numbers that JSON does not have, which a JSON value cannot hold.
    serde_json_canonicalizer::to_string(json).unwrap_or_else(|_| json.to_string())
}
