//! How each operation is played: what workers and shards do, and what they check when they are answered.

use futures::FutureExt;

use super::*;

impl World {
    // ---- workers

    fn hello(&self, worker: usize) -> Register {
        Register {
            worker_session_id: Some(format!("s{worker}")),
            tokens: self.workers[worker].hand.keys().cloned().collect(),
            // The last one does half of what the others do.
            ..super::worker(&format!("w{worker}"), if worker == WORKERS - 1 { &TASKS[..1] } else { &TASKS[..] })
        }
    }

    fn seen(&mut self, worker: usize) {
        self.workers[worker].seen = Some(Instant::now());
    }

    fn listed(&mut self, worker: usize) {
        self.seen(worker);
        self.workers[worker].hand.values_mut().for_each(|said| *said = true);
    }

    pub(super) fn register(&mut self, worker: usize) {
        self.desk.register(self.hello(worker), Instant::now(), || unreachable!()).unwrap();
        self.listed(worker);
    }

    pub(super) fn connect(&mut self, worker: usize, slots: u32) {
        let stream = self.desk.open_stream(self.hello(worker), Instant::now(), || unreachable!()).unwrap();
        stream.offer_slots(slots);
        self.workers[worker].stream = Some(stream);
        self.workers[worker].credit = slots;
        self.listed(worker);
    }

    pub(super) fn offer(&mut self, worker: usize, slots: u32) {
        let Some(stream) = &self.workers[worker].stream else { return self.connect(worker, slots) };
        if self.desk.lock().sessions.find(&format!("s{worker}")).is_none() {
            // The session ended, and the stream with it.
            return self.connect(worker, slots);
        }
        stream.offer_slots(slots);
        self.workers[worker].credit += slots;
        self.seen(worker);
    }

    pub(super) fn read(&mut self, worker: usize, receipts: bool) {
        let Some(stream) = &mut self.workers[worker].stream else { return };
        let tasks = delivered(stream).into_iter().filter_map(|delivery| match delivery {
            Delivery::Task(task) => Some(task.token),
            Delivery::Cancel(_) | Delivery::Drain => None,
        });
        let tokens: Vec<_> = tasks.collect();
        for token in &tokens {
            assert!(self.delivered.insert(token.clone()), "delivered twice");
            let credit = &mut self.workers[worker].credit;
            *credit = credit.checked_sub(1).expect("a slot was used twice");
            self.workers[worker].hand.insert(token.clone(), false);
        }
        self.check_slots(worker);
        if receipts {
            let known = self.desk.lock().sessions.find(&format!("s{worker}")).is_some();
            self.workers[worker].stream.as_ref().unwrap().received(&tokens);
            for token in &tokens {
                // A receipt that comes too late is none.
                let in_time = self.flight.contains_key(token);
                self.workers[worker].hand.insert(token.clone(), in_time);
            }
            if known {
                self.seen(worker);
            }
        }
    }

    /// Of a stream that has been read to its end, every slot that was not used is idle or reserved.
    fn check_slots(&self, worker: usize) {
        let state = self.desk.lock();
        let session = state.sessions.find(&format!("s{worker}")).and_then(|no| state.sessions.get(no));
        if let Some(outlet) = session.and_then(|session| session.stream).map(|id| &state.outlets[&id]) {
            assert_eq!(outlet.idle + outlet.reserved, self.workers[worker].credit as usize, "slots got lost");
        }
    }

    pub(super) fn heartbeat(&mut self, worker: usize, tokens: bool) {
        let hand: Vec<_> = self.workers[worker].hand.keys().cloned().collect();
        let list = tokens.then_some(hand.as_slice());
        match self.desk.heartbeat(&format!("s{worker}"), list, Instant::now()) {
            Ok(alive) => {
                for token in alive.cancel {
                    assert!(!self.flight.contains_key(&token), "it lives");
                    self.workers[worker].hand.remove(&token);
                }
                if tokens { self.listed(worker) } else { self.seen(worker) }
            }
            Err(_) => self.register(worker),
        }
    }

    pub(super) fn poll(&mut self, worker: usize, slots: u32) {
        match self.desk.open_poll(&format!("s{worker}"), slots, Instant::now()) {
            Ok(poll) => {
                self.polls.push((worker, slots as usize, poll));
                self.seen(worker);
            }
            Err(_) => self.register(worker),
        }
    }

