//! Simulated nodes that propose what they are told: what happens when a lease runs out, and when a clock jumps.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/sim.rs"]
mod sim;
mod support;

use std::sync::{Arc, Mutex};

use openraft_rt::deterministic_rng::DeterministicRng;
use orbit_raft::disk::FatalHook;
use orbit_raft::{Applied, Group, Leadership, ProposeError, Settings, Term};
use sim::{Disks, NODES, Runtime, SimClock, Simulated, serve, start};
use support::{get, put};
use tokio::sync::mpsc;

/// What the nodes and the test tell each other.
#[derive(Default)]
struct World {
    groups: Vec<Option<Group<Simulated>>>,
    orders: Vec<Option<mpsc::UnboundedSender<&'static str>>>,
    outcomes: Vec<(&'static str, Result<Applied, ProposeError>)>,
}

type Shared = Arc<Mutex<World>>;

/// Proposes what it is told.
async fn run_node(index: usize, clock: SimClock, world: Shared) -> turmoil::Result {
    let fatal = FatalHook::new(|reason| panic!("{reason}"));
    let (node, group) = start(index, Disks::default(), clock, Settings::default(), fatal).await?;
    let (order, mut orders) = mpsc::unbounded_channel();
    {
        let mut world = world.lock().unwrap();
        world.groups[index] = Some(group.clone());
        world.orders[index] = Some(order);
    }
    drop(tokio::spawn(DeterministicRng::<Runtime>::scope(1, async move {
        while let Some(id) = orders.recv().await {
            let outcome = group.propose(vec![put(id, id)]).await;
            world.lock().unwrap().outcomes.push((id, outcome));
        }
    })));
    serve(&node).await
}

struct Run {
    sim: turmoil::Sim<'static>,
    world: Shared,
    clocks: [SimClock; 3],
}

impl Run {
    fn new(seed: u64) -> Run {
        let world: Shared = Arc::default();
        let clocks: [SimClock; 3] = Default::default();
        let mut sim = sim::network(seed);
        for (index, name) in NODES.into_iter().enumerate() {
            let mut known = world.lock().unwrap();
            known.groups.push(None);
            known.orders.push(None);
            let (world, clock) = (Arc::clone(&world), clocks[index].clone());
            let run = move || {
                DeterministicRng::<Runtime>::scope(
                    seed + index as u64,
                    run_node(index, clock.clone(), Arc::clone(&world)),
                )
            };
            sim.host(name, run);
        }
        Run { sim, world, clocks }
    }

    fn step(&mut self, steps: usize) {
        for _ in 0..steps {
            self.sim.step().unwrap();
        }
    }

    fn leader(&self) -> Option<(usize, Term)> {
        let world = self.world.lock().unwrap();
        let leads = |group: &Option<Group<Simulated>>| match *group.as_ref()?.leadership().borrow() {
            Leadership::Leader { term } => Some(term),
            _ => None,
        };
        world.groups.iter().enumerate().find_map(|(index, group)| Some((index, leads(group)?)))
    }

    /// Waits for a leader.
    fn elect(&mut self) -> (usize, Term) {
        for _ in 0..100 {
            self.step(100);
            if let Some(leader) = self.leader() {
                return leader;
            }
        }
        panic!("nobody leads");
    }

    /// The time of an entry that is proposed now.
    fn time_ms(&mut self, index: usize, id: &'static str) -> u64 {
        self.propose(index, id);
        self.step(500);
        self.outcome(id).expect("an outcome").unwrap().time_ms
    }

    fn propose(&self, index: usize, id: &'static str) {
        self.world.lock().unwrap().orders[index].as_ref().unwrap().send(id).unwrap();
    }

    fn outcome(&self, id: &str) -> Option<Result<Applied, ProposeError>> {
        let world = self.world.lock().unwrap();
        world.outcomes.iter().find(|(of, _)| *of == id).map(|(_, outcome)| outcome.clone())
    }
}

#[test]
fn what_is_proposed_while_the_lease_has_lapsed_comes_through_in_the_same_term() {
    for seed in 1..=5 {
        let mut run = Run::new(seed);
        let (leader, term) = run.elect();
        run.propose(leader, "before");
        run.step(200);
        assert!(matches!(run.outcome("before"), Some(Ok(_))), "seed {seed}");

        // Nothing reaches or leaves the leader for longer than a lease, and not long enough for the others to elect.
        for peer in (0..3).filter(|peer| *peer != leader) {
            run.sim.hold(NODES[leader], NODES[peer]);
        }
        run.step(560);
        run.propose(leader, "within");
        run.step(40);
        assert_eq!(run.outcome("within"), None, "seed {seed}: nobody could have confirmed it");
        for peer in (0..3).filter(|peer| *peer != leader) {
            run.sim.release(NODES[leader], NODES[peer]);
        }
        run.step(2000);
        let applied = run.outcome("within").expect("an outcome").unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!((applied.log_id.term, run.leader()), (term.0, Some((leader, term))), "seed {seed}");
        let world = run.world.lock().unwrap();
        assert_eq!(get(world.groups[leader].as_ref().unwrap(), "within").as_deref(), Some("within"));
    }
}

#[test]
fn a_jump_of_the_leaders_clock_is_followed_once_the_peers_have_it_too() {
    const HOUR_MS: u64 = 3_600_000;
    let mut run = Run::new(1);
    let (leader, _) = run.elect();
    let begin = run.time_ms(leader, "begin");
    run.clocks[leader].jump(HOUR_MS);
    run.step(15_000);
    let alone = run.time_ms(leader, "alone");
    assert!((begin + 15_000..begin + 17_000).contains(&alone), "{begin}, then {alone}");
    for peer in (0..3).filter(|peer| *peer != leader) {
        run.clocks[peer].jump(HOUR_MS);
    }
    run.step(6_000);
    let together = run.time_ms(leader, "together");
    assert!((alone + HOUR_MS..alone + HOUR_MS + 10_000).contains(&together), "{alone}, then {together}");
}
