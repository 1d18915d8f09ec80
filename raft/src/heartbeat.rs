//! The heartbeats of all groups that this node leads, at the same moments.
//!
//! ```text
//!   group 1 ──♥───────♥───────♥──           group 1 ──♥────────♥──
//!   group 2 ────♥───────♥───────♥    ═▶     group 2 ──♥────────♥──   one message per peer
//!   group 3 ♥───────♥───────♥────           group 3 ──♥────────♥──
//! ```
//!
//! Left to itself each group beats at a phase of its own, so that with many groups every heartbeat is a message, and a
//! wake-up on both sides. Here the node beats for all of them, and what is ready together travels together (see
//! [`network`](crate::network)). The beat never waits for a group: one whose queue is full is busy, and its followers
//! hear from it by what it is busy with.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use openraft::AsyncRuntime;
use openraft::async_runtime::Instant;

use crate::group::Group;
use crate::node::Environment;
use crate::types::GroupId;

type Groups<E> = Mutex<BTreeMap<GroupId, Group<E>>>;

/// Beats until the groups are gone.
pub(crate) async fn beat<E: Environment>(groups: Weak<Groups<E>>, every: Duration) {
    let mut next = <E::Runtime as AsyncRuntime>::Instant::now();
    loop {
        next = (next + every).max(<E::Runtime as AsyncRuntime>::Instant::now());
        E::Runtime::sleep_until(next).await;
        let Some(groups) = groups.upgrade() else { return };
        for group in groups.lock().unwrap_or_else(PoisonError::into_inner).values() {
            group.beat();
        }
    }
}
