//! The door for clients on the stock library, with peers that are none.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use instanton::client::Address;
use instanton::data::{Info, Nspace, Proc, Rank, keys};
use instanton::internal::wire::flex;

use crate::host::Cluster;
use crate::hostile::undisturbed;
use crate::peer;

/// Goes to the door.
pub(crate) fn dial(address: &Address) -> TcpStream {
    let port = address.stock_uri.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    TcpStream::connect(("127.0.0.1", port.expect("a port"))).unwrap()
}

/// The first message of a client of 4.2.2.
pub(crate) fn acknowledgement(proc: &Proc) -> Vec<u8> {
    let mut body = b"native\0\0\0\0\x08".to_vec();
    body.extend([0; 8]);
    body.push(0);
    body.extend(proc.nspace.as_bytes());
    body.push(0);
    body.extend(proc.rank.0.to_be_bytes());
    body.extend(b"4.2.2rc2\0v41\0\x01hash\0\0");
    let mut message = [0xff; 8].to_vec();
    message.extend((body.len() as u32).to_ne_bytes());
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// A message of the steady state.
pub(crate) fn message(tag: u32, body: &[u8]) -> Vec<u8> {
    let mut message = [0; 4].to_vec();
    message.extend(tag.to_be_bytes());
    message.extend((body.len() as u32).to_be_bytes());
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// Reads until the server closes.
pub(crate) fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A server that closes with something unread resets the connection.
    let _ = stream.read_to_end(&mut rest);
    rest
}

#[test]
fn bytes_that_no_client_sends_disturb_nobody() {
    undisturbed(|_, _, address| {
        let mut seed = u64::from(std::process::id());
        println!("seed {seed}");
        for turn in 0..100 {
            let mut bytes = vec![0xff; 4 * (turn % 2)];
            for _ in 0..turn * 3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bytes.push((seed >> 56) as u8);
            }
            let mut stream = dial(address);
            // The server may close before it has read everything.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            rest(&mut stream);
        }
    });
}

#[test]
fn who_is_refused_reads_why_and_is_not_listened_to() {
    undisturbed(|_, job, address| {
        let mut stranger = job.proc(0);
        stranger.rank.0 = 77;
        let mut stream = dial(address);
        stream.write_all(&acknowledgement(&stranger)).unwrap();
        let mut status = [0; 4];
        stream.read_exact(&mut status).unwrap();
        assert!(i32::from_be_bytes(status) < 0, "{status:?}");
        let flood = vec![0; 1 << 20];
        let _ = (0..16).try_for_each(|_| stream.write_all(&flood));
        let _ = stream.shutdown(Shutdown::Write);
        assert_eq!(rest(&mut stream), []);
    });
}

#[test]
fn who_is_refused_and_asks_all_the_same_is_answered_once() {
    undisturbed(|_, job, address| {
        let mut stranger = job.proc(0);
        stranger.rank.0 = 77;
        // Both at once, and the request when the refusal has been read.
        for at_once in [true, false] {
            let mut stream = dial(address);
            let mut first = acknowledgement(&stranger);
            let request = message(101, &[2, 0]);
            if at_once {
                first.extend(&request);
            }
            stream.write_all(&first).unwrap();
            let mut status = [0; 4];
            stream.read_exact(&mut status).unwrap();
            if !at_once {
                stream.write_all(&request).unwrap();
            }
            stream.write_all(&message(102, &[2, 0])).unwrap();
            let mut header = [0; 16];
            stream.read_exact(&mut header).unwrap();
            assert_eq!(header[..8], message(101, &[])[..8], "an answer to the first request");
            let mut body = vec![0; header[11].into()];
            stream.read_exact(&mut body).unwrap();
            // One status: a count of 1, and the number with its sign at the low end.
            assert!(body.len() > 1 && body[0] == 2 && body[1] & 1 == 1, "{body:?}");
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(rest(&mut stream), []);
        }
    });
}

#[test]
fn who_is_in_and_sends_nonsense_is_cut() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let address = peer::address(&cluster.server(0), &job.proc(0));
    for nonsense in [message(101, &[2, 3, 0xff]), message(101, b""), [0xff; 16].to_vec()] {
        let mut stream = dial(&address);
        stream.write_all(&acknowledgement(&job.proc(0))).unwrap();
        let mut welcome = [1; 8];
        stream.read_exact(&mut welcome).unwrap();
        assert_eq!(welcome, [0; 8]);
        stream.write_all(&nonsense).unwrap();
        assert_eq!(rest(&mut stream), []);
    }
}

/// Reads a message.
pub(crate) fn read_message(stream: &mut TcpStream) -> (u32, Vec<u8>) {
    let mut header = [0; 16];
    stream.read_exact(&mut header).unwrap();
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
    let mut body = vec![0; number(8) as usize];
    stream.read_exact(&mut body).unwrap();
    (number(4), body)
}

