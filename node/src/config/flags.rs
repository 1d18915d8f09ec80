//! The keys as flags of a command.

use std::collections::BTreeMap;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{Config, KEYS, Key};

/// What was said by flags, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    /// What was said of a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&str> {
        self.0.get(key.name).map(String::as_str)
    }

    /// Everything that was said, as arguments of a command.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = String> {
        let keys = KEYS.iter().filter_map(|key| Some((key.flag(), self.get(key)?)));
        keys.map(|(flag, text)| format!("--{flag}={text}"))
    }

    /// Says something of a key.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.insert(name, value.into());
        self
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for key in KEYS {
            if let Some(text) = matches.get_one::<String>(key.name) {
                let said = (key.set)(&mut Config::default(), text);
                said.map_err(|reason| {
                    clap::Error::raw(ErrorKind::ValueValidation, format!("--{}: {reason}\n", key.flag()))
                })?;
                self.0.insert(key.name, text.clone());
            }
        }
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().fold(command, |command, key| {
            let mut help = format!("{} [env: {}]", key.help, key.variable());
            if !key.default.is_empty() {
                help = format!("{help} [default: {}]", key.default);
            }
            command.arg(Arg::new(key.name).long(key.flag()).value_name("VALUE").help(help).num_args(1))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
