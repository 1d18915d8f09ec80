//! A source as plain data with places, for files beside a document that are none themselves.

use super::fault::{Fault, Faults};
use super::marked::Marked;
use super::{Format, read};

/// One value of a source.
#[derive(Debug)]
pub(crate) struct Data(Marked);

impl Data {
    /// Reads every value of a source, by the rules of documents: scalars, sizes, depth.
    ///
    /// # Errors
    /// Where the source is not what its notation asks for.
    pub(crate) fn read(source: &str, format: Format) -> Result<Vec<Data>, Faults> {
        Ok(read(source, format)?.into_iter().map(Data).collect())
    }

    /// The value without places.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.0.to_json()
    }

    /// A fault at the place of what a JSON pointer names, or of the nearest thing around it.
    pub(crate) fn fault(&self, pointer: &str, message: impl Into<String>) -> Fault {
        Fault::new(self.0.place_of(pointer), pointer, message)
    }

    /// A fault at the name of a member, when `pointer` names one.
    pub(crate) fn fault_at_name(&self, pointer: &str, message: impl Into<String>) -> Fault {
        Fault::new(self.0.key_place_of(pointer), pointer, message)
    }
}
