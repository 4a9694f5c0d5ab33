//! `instanton query`: asks servers for any key and prints a value of any type; `--keys` lists the keys that there are.
use anyhow::Result;
use clap::Args;
use instanton::data::{DataType, Info, InfoList, LOAD, Query, Rank, Text, Value, WAITING, keys};
use serde::Serialize;
use serde_json::Value as Json;

use super::answers::Answered;
use super::job_row::JOBS;
use super::places::{From, Server};
use super::ps::NOT_TOLD;
use super::source::{Failure, Source};
use super::{answers, jobs, json, table};
use crate::out::{self, refuse};
use crate::outcome::{FAILURE, SENSELESS};

/// `instanton query`.
#[derive(Clone, Debug, Args)]
pub struct Ask {
    /// Keys to ask for: PMIX_QUERY_NAMESPACES, QUERY_NAMESPACES, pmix.qry.ns, or a key that a rank has put
    #[arg(value_name = "KEY", required_unless_present = "keys")]
    wanted: Vec<String>,
    /// Job or rank that the query is about: NAMESPACE, NAMESPACE:RANK, or the number of a job in place of its namespace.
    /// By default it is the server's only job
    #[arg(long = "for", value_name = "PROC")]
    about: Option<String>,
    /// Qualifier of the query, by its key; its value is true unless one is given
    #[arg(long = "with", value_name = "KEY[=VALUE]")]
    qualifiers: Vec<String>,
    /// Ask only the server of this node of a run: its name, or its number from 0
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    #[command(flatten)]
    from: From,
    /// List the keys that can be asked for, and the types of their values
    #[arg(long, conflicts_with_all = ["about", "qualifiers", "node"])]
    keys: bool,
    /// Print JSON, as docs/SCHEMAS.md describes it
    #[arg(long)]
    json: bool,
}

/// Keys of this project's own that servers and launchers answer.
const OWN: [(&str, &str); 3] = [
    (WAITING, "who waits in which call for whom"),
    (LOAD, "requests, memory and segments"),
    (JOBS, "jobs of a launcher"),
];

/// A server's answers, as JSON has them.
#[derive(Serialize)]
struct Answers {
    server: Server,
    node: Option<String>,
    error: Option<String>,
    status: Option<String>,
    answers: Vec<Json>,
}

/// Line where there is no server, or none but those of other users.
const NOTHING: &str = "no server lets tools in; see `instanton ps`";

