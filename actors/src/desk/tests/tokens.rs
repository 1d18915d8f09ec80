//! To whom a token belongs, also across restarts and leader changes.

use super::*;
use crate::error::Code;

fn held(token: &Token, worker_id: &str, session: &str) -> Held {
    Held { token: token.clone(), worker_id: worker_id.into(), session: session.into(), stop: false }
}

fn list(desk: &Desk, session: &str, tokens: &[&Token]) -> Vec<String> {
    desk.heartbeat(session, Some(&texts(tokens)), Instant::now()).unwrap().cancel
}

fn register_with(desk: &Desk, worker_id: &str, session: &str, tokens: &[&Token]) {
    let request =
        Register { worker_session_id: Some(session.into()), tokens: texts(tokens), ..worker(worker_id, &["pay"]) };
    desk.register(request, Instant::now(), || unreachable!()).unwrap();
}

fn lost(token: &Token) -> Vec<(Token, UncertainReason)> {
    vec![(token.clone(), UncertainReason::NotReceived)]
}

#[tokio::test(start_paused = true)]
async fn a_token_belongs_to_the_session_that_lists_it_if_the_worker_is_the_same() {
    let (desk, [shard]) = desk([1]);
    let connection = stream(&desk, "w", &["pay"], 1);
    let token = hand_over(&desk, &shard, "1/a", 1);
    connection.received(&texts(&[&token]));
    // The worker starts anew and remembers what it has.
    register_with(&desk, "w", "w again", &[&token]);
    register(&desk, "other", &["pay"]);
    assert_eq!(list(&desk, "w again", &[&token]), Vec::<String>::new());
    assert_eq!(list(&desk, "other", &[&token]), texts(&[&token]), "not its own");
    desk.unregister("w");
    assert_eq!(shard.lost(), [], "it belongs to the new session");
    desk.unregister("w again");
    assert_eq!(shard.lost(), [(token, UncertainReason::Unregistered)]);
}

#[tokio::test(start_paused = true)]
async fn what_a_registration_does_not_list_is_taken_back_at_once() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut waiting = poll(&desk, &session, 2);
    let (kept, gone) = (hand_over(&desk, &shard, "1/a", 1), hand_over(&desk, &shard, "1/b", 2));
    assert_eq!(waiting.next(Instant::now()).await.len(), 2);
    register_with(&desk, "w", &session, &[&kept]);
    assert_eq!(shard.lost(), lost(&gone));
    assert!(desk.is_held(&kept));
}

