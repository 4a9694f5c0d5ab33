//! Jobs under a name: what readers find of a writer that lives, and of one that was killed.
//!
//! Writers are processes of their own, this test started again.
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use instanton::data::{Info, Key, Nspace, Posted, Rank, Scope, Value, keys};
use instanton::store::named::{Claim, NameError, Owner, Readers};
use instanton::store::{JobInfo, JobReader, JobWriter, Limits, Miss, Question};

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
    let _writer = named(Path::new(&path));
    println!("\nwritten");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
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

/// Starts a writer, and waits until it has written.
fn start(path: &Path) -> Child {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["writer", "--exact", "--nocapture"])
        .env(ROLE, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "written"), "the writer has failed");
    writer
}

fn killed(path: &Path) {
    let mut writer = start(path);
    writer.kill().unwrap();
    writer.wait().unwrap();
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
    let mut writer = start(&path);
    assert!(matches!(read(&path), Err(NameError::Alive { .. })));
    assert!(matches!(Claim::new(&path, Readers::User), Err(NameError::Alive { .. })));
    writer.kill().unwrap();
    writer.wait().unwrap();
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
