//! A node is killed again and again under load. Whatever it had acknowledged is there, and everything ends.
//!
//! `KILL_ROUNDS` (20) kills with dice from `KILL_SEED` (1). A kill counts for what it hit, not for what it was aimed
//! at: the node's phase file says whether an append was unsynced or a snapshot ran, the workers know which results they
//! had sent and not heard of. The figures go into the file that `ORBIT_FIGURES` names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use support::World;
use support::node::{Phases, spawn};
use tokio::time::sleep;

/// Of 200 kills, how many must hit an unsynced append, an unanswered result, a snapshot.
const LEAST_OF_200: [(&str, u64); 3] = [("unsynced", 30), ("unanswered", 30), ("snapshot", 5)];
/// How long a kill waits for what it is aimed at.
const AIM: Duration = Duration::from_secs(2);

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

#[derive(Default)]
struct Hits {
    unsynced: u64,
    unanswered: u64,
    snapshot: u64,
    starting: u64,
}

/// One kill under load, and the start after it; every tenth start or so is killed as well.
async fn round(world: &World, dice: &mut SmallRng, hits: &mut Hits) {
    let node = world.start().await;
    world.shared.progress(dice.random_range(1..=60)).await;
    sleep(Duration::from_millis(dice.random_range(0..100))).await;
    let aims: [fn(Phases) -> bool; 3] = [|_| true, |at| at.unsynced, |at| at.snapshot];
    let at = node.kill_in(aims[dice.random_range(0..aims.len())], AIM).await;
    world.gone().await;
    let unanswered = world.shared.unanswered.swap(0, Ordering::SeqCst);
    hits.unsynced += u64::from(at.unsynced);
    hits.snapshot += u64::from(at.snapshot);
    hits.unanswered += u64::from(unanswered > 0);
    if dice.random_ratio(1, 10) {
        let mut starting = spawn(&world.dir, &world.data);
        sleep(Duration::from_millis(dice.random_range(0..400))).await;
        starting.kill().await.unwrap();
        hits.starting += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_acknowledged_outlives_kills() {
    let (rounds, seed) = (number("KILL_ROUNDS", 20), number("KILL_SEED", 1));
    println!("KILL_SEED={seed} KILL_ROUNDS={rounds}");
    let mut world = World::new("kill");
    let mut dice = SmallRng::seed_from_u64(seed);
    let mut hits = Hits::default();

    let mut first = world.start().await;
    world.load(seed).await;
    assert!(first.terminate().await.0.success());
    world.gone().await;
    for _ in 0..rounds {
        round(&world, &mut dice, &mut hits).await;
    }

    let mut node = world.start().await;
    world.finish().await;
    let histories = world.histories().await;
    world.judge(&histories);
    // What is at rest stays as it is over a clean stop.
    world.shared.at.send_replace(Vec::new());
    assert!(node.terminate().await.0.success());
    let mut node = world.start().await;
    assert!(world.histories().await == histories, "a clean stop changed a history; see {}", world.dir.display());
    assert!(node.terminate().await.0.success());

    let counted = [hits.unsynced, hits.unanswered, hits.snapshot];
    let figures = json!({
        "kills": rounds, "unsynced": hits.unsynced, "unanswered": hits.unanswered, "snapshot": hits.snapshot,
        "starting": hits.starting, "executions": histories.len(), "refused": world.shared.refusals(),
    });
    println!("{figures}");
    if let Ok(path) = std::env::var("ORBIT_FIGURES") {
        std::fs::write(path, json!({"seeds": seed, "figures": figures}).to_string()).unwrap();
    }
    for ((what, least), count) in LEAST_OF_200.into_iter().zip(counted) {
        let least = (least * rounds).div_ceil(200);
        assert!(count >= least, "{count} of {rounds} kills hit {what}, {least} are the least that says anything");
    }
    world.clean_up();
}
