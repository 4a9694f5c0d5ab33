//! Samples: what all servers tell at one time, by one question to each.
use std::time::Instant;

use instanton::data::{InfoList, LOAD, Load, WAITING, WaitReport};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::see::jobs::{self, Job};
use crate::see::missing;
use crate::see::places::{From, Server};
use crate::see::ps::{WaitRow, wait_row};
use crate::see::source::{Failure, Source};

/// Answers of all servers at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time of it.
    pub at: Instant,
    /// The servers, in the order of their processes.
    pub servers: Vec<ServerSample>,
}

/// Answer of one server.
#[derive(Clone, Debug)]
pub struct ServerSample {
    /// The server.
    pub server: Server,
    /// Reason why it told nothing.
    pub error: Option<String>,
    /// Its jobs, with their ranks where those are wanted.
    pub jobs: Vec<Job>,
    /// Its load, if it tells it.
    pub load: Option<Load>,
    /// Waiting processes, if it tells of them.
    pub waiting: Option<WaitReport>,
}

/// The servers that are watched, and the ways to them.
pub struct Watched {
    from: From,
    sources: Vec<Source>,
}

impl Watched {
    /// Watches the servers that are meant; more may come, unless one is named.
    pub fn new(from: From) -> Self {
        Self { from, sources: Vec::new() }
    }

    /// Asks every server, new ones too. `ranks_of` is the namespace whose ranks are wanted.
    ///
    /// # Errors
    /// A line on the server that is named, when it is not there.
    pub fn sample(&mut self, ranks_of: Option<&str>) -> Result<Sample, String> {
        self.sources.retain(|source| source.client().is_connected());
        let mut servers = Vec::new();
        let is_named = self.from.named().is_some();
        if !is_named || self.sources.is_empty() {
            for server in self.from.servers()? {
                if self.sources.iter().any(|source| source.server.is_same(&server)) {
                    continue;
                }
                match Source::attach(server.clone()) {
                    Ok(source) => self.sources.push(source),
                    Err(Failure::NotOurs) if !is_named => {}
                    Err(failure) => servers.push(ServerSample::failed(server, &failure)),
                }
            }
        }
        for source in &self.sources {
            servers.push(match look(source, ranks_of) {
                Ok(sample) => sample,
                Err(failure) => ServerSample::failed(source.server.clone(), &failure),
            });
        }
        servers.sort_by_key(|sample| sample.server.pid);
        missing::name_missing(&mut servers.iter_mut().filter_map(|sample| sample.waiting.as_mut()).collect::<Vec<_>>());
        Ok(Sample { at: Instant::now(), servers })
    }
}

fn look(source: &Source, ranks_of: Option<&str>) -> Result<ServerSample, Failure> {
    let answers = source.ask(&[&jobs::KEYS[..], &[LOAD, WAITING]].concat(), &[])?;
    let value = |key| answers.find(key).map(|info| &info.value);
    let mut jobs = jobs::read(source, &answers)?;
    for job in &mut jobs {
        if ranks_of == Some(&job.namespace) {
            job.procs = jobs::processes(source, &job.namespace)?;
        }
    }
    Ok(ServerSample {
        server: source.server.clone(),
        error: None,
        jobs,
        load: value(LOAD).and_then(Load::from_value),
        waiting: value(WAITING).and_then(WaitReport::from_value),
    })
}

impl ServerSample {
    /// Adds what the server of another node of the same run tells of its jobs, which are told once.
    fn add(&mut self, other: Self) {
        if let Some(load) = other.load {
            self.load.get_or_insert_default().add(load);
        }
        if let Some(waiting) = other.waiting {
            self.waiting.get_or_insert_default().add(waiting);
        }
    }

    fn failed(server: Server, failure: &Failure) -> Self {
        Self { server, error: Some(failure.words()), jobs: Vec::new(), load: None, waiting: None }
    }
}

impl Sample {
    /// The same, with the servers of a run's nodes as one. A server that has failed stays alone.
    pub fn by_run(self) -> Self {
        let mut servers: Vec<ServerSample> = Vec::new();
        for sample in self.servers {
            let is_told = sample.error.is_none();
            let of_run = |known: &&mut ServerSample| known.error.is_none() && known.server.is_of_run(&sample.server);
            match servers.iter_mut().find(of_run).filter(|_| is_told) {
                Some(known) => known.add(sample),
                None => servers.push(sample),
            }
        }
        Self { servers, ..self }
    }
}

/// A sample, as JSON has it.
#[derive(Serialize)]
pub struct Document {
    time: String,
    servers: Vec<ServerDocument>,
}

#[derive(Serialize)]
struct ServerDocument {
    server: Server,
    error: Option<String>,
    jobs: Vec<Job>,
    load: Json,
    waiting: Option<Vec<WaitRow>>,
}

impl Document {
    /// The document of a sample.
    pub fn of(sample: Sample) -> Self {
        let server = |sample: ServerSample| ServerDocument {
            server: sample.server,
            error: sample.error,
            jobs: sample.jobs,
            load: sample.load.as_ref().map_or(Json::Null, load),
            waiting: sample.waiting.map(|report| report.rows.iter().map(wait_row).collect()),
        };
        Self { time: crate::see::times::now(), servers: sample.servers.into_iter().map(server).collect() }
    }
}

fn load(load: &Load) -> Json {
    let counts =
        |counts: &[(String, u64)]| Json::Object(counts.iter().map(|(k, n)| (k.clone(), (*n).into())).collect());
    let jobs: Vec<Json> = load
        .jobs
        .iter()
        .map(|job| {
            let shared = job.shared.map(|shared| {
                json!({
                    "bytes": shared.bytes,
                    "limit": shared.limit,
                    "live": shared.live,
                    "retired": shared.retired,
                    "set_aside": shared.set_aside,
                    "segments": shared.segments,
                    "waiting_sets": shared.waiting_sets,
                    "generation": shared.generation,
                })
            });
            json!({
                "namespace": job.nspace.to_string(),
                "ranks": job.size,
                "local": job.local,
                "attached": job.attached,
                "requests": job.requests,
                "held": { "bytes": job.held, "limit": job.held_limit, "kinds": counts(&job.kinds) },
                "shared": shared,
            })
        })
        .collect();
    json!({ "peers": load.peers, "requests": counts(&load.requests), "jobs": jobs })
}
