//! What happens when a node must not go on.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// The exit code of a process whose storage failed.
pub const EXIT_STORAGE: i32 = 74;

/// How long the last words of a process may take: whoever reads them may have stopped reading.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Called once storage has failed, before anybody else learns of it.
///
/// After a failed sync the kernel may have thrown the data away and report the next sync as good. So the only safe
/// course is to end: in production the process, in a simulation the simulated node. Nothing is acknowledged after the
/// call, whether it returns or not.
#[derive(Clone)]
pub struct FatalHook(Arc<dyn Fn(&str) + Send + Sync>);

impl FatalHook {
    /// Ends the process with [`EXIT_STORAGE`], whatever else it is doing.
    pub fn exit() -> Self {
        let told = AtomicBool::new(false);
        FatalHook(Arc::new(move |reason| {
            if told.swap(true, Ordering::SeqCst) {
                // The first reason is the cause. What others meet meanwhile follows from it, and would hide it.
                let (_never, spoken) = mpsc::channel::<()>();
                let _ = spoken.recv_timeout(2 * LAST_WORDS);
                signal_hook::low_level::exit(EXIT_STORAGE);
            }
            let reason = reason.to_owned();
            end_process(EXIT_STORAGE, move || tracing::error!(reason, "storage failed, ending the process"));
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

/// Ends the process at once with this code, after its last words if they take no more than a second.
///
/// This is the way out while a [`RocksDisk`](super::RocksDisk) may still be open. `std::process::exit` runs the
/// destructors of RocksDB under the threads that still use it, and the first of these to take a lock that is destroyed
/// already turns the exit into an abort. This runs no destructors.
pub fn end_process(code: i32, last_words: impl FnOnce() + Send + 'static) -> ! {
    let (spoken, waiting) = mpsc::channel::<()>();
    let speak = move || {
        last_words();
        // Nobody is left to be told that the output is gone.
        let _ = io::stdout().flush();
        drop(spoken);
    };
    if thread::Builder::new().name("orbit-last-words".into()).spawn(speak).is_ok() {
        // Fails once they are spoken, or after the time.
        let _ = waiting.recv_timeout(LAST_WORDS);
    }
    signal_hook::low_level::exit(code)
}

impl fmt::Debug for FatalHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FatalHook")
    }
}
