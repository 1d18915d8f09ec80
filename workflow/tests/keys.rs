//! Keys against the second implementation's own words (L8, L11): one table, made once with it and never edited.

use workflow::key;

#[test]
fn idempotency_keys_are_golden() {
    // SHA-256 over id, 0x00, created_at_ms, 0x00, run, 0x00, key: its first 32 hex digits.
    assert_eq!(key::idempotency_key("order-1", 1_700_000_000_000, 1, "ship[3]"), "1a0a983325ef3cdfefcdabee0f119778");
    assert_eq!(key::idempotency_key("order-1", 1_700_000_000_000, 2, "ship[3]"), "e20952a06dd53b264ea3b34317b0348a");
}

#[test]
fn jitter_is_golden() {
    assert_eq!(key::jitter("order-1", 1, "charge", 1), 0.6792501311425636);
    assert_eq!(key::jitter("order-1", 1, "charge", 2), -0.5260498634779627);
}
