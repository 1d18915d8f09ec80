//! Who comes first.

use super::super::state::REREAD_AFTER;
use super::*;

/// Takes offers until none is left; the slots stay reserved.
fn drain(shards: &[Arc<Shard>]) -> Vec<(String, Slot)> {
    let mut all = Vec::new();
    for shard in shards {
        while let Some((ready, slot)) = shard.offered() {
            all.push((ready.unit.execution_id.to_string(), slot));
        }
    }
    all
}

#[test]
fn the_oldest_of_all_shards_goes_first() {
    let (desk, shards) = desk([1, 2]);
    desk.enqueue(1, ready("pay", "1/b", 20));
    desk.enqueue(2, ready("pay", "2/a", 10));
    desk.enqueue(2, ready("pay", "2/c", 30));
    let session = register(&desk, "w", &["pay"]);
    let _first = poll(&desk, &session, 1);
    assert_eq!((shards[0].names(), shards[1].names()), (vec![], vec!["2/a".into()]));
    let _second = poll(&desk, &session, 1);
    assert_eq!(shards[0].names(), ["1/b"]);
    let _third = poll(&desk, &session, 1);
    assert_eq!(shards[1].names(), ["2/a", "2/c"]);
}

#[test]
fn the_oldest_of_all_queues_of_a_worker_goes_first_and_priority_before_age() {
    let (desk, [shard]) = desk([1]);
    desk.enqueue(1, ready("pay", "1/late", 30));
    desk.enqueue(1, ready("ship", "1/early", 10));
    let mut own = ready("pay", "1/own", 20);
    own.queue.language = Some("rust".into());
    desk.enqueue(1, own);
    let mut urgent = ready("ship", "1/urgent", 40);
    urgent.order.priority = 1;
    desk.enqueue(1, urgent);
    let session = register(&desk, "w", &["pay", "ship"]);
    let _poll = poll(&desk, &session, 4);
    assert_eq!(shard.names(), ["1/urgent", "1/early", "1/own", "1/late"]);
}

#[test]
fn a_worker_gets_only_what_it_can_do() {
    let (desk, [shard]) = desk([1]);
    let mut foreign = ready("pay", "1/java", 1);
    foreign.queue.language = Some("java".into());
    desk.enqueue(1, foreign);
    let mut built_in = ready("pay", "1/built-in", 1);
    built_in.queue.version = None;
    desk.enqueue(1, built_in);
    desk.enqueue(1, ready("ship", "1/ship", 1));
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 3);
    assert_eq!(shard.names(), Vec::<String>::new());
    assert!(desk.is_served("pay", "1") && !desk.is_served("pay", "2") && !desk.is_served("ship", "1"));
    // It learns to ship: what waits comes to the slots that it has.
    desk.register(Register { worker_session_id: Some(session), ..worker("w", &["ship"]) }, Instant::now(), String::new)
        .unwrap();
    assert_eq!(shard.names(), ["1/ship"]);
    assert!(!desk.is_served("pay", "1") && desk.is_served("ship", "1"));
}

#[test]
fn a_slot_is_taken_before_the_commit_only_when_nothing_older_waits() {
    let (desk, [shard]) = desk([1]);
    assert!(desk.try_take(&queue("pay"), &order(5)).is_none(), "nobody serves it");
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 1);
    let slot = desk.try_take(&queue("pay"), &order(5)).unwrap();
    assert_eq!((slot.worker_id(), slot.session_id()), ("w", "w"));
    assert!(desk.try_take(&queue("pay"), &order(5)).is_none(), "there was one slot");
    // While it is reserved an older one comes; the commit fails, and the slot goes to that one.
    desk.enqueue(1, ready("pay", "1/old", 1));
    drop(slot);
    assert_eq!(shard.names(), ["1/old"]);
}

