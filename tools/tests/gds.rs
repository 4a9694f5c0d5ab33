//! `instanton gds`: the plug-in for stock servers comes, is told apart from others, and goes.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "pmix_mca_gds_instanton.so";
const PLUGIN: &[u8] = b"\x7fELF pmix_mca_gds_instanton_component";

/// An installed command with its plug-in, and a library with a folder of plug-ins.
struct Place(PathBuf);

impl Place {
    fn new(name: &str, release: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gds-{name}"));
        let _ = fs::remove_dir_all(&folder);
        for part in ["bin", "lib/instanton", "stock/pmix"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        // No copy: a process that another test starts meanwhile would hold it open for writing, and it could not be run.
        fs::hard_link(env!("CARGO_BIN_EXE_instanton"), folder.join("bin/instanton")).unwrap();
        fs::write(folder.join("lib/instanton").join(NAME), PLUGIN).unwrap();
        // For the same machine as the plug-in.
        let library = [&PLUGIN[..20], format!("\0{release} (PMIx Standard: 4.2)\0").as_bytes()].concat();
        fs::write(folder.join("stock/libpmix.so.2"), library).unwrap();
        Place(folder)
    }

    fn plugin(&self) -> PathBuf {
        self.0.join("stock/pmix").join(NAME)
    }

    /// The status of a command, and all that it says.
    fn run(&self, command: &str) -> (bool, String) {
        self.run_for(command, "stock/libpmix.so.2")
    }

    fn run_for(&self, command: &str, file: &str) -> (bool, String) {
        let mut run = Command::new(self.0.join("bin/instanton"));
        let output = run.args(["gds", command, "--for"]).arg(self.0.join(file)).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
}

#[test]
fn the_plug_in_is_installed_shown_and_removed() {
    let place = Place::new("whole", "OpenPMIx 4.2.2rc2");
    assert!(place.run("status").1.contains("is not there"));
    assert!(place.run("install").0);
    assert_eq!(fs::read(place.plugin()).unwrap(), PLUGIN);
    let (_, status) = place.run("status");
    assert!(status.contains("is that of this release") && status.contains("which is served"), "{status}");
    // Nothing of its making is left beside it.
    assert_eq!(fs::read_dir(place.0.join("stock/pmix")).unwrap().count(), 1);
    fs::write(place.plugin(), [PLUGIN, b"older"].concat()).unwrap();
    assert!(place.run("status").1.contains("not that of this command"));
    assert!(place.run("install").0 && place.run("remove").0);
    assert!(!place.plugin().exists());
    assert!(place.run("remove") == (true, format!("{} is not there\n", place.plugin().display())));
}

#[test]
fn everybody_can_load_what_is_installed_with_a_strict_umask() {
    let place = Place::new("umask", "OpenPMIx 4.2.2rc2");
    let command = place.0.join("bin/instanton");
    let mut run = Command::new("/bin/sh");
    run.args(["-c", "umask 077; exec \"$0\" gds install --for \"$1\""]);
    assert!(run.arg(command).arg(place.0.join("stock/libpmix.so.2")).status().unwrap().success());
    assert_eq!(fs::metadata(place.plugin()).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn what_a_killed_command_has_left_goes_with_the_next_one() {
    let place = Place::new("killed", "OpenPMIx 4.2.2rc2");
    let beside = |pid: u32| place.plugin().with_file_name(format!(".{NAME}.{pid}.lo"));
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    for command in ["install", "remove"] {
        fs::write(beside(ended.id()), PLUGIN).unwrap();
        fs::write(beside(std::process::id()), PLUGIN).unwrap();
        assert!(place.run(command).0);
        assert!(!beside(ended.id()).exists() && beside(std::process::id()).exists(), "{command}");
    }
}

#[test]
fn a_file_of_others_is_left_as_it_is() {
    let place = Place::new("foreign", "OpenPMIx 4.2.2rc2");
    fs::write(place.plugin(), b"something else").unwrap();
    for command in ["install", "status", "remove"] {
        let (is_done, said) = place.run(command);
        assert!(!is_done && said.contains("is not a plug-in of this project"), "{command}: {said}");
    }
    assert_eq!(fs::read(place.plugin()).unwrap(), b"something else");
}

#[test]
fn a_release_that_is_not_served_is_refused() {
    let place = Place::new("release", "OpenPMIx 5.0.7");
    let (is_done, said) = place.run("install");
    assert!(!is_done && said.contains("OpenPMIx 5.0.7 is not served"), "{said}");
    assert!(!place.plugin().exists());
    assert!(place.run("status").1.contains("which is not served"));
}

#[test]
fn a_library_that_is_none_is_named() {
    let place = Place::new("none", "something");
    for command in ["install", "status"] {
        let (is_done, said) = place.run(command);
        assert!(!is_done && said.contains("is no library of the reference implementation"), "{said}");
    }
    fs::remove_dir_all(place.0.join("stock/pmix")).unwrap();
    let (is_done, said) = place.run("status");
    assert!(!is_done && said.contains("has no folder of plug-ins"), "{said}");
}

#[test]
fn the_folder_of_a_library_stands_for_the_library() {
    let place = Place::new("beside", "OpenPMIx 4.2.2rc2");
    assert!(place.run_for("install", "stock").0);
    assert_eq!(fs::read(place.plugin()).unwrap(), PLUGIN);
    assert!(place.run_for("status", "stock").1.contains("which is served"));
    assert!(place.run_for("remove", "stock").0 && !place.plugin().exists());
}

#[test]
fn a_library_of_another_machine_is_refused() {
    let place = Place::new("machine", "OpenPMIx 4.2.2rc2");
    let library = place.0.join("stock/libpmix.so.2");
    let mut bytes = fs::read(&library).unwrap();
    bytes[18] ^= 1;
    fs::write(&library, bytes).unwrap();
    let (is_done, said) = place.run("install");
    assert!(!is_done && said.contains("is for another kind of machine than the plug-in"), "{said}");
    assert!(!place.plugin().exists());
}

#[test]
fn no_fifo_is_waited_for() {
    let place = Place::new("fifo", "OpenPMIx 4.2.2rc2");
    let fifo = |file: &Path| assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
    fifo(&place.plugin());
    for command in ["install", "status", "remove"] {
        let (is_done, said) = place.run(command);
        assert!(!is_done && said.contains("cannot be read"), "{command}: {said}");
    }
    fs::remove_file(place.plugin()).unwrap();
    fs::remove_file(place.0.join("stock/libpmix.so.2")).unwrap();
    fifo(&place.0.join("stock/libpmix.so.2"));
    for command in ["install", "status"] {
        let (is_done, said) = place.run(command);
        assert!(!is_done && said.contains("cannot be read"), "{command}: {said}");
    }
}
