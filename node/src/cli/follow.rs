//! Waiting for the end of an execution, and what its end means for a command.

use std::time::Duration;

use super::Error;
use super::print::Output;
use crate::client::answers::State;
use crate::client::{Answer, Call, Client};

/// How long a node is asked to wait at a time.
const WAIT: Duration = Duration::from_secs(60);

/// The state of an execution once it is over.
pub(crate) async fn wait(client: &Client, id: &str) -> Result<Answer, Error> {
    loop {
        let answer = wait_once(client, id).await?;
        if answer.read::<State>()?.is_over() {
            return Ok(answer);
        }
    }
}

/// The state of an execution when it is over, or some time later. Nodes follow it from run to run.
pub(crate) async fn wait_once(client: &Client, id: &str) -> Result<Answer, Error> {
    let call = Call::get(["v1", "executions", id, "wait"]).query("timeout_ms", Some(WAIT.as_millis()));
    Ok(client.send(&call.within(WAIT + Duration::from_secs(15))).await?)
}

/// Prints what came of an execution.
pub(crate) fn print_end(state: &State, output: &mut Output) {
    let State { execution_id, status, omitted, output: result, .. } = state;
    match result {
        Some(result) => output.line(format_args!("{execution_id} {status}: {}", result.get())),
        None if omitted.iter().any(|member| member == "output") => {
            output.line(format_args!("{execution_id} {status}: the output is too large to be shown here"));
        }
        None => output.line(format_args!("{execution_id} {status}")),
    }
}

/// An execution that did not complete is a failure of the command that waited for it.
pub(crate) fn judge(state: &State) -> Result<(), Error> {
    if state.status == "COMPLETED" {
        return Ok(());
    }
    let why = state.error.as_ref().map(|error| match error.message.as_str() {
        "" => format!(" with {}", error.code),
        message => format!(" with {}: {message}", error.code),
    });
    let (id, status) = (state.execution_id.clone(), state.status.clone());
    Err(Error::NotCompleted { id, status, why: why.unwrap_or_default() })
}
