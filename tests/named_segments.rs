//! Jobs under a name: what readers find of a writer that lives, and of one that was killed.
//!
//! Writers are processes of their own, this test started again.
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use instanton::data::{Info, Key, Nspace, Posted, Rank, Scope, Value, keys};
use instanton::handover::{LinkError, Listener, OpenError, RemoteMiss, RemoteReader, Waited};
use instanton::store::named::{Claim, NameError, Owner, Readers};
use instanton::store::{AttachError, JobInfo, JobReader, JobWriter, Limits, Miss, Question};

const ROLE: &str = "INSTANTON_TEST_WRITER_AT";
const LARGE: usize = 3 << 20;

fn job(site: &str) -> JobInfo {
    let infos = [Info::new(keys::JOB_SIZE, 2u32), Info::new("site", site)];
    JobInfo::from_infos(&nspace(), 2, &infos, "here").unwrap()
}

fn nspace() -> Nspace {
    Nspace::new("job@1").unwrap()
}

fn post(writer: &mut JobWriter, rank: u32, name: &str, value: impl Into<Value>) {
    writer.update(Rank(rank), &[Posted::new(Scope::GLOBAL, Key::new(name).unwrap(), value)]).unwrap();
}

fn named(path: &Path) -> JobWriter {
    let claim = Claim::new(path, Readers::User).unwrap();
    let mut writer = JobWriter::create_named(&nspace(), job("first"), &Limits::default(), claim).unwrap();
    post(&mut writer, 0, "card", "one");
    post(&mut writer, 1, "large", vec![7u8; LARGE]);
    writer.replace_info(job("second")).unwrap();
    post(&mut writer, 0, "card", "two");
    writer
}

/// A writer that is killed: it has nothing to do with this process but its file names.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(ROLE) else { return };
    let mut writer = named(Path::new(&path));
    let say = |line: &str| {
        println!("\n{line}");
        std::io::stdout().flush().unwrap();
    };
    say("written");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.as_str() {
            "grow" => {
                // So much is free then that records move to new segments, and the old ones go.
                post(&mut writer, 0, "more", vec![8u8; 8 * LARGE]);
                writer.remove(Rank(0), &[Key::new("more").unwrap()]).unwrap();
                writer.reclaim();
                post(&mut writer, 0, "much", vec![8u8; LARGE]);
                post(&mut writer, 0, "card", "three");
            }
            "replace" => writer.replace_info(job("third")).unwrap(),
            "rush" => rush(&mut writer),
            "release" => {
                post(&mut writer, 1, "late", 1u32);
                writer.release();
            }
            _ => break,
        }
        say(&line);
    }
}

/// Two keys of each rank, changed together as fast as can be; a line now and then says that it goes on.
fn rush(writer: &mut JobWriter) {
    for round in 0u64.. {
        for rank in 0..2u32 {
            let len = (round * 7919 % 60_000) as usize;
            let entries = [("a", Value::Uint64(round)), ("b", Value::from(vec![round as u8; len]))];
            let entries = entries.map(|(key, value)| Posted::new(Scope::GLOBAL, Key::new(key).unwrap(), value));
            writer.update(Rank(rank), &entries).unwrap();
        }
        if round % 16 == 0 {
            writer.replace_info(job(&round.to_string())).unwrap();
            println!("\nround");
            std::io::stdout().flush().unwrap();
        }
    }
}

/// A folder for names, and what is in there when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("instanton-named-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A writer in a process of its own.
struct Writer(Child, BufReader<ChildStdout>);

