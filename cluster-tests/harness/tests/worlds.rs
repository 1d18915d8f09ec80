//! Worlds do not see each other, and nothing of them stays.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orbit_harness::owner::Owner;
use orbit_harness::{Disk, Launch, Node, NodeOptions, World};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long anything may take that is no hang.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
/// Set in the test that is run once more to be killed.
const TO_BE_KILLED: &str = "HARNESS_TEST_TO_BE_KILLED";

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn folders(root: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    std::fs::read_dir(root).unwrap().map(name).collect()
}

fn mounts(root: &Path) -> usize {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().filter(|line| line.contains(&*root.to_string_lossy())).count()
}

fn sleeper(world: &World) -> Node {
    let node = world.add_node("n1", &NodeOptions::new().disk(Disk::Tmpfs { mib: 1 })).unwrap();
    node.start(&Launch::program("/bin/sleep").arg("100000")).unwrap();
    node
}

#[test]
fn two_worlds_side_by_side_have_the_same_addresses_and_do_not_meet() {
    let [one, two] = ["one", "two"].map(|name| World::new(root("side-by-side"), name).unwrap());
    let nodes = [&one, &two].map(|world| world.add_node("n1", &NodeOptions::new()).unwrap());
    let at = (nodes[0].address(), 7000);
    assert_eq!(nodes[0].address(), nodes[1].address());
    for (node, says) in nodes.iter().zip(["1", "2"]) {
        let listener = node.namespace().run(move || std::net::TcpListener::bind(at)).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = std::io::Write::write_all(&mut stream, says.as_bytes());
            }
        });
    }
    let ask = async |world: &World| {
        let mut heard = String::new();
        // Also from a task, which any thread may run.
        let stream = tokio::spawn(TcpStream::connect(at)).await.unwrap();
        stream.unwrap().read_to_string(&mut heard).await.unwrap();
        assert!(world.dir().is_dir());
        heard
    };
    let heard = std::thread::scope(|scope| {
        let threads = [&one, &two].map(|world| scope.spawn(move || world.run(ask)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(heard, ["1", "2"]);
    drop(one);
    // What is gone on one side is still there on the other.
    assert_eq!(two.run(ask), "2");
}

#[test]
fn a_test_listens_where_its_nodes_reach_it() {
    let world = World::new(root("listens"), "listens").unwrap();
    let node = world.add_node("n1", &NodeOptions::new()).unwrap();
    world.run(async |_| {
        let listener = TcpListener::bind((orbit_harness::network::CLIENTS, 7000)).await.unwrap();
        let call = "exec 3<>/dev/tcp/10.77.0.1/7000 && read -r word <&3 && echo \"$word\"";
        node.start(&Launch::program("/bin/bash").arg("-c").arg(call)).unwrap();
        let (mut stream, from) = listener.accept().await.unwrap();
        assert_eq!(from.ip(), node.address());
        stream.write_all(b"heard\n").await.unwrap();
        assert!(node.ended().await.unwrap().success());
        assert_eq!(node.log(), "heard\n");
    });
}

#[test]
fn nothing_stays_of_a_world_and_the_folder_of_one_that_panicked() {
    let root = root("nothing-stays");
    let _ = std::fs::remove_dir_all(&root);
    let world = World::new(&root, "well").unwrap();
    let node = sleeper(&world);
    let process = Owner::running(node.process().unwrap().id()).unwrap();
    assert!(mounts(&root) == 1 && process.is_alive());
    drop(world);
    assert!(mounts(&root) == 0 && !process.is_alive());
    assert_eq!(folders(&root), [""; 0]);

    let world = World::new(&root, "badly").unwrap();
    let node = sleeper(&world);
    let process = Owner::running(node.process().unwrap().id()).unwrap();
    let failed = catch_unwind(AssertUnwindSafe(move || world.run(async |_| panic!("as planned"))));
    assert_eq!(failed.unwrap_err().downcast_ref(), Some(&"as planned"));
    assert!(mounts(&root) == 0 && !process.is_alive());
    let left = folders(&root);
    assert!(left.len() == 1 && left[0].starts_with("failed-") && left[0].ends_with("-badly"), "{left:?}");
    assert!(root.join(&left[0]).join("n1/log").is_file());
}

#[test]
fn what_a_killed_test_left_goes_with_the_next_world() {
    let root = root("killed");
    if std::env::var_os(TO_BE_KILLED).is_some() {
        let world = World::new(&root, "killed").unwrap();
        let node = sleeper(&world);
        let beside = world.start_program("beside", &Launch::program("/bin/sleep").arg("100000")).unwrap();
        println!("\npids {} {}", node.process().unwrap().id(), beside.id());
        loop {
            std::thread::park();
        }
    }
    let _ = std::fs::remove_dir_all(&root);
    let this = std::env::current_exe().unwrap();
    let name = "what_a_killed_test_left_goes_with_the_next_world";
    let mut command = Command::new(this);
    command.args(["--exact", name, "--nocapture"]).env(TO_BE_KILLED, "1").stdout(Stdio::piped());
    let mut other = command.spawn().unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pids = lines.into_iter().find_map(|line| line.strip_prefix("pids ").map(ToOwned::to_owned)).unwrap();
    let processes: Vec<_> = pids.split(' ').map(|pid| Owner::running(pid.parse().unwrap()).unwrap()).collect();

    // As long as its owner lives, nobody touches it.
    drop(World::new(&root, "meanwhile").unwrap());
    assert!(processes.iter().all(|process| process.is_alive()));
    assert_eq!((mounts(&root), folders(&root).len()), (1, 1));

    let pidfd = |pid: &str| pidfd_open(Pid::from_raw(pid.parse().unwrap()).unwrap(), PidfdFlags::empty()).unwrap();
    let ends: Vec<_> = pids.split(' ').map(pidfd).collect();
    other.kill().unwrap();
    other.wait().unwrap();
    // Nobody has to come for its processes: they die with it.
    for end in &ends {
        let mut ended = [PollFd::new(end, PollFlags::IN)];
        assert_eq!(poll(&mut ended, Some(&PATIENCE)).unwrap(), 1, "a process outlives the test that started it");
    }
    let next = World::new(&root, "next").unwrap();
    assert_eq!((mounts(&root), folders(&root).len()), (0, 1));
    assert!(!processes.iter().any(|process| process.is_alive()));
    drop(next);
    assert_eq!(folders(&root), [""; 0]);
}
