//! Tasks that the node carries out itself: `orbit.http.request` (L13).
//!
//! ```text
//!   engine ──task──▶ worker ──▶ request ─ secret ─▶ exchange ─ connect (allow, address) ─▶ server
//!      ◀─result, by token── response ◀───────────────────┘
//! ```
//!
//! Read in this order:
//!
//! - `worker`: the node as a worker among others, in the same process;
//! - `request`: what a document asks for, read into what can be sent;
//! - `secret`: secrets, read when they are sent and recorded nowhere;
//! - `exchange`, `connect`: the request and its answer, the connections;
//! - [`allow`], `address`: whom a request may reach;
//! - `response`, `failure`: what the answer means.
//!
//! Documents are written by people who may not be trusted with the network of the node. What they could try stands,
//! with what stops it, in `docs/http-task.md`.

mod address;
pub mod allow;
mod connect;
mod exchange;
mod failure;
mod request;
mod response;
mod secret;
mod worker;

use std::path::PathBuf;
use std::time::SystemTime;

use orbit_actors::api::Task;
use workflow::value::Payload;

use allow::Rules;
use exchange::Exchanger;
use failure::{Failure, Refusal};
use request::Call;
use secret::{Redactor, Secrets};
pub(crate) use worker::Worker;

/// Longest body of a failed answer that is recorded: each attempt keeps one.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// How the adapter is set up (`http_task.*`).
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether it sends anything.
    pub(crate) enabled: bool,
    /// Whom it may reach beside the internet.
    pub(crate) allow: Rules,
    /// Where secrets lie, a file for each.
    pub(crate) secrets_dir: Option<PathBuf>,
    /// Longest body that becomes an output.
    pub(crate) payload_bytes_max: usize,
}

/// Carries out one task at a time for each caller.
#[derive(Clone, Debug)]
struct Adapter {
    enabled: bool,
    secrets: Secrets,
    exchanger: Exchanger,
}

impl Adapter {
    fn new(settings: Settings) -> Self {
        let exchanger = Exchanger::new(settings.allow, settings.payload_bytes_max);
        Self { enabled: settings.enabled, secrets: Secrets(settings.secrets_dir), exchanger }
    }

    async fn carry_out(&self, task: &Task) -> Result<Payload, Failure> {
        if !self.enabled {
            let message = "orbit.http.request is switched off on this node; its operator sets http_task.enabled";
            return Err(Failure::refused(Refusal::Disabled, message));
        }
        let call = Call::of(task)?;
        let mut secrets = Vec::with_capacity(call.secrets.len());
        for (header, name) in &call.secrets {
            secrets.push((header.clone(), self.secrets.read(name).await?));
        }
        let redactor = Redactor::new(secrets.iter().map(|(_, secret)| secret))?;
        let answer = self.exchanger.exchange(&call, &secrets).await?;
        response::outcome(&answer, &call, &redactor, now())
    }
}

#[allow(clippy::disallowed_methods, reason = "what a server means by a time of day is told by the clock on the wall")]
fn now() -> SystemTime {
    SystemTime::now()
}