/// Returns whether some bytes have these among them.
pub(crate) fn has(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// A request for a key of a rank of the job `many`.
fn get(rank: u32, key: &str) -> Vec<u8> {
    let mut body = b"\x02\x04\x02\x0amany\0\x02".to_vec();
    let mut number = [0; flex::MAX];
    let len = flex::put(&mut number, rank.into());
    body.extend(&number[..len]);
    // No attributes.
    body.extend(b"\x02\x00\x02");
    body.push(2 * (key.len() as u8 + 1));
    body.extend(key.as_bytes());
    body.push(0);
    body
}

#[test]
fn a_job_of_a_million_ranks_is_told_in_one_message_and_far_ranks_are_asked_for() {
    const NODES: u32 = 10_000;
    const RANKS: u32 = 1_000_000;
    let cluster = Cluster::new(1);
    let server = cluster.server(0);
    let nspace = Nspace::new("many").unwrap();
    let per_node = RANKS / NODES;
    let maps = (0..NODES).map(|node| format!("{}-{}", node * per_node, (node + 1) * per_node - 1));
    let info = [
        Info::new(keys::JOB_SIZE, RANKS),
        Info::new(keys::NODE_MAP, format!("pmix[n[1:0-{}]]", NODES - 1).as_str()),
        Info::new(keys::PROC_MAP, format!("pmix[{}]", maps.collect::<Vec<_>>().join(";")).as_str()),
    ];
    server.register_nspace(&nspace, 2, &info).wait().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut peers = [0, 1].map(|rank| {
        let proc = Proc::new(nspace.clone(), Rank(rank));
        server.register_client(&proc, uid, gid).wait().unwrap();
        let mut stream = dial(&peer::address(&server, &proc));
        stream.write_all(&acknowledgement(&proc)).unwrap();
        stream.read_exact(&mut [0; 8]).unwrap();
        stream
    });
    peers.iter_mut().for_each(|peer| peer.write_all(&message(101, &[2, 0])).unwrap());
    let [one, other] = peers.each_mut().map(read_message);
    assert!(one == other && one.0 == 101);
    assert!(one.1.len() < 32 << 20, "{} bytes", one.1.len());
    assert!(has(&one.1, b"n9999\0"), "all nodes are told");
    peers[0].write_all(&message(102, &get(RANKS - 1, "pmix.hname"))).unwrap();
    let (tag, answer) = read_message(&mut peers[0]);
    assert!(tag == 102 && answer[..2] == [2, 0] && has(&answer, b"n9999\0"), "{answer:?}");
}

#[test]
fn who_asks_for_nodes_and_peers_is_told_and_what_is_not_served_is_refused() {
    const NOT_SUPPORTED: &[u8] = &[2, 93];
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1, 0]);
    let address = peer::address(&cluster.server(0), &job.proc(0));
    let mut stream = dial(&address);
    stream.write_all(&acknowledgement(&job.proc(0))).unwrap();
    stream.read_exact(&mut [0; 8]).unwrap();
    let mut ask = |body: &[u8]| {
        stream.write_all(&message(101, body)).unwrap();
        read_message(&mut stream).1
    };
    // A status, the number of processes, and each of them: namespace and rank.
    let peers = b"\x02\x00\x02\x02\x04\x08job\0\x00\x08job\0\x02";
    assert_eq!(ask(b"\x02\x25\x02\x06n0\0\x02\x08job\0"), peers);
    // No node, and no namespace: the own ones.
    assert_eq!(ask(b"\x02\x25\x02\x00\x02\x08job\0"), peers);
    assert_eq!(ask(b"\x02\x25\x02\x06n0\0\x02\x00"), peers);
    let far = ask(b"\x02\x25\x02\x06n1\0\x02\x08job\0");
    assert_eq!(far, b"\x02\x00\x02\x01\x02\x08job\0\x01");
    assert_eq!(ask(b"\x02\x26\x02\x08job\0"), b"\x02\x00\x02\x0cn0,n1\0");
    assert!(ask(b"\x02\x26\x02\x0enobody\0").len() < 5, "a status alone");
    // Refreshed: a status, and what is known of the rank.
    assert!(has(&ask(b"\x02\x21\x02\x08job\0\x02\x01"), b"n1\0"));
    // A fabric, and its update; distances; a session; a block of resources; no command at all.
    for body in [
        &b"\x02\x1e\x02\x00"[..],
        b"\x02\x1f\x02\x00",
        b"\x02\x20",
        b"\x02\x23\x02\x07\x02\x00",
        b"\x02\x22",
        b"\x02\x63",
    ] {
        assert_eq!(ask(body), NOT_SUPPORTED, "{body:?}");
    }
}
