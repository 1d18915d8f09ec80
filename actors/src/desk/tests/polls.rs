//! Polls: slots while they wait, an answer that is sure, nothing lost when they end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_poll_waits_for_what_comes_and_ends_empty_at_its_deadline() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut waiting = poll(&desk, &session, 1);
    let waiting = tokio::spawn(async move { waiting.next(deadline).await });
    tokio::task::yield_now().await;
    let token = hand_over(&desk, &shard, "1/a", 1);
    assert_eq!(waiting.await.unwrap(), [task(&token)]);
    assert_eq!(shard.lost(), []);

    let mut empty = poll(&desk, &session, 1);
    assert_eq!(empty.next(deadline).await, []);
    assert_eq!(Instant::now(), deadline);
    desk.enqueue(1, ready("pay", "1/b", 1));
    assert_eq!(shard.names(), Vec::<String>::new(), "its slot is withdrawn");
    assert_eq!(empty.next(deadline).await, [], "it answers once");
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_waits_for_a_reserved_slot() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut waiting = poll(&desk, &session, 2);
    let slot = desk.try_take(&queue("pay"), &order(1)).unwrap();
    let other = desk.try_take(&queue("pay"), &order(2)).unwrap();
    let answer = waiting.next(Instant::now());
    tokio::pin!(answer);
    // Its time is over, yet it must not say "nothing" while a commit is under way.
    tokio::select! { biased; _ = &mut answer => panic!("two slots are reserved"), () = tokio::task::yield_now() => {} }
    drop(other);
    tokio::select! { biased; _ = &mut answer => panic!("one slot is reserved"), () = tokio::task::yield_now() => {} }
    desk.enqueue(1, ready("pay", "1/x", 1));
    assert_eq!(shard.names(), Vec::<String>::new(), "the slot that was given up is withdrawn");
    let token = token("1/a", 1);
    desk.dispatched(1, slot, task(&token));
    assert_eq!(answer.await, [task(&token)]);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_commit_go_out_together_but_do_not_wait_long() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut waiting = poll(&desk, &session, 3);
    for age in 0..3 {
        desk.enqueue(1, ready("pay", &format!("1/{age}"), age));
    }
    let mut slots: Vec<_> = std::iter::from_fn(|| shard.offered()).map(|(_, slot)| slot).collect();
    let late = slots.pop().unwrap();
    let begun = Instant::now();
    for (nonce, slot) in (1..).zip(slots) {
        desk.dispatched(1, slot, task(&token("1/a", nonce)));
    }
    let answer = waiting.next(begun + Duration::from_secs(20)).await;
    assert_eq!(answer.len(), 2);
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    // What comes after the answer cannot reach the worker.
    let token = token("1/late", 9);
    desk.dispatched(1, late, task(&token));
    assert_eq!(shard.lost(), [(token, UncertainReason::NotReceived)]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_poll_takes_back_what_it_had_and_its_slots() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let waiting = poll(&desk, &session, 3);
    let late = desk.try_take(&queue("pay"), &order(0)).unwrap();
    let arrived = hand_over(&desk, &shard, "1/a", 1);
    drop(waiting);
    assert_eq!(shard.lost(), [(arrived, UncertainReason::NotReceived)]);
    desk.enqueue(1, ready("pay", "1/b", 1));
    assert_eq!(shard.names(), Vec::<String>::new());
    let token = token("1/c", 2);
    desk.dispatched(1, late, task(&token));
    assert_eq!(shard.lost(), [(token, UncertainReason::NotReceived)]);
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_over_before_the_answer_does_not_go_out() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut waiting = poll(&desk, &session, 1);
    let token = hand_over(&desk, &shard, "1/a", 1);
    desk.enqueue(1, ready("pay", "1/b", 2));
    assert!(shard.offered().is_none());
    desk.settled(1, &token);
    assert_eq!(shard.names(), ["1/b"], "its slot is free again");
    drop(shard.offered());
    assert_eq!(waiting.next(Instant::now()).await, []);
    assert_eq!(shard.lost(), []);
}

#[tokio::test(start_paused = true)]
async fn the_first_heartbeat_long_after_the_answer_that_does_not_list_it_takes_it_back() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut waiting = poll(&desk, &session, 2);
    let (kept, lost) = (hand_over(&desk, &shard, "1/a", 1), hand_over(&desk, &shard, "1/b", 2));
    assert_eq!(waiting.next(Instant::now()).await.len(), 2);
    let heartbeat = |tokens: Option<&[String]>| desk.heartbeat(&session, tokens, Instant::now()).unwrap().cancel;
    tokio::time::advance(RECEIPT).await;
    assert_eq!(heartbeat(Some(&[])), Vec::<String>::new());
    assert_eq!(shard.lost(), [], "it may have crossed the answer");
    tokio::time::advance(Duration::from_millis(1)).await;
    heartbeat(None);
    desk.tick(Instant::now());
    assert_eq!(shard.lost(), [], "without tokens it says nothing about them");
    assert_eq!(heartbeat(Some(&texts(&[&kept]))), Vec::<String>::new());
    assert_eq!(shard.lost(), [(lost.clone(), UncertainReason::NotReceived)]);
    assert_eq!(heartbeat(Some(&texts(&[&kept, &lost]))), texts(&[&lost]), "it arrived late and is another's now");
}

#[tokio::test(start_paused = true)]
async fn a_session_has_a_bounded_number_of_slots() {
    let (desk, _) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let all = poll(&desk, &session, u32::MAX);
    assert_eq!(desk.lock().sessions.all().next().unwrap().idle, super::super::SLOTS_MAX);
    let refused = desk.open_poll(&session, 1, Instant::now()).unwrap_err();
    assert_eq!(refused.code, crate::error::Code::Overloaded);
    drop(all);
    let _again = poll(&desk, &session, 1);
}

#[tokio::test(start_paused = true)]
async fn a_draining_node_ends_its_polls_and_takes_no_more() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut waiting = poll(&desk, &session, 1);
    let slot = desk.try_take(&queue("pay"), &order(1)).unwrap();
    desk.drain();
    drop(slot);
    desk.enqueue(1, ready("pay", "1/b", 1));
    assert_eq!(shard.names(), Vec::<String>::new());
    let begun = Instant::now();
    assert_eq!(waiting.next(begun + Duration::from_secs(20)).await, []);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(desk.open_poll(&session, 1, begun).unwrap_err().code, crate::error::Code::Overloaded);
}
