//! A network namespace with a thread that lives in it.
//!
//! A namespace belongs to a thread, and a thread or process that is made there is born into it. So nothing has a name
//! that could be left behind: when the threads and processes in it have ended, the namespace is gone, and with it its
//! links and rules. What the thread starts can also be told to die with it (`process.rs`), because the kernel counts
//! the *thread* that starts a process as its parent.

use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns, unshare};

use crate::Error;

type Job = Box<dyn FnOnce() + Send>;

/// A namespace; it ends when this is dropped and nothing runs in it any more.
#[derive(Debug)]
pub struct Namespace {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    link: File,
    path: PathBuf,
}

impl Namespace {
    /// An empty one, with its loopback up. `name` is what the thread is called.
    ///
    /// # Errors
    ///
    /// Without the right to make one, or without the program `ip`.
    pub fn new(name: &str) -> Result<Self, Error> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let live = move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).map(|()| rustix::thread::gettid().as_raw_nonzero());
            let stay = made.is_ok();
            // Nobody waits for it only when the thread that asked has ended.
            let _ = tell.send(made);
            while let (true, Ok(job)) = (stay, waiting.recv()) {
                job();
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(live);
        let thread = thread.map_err(Error::system("a thread for a network namespace"))?;
        let made = told.recv().unwrap_or(Err(nix::Error::ESRCH));
        let thread_id = made.map_err(Error::system("a network namespace (it needs root)"))?;
        let path = PathBuf::from(format!("/proc/{}/task/{thread_id}/ns/net", std::process::id()));
        let link = File::open(&path).map_err(Error::file("opening", &path))?;
        let namespace = Self { jobs: Some(jobs), thread: Some(thread), link, path };
        namespace.ip("link set lo up\n")?;
        Ok(namespace)
    }

    /// Where the kernel shows it, for `nsenter --net=…` and `ip`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does something in it: sockets that `work` opens belong there. A panic in it is the caller's.
    ///
    /// # Panics
    ///
    /// When `work` does.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel::<Result<T, Box<dyn Any + Send>>>();
        let job: Job = Box::new(move || _ = tell.send(catch_unwind(AssertUnwindSafe(work))));
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        match told.recv() {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            // The thread ends only in `drop`, and a panic of a job does not end it.
            Err(_) => unreachable!("the thread of a namespace has ended (job taken: {sent})"),
        }
    }

    /// Moves the calling thread into it, for good.
    ///
    /// # Errors
    ///
    /// Without the right to.
    pub fn enter(&self) -> Result<(), Error> {
        setns(&self.link, CloneFlags::CLONE_NEWNET).map_err(Error::system("entering a network namespace"))
    }

    /// Commands for `ip`, one a line.
    pub(crate) fn ip(&self, commands: &str) -> Result<(), Error> {
        self.feed("ip", &["-batch", "-"], commands)
    }

    /// A script for `nft`; all of it counts, or nothing.
    pub(crate) fn nft(&self, script: &str) -> Result<(), Error> {
        self.feed("nft", &["-f", "-"], script)
    }

    /// Runs a program in here with `input` on its standard input.
    fn feed(&self, program: &'static str, arguments: &'static [&'static str], input: &str) -> Result<(), Error> {
        let input = input.to_owned();
        self.run(move || {
            let called = |source| Error::System { what: format!("calling {program}"), source };
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = command.spawn().map_err(called)?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(input.as_bytes()).map_err(called)?;
            }
            let output = child.wait_with_output().map_err(called)?;
            if output.status.success() {
                return Ok(());
            }
            let said = format!("{} after the input:\n{input}", String::from_utf8_lossy(&output.stderr).trim());
            Err(Error::Program { command: format!("{program} {}", arguments.join(" ")), status: output.status, said })
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // Jobs hand their panics to their callers.
            let _ = thread.join();
        }
    }
}
