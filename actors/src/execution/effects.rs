//! What is done once a commit is through: by the leader only, and found again in what is stored should it get lost.

use orbit_raft::Environment;

use super::Life;
use super::turn::Effects;
use crate::index::Change;

impl<E: Environment> Life<E> {
    pub(super) fn do_effects(&mut self, effects: Effects) {
        let (desk, shard) = (&self.context.desk, self.context.shard);
        for (token, tell) in &effects.settled {
            if *tell {
                desk.cancel(shard, token);
            }
            desk.settled(shard, token);
            self.context.silence.forget(token);
        }
        for token in &effects.stop {
            desk.cancel(shard, token);
        }
        for (token, limit_ms) in effects.watched {
            self.context.silence.watch(&token, limit_ms, self.context.group.now_ms());
            self.context.timers.look_again();
        }
        for (slot, task) in effects.tasks {
            desk.dispatched(shard, slot, *task);
        }
        for change in effects.changes {
            match change {
                Change::Ready(ready) => desk.enqueue(shard, ready),
                Change::NotReady(queue, order, unit) => desk.withdraw(shard, &queue, &order, &unit),
                Change::Timer(timer) => self.context.timers.arm(timer),
                Change::Held(..) | Change::NotHeld(..) | Change::NoTimer(_) => {}
            }
        }
        self.context.count(effects.alive);
        self.context.outbox.add(effects.posted);
        self.context.changes.wake(&self.id);
        if effects.over {
            self.context.waiters.wake(&self.id);
        }
    }
}
