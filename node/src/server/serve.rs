//! Connections: how many, for how long, and how they end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a client may take for the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// How often an idle HTTP/2 connection is asked whether anybody is there, and how long an answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How many calls one HTTP/2 connection carries at a time.
const STREAMS_MAX: u32 = 1_024;
/// How much may be under way to us on a call and on a connection, in bytes.
const WINDOW: u32 = 1 << 20;
const PEER_WINDOW: u32 = 8 << 20;
/// How long a connection may take to finish its requests at the end.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long to wait when no connection can be taken, say because all file handles are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    /// HTTP/1.1, and HTTP/2 to those who know.
    Http,
    /// gRPC.
    Grpc,
    /// gRPC between nodes.
    Peer,
}

fn builder(speaks: Speaks) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let window = if speaks == Speaks::Peer { PEER_WINDOW } else { WINDOW };
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(window)
        .initial_connection_window_size(window * 2);
    if speaks == Speaks::Http { builder } else { builder.http2_only() }
}

/// How a connection of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads what a connection begins with, until it is clear whether that is HTTP/2; nothing below sets a time for that.
async fn begin(stream: TcpStream) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send> {
    let (mut reader, writer) = stream.into_split();
    let mut first = Vec::with_capacity(PREFACE.len());
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        if (&mut reader).take((PREFACE.len() - first.len()) as u64).read_buf(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(tokio::io::join(io::Cursor::new(first).chain(reader), writer))
}

/// Serves until `stop`, then lets what is under way finish.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    speaks: Speaks,
    connections_max: usize,
    stop: CancellationToken,
) {
    let builder = builder(speaks);
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // Never closed, so there is a place sooner or later.
            let place = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accepted => accepted,
        };
        let (stream, place) = match accepted {
            Some((Ok((stream, _)), place)) => (stream, place),
            Some((Err(error), _)) => {
                tracing::warn!(%error, "a connection was not taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            None => break,
        };
        // Without it small answers wait for nothing; where it cannot be set they do.
        let _ = stream.set_nodelay(true);
        let (service, builder) = (TowerToHyperService::new(router.clone()), builder.clone());
        let (watcher, stop) = (graceful.watcher(), stop.clone());
        connections.spawn(async move {
            let _place = place;
            let begun = tokio::select! {
                begun = tokio::time::timeout(HEAD_TIME_MAX, begin(stream)) => begun,
                () = stop.cancelled() => return,
            };
            // Whoever says nothing takes up a place that somebody else could have.
            let Ok(Ok(stream)) = begun else { return };
            let connection = watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection broke");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIME_MAX, graceful.shutdown()).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections that did not finish are cut");
    }
    connections.shutdown().await;
}
