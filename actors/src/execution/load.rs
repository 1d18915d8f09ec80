//! Waking up: the newest run from its rows, or an older one for a late result.

use std::sync::Arc;

use orbit_proto::engine;
use orbit_raft::Environment;
use workflow::command::Run;
use workflow::definition::Definition;

use super::Life;
use super::loaded::Loaded;
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::format;
use crate::rows::RunRows;
use crate::table;

impl<E: Environment> Life<E> {
    /// The newest run, read if it slept; `None`: there is no such execution.
    pub(super) fn load(&mut self) -> Result<Option<&mut Loaded>> {
        if self.loaded.is_none() {
            self.loaded = self.wake()?;
        }
        Ok(self.loaded.as_mut())
    }

    fn wake(&self) -> Result<Option<Loaded>> {
        let position = self.context.group.read(|reader| reader.position(self.id.as_bytes())).map_err(of_storage)?;
        let Some(position) = position else { return Ok(None) };
        let unfinished = table::unfinished(&self.id, position.run);
        let unfinished = self.context.group.read(|reader| reader.get(&unfinished)).map_err(of_storage)?.is_some();
        let rows = RunRows::shared(self.context.group.clone(), Arc::clone(&self.id), position.run);
        let definition = self.definition_of(position.run)?;
        let run = Run::asleep(definition, &*self.id, &rows, unfinished).map_err(of_storage)?;
        let run = run.ok_or_else(|| of_storage("the head of the run is missing"))?;
        Ok(Some(Loaded::stored(self.limited(run), rows, unfinished)))
    }

    /// A run that is not the newest.
    pub(super) fn older(&self, number: u32) -> Result<Option<Run>> {
        let rows = RunRows::shared(self.context.group.clone(), Arc::clone(&self.id), number);
        let Ok(definition) = self.definition_of(number) else { return Ok(None) };
        Run::asleep(definition, &*self.id, &rows, false).map_err(of_storage)
    }

    fn definition_of(&self, run: u32) -> Result<Arc<Definition>> {
        let record = self.context.group.read(|reader| reader.get(&table::run(&self.id, run))).map_err(of_storage)?;
        let record = record.ok_or_else(|| of_storage("the record of the run is missing"))?;
        let record: engine::RunRecord = table::decode("runs", &record).map_err(of_storage)?;
        format::may_decide(record.rules)?;
        let definition = self.context.definitions.by_hash(&record.definition_hash)?;
        definition.ok_or_else(|| {
            let what =
                format!("the definition {} {} is not here yet; repeat the call", record.workflow, record.version);
            Error::new(Code::NoLeader, what)
        })
    }
}
