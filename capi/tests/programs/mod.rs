//! Starting of programs by tests: in an environment without a launcher, as they are or under valgrind.
use std::env;
use std::path::Path;
use std::process::Command;

/// A program that nobody launched.
pub fn alone(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if ["PMIX_", "INSTANTON_", "OMPI_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Returns a command under valgrind, which fails at an error or a leak; nothing where it is not
/// installed, which is printed.
pub fn checked(program: &Path) -> Option<Command> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind is not installed: {} runs without it", program.display());
        return None;
    }
    let mut command = alone(Path::new("valgrind"));
    // No debugger is waited for: its pipes would stay behind where a process is killed.
    command.args(["-q", "--vgdb=no", "--error-exitcode=99"]);
    command.args(["--leak-check=full", "--errors-for-leak-kinds=definite,indirect"]).arg(program);
    Some(command)
}
