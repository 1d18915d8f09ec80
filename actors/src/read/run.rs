//! A run as the rules see it, read from its rows as they are applied.

use std::sync::Arc;

use orbit_proto::engine::RunRecord;
use orbit_raft::{Environment, Group};
use workflow::command::Run;
use workflow::state::ReadRows;

use crate::definitions::Definitions;
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::rows::RunRows;
use crate::table;

/// The newest run, and where its rows come from: a row that could not be read is told there.
pub(crate) fn run<E: Environment>(
    group: &Group<E>,
    definitions: &Definitions<E>,
    id: &Arc<str>,
) -> Result<(Run, Arc<dyn ReadRows>)> {
    let position = group.read(|reader| reader.position(id.as_bytes())).map_err(of_storage)?;
    let position = position.ok_or_else(|| super::state::not_found(id, None))?;
    let record = group.read(|reader| reader.get(&table::run(id, position.run))).map_err(of_storage)?;
    let record = record.ok_or_else(|| of_storage("the record of the run is missing"))?;
    let record: RunRecord = table::decode("runs", &record).map_err(of_storage)?;
    let definition = definitions.by_hash(&record.definition_hash)?.ok_or_else(|| {
        let what = format!("the definition {} {} is not here yet; repeat the call", record.workflow, record.version);
        Error::new(Code::NoLeader, what)
    })?;
    let rows = RunRows::shared(group.clone(), Arc::clone(id), position.run);
    let run = Run::asleep(definition, &**id, &rows, false).map_err(of_storage)?;
    Ok((run.ok_or_else(|| of_storage("the head of the run is missing"))?, rows))
}
