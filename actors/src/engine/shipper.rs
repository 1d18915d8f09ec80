//! Ships the outbox of a shard, while this node leads it: slot by slot in order, all slots at the same time.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use orbit_proto::engine::Message;
use orbit_raft::{Environment, Part, Write};

use super::{Engine, Inner, Shard};
use crate::error::{Error, Result};
use crate::failure::{going_away, of_storage};
use crate::post::Batch;
use crate::remote::Request;
use crate::table::{self, Number};

/// Most messages that go in one.
pub(crate) const MESSAGES_MAX: usize = 64;
/// … or about this many bytes.
const BYTES_MAX: usize = 1 << 20;
/// What did not arrive is sent again after this.
const AGAIN: Duration = Duration::from_millis(200);
/// What applying does not look at: it tells a reader of a log whose part it is.
const PART_ARRIVED: u32 = 4;

/// Ships for ever; dropped with the node.
pub(super) async fn run<E: Environment>(engine: Weak<Inner<E>>, source: Arc<Shard<E>>) {
    let shipper = Shipper { source, engine };
    let mut leads = shipper.source.leads.subscribe();
    // Ends when the shard is gone.
    while leads.wait_for(|leads| *leads).await.is_ok() {
        let mut until = leads.clone();
        tokio::select! {
            () = shipper.ship() => {}
            _ = until.wait_for(|leads| !*leads) => {}
        }
    }
}

struct Shipper<E: Environment> {
    source: Arc<Shard<E>>,
    engine: Weak<Inner<E>>,
}

/// Messages under way: for one execution, as they lie in the outbox.
struct Parcel {
    slot: u16,
    to: Arc<str>,
    keys: Vec<Vec<u8>>,
    batch: Batch,
}

impl<E: Environment> Shipper<E> {
    async fn ship(&self) {
        let outbox = &self.source.context.outbox;
        match self.slots() {
            Ok(slots) => outbox.add(slots),
            Err(error) => tracing::error!(shard = self.source.context.shard, %error, "the outbox cannot be read"),
        }
        let (mut under_way, mut busy) = (FuturesUnordered::new(), HashSet::new());
        loop {
            // A slot that is busy is looked at again when it no longer is.
            for slot in outbox.take().into_iter().filter(|slot| !busy.contains(slot)).collect::<Vec<_>>() {
                match self.parcel(slot) {
                    Ok(None) => {}
                    Ok(Some(parcel)) => {
                        busy.insert(slot);
                        under_way.push(self.deliver(parcel));
                    }
                    Err(error) => {
                        tracing::error!(shard = self.source.context.shard, %error, "the outbox cannot be read");
                    }
                }
            }
            tokio::select! {
                () = outbox.more() => {}
                Some(slot) = under_way.next() => {
                    busy.remove(&slot);
                    outbox.add([slot]);
                }
            }
        }
    }

    /// Slots for which something waits, found by leaping from one to the next.
    fn slots(&self) -> Result<Vec<u16>> {
        let (mut slots, mut range) = (Vec::new(), table::outbox());
        loop {
            let first = self.source.context.group.read(|reader| reader.range(&range, 1)).map_err(of_storage)?;
            let Some((key, _)) = first.first() else { return Ok(slots) };
            let (slot, _) = table::outbox_parts(key).ok_or_else(damaged)?;
            slots.push(slot);
            range.from = table::outbox_of(slot).to;
            if range.from >= range.to {
                return Ok(slots);
            }
        }
    }

    /// The first messages of a slot, as far as they are for one execution.
    fn parcel(&self, slot: u16) -> Result<Option<Parcel>> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let scanned = self.source.context.group.read(|reader| {
            reader.scan(&table::outbox_of(slot), |key, value| {
                if rows.len() >= MESSAGES_MAX || bytes >= BYTES_MAX {
                    return ControlFlow::Break(());
                }
                bytes += value.len();
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
        });
        scanned.map_err(of_storage)?;
        let mut parcel: Option<Parcel> = None;
        for (key, value) in rows {
            let message: Message = table::decode("messages", &value).map_err(of_storage)?;
            let number: Number = table::outbox_parts(&key).ok_or_else(damaged)?.1;
            let source = self.source.context.shard;
            let parcel = parcel.get_or_insert_with(|| Parcel {
                slot,
                to: Arc::from(&*message.to),
                keys: Vec::new(),
                batch: Batch { source, messages: Vec::new() },
            });
            if *message.to != *parcel.to {
                break;
            }
            parcel.keys.push(key);
            parcel.batch.messages.push((number, message));
        }
        Ok(parcel)
    }

    /// Returns when the messages have left the outbox, or are to be sent again.
    async fn deliver(&self, parcel: Parcel) -> u16 {
        let Parcel { slot, to, keys, batch } = parcel;
        let remove = |key| -> Write { table::delete(key) };
        let arrived = match self.hand(&to, batch).await {
            Ok(()) => {
                let writes = keys.into_iter().map(remove).collect();
                let part = Part { kind: PART_ARRIVED, writes, ..Part::default() };
                // What is sent once more is recognised.
                self.source.context.group.propose(vec![part]).await.map(drop).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = arrived {
            tracing::debug!(execution = %to, error, "messages are sent again");
            tokio::time::sleep(AGAIN).await;
        }
        slot
    }

    async fn hand(&self, to: &Arc<str>, batch: Batch) -> Result<()> {
        let engine = Engine(self.engine.upgrade().ok_or_else(going_away)?);
        let running = engine.running()?;
        if *running.shard(to).leads.borrow() {
            // Another node looks when it is asked.
            let bodies = batch.messages.iter().filter_map(|(_, message)| message.body.as_ref());
            engine.know_children(&running, bodies).await?;
        }
        engine.request(&running, to, Request::Messages(Box::new(batch))).await.map(drop)
    }
}

fn damaged() -> Error {
    of_storage("a key of the outbox is damaged")
}
