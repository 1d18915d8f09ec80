//! Random interleavings against a model that knows the rows of the shards and the hands of the workers.
//!
//! No task is lost, none goes out twice under one token, no slot is used twice, nothing goes before an older one of its
//! queue, nothing is idle while something that fits it waits, and who has said that it holds a task keeps it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

mod play;

const SHARDS: [ShardId; 2] = [1, 2];
const TASKS: [&str; 2] = ["pay", "ship"];
const WORKERS: usize = 3;
/// How many rows a shard reads at a time.
const READ: usize = 3;

/// Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Op {
    Register { worker: usize },
    Connect { worker: usize },
    Disconnect { worker: usize },
    Slots { worker: usize, slots: u32 },
    Read { worker: usize, receipts: bool },
    Heartbeat { worker: usize, tokens: bool },
    Crash { worker: usize },
    Unregister { worker: usize },
    Poll { worker: usize, slots: u32 },
    Answer { poll: usize },
    HangUp { poll: usize },
    Ready { shard: usize, task: usize, priority: u8 },
    Withdraw { unit: usize },
    Commit { offer: usize },
    GiveUp { offer: usize, silent: bool },
    ReadRows { refill: usize },
    Refill { refill: usize },
    Settle { token: usize },
    Bounce { shard: usize },
    Advance { ms: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let worker = 0..WORKERS;
    let nth = 0..64_usize;
    let slots = 1..4_u32;
    prop_oneof![
        1 => worker.clone().prop_map(|worker| Op::Register { worker }),
        2 => worker.clone().prop_map(|worker| Op::Connect { worker }),
        1 => worker.clone().prop_map(|worker| Op::Disconnect { worker }),
        4 => (worker.clone(), slots.clone()).prop_map(|(worker, slots)| Op::Slots { worker, slots }),
        4 => (worker.clone(), any::<bool>()).prop_map(|(worker, receipts)| Op::Read { worker, receipts }),
        2 => (worker.clone(), any::<bool>()).prop_map(|(worker, tokens)| Op::Heartbeat { worker, tokens }),
        1 => worker.clone().prop_map(|worker| Op::Crash { worker }),
        1 => worker.clone().prop_map(|worker| Op::Unregister { worker }),
        3 => (worker, slots).prop_map(|(worker, slots)| Op::Poll { worker, slots }),
        3 => nth.clone().prop_map(|poll| Op::Answer { poll }),
        1 => nth.clone().prop_map(|poll| Op::HangUp { poll }),
        12 => (0..2_usize, 0..2_usize, 1..3_u8)
            .prop_map(|(shard, task, priority)| Op::Ready { shard, task, priority }),
        2 => nth.clone().prop_map(|unit| Op::Withdraw { unit }),
        6 => nth.clone().prop_map(|offer| Op::Commit { offer }),
        2 => (nth.clone(), any::<bool>()).prop_map(|(offer, silent)| Op::GiveUp { offer, silent }),
        2 => nth.clone().prop_map(|refill| Op::ReadRows { refill }),
        4 => nth.clone().prop_map(|refill| Op::Refill { refill }),
        3 => nth.prop_map(|token| Op::Settle { token }),
        1 => (0..2_usize).prop_map(|shard| Op::Bounce { shard }),
        2 => (1..3_000_u64).prop_map(|ms| Op::Advance { ms }),
        1 => (20_000..40_000_u64).prop_map(|ms| Op::Advance { ms }),
    ]
}

/// A reserved slot and the unit it is for. `row`: the unit waits in a row; else its commit is under way.
struct Offer {
    ready: Ready,
    slot: Slot,
    row: bool,
    /// It came with the last operation.
    fresh: bool,
}

struct Refill {
    shard: ShardId,
    queue: Queue,
    read: Option<(Vec<Ready>, bool)>,
}

#[derive(Default)]
struct Worker {
    stream: Option<Connection>,
    /// Slots offered on the stream and not used by what was read from it.
    credit: u32,
    /// What it has in hand; true: it has said so.
    hand: BTreeMap<String, bool>,
    seen: Option<Instant>,
}

struct World {
    desk: Desk,
    shards: BTreeMap<ShardId, Arc<Shard>>,
    /// Rows of units that wait, offered ones too, by execution.
    rows: BTreeMap<String, Ready>,
    offers: Vec<Offer>,
    refills: Vec<Refill>,
    /// In flight: which unit, and whose.
    flight: BTreeMap<String, (Token, Ready, String)>,
    workers: Vec<Worker>,
    polls: Vec<(usize, usize, Poll)>,
    /// Dropped without a word: only rows know them for a while.
    doubted: BTreeSet<String>,
    delivered: BTreeSet<String>,
    count: u64,
}

