//! What happens when a node must not go on.

use std::fmt;
use std::process;
use std::sync::Arc;

/// The exit code of a process whose storage failed.
pub const EXIT_STORAGE: i32 = 74;

/// Called once storage has failed, before anybody else learns of it.
///
/// After a failed sync the kernel may have thrown the data away and report the next sync as good. So the only safe
/// course is to end: in production the process, in a simulation the simulated node. Nothing is acknowledged after the
/// call, whether it returns or not.
#[derive(Clone)]
pub struct FatalHook(Arc<dyn Fn(&str) + Send + Sync>);

impl FatalHook {
    /// Ends the process with [`EXIT_STORAGE`].
    pub fn exit() -> Self {
        FatalHook(Arc::new(|reason| {
            tracing::error!(reason, "storage failed, ending the process");
            process::exit(EXIT_STORAGE);
        }))
    }

    /// Calls `hook` instead, for a simulation whose nodes share a process.
    pub fn new(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        FatalHook(Arc::new(hook))
    }

    /// Tells it.
    pub fn raise(&self, reason: impl fmt::Display) {
        (self.0)(&reason.to_string());
    }
}

impl fmt::Debug for FatalHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FatalHook")
    }
}