impl Writer {
    /// Starts one, and waits until it has written; with the arguments of `unshare`, elsewhere.
    fn start(path: &Path, elsewhere: &[&str]) -> Self {
        let test = std::env::current_exe().unwrap();
        let mut command = Command::new(if elsewhere.is_empty() { test.as_os_str() } else { "unshare".as_ref() });
        if !elsewhere.is_empty() {
            command.args(elsewhere).arg(test);
        }
        command.args(["writer", "--exact", "--nocapture"]).env(ROLE, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self(child, output);
        this.hears("written");
        this
    }

    fn hears(&mut self, word: &str) {
        let said = (&mut self.1).lines().map_while(Result::ok).any(|line| line == word);
        assert!(said, "the writer has failed");
    }

    fn does(&mut self, what: &str) {
        writeln!(self.0.stdin.as_ref().unwrap(), "{what}").unwrap();
        self.hears(what);
    }

    /// Kills it; behind `unshare` it may be dying still. The end of its input would have it end in good order.
    fn kill(mut self) -> Option<ChildStdin> {
        let input = self.0.stdin.take();
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        input
    }
}

fn killed(path: &Path) {
    Writer::start(path, &[]).kill();
}

/// Arguments of `unshare` for network and process IDs of one's own; nothing where the system does not allow it.
fn elsewhere() -> Option<Vec<&'static str>> {
    let user = if nix::unistd::geteuid().is_root() { &[][..] } else { &["--user", "--map-current-user"] };
    let all = [user, &["--net", "--pid", "--fork", "--kill-child"]].concat();
    let is_allowed = Command::new("unshare").args(&all).arg("true").output().is_ok_and(|tried| tried.status.success());
    is_allowed.then_some(all)
}

fn read(path: &Path) -> Result<JobReader, NameError> {
    JobReader::post_mortem(path, Owner::OwnOrRoot)
}

fn is_whole(reader: &JobReader) {
    let get = |rank, key| reader.get(&Question::new(rank, key)).unwrap();
    assert_eq!(reader.nspace().unwrap(), nspace());
    assert_eq!(get(Rank::WILDCARD, "site"), Value::from("second"));
    assert_eq!(get(Rank(0), "card"), Value::from("two"));
    assert_eq!(get(Rank(1), "large"), Value::from(vec![7u8; LARGE]));
    assert!(matches!(reader.get(&Question::new(Rank(1), "card")), Err(Miss::NotFound)));
    assert!(!reader.is_behind());
}