fn pick(from: usize, of: usize) -> Option<usize> {
    from.checked_rem(of)
}

fn name(ready: &Ready) -> String {
    ready.unit.execution_id.to_string()
}

fn shard_of(ready: &Ready) -> ShardId {
    ready.unit.execution_id.split('/').next().unwrap().parse().unwrap()
}

impl World {
    fn new() -> Self {
        let (desk, shards) = desk(SHARDS);
        Self {
            desk,
            shards: shards.into_iter().map(|shard| (shard.id, shard)).collect(),
            rows: BTreeMap::new(),
            offers: Vec::new(),
            refills: Vec::new(),
            flight: BTreeMap::new(),
            workers: (0..WORKERS).map(|_| Worker::default()).collect(),
            polls: Vec::new(),
            doubted: BTreeSet::new(),
            delivered: BTreeSet::new(),
            count: 0,
        }
    }

    fn is_offered(&self, ready: &Ready) -> bool {
        self.offers.iter().any(|offer| offer.row && offer.ready.unit == ready.unit)
    }

    /// Units that wait for a slot, as far as the desk must know.
    fn waiting(&self) -> Vec<Ready> {
        let waits = |ready: &&Ready| !self.is_offered(ready) && !self.doubted.contains(&name(ready));
        self.rows.values().filter(waits).cloned().collect()
    }

    async fn play(&mut self, op: Op) {
        let before = self.waiting();
        self.offers.iter_mut().for_each(|offer| offer.fresh = false);
        // While a leader changes, its rows are not known.
        let bounced = matches!(op, Op::Bounce { .. });
        self.step(op).await;
        self.hear_shards();
        if !bounced {
            self.check_order(&before);
        }
        self.check();
    }

    /// Nothing that waited before and waits still is older than what was offered meanwhile.
    fn check_order(&self, before: &[Ready]) {
        let after = self.waiting();
        for offer in self.offers.iter().filter(|offer| offer.fresh) {
            let (queue, place) = (&offer.ready.queue, offer.ready.place());
            let older = |old: &&Ready| old.queue == *queue && old.place() < place && before.contains(old);
            assert_eq!(after.iter().find(older), None, "jumped by {:?}", offer.ready);
        }
    }

    fn check(&self) {
        let state = self.desk.lock();
        for (token, _, _) in self.flight.values() {
            assert!(state.held.contains_key(token), "a hand-over that nobody watches: {token:?}");
        }
        let live = |token: &Token| self.flight.contains_key(&token.to_string());
        assert!(state.held.keys().all(|token| live(token)), "a token that is over was left behind");
        assert_eq!(state.reserved.len(), self.offers.len());
        drop(state);
        for ready in self.waiting() {
            let reading = self.refills.iter().any(|refill| refill.queue == ready.queue);
            let mut state = self.desk.lock();
            let stalled = SHARDS.iter().any(|shard| {
                let line = state.lines.find(&ready.queue);
                let line = line.and_then(|line| state.lines.get_mut(line));
                line.is_some_and(|line| line.window(*shard, |window| window.is_stalled()))
            });
            let serves = |contracts: &[TaskVersion]| contracts.iter().any(|c| c.task_name == ready.queue.task);
            let idle = state.sessions.all().find(|session| session.idle > 0 && serves(&session.contracts));
            assert!(reading || stalled || idle.is_none(), "{ready:?} waits, {idle:?} is idle");
        }
    }

    /// Does what the shards are told.
    fn hear_shards(&mut self) {
        for shard in self.shards.values().cloned().collect::<Vec<_>>() {
            while let Some((ready, slot)) = shard.offered() {
                self.doubted.remove(&name(&ready));
                self.offers.push(Offer { ready, slot, row: true, fresh: true });
            }
            for queue in std::mem::take(&mut *shard.refills.lock().unwrap()) {
                self.refills.push(Refill { shard: shard.id, queue, read: None });
            }
            let lost = shard.lost();
            for (token, reason) in &lost {
                self.taken_back(token, *reason);
            }
            if !lost.is_empty() {
                return self.hear_shards();
            }
        }
        if self.shards.values().any(|shard| !shard.offers.lock().unwrap().is_empty()) {
            self.hear_shards();
        }
    }

