//! Parts of a cases file that may be written in more than one way.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use crate::expression::text::parse_duration_ms;
use crate::expression::{Expression, References, Template};

/// What the expressions of a mocked outcome may look at.
const OUTCOME_NAMES: [&str; 4] = ["input", "attempt", "unit", "call"];

/// A duration or a moment from the start of the case: `1h30m`, or a number of ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ms(pub(super) u64);

impl<'de> Deserialize<'de> for Ms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MsVisitor)
    }
}

struct MsVisitor;

impl Visitor<'_> for MsVisitor {
    type Value = Ms;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 1h30m, or a number of ms")
    }

    fn visit_u64<E>(self, ms: u64) -> Result<Ms, E> {
        Ok(Ms(ms))
    }

    fn visit_i64<E: Error>(self, ms: i64) -> Result<Ms, E> {
        u64::try_from(ms).map(Ms).map_err(|_| E::custom("a duration is not negative"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Ms, E> {
        let ms = parse_duration_ms(text);
        ms.map(Ms).ok_or_else(|| E::custom(format!("`{text}` is no duration; write 250ms, 30s, 1h30m, 7d or a number")))
    }
}

/// How often a result is sent: bounded, because each waits in the queue from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times(pub(super) u16);

impl Times {
    const MAX: u16 = 1_000;
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = u64::deserialize(deserializer)?;
        let times = u16::try_from(written).ok().filter(|times| *times <= Self::MAX);
        times.map(Self).ok_or_else(|| D::Error::custom(format!("{written} times are too many; {} at most", Self::MAX)))
    }
}

/// One of something, or a list of them.
#[derive(Clone, Debug)]
pub(super) struct OneOrMany<T>(pub(super) Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|one| OneOrMany(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany)
    }
}

/// Something that happens at one moment or at several: `10m`, `{at: 10m, …}` or a list of the latter.
#[derive(Clone, Debug)]
pub(super) struct Moments<T>(pub(super) Vec<T>);

impl<T> Default for Moments<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de> + From<Ms>> Deserialize<'de> for Moments<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MomentsVisitor(PhantomData))
    }
}

struct MomentsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + From<Ms>> Visitor<'de> for MomentsVisitor<T> {
    type Value = Moments<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a moment such as 10m, {at: 10m, …} or a list of them")
    }

    fn visit_u64<E: Error>(self, ms: u64) -> Result<Self::Value, E> {
        MsVisitor.visit_u64(ms).map(|at| Moments(vec![T::from(at)]))
    }

    fn visit_i64<E: Error>(self, ms: i64) -> Result<Self::Value, E> {
        MsVisitor.visit_i64(ms).map(|at| Moments(vec![T::from(at)]))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        MsVisitor.visit_str(text).map(|at| Moments(vec![T::from(at)]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        OneOrManyVisitor(PhantomData).visit_map(map).map(|OneOrMany(all)| Moments(all))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        OneOrManyVisitor(PhantomData).visit_seq(list).map(|OneOrMany(all)| Moments(all))
    }
}

/// A condition over `input, attempt, unit, call`.
#[derive(Clone, Debug)]
pub(super) struct When(pub(super) Expression);

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let expression = Expression::compile(&text).map_err(|fault| Error::custom(fault.message))?;
        only_known(expression.references())?;
        Ok(Self(expression))
    }
}

/// Any JSON whose texts may hold `${…}` over the same names.
#[derive(Clone, Debug)]
pub(super) struct Output(pub(super) Template);

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let template = Template::compile(&json).map_err(|faults| {
            let faults: Vec<_> = faults.iter().map(|fault| fault.message.clone()).collect();
            Error::custom(faults.join("; "))
        })?;
        for (_, expression) in template.expressions() {
            only_known(expression.references())?;
        }
        Ok(Self(template))
    }
}

fn only_known<E: Error>(references: &References) -> Result<(), E> {
    match references.variables.keys().find(|name| !OUTCOME_NAMES.contains(&name.as_str())) {
        Some(name) => {
            Err(E::custom(format!("`{name}` is unknown here; an outcome sees input, attempt, unit and call")))
        }
        None => Ok(()),
    }
}

/// `null` is a value, absence is none.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
