//! One run of a worker's command.
//!
//! The command leads a process group of its own: Ctrl-C in a terminal does not reach it, and stopping it stops what it
//! started. What it leaves behind is killed when it ends.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, stderr};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::client::answers::Task;

/// Longest output, the limit of a payload.
const OUTPUT_BYTES_MAX: usize = 2 << 20;
/// How much of the end of stderr becomes a failure's message.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
/// How much is read at a time.
const PIECE_BYTES: u64 = 16 << 10;
/// How long the pipes of a command may stay open after its end.
const LINGER: Duration = Duration::from_secs(1);

/// What is run for which task.
pub(super) struct Process<'a> {
    pub(super) command: &'a [OsString],
    pub(super) fatal: &'a [i32],
    pub(super) grace: Duration,
    pub(super) task: &'a Task,
    pub(super) stop: &'a CancellationToken,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It yields this.
    Done(Box<RawValue>),
    /// It did not.
    Failed { code: String, message: String, retryable: bool, unknown: bool },
    /// It was stopped because nobody waits for it.
    Stopped,
}

impl Process<'_> {
    /// Runs the command to its end.
    pub(super) async fn run(&self) -> Outcome {
        if self.stop.is_cancelled() {
            return Outcome::Stopped;
        }
        match self.spawn() {
            Ok(child) => self.attend(child).await,
            Err(error) => Outcome::Failed {
                code: "COMMAND_NOT_STARTED".to_owned(),
                message: format!("{}: {error}", self.command[0].display()),
                retryable: true,
                unknown: false,
            },
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        Command::new(&self.command[0])
            .args(&self.command[1..])
            .env("ORBIT_EXECUTION_ID", &self.task.execution_id)
            .env("ORBIT_UNIT", &self.task.step_id)
            .env("ORBIT_ATTEMPT", self.task.attempt.to_string())
            .env("ORBIT_IDEMPOTENCY_KEY", &self.task.idempotency_key)
            // Commands have no business with the node.
            .env_remove("ORBIT_TOKEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    async fn attend(&self, mut child: Child) -> Outcome {
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let input = self.task.input.get().to_owned();
        let feeding = tokio::spawn(async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input closes the pipe.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        });
        let too_much = CancellationToken::new();
        let (output, message) = (Shared::default(), Shared::default());
        let reading = tokio::spawn(read_output(stdout, output.clone(), too_much.clone()));
        let hearing = tokio::spawn(read_tail(stderr, message.clone()));
        let (mut stopped, mut killed) = (false, false);
        let status = tokio::select! {
            status = child.wait() => status,
            () = too_much.cancelled() => {
                killed = true;
                group.send(Signal::KILL);
                child.wait().await
            }
            () = self.stop.cancelled() => {
                stopped = true;
                group.send(Signal::TERM);
                match timeout(self.grace, child.wait()).await {
                    Ok(status) => status,
                    Err(_) => {
                        group.send(Signal::KILL);
                        child.wait().await
                    }
                }
            }
        };
        feeding.abort();
        // Somebody whom the command started may still write, or hold its pipes for ever.
        let (reading_stop, hearing_stop) = (reading.abort_handle(), hearing.abort_handle());
        if timeout(LINGER, async { tokio::join!(reading, hearing) }).await.is_err() {
            group.send(Signal::KILL);
            reading_stop.abort();
            hearing_stop.abort();
        }
        let (read, said) = (take(&output), text_of(take(&message)));
        match status {
            _ if killed || read.len() > OUTPUT_BYTES_MAX => too_large(),
            Ok(status) if status.success() => accept(&read),
            _ if stopped => Outcome::Stopped,
            Ok(status) => self.failed(status, said),
            Err(error) => unknown("COMMAND_LOST", format!("nobody knows how the command ended: {error}")),
        }
    }

    /// As shells count: 128 and the number of the signal that ended it.
    fn failed(&self, status: ExitStatus, said: String) -> Outcome {
        let signal = status.signal();
        let exit = status.code().unwrap_or_else(|| 128 + signal.unwrap_or_default());
        let message = match (signal, said.trim_end()) {
            (Some(signal), "") => format!("the command was ended by signal {signal}"),
            (None, "") => "the command said nothing on stderr".to_owned(),
            (_, said) => said.to_owned(),
        };
        let retryable = !self.fatal.contains(&exit);
        // What was ended from outside may have done its work.
        Outcome::Failed { code: format!("EXIT_{exit}"), message, retryable, unknown: signal.is_some() }
    }
}

/// The processes of a command.
struct Group(Option<Pid>);

impl Group {
    /// Processes that are gone already are as good as reached.
    fn send(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// The command ended well: its output is JSON, or nothing.
fn accept(read: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(read);
    let text = text.trim();
    if text.is_empty() {
        return Outcome::Done(RawValue::NULL.to_owned());
    }
    match RawValue::from_string(text.to_owned()) {
        Ok(output) if std::str::from_utf8(read).is_ok() => Outcome::Done(output),
        _ => {
            let begin: String = text.chars().take(200).collect();
            unknown("OUTPUT_NOT_JSON", format!("the command succeeded, but its stdout is no JSON: {begin}"))
        }
    }
}

fn too_large() -> Outcome {
    let message = format!("the command's stdout is longer than {OUTPUT_BYTES_MAX} bytes");
    unknown("OUTPUT_TOO_LARGE", message)
}

/// The work may have been done, and doing it again would not help.
fn unknown(code: &str, message: String) -> Outcome {
    Outcome::Failed { code: code.to_owned(), message, retryable: false, unknown: true }
}

/// What has been read so far.
type Shared = Arc<Mutex<Vec<u8>>>;

fn take(shared: &Shared) -> Vec<u8> {
    std::mem::take(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Adds a piece of what comes; false at its end.
async fn read(from: &mut (impl AsyncRead + Unpin), piece: &mut Vec<u8>) -> bool {
    piece.clear();
    matches!(from.take(PIECE_BYTES).read_buf(piece).await, Ok(count) if count > 0)
}

/// Everything, up to a little more than is allowed; says so then.
async fn read_output(from: Option<impl AsyncRead + Unpin>, into: Shared, too_much: CancellationToken) {
    let (Some(mut from), mut piece) = (from, Vec::new()) else { return };
    while read(&mut from, &mut piece).await {
        let mut bytes = into.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(&piece);
        if bytes.len() > OUTPUT_BYTES_MAX {
            return too_much.cancel();
        }
    }
}

/// The end of it; all of it is passed on to the worker's own stderr.
async fn read_tail(from: Option<impl AsyncRead + Unpin>, into: Shared) {
    let (Some(mut from), mut piece) = (from, Vec::new()) else { return };
    while read(&mut from, &mut piece).await {
        let _ = stderr().write_all(&piece).await;
        let mut bytes = into.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(&piece);
        let excess = bytes.len().saturating_sub(MESSAGE_BYTES_MAX);
        bytes.drain(..excess);
    }
}

/// As text; a character that was cut in two at the beginning is left out.
fn text_of(bytes: Vec<u8>) -> String {
    let begin = bytes.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(0);
    String::from_utf8_lossy(&bytes[begin..]).into_owned()
}