fn files(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_a_killed_writer_has_left_is_read() {
    let folder = Folder::new("killed");
    let path = folder.0.join("job@1");
    assert!(matches!(read(&path), Err(NameError::Absent { .. })));
    let writer = Writer::start(&path, &[]);
    assert!(matches!(read(&path), Err(NameError::Alive { .. })));
    assert!(matches!(Claim::new(&path, Readers::User), Err(NameError::Alive { .. })));
    writer.kill();
    is_whole(&read(&path).unwrap());

    // The next writer takes the name over, and what a reader has is still there.
    let reader = read(&path).unwrap();
    let claim = Claim::new(&path, Readers::User).unwrap();
    assert_eq!(files(&path), ["lock"]);
    assert!(matches!(read(&path), Err(NameError::Absent { .. })));
    let writer = JobWriter::create_named(&nspace(), job("third"), &Limits::default(), claim).unwrap();
    assert!(matches!(read(&path), Err(NameError::Alive { .. })));
    is_whole(&reader);
    drop(writer);
    assert!(!path.exists(), "a writer that ends takes all with it");
}

#[test]
fn a_file_that_is_cut_is_an_error_and_nobody_is_killed() {
    let folder = Folder::new("cut");
    let path = folder.0.join("job@1");
    killed(&path);
    let names = files(&path);
    assert_eq!(names.iter().filter(|name| *name != "lock").count(), 4, "{names:?}");
    for name in names.iter().filter(|name| *name != "lock") {
        let file = path.join(name);
        let whole = fs::read(&file).unwrap();
        for len in [0, 8, 64, 4096, whole.len() / 2 / 8 * 8, whole.len() - 1, whole.len() - 8] {
            if len >= whole.len() {
                continue;
            }
            fs::write(&file, &whole[..len]).unwrap();
            assert!(matches!(read(&path), Err(NameError::Attach { .. })), "{name} of {len} bytes");
        }
        fs::remove_file(&file).unwrap();
        assert!(read(&path).is_err(), "{name} is missing");
        fs::write(&file, &whole).unwrap();
        is_whole(&read(&path).unwrap());
    }
}

#[test]
fn a_writer_that_is_killed_at_any_moment_leaves_whole_records() {
    let folder = Folder::new("rush");
    let path = folder.0.join("job@1");
    for seed in 0..24u32 {
        let mut writer = Writer::start(&path, &[]);
        writeln!(writer.0.stdin.as_ref().unwrap(), "rush").unwrap();
        (0..=seed).for_each(|_| writer.hears("round"));
        writer.kill();
        let reader = read(&path).unwrap();
        reader.verify().unwrap();
        let site = reader.get(&Question::new(Rank::WILDCARD, "site")).unwrap();
        let site: u64 = std::str::from_utf8(site.as_text().unwrap().as_bytes()).unwrap().parse().unwrap();
        for rank in (0..2).map(Rank) {
            let get = |key| reader.get(&Question::new(rank, key)).unwrap();
            let Value::Uint64(round) = get("a") else { panic!("no number") };
            assert!((site..=site + 16).contains(&round), "{round} with the information of round {site}");
            let bytes = get("b");
            let bytes = bytes.as_bytes().unwrap();
            assert_eq!(bytes.len() as u64, round * 7919 % 60_000);
            assert!(bytes.iter().all(|byte| *byte == round as u8), "two rounds in one value");
        }
    }
}

#[test]
fn links_and_files_of_others_are_refused() {
    let folder = Folder::new("foreign");
    let path = folder.0.join("job@1");
    killed(&path);
    let uid = nix::unistd::geteuid().as_raw();
    let foreign = |error| matches!(error, Err(NameError::Foreign { user, .. }) if user == uid);
    assert!(foreign(JobReader::post_mortem(&path, Owner::User(uid + 1))));
    is_whole(&JobReader::post_mortem(&path, Owner::User(uid)).unwrap());

    let link = folder.0.join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(read(&link), Err(NameError::Kind { .. })));
    assert!(matches!(Claim::new(&link, Readers::User), Err(NameError::Kind { .. })));
    fs::rename(path.join("job"), folder.0.join("elsewhere")).unwrap();
    symlink(folder.0.join("elsewhere"), path.join("job")).unwrap();
    assert!(matches!(read(&path), Err(NameError::Kind { .. })));
    fs::rename(folder.0.join("elsewhere"), path.join("job")).unwrap();

    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (file, mode) in [(path.clone(), 0o700), (path.join("job"), 0o600)] {
        allow(&file, mode | 0o020);
        assert!(matches!(read(&path), Err(NameError::Writable { .. })));
        allow(&file, mode);
    }
    assert!(matches!(Claim::new("/", Readers::User), Err(NameError::Path { .. })));
    assert!(matches!(Claim::new(folder.0.join("no/where"), Readers::User), Err(NameError::System { .. })));
    for (file, other) in [("notes", "notes"), ("job", "job")] {
        let occupied = folder.0.join("occupied");
        fs::create_dir(&occupied).unwrap();
        File::create(occupied.join(file)).unwrap();
        let refused = Claim::new(&occupied, Readers::User);
        assert!(matches!(&refused, Err(NameError::Occupied { name, .. }) if name == other), "{refused:?}");
        assert_eq!(files(&occupied), [file]);
        fs::remove_dir_all(occupied).unwrap();
    }
    File::create(folder.0.join("file")).unwrap();
    assert!(matches!(Claim::new(folder.0.join("file"), Readers::User), Err(NameError::Kind { .. })));

    if uid == 0 {
        chown(path.join("job"), Some(65534), None).unwrap();
        assert!(matches!(read(&path), Err(NameError::Foreign { user: 65534, .. })));
        chown(path.join("job"), Some(0), None).unwrap();
        chown(&path, Some(65534), None).unwrap();
        assert!(matches!(read(&path), Err(NameError::Foreign { user: 65534, .. })));
        assert!(matches!(Claim::new(&path, Readers::User), Err(NameError::Foreign { user: 65534, .. })));
    }
}

