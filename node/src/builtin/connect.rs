//! Connections: each goes to an address that was looked up for it and checked, so what a name means to somebody else,
//! or a moment later, is of no account.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::allow::Rules;

/// Most connections of a node at a time, idle ones too.
const CONNECTIONS_MAX: usize = 512;
/// How long one address is tried.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a connection may take to be ready for a request, however many addresses and whatever the other side does.
/// It may go on when nobody waits for it any more.
const READY_TIME_MAX: Duration = Duration::from_secs(20);
/// How many names are looked up at a time. A look-up blocks a thread until the name servers answer, which are the
/// author's as well, and also when nobody waits for it any more; the node has other work for its threads.
const LOOKUPS_MAX: usize = 64;
/// How many addresses of a name are tried.
const ADDRESSES_MAX: usize = 8;

/// Why there is no connection. No word of it is an address that the author did not write.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{host} is not out on the internet, and http_task.allow does not name it")]
    Refused { host: String },
    #[error("{host} cannot be found: {source}")]
    Unknown { host: String, source: io::Error },
    #[error("{host} takes no connection on port {port}: {source}")]
    Unreachable { host: String, port: u16, source: io::Error },
}

/// Makes connections to permitted addresses.
#[derive(Clone)]
pub(super) struct Connector {
    rules: Arc<Rules>,
    room: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    pub(super) fn new(rules: Rules) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { rules: Arc::new(rules), room: places(CONNECTIONS_MAX), lookups: places(LOOKUPS_MAX) }
    }

    async fn connect(self, uri: Uri) -> Result<Line, Error> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        // Never closed, so there is room sooner or later: idle connections end by themselves.
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| unreachable(&host, port, closed()))?;
        let permitted = self.permitted(&host, port).await?;
        let mut last = closed();
        for address in permitted {
            let tried = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await;
            match tried.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) if self.is_this_machine(&host, &stream, address) => {
                    return Err(refused(&host, address.ip()));
                }
                Ok(stream) => {
                    // Without it small requests wait for nothing; where it cannot be set they do.
                    let _ = stream.set_nodelay(true);
                    return Ok(Line { stream: TokioIo::new(stream), _room: room });
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(&host, port, last))
    }

    async fn permitted(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                self.look_up(host, port).await.map_err(|source| Error::Unknown { host: host.to_owned(), source })?
            }
        };
        let permitted = found.iter().filter(|address| self.rules.permit(host, address.ip(), port));
        let permitted: Vec<_> = permitted.take(ADDRESSES_MAX).copied().collect();
        match (permitted.is_empty(), found.first()) {
            (true, Some(address)) => Err(refused(host, address.ip())),
            _ => Ok(permitted),
        }
    }

    async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let place = Arc::clone(&self.lookups).acquire_owned().await.map_err(|_| closed())?;
        let host = host.to_owned();
        let looked_up = tokio::task::spawn_blocking(move || {
            let _place = place;
            (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
        });
        looked_up.await.map_err(|_| closed())?
    }

    /// An address of this machine is as near as its loopback, also where the world reaches it.
    fn is_this_machine(&self, host: &str, stream: &TcpStream, address: SocketAddr) -> bool {
        let own = stream.local_addr().is_ok_and(|own| own.ip().to_canonical() == address.ip().to_canonical());
        own && !self.rules.name(host, address.ip(), address.port())
    }
}

/// The address is for the operator, who may want to allow it, and stays in the log: an author could map the network.
fn refused(host: &str, address: IpAddr) -> Error {
    tracing::warn!(host, %address, "orbit.http.request may not go there; http_task.allow does not name it");
    Error::Refused { host: host.to_owned() }
}

fn unreachable(host: &str, port: u16, source: io::Error) -> Error {
    Error::Unreachable { host: host.to_owned(), port, source }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl tower::Service<Uri> for Connector {
    type Response = Line;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Line, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connector whose connections are ready in time, or not at all.
#[derive(Clone, Debug)]
pub(super) struct Timely<C>(pub(super) C);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<C> tower::Service<Uri> for Timely<C>
where
    C: tower::Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(READY_TIME_MAX, self.0.call(uri));
        Box::pin(async move { connecting.await? })
    }
}

/// A connection and its place among those of the node.
#[derive(Debug)]
pub(super) struct Line {
    stream: TokioIo<TcpStream>,
    _room: OwnedSemaphorePermit,
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl Write for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connector(rules: &[&str]) -> Connector {
        Connector::new(Rules(rules.iter().map(|rule| rule.parse().unwrap()).collect()))
    }

    /// Its public address is as near as its loopback: who reaches one may not reach the other by that.
    #[tokio::test]
    async fn an_address_of_this_machine_is_refused_whatever_it_is() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        assert!(connector(&[]).is_this_machine("a.example", &stream, address));
        assert!(!connector(&["127.0.0.1"]).is_this_machine("a.example", &stream, address));
        assert!(!connector(&["a.example"]).is_this_machine("a.example", &stream, address));
        let elsewhere = SocketAddr::from(([8, 8, 8, 8], 53));
        assert!(!connector(&[]).is_this_machine("a.example", &stream, elsewhere));
    }

    #[tokio::test]
    async fn of_what_a_name_resolves_to_only_what_is_permitted_is_tried() {
        let refused = connector(&[]).permitted("localhost", 80).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "localhost is not out on the internet, and http_task.allow does not name it",
            "the address is not told"
        );
        let permitted = connector(&["127.0.0.1:80"]).permitted("localhost", 80).await.unwrap();
        assert_eq!(permitted, [SocketAddr::from(([127, 0, 0, 1], 80))], "whatever else it means");
        assert!(connector(&["127.0.0.1:80"]).permitted("localhost", 81).await.is_err());
        assert!(connector(&["localhost:80"]).permitted("localhost", 80).await.is_ok());
    }
}
