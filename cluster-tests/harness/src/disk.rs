//! Where a node keeps its data: a folder on the machine's disk, or a small file system in memory that can be filled.
//!
//! In memory a sync takes no time, so only a folder on a real disk shows what an unsynced write is worth.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::Error;

/// What kind of disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Disk {
    /// A folder where the world is.
    #[default]
    Folder,
    /// A file system in memory of so many MiB. What is on it is gone with the world, also when the test fails.
    Tmpfs {
        /// Its size in MiB.
        mib: u32,
    },
}

/// A disk in use. Dropped, it is no longer mounted; what is in a folder stays.
#[derive(Debug)]
pub struct MountedDisk {
    path: PathBuf,
    kind: Disk,
}

impl MountedDisk {
    /// Makes one at `path`.
    ///
    /// # Errors
    ///
    /// Without the right to mount.
    pub fn new(path: PathBuf, kind: Disk) -> Result<Self, Error> {
        std::fs::create_dir_all(&path).map_err(Error::file("making", &path))?;
        if let Disk::Tmpfs { mib } = kind {
            let options = format!("size={mib}m");
            let mounted = mount(Some("orbit-harness"), &path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()));
            mounted.map_err(Error::file("mounting a tmpfs (it needs root) at", &path))?;
        }
        Ok(Self { path, kind })
    }

    /// The folder for data; what fills the disk lies beside it.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }

    /// Takes all the room that is left.
    ///
    /// # Errors
    ///
    /// On a folder, which would fill the machine's disk; and when something else than the want of room ends it.
    pub fn fill(&self) -> Result<(), Error> {
        if self.kind == Disk::Folder {
            let why = "is a folder on the machine's own disk, which is not filled; ask for a tmpfs".to_owned();
            return Err(Error::File { path: self.path.clone(), why });
        }
        let ballast = self.ballast();
        let mut file = File::create(&ballast).map_err(Error::file("making", &ballast))?;
        for size in [1 << 20, 1 << 12, 1] {
            let piece = vec![0; size];
            loop {
                match file.write_all(&piece) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(Error::file("filling", &ballast)(error)),
                }
            }
        }
        Ok(())
    }

    /// Takes or gives back as much as it needs for this share of the disk to be in use, in percent.
    ///
    /// # Errors
    ///
    /// As for [`fill`](Self::fill).
    pub fn fill_to(&self, percent: u64) -> Result<(), Error> {
        if self.kind == Disk::Folder {
            let why = "is a folder on the machine's own disk, which is not filled; ask for a tmpfs".to_owned();
            return Err(Error::File { path: self.path.clone(), why });
        }
        let ballast = self.ballast();
        let file = File::options().create(true).truncate(false).write(true).open(&ballast);
        let file = file.map_err(Error::file("making", &ballast))?;
        let has = file.metadata().map_err(Error::file("measuring", &ballast))?.len();
        let found = rustix::fs::statvfs(&self.path).map_err(Error::file("measuring", &self.path))?;
        let others = ((found.f_blocks - found.f_bfree) * found.f_frsize).saturating_sub(has);
        let wants = (found.f_blocks * found.f_frsize / 100 * percent).saturating_sub(others);
        // In one step: whoever looks meanwhile sees what was or what is to be.
        if wants > has {
            let taken = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, wants);
            return taken.map_err(Error::file("filling", &ballast));
        }
        file.set_len(wants).map_err(Error::file("emptying", &ballast))?;
        Ok(())
    }

    /// Gives back what [`fill`](Self::fill) took.
    ///
    /// # Errors
    ///
    /// When it is not filled.
    pub fn free(&self) -> Result<(), Error> {
        let ballast = self.ballast();
        std::fs::remove_file(&ballast).map_err(Error::file("removing", &ballast))
    }

    /// Loses all data.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn wipe(&self) -> Result<(), Error> {
        let data = self.data();
        match std::fs::remove_dir_all(&data) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file("removing", &data)(error)),
            _ => Ok(()),
        }
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        if self.kind != Disk::Folder {
            unmount(&self.path);
        }
    }
}

/// Takes a file system away, also from those who still have files open. What fails here is found by the next world.
pub(crate) fn unmount(path: &Path) {
    let _ = umount2(path, MntFlags::MNT_DETACH);
}
