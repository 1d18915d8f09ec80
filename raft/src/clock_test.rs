//! The rule of the clock, moment by moment.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use crate::clock::{Ahead, Clock, JUMP_MAX, LogClock, Reading, STANDING, Witness};
use crate::peer_clocks::PeerClocks;
use crate::types::NodeId;

/// 2023, in milliseconds.
const WALL: u64 = 1_700_000_000_000;

fn at(wall_ms: u64, monotonic_ms: u64) -> Reading {
    Reading { wall: Duration::from_millis(wall_ms), monotonic: Duration::from_millis(monotonic_ms) }
}

/// A clock that has believed the wall already, alone as it was then.
fn begun(now: Reading, last_ms: u64) -> LogClock {
    let mut clock = LogClock::new(now, last_ms);
    clock.now_ms(now, || Witness::Alone);
    clock
}

#[test]
fn it_follows_the_wall() {
    let mut clock = begun(at(WALL, 10), 0);
    assert_eq!(clock.now_ms(at(WALL + 5, 15), || Witness::Alone), WALL + 5);
    assert_eq!(clock.now_ms(at(WALL + 1000, 1010), || Witness::Alone), WALL + 1000);
}

#[test]
fn ahead_of_the_wall_it_goes_at_half_speed_until_the_wall_has_caught_up() {
    let mut clock = begun(at(WALL, 0), WALL + 1000);
    assert_eq!(clock.now_ms(at(WALL + 100, 100), || Witness::Alone), WALL + 1050);
    assert_eq!(clock.now_ms(at(WALL + 1000, 1000), || Witness::Alone), WALL + 1500);
    assert_eq!(clock.now_ms(at(WALL + 2000, 2000), || Witness::Alone), WALL + 2000);
    assert_eq!(clock.now_ms(at(WALL + 2100, 2100), || Witness::Alone), WALL + 2100);
}

#[test]
fn a_small_step_of_the_wall_is_followed_at_once() {
    let mut clock = begun(at(WALL, 0), 0);
    assert_eq!(clock.now_ms(at(WALL + 500, 0), || Witness::Alone), WALL + 500);
    assert_eq!(
        clock.now_ms(at(WALL + 100, 100), || Witness::Alone),
        WALL + 550,
        "back by half a second: at half speed"
    );
    assert!(!clock.doubts_wall());
}

#[test]
fn a_jump_of_the_wall_is_followed_after_it_has_stood_for_a_minute() {
    for jump in [3_600_000_i64, -3_600_000] {
        let mut clock = begun(at(WALL, 0), 0);
        let jumped = |ms: u64| at((WALL + ms).checked_add_signed(jump).unwrap(), ms);
        for second in 1..=60 {
            let ms = second * 1000;
            assert_eq!(clock.now_ms(jumped(ms), || Witness::Alone), WALL + ms, "not believed yet");
            assert!(clock.doubts_wall());
        }
        let believed = clock.now_ms(jumped(61_000), || Witness::Alone);
        let expected = if jump > 0 { WALL + 61_000 + 3_600_000 } else { WALL + 60_000 + 500 };
        assert_eq!(believed, expected);
        assert!(!clock.doubts_wall());
    }
}

#[test]
fn among_peers_a_jump_is_followed_when_their_median_confirms_it_and_only_then() {
    const HOUR: i64 = 3_600_000;
    let off = |low_ms: i64, high_ms: i64| Witness::Median {
        low_us: i128::from(low_ms) * 1000,
        high_us: i128::from(high_ms) * 1000,
    };
    for jump in [HOUR, -HOUR] {
        let jumped = |ms: u64| at((WALL + ms).checked_add_signed(jump).unwrap(), ms);
        let mut clock = begun(at(WALL, 0), 0);
        // However long it stands: the peers still have the old time, disagree, or are not heard.
        for (second, peers) in
            (1..600).zip([off(-jump, -jump), off(-jump, 0), off(0, 501), Witness::Silent].iter().cycle())
        {
            assert_eq!(clock.now_ms(jumped(second * 1000), || *peers), WALL + second * 1000, "{peers:?}");
            assert!(clock.doubts_wall());
        }
        let believed = clock.now_ms(jumped(600_000), || off(-499, 499));
        let expected = if jump > 0 { WALL + 600_000 + HOUR.unsigned_abs() } else { WALL + 599_000 + 500 };
        assert_eq!(believed, expected);
        assert!(!clock.doubts_wall());
    }
}

