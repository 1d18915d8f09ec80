//! What must hold of any history, whatever it is about.

use workflow::decide;
use workflow::definition::Definition;
use workflow::event::{Event, Recorded};
use workflow::state::Execution;

/// Walking over everything that is open gives, at each place of the history, exactly the event that stands there, or
/// nothing where a command's own event stands: so the agenda forgot nothing, and a batch may be cut anywhere.
pub fn check(definition: &Definition, execution_id: &str, history: &[Recorded], place: &str) {
    let mut state = Execution::default();
    for (index, recorded) in history.iter().enumerate() {
        let seq = index as u64 + 1;
        assert_eq!(recorded.seq, seq, "{place}: a gap");
        if state.head.started_at_ms.is_some() {
            let decided = decide::next_event(definition, &state, execution_id, recorded.timestamp_ms);
            match decided {
                Some(event) if !is_command(&recorded.event) => {
                    assert_eq!(event, recorded.event, "{place}: event {seq} is another when decided on alone");
                }
                Some(_) => {}
                None => assert!(
                    is_command(&recorded.event) || may_be_command(&recorded.event),
                    "{place}: nobody decides event {seq}: {}",
                    recorded.event
                ),
            }
        }
        state.evolve(recorded);
    }
    let now_ms = state.head.updated_at_ms;
    let more = decide::next_event(definition, &state, execution_id, now_ms);
    assert!(more.is_none(), "{place}: deciding again gives {more:?}");
}

fn is_command(event: &Event) -> bool {
    matches!(
        event,
        Event::WorkflowCreated(_)
            | Event::WorkflowStarted(_)
            | Event::StepDispatched(_)
            | Event::StaleResultIgnored(_)
            | Event::CancelRequested(_)
            | Event::WorkflowPaused(_)
            | Event::WorkflowResumed(_)
            | Event::WorkflowRedriven(_)
            | Event::WorkflowTimeoutReached(_)
            | Event::TimerFired(_)
            | Event::SignalReceived(_)
    )
}

fn may_be_command(event: &Event) -> bool {
    matches!(event, Event::StepSucceeded(_) | Event::StepAttemptFailed(_) | Event::StepAttemptUncertain(_))
}
