//! What must hold of any history, whatever it is about.

use workflow::definition::Definition;
use workflow::event::Recorded;
use workflow::replay::{Replayed, replay};

/// The rules decide it as it stands. One that was never begun is none.
pub fn check(definition: &Definition, execution_id: &str, history: &[Recorded], place: &str) -> Replayed {
    if history.is_empty() {
        return Replayed::default();
    }
    replay(definition, execution_id, history).unwrap_or_else(|error| panic!("{place}: {error}: {error:?}"))
}