#[test]
fn rows_that_are_not_read_yet_hold_younger_ones_back() {
    let (desk, [one, two]) = desk([1, 2]);
    desk.refilled(1, &queue("pay"), vec![ready("pay", "1/a", 10), ready("pay", "1/b", 20)], true);
    desk.enqueue(2, ready("pay", "2/x", 15));
    desk.enqueue(2, ready("pay", "2/y", 40));
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 9);
    assert_eq!((one.names(), two.names()), (vec!["1/a".into(), "1/b".into()], vec!["2/x".into()]));
    assert_eq!(one.refills(), 1);
    assert!(desk.try_take(&queue("pay"), &order(50)).is_none(), "1 has older ones in its rows");
    assert!(desk.try_take(&queue("pay"), &order(12)).is_some(), "older than all rows");
    desk.refilled(1, &queue("pay"), vec![ready("pay", "1/c", 30)], false);
    assert_eq!((one.names().len(), two.names().len()), (3, 2), "c, then y");
    assert_eq!(one.refills(), 0);
}

#[test]
fn a_shard_that_resigns_holds_nobody_back_and_is_not_told_more() {
    let (desk, [one, two]) = desk([1, 2]);
    desk.refilled(1, &queue("pay"), Vec::new(), true);
    desk.enqueue(1, ready("ship", "1/s", 1));
    desk.enqueue(2, ready("pay", "2/x", 15));
    let session = register(&desk, "w", &["pay", "ship"]);
    let _poll = poll(&desk, &session, 1);
    assert_eq!(one.names(), ["1/s"]);
    let _more = poll(&desk, &session, 1);
    desk.resign(1);
    assert_eq!(two.names(), ["2/x"]);
    desk.enqueue(1, ready("pay", "1/late", 1));
    drop(drain(&[one.clone(), two]));
    assert_eq!(one.names(), Vec::<String>::new());
    assert_eq!(desk.lock().lines.len(), 4, "those of the worker");
    desk.unregister(&session);
    assert_eq!(desk.lock().lines.len(), 0);
}

#[test]
fn a_window_keeps_the_oldest_and_reads_the_rest_from_rows() {
    let (desk, [shard]) = desk([1]);
    for age in [50, 10, 40, 20, 30] {
        desk.enqueue(1, ready("pay", &format!("1/{age}"), age));
    }
    let kept = desk.lock().window_of(&queue("pay"), 1, |window| window.len());
    assert_eq!(kept, Some(3));
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 5);
    assert_eq!(shard.names(), ["1/10", "1/20", "1/30"]);
    assert_eq!(shard.refills(), 1);
    // One comes and one goes while the rows are read; the rows are older than both, and than the offers' commits.
    desk.enqueue(1, ready("pay", "1/45", 45));
    desk.withdraw(1, &queue("pay"), &order(50), &ready("pay", "1/50", 50).unit);
    let read = [10, 20, 30, 40, 50].map(|age| ready("pay", &format!("1/{age}"), age));
    desk.refilled(1, &queue("pay"), read.to_vec(), false);
    assert_eq!(shard.names(), ["1/10", "1/20", "1/30", "1/40"], "45 is missing: rows tell");
    assert_eq!(shard.refills(), 1);
    desk.refilled(1, &queue("pay"), vec![ready("pay", "1/45", 45)], false);
    assert_eq!(shard.names().last().unwrap(), "1/45");
}

#[test]
fn rows_that_are_all_on_their_way_are_not_asked_for_again_until_one_settles() {
    let (desk, [shard]) = desk([1]);
    let rows = vec![ready("pay", "1/a", 1), ready("pay", "1/b", 2)];
    desk.refilled(1, &queue("pay"), rows.clone(), true);
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 9);
    assert_eq!(shard.refills(), 1);
    desk.refilled(1, &queue("pay"), rows, true);
    assert_eq!((shard.names().len(), shard.refills()), (2, 0));
    let (_, slot) = shard.offered().unwrap();
    desk.dispatched(1, slot, task(&token("1/a", 1)));
    assert_eq!(shard.refills(), 1);
}

