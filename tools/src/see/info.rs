//! `instanton info`: the build, its paths and limits, and what it supports.
use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use instanton::data::{DataArray, Info, Key, Nspace, Query, Text, Value, keys};
use instanton::internal::client::{PROVISIONAL_ABI, STABLE_ABI};
use instanton::launch::MOST_RANKS;
use instanton::server::ServerConfig;
use instanton::tool::Tool;
use serde::Serialize;

use super::{json, table};
use crate::build;
use crate::out;
use crate::session::Session;

/// `instanton info`.
#[derive(Clone, Debug, Args)]
pub struct InfoOptions {
    /// List the attributes that each function supports
    #[arg(short, long)]
    attributes: bool,
    /// Print JSON, as docs/SCHEMAS.md describes it; attributes are always in it
    #[arg(long)]
    json: bool,
}

/// Everything that is shown.
#[derive(Debug, Serialize)]
struct Build {
    release: &'static str,
    commit: &'static str,
    build: &'static str,
    target: String,
    /// Version of the layout of shared memory.
    layout: u32,
    /// Versions of the Standard's binary interface, stable and provisional.
    stable_abi: &'static str,
    provisional_abi: &'static str,
    paths: Paths,
    limits: Limits,
    /// Variables of this environment that change what is done.
    variables: Vec<Variable>,
    /// Numbers of the Standard's names that are known.
    known: Known,
    /// Attributes that are supported, by level and function.
    attributes: Vec<Level>,
}

