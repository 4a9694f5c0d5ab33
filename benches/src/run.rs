//! Running the measuring programs with a library of choice.
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::samples::{NotASample, Samples};

/// No measurement takes longer than that, in seconds, however slow a library is.
const LIMIT: &str = "120";

/// Reasons why there are no numbers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No library lies there.
    #[error("there is no libpmix.so.2 beside {0}")]
    NoLibrary(PathBuf),
    /// The program cannot be started.
    #[error("{command}: {error}")]
    Start {
        /// The command that was to run.
        command: String,
        /// The reason.
        error: io::Error,
    },
    /// The program failed, or took too long: then its status is 124.
    #[error("{command}: {status}")]
    Failed {
        /// The command that ran.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
    },
    /// The program says something else than samples.
    #[error(transparent)]
    Output(#[from] NotASample),
}

/// An implementation of PMIx, and the launcher that belongs to it.
pub struct Library {
    folder: PathBuf,
    launcher: Vec<String>,
    /// Words before a program that has this library by the loader of another suite, and before each client, where that
    /// has another library than the server.
    loader: Vec<String>,
    clients: Vec<String>,
    /// Folders of plug-ins, where they are not those that the library looks into by itself.
    plugins: Option<String>,
}

impl Library {
    /// The library whose file, `libpmix.so.2` or what that leads to, is named. `launcher` is a command and its options.
    ///
    /// # Errors
    /// [`RunError::NoLibrary`].
    pub fn new(file: &Path, launcher: &[&str]) -> Result<Self, RunError> {
        let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
        let folder = folder.filter(|folder| folder.join("libpmix.so.2").exists());
        let folder = folder.ok_or_else(|| RunError::NoLibrary(file.to_owned()))?;
        let launcher = launcher.iter().map(|word| (*word).to_owned()).collect();
        Ok(Self { folder, launcher, loader: Vec::new(), clients: Vec::new(), plugins: None })
    }

    /// The library of a later suite, which has been unpacked into a folder with its C library: programs run by the
    /// loader of that. It has no launcher.
    ///
    /// # Errors
    /// [`RunError::NoLibrary`].
    pub fn of_suite(root: &Path) -> Result<Self, RunError> {
        let libraries = root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        let mut library = Self::new(&libraries.join("pmix2/lib/libpmix.so.2"), &[])?;
        let folders = ["usr/lib64", "usr/lib"].map(|folder| std::fs::read_dir(root.join(folder)));
        let files = folders.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
        let is_loader = |file: &PathBuf| file.to_string_lossy().contains("/ld-linux-");
        let loader = files.into_iter().find(is_loader).ok_or_else(|| RunError::NoLibrary(root.to_owned()))?;
        let path = format!("{}:{}", library.folder.display(), libraries.display());
        library.loader = [loader.display().to_string(), "--library-path".to_owned(), path].into();
        library.clients = library.loader.clone();
        library.plugins = Some(library.own_plugins().display().to_string());
        Ok(library)
    }

    /// Returns whether the file has such a text.
    #[must_use]
    pub fn says(&self, text: &str) -> bool {
        let file = std::fs::read(self.folder.join("libpmix.so.2")).unwrap_or_default();
        file.windows(text.len()).any(|found| found == text.as_bytes())
    }

    /// Folder of the plug-ins that were made with the library.
    fn own_plugins(&self) -> PathBuf {
        let file = self.folder.join("libpmix.so.2");
        file.canonicalize().unwrap_or(file).with_file_name("pmix")
    }

    /// Another launcher with the libraries beside it, for programs that are linked with no PMIx.
    #[must_use]
    pub fn of_launcher(launcher: &Path) -> Self {
        let folder = launcher.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join("lib");
        let (loader, clients) = Default::default();
        Self { folder, launcher: vec![launcher.display().to_string()], loader, clients, plugins: None }
    }

    /// This library in servers, with a plug-in from another folder beside its own, and `clients` in the others.
    #[must_use]
    pub fn with_plugin(&self, plugin: &Path, clients: &Library) -> Self {
        let plugins = format!("{}:{}", plugin.display(), self.own_plugins().display());
        Self { plugins: Some(plugins), ..self.with_clients(clients) }
    }

