//! Bugs on purpose, to show that the checks find them. The feature `planted` compiles them in and `ORBIT_PLANT` chooses
//! one of them; without the feature, as in everything that is released, [`planted`] is the constant `false`.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// An undo goes in the order of success, not in reverse (L6.3, I22).
    CompensationOrder,
    /// A wait does not see what was buffered before it opened (L7, I19).
    LostSignal,
    /// A unit that is with a worker is handed over once more (I26).
    SecondToken,
    /// What closes does not wait for its children (L6.2, I23).
    OrphanChild,
    /// What is cancelled keeps its timer (L16, I18).
    TimerAfterCancel,
    /// A number is left out of the history (L12, I13).
    HistoryGap,
    /// The first result of a token is not remembered (L5).
    DedupForgotten,
    /// A redrive takes up what has succeeded (L10, I15).
    RedriveSucceeded,
}

/// Whether `plant` is the bug that this process was started with.
#[cfg(not(feature = "planted"))]
pub(crate) const fn planted(_: Plant) -> bool {
    false
}

#[cfg(feature = "planted")]
pub(crate) use chosen::planted;

#[cfg(feature = "planted")]
mod chosen {
    use std::io::Write;
    use std::sync::OnceLock;

    use super::Plant;

    const NAMES: [(&str, Plant); 8] = [
        ("compensation-order", Plant::CompensationOrder),
        ("lost-signal", Plant::LostSignal),
        ("second-token", Plant::SecondToken),
        ("orphan-child", Plant::OrphanChild),
        ("timer-after-cancel", Plant::TimerAfterCancel),
        ("history-gap", Plant::HistoryGap),
        ("dedup-forgotten", Plant::DedupForgotten),
        ("redrive-succeeded", Plant::RedriveSucceeded),
    ];

    static CHOSEN: OnceLock<Option<Plant>> = OnceLock::new();

    /// Whether `plant` is the bug that this process was started with; a name that is none ends the process.
    pub(crate) fn planted(plant: Plant) -> bool {
        *CHOSEN.get_or_init(choose) == Some(plant)
    }

    fn choose() -> Option<Plant> {
        let name = std::env::var("ORBIT_PLANT").ok().filter(|name| !name.is_empty())?;
        let found = NAMES.into_iter().find(|(known, _)| *known == name);
        if found.is_none() {
            let known = NAMES.map(|(known, _)| known).join(", ");
            let message = format!("ORBIT_PLANT={name}: there is no such bug to plant; choose one of: {known}\n");
            // Written directly: what a test prints would be lost with the process.
            let _ = std::io::stderr().write_all(message.as_bytes());
            std::process::exit(2);
        }
        found.map(|(_, plant)| plant)
    }
}
