//! Peers of other machines at the door for stock libraries: tools and processes in a network namespace of their own,
//! which munge vouches for.
//!
//! The test makes a machine for itself: a mount namespace with a `/run` in which munge's service has its socket, and two
//! network namespaces with a cable between them.

mod tool_servers;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Instant;

use instanton::data::{Info, Nspace, Proc, Rank, Status, keys};
use instanton::internal::sys::munge;
use instanton::server::{Server, ServerConfig, ServerError, StockInterfaces, StockPorts, ToolSupport};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tool_servers::{PATIENCE, RecordingHost};

/// Address of the server's machine, and of the other.
const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";
/// This program, where every user may start it.
const PEER: &str = "/run/peer";
/// A user who owns nothing.
const NOBODY: u32 = 65534;

/// Makes the machines, and runs a test of this program in the first. Both services of munge have their own key.
const MACHINES: &str = r#"
    mount -t tmpfs none /run && mkdir -p /run/munge /run/other /run/tmp && command -v munged ip > /dev/null || exit 99
    chmod 1777 /run/tmp
    for each in munge other; do
        head -c 128 /dev/urandom > /run/$each.key && chmod 600 /run/$each.key || exit 99
        munged --force --key-file=/run/$each.key --pid-file=/run/$each.pid --log-file=/run/$each.log \
            --seed-file=/run/$each.seed --socket=/run/$each/munge.socket.2 || exit 99
    done
    ip netns add far && ip link set lo up && ip link add near type veth peer name away netns far &&
        ip addr add 10.77.0.1/24 dev near && ip link set near up && ip netns exec far ip link set lo up &&
        ip netns exec far ip addr add 10.77.0.2/24 dev away && ip netns exec far ip link set away up || exit 99
    # A machine may have no IPv6.
    ip addr add fd77::1/64 dev near nodad; ip netns exec far ip addr add fd77::2/64 dev away nodad
    echo ready
    TMPDIR=/run/tmp INSTANTON_TRACE=stderr exec "$0" --exact --ignored --nocapture --test-threads=1 on_two_machines
"#;

