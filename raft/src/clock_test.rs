//! The rule of the clock, moment by moment.

use std::time::Duration;

use proptest::prelude::*;

use crate::clock::{JUMP_MAX, LogClock, Reading, STANDING};

/// 2023, in milliseconds.
const WALL: u64 = 1_700_000_000_000;

fn at(wall_ms: u64, monotonic_ms: u64) -> Reading {
    Reading { wall: Duration::from_millis(wall_ms), monotonic: Duration::from_millis(monotonic_ms) }
}

#[test]
fn it_follows_the_wall() {
    let mut clock = LogClock::new(at(WALL, 10), 0);
    assert_eq!(clock.now_ms(at(WALL + 5, 15)), WALL + 5);
    assert_eq!(clock.now_ms(at(WALL + 1000, 1010)), WALL + 1000);
}

#[test]
fn ahead_of_the_wall_it_goes_at_half_speed_until_the_wall_has_caught_up() {
    let mut clock = LogClock::new(at(WALL, 0), WALL + 1000);
    assert_eq!(clock.now_ms(at(WALL + 100, 100)), WALL + 1050);
    assert_eq!(clock.now_ms(at(WALL + 1000, 1000)), WALL + 1500);
    assert_eq!(clock.now_ms(at(WALL + 2000, 2000)), WALL + 2000);
    assert_eq!(clock.now_ms(at(WALL + 2100, 2100)), WALL + 2100);
}

#[test]
fn a_small_step_of_the_wall_is_followed_at_once() {
    let mut clock = LogClock::new(at(WALL, 0), 0);
    assert_eq!(clock.now_ms(at(WALL + 500, 0)), WALL + 500);
    assert_eq!(clock.now_ms(at(WALL + 100, 100)), WALL + 550, "back by half a second: at half speed");
    assert!(!clock.doubts_wall());
}

#[test]
fn a_jump_of_the_wall_is_followed_after_it_has_stood_for_a_minute() {
    for jump in [3_600_000_i64, -3_600_000] {
        let mut clock = LogClock::new(at(WALL, 0), 0);
        let jumped = |ms: u64| at((WALL + ms).checked_add_signed(jump).unwrap(), ms);
        for second in 1..=60 {
            let ms = second * 1000;
            assert_eq!(clock.now_ms(jumped(ms)), WALL + ms, "not believed yet");
            assert!(clock.doubts_wall());
        }
        let believed = clock.now_ms(jumped(61_000));
        let expected = if jump > 0 { WALL + 61_000 + 3_600_000 } else { WALL + 60_000 + 500 };
        assert_eq!(believed, expected);
        assert!(!clock.doubts_wall());
    }
}

#[test]
fn a_jump_that_is_taken_back_leaves_no_trace() {
    let mut clock = LogClock::new(at(WALL, 0), 0);
    assert_eq!(clock.now_ms(at(WALL + 3_600_000, 1000)), WALL + 1000);
    assert_eq!(clock.now_ms(at(WALL + 59_000, 59_000)), WALL + 59_000);
    // A second jump begins its own minute.
    assert_eq!(clock.now_ms(at(WALL + 3_660_000, 60_000)), WALL + 60_000);
    assert_eq!(clock.now_ms(at(WALL + 3_719_000, 119_000)), WALL + 119_000);
    assert!(clock.doubts_wall());
}

#[test]
fn a_wall_that_keeps_jumping_is_never_believed() {
    let mut clock = LogClock::new(at(WALL, 0), 0);
    for second in 1..300 {
        assert_eq!(clock.now_ms(at(WALL + second * 10_000, second * 1000)), WALL + second * 1000);
    }
}

#[test]
fn a_new_start_believes_the_wall() {
    let mut clock = LogClock::new(at(WALL + 3_600_000, 7), WALL);
    assert_eq!(clock.now_ms(at(WALL + 3_600_001, 8)), WALL + 3_600_001);
}

#[test]
fn sleep_counts() {
    // The monotonic clock goes on while the machine sleeps, so there is no jump to doubt.
    let mut clock = LogClock::new(at(WALL, 0), 0);
    assert_eq!(clock.now_ms(at(WALL + 28_800_000, 28_800_000)), WALL + 28_800_000);
}

#[test]
fn what_was_applied_here_is_never_undercut() {
    let mut clock = LogClock::new(at(WALL, 0), 0);
    clock.observe(at(WALL, 0), WALL + 700);
    assert_eq!(clock.now_ms(at(WALL + 100, 100)), WALL + 750);
    clock.observe(at(WALL + 100, 100), WALL + 10);
    assert_eq!(clock.now_ms(at(WALL + 100, 100)), WALL + 750);
}

proptest! {
    #[test]
    fn it_never_goes_back_and_never_stands_still(
        steps in proptest::collection::vec((1_u64..100_000, -5_000_000_i64..5_000_000, 0_u64..2), 1..200)
    ) {
        let (mut monotonic, mut offset) = (0, 0_i64);
        let mut clock = LogClock::new(at(WALL, 0), 0);
        let mut last = clock.now_ms(at(WALL, 0));
        for (elapsed, jump, jumps) in steps {
            monotonic += elapsed;
            offset += if jumps == 1 { jump } else { 0 };
            let wall = (WALL + monotonic).saturating_add_signed(offset);
            let now = clock.now_ms(at(wall, monotonic));
            prop_assert!(now + 1 >= last + elapsed / 2, "{elapsed} ms moved it from {last} to {now}");
            last = now;
        }
    }

    #[test]
    fn once_the_wall_is_left_alone_the_log_comes_to_it(jump in -5_000_000_i64..5_000_000) {
        let mut clock = LogClock::new(at(WALL, 0), 0);
        clock.now_ms(at(WALL + 1000, 1000));
        let standing = u64::try_from(STANDING.as_millis()).unwrap();
        let mut now = 0;
        let mut wall = 0;
        for second in 2..15_000_u64 {
            wall = (WALL + second * 1000).saturating_add_signed(jump);
            now = clock.now_ms(at(wall, second * 1000));
            if now == wall && second * 1000 > standing { break; }
        }
        prop_assert!(now.abs_diff(wall) <= u64::try_from(JUMP_MAX.as_millis()).unwrap());
    }
}
