//! Why bytes are no event of this version.

use workflow::value::PayloadError;

/// Why bytes are no event of this version. All but [`HistoryError::Damaged`] may well be events of a newer one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The format byte is none that this version knows.
    #[error("unknown format {0} of an event; a newer version of Orbit may know it")]
    UnknownFormat(u8),
    /// The kind is none that this version knows.
    #[error("unknown type {0} of an event; a newer version of Orbit may know it")]
    UnknownType(u32),
    /// A field holds a word that this version does not know.
    #[error("unknown word {word} in {place}; a newer version of Orbit may know it")]
    UnknownWord {
        /// The message and its field.
        place: &'static str,
        /// The number of the word.
        word: u64,
    },
    /// No version writes such bytes.
    #[error("damaged event: {place}: {fault}")]
    Damaged {
        /// The message and, when known, its field.
        place: &'static str,
        /// What is wrong there.
        fault: Fault,
    },
}

/// What is wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// They end too early.
    #[error("it ends too early")]
    Cut,
    /// Protobuf knows no such bytes, or the field is of another type.
    #[error("no field of this type")]
    Shape,
    /// A number does not fit its type.
    #[error("a number out of range")]
    Range,
    /// A text is no UTF-8.
    #[error("a text that is no UTF-8")]
    Text,
    /// What is always there is not.
    #[error("it is missing")]
    Missing,
    /// A value is no JSON.
    #[error(transparent)]
    Json(#[from] PayloadError),
}

impl From<Fault> for HistoryError {
    /// The place is still to be said.
    fn from(fault: Fault) -> Self {
        Self::Damaged { place: "", fault }
    }
}

impl HistoryError {
    /// Says where, unless a place further inside is known.
    pub(super) fn at(mut self, here: &'static str) -> Self {
        if let Self::Damaged { place, .. } | Self::UnknownWord { place, .. } = &mut self
            && place.is_empty()
        {
            *place = here;
        }
        self
    }
}