#[derive(Debug, Serialize)]
struct Paths {
    command: Option<PathBuf>,
    /// The C library beside the command, if there is one.
    library: Option<PathBuf>,
    headers: Option<PathBuf>,
    pages: Option<PathBuf>,
    temporary: Option<PathBuf>,
    /// Beginning of the names of session directories.
    sessions: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Limits {
    namespace_bytes: usize,
    key_bytes: usize,
    ranks_of_a_run: u32,
    /// Bytes that the processes of one job make a server hold at most; as many again of shared memory.
    job_memory_bytes: u64,
    host_answer_seconds: u64,
    get_patience_seconds: u64,
}

#[derive(Debug, Serialize)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Debug, Serialize)]
struct Known {
    attributes: usize,
}

#[derive(Debug, Serialize)]
struct Level {
    level: &'static str,
    functions: Vec<Function>,
}

#[derive(Debug, Serialize)]
struct Function {
    name: String,
    attributes: Vec<String>,
}

/// Variables that change what the library and the command do.
const VARIABLES: [&str; 9] = [
    "INSTANTON_TRACE",
    "INSTANTON_SHM",
    "INSTANTON_IN",
    "INSTANTON_JOB_MEMORY",
    "INSTANTON_RANK_LIBRARY",
    "INSTANTON_STOCK_CLIENTS",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "TMPDIR",
];

/// Shows the build; `launcher` are the functions of `instanton run`, with the attributes that it supports. Returns the status to exit with.
pub fn run(options: &InfoOptions, launcher: &[(&str, &str)]) -> Result<u8> {
    let build = gather(launcher);
    match options.json {
        true => json::print("info", &build)?,
        false => out::write(&text(&build, options.attributes))?,
    }
    Ok(0)
}

fn gather(launcher: &[(&str, &str)]) -> Build {
    let command = env::current_exe().ok();
    let beside = |name: &str| {
        let top = command.as_deref().and_then(Path::parent).and_then(Path::parent)?;
        Some(top.join(name)).filter(|path| path.exists())
    };
    let home = Session::home().ok();
    let config = ServerConfig::default();
    let variable = |name: &&str| {
        let value = env::var_os(name)?.to_string_lossy().into_owned();
        Some(Variable { name: (*name).to_owned(), value })
    };
    Build {
        release: build::RELEASE,
        commit: build::COMMIT,
        build: build::KIND,
        target: build::target(),
        layout: build::LAYOUT,
        stable_abi: STABLE_ABI,
        provisional_abi: PROVISIONAL_ABI,
        paths: Paths {
            library: beside("lib/libpmix.so.2"),
            headers: beside("include/pmix.h"),
            pages: beside("share/man"),
            sessions: home.as_ref().map(|home| home.join(Session::prefix())),
            temporary: home,
            command,
        },
        limits: Limits {
            namespace_bytes: Nspace::MAX,
            key_bytes: Key::MAX,
            ranks_of_a_run: MOST_RANKS,
            job_memory_bytes: config.job_memory,
            host_answer_seconds: config.host_answer_deadline.as_secs(),
            get_patience_seconds: config.get_patience.as_secs(),
        },
        variables: VARIABLES.iter().filter_map(variable).collect(),
        known: Known { attributes: keys::all().len() },
        attributes: levels(launcher),
    }
}

/// The attributes of each level, as the library answers a query for them, and those of `instanton run`.
fn levels(launcher: &[(&str, &str)]) -> Vec<Level> {
    const LEVELS: [(&str, &str); 3] =
        [("client", keys::CLIENT_ATTRIBUTES), ("server", keys::SERVER_ATTRIBUTES), ("tool", keys::TOOL_ATTRIBUTES)];
    let Ok(alone) = Tool::init(&[Info::new(keys::TOOL_DO_NOT_CONNECT, true)]) else { return Vec::new() };
    let mut levels: Vec<Level> = LEVELS
        .into_iter()
        .filter_map(|(level, key)| {
            let asked = Text::new(keys::QUERY_ATTRIBUTE_SUPPORT).ok()?;
            let query = Query { keys: vec![asked], qualifiers: vec![Info::new(key, "all")] };
            let (_, answers) = alone.primary().query(&[query]).wait().ok()?;
            let Some(Value::DataArray(array)) = answers.first().map(|info| &info.value) else { return None };
            Some(Level { level, functions: functions(array) })
        })
        .collect();
    let own = launcher.iter().map(|(function, attributes)| Function {
        name: (*function).to_owned(),
        attributes: attributes.split_ascii_whitespace().map(str::to_owned).collect(),
    });
    levels.push(Level { level: "launcher", functions: own.collect() });
    levels
}

fn functions(array: &DataArray) -> Vec<Function> {
    let named = |value: &Value| match value {
        Value::Regattr(attribute) => Some(attribute.name.as_ref()?.to_string_lossy().into_owned()),
        _ => None,
    };
    let function = |info: &Info| {
        let Value::DataArray(of) = &info.value else { return None };
        Some(Function { name: info.key.to_string(), attributes: of.items().iter().filter_map(named).collect() })
    };
    array.infos().filter_map(function).collect()
}

fn text(build: &Build, with_attributes: bool) -> String {
    let path = |path: &Option<PathBuf>| path.as_ref().map_or_else(|| "-".into(), |path| path.display().to_string());
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let Build { paths, limits, .. } = build;
    let supported: usize = build.attributes.iter().flat_map(|level| &level.functions).map(|f| f.attributes.len()).sum();
    let mut rows: Vec<(String, String)> = [
        ("release", build.release.to_owned()),
        ("commit", build.commit.to_owned()),
        ("build", format!("{}, {}", build.build, build.target)),
        ("layout of shared memory", build.layout.to_string()),
        ("stable ABI of the Standard", build.stable_abi.to_owned()),
        ("provisional ABI", build.provisional_abi.to_owned()),
        ("command", path(&paths.command)),
        ("libpmix.so.2", path(&paths.library)),
        ("headers", path(&paths.headers)),
        ("manual pages", path(&paths.pages)),
        ("temporary directory", path(&paths.temporary)),
        ("session directories", path(&paths.sessions) + "*"),
        ("bytes of a namespace", limits.namespace_bytes.to_string()),
        ("bytes of a key", limits.key_bytes.to_string()),
        ("ranks of a run", limits.ranks_of_a_run.to_string()),
        (
            "memory of a job",
            format!("{}, as much shared memory, and half as much again for both", mebibytes(limits.job_memory_bytes)),
        ),
        ("host's answer at Init", format!("{} s", limits.host_answer_seconds)),
        ("Get of a local key", format!("{} s, unless PMIX_TIMEOUT says otherwise", limits.get_patience_seconds)),
        ("attributes", format!("{} known, {supported} supported; see --attributes", build.known.attributes)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    rows.extend(build.variables.iter().map(|variable| (variable.name.clone(), variable.value.clone())));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text: String =
        rows.iter().map(|(name, value)| format!("{name:width$}  {}\n", table::plain(value))).collect();
    if with_attributes {
        for Level { level, functions } in &build.attributes {
            text += &format!("\n{level}:\n");
            for Function { name, attributes } in functions {
                text += &format!("  {name}\n");
                attributes.iter().for_each(|attribute| text += &format!("    {attribute}\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_says_what_it_supports() {
        let build = gather(&[("PMIx_Spawn", "PMIX_WDIR")]);
        let levels: Vec<&str> = build.attributes.iter().map(|level| level.level).collect();
        assert_eq!(levels, ["client", "server", "tool", "launcher"]);
        let shown = text(&build, true);
        assert!(shown.contains("\n  PMIx_Get\n    PMIX_OPTIONAL\n"), "{shown}");
        assert!(shown.starts_with("release ") && shown.contains("\nranks of a run  "), "{shown}");
    }
}
