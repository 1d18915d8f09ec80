//! Links do what they are told, and only that.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use orbit_harness::{CLIENTS, Cut, Error, Namespace, Node, NodeOptions, World};

const PORT: u16 = 7000;
/// How long anything may take that is no hang.
const PATIENCE: Duration = Duration::from_secs(30);

fn world(name: &str, nodes: &[&str]) -> (World, Vec<Node>) {
    let world = World::new(env!("CARGO_TARGET_TMPDIR"), name).unwrap();
    let nodes = nodes.iter().map(|name| world.add_node(name, &NodeOptions::new()).unwrap()).collect();
    (world, nodes)
}

fn socket(node: &Node) -> UdpSocket {
    let at = (node.address(), PORT);
    let socket = node.namespace().run(move || UdpSocket::bind(at)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn send(from: &UdpSocket, to: &UdpSocket, what: &str) {
    from.send_to(what.as_bytes(), to.local_addr().unwrap()).unwrap();
}

fn receive(at: &UdpSocket) -> String {
    let mut packet = [0; 100];
    let (length, _) = at.recv_from(&mut packet).unwrap();
    String::from_utf8(packet[..length].to_vec()).unwrap()
}

fn listen(node: &Node) -> TcpListener {
    let at = (node.address(), PORT);
    node.namespace().run(move || TcpListener::bind(at)).unwrap()
}

fn connect(from: &Namespace, to: Ipv4Addr) -> std::io::Result<TcpStream> {
    from.run(move || TcpStream::connect_timeout(&SocketAddr::from((to, PORT)), PATIENCE))
}

/// A link that is cut with a refusal says so at once, so this needs no waiting.
fn reaches(from: &Namespace, to: &Node) -> bool {
    match connect(from, to.address()) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_link_cut_in_one_direction_drops_only_that_one() {
    let (world, nodes) = world("one-way", &["a", "b"]);
    let (a, b) = (socket(&nodes[0]), socket(&nodes[1]));
    send(&a, &b, "before");
    assert_eq!(receive(&b), "before");

    world.links().cut_one_way("a", "b", Cut::Silent).unwrap();
    send(&a, &b, "lost");
    send(&b, &a, "back");
    assert_eq!(receive(&a), "back");

    // A link keeps the order: had the lost one arrived, it would be the first.
    world.links().heal().unwrap();
    send(&a, &b, "after");
    assert_eq!(receive(&b), "after");
}

#[test]
fn both_directions_are_cut_and_one_pair_healed() {
    let (world, nodes) = world("both-ways", &["a", "b"]);
    let (a, b) = (socket(&nodes[0]), socket(&nodes[1]));
    world.links().cut("a", "b", Cut::Silent).unwrap();
    assert_eq!(world.links().cuts().len(), 2);
    send(&a, &b, "lost");
    send(&b, &a, "lost");
    world.links().heal_between("b", "a").unwrap();
    send(&a, &b, "there");
    send(&b, &a, "back");
    assert_eq!((receive(&b), receive(&a)), ("there".to_owned(), "back".to_owned()));
}

#[test]
fn a_connection_outlives_a_silent_cut_and_not_a_refusal() {
    let (world, nodes) = world("connections", &["a", "b"]);
    let listener = listen(&nodes[1]);
    let mut near = connect(nodes[0].namespace(), nodes[1].address()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();

    world.links().cut("a", "b", Cut::Silent).unwrap();
    near.write_all(b"held").unwrap();
    far.set_nonblocking(true).unwrap();
    assert_eq!(far.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
    far.set_nonblocking(false).unwrap();
    world.links().heal().unwrap();
    let mut read = [0; 4];
    far.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"held");

    world.links().cut("a", "b", Cut::Rejected).unwrap();
    near.write_all(b"reset").unwrap();
    assert_eq!(near.read(&mut read).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(!reaches(nodes[0].namespace(), &nodes[1]));
}

#[test]
fn a_refusal_is_told_in_datagrams_too() {
    let (world, nodes) = world("datagrams", &["a", "b"]);
    let (a, b) = (socket(&nodes[0]), socket(&nodes[1]));
    world.links().cut("a", "b", Cut::Rejected).unwrap();
    a.connect(b.local_addr().unwrap()).unwrap();
    a.send(b"refused").unwrap();
    assert_eq!(a.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn partitions_bridges_and_isolation_are_as_drawn() {
    let (world, nodes) = world("partitions", &["a", "b", "c", "d"]);
    let listeners: Vec<_> = nodes.iter().map(listen).collect();
    let sees = || -> Vec<String> {
        let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (from, to)));
        let seen = pairs.filter(|(from, to)| from.name() < to.name() && reaches(from.namespace(), to));
        seen.map(|(from, to)| format!("{}{}", from.name(), to.name())).collect()
    };
    let clients_see = || nodes.iter().all(|node| reaches(world.clients(), node));
    let links = world.links();
    assert_eq!(sees(), ["ab", "ac", "ad", "bc", "bd", "cd"]);

    links.partition(&[&["a", "b"], &["c", "d"]], Cut::Rejected).unwrap();
    assert_eq!(sees(), ["ab", "cd"]);
    assert!(clients_see());
    // A bridge: b sees both sides; d, of which nothing is said, is alone.
    links.partition(&[&["a", "b"], &["b", "c"]], Cut::Rejected).unwrap();
    assert_eq!(sees(), ["ab", "bc"]);
    links.partition(&[&["a", "b", "c", "d"]], Cut::Rejected).unwrap();
    links.isolate("b", Cut::Rejected).unwrap();
    assert_eq!(sees(), ["ac", "ad", "cd"]);
    assert!(clients_see());
    links.heal().unwrap();

    links.partition(&[&["a", "b", "c", "d"], &["a", CLIENTS]], Cut::Rejected).unwrap();
    assert_eq!(sees().len(), 6);
    assert_eq!(
        nodes.iter().map(|node| reaches(world.clients(), node)).collect::<Vec<_>>(),
        [true, false, false, false]
    );
    links.heal().unwrap();
    assert!(sees().len() == 6 && clients_see());
    drop(listeners);
}

#[test]
fn a_wrong_name_is_refused_and_changes_nothing() {
    let (world, nodes) = world("names", &["a", "b"]);
    let links = world.links();
    links.cut("a", "b", Cut::Silent).unwrap();
    let before = links.cuts();
    let wrong = [
        links.cut("a", "x", Cut::Silent),
        links.cut_one_way("x", "a", Cut::Silent),
        links.isolate("x", Cut::Silent),
        links.partition(&[&["a", "x"]], Cut::Silent),
    ];
    assert!(wrong.iter().all(|result| matches!(result, Err(Error::Name { .. }))), "{wrong:?}");
    assert_eq!(links.cuts(), before);
    for name in ["a", CLIENTS, "No", ""] {
        assert!(matches!(world.add_node(name, &NodeOptions::new()), Err(Error::Name { .. })), "{name:?}");
    }
    assert_eq!(nodes.len(), world.nodes().len());
}
