//! Sessions come, live and go.

use super::*;
use crate::error::Code;

#[tokio::test(start_paused = true)]
async fn a_silent_session_is_lost_with_all_that_it_holds() {
    let (desk, [shard]) = desk([1]);
    let connection = stream(&desk, "w", &["pay"], 1);
    let token = hand_over(&desk, &shard, "1/a", 1);
    connection.received(&texts(&[&token]));
    for _ in 0..3 {
        tokio::time::advance(SESSION - Duration::from_millis(1)).await;
        desk.tick(Instant::now());
        assert_eq!((desk.sessions(), shard.lost()), (1, vec![]));
        desk.seen("w", Instant::now());
    }
    tokio::time::advance(SESSION).await;
    desk.tick(Instant::now());
    assert_eq!((desk.sessions(), shard.lost()), (0, vec![(token, UncertainReason::WorkerLost)]));
    assert_eq!(desk.heartbeat("w", Some(&[]), Instant::now()).unwrap_err().code, Code::UnknownSession);
    assert_eq!(desk.open_poll("w", 1, Instant::now()).unwrap_err().code, Code::UnknownSession);
    drop(connection);
    let state = desk.lock();
    assert!(state.agenda.is_empty() && state.outlets.is_empty() && state.lines.len() == 0, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn every_call_is_a_sign_of_life() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let connection = stream(&desk, "v", &["ship"], 0);
    let mut waiting = poll(&desk, &session, 1);
    let token = hand_over(&desk, &shard, "1/a", 1);
    assert_eq!(waiting.next(Instant::now()).await.len(), 1);
    let calls: [&dyn Fn(); 5] = [
        &|| drop(poll(&desk, "w", 1)),
        &|| drop(desk.heartbeat("w", None, Instant::now()).unwrap()),
        &|| desk.heard_about(&token, Instant::now()),
        &|| desk.seen("w", Instant::now()),
        &|| {
            let again =
                Register { worker_session_id: Some("w".into()), tokens: texts(&[&token]), ..worker("w", &["pay"]) };
            desk.register(again, Instant::now(), String::new).unwrap();
        },
    ];
    for call in calls {
        tokio::time::advance(SESSION - Duration::from_millis(1)).await;
        call();
        connection.offer_slots(0);
        desk.tick(Instant::now());
        assert_eq!(desk.sessions(), 2);
    }
    tokio::time::advance(SESSION - Duration::from_millis(1)).await;
    connection.received(&[]);
    desk.tick(Instant::now());
    tokio::time::advance(Duration::from_millis(1)).await;
    desk.tick(Instant::now());
    assert_eq!(desk.sessions(), 1);
    assert_eq!(shard.lost(), [(token, UncertainReason::WorkerLost)]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_gives_everything_back() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut answered = poll(&desk, &session, 1);
    let out = hand_over(&desk, &shard, "1/a", 1);
    assert_eq!(answered.next(Instant::now()).await.len(), 1);
    let mut waiting = poll(&desk, &session, 2);
    let late = desk.try_take(&queue("pay"), &order(0)).unwrap();
    let arrived = hand_over(&desk, &shard, "1/b", 2);
    desk.unregister(&session);
    let lost = shard.lost();
    assert_eq!(lost.len(), 2);
    for token in [out, arrived] {
        assert!(lost.contains(&(token, UncertainReason::Unregistered)), "{lost:?}");
    }
    assert_eq!(waiting.next(Instant::now() + Duration::from_secs(20)).await, []);
    let token = token("1/c", 3);
    desk.dispatched(1, late, task(&token));
    assert_eq!(shard.lost(), [(token, UncertainReason::NotReceived)]);
    desk.unregister(&session);
    assert_eq!(desk.sessions(), 0);
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_by_its_worker_alone() {
    let (desk, _) = desk([1]);
    let again = |worker_id: &str, session: &str| {
        let request = Register { worker_session_id: Some(session.into()), ..worker(worker_id, &["pay"]) };
        desk.register(request, Instant::now(), || "new".into()).unwrap().worker_session_id
    };
    assert_eq!(register(&desk, "w", &["pay"]), "w");
    assert_eq!(again("w", "w"), "w");
    assert_eq!(desk.sessions(), 1);
    assert_eq!(again("thief", "w"), "new", "somebody else's is not touched");
    assert_eq!(again("w", "of another node"), "of another node", "one that this node does not know is kept");
    assert_eq!(desk.sessions(), 3);
}

#[tokio::test(start_paused = true)]
async fn workers_are_listed_with_their_sessions() {
    let (desk, [shard]) = desk([1]);
    register(&desk, "v", &["pay"]);
    tokio::time::advance(Duration::from_secs(3)).await;
    desk.register(worker("v", &["ship"]), Instant::now(), || "v2".into()).unwrap();
    let _poll = poll(&desk, "v", 1);
    hand_over(&desk, &shard, "1/a", 1);
    let held = Held { token: token("1/b", 2), worker_id: "gone".into(), session: "g".into(), stop: false };
    desk.resign(1);
    let _shard = lead(&desk, 1);
    desk.adopt(1, vec![held], Instant::now());
    tokio::time::advance(Duration::from_secs(1)).await;
    let workers = desk.workers(Instant::now(), 100_000);
    let seen: Vec<_> = workers.iter().map(|w| (w.worker_id.as_str(), w.online, w.sessions, w.in_flight)).collect();
    assert_eq!(seen, [("gone", false, 0, 1), ("v", true, 2, 0)]);
    assert_eq!((workers[1].contracts.len(), workers[1].last_seen_ms), (2, 99_000));
    assert_eq!(desk.sessions(), 2);
}
