//! Facts that a process knows of itself without its host: its name, its server's, and the library's version.
use super::{Inner, Question};
use crate::data::{DataArray, Nspace, Proc, Rank, Value, keys};

/// The release that the C headers agree with, as `PMIX_VERSION_NUMERIC` gives it; the text that names the version says
/// the same. Hosts refuse a library that is older than what they were built for.
const VERSION: u32 = 0x0006_0100;

impl Inner {
    /// A fact that a process knows of itself without its host: its name, its server's, and the library's version.
    /// Without a rank, the value that the host gives of the caller counts as well.
    #[cold]
    pub(super) fn own_fact(&self, question: &Question<'_>) -> Option<Value> {
        let (own, rank) = (question.nspace.is_empty(), question.rank);
        let unnamed = own && rank == Rank::UNDEF;
        let of_me = unnamed || own && rank == self.proc.rank;
        let key = std::str::from_utf8(question.key()).ok()?;
        if unnamed
            && let Some(Ok(given)) = self.jobs.own().map(|reader| reader.get(&Question::new(self.proc.rank, key)))
        {
            return Some(given);
        }
        let server = self.server.as_ref().filter(|_| of_me);
        match key {
            // The rank that a process asks for without knowing it.
            keys::RANK if own && rank == Rank::INVALID => Some(Value::ProcRank(self.proc.rank)),
            keys::PROCID if of_me => Some(Value::Proc(Proc::clone(&self.proc))),
            keys::PROC_PID if of_me => Some(Value::Pid(std::process::id() as i32)),
            keys::VERSION_NUMERIC => Some(Value::Uint32(VERSION)),
            keys::SERVER_NSPACE => server.map(|server| Value::string(server.name.nspace.as_bytes())),
            keys::SERVER_RANK => server.map(|server| Value::ProcRank(server.name.rank)),
            keys::SERVER_URI => server.map(|server| Value::string(server.uri.as_bytes())),
            keys::LOCAL_PROCS => self.local_procs(question),
            _ => None,
        }
    }

    /// The processes of a job on a node, as names; hosts give their ranks.
    fn local_procs(&self, question: &Question<'_>) -> Option<Value> {
        let ranks = self.reader_of(question)?.get(&Question::new(question.rank, keys::LOCAL_PEERS)).ok()?;
        DataArray::of_ranks(&Nspace::new(self.nspace_of(question)).ok()?, ranks.as_text()?.as_str()?)
            .map(Value::DataArray)
    }
}