#[test]
fn peers_of_other_machines_come_in_by_munge_where_the_host_asks_for_them() {
    let mut command = Command::new("unshare");
    command.args(["-m", "-n", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", MACHINES]);
    let output = match command.arg(std::env::current_exe().unwrap()).output() {
        Ok(output) if output.stdout.starts_with(b"ready\n") => output,
        other => return println!("SKIPPED far_peers: it takes root, unshare, ip, veth and munged: {other:?}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
    // The trace says why each of them was refused.
    for why in ["it brings no credential of munge", "munged refuses the credential: ", "munged does not judge here: "] {
        let is_said = |line: &str| line.contains(&format!("the peer at {FAR}:")) && line.contains(why);
        assert!(errors.lines().any(is_said), "{why}: {errors}");
    }
    print!("{said}");
}

/// A server for tools of its own user, which registers a rank of nobody's besides.
fn server(remote: Option<StockInterfaces>, ports: StockPorts) -> Result<Server, ServerError> {
    let nspace = Nspace::new("near@0").unwrap();
    let (tools, uri_file) = (Some(ToolSupport::default()), Some("/run/tmp/address".into()));
    let config = ServerConfig {
        nspace,
        tools,
        uri_file,
        stock_clients: true,
        stock_remote: remote,
        stock_ports: ports,
        ..ServerConfig::default()
    };
    let server = Server::start(config, Arc::new(RecordingHost::default()))?;
    let job = Nspace::new("seen@1").unwrap();
    let size = Info::new(keys::JOB_SIZE, 1u32);
    server.register_nspace(&job, 1, &[size]).wait().unwrap();
    server.register_client(&Proc::new(job, Rank(0)), NOBODY, NOBODY).wait().unwrap();
    Ok(server)
}

fn on(include: &str) -> Option<StockInterfaces> {
    Some(StockInterfaces { include: include.to_owned(), exclude: String::new() })
}

/// The address that stock tools are told, and that of processes.
fn addresses(server: &Server) -> (String, String) {
    let text = std::fs::read_to_string("/run/tmp/address").unwrap();
    let told = text.lines().find(|line| line.contains(";tcp")).expect("an address for stock tools").to_owned();
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    server.setup_fork(&Proc::new(Nspace::new("seen@1").unwrap(), Rank(0)), &mut env).unwrap();
    let uri = env.iter().find(|(name, _)| name == "PMIX_SERVER_URI41").expect("a door");
    (told, uri.1.to_str().unwrap().to_owned())
}

/// Runs a command on the other machine.
fn far(command: &mut Command, words: &[&str]) -> Output {
    command.args(["netns", "exec", "far"]).args(words).output().unwrap()
}

/// Has this program knock at an address of the server's machine, in the other one or here.
fn knocking(far: bool, place: &str, before: &[&str], what: &str) -> Child {
    let prefix: &[&str] = if far { &["ip", "netns", "exec", "far"] } else { &[] };
    let words = [prefix, before, &[PEER, "--exact", "--ignored", "--nocapture", "a_peer_knocks"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PLACE", place).env("WHAT", what).stdout(Stdio::piped()).stderr(Stdio::piped());
    if what == "borrowed" {
        command.env("CREDENTIAL", OsString::from_vec(munge::make().unwrap()));
    }
    command.spawn().unwrap()
}

/// Returns what such a peer reads.
fn read(peer: Child) -> String {
    let output = peer.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find_map(|line| line.split_once("reads ")).map(|(_, line)| line.to_owned());
    line.unwrap_or_else(|| panic!("{output:?}"))
}

fn knock(far: bool, place: &str, before: &[&str], what: &str) -> String {
    read(knocking(far, place, before, what))
}

/// Returns the number of threads of this process that wait for munge's service.
fn judges() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "credentials").count()
}

/// Waits for something that will be so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} does not come");
        std::thread::yield_now();
    }
}

/// Sends a signal to the service of munge.
fn signal(signal: Signal) {
    let pid = std::fs::read_to_string("/run/munge.pid").unwrap();
    kill(Pid::from_raw(pid.trim().parse().unwrap()), signal).unwrap();
}

/// The first message of a tool without a name, or of a rank, which brings this credential.
fn acknowledgement(is_rank: bool, module: &str, credential: &[u8]) -> Vec<u8> {
    let mut body = [module.as_bytes(), b"\0", &(credential.len() as u32).to_be_bytes(), credential].concat();
    match is_rank {
        true => body.extend(b"\0seen@1\0\0\0\0\0"),
        // It says that it is root, which counts for nothing.
        false => body.extend([3, 0, 0, 0, 0, 0, 0, 0, 0]),
    }
    body.extend(b"4.2.2\0v41\0\x01hash\0");
    [[0xff; 8].as_slice(), &(body.len() as u32).to_ne_bytes(), &[0; 4], &body].concat()
}

#[test]
#[ignore = "run on the other machine"]
fn a_peer_knocks() {
    let (place, what) = (std::env::var("PLACE").unwrap(), std::env::var("WHAT").unwrap());
    let made = || munge::make().unwrap_or_default();
    let (module, credential) = match what.trim_start_matches("rank ") {
        "munge" | "munge twice" => ("munge", made()),
        "borrowed" => ("munge", std::env::var_os("CREDENTIAL").unwrap().into_vec()),
        "native" => ("native", vec![0; 8]),
        "nothing" => ("munge", Vec::new()),
        "altered" => {
            let mut credential = made();
            let at = credential.len() / 2;
            credential[at] = if credential[at] == b'A' { b'B' } else { b'A' };
            ("munge", credential)
        }
        "long" => ("munge", vec![b'M'; 64 << 10]),
        other => panic!("{other}"),
    };
    let message = acknowledgement(what.starts_with("rank "), module, &credential);
    let knock = || {
        let mut stream = match TcpStream::connect(&*place) {
            Ok(stream) => stream,
            Err(error) => return format!("{:?}", error.kind()),
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&message).unwrap();
        let mut status = [0; 4];
        match stream.read_exact(&mut status) {
            Ok(()) => Status(i32::from_be_bytes(status)).to_string(),
            Err(error) => format!("no status: {error}"),
        }
    };
    let first = knock();
    match what.ends_with("twice") {
        true => println!("\nreads {first}, then {}", knock()),
        false => println!("\nreads {first}"),
    }
}

#[test]
#[ignore = "run on machines of its own"]
fn on_two_machines() {
    let any = StockPorts::default();
    std::fs::copy(std::env::current_exe().unwrap(), PEER).unwrap();
    // Nobody has asked for other machines.
    let alone = server(None, StockPorts { ipv4: Some(4711), ipv6: None }).unwrap();
    assert_eq!(addresses(&alone).0.rsplit('/').next(), Some("127.0.0.1:4711"));
    assert_eq!(knock(true, &format!("{NEAR}:4711"), &[], "munge"), "ConnectionRefused");
    assert_eq!(knock(false, &format!("{NEAR}:4711"), &[], "munge"), "ConnectionRefused");
    assert_eq!(knock(false, "127.0.0.1:4711", &[], "nothing"), "PMIX_SUCCESS");
    let taken = server(on("near"), StockPorts { ipv4: Some(4711), ipv6: None }).err().unwrap().to_string();
    assert!(taken.contains("127.0.0.1:4711") && taken.contains("os error 98"), "{taken}");
    drop(alone);

    for wrong in ["nowhere0", "10.78.0.0/16"] {
        let reason = server(on(wrong), any).err().unwrap().to_string();
        assert!(reason.starts_with(&format!("PMIX_TCP_IF_INCLUDE={wrong}: ")), "{reason}");
    }
    let without = StockInterfaces { include: String::new(), exclude: "near".to_owned() };
    let elsewhere = server(Some(without), StockPorts { ipv4: Some(4712), ipv6: None }).unwrap();
    assert_eq!(knock(true, &format!("{NEAR}:4712"), &[], "munge"), "ConnectionRefused");
    drop(elsewhere);

    let near = server(on("10.77.0.0/24"), any).unwrap();
    let (told, of_processes) = addresses(&near);
    assert!(told.contains(&format!(";tcp4://{NEAR}:")) && of_processes.contains(";tcp4://127.0.0.1:"), "{told}");
    let place = told.rsplit('/').next().unwrap();
    // A tool of this machine, whatever address it uses, is who the kernel says it is.
    assert_eq!(knock(false, place, &[], "nothing"), "PMIX_SUCCESS");
    let nobody = NOBODY.to_string();
    let as_nobody = ["setpriv", "--reuid", &nobody, "--regid", &nobody, "--clear-groups"];
    assert_eq!(knock(false, place, &as_nobody, "munge"), "PMIX_ERR_INVALID_CRED");
    assert_eq!(knock(false, place, &as_nobody, "borrowed"), "PMIX_ERR_INVALID_CRED");
    assert_eq!(knock(false, place, &as_nobody, "rank nothing"), "PMIX_SUCCESS");

    // Of the other one, who munge says it is, once.
    assert_eq!(knock(true, place, &[], "munge"), "PMIX_SUCCESS");
    assert_eq!(knock(true, place, &[], "munge twice"), "PMIX_SUCCESS, then PMIX_ERR_INVALID_CRED");
    for wrong in ["native", "nothing", "altered", "long"] {
        assert_eq!(knock(true, place, &[], wrong), "PMIX_ERR_INVALID_CRED", "{wrong}");
    }
    let with_another_key = ["unshare", "-m", "sh", "-c", "mount --bind /run/other /run/munge && exec \"$0\" \"$@\""];
    assert_eq!(knock(true, place, &with_another_key, "munge"), "PMIX_ERR_INVALID_CRED");
    // Users are held against the rules for tools, and users and groups against the registration.
    assert_eq!(knock(true, place, &as_nobody, "munge"), "PMIX_ERR_INVALID_CRED");
    assert_eq!(knock(true, place, &as_nobody, "rank munge"), "PMIX_SUCCESS");
    assert_eq!(knock(true, place, &[], "rank munge"), "PMIX_ERR_INVALID_CRED");
    let of_another_group = ["setpriv", "--reuid", &nobody, "--regid", "1", "--clear-groups"];
    assert_eq!(knock(true, place, &of_another_group, "rank munge"), "PMIX_ERR_INVALID_CRED");

    stock_tools(&told);

    if std::net::TcpListener::bind("[fd77::1]:0").is_ok() {
        let server = server(Some(StockInterfaces::default()), StockPorts { ipv4: None, ipv6: Some(0) }).unwrap();
        let (told, of_processes) = addresses(&server);
        assert!(told.contains(";tcp6://[fd77::1]:") && of_processes.contains(";tcp6://[::1]:"), "{told}");
        let place = told.rsplit('/').next().unwrap();
        assert_eq!(knock(false, place, &[], "nothing"), "PMIX_SUCCESS");
        assert_eq!(knock(true, place, &[], "munge"), "PMIX_SUCCESS");
        assert_eq!(knock(true, place, &[], "nothing"), "PMIX_ERR_INVALID_CRED");
    } else {
        println!("SKIPPED far_peers: on IPv6: this machine has none");
    }

    // A service that hangs holds up nobody but whose credential it is to judge.
    let patient = server(on("near"), any).unwrap();
    let other = addresses(&patient).0;
    let (other, before) = (other.rsplit('/').next().unwrap(), judges());
    signal(Signal::SIGSTOP);
    let mut waits = knocking(true, other, &with_another_key, "munge");
    until("the thread that waits for munged", || judges() > before);
    assert_eq!(knock(false, other, &[], "nothing"), "PMIX_SUCCESS");
    assert!(waits.try_wait().unwrap().is_none());
    signal(Signal::SIGCONT);
    assert_eq!(read(waits), "PMIX_ERR_INVALID_CRED");
    drop(patient);

    // Without the service nobody of another machine is anybody.
    signal(Signal::SIGTERM);
    until("the end of munged", || !Path::new("/run/munge/munge.socket.2").exists());
    assert_eq!(knock(true, place, &with_another_key, "munge"), "PMIX_ERR_NOT_SUPPORTED");
    assert_eq!(knock(false, place, &[], "nothing"), "PMIX_SUCCESS");
    drop(near);
}

/// Debian's own tool, on its own library, lists the job from the other machine by a credential of munge.
fn stock_tools(told: &str) {
    if !Path::new("/usr/bin/pps").exists() {
        return println!("SKIPPED far_peers: stock_tools: /usr/bin/pps is not there");
    }
    let pps = |module: &str| {
        let output = far(Command::new("ip").env("PMIX_MCA_psec", module), &["pps", "--uri", told]);
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), said)
    };
    let (is_well, said) = pps("munge");
    println!("pps on {FAR}: {said}");
    assert!(is_well && said.contains("seen@1"), "{said}");
    let (is_well, said) = pps("native");
    assert!(!is_well && !said.contains("seen@1"), "{said}");
}
