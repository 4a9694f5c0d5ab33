//! Coming and going.
use std::sync::{Mutex, PoisonError};

use instanton::client::Client;
use instanton::data::{DataRange, Info, Status, keys};
use libc::c_int;

use crate::boundary::{Outcome, export};
use crate::convert::{made, many};
use crate::session;
use crate::types::*;

/// Keys by which a programming library describes itself in its Init, in the order in which others are told.
const MODEL: [&str; 4] =
    [keys::PROGRAMMING_MODEL, keys::MODEL_LIBRARY_NAME, keys::MODEL_LIBRARY_VERSION, keys::THREADING_MODEL];

/// Model that the first Init of the process has declared.
static FIRST: Mutex<Vec<Info>> = Mutex::new(Vec::new());

/// Returns the event that declares what an Init says of its model, if it says something. Of what is said twice, the last
/// counts.
fn declaration(info: &[Info]) -> Vec<Info> {
    let said = |key: &&str| info.iter().rfind(|info| info.key == **key).cloned();
    let mut model: Vec<Info> = MODEL.iter().filter_map(said).collect();
    if !model.is_empty() {
        model.push(Info::new(keys::EVENT_NON_DEFAULT, true));
    }
    model
}

/// Tells the other libraries in this process that one more is in use: those that have a handler for it, and those that
/// register one later. The first model waits for the next handler that is registered after each Init, so that a library
/// with an Init of its own learns of it even where an earlier handler has heard (docs/DECISIONS.md, "Events").
fn declare_model(client: &Client, info: &[Info], again: bool) {
    let model = declaration(info);
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    if !again {
        first.clone_from(&model);
    }
    if !first.is_empty() {
        client.keep_event(Status::MODEL_DECLARED, &first);
    }
    if again && !model.is_empty() {
        let told =
            client.notify_event(Status::MODEL_DECLARED, client.proc(), DataRange::PROC_LOCAL, &model).then(|_| ());
        if let Err(error) = told {
            instanton::trace!("the declared programming model is not announced: {error}");
        }
    }
}

export! {
    /// Takes part in the job that this process was launched in. Every Init has its Finalize.
    ///
    /// Without a launcher the answer is `PMIX_ERR_UNREACH`, every time, and the process is initialised as a job of its own.
    fn PMIx_Init(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        let entered = session::enter(&info)?;
        if let Some(proc) = proc.as_mut() {
            *proc = made(entered.client.proc())?;
        }
        declare_model(&entered.client, &info, entered.again);
        entered.status.ok()
    }

    /// Ends what one Init began; the last call leaves the job. Without an Init there is nothing to do. A forked child is
    /// refused: what its parent has initialised is not its own.
    fn PMIx_Finalize(info: *const pmix_info_t, ninfo: usize) -> Outcome {
        if !session::is_inherited() {
            return Ok(());
        }
        let left = session::leave(&many::<_, Info>(info, if info.is_null() { 0 } else { ninfo })?);
        if !session::is_initialized() {
            FIRST.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        left
    }

    /// Returns whether there were more Inits than Finalizes.
    fn PMIx_Initialized() -> c_int {
        c_int::from(session::is_initialized())
    }

    /// Nothing to do: the library's own thread makes progress.
    fn PMIx_Progress() {}

    /// Nothing to stop: the library's own thread sleeps when nothing happens, and ends with the last Finalize.
    fn PMIx_Progress_thread_stop(_info: *const pmix_info_t, _ninfo: usize) {}
}
