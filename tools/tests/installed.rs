//! Manual pages, completions, and `make install`.
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const INSTANTON: &str = env!("CARGO_BIN_EXE_instanton");

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("instanton-installed-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// `scripts/install`
fn install(doing: &str, dist: &Path, prefix: &Path) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/install"));
    command.args([doing.as_ref(), dist, prefix]);
    command
}

#[test]
fn every_option_has_its_place_in_a_manual_page() {
    let share = Folder::new("pages");
    succeed(Command::new(INSTANTON).arg("pages").arg(&share.0));
    let page = |name: &str| fs::read_to_string(share.0.join("man/man1").join(name)).unwrap().replace("\\-", "-");
    assert!(page("instanton.1").contains("instanton-run(1)"));
    let run = page("instanton-run.1");
    let help = text(&succeed(Command::new(INSTANTON).args(["run", "--help"])));
    let options = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let long = options.filter_map(|line| line.split([' ', ',', '=', '[']).find(|word| word.starts_with("--")));
    let mut seen = 0;
    for option in long {
        assert!(run.contains(option), "no {option} in instanton-run(1)");
        seen += 1;
    }
    assert!(seen > 40, "{seen} options in the help");
    let hidden = share.0.join("man/man1/instanton-launch.1");
    assert!(!hidden.exists(), "a page of what is of no use by hand");
}

#[test]
fn bash_completes_options() {
    let share = Folder::new("completions");
    succeed(Command::new(INSTANTON).arg("pages").arg(&share.0));
    for file in ["zsh/site-functions/_instanton", "fish/vendor_completions.d/instanton.fish"] {
        assert!(fs::read_to_string(share.0.join(file)).unwrap().contains("report-bindings"), "{file}");
    }
    let script = r#"source "$0"; COMP_WORDS=(instanton run --report-b); COMP_CWORD=2
        _instanton instanton --report-b run; echo "${COMPREPLY[@]}""#;
    let file = share.0.join("bash-completion/completions/instanton");
    let output = succeed(Command::new("bash").args(["-c", script]).arg(file));
    assert_eq!(text(&output).trim(), "--report-bindings");
}

#[test]
fn the_version_names_the_build() {
    let short = text(&succeed(Command::new(INSTANTON).arg("-V")));
    let long = text(&succeed(Command::new(INSTANTON).arg("--version")));
    assert_eq!(long.lines().next(), short.lines().next());
    assert!(long.contains("commit ") && long.contains("layout"), "{long}");
}

#[test]
fn an_upgrade_leaves_a_running_command_alone_and_a_removal_what_is_not_ours() {
    let folder = Folder::new("upgrade");
    let (dist, prefix) = (folder.0.join("dist"), folder.0.join("prefix"));
    fs::create_dir_all(dist.join("bin")).unwrap();
    fs::create_dir_all(dist.join("lib/pkgconfig")).unwrap();
    fs::copy(INSTANTON, dist.join("bin/instanton")).unwrap();
    fs::write(dist.join("lib/libpmix.so.2"), "first").unwrap();
    std::os::unix::fs::symlink("libpmix.so.2", dist.join("lib/libpmix.so")).unwrap();
    fs::write(dist.join("lib/pkgconfig/pmix.pc"), "").unwrap();
    succeed(&mut install("put", &dist, &prefix));

    let installed = prefix.join("bin/instanton");
    let mut running = Command::new(&installed);
    running.args(["run", "-n", "1", "sh", "-c", "echo up; read line; echo $line"]).env("TMPDIR", &folder.0);
    let mut job = running.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(job.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "up");

    let before = fs::metadata(&installed).unwrap().ino();
    fs::write(dist.join("lib/libpmix.so.2"), "second").unwrap();
    succeed(&mut install("put", &dist, &prefix));
    assert_ne!(fs::metadata(&installed).unwrap().ino(), before, "the file of a running program was written into");
    assert_eq!(fs::read_to_string(prefix.join("lib/libpmix.so")).unwrap(), "second");
    job.stdin.take().unwrap().write_all(b"goes on\n").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "goes on");
    assert!(job.wait().unwrap().success());

    fs::write(prefix.join("lib/other.so"), "").unwrap();
    succeed(&mut install("remove", &dist, &prefix));
    let mut left: Vec<_> = fs::read_dir(prefix.join("lib")).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["other.so"]);
    assert!(!prefix.join("bin").exists());
}

#[test]
fn an_installation_without_a_release_or_with_half_a_path_says_so() {
    let folder = Folder::new("refused");
    for (dist, prefix, word) in [
        (folder.0.join("none"), folder.0.join("prefix"), "make dist"),
        (folder.0.clone(), PathBuf::from("opt/x"), "slash"),
    ] {
        if word == "slash" {
            fs::create_dir_all(folder.0.join("bin")).unwrap();
            fs::copy(INSTANTON, folder.0.join("bin/instanton")).unwrap();
        }
        let output = install("put", &dist, &prefix).output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
    assert!(!folder.0.join("prefix").exists());
}
