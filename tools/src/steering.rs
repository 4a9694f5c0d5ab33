//! A run that a tool has started in order to steer it (the indirect launch of a debugger).
//!
//! Actors: the *tool* is a server as well, whose address the run finds in `PMIX_LAUNCHER_RNDZ_URI`; the launcher goes to
//! it as its client. Before it starts ranks it takes the tool's directives (`PMIX_LAUNCH_DIRECTIVES`), says that it is
//! ready (`PMIX_LAUNCHER_READY`), and waits for the tool's word (`PMIX_DEBUGGER_RELEASE`). Once all ranks run it says so
//! (`PMIX_LAUNCH_COMPLETE`). A tool that has other ways to the launcher sets `PMIX_LAUNCHER_PAUSE_FOR_TOOL` alone: it
//! attaches, hears the same, and gives the same word.
//!
//! When the tool dies, its connection ends, and the run with it. When the launcher dies, the tool loses a client, and
//! its launched process.
use std::env;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};
use instanton::client::{Client, Handler};
use instanton::data::{DataRange, Info, Nspace, Proc, Rank, Status, Value, keys};
use instanton::internal::wall_clock;
use instanton::server::Uri;
use instanton::tool::Tool;

use crate::event::Event;

/// The variable with the address of the tool.
const ADDRESS: &str = "PMIX_LAUNCHER_RNDZ_URI";
/// The variable that asks for a wait alone.
const PAUSE: &str = "PMIX_LAUNCHER_PAUSE_FOR_TOOL";
/// Variables of that kind begin so. They are for the launcher, and not for its ranks.
pub const PREFIX: &str = "PMIX_LAUNCHER_";
/// The variable with the name that whoever has started the launcher gives it.
const NAME: &str = "PMIX_NAMESPACE";
/// Seconds that the tool has for a farewell.
const FAREWELL: i32 = 2;

/// A tool's wish to steer the run.
pub enum Wish {
    /// The tool is a server at this address.
    At(Uri),
    /// The tool comes by itself.
    Pause,
}

impl Wish {
    /// Reads it from the environment.
    pub fn read() -> Option<Self> {
        if let Some(text) = env::var_os(ADDRESS) {
            match text.to_string_lossy().parse() {
                Ok(uri) => return Some(Wish::At(uri)),
                Err(error) => tracing::warn!(target: "run", "the run is not steered: {ADDRESS}: {error}"),
            }
        }
        env::var_os(PAUSE).map(|_| Wish::Pause)
    }

    /// The name that a tool has given its launcher, if it has started that as one of its own processes.
    pub fn name(&self) -> Option<Nspace> {
        let Wish::At(uri) = self else { return None };
        let name = env::var_os(NAME)?;
        let own = [uri.server.nspace.as_bytes(), b"@"].concat();
        Nspace::new(name.as_bytes()).ok().filter(|name| name.as_bytes().starts_with(&own))
    }
}

/// The way to the tool.
pub struct Steering {
    client: Arc<Client>,
    tool: Proc,
    /// Directives of the tool for the job.
    pub directives: Vec<Info>,
}

impl Steering {
    /// Goes to the tool; its word, and its end, become events.
    ///
    /// # Errors
    /// When it is not there, or will not have us.
    pub fn begin(wish: &Wish, events: &Sender<Event>) -> Result<Option<Self>> {
        let Wish::At(uri) = wish else { return Ok(None) };
        let failed = |error| anyhow!("the tool that has started this run cannot be reached: {error}");
        let client = match wish.name() {
            Some(_) => Arc::new(Client::init(&[]).map_err(failed)?),
            None => {
                let there = Info::new(keys::SERVER_URI, Value::string(uri.to_string()));
                Tool::init(&[there]).map_err(failed)?.primary()
            }
        };
        let events = Mutex::new(events.clone());
        let heard: Handler = Arc::new(move |notice, chain| {
            let event = match notice.status {
                Status::DEBUGGER_RELEASE => Event::Begin,
                _ => Event::SteererGone,
            };
            // The launcher hears nothing any more once it ends.
            let _ = events.lock().unwrap_or_else(PoisonError::into_inner).send(event);
            chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
        });
        let codes = [Status::DEBUGGER_RELEASE, Status::ERR_LOST_CONNECTION];
        client.register_event_handler(&codes, &[], heard).wait().context("the tool's word cannot be heard")?;
        let own = Proc::new(client.proc().nspace.clone(), Rank::WILDCARD);
        let directives = match client.get(&own, keys::LAUNCH_DIRECTIVES, &[Info::new(keys::OPTIONAL, true)]) {
            Ok(Value::DataArray(array)) => array.infos().cloned().collect(),
            _ => Vec::new(),
        };
        Ok(Some(Self { client, tool: uri.server.clone(), directives }))
    }

    /// The tool.
    pub fn tool(&self) -> &Proc {
        &self.tool
    }

    /// Tells the tool something of this launcher.
    pub fn tell(&self, status: Status, more: Option<Info>) {
        let now = wall_clock::since_1970().as_secs();
        let always = [
            Info::new(keys::EVENT_CUSTOM_RANGE, self.tool.clone()),
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_TIMESTAMP, Value::Time(now as i64)),
        ];
        let told: Vec<Info> = always.into_iter().chain(more).collect();
        // One that is gone is told nothing.
        let _ = self.client.notify_event(status, self.client.proc(), DataRange::CUSTOM, &told).then(|_| ());
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        // One that is gone, or stuck, is left.
        let _ = self.client.finalize(&[Info::new(keys::TIMEOUT, FAREWELL)]);
    }
}