    /// This library in servers, and `clients` in the others.
    #[must_use]
    pub fn with_clients(&self, clients: &Library) -> Self {
        let words = match clients.loader.is_empty() {
            true => ["/usr/bin/env".to_owned(), format!("LD_LIBRARY_PATH={}", clients.folder.display())].into(),
            false => clients.loader.clone(),
        };
        let (folder, launcher, loader) = (self.folder.clone(), self.launcher.clone(), self.loader.clone());
        Self { folder, launcher, loader, clients: words, plugins: clients.plugins.clone() }
    }

    /// Returns the command that is its launcher.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.launcher[0]
    }

    /// Returns the folder that it lies in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command line on this library; what it prints, and how long it took in microseconds.
    fn run(&self, seed: u64, words: &[String]) -> Result<(String, f64), RunError> {
        let command = words.join(" ");
        let mut run = Command::new("timeout");
        run.args(["-k", "5", LIMIT]).args(words).stdin(Stdio::null()).stderr(Stdio::inherit());
        run.env("BENCH_SEED", seed.to_string());
        // Programs of this machine would have another suite's C library.
        match self.loader.is_empty() {
            true => run.env("LD_LIBRARY_PATH", &self.folder),
            false => run.env_remove("LD_LIBRARY_PATH"),
        };
        run.envs(self.plugins.iter().map(|folders| ("PMIX_MCA_mca_base_component_path", folders)));
        let start = Instant::now();
        let output = run.output().map_err(|error| RunError::Start { command: command.clone(), error })?;
        let took = start.elapsed().as_secs_f64() * 1e6;
        match output.status.success() {
            true => Ok((String::from_utf8_lossy(&output.stdout).into_owned(), took)),
            false => Err(RunError::Failed { command, status: output.status }),
        }
    }
}

/// The measuring programs, and the seed of whatever they choose at random.
pub struct Programs {
    /// Folder of the compiled programs.
    pub folder: PathBuf,
    /// Theirs and ours.
    pub seed: u64,
}

impl Programs {
    /// Returns the path of a measuring program.
    #[must_use]
    pub fn path(&self, program: &str) -> String {
        self.folder.join(program).display().to_string()
    }

    /// Runs `host OPTIONS` with the clients `PROGRAM ARGUMENTS`, or none, and keeps their samples with `prefix` in
    /// front. A neighbour of the clients is possible where these need no loader.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn host(
        &self,
        library: &Library,
        prefix: &str,
        options: &str,
        client: &str,
        samples: &mut Samples,
    ) -> Result<(), RunError> {
        let mut command = library.loader.clone();
        command.push(self.path("host"));
        command.extend(options.split_whitespace().map(str::to_owned));
        let mut client = client.split_whitespace();
        if let Some(program) = client.next() {
            command.extend(library.clients.iter().cloned());
            command.push(self.path(program));
            command.extend(client.map(str::to_owned));
        }
        Ok(samples.read(prefix, &library.run(self.seed, &command)?.0)?)
    }

    /// Runs a program that makes do without any PMIx.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn alone(
        &self,
        library: &Library,
        prefix: &str,
        words: &[&str],
        samples: &mut Samples,
    ) -> Result<(), RunError> {
        let mut command = vec![self.path(words[0])];
        command.extend(words[1..].iter().map(|word| (*word).to_owned()));
        Ok(samples.read(prefix, &library.run(self.seed, &command)?.0)?)
    }

    /// Runs a program under the library's own launcher: what it prints, and how long all of it took in microseconds.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn launch(
        &self,
        library: &Library,
        ranks: u32,
        program: &Path,
        words: &[&str],
    ) -> Result<(String, f64), RunError> {
        let mut command = library.launcher.clone();
        command.extend(["-n".to_owned(), ranks.to_string(), program.display().to_string()]);
        command.extend(words.iter().map(|word| (*word).to_owned()));
        library.run(self.seed, &command)
    }
}
