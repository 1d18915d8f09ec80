//! What worlds leave behind whose owner was killed, and how it goes.
//!
//! Namespaces have no names and processes die with their owner; folders and mounts stay. A world's folder is called
//! `world-PID-BEGAN-NUMBER-NAME` after its owner, so the next world in the same place knows whose it was, and touches
//! it only when that owner is dead. The folder of a test that failed is called `failed-…` and stays to be looked at: of
//! each name the newest few.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::owner::Owner;
use crate::process::MARK;
use crate::{Error, disk};

/// Folders of failed tests that are kept of each name of a world.
const FAILED_KEPT: usize = 3;
/// How long a killed process may take to be gone.
const END_TIME_MAX: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The folder of a world.
pub(crate) fn folder(owner: Owner, number: u64, name: &str) -> String {
    format!("world-{owner}-{number}-{name}")
}

/// Whose a folder is, if it is a world's.
fn owner_of(folder: &str) -> Option<Owner> {
    let mut parts = folder.strip_prefix("world-")?.splitn(4, '-');
    let owner = Owner::parse(parts.next()?, parts.next()?)?;
    parts.next()?.parse::<u64>().ok()?;
    parts.next().map(|_| owner)
}

/// Removes the worlds in `root` whose owners are dead. Returns their folders.
///
/// # Errors
///
/// Those of the machine.
pub fn sweep(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut gone = Vec::new();
    for entry in std::fs::read_dir(root).map_err(Error::file("reading", root))?.flatten() {
        if entry.file_name().to_str().and_then(owner_of).is_some_and(|owner| !owner.is_alive()) {
            remove(&entry.path())?;
            gone.push(entry.path());
        }
    }
    Ok(gone)
}

/// Removes a world's processes, mounts and folder.
pub(crate) fn remove(world: &Path) -> Result<(), Error> {
    kill_marked(world)?;
    for mount in mounts_below(world)? {
        disk::unmount(&mount);
    }
    match std::fs::remove_dir_all(world) {
        // Somebody else may have swept at the same time.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file("removing", world)(error)),
        _ => Ok(()),
    }
}

/// Keeps the folder of a test that failed, under the name that is returned, and lets older ones of that name go.
pub(crate) fn keep(world: &Path, name: &str) -> Result<PathBuf, Error> {
    let root = world.parent().unwrap_or(world);
    let folder = world.file_name().unwrap_or_default().to_string_lossy();
    let kept = root.join(folder.replacen("world-", "failed-", 1));
    std::fs::rename(world, &kept).map_err(Error::file("renaming", world))?;
    let mut failed: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(root).map_err(Error::file("reading", root))?.flatten() {
        let folder = entry.file_name().to_string_lossy().into_owned();
        let of_name = folder.strip_prefix("failed-").and_then(|rest| rest.splitn(4, '-').last()) == Some(name);
        if let (true, Ok(Ok(changed))) = (of_name, entry.metadata().map(|data| data.modified())) {
            failed.push((changed, entry.path()));
        }
    }
    failed.sort();
    for (_, old) in failed.iter().rev().filter(|(_, path)| *path != kept).skip(FAILED_KEPT - 1) {
        let _ = std::fs::remove_dir_all(old);
    }
    Ok(kept)
}

/// Mount points in a folder, the innermost first.
fn mounts_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let table = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(table).map_err(Error::file("reading", table))?;
    // The kernel writes a blank as \040; the folders of worlds and nodes have none, those above them may.
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(|point| point.replace("\\040", " "));
    let mut below: Vec<_> = points.map(PathBuf::from).filter(|point| point.starts_with(folder)).collect();
    below.reverse();
    Ok(below)
}

/// Kills what carries the world's mark, and waits until it is gone.
fn kill_marked(world: &Path) -> Result<(), Error> {
    let mark = format!("{MARK}={}", world.display());
    let proc = Path::new("/proc");
    for entry in std::fs::read_dir(proc).map_err(Error::file("reading", proc))?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        // First the handle, then the look: so it is the process that was looked at which is killed.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let killed = pidfd_send_signal(&pidfd, Signal::KILL);
            let mut ends = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
            if killed.is_ok() {
                poll(&mut ends, Some(&END_TIME_MAX)).map_err(Error::system("waiting for a process to end"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn dead() -> Owner {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let owner = Owner::running(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        owner
    }

    #[test]
    fn what_a_dead_owner_left_goes_with_its_processes_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let of = |owner: Owner, name: &str| {
            let path = root.path().join(folder(owner, 0, name));
            std::fs::create_dir(&path).unwrap();
            let orphan = Command::new("sleep").arg("1000").env(MARK, &path).spawn().unwrap();
            (path, orphan)
        };
        let (left, mut orphan) = of(dead(), "a-b");
        let (lives, mut child) = of(Owner::current(), "a-b");
        std::fs::create_dir(root.path().join("world-of-somebody-else")).unwrap();
        assert_eq!(sweep(root.path()).unwrap(), [left.as_path()]);
        assert!(!left.exists() && lives.exists() && root.path().join("world-of-somebody-else").exists());
        assert!(orphan.wait().unwrap().code().is_none(), "it was not killed");
        assert!(child.try_wait().unwrap().is_none(), "that of a living owner was killed");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn of_failed_ones_the_newest_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let fail = |number, name: &str| {
            let path = root.path().join(folder(Owner::current(), number, name));
            std::fs::create_dir(&path).unwrap();
            keep(&path, name).unwrap()
        };
        let other = fail(0, "b");
        let kept: Vec<_> = (1..=5).map(|number| fail(number, "a-b")).collect();
        assert!(other.exists());
        assert!(kept[4].exists());
        assert_eq!(kept.iter().filter(|path| path.exists()).count(), FAILED_KEPT);
    }
}
