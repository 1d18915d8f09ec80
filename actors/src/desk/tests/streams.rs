//! Streams: tasks at once, receipts, reconnecting.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_task_without_a_receipt_is_taken_back_in_time() {
    let (desk, [shard]) = desk([1]);
    let mut connection = stream(&desk, "w", &["pay"], 2);
    let (kept, lost) = (hand_over(&desk, &shard, "1/a", 1), hand_over(&desk, &shard, "1/b", 2));
    assert_eq!(delivered(&mut connection), [delivery(&kept), delivery(&lost)]);
    connection.received(&texts(&[&kept]));
    let next = desk.tick(Instant::now());
    assert!(next <= Instant::now() + RECEIPT);
    tokio::time::advance(RECEIPT - Duration::from_millis(1)).await;
    desk.tick(Instant::now());
    assert_eq!(shard.lost(), []);
    tokio::time::advance(Duration::from_millis(1)).await;
    desk.tick(Instant::now());
    assert_eq!(shard.lost(), [(lost, UncertainReason::NotReceived)]);
    desk.enqueue(1, ready("pay", "1/c", 1));
    assert_eq!(shard.names(), Vec::<String>::new(), "a dead stream gets no more than it had slots");
    desk.settled(1, &kept);
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_gives_back_what_was_not_received_and_keeps_the_rest() {
    let (desk, [shard]) = desk([1]);
    let connection = stream(&desk, "w", &["pay"], 3);
    let late = desk.try_take(&queue("pay"), &order(0)).unwrap();
    let (kept, lost) = (hand_over(&desk, &shard, "1/a", 1), hand_over(&desk, &shard, "1/b", 2));
    connection.received(&texts(&[&kept]));
    drop(connection);
    assert_eq!(shard.lost(), [(lost, UncertainReason::NotReceived)]);
    let token = token("1/c", 3);
    desk.dispatched(1, late, task(&token));
    assert_eq!(shard.lost(), [(token, UncertainReason::NotReceived)]);
    assert!(desk.is_held(&kept));
    tokio::time::advance(SESSION).await;
    desk.tick(Instant::now());
    assert_eq!(shard.lost(), [(kept, UncertainReason::WorkerLost)]);
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_session_reconnects_with_what_it_holds() {
    let (desk, [shard]) = desk([1]);
    let mut first = stream(&desk, "w", &["pay"], 4);
    let [a, b, c] = [1, 2, 3].map(|n| hand_over(&desk, &shard, &format!("1/{n}"), n));
    first.received(&texts(&[&a, &b]));
    // The worker connects again before the node sees that the old stream broke: c arrived, its receipt did not; b is
    // not held any more.
    let dead = token("1/dead", 9);
    let hello = Register {
        tokens: texts(&[&a, &c, &dead]),
        worker_session_id: Some(first.session.worker_session_id.clone()),
        ..worker("w", &["pay"])
    };
    let mut second = desk.open_stream(hello, Instant::now(), || unreachable!()).unwrap();
    assert_eq!(second.session.worker_session_id, first.session.worker_session_id);
    assert_eq!(shard.lost(), [(b, UncertainReason::NotReceived)]);
    assert_eq!(delivered(&mut second), [Delivery::Cancel(dead.to_string())]);
    assert_eq!(delivered(&mut first).len(), 3);
    assert!(first.deliveries.recv().await.is_none(), "the old stream ends");
    first.offer_slots(1);
    drop(first);
    assert_eq!(shard.lost(), []);
    desk.enqueue(1, ready("pay", "1/d", 1));
    assert_eq!(shard.names(), Vec::<String>::new(), "the old stream's slot is gone");
    second.offer_slots(1);
    assert_eq!(shard.names(), ["1/d"]);
    assert!(desk.is_held(&a) && desk.is_held(&c));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_pushed_and_repeated_as_long_as_the_token_is_listed() {
    let (desk, [shard]) = desk([1]);
    let mut connection = stream(&desk, "w", &["pay"], 1);
    let token = hand_over(&desk, &shard, "1/a", 1);
    desk.cancel(1, &token);
    assert_eq!(delivered(&mut connection), [delivery(&token), Delivery::Cancel(token.to_string())]);
    let list = texts(&[&token]);
    let heartbeat = || desk.heartbeat("w", Some(&list), Instant::now()).unwrap().cancel;
    assert_eq!((heartbeat(), heartbeat()), (list.clone(), list.clone()));
    desk.settled(1, &token);
    assert_eq!(heartbeat(), list, "dead is as good as cancelled");
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_draining_node_says_so_and_sends_no_more() {
    let (desk, [shard]) = desk([1]);
    let mut connection = stream(&desk, "w", &["pay"], 1);
    desk.drain();
    connection.offer_slots(1);
    desk.enqueue(1, ready("pay", "1/a", 1));
    assert_eq!(shard.names(), Vec::<String>::new());
    assert_eq!(delivered(&mut connection), [Delivery::Drain]);
    let mut late = desk.open_stream(worker("v", &["pay"]), Instant::now(), || "v".into()).unwrap();
    assert_eq!(delivered(&mut late), [Delivery::Drain]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_holds_no_more_than_its_slots() {
    let (desk, [shard]) = desk([1]);
    let mut connection = stream(&desk, "w", &["pay"], u32::MAX);
    let max = super::super::SLOTS_MAX;
    assert_eq!(desk.lock().sessions.all().next().unwrap().idle, max);
    connection.offer_slots(1);
    assert_eq!(desk.lock().sessions.all().next().unwrap().idle, max);
    let first = hand_over(&desk, &shard, "1/a", 1);
    for _ in 0..3 * max {
        desk.cancel(1, &first);
    }
    // Notices fill what is free and leave the room of every slot.
    for nonce in 2..=u8::MAX {
        hand_over(&desk, &shard, "1/a", nonce);
    }
    assert_eq!(shard.lost(), []);
    let tasks = delivered(&mut connection).into_iter().filter(|d| matches!(d, Delivery::Task(_))).count();
    assert_eq!(tasks, usize::from(u8::MAX));
}