#[test]
fn the_peers_are_not_asked_while_the_wall_keeps_its_pace() {
    let mut clock = begun(at(WALL, 0), 0);
    for second in 1..100 {
        clock.now_ms(at(WALL + second * 1000, second * 1000), || panic!("asked without need"));
    }
}

#[derive(Clone, Default)]
struct SetClock(Arc<Mutex<(u64, u64)>>);

impl SetClock {
    fn set(&self, wall_ms: u64, monotonic_ms: u64) {
        *self.0.lock().unwrap() = (wall_ms, monotonic_ms);
    }
}

impl Clock for SetClock {
    fn read(&self) -> Reading {
        let (wall_ms, monotonic_ms) = *self.0.lock().unwrap();
        at(wall_ms, monotonic_ms)
    }
}

#[test]
fn the_median_of_the_peers_judges_a_jump_by_what_was_measured_before_it() {
    let clock = SetClock::default();
    clock.set(WALL, 1000);
    let peers = PeerClocks::new(clock.clone());
    let witness = |members| peers.witness(clock.read(), members);
    assert_eq!((witness(0), witness(2)), (Witness::Alone, Witness::Silent));
    let sent = clock.read();
    clock.set(WALL + 100, 1100);
    peers.heard(NodeId(2), sent, (WALL + 50) * 1000);
    assert_eq!(witness(2), Witness::Median { low_us: 0, high_us: 0 }, "one of two peers and this node: a majority");
    assert_eq!(witness(4), Witness::Silent, "of five they are none");
    peers.heard(NodeId(3), sent, (WALL + 50 + 7) * 1000);
    assert_eq!(witness(2), Witness::Median { low_us: 0, high_us: 7_000 });
    peers.heard(NodeId(4), sent, (WALL + 50 + 9_000) * 1000);
    assert_eq!(witness(4), Witness::Median { low_us: 7_000, high_us: 7_000 }, "one that is far off does not count");

    clock.set(WALL + 3_600_200, 1200);
    assert_eq!(witness(4), Witness::Median { low_us: -3_599_993_000, high_us: -3_599_993_000 });
    // An answer that took long says too little, and after half a minute none counts any more.
    peers.heard(NodeId(5), at(WALL, 900), WALL * 1000);
    assert_eq!(witness(4), Witness::Median { low_us: -3_599_993_000, high_us: -3_599_993_000 });
    clock.set(WALL + 40_000, 41_000);
    assert_eq!(witness(4), Witness::Silent);
}

#[test]
fn a_jump_that_is_taken_back_leaves_no_trace() {
    let mut clock = begun(at(WALL, 0), 0);
    assert_eq!(clock.now_ms(at(WALL + 3_600_000, 1000), || Witness::Alone), WALL + 1000);
    assert_eq!(clock.now_ms(at(WALL + 59_000, 59_000), || Witness::Alone), WALL + 59_000);
    // A second jump begins its own minute.
    assert_eq!(clock.now_ms(at(WALL + 3_660_000, 60_000), || Witness::Alone), WALL + 60_000);
    assert_eq!(clock.now_ms(at(WALL + 3_719_000, 119_000), || Witness::Alone), WALL + 119_000);
    assert!(clock.doubts_wall());
}

#[test]
fn a_wall_that_keeps_jumping_is_never_believed() {
    let mut clock = begun(at(WALL, 0), 0);
    for second in 1..300 {
        assert_eq!(clock.now_ms(at(WALL + second * 10_000, second * 1000), || Witness::Alone), WALL + second * 1000);
    }
}

#[test]
fn a_new_start_without_peers_believes_the_wall() {
    let mut clock = LogClock::new(at(WALL + 3_600_000, 7), WALL);
    assert_eq!(clock.now_ms(at(WALL + 3_600_001, 8), || Witness::Alone), WALL + 3_600_001);
}

