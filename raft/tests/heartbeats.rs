//! Heartbeats of many groups share their messages.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/counted.rs"]
mod counted;
mod support;

use counted::Three;
use support::within;

const GROUPS: u16 = 24;

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_of_many_groups_travel_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut three = Three::start(dir.path(), GROUPS).await;
    let wait = |frames: u64| move |counts: &counted::Counts| counts.frames >= frames;
    // What elections and first entries left behind comes first.
    let settled = three.counts.borrow().frames + 300;
    within(60, "settling", three.counts.wait_for(wait(settled))).await.unwrap();
    let before = *three.counts.borrow();
    within(60, "beating", three.counts.wait_for(wait(before.frames + 1_000))).await.unwrap();
    let after = *three.counts.borrow();
    let (frames, messages) = (after.frames - before.frames, after.messages - before.messages);
    assert!(frames > 2 * messages, "{frames} questions in {messages} messages");
    three.stop().await;
}
