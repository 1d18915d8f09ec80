//! A page of a history.

use std::ops::ControlFlow;

use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::key;
use orbit_raft::{Environment, Group};
use workflow::command::Token;
use workflow::event::{Event, Recorded};

use super::ANSWER_BYTES_MAX;
use crate::api::HistoryPage;
use crate::error::Result;
use crate::failure::of_storage;
use crate::history as codec;

/// Events from `from` on, as many as are wanted and fit.
pub(crate) fn history<E: Environment>(
    group: &Group<E>,
    id: &str,
    run: u32,
    from: u64,
    limit: usize,
) -> Result<HistoryPage> {
    let id_bytes = id.as_bytes();
    let range = KeyRange { from: key::event(id_bytes, run, from), to: key::events(id_bytes, run).to };
    let (mut rows, mut bytes, mut more) = (Vec::new(), 0, false);
    let scanned = group.read(|reader| {
        reader.scan(&range, |key, value| {
            // Twice: the JSON of an event is a little longer than its stored form.
            if rows.len() >= limit || !rows.is_empty() && bytes + 2 * value.len() > ANSWER_BYTES_MAX {
                more = true;
                return ControlFlow::Break(());
            }
            bytes += 2 * value.len();
            let seq = key.last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            rows.push((seq, value.to_vec()));
            ControlFlow::Continue(())
        })
    });
    scanned.map_err(of_storage)?;
    let mut events = Vec::with_capacity(rows.len());
    for (seq, value) in &rows {
        events.push(without_secrets(codec::decode(*seq, value).map_err(of_storage)?));
    }
    let next = rows.last().map(|(seq, _)| seq + 1).filter(|_| more);
    Ok(HistoryPage { execution_id: id.to_owned(), run, events, next })
}

/// Whoever may read a history may not complete its tasks: tokens lose their random part.
fn without_secrets(mut recorded: Recorded) -> Recorded {
    let token = match &mut recorded.event {
        Event::StepDispatched(event) => &mut event.token,
        Event::StaleResultIgnored(event) => &mut event.token,
        _ => return recorded,
    };
    if let Ok(parsed) = token.parse::<Token>() {
        *token = Token { nonce: [0; 8], ..parsed }.to_string();
    }
    recorded
}