/// Asks. Returns the status to exit with: 0 if something was answered.
pub fn run(options: &Ask) -> Result<u8> {
    if options.keys {
        return list(options.json);
    }
    let qualifiers = match options.qualifiers.iter().map(|text| qualifier(text)).collect::<Result<Vec<_>, _>>() {
        Ok(qualifiers) => qualifiers,
        Err(line) => return refuse(&line, SENSELESS),
    };
    let servers = match options.from.servers() {
        Ok(servers) if servers.is_empty() => return refuse(NOTHING, FAILURE),
        Ok(servers) => servers,
        Err(line) => return refuse(&line, FAILURE),
    };
    let is_named = options.from.named().is_some();
    let (mut all, mut refusals, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for server in servers {
        match ask(options, server.clone(), &qualifiers) {
            Ok(Ok(answered)) => all.push(answered),
            Ok(Err(Refusal::OtherNode(name))) => nodes.push(name),
            Ok(Err(Refusal::NoSubject(line))) => refusals.push(line),
            Err(Failure::NotOurs) if !is_named => {}
            Err(failure) => all.push(Answered { server, node: None, told: Err(failure.words()) }),
        }
    }
    if all.is_empty() && refusals.is_empty() && !nodes.is_empty() {
        let wanted = options.node.as_deref().unwrap_or_default();
        refusals.push(format!("--node {wanted}: there is no such node; there is {}", nodes.join(", ")));
    }
    if all.is_empty() {
        return refuse(refusals.first().map_or(NOTHING, String::as_str), FAILURE);
    }
    let code = match all.iter().any(|answered| answered.told.is_ok()) {
        false => FAILURE,
        true if all.iter().any(Answered::is_known) => 0,
        true => NOT_TOLD,
    };
    if options.json {
        #[derive(Serialize)]
        struct Shown {
            servers: Vec<Answers>,
        }
        let shown = |Answered { server, node, told }: Answered| match told {
            Ok((status, infos)) => {
                let answers = infos.iter().map(json::info).collect();
                Answers { server, node, error: None, status: Some(status.to_string()), answers }
            }
            Err(error) => Answers { server, node, error: Some(error), status: None, answers: Vec::new() },
        };
        json::print("query", &Shown { servers: all.into_iter().map(shown).collect() })?;
        return Ok(code);
    }
    let keys: Vec<String> = options.wanted.iter().map(|key| key_of(key)).collect();
    out::write(&answers::text(&keys, &all))?;
    Ok(code)
}

/// Reason why a server that can be reached is not asked.
enum Refusal {
    /// Another node is meant than this one.
    OtherNode(String),
    /// The server does not have what the question is about; a line that says so.
    NoSubject(String),
}

/// A server's answers, unless it is not asked.
type Told = Result<Answered, Refusal>;

fn ask(options: &Ask, server: Server, qualifiers: &[Info]) -> Result<Told, Failure> {
    let source = Source::attach(server)?;
    let node = source.node()?;
    if let Some(wanted) = &options.node {
        let number = source.server.node().map(|number| number.to_string());
        if number.as_ref() != Some(wanted) && node.as_ref() != Some(wanted) {
            return Ok(Err(Refusal::OtherNode(node.or(number).unwrap_or_else(|| source.server.words()))));
        }
    }
    let about = match &options.about {
        None => only_job(&source, &options.wanted, qualifiers)?,
        Some(text) => subject(&source, text)?,
    };
    let mut about = match about {
        Ok(about) => about,
        Err(line) => return Ok(Err(Refusal::NoSubject(line))),
    };
    about.extend_from_slice(qualifiers);
    let wanted: Vec<Text> = options.wanted.iter().filter_map(|key| Text::new(key_of(key)).ok()).collect();
    let answer = source.queried(vec![Query { keys: wanted, qualifiers: about }])?;
    let told = Ok(answer.unwrap_or_else(|status| (status, Vec::new())));
    Ok(Ok(Answered { server: source.server.clone(), node, told }))
}

/// The key that is meant by a name with or without its prefix; a key is its own.
fn key_of(text: &str) -> String {
    let named = keys::key_of(text).or_else(|| keys::key_of(format!("PMIX_{text}")));
    let named = named.or_else(|| keys::key_of(format!("PMIX_QUERY_{text}")));
    named.and_then(|key| key.to_str().ok()).unwrap_or(text).to_owned()
}

/// The qualifiers for what `--for` names: `NAMESPACE[:RANK]`, where a number stands for the job of that number.
fn subject(source: &Source, text: &str) -> Result<Result<Vec<Info>, String>, Failure> {
    let (name, rank) = match text.rsplit_once(':') {
        Some((name, "*")) => (name, Some(Rank::WILDCARD)),
        Some((name, rank)) if rank.parse::<u32>().is_ok() => (name, rank.parse().ok().map(Rank)),
        _ => (text, None),
    };
    let Ok(number) = name.parse::<u32>() else {
        return Ok(jobs::about(name, rank).ok_or_else(|| format!("{text}: no name of a job or a rank")));
    };
    let found = jobs::of(source, false)?;
    let job = found.iter().find(|job| job.number == Some(number));
    let about = job.and_then(|job| jobs::about(&job.namespace, rank));
    Ok(about.ok_or_else(|| format!("{text}: there is no job {number}; see `instanton ps`")))
}

/// Returns whether a key is about a job; this tool has a job of its own, and nobody asks for that.
fn is_of_job(key: &str) -> bool {
    const QUERIES: [&str; 4] =
        [keys::QUERY_JOB_STATUS, keys::QUERY_PROC_TABLE, keys::QUERY_LOCAL_PROC_TABLE, keys::QUERY_MEMORY_USAGE];
    const OTHERS: [&str; 3] = [keys::SERVER_URI, keys::TIME_REMAINING, keys::HOSTNAME];
    let is_query = keys::name_of(key).is_some_and(|name| name.to_bytes().starts_with(b"PMIX_QUERY_"));
    QUERIES.contains(&key) || !is_query && !OTHERS.contains(&key) && !key.starts_with("instanton.")
}

/// The qualifiers for the only job of a server, where a key is about a job and nothing says about which.
fn only_job(source: &Source, wanted: &[String], qualifiers: &[Info]) -> Result<Result<Vec<Info>, String>, Failure> {
    const SUBJECTS: [&str; 6] = [keys::PROCID, keys::NSPACE, keys::JOBID, keys::RANK, keys::PSET_NAME, keys::GROUP_ID];
    let Some(of_job) = wanted.iter().find(|key| is_of_job(&key_of(key))) else { return Ok(Ok(Vec::new())) };
    if SUBJECTS.iter().any(|key| qualifiers.find(key).is_some()) {
        return Ok(Ok(Vec::new()));
    }
    let found = jobs::of(source, false)?;
    let named = |job: &jobs::Job| job.number.map_or_else(|| job.namespace.clone(), |number| number.to_string());
    Ok(match &found[..] {
        [only] => Ok(jobs::about(&only.namespace, None).unwrap_or_default()),
        [] => Err(format!("{of_job} is about a job, and there is none; see `instanton ps`")),
        several => {
            let names: Vec<String> = several.iter().map(named).collect();
            Err(format!("{of_job} is about a job: --for names one of {}; see `instanton ps`", names.join(", ")))
        }
    })
}

/// Reads a qualifier; its value has the type that the Standard gives its key.
fn qualifier(text: &str) -> Result<Info, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let key = key_of(name);
    let bad = || format!("{text}: {name} takes no such value");
    let value = match (value, keys::type_of(&key)) {
        (None, _) => Value::from(true),
        (Some(value), Some(DataType::BOOL)) => Value::from(value.parse::<bool>().map_err(|_| bad())?),
        (Some(value), Some(DataType::UINT32)) => Value::Uint32(value.parse().map_err(|_| bad())?),
        (Some(value), Some(DataType::PROC_RANK)) => Value::ProcRank(Rank(value.parse().map_err(|_| bad())?)),
        (Some(value), Some(DataType::INT)) => Value::Int(value.parse().map_err(|_| bad())?),
        (Some(value), Some(DataType::SIZE)) => Value::Size(value.parse().map_err(|_| bad())?),
        (Some(value), Some(DataType::PID)) => Value::Pid(value.parse().map_err(|_| bad())?),
        (Some(value), _) => Value::String(Some(Text::new(value).map_err(|_| bad())?)),
    };
    let key = instanton::data::Key::new(&key).map_err(|_| format!("{name}: no key"))?;
    Ok(Info { key, flags: 0, value })
}