#[test]
fn an_offer_that_comes_to_nothing_waits_again_at_its_place() {
    let (desk, [shard]) = desk([1]);
    desk.enqueue(1, ready("pay", "1/a", 1));
    desk.enqueue(1, ready("pay", "1/b", 2));
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 1);
    let (a, slot) = shard.offered().unwrap();
    desk.enqueue(1, a);
    drop(slot);
    assert_eq!(shard.names(), ["1/a"]);
    // It waits no more: the next one gets the slot.
    let (a, slot) = shard.offered().unwrap();
    desk.withdraw(1, &a.queue, &a.order, &a.unit);
    drop(slot);
    assert_eq!(shard.names(), ["1/b"]);
    assert!(desk.lock().agenda.values().all(|due| matches!(due, super::super::state::Due::Session(_))));
}

/// A unit went back to its place and out again, to a second slot, before the first slot was given back; that took the
/// second offer for ended. When the second came to nothing too, and silently, nobody read the rows again: the unit
/// waited for ever.
#[tokio::test(start_paused = true)]
async fn the_slot_of_an_older_offer_says_nothing_about_a_newer_one() {
    let (desk, [shard]) = desk([1]);
    desk.enqueue(1, ready("pay", "1/a", 1));
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 2);
    let (a, first) = shard.offered().unwrap();
    desk.enqueue(1, a);
    let (_, second) = shard.offered().unwrap();
    drop(first);
    tokio::time::advance(REREAD_AFTER).await;
    desk.tick(Instant::now());
    assert_eq!(shard.refills(), 0, "the second offer is under way");
    drop(second);
    tokio::time::advance(REREAD_AFTER).await;
    desk.tick(Instant::now());
    assert_eq!(shard.refills(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_an_offer_of_which_nobody_says_what_became_rows_are_read_again() {
    let (desk, [shard]) = desk([1]);
    desk.enqueue(1, ready("pay", "1/a", 1));
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 1);
    drop(shard.offered().unwrap());
    desk.tick(Instant::now());
    assert_eq!((shard.names().len(), shard.refills()), (0, 0));
    tokio::time::advance(Duration::from_secs(1)).await;
    desk.tick(Instant::now());
    assert_eq!(shard.refills(), 1);
    desk.refilled(1, &queue("pay"), vec![ready("pay", "1/a", 1)], false);
    assert_eq!(shard.names(), ["1/a"]);
}

#[test]
fn sessions_are_served_by_turns() {
    let (desk, [shard]) = desk([1]);
    let sessions = ["u", "v", "w"].map(|id| register(&desk, id, &["pay"]));
    let _polls = sessions.map(|session| poll(&desk, &session, 3));
    for age in 0..6 {
        desk.enqueue(1, ready("pay", &format!("1/{age}"), age));
    }
    let served: Vec<_> = std::iter::from_fn(|| shard.offered()).collect();
    let served: Vec<_> = served.iter().map(|(_, slot)| slot.worker_id()).collect();
    assert_eq!(served, ["u", "v", "w", "u", "v", "w"]);
}

/// A sink whose channel is closed: every offer is dropped where it is made.
#[derive(Debug)]
struct Deaf;

impl ShardSink for Deaf {
    fn offer(&self, _: Ready, _: Slot) {}
    fn take_back(&self, _: Token, _: UncertainReason) {}
    fn refill(&self, _: Queue) {}
    fn owns(&self, _: &str) -> bool {
        false
    }
}

#[test]
fn offers_that_are_dropped_at_once_do_not_nest() {
    let desk = Desk::new(DeskSettings { window_max: 20_000, ..settings() });
    desk.lead(1, Arc::new(Deaf));
    for age in 0..20_000 {
        desk.enqueue(1, ready("pay", "1/a", age));
    }
    let session = register(&desk, "w", &["pay"]);
    let _poll = poll(&desk, &session, 1);
    assert_eq!(desk.lock().window_of(&queue("pay"), 1, |window| window.len()), Some(0));
}