    fn taken_back(&mut self, token: &Token, reason: UncertainReason) {
        let text = token.to_string();
        let (_, ready, session) = self.flight.remove(&text).expect("taken back twice, or after it was settled");
        let worker = &self.workers[session[1..].parse::<usize>().unwrap()];
        match reason {
            UncertainReason::NotReceived => assert_ne!(worker.hand.get(&text), Some(&true), "it said that it has it"),
            UncertainReason::WorkerLost => assert!(worker.seen.unwrap() + SESSION <= Instant::now(), "it lives"),
            _ => {}
        }
        self.wait(ready);
    }

    fn wait(&mut self, ready: Ready) {
        self.rows.insert(name(&ready), ready.clone());
        self.desk.enqueue(shard_of(&ready), ready);
    }

    async fn step(&mut self, op: Op) {
        match op {
            Op::Register { worker } => self.register(worker),
            Op::Connect { worker } => self.connect(worker, 0),
            Op::Disconnect { worker } => self.workers[worker].stream = None,
            Op::Slots { worker, slots } => self.offer(worker, slots),
            Op::Read { worker, receipts } => self.read(worker, receipts),
            Op::Heartbeat { worker, tokens } => self.heartbeat(worker, tokens),
            Op::Crash { worker } => {
                self.workers[worker].hand.clear();
                self.workers[worker].stream = None;
                self.polls.retain(|(of, ..)| *of != worker);
                self.register(worker);
            }
            Op::Unregister { worker } => {
                self.desk.unregister(&format!("s{worker}"));
                self.workers[worker].stream = None;
            }
            Op::Poll { worker, slots } => self.poll(worker, slots),
            Op::Answer { poll } => self.answer(poll),
            Op::HangUp { poll } => {
                if let Some(nth) = pick(poll, self.polls.len()) {
                    self.polls.remove(nth);
                }
            }
            Op::Ready { shard, task, priority } => self.ready(SHARDS[shard], TASKS[task], priority),
            Op::Withdraw { unit } => {
                if let Some(nth) = pick(unit, self.rows.len()) {
                    let ready = self.rows.values().nth(nth).unwrap().clone();
                    self.rows.remove(&name(&ready));
                    self.desk.withdraw(shard_of(&ready), &ready.queue, &ready.order, &ready.unit);
                }
            }
            Op::Commit { offer } => self.commit(offer),
            Op::GiveUp { offer, silent } => self.give_up(offer, silent),
            Op::ReadRows { refill } => {
                if let Some(nth) = pick(refill, self.refills.len()) {
                    let read = self.read_rows(self.refills[nth].shard, &self.refills[nth].queue);
                    self.refills[nth].read.get_or_insert(read);
                }
            }
            Op::Refill { refill } => self.refill(refill),
            Op::Settle { token } => {
                if let Some(nth) = pick(token, self.flight.len()) {
                    let text = self.flight.keys().nth(nth).unwrap().clone();
                    let (token, ready, _) = self.flight.remove(&text).unwrap();
                    self.desk.settled(shard_of(&ready), &token);
                }
            }
            Op::Bounce { shard } => self.bounce(SHARDS[shard]),
            Op::Advance { ms } => {
                tokio::time::advance(Duration::from_millis(ms)).await;
                self.desk.tick(Instant::now());
            }
        }
    }

    /// Everybody goes; one worker comes that takes whatever there is.
    async fn finish(&mut self) {
        self.polls.clear();
        for worker in 0..WORKERS {
            self.play(Op::Disconnect { worker }).await;
            self.play(Op::Unregister { worker }).await;
        }
        for round in 0..100 {
            self.play(Op::Slots { worker: 0, slots: 8 }).await;
            while !self.offers.is_empty() || !self.refills.is_empty() {
                self.play(Op::Refill { refill: 0 }).await;
                self.play(Op::Commit { offer: 0 }).await;
                self.play(Op::Read { worker: 0, receipts: true }).await;
            }
            self.play(Op::Advance { ms: 1_000 }).await;
            // Rows in doubt were read again by now.
            if round > 1 && self.rows.is_empty() && self.refills.is_empty() {
                break;
            }
        }
        assert!(self.rows.is_empty(), "lost: {:?}", self.rows);
        while !self.flight.is_empty() {
            self.play(Op::Settle { token: 0 }).await;
        }
        self.play(Op::Unregister { worker: 0 }).await;
        assert_no_hand_over(&self.desk);
        let state = self.desk.lock();
        assert!(state.outlets.is_empty() && state.lines.len() == 0, "{state:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_in_whatever_order(ops in proptest::collection::vec(op(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for op in ops {
                world.play(op).await;
            }
            world.finish().await;
        });
    }
}
