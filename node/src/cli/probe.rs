//! `orbit probe`: how a node is, as an exit code, for whatever runs it.

use std::time::Duration;

use super::Error;
use super::print::Output;
use crate::client;

/// How long the node may take.
const WAIT: Duration = Duration::from_secs(5);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// It has opened its data.
    Startup,
    /// It lives.
    Live,
    /// It takes requests.
    Ready,
}

/// Ask the health port of a node how it is: exit code 0 says yes.
#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// What is asked.
    #[arg(value_enum, default_value = "ready")]
    kind: Kind,
    /// The health port.
    #[arg(long, env = "ORBIT_HEALTH_ADDRESS", default_value = "http://127.0.0.1:7403", value_name = "URL")]
    address: String,
}

impl Probe {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let path = match self.kind {
            Kind::Startup => "startupz",
            Kind::Live => "livez",
            Kind::Ready => "readyz",
        };
        let url = format!("{}/{path}", self.address.trim_end_matches('/'));
        let asked = async {
            let client = reqwest::Client::builder().timeout(WAIT).no_proxy().build()?;
            let answer = client.get(&url).send().await?;
            Ok::<_, reqwest::Error>((answer.status().is_success(), answer.text().await?))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return vec![Error::Runtime(error)],
        };
        match runtime.block_on(asked) {
            Ok((true, text)) => {
                output.line(text.trim_end());
                Vec::new()
            }
            Ok((false, text)) => vec![Error::NotWell(text.trim_end().to_owned())],
            Err(error) => vec![Error::Client(client::Error::unreachable(&url, &error))],
        }
    }
}
