//! Links between places, cut and healed.
//!
//! A cut acts where packets arrive: the sender sends, and what it sends is gone. So `a` cannot tell a cut link to `b`
//! from a `b` that is silent. A TCP connection needs both directions: cut one, and data still arrive the other way, but
//! no acknowledgement comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use crate::{Error, Namespace, lock};

/// The name of the place where the clients are.
pub const CLIENTS: &str = "clients";

/// What becomes of packets on a link that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// They are gone, and nobody is told.
    Silent,
    /// The sender is told: a reset for TCP, `port unreachable` for the rest.
    Rejected,
}

/// A link in one direction, by the names of its ends: from whom, to whom.
pub type Link = (String, String);

#[derive(Debug)]
struct Place {
    name: String,
    address: Ipv4Addr,
    namespace: Arc<Namespace>,
}

/// All links of a world. Each call changes the rules of one place after the other, each place's at once.
#[derive(Debug, Default)]
pub struct Links {
    places: Mutex<Vec<Place>>,
    cuts: Mutex<BTreeMap<Link, Cut>>,
}

impl Links {
    pub(crate) fn add(&self, name: &str, address: Ipv4Addr, namespace: Arc<Namespace>) -> Result<(), Error> {
        let mut places = lock(&self.places);
        if places.iter().any(|place| place.name == name) {
            return Err(Error::name(name, "is already in this world"));
        }
        places.push(Place { name: name.to_owned(), address, namespace });
        Ok(())
    }

    /// What is cut now.
    #[must_use]
    pub fn cuts(&self) -> BTreeMap<Link, Cut> {
        lock(&self.cuts).clone()
    }

    /// Cuts what goes from one place to another; what goes back still does.
    ///
    /// # Errors
    ///
    /// Unknown names.
    pub fn cut_one_way(&self, from: &str, to: &str, how: Cut) -> Result<(), Error> {
        self.change(|cuts| _ = cuts.insert(link(from, to), how))
    }

    /// Cuts both directions between two places.
    ///
    /// # Errors
    ///
    /// Unknown names.
    pub fn cut(&self, one: &str, other: &str, how: Cut) -> Result<(), Error> {
        self.change(|cuts| {
            cuts.insert(link(one, other), how);
            cuts.insert(link(other, one), how);
        })
    }

    /// Cuts a node off from all other nodes; the clients still reach it.
    ///
    /// # Errors
    ///
    /// Unknown names.
    pub fn isolate(&self, node: &str, how: Cut) -> Result<(), Error> {
        let others: Vec<String> = self.nodes().into_iter().filter(|other| other != node).collect();
        self.change(|cuts| {
            for other in &others {
                cuts.insert(link(node, other), how);
                cuts.insert(link(other, node), how);
            }
        })
    }

    /// Lets those see each other that have a group in common, and nobody else. A node in two groups is a bridge
    /// between them, one in no group is alone. The clients take part if a group names them ([`CLIENTS`]); else nothing
    /// changes for them. Replaces earlier cuts between those who take part.
    ///
    /// # Errors
    ///
    /// Unknown names.
    pub fn partition(&self, groups: &[&[&str]], how: Cut) -> Result<(), Error> {
        let mut parties = self.nodes();
        parties.extend(groups.iter().any(|group| group.contains(&CLIENTS)).then(|| CLIENTS.to_owned()));
        for name in groups.iter().copied().flatten() {
            if !parties.contains(*name) {
                return Err(Error::name(name, "is not in this world"));
            }
        }
        let together = |a: &str, b: &str| groups.iter().any(|group| group.contains(&a) && group.contains(&b));
        self.change(|cuts| {
            for (from, to) in parties.iter().flat_map(|from| parties.iter().map(move |to| (from, to))) {
                if from == to || together(from, to) {
                    cuts.remove(&link(from, to));
                } else {
                    cuts.insert(link(from, to), how);
                }
            }
        })
    }

    /// Heals both directions between two places.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn heal_between(&self, one: &str, other: &str) -> Result<(), Error> {
        self.change(|cuts| cuts.retain(|cut, _| *cut != link(one, other) && *cut != link(other, one)))
    }

    /// Heals everything.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn heal(&self) -> Result<(), Error> {
        self.change(BTreeMap::clear)
    }

    fn nodes(&self) -> BTreeSet<String> {
        lock(&self.places).iter().map(|place| place.name.clone()).filter(|name| name != CLIENTS).collect()
    }

    /// Makes the rules of each place those of the cuts that lead to it, where these have changed.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<Link, Cut>)) -> Result<(), Error> {
        let places = lock(&self.places);
        let mut cuts = lock(&self.cuts);
        let mut wanted = cuts.clone();
        change(&mut wanted);
        for name in wanted.keys().flat_map(|(from, to)| [from, to]) {
            if !places.iter().any(|place| place.name == *name) {
                return Err(Error::name(name, "is not in this world"));
            }
        }
        for place in places.iter() {
            let rules = rules(&places, &wanted, place);
            if rules != self::rules(&places, &cuts, place) {
                place.namespace.nft(&rules)?;
            }
        }
        *cuts = wanted;
        Ok(())
    }
}

fn link(from: &str, to: &str) -> Link {
    (from.to_owned(), to.to_owned())
}

/// What replaces the two sets of a place.
fn rules(places: &[Place], cuts: &BTreeMap<Link, Cut>, to: &Place) -> String {
    let mut script = String::new();
    for (set, how) in [("silent", Cut::Silent), ("rejected", Cut::Rejected)] {
        // Writing to a string does not fail.
        let _ = writeln!(script, "flush set inet orbit {set}");
        for from in places.iter().filter(|from| cuts.get(&link(&from.name, &to.name)) == Some(&how)) {
            let _ = writeln!(script, "add element inet orbit {set} {{ {} }}", from.address);
        }
    }
    script
}
