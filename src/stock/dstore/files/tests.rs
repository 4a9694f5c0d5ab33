use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::data::Nspace;
use crate::stock::testing::Job;
use crate::sys::test_directory::TestDirectory;

fn make(tmpdir: &Path, nspace: &str, ranks: u32, uid: u32) -> Option<Box<dyn JobFiles>> {
    let nspace = Nspace::new(nspace).unwrap();
    Maker::new(tmpdir, false).make(&JobFacts { nspace: &nspace, ranks, local: 2, uid, gid: uid })
}

fn path_of(files: &dyn JobFiles) -> PathBuf {
    let (_, path) = files.variables().into_iter().find(|(name, _)| *name == "PMIX_DSTORE_21_BASE_PATH").unwrap();
    OsStr::from_bytes(&path).into()
}

#[test]
fn files_are_their_users_alone_in_a_directory_that_is_not() {
    let own = geteuid().as_raw();
    for uid in [own, 65534] {
        let scratch = TestDirectory::new();
        let Some(files) = make(&scratch.0, "job@1", 2, uid) else {
            assert!(own != 0 && uid != own, "there is room");
            continue;
        };
        let [directory] = &scratch.entries()[..] else { panic!("{:?}", scratch.entries()) };
        let found = fs::metadata(directory).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (own, if uid == own { 0o700 } else { 0o711 }));
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let found = entry.metadata().unwrap();
            assert_eq!((found.uid(), found.mode() & 0o777), (uid, 0o600));
            names.push(entry.file_name().into_string().unwrap());
        }
        names.sort();
        assert_eq!(names, ["initial-pmix_shared-segment-0", "smlockseg-job@1"]);
        assert_eq!(path_of(&*files), *directory);
        drop(files);
        assert!(scratch.entries().is_empty());
    }
}

#[test]
fn what_cannot_be_had_is_not_offered() {
    let (scratch, own) = (TestDirectory::new(), geteuid().as_raw());
    assert!(make(&scratch.0, "a/b", 2, own).is_none() && make(&scratch.0, "job", MOST_RANKS + 1, own).is_none());
    assert!(make(&scratch.0, &"n".repeat(MAX_NSPACE + 1), 2, own).is_none());
    assert!(make(&scratch.0.join("nowhere"), "job", 2, own).is_none());
    assert!(scratch.entries().is_empty());
}

#[test]
fn a_file_that_lies_there_already_is_not_taken() {
    let (scratch, own) = (TestDirectory::new(), geteuid().as_raw());
    let mut files = make(&scratch.0, "job", 2, own).unwrap();
    let elsewhere = scratch.0.join("elsewhere");
    fs::write(&elsewhere, "kept").unwrap();
    symlink(&elsewhere, path_of(&*files).join("smseg-job-0")).unwrap();
    let begun = files.begin(Form::Plain, &*Job::new(1, 2), &Account::unlimited());
    assert_eq!(begun, Err(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "kept");
}

#[test]
fn values_have_one_encoding_and_their_bytes_are_the_jobs() {
    let (scratch, own) = (TestDirectory::new(), geteuid().as_raw());
    let mut files = make(&scratch.0, "job", 2, own).unwrap();
    let (account, job) = (Account::of_job("job", 64 << 20), Job::new(1, 2));
    assert_eq!(files.begin(Form::Plain, &*job, &account), Ok(true));
    assert_eq!(files.begin(Form::Plain, &*job, &account), Ok(false));
    assert_eq!(files.begin(Form::PlainFixed, &*job, &account), Err(Status::ERR_NOT_SUPPORTED));
    assert!(account.used() >= SEGMENT);
    drop(files);
    assert_eq!(account.used(), 0);
}

#[test]
fn what_a_dead_server_has_left_goes_with_the_first_job_of_the_next() {
    let (scratch, own) = (TestDirectory::new(), geteuid().as_raw());
    let left = scratch.0.join(format!("{}0", folder::prefix(DIRECTORY)));
    fs::create_dir(&left).unwrap();
    fs::write(left.join("smlockseg-job"), "left").unwrap();
    let _files = make(&scratch.0, "job", 2, own).unwrap();
    assert!(!left.exists() && scratch.entries().len() == 1);
}

#[test]
fn the_first_job_of_a_server_with_a_directory_to_itself_has_its_files_there() {
    let scratch = TestDirectory::new();
    fs::write(scratch.0.join("file"), "kept").unwrap();
    let (maker, uid) = (Maker::new(&scratch.0, true), geteuid().as_raw());
    let make =
        |nspace| maker.make(&JobFacts { nspace: &Nspace::new(nspace).unwrap(), ranks: 1, local: 1, uid, gid: uid });
    let first = make("first").unwrap();
    assert_eq!((path_of(&*first), scratch.entries().len()), (scratch.0.clone(), 3));
    let second = make("second").unwrap();
    assert_eq!(path_of(&*second).parent(), Some(&*scratch.0));
    drop(first);
    assert_eq!(scratch.entries().len(), 2);
    drop(second);
    assert_eq!(scratch.entries(), [scratch.0.join("file")]);
}
