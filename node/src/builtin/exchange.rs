//! One request and its answer, over redirects.
//!
//! ```text
//!   call ─ secrets read ─ sent ─▶ 3xx with a place, at most REDIRECTS_MAX ─▶ sent there ─▶ … ─▶ answer, to its bound
//! ```
//!
//! What was meant for one server stays with it: a redirect to another origin is followed without secrets, credentials
//! and cookies, also when it leads back. Nothing is decompressed, so no answer is longer than what came over the line.
//! No proxy of the environment is asked: it would look names up in our place.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::ring;
use url::Url;

use super::allow::Rules;
use super::connect::{self, Connector, Timely};
use super::failure::{Failure, Refusal};
use super::request::{Call, check};
use super::secret::Secret;

/// How many redirects are followed.
const REDIRECTS_MAX: usize = 5;
/// How long a connection waits for its next request. Servers close idle ones, too, and the shorter wait wins.
const IDLE_TIME_MAX: Duration = Duration::from_secs(10);
/// How many connections wait, per server.
const IDLE_MAX: usize = 8;
/// The head of an answer: how many lines, how many bytes.
const HEADERS_MAX: usize = 200;
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What may come over from one origin to another.
const OF_ONE_ORIGIN: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Names in lower case; repeated ones are joined by a comma.
    pub(super) headers: BTreeMap<String, String>,
    /// None: it is longer than what is kept.
    pub(super) body: Option<Vec<u8>>,
    /// It leads on, and has led too far.
    pub(super) too_many_redirects: bool,
}

/// Sends requests. Connections are used again.
#[derive(Clone, Debug)]
pub(super) struct Exchanger {
    client: Client<Timely<HttpsConnector<Connector>>, Full<Bytes>>,
    bytes_max: usize,
}

/// The next request on the way.
struct Hop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

impl Exchanger {
    /// Reads the certificates that this machine trusts. Where there are none, HTTPS fails and HTTP goes on.
    pub(super) fn new(rules: Rules, bytes_max: usize) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls())
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(rules));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME_MAX)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_headers(HEADERS_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(Timely(connector));
        Self { client, bytes_max }
    }

    /// Sends a call with its secrets. Dropping the future closes the connection.
    pub(super) async fn exchange(&self, call: &Call, secrets: &[(HeaderName, Secret)]) -> Result<Answer, Failure> {
        let exchanged = tokio::time::timeout(call.timeout, self.follow(call, secrets)).await;
        let late = |_| Failure::unreachable(format!("no answer within {} ms", call.timeout.as_millis()));
        exchanged.map_err(late)?
    }

    async fn follow(&self, call: &Call, secrets: &[(HeaderName, Secret)]) -> Result<Answer, Failure> {
        let mut headers = call.headers.clone();
        for (name, secret) in secrets {
            headers.extend(secret.header().map(|value| (name.clone(), value)));
        }
        let mut hop = Hop { method: call.method.clone(), url: call.url.clone(), headers, body: call.body.clone() };
        let mut redirects = 0;
        loop {
            let response = self.send(&hop).await.map_err(|failure| failure.after(redirects > 0))?;
            let place = place(&response, call);
            match place {
                Some(place) if redirects < REDIRECTS_MAX => {
                    hop = hop.redirected(response.status(), &place, secrets).map_err(|failure| failure.after(true))?;
                    redirects += 1;
                }
                leads_on => return self.read(response, call, leads_on.is_some()).await,
            }
        }
    }

    async fn send(&self, hop: &Hop) -> Result<Response<Incoming>, Failure> {
        let uri = check(&hop.url).map_err(|fault| Failure::input(format!("the URL {fault}")))?;
        let mut request = Request::new(Full::new(hop.body.clone()));
        *request.method_mut() = hop.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = hop.headers.clone();
        self.client.request(request).await.map_err(|error| no_answer(&error))
    }

    async fn read(&self, response: Response<Incoming>, call: &Call, leads_on: bool) -> Result<Answer, Failure> {
        let (head, mut incoming) = response.into_parts();
        let mut headers = BTreeMap::<String, String>::new();
        for (name, value) in &head.headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            headers
                .entry(name.as_str().to_owned())
                .and_modify(|known| {
                    known.push_str(", ");
                    known.push_str(&value);
                })
                .or_insert_with(|| value.into_owned());
        }
        let mut answer = Answer { status: head.status, headers, body: Some(Vec::new()), too_many_redirects: leads_on };
        let bytes_max = if call.accepts(head.status) && !leads_on { self.bytes_max } else { super::ERROR_BYTES_MAX };
        if incoming.size_hint().lower() > bytes_max as u64 {
            answer.body = None;
            return Ok(answer);
        }
        let mut body = Vec::new();
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| Failure::unreachable(format!("the answer broke off: {error}")))?;
            let Some(data) = frame.data_ref() else { continue };
            if body.len() + data.len() > bytes_max {
                answer.body = None;
                return Ok(answer);
            }
            body.extend_from_slice(data);
        }
        answer.body = Some(body);
        Ok(answer)
    }
}

/// Where an answer leads, unless the author wants to see it as it is.
fn place(response: &Response<Incoming>, call: &Call) -> Option<HeaderValue> {
    let follows = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let wanted = call.accept.contains(&response.status().as_u16());
    response.headers().get(header::LOCATION).filter(|_| follows && !wanted).cloned()
}

impl Hop {
    /// The request that follows: the same again, or a GET where browsers make one of it.
    fn redirected(
        self,
        status: StatusCode,
        place: &HeaderValue,
        secrets: &[(HeaderName, Secret)],
    ) -> Result<Self, Failure> {
        let no_place = || Failure::input("the server redirects to what is no URL");
        let mut url = self.url.join(place.to_str().map_err(|_| no_place())?).map_err(|_| no_place())?;
        url.set_fragment(None);
        check(&url).map_err(|fault| Failure::input(format!("the server redirects to a URL that {fault}")))?;
        let Self { mut method, url: from, mut headers, mut body } = self;
        let becomes_get = match status.as_u16() {
            301 | 302 => method == Method::POST,
            303 => method != Method::HEAD,
            _ => false,
        };
        if becomes_get {
            method = Method::GET;
            body = Bytes::new();
            headers.remove(header::CONTENT_TYPE);
        }
        if url.origin() != from.origin() {
            OF_ONE_ORIGIN.iter().chain(secrets.iter().map(|(name, _)| name)).for_each(|name| {
                headers.remove(name);
            });
        }
        Ok(Self { method, url, headers, body })
    }
}

fn tls() -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    // Ring has what both versions of TLS need.
    #[allow(clippy::expect_used)]
    let builder = builder.expect("the provider supports the default versions");
    match builder.clone().with_native_roots() {
        Ok(roots) => roots.with_no_client_auth(),
        Err(error) => {
            tracing::warn!(%error, "this machine trusts no certificate: orbit.http.request cannot use https");
            builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
        }
    }
}

/// What is said when no answer came. Our own refusals lie inside what the library reports.
fn no_answer(error: &legacy::Error) -> Failure {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(inner) = cause {
        match inner.downcast_ref::<connect::Error>() {
            Some(refused @ connect::Error::Refused { .. }) => {
                return Failure::refused(Refusal::Address, refused.to_string());
            }
            Some(other) => return Failure::unreachable(other.to_string()),
            None => last = inner.to_string(),
        }
        cause = inner.source();
    }
    Failure::unreachable(format!("no answer: {last}"))
}