#[test]
fn a_new_start_among_peers_goes_on_from_the_log_until_they_confirm_the_wall() {
    const HOUR: u64 = 3_600_000;
    let median = |us: i128| Witness::Median { low_us: us, high_us: us };
    // Its clock is an hour ahead of theirs.
    let mut clock = LogClock::new(at(WALL + HOUR, 0), WALL);
    assert_eq!(clock.now_ms(at(WALL + HOUR + 100, 100), || Witness::Silent), WALL + 100);
    assert_eq!(clock.now_ms(at(WALL + HOUR + 200, 200), || median(-3_600_000_000)), WALL + 200);
    // What others have led to meanwhile is where it goes on from.
    clock.observe(at(WALL + HOUR + 300, 300), WALL + 60_000);
    assert_eq!(clock.now_ms(at(WALL + HOUR + 400, 400), || Witness::Silent), WALL + 60_100);
    // However long it stands.
    assert_eq!(clock.now_ms(at(WALL + 2 * HOUR, HOUR), || Witness::Silent), WALL + 60_000 + HOUR - 300);

    // All were off for an hour, and their clocks agree.
    let mut clock = LogClock::new(at(WALL + HOUR, 0), WALL);
    assert_eq!(clock.now_ms(at(WALL + HOUR + 100, 100), || median(3_000)), WALL + HOUR + 100);
    assert!(!clock.doubts_wall());
}

#[test]
fn a_clock_is_off_where_the_median_of_all_is_far_from_it() {
    const HOUR: i128 = 3_600_000_000;
    let ahead = |low_us, high_us| Witness::Median { low_us, high_us }.ahead_us();
    assert_eq!((Witness::Alone.ahead_us(), Witness::Silent.ahead_us()), (None, None));
    assert_eq!(ahead(-HOUR, -HOUR), Some(3_600_000_000), "it is an hour ahead of both others");
    assert_eq!(ahead(0, HOUR), Some(0), "another one is an hour ahead");
    assert_eq!(ahead(-HOUR, HOUR), Some(0), "of three that all differ the middle one is right");
    assert_eq!(ahead(HOUR, 2 * HOUR), Some(-3_600_000_000));
    assert_eq!(ahead(-3_000, -2_000), Some(2_000));

    let mut clock = Ahead::default();
    for (us, off) in [(Some(500_000), false), (Some(-500_001), true), (Some(400_001), true), (Some(400_000), false)] {
        clock.measured(us);
        assert_eq!((clock.us(), clock.is_off()), (us, off));
    }
    clock.measured(Some(i64::MIN));
    assert!(clock.is_off());
    clock.measured(None);
    assert!(!clock.is_off(), "nobody says that it is");
}

#[test]
fn sleep_counts() {
    // The monotonic clock goes on while the machine sleeps, so there is no jump to doubt.
    let mut clock = begun(at(WALL, 0), 0);
    assert_eq!(clock.now_ms(at(WALL + 28_800_000, 28_800_000), || Witness::Alone), WALL + 28_800_000);
}

#[test]
fn what_was_applied_here_is_never_undercut() {
    let mut clock = begun(at(WALL, 0), 0);
    clock.observe(at(WALL, 0), WALL + 700);
    assert_eq!(clock.now_ms(at(WALL + 100, 100), || Witness::Alone), WALL + 750);
    clock.observe(at(WALL + 100, 100), WALL + 10);
    assert_eq!(clock.now_ms(at(WALL + 100, 100), || Witness::Alone), WALL + 750);
}

proptest! {
    #[test]
    fn it_never_goes_back_and_never_stands_still(
        steps in proptest::collection::vec((1_u64..100_000, -5_000_000_i64..5_000_000, 0_u64..2), 1..200)
    ) {
        let (mut monotonic, mut offset) = (0, 0_i64);
        let mut clock = begun(at(WALL, 0), 0);
        let mut last = clock.now_ms(at(WALL, 0), || Witness::Alone);
        for (elapsed, jump, jumps) in steps {
            monotonic += elapsed;
            offset += if jumps == 1 { jump } else { 0 };
            let wall = (WALL + monotonic).saturating_add_signed(offset);
            let now = clock.now_ms(at(wall, monotonic), || Witness::Alone);
            prop_assert!(now + 1 >= last + elapsed / 2, "{elapsed} ms moved it from {last} to {now}");
            last = now;
        }
    }

    #[test]
    fn once_the_wall_is_left_alone_the_log_comes_to_it(jump in -5_000_000_i64..5_000_000) {
        let mut clock = begun(at(WALL, 0), 0);
        clock.now_ms(at(WALL + 1000, 1000), || Witness::Alone);
        let standing = u64::try_from(STANDING.as_millis()).unwrap();
        let mut now = 0;
        let mut wall = 0;
        for second in 2..15_000_u64 {
            wall = (WALL + second * 1000).saturating_add_signed(jump);
            now = clock.now_ms(at(wall, second * 1000), || Witness::Alone);
            if now == wall && second * 1000 > standing { break; }
        }
        prop_assert!(now.abs_diff(wall) <= u64::try_from(JUMP_MAX.as_millis()).unwrap());
    }
}
