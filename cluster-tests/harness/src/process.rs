//! A process in a namespace that does not outlive the test.
//!
//! It is told by the kernel to die when the thread dies that started it, which is that of its namespace: also when the
//! test is killed with signal 9. `setpriv` says so to the kernel and then *becomes* the process, so its id stays. As a
//! second line, each carries its world's folder in its environment, where the next world finds it (`sweep.rs`).
//!
//! Signals go through a pidfd, which names this very process and never another that was given its id.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use tokio::sync::watch;

use crate::{Error, Launch, Namespace};

/// The variable that holds the folder of the world.
pub(crate) const MARK: &str = "HARNESS_WORLD";

/// A process that was started; dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    id: u32,
    pidfd: OwnedFd,
    ended: watch::Receiver<Option<ExitStatus>>,
    waiter: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts one. What it says, on both outputs, is added to `log`; `world` is the folder of its world.
    pub(crate) fn spawn(namespace: &Namespace, launch: &Launch, log: &Path, world: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new().create(true).append(true).open(log).map_err(Error::file("opening", log))?;
        let other = file.try_clone().map_err(Error::file("opening", log))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&launch.program).args(&launch.arguments);
        command.env_clear().envs(launch.environment.iter().cloned()).env(MARK, world);
        command.stdin(Stdio::null()).stdout(file).stderr(other);
        let mut child = namespace.run(move || command.spawn()).map_err(Error::system("calling setpriv"))?;
        let id = child.id();
        let (tell, ended) = watch::channel(None);
        // The kernel gives out no id that does not fit.
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        let pidfd = pid.ok_or(rustix::io::Errno::SRCH).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let wait = move || {
            // Only one that is not our child, or was waited for, gives an error; both cannot be.
            if let Ok(status) = child.wait() {
                tell.send_replace(Some(status));
            }
        };
        let waiter = std::thread::Builder::new().name(format!("wait {id}")).spawn(wait);
        let waiter = waiter.map_err(Error::system("a thread that waits for a process"))?;
        let pidfd = pidfd.map_err(Error::system(format!("a pidfd of {id}")))?;
        Ok(Self { id, pidfd, ended, waiter: Some(waiter) })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn status(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// Waits until it ends.
    ///
    /// # Errors
    ///
    /// When that cannot be known.
    pub async fn ended(&self) -> Result<ExitStatus, Error> {
        let mut ended = self.ended.clone();
        let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        status.ok_or_else(|| {
            Error::system(format!("waiting for {}", self.id))(std::io::Error::from(std::io::ErrorKind::NotFound))
        })
    }

    /// Sends a signal. One that has ended gets none, and that is no error.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::system(format!("a signal to {}", self.id))(error)),
        }
    }

    /// Stops it (SIGSTOP), and returns when it has stopped or ended.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn stop(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let changes = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), changes) {
            Ok(_) | Err(rustix::io::Errno::CHILD) => Ok(()),
            Err(error) => Err(Error::system(format!("waiting for {} to stop", self.id))(error)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends whatever it is doing, also when it is stopped; then nothing of it is left for its disk to wait for.
        let killed = self.signal(Signal::KILL);
        if let (Ok(()), Some(waiter)) = (killed, self.waiter.take()) {
            let _ = waiter.join();
        }
    }
}
