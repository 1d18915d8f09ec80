//! A site on loopback that answers as it is told and remembers what it was asked, byte for byte.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
    /// From which port it came: the connection.
    pub port: u16,
}

/// What is done about a request.
pub enum Reply {
    /// Status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// These bytes.
    Raw(Vec<u8>),
    /// Chunks without end.
    Endless,
    /// Nothing, until the other side goes.
    Nothing,
}

pub fn text(status: u16, body: &str) -> Reply {
    Reply::Answer(status, vec![("content-type", "text/plain".into())], body.into())
}

pub fn json(status: u16, body: &str) -> Reply {
    Reply::Answer(status, vec![("content-type", "application/json".into())], body.into())
}

pub fn redirect(status: u16, to: &str) -> Reply {
    Reply::Answer(status, vec![("location", to.to_owned())], Vec::new())
}

/// What has happened at the site so far.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub seen: Vec<Seen>,
    /// Connections that the other side left while it was owed an answer.
    pub left: usize,
}

pub struct Site {
    pub address: SocketAddr,
    pub log: watch::Receiver<Log>,
}

type Respond = dyn Fn(&Seen, usize) -> Reply + Send + Sync;

impl Site {
    /// Answers each request, which it is told the number of, from 1.
    pub async fn open(respond: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (note, log) = watch::channel(Log::default());
        let (respond, note) = (Arc::new(respond) as Arc<Respond>, Arc::new(note));
        tokio::spawn(async move {
            loop {
                let (stream, from) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, from.port(), Arc::clone(&respond), Arc::clone(&note)));
            }
        });
        Self { address, log }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.log.borrow().seen.clone()
    }

    /// Waits until something has happened.
    pub async fn until(&self, happened: impl FnMut(&Log) -> bool) {
        let mut log = self.log.clone();
        let waited = tokio::time::timeout(std::time::Duration::from_secs(60), log.wait_for(happened)).await;
        waited.expect("it happens").unwrap();
    }
}

async fn serve(stream: TcpStream, port: u16, respond: Arc<Respond>, note: Arc<watch::Sender<Log>>) {
    let mut stream = BufStream::new(stream);
    while let Some(seen) = read(&mut stream, port).await {
        let number = note.borrow().seen.len() + 1;
        let reply = respond(&seen, number);
        note.send_modify(|log| log.seen.push(seen));
        if !write(&mut stream, reply).await {
            note.send_modify(|log| log.left += 1);
            return;
        }
    }
}

async fn read(stream: &mut BufStream<TcpStream>, port: u16) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ').map(str::to_owned);
    let (method, target) = (first.next()?, first.next()?);
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in lines[1..].iter().filter_map(|line| line.split_once(": ")) {
        headers.entry(name.to_lowercase()).and_modify(|known| *known += &format!("|{value}")).or_insert(value.into());
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen { method, target, headers, body: String::from_utf8(body).unwrap(), port })
}

/// Whether the other side is still there.
async fn write(stream: &mut BufStream<TcpStream>, reply: Reply) -> bool {
    let written = async |stream: &mut BufStream<TcpStream>, bytes: &[u8]| {
        stream.write_all(bytes).await.is_ok() && stream.flush().await.is_ok()
    };
    match reply {
        Reply::Answer(status, headers, body) => {
            let mut head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            // Who has heard enough goes before the end; that is no fault here.
            written(stream, &[format!("{head}\r\n").as_bytes(), &body].concat()).await
        }
        Reply::Raw(bytes) => written(stream, &bytes).await,
        Reply::Endless => {
            let mut on = written(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            while on {
                on = written(stream, &[&b"10000\r\n"[..], &[b'x'; 0x10000], b"\r\n"].concat()).await;
            }
            false
        }
        Reply::Nothing => {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            false
        }
    }
}