fn list(in_json: bool) -> Result<u8> {
    let is_asked = |name: &str| name.starts_with("PMIX_QUERY_") || EXTRA.contains(&name);
    let ty = |number: u16| match DataType(number) {
        DataType::UNDEF => "-",
        ty => ty.name().unwrap_or("-"),
    };
    let standard = keys::all().filter(|(name, ..)| is_asked(name)).map(|(name, key, number)| (name, key, ty(number)));
    if in_json {
        #[derive(Serialize)]
        struct Known {
            name: Option<&'static str>,
            key: &'static str,
            r#type: Option<&'static str>,
        }
        #[derive(Serialize)]
        struct Shown {
            keys: Vec<Known>,
        }
        let known =
            standard.map(|(name, key, ty)| Known { name: Some(name), key, r#type: Some(ty).filter(|ty| *ty != "-") });
        let own = OWN.iter().map(|(key, _)| Known { name: None, key, r#type: DataType::DATA_ARRAY.name() });
        json::print("query-keys", &Shown { keys: known.chain(own).collect() })?;
        return Ok(0);
    }
    let standard = standard.map(|(name, key, ty)| vec![name.to_owned(), key.to_owned(), ty.to_owned()]);
    let own = OWN.iter().map(|(key, what)| vec![format!("({what})"), (*key).to_owned(), "PMIX_DATA_ARRAY".to_owned()]);
    out::write(&table::table(&["NAME", "KEY", "TYPE"], standard.chain(own), table::width()))?;
    Ok(0)
}

/// Attributes that are asked for beside those of queries: what a host registers of a job.
const EXTRA: [&str; 14] = [
    "PMIX_JOB_SIZE",
    "PMIX_UNIV_SIZE",
    "PMIX_MAX_PROCS",
    "PMIX_NUM_NODES",
    "PMIX_JOB_NUM_APPS",
    "PMIX_NODE_LIST",
    "PMIX_LOCAL_SIZE",
    "PMIX_LOCAL_PEERS",
    "PMIX_HOSTNAME",
    "PMIX_NODEID",
    "PMIX_LOCAL_RANK",
    "PMIX_PROC_PID",
    "PMIX_TIME_REMAINING",
    "PMIX_SERVER_URI",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_name_with_or_without_prefix() {
        for text in ["PMIX_QUERY_NAMESPACES", "query_namespaces", "NAMESPACES", "pmix.qry.ns"] {
            assert_eq!(key_of(text), keys::QUERY_NAMESPACES, "{text}");
        }
        assert_eq!(key_of("my.key"), "my.key");
        assert!(EXTRA.iter().all(|name| keys::key_of(name).is_some()));
    }

    #[test]
    fn qualifiers_have_the_types_of_their_keys() {
        assert_eq!(qualifier("NODEID=3"), Ok(Info::new(keys::NODEID, 3u32)));
        assert_eq!(qualifier("PMIX_QUERY_REPORT_AVG"), Ok(Info::new(keys::QUERY_REPORT_AVG, true)));
        assert_eq!(qualifier("HOSTNAME=n1"), Ok(Info::new(keys::HOSTNAME, "n1")));
        assert!(qualifier("NODEID=x").is_err_and(|line| line.contains("NODEID=x")));
    }
}