    pub(super) fn answer(&mut self, poll: usize) {
        let Some(nth) = pick(poll, self.polls.len()) else { return };
        let (worker, slots, waiting) = &mut self.polls[nth];
        let Some(tasks) = waiting.next(Instant::now()).now_or_never() else { return };
        assert!(tasks.len() <= *slots, "a slot was used twice");
        for task in tasks {
            assert!(self.delivered.insert(task.token.clone()), "delivered twice");
            self.workers[*worker].hand.insert(task.token, false);
        }
        self.polls.remove(nth);
    }

    // ---- shards

    pub(super) fn ready(&mut self, shard: ShardId, task: &str, priority: u8) {
        self.count += 1;
        let mut ready = super::ready(task, &format!("{shard}/{}", self.count), self.count);
        ready.order.priority = priority;
        match self.desk.try_take(&ready.queue, &ready.order) {
            Some(slot) => self.offers.push(Offer { ready, slot, row: false, fresh: true }),
            None => self.wait(ready),
        }
    }

    pub(super) fn commit(&mut self, offer: usize) {
        let Some(nth) = pick(offer, self.offers.len()) else { return };
        let Offer { ready, slot, row, .. } = self.offers.remove(nth);
        if row && self.rows.remove(&name(&ready)).is_none() {
            // Withdrawn, or offered by rows that were read too early: refused.
            return drop(slot);
        }
        self.count += 1;
        let token = Token { seq: self.count, ..token(&name(&ready), 1) };
        let session = slot.session_id().to_owned();
        let shard = shard_of(&ready);
        self.flight.insert(token.to_string(), (token.clone(), ready, session));
        self.desk.dispatched(shard, slot, task(&token));
    }

    pub(super) fn give_up(&mut self, offer: usize, silent: bool) {
        let Some(nth) = pick(offer, self.offers.len()) else { return };
        let Offer { ready, slot, row, .. } = self.offers.remove(nth);
        if !row {
            // The commit went through without the hand-over.
            self.wait(ready);
        } else if self.rows.contains_key(&name(&ready)) && silent {
            self.doubted.insert(name(&ready));
        } else if self.rows.contains_key(&name(&ready)) {
            self.desk.enqueue(shard_of(&ready), ready);
        }
        drop(slot);
    }

    pub(super) fn read_rows(&self, shard: ShardId, queue: &Queue) -> (Vec<Ready>, bool) {
        let wanted = |ready: &&Ready| shard_of(ready) == shard && ready.queue == *queue && !self.is_offered(ready);
        let mut rows: Vec<_> = self.rows.values().filter(wanted).cloned().collect();
        rows.sort_by_key(Ready::place);
        let more = rows.len() > READ;
        rows.truncate(READ);
        (rows, more)
    }

    pub(super) fn refill(&mut self, refill: usize) {
        let Some(nth) = pick(refill, self.refills.len()) else { return };
        let Refill { shard, queue, read } = self.refills.remove(nth);
        let (rows, more) = read.unwrap_or_else(|| self.read_rows(shard, &queue));
        self.desk.refilled(shard, &queue, rows, more);
    }

    /// Another leader on the same node.
    pub(super) fn bounce(&mut self, shard: ShardId) {
        self.desk.resign(shard);
        let (gone, kept) = std::mem::take(&mut self.offers).into_iter().partition(|o| shard_of(&o.ready) == shard);
        self.offers = kept;
        let gone: Vec<Offer> = gone;
        for Offer { ready, slot, .. } in gone {
            self.rows.insert(name(&ready), ready);
            drop(slot);
        }
        self.refills.retain(|refill| refill.shard != shard);
        self.doubted.retain(|unit| !unit.starts_with(&format!("{shard}/")));
        self.shards.insert(shard, lead(&self.desk, shard));
        let rows = self.flight.values().filter(|(_, ready, _)| shard_of(ready) == shard);
        let rows = rows.map(|(token, _, session)| Held {
            token: token.clone(),
            worker_id: session.replace('s', "w"),
            session: session.clone(),
            stop: false,
        });
        self.desk.adopt(shard, rows.collect(), Instant::now());
        for task in TASKS {
            let (rows, more) = self.read_rows(shard, &queue(task));
            self.desk.refilled(shard, &queue(task), rows, more);
        }
    }
}
