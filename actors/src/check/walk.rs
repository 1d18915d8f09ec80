//! All rows of a shard, a piece at a time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_raft::Environment;
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::key::{Table, ordered};
use orbit_raft::state_store::read::Reader;

use super::awaited::Awaited;
use super::index::{self, Indexes};
use super::post::Post;
use super::{At, Findings, Rule, run};
use crate::definitions::Definitions;
use crate::error::Result;
use crate::failure::of_storage;
use crate::shard::shard_of;
use crate::table::{self, Number};

/// Executions of a piece.
const EXECUTIONS: usize = 32;
/// … unless they have so many events together.
const EVENTS: u64 = 5_000;

/// Where the walk stands.
#[derive(Debug)]
enum Stage {
    /// The executions, from this key on.
    Executions(Vec<u8>),
    /// An index table, from this key on.
    Index(usize, Vec<u8>),
    /// Messages that came and went.
    Post,
    Done,
}

/// A walk over a shard. All pieces must be read as of the same moment.
#[derive(Debug)]
pub(crate) struct Walk {
    shard: (u16, u16),
    stage: Stage,
    indexes: Indexes,
    /// What is found.
    pub(crate) findings: Findings,
    /// Units that wait for another execution: to be followed there, and then cleared, after each piece.
    pub(crate) awaited: Vec<Awaited>,
    /// What lies in outbox and inbox.
    pub(crate) post: Post,
    /// Counted so far.
    pub(crate) executions: u64,
    pub(crate) runs: u64,
    pub(crate) events: u64,
}

impl Walk {
    /// Over a shard, of so many.
    pub(crate) fn new(shard: (u16, u16)) -> Self {
        let first = KeyRange::prefix(&ordered(Table::POSITION, &[])).from;
        Self {
            shard,
            stage: Stage::Executions(first),
            indexes: Indexes::default(),
            findings: Findings::default(),
            awaited: Vec::new(),
            post: Post::default(),
            executions: 0,
            runs: 0,
            events: 0,
        }
    }

    /// … with what each slot of other shards had received before the moment that is walked over.
    pub(crate) fn with_marks(self, marks: BTreeMap<u16, Number>) -> Self {
        Self { post: Post { marks, ..self.post }, ..self }
    }

    /// Looks at some more. Returns whether there is more.
    ///
    /// # Errors
    /// The disk does not answer; what cannot be understood is a finding.
    pub(crate) fn piece<E: Environment>(&mut self, reader: &Reader<'_>, definitions: &Definitions<E>) -> Result<bool> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Executions(from) => match self.some_executions(reader, definitions, from)? {
                Some(from) => Stage::Executions(from),
                None => Stage::Index(0, Vec::new()),
            },
            Stage::Index(table, from) => match self.indexes.some_rows(reader, table, from, &mut self.findings)? {
                Some(from) => Stage::Index(table, from),
                None if table + 1 < index::TABLES => Stage::Index(table + 1, Vec::new()),
                None => Stage::Post,
            },
            Stage::Post => {
                self.post.look(reader, self.shard.1, &mut self.findings)?;
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
        Ok(!matches!(self.stage, Stage::Done))
    }

    fn some_executions<E: Environment>(
        &mut self,
        reader: &Reader<'_>,
        definitions: &Definitions<E>,
        from: Vec<u8>,
    ) -> Result<Option<Vec<u8>>> {
        let range = KeyRange { from, to: KeyRange::prefix(&ordered(Table::POSITION, &[])).to };
        let (mut keys, mut next) = (Vec::new(), None);
        let scanned = reader.scan(&range, |key, _| {
            if keys.len() < EXECUTIONS {
                keys.push(key.to_vec());
                return ControlFlow::Continue(());
            }
            next = Some(key.to_vec());
            ControlFlow::Break(())
        });
        scanned.map_err(of_storage)?;
        let before = self.events;
        for key in keys {
            if self.events - before > EVENTS {
                return Ok(Some(key));
            }
            match key.get(5..).and_then(table::text) {
                Some((id, [])) => self.execution(reader, definitions, &Arc::from(id))?,
                _ => self.findings.add(Rule::History, At::SHARD, key.escape_ascii(), "a key", "the id of an execution"),
            }
        }
        Ok(next)
    }

    fn execution<E: Environment>(
        &mut self,
        reader: &Reader<'_>,
        definitions: &Definitions<E>,
        id: &Arc<str>,
    ) -> Result<()> {
        self.executions += 1;
        let (here, shards) = self.shard;
        let belongs = shard_of(id, shards);
        if belongs != here {
            let expected = format!("on shard {belongs}, to which its id belongs");
            self.findings.add(Rule::History, At::id(id), "position", format!("on shard {here}"), expected);
        }
        let position = match reader.position(id.as_bytes()) {
            Ok(Some(position)) => position,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.findings.add(Rule::History, At::id(id), "position", error, "a position");
                return Ok(());
            }
        };
        let rows = reader.range(&table::runs(id), usize::MAX).map_err(of_storage)?;
        let runs: Vec<u32> = rows.iter().filter_map(|(key, _)| table::run_of(key)).collect();
        if runs.last() != Some(&position.run) {
            let expected = format!("run {}, as the position says", position.run);
            self.findings.add(Rule::History, At::id(id), "runs", format!("runs {runs:?}"), expected);
        }
        if reader.get(&table::start(id)).map_err(of_storage)?.is_none() {
            self.findings.add(Rule::Fold, At::id(id), "start", "nothing", "what it was first started with");
        }
        for run in runs {
            self.runs += 1;
            let seq = (run == position.run).then_some(position.seq);
            let looked = run::look(reader, definitions, id, run, seq, &mut self.findings)?;
            self.events += looked.events;
            self.awaited.extend(looked.awaited);
            if let (true, Some((state, record))) = (seq.is_some(), looked.state) {
                self.indexes.want(reader, id, &state, &record, &mut self.findings)?;
            }
        }
        Ok(())
    }
}
