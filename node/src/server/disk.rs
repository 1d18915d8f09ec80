//! What the disk of the data has, as the operating system counts it.

use std::path::Path;
use std::sync::Arc;

use orbit_actors::disk::{DiskProbe, DiskSpace};

/// Asks about the file system on which a directory lies.
pub(super) fn probe(dir: &Path) -> DiskProbe {
    let dir = dir.to_owned();
    DiskProbe(Arc::new(move || {
        let found = rustix::fs::statvfs(&dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(DiskSpace {
            used_bytes: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
            // Without what is kept for the superuser: that is not for a database.
            available_bytes: bytes(found.f_bavail),
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_directory_is_found_and_that_of_none_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let space = probe(dir.path()).0().unwrap();
        assert!(space.used_bytes > 0 && (0.0..=1.0).contains(&space.used_ratio()), "{space:?}");
        assert!(probe(&dir.path().join("gone")).0().is_err());
    }
}