#[test]
fn a_claim_that_comes_to_nothing_leaves_nothing() {
    let folder = Folder::new("claim");
    let path = folder.0.join("job@1");
    let claim = Claim::new(&path, Readers::All).unwrap();
    assert_eq!(claim.path(), path);
    let limits = Limits { budget: instanton::store::Budget::new(4096), ..Limits::default() };
    let (_, claim) = JobWriter::create_named(&nspace(), job("first"), &limits, claim).err().unwrap();
    assert_eq!(files(&path), ["lock"]);
    let writer = JobWriter::create_named(&nspace(), job("first"), &Limits::default(), claim).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.join("job")), mode(&path.join("lock"))), (0o755, 0o644, 0o600));
    drop(writer);
    assert_eq!(files(&folder.0), [""; 0]);
}

/// A deadline that no test comes near.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

#[test]
fn a_reader_in_other_namespaces_keeps_up_with_its_writer() {
    let folder = Folder::new("mapped");
    let path = folder.0.join("job@1");
    let Some(elsewhere) = elsewhere() else {
        return println!("SKIPPED: unshare may make no namespaces here");
    };
    let map = || RemoteReader::map_trusting_owner(&path, Owner::OwnOrRoot);
    assert!(matches!(map(), Err(NameError::Absent { .. })));
    let mut writer = Writer::start(&path, &elsewhere);
    let reader = map().unwrap();
    is_whole(reader.reader());
    assert!(reader.pin().is_err(), "there is no page for it");

    writer.does("grow");
    let get = |rank, key| reader.get(&Question::new(rank, key)).unwrap();
    assert_eq!(get(Rank(0), "much"), Value::from(vec![8u8; LARGE]));
    assert_eq!(get(Rank(0), "card"), Value::from("three"));
    assert!(!path.join("modex.1").exists(), "{:?}", files(&path));
    writer.does("replace");
    assert_eq!(get(Rank::WILDCARD, "site"), Value::from("second"), "it answers until it is replaced here");
    reader.refresh().unwrap();
    assert_eq!(get(Rank::WILDCARD, "site"), Value::from("third"));
    assert!(!path.join("info.2").exists(), "{:?}", files(&path));
    assert_eq!(map().unwrap().get(&Question::new(Rank(0), "card")).unwrap(), Value::from("three"));

    std::thread::scope(|scope| {
        let late = scope.spawn(|| reader.get_when_there(&Question::new(Rank(1), "late"), LONG));
        writer.does("release");
        assert_eq!(late.join().unwrap().unwrap(), Value::from(1u32));
    });
    let _input = writer.kill();
    let seen = reader.reader().releases();
    assert_eq!(reader.wait(seen, LONG), Waited::WriterGone);
    assert!(matches!(map(), Err(NameError::Dead { .. })));
    assert!(matches!(reader.get(&Question::new(Rank(1), "none")), Err(RemoteMiss::Miss(Miss::NotFound))));
    assert_eq!(read(&path).unwrap().get(&Question::new(Rank(0), "card")).unwrap(), Value::from("three"));
}

#[test]
fn whoever_is_handed_named_segments_says_that_it_trusts_their_owner() {
    let folder = Folder::new("handed");
    let mut writer = named(&folder.0.join("job@1"));
    let mut listener = Listener::open().unwrap();
    let address = listener.address().to_owned();
    let opened =
        std::thread::spawn(move || (RemoteReader::open(&address).err(), RemoteReader::open_trusting_owner(&address)));
    while !opened.is_finished() {
        listener.serve(&mut writer).unwrap();
        std::thread::yield_now();
    }
    let (refused, reader) = opened.join().unwrap();
    assert!(matches!(refused, Some(OpenError::Link(LinkError::Attach(AttachError::Map(_))))), "{refused:?}");
    let reader = reader.unwrap();
    is_whole(reader.reader());
    let guard = reader.pin().unwrap();
    assert_eq!(guard.get(&Question::new(Rank(0), "card")).unwrap().bytes(), b"two\0".as_slice());
}
