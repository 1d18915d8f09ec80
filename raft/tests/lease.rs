//! A leader whose lease has run out still leads, and says so to nobody.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/sim.rs"]
mod sim;
mod support;

use std::sync::{Arc, Mutex};

use openraft_rt::deterministic_rng::DeterministicRng;
use orbit_raft::disk::FatalHook;
use orbit_raft::{Applied, Group, Leadership, ProposeError, Settings, Term};
use sim::{Disks, NODES, Runtime, Simulated, serve, start};
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
async fn run_node(index: usize, world: Shared) -> turmoil::Result {
    let fatal = FatalHook::new(|reason| panic!("{reason}"));
    let (node, group) = start(index, Disks::default(), Settings::default(), fatal).await?;
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
}

impl Run {
    fn new(seed: u64) -> Run {
        let world: Shared = Arc::default();
        let mut sim = sim::network(seed);
        for (index, name) in NODES.into_iter().enumerate() {
            let mut known = world.lock().unwrap();
            known.groups.push(None);
            known.orders.push(None);
            let world = Arc::clone(&world);
            let run =
                move || DeterministicRng::<Runtime>::scope(seed + index as u64, run_node(index, Arc::clone(&world)));
            sim.host(name, run);
        }
        Run { sim, world }
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
        let (leader, term) = (0..100)
            .find_map(|_| {
                run.step(100);
                run.leader()
            })
            .expect("a leader");
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
