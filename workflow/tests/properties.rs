//! Random documents × random command orders: after every command what must always hold holds, and at the end of every
//! history the undo was exactly that of the language.
//!
//! - `ORBIT_PROPERTY_RUNS=n` chooses how many cases run; few of them fill no coverage table, so it is not asked for;
//! - `ORBIT_PROPERTY_SEED=n` runs one case; a failing case prints the command that does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "the test itself decides on how many threads its cases run")]

mod history;
mod shelf;

mod properties {
    pub mod after;
    pub mod constructs;
    pub mod coverage;
    pub mod document;
    pub mod orders;
    pub mod outline;
    pub mod parts;
    pub mod signals;
    pub mod tamper;
    pub mod tape;
    pub mod template;
    pub mod themes;
    pub mod undo;
    pub mod watch;
    pub mod world;
}

use properties::coverage::Coverage;
use properties::tape::{self, Tape};
use properties::template::{self, Aim};
use properties::themes::{self, Theme};
use properties::world::{ID, Order, World, payload};
use properties::{document, parts, tamper};

/// Cases where nothing is said; enough to fill the coverage table.
const RUNS: u64 = 2_000;

/// Cases that are aimed at one construct each; enough to fill the table of constructs.
const THEME_RUNS: u64 = 2_500;

const WORKERS: u64 = 2;

/// Seeds that failed once.
const FAILED_ONCE: &[u64] = &[1154, 1456];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn whatever_comes_in_whatever_order_the_invariants_hold() {
    let seeds = seeds(FAILED_ONCE, RUNS);
    let coverage = run_side_by_side(&seeds, "whatever", case);
    println!("{coverage}");
    if seeds.len() as u64 >= RUNS {
        let missing = coverage.missing();
        assert!(missing.is_empty(), "{} cells occur too rarely: {missing:#?}", missing.len());
    }
}

#[test]
fn every_construct_lives_through_crashes() {
    let seeds = seeds(&[], THEME_RUNS);
    let coverage = run_side_by_side(&seeds, "every_construct", themed_case);
    println!("{}", coverage.constructs);
    coverage.counts.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
    if seeds.len() as u64 >= THEME_RUNS {
        let missing = coverage.constructs.missing();
        assert!(missing.is_empty(), "{} constructs occur too rarely: {missing:#?}", missing.len());
    }
}

fn seeds(failed_once: &[u64], usual: u64) -> Vec<u64> {
    match number("ORBIT_PROPERTY_SEED") {
        Some(seed) => vec![seed],
        None => failed_once.iter().copied().chain(0..number("ORBIT_PROPERTY_RUNS").unwrap_or(usual)).collect(),
    }
}

type Case = fn(u64, Tape) -> Result<Coverage, String>;

fn run_side_by_side(seeds: &[u64], test: &'static str, case: Case) -> Coverage {
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let mine: Vec<u64> = seeds.iter().copied().filter(|seed| seed % WORKERS == worker).collect();
            std::thread::spawn(move || run_all(&mine, test, case))
        })
        .collect();
    let mut coverage = Coverage::default();
    for worker in workers {
        coverage.add(&worker.join().expect("a case failed"));
    }
    coverage
}

fn run_all(seeds: &[u64], test: &str, case: Case) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        let covered = std::cell::RefCell::new(Coverage::default());
        let result = tape::run(*seed, |tape| {
            let done = std::panic::catch_unwind(|| case(*seed, tape)).map_err(|panic| panic_text(&*panic))?;
            *covered.borrow_mut() = done?;
            Ok(())
        });
        if let Err(failure) = result {
            panic!(
                "{failure}\n  again: ORBIT_PROPERTY_SEED={seed} cargo test -p orbit-workflow --test properties {test}"
            );
        }
        coverage.add(&covered.into_inner());
    }
    coverage
}

fn panic_text(panic: &dyn std::any::Any) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    format!("a panic: {}", text.unwrap_or_default())
}

/// One document and one order of commands. Three of four are aimed at the coverage table, one at nothing.
fn case(seed: u64, mut tape: Tape) -> Result<Coverage, String> {
    let aim = (!seed.is_multiple_of(4)).then(|| Aim::of(seed / 4 * 3 + seed % 4 - 1));
    let document = match aim {
        Some(aim) => template::document(&mut tape, aim),
        None => document::random(&mut tape),
    };
    lived(seed, &document, |world| drive(world, &mut tape, aim))
}

/// One construct of the language, and what it lives by.
fn themed_case(seed: u64, mut tape: Tape) -> Result<Coverage, String> {
    let theme = Theme::of(seed);
    let document = themes::document(&mut tape, theme);
    lived(seed, &document, |world| world.live_through(&mut tape, theme))
}

/// Lets a run live as `drive` says, and checks what is left.
fn lived(
    seed: u64,
    document: &serde_json::Value,
    drive: impl FnOnce(&mut World) -> Result<(), String>,
) -> Result<Coverage, String> {
    let mut world = World::new(document);
    let done = drive(&mut world);
    let checked = done.and_then(|()| world.is_read_again()).and_then(|()| {
        world.watch.end();
        let faults = world.watch.take_faults();
        if faults.is_empty() { Ok(()) } else { Err(format!("{faults:#?}\n{}", world.tail())) }
    });
    checked.map_err(|failure| format!("{failure}\n  {document}"))?;
    if seed.is_multiple_of(16) {
        history::check(&world.definition, ID, &world.history, &format!("seed {seed}"));
    }
    let mut coverage = world.coverage;
    coverage.count("cases", 1);
    coverage.count("commands", world.commands as u64);
    coverage.count("events", world.history.len() as u64);
    Ok(coverage)
}

fn drive(world: &mut World, tape: &mut Tape, aim: Option<Aim>) -> Result<(), String> {
    let input = if tape.chance(30) { "{\"bad\": true}" } else { "{}" };
    world.perform(tape, &Order::Start(payload(input)))?;
    let by_chance = match aim {
        Some(aim) => {
            world.act(tape, aim)?;
            tape.below(20)
        }
        None => tape.within(3, 80),
    };
    for _ in 0..by_chance {
        let order = world.by_chance(tape);
        world.perform(tape, &order)?;
    }
    world.finish(tape)?;
    if tape.chance(30) {
        let again = Order::Redrive(None, workflow::event::RedriveAction::Retry, None);
        if world.perform(tape, &again)?.is_some() {
            world.coverage.count("ends taken back", 1);
            world.finish(tape)?;
        }
    }
    Ok(())
}

#[test]
fn the_checkers_report_what_is_wrong() {
    let definition = properties::world::compile(&tamper::document());
    // Says it by a panic, which here is what is asked for.
    let decided = |events: &[workflow::event::Recorded]| {
        let check = || history::check(&definition, ID, events, "a tampered history");
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_ok()
    };
    tamper::every_fault_is_reported(decided);
}

#[test]
fn nothing_is_lost_between_two_parts_of_a_start() {
    parts::start();
}

#[test]
fn nothing_is_lost_between_two_parts_of_a_closing() {
    parts::closing();
}

#[test]
fn nothing_is_lost_between_two_parts_of_an_undo() {
    parts::undoing();
}

#[test]
fn nothing_is_lost_between_two_parts_of_giving_up() {
    parts::stopping();
}
