//! A server of root with jobs of three other users: what each registers for clean-up is removed with its own rights,
//! and by no link. Skipped where the test has no right to be others.
mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::example;
use instanton::data::{Info, Nspace, Proc, Rank, keys};
use instanton::server::{NoHost, Server, ServerConfig};
use nix::unistd::geteuid;

/// The users, who are nobody else here.
const USERS: [u32; 3] = [61_001, 61_002, 61_003];

/// A directory of each user, and one of root.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let place = Place(std::env::temp_dir().join(format!("instanton-users-{}", std::process::id())));
        fs::create_dir(&place.0).unwrap();
        for user in USERS.into_iter().chain([0]) {
            let own = place.of(user);
            fs::create_dir_all(own.join("real")).unwrap();
            (0..8).for_each(|rank| fs::write(own.join(format!("kept.{rank}")), "kept").unwrap());
            symlink(place.of(0), own.join("to-root")).unwrap();
            symlink(own.join("real"), own.join("to-real")).unwrap();
            [&own, &own.join("real")].into_iter().for_each(|path| chown(path, Some(user), Some(user)).unwrap());
            (0..8).for_each(|rank| chown(own.join(format!("kept.{rank}")), Some(user), Some(user)).unwrap());
        }
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn of(&self, user: u32) -> PathBuf {
        self.0.join(user.to_string())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A rank that registers a file for clean-up and then writes to it, with the rights of a user.
fn start(server: &Server, proc: &Proc, user: u32, file: &PathBuf) -> Child {
    let mut environment: Vec<(std::ffi::OsString, std::ffi::OsString)> = std::env::vars_os().collect();
    server.setup_fork(proc, &mut environment).unwrap();
    let mut command = Command::new(example("rank"));
    command.arg("litter").arg(file).env_clear().envs(environment).uid(user).gid(user);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn what_ranks_of_three_users_register_is_removed_with_their_own_rights() {
    let can_be_others = || Command::new(example("rank")).uid(USERS[0]).stderr(Stdio::null()).status().is_ok();
    if !geteuid().is_root() || !can_be_others() {
        return println!(
            "SKIPPED what_ranks_of_three_users_register: it takes root, and programs that everybody may execute"
        );
    }
    let place = Place::new();
    let server = Arc::new(Server::start(ServerConfig::default(), Arc::new(NoHost)).unwrap());
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    for (at, user) in USERS.into_iter().enumerate() {
        let nspace = Nspace::new(format!("of-{user}")).unwrap();
        let (own, next) = (place.of(user), place.of(USERS[(at + 1) % USERS.len()]));
        // Its own file; one of another user; one of root; one of root by a link; one of its own by a link.
        let files = [
            own.join("left"),
            next.join("kept"),
            place.of(0).join("kept"),
            own.join("to-root/kept"),
            own.join("to-real/kept"),
        ];
        let size = files.len() as u32;
        let ranks = (0..size).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
        let info = [
            Info::new(keys::JOB_SIZE, size),
            Info::new(keys::NODE_MAP, host.as_str()),
            Info::new(keys::PROC_MAP, ranks.as_str()),
        ];
        server.register_nspace(&nspace, size as usize, &info).wait().unwrap();
        let procs: Vec<Proc> = (0..size).map(|rank| Proc::new(nspace.clone(), Rank(rank))).collect();
        for proc in &procs {
            server.register_client(proc, user, user).wait().unwrap();
        }
        let ranks: Vec<Child> = procs.iter().zip(&files).map(|(proc, file)| start(&server, proc, user, file)).collect();
        for ((proc, mut rank), may_write) in procs.iter().zip(ranks).zip([true, false, false, false, true]) {
            // It says something once it has written, or ends.
            let mut said = String::new();
            BufReader::new(rank.stdout.take().unwrap()).read_line(&mut said).unwrap();
            assert_eq!(!said.is_empty(), may_write, "{proc}");
            let _ = rank.kill();
            rank.wait().unwrap();
            server.client_died(proc);
        }
        server.deregister_nspace(&nspace).wait().unwrap();
        assert!(!own.join("left.0").exists(), "its own file goes");
        assert!(own.join("real/kept.4").exists(), "no link is followed, be it its own");
    }
    for user in USERS.into_iter().chain([0]) {
        (0..8).for_each(|rank| assert!(place.of(user).join(format!("kept.{rank}")).exists(), "{user}: {rank}"));
    }
    server.check_empty().unwrap();
}
