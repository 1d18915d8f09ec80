//! Whose a world is. Process ids are given out again, so an owner is a process id *and* the time at which it began.

use std::fmt;

/// A process that made worlds, dead or alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// In clock ticks since the machine began, as `/proc/PID/stat` has it.
    began: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Panics
    ///
    /// Without `/proc`.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        let began = began(pid).unwrap_or_else(|| panic!("/proc/{pid}/stat does not say when this process began"));
        Self { pid, began }
    }

    /// A process that runs; `None`: there is none.
    #[must_use]
    pub fn running(pid: u32) -> Option<Self> {
        began(pid).map(|began| Self { pid, began })
    }

    /// Reads what `Display` wrote.
    #[must_use]
    pub fn parse(pid: &str, began: &str) -> Option<Self> {
        Some(Self { pid: pid.parse().ok()?, began: began.parse().ok()? })
    }

    /// Whether it runs. Another process that was given its id since is not it.
    #[must_use]
    pub fn is_alive(self) -> bool {
        began(self.pid) == Some(self.began)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.began)
    }
}

/// Field 22 of `/proc/PID/stat`; `None` also for one that has ended and was not waited for.
fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name of the program, in brackets; it may hold blanks and brackets itself.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if ["Z", "X"].contains(&state) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_alive_until_it_ends_and_another_with_its_id_is_not_it() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let owner = Owner::running(child.id()).unwrap();
        assert!(owner.is_alive() && Owner::current().is_alive());
        assert!(!Owner { began: owner.began + 1, ..owner }.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }

    #[test]
    fn an_owner_is_read_as_it_was_written() {
        let owner = Owner::current();
        let text = owner.to_string();
        let (pid, began) = text.split_once('-').unwrap();
        assert_eq!(Owner::parse(pid, began), Some(owner));
        assert_eq!(Owner::parse("1", "x"), None);
    }
}