#[tokio::test(start_paused = true)]
async fn a_registration_does_not_speak_of_an_answer_that_has_not_gone_out() {
    let (desk, [shard]) = desk([1]);
    let session = register(&desk, "w", &["pay"]);
    let mut waiting = poll(&desk, &session, 1);
    let token = hand_over(&desk, &shard, "1/a", 1);
    register_with(&desk, "w", &session, &[]);
    assert_eq!(shard.lost(), []);
    assert_eq!(waiting.next(Instant::now()).await, [task(&token)]);
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_none_or_dead_are_to_be_cancelled_and_leave_nothing() {
    let (desk, [shard]) = desk([1]);
    let connection = stream(&desk, "w", &["pay"], 1);
    let token = hand_over(&desk, &shard, "1/a", 1);
    connection.received(&texts(&[&token]));
    desk.settled(1, &token);
    desk.settled(1, &token);
    assert_no_hand_over(&desk);
    assert_eq!(list(&desk, "w", &[&token]), texts(&[&token]));
    let nonsense = vec!["nonsense".to_owned()];
    assert_eq!(desk.heartbeat("w", Some(&nonsense), Instant::now()).unwrap().cancel, nonsense);
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn after_a_leader_change_only_what_a_live_session_does_not_hold_is_taken_back() {
    let (desk, [shard]) = desk([1]);
    let connection = stream(&desk, "w", &["pay"], 3);
    let [kept, cut, over] = [1, 2, 3].map(|n| hand_over(&desk, &shard, &format!("1/{n}"), n));
    connection.received(&texts(&[&kept, &over]));
    desk.resign(1);
    assert_eq!(list(&desk, "w", &[&kept, &over]), Vec::<String>::new(), "nobody knows whether they live");
    let again = lead(&desk, 1);
    let strange = token("1/4", 4);
    let rows = [&kept, &cut, &strange].map(|token| held(token, "w", "w"));
    desk.adopt(1, rows.to_vec(), Instant::now());
    assert_eq!((shard.lost(), again.lost()), (vec![], lost(&strange)), "cut is still within its receipt's time");
    assert_eq!(list(&desk, "w", &[&kept, &over]), texts(&[&over]), "what rows do not name is dead");
    tokio::time::advance(RECEIPT).await;
    desk.tick(Instant::now());
    assert_eq!(again.lost(), lost(&cut));
    desk.settled(1, &kept);
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_session_not_heard_of_has_one_session_timeout() {
    let desk = Desk::new(settings());
    let shard = lead(&desk, 1);
    let (silent, heard) = (token("1/a", 1), token("1/b", 2));
    desk.adopt(1, vec![held(&silent, "w", "s1"), held(&heard, "w", "s2")], Instant::now());
    assert_eq!(desk.sessions(), 0);
    tokio::time::advance(SESSION - Duration::from_millis(1)).await;
    desk.tick(Instant::now());
    assert_eq!(desk.heartbeat("s2", None, Instant::now()).unwrap_err().code, Code::UnknownSession);
    assert_eq!(list(&desk, "s2", &[&heard]), Vec::<String>::new());
    tokio::time::advance(Duration::from_millis(1)).await;
    desk.tick(Instant::now());
    assert_eq!(shard.lost(), [(silent.clone(), UncertainReason::WorkerLost)]);
    assert_eq!(desk.sessions(), 1);
    // It polls: what it can do is not known.
    assert_eq!(desk.open_poll("s2", 1, Instant::now()).unwrap_err().code, Code::UnknownSession);
    register_with(&desk, "w", "s2", &[&heard]);
    let _poll = poll(&desk, "s2", 1);
    assert!(desk.is_held(&heard) && !desk.is_held(&silent));
    assert_eq!(desk.heartbeat("s1", Some(&[]), Instant::now()).unwrap_err().code, Code::UnknownSession);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_comes_back_by_a_heartbeat_gives_up_what_it_does_not_list() {
    let desk = Desk::new(settings());
    let shard = lead(&desk, 1);
    let (kept, gone) = (token("1/a", 1), token("1/b", 2));
    desk.adopt(1, vec![held(&kept, "w", "s"), held(&gone, "w", "s")], Instant::now());
    assert_eq!(list(&desk, "s", &[&kept]), Vec::<String>::new());
    assert_eq!(shard.lost(), [], "written just before the restart, it may be on its way");
    tokio::time::advance(Duration::from_secs(5)).await;
    list(&desk, "s", &[&kept]);
    assert_eq!(shard.lost(), lost(&gone));
}

/// A worker that stopped a task as it was told simply no longer listed it; the history then said that it had never
/// received it, and only after the time of a receipt.
#[tokio::test(start_paused = true)]
async fn a_worker_that_was_told_to_stop_and_no_longer_lists_its_task_has_stopped() {
    let (desk, [shard]) = desk([1]);
    let connection = stream(&desk, "w", &["pay"], 1);
    let stopped = hand_over(&desk, &shard, "1/a", 1);
    connection.received(&texts(&[&stopped]));
    desk.cancel(1, &stopped);
    assert_eq!(list(&desk, "w", &[&stopped]), texts(&[&stopped]), "it is told with each heartbeat");
    assert_eq!(list(&desk, "w", &[]), Vec::<String>::new());
    assert_eq!(shard.lost(), [(stopped, UncertainReason::Stopped)]);
}

/// Who should stop must be told by the next leader too, before or after its session is heard.
#[tokio::test(start_paused = true)]
async fn who_should_stop_is_told_by_the_next_leader_too() {
    let (desk, [shard]) = desk([1]);
    let connection = stream(&desk, "w", &["pay"], 1);
    let heard = hand_over(&desk, &shard, "1/a", 1);
    connection.received(&texts(&[&heard]));
    desk.resign(1);
    lead(&desk, 1);
    let expected = token("1/b", 2);
    let rows = vec![Held { stop: true, ..held(&heard, "w", "w") }, Held { stop: true, ..held(&expected, "v", "v") }];
    desk.adopt(1, rows, Instant::now());
    assert_eq!(list(&desk, "w", &[&heard]), texts(&[&heard]));
    assert_eq!(list(&desk, "v", &[&expected]), texts(&[&expected]));
}

#[tokio::test(start_paused = true)]
async fn sessions_may_speak_before_the_rows() {
    let desk = Desk::new(settings());
    let (own, gone, foreign, dead) = (token("1/a", 1), token("1/b", 2), token("1/c", 3), token("1/d", 4));
    register_with(&desk, "w", "new", &[&own, &foreign, &dead]);
    let shard = lead(&desk, 1);
    assert_eq!(list(&desk, "new", &[&own, &foreign, &dead]), Vec::<String>::new(), "rows may name them");
    // The rows name the session before; the worker is the same.
    let rows = vec![held(&own, "w", "old"), held(&gone, "w", "new"), held(&foreign, "v", "theirs")];
    desk.adopt(1, rows, Instant::now());
    assert_eq!(shard.lost(), lost(&gone), "its session is here and does not have it");
    assert_eq!(list(&desk, "new", &[&own, &foreign, &dead]), texts(&[&foreign, &dead]));
    tokio::time::advance(SESSION - Duration::from_millis(1)).await;
    list(&desk, "new", &[&own]);
    tokio::time::advance(Duration::from_millis(1)).await;
    desk.tick(Instant::now());
    assert_eq!(shard.lost(), [(foreign, UncertainReason::WorkerLost)]);
    desk.settled(1, &own);
    assert_no_hand_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_changes_all_the_time_does_not_pile_up() {
    let desk = Desk::new(settings());
    register(&desk, "w", &["pay"]);
    for nonce in 0..=u8::MAX {
        list(&desk, "w", &[&token("5/led elsewhere", nonce)]);
    }
    assert_eq!(desk.lock().held.len(), 1);
    list(&desk, "w", &[]);
    assert_no_hand_over(&desk);
}
