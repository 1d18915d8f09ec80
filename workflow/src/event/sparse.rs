//! Members that are not there: left out where people read, kept where rows are stored.
//!
//! JSON leaves an absent member out. The binary form of rows has no names, so there every member must have its place.

macro_rules! sparse {
    ($name:ident { $($always:ident),+ } $($sometimes:ident),+) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let all = !serializer.is_human_readable();
                let mut count = [$(stringify!($always)),+].len();
                $(count += usize::from(all || self.$sometimes.is_some());)+
                let mut members = serializer.serialize_struct(stringify!($name), count)?;
                $(members.serialize_field(stringify!($always), &self.$always)?;)+
                $(if all || self.$sometimes.is_some() {
                    members.serialize_field(stringify!($sometimes), &self.$sometimes)?;
                })+
                members.end()
            }
        }
    };
}
pub(super) use sparse;
