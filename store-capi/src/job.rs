//! The writer's side: a job, what is said of it, what its processes post, and how readers come by it.
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use instanton::data::{Info, Key, Nspace, Posted, Proc, Rank, Scope, Status, Value, keys};
use instanton::handover::Listener;
use instanton::store::exchange::{ExchangeError, Sender};
use instanton::store::named::{Claim, Readers};
use instanton::store::{
    Budget, Datum, Entry, Have, JobInfo, JobInfoBuilder, JobWriter, Limits, Misuse, Question, ReaderId, WriteError,
};
use libc::{c_char, c_int, c_void};

use crate::boundary::{Code, Outcome, bad, export, fail, guard};
use crate::types::*;
use crate::view::{copied, have_of, named, path_of};

/// A job, as its writer sees it.
pub struct instanton_job_t {
    nspace: Nspace,
    own_host: String,
    local_procs: u32,
    /// Words of the spec, again for each publication.
    told: Vec<Info>,
    limits: Limits,
    /// Job information since the last publication.
    builder: Option<JobInfoBuilder>,
    /// Bytes of the values in there.
    said: usize,
    writer: Option<JobWriter>,
    /// Name that was taken for the writer.
    claim: Option<Claim>,
    /// Values that were put and not committed.
    pending: HashMap<u32, Vec<Posted>>,
    listener: Option<Listener>,
    sender: Sender,
    contradictions: u64,
}

/// Numbers of levels, the array of each, and the key of its own number in there.
const LEVELS: [(c_int, &str, &str); 3] = [
    (1, keys::SESSION_INFO_ARRAY, keys::SESSION_ID),
    (2, keys::APP_INFO_ARRAY, keys::APPNUM),
    (3, keys::NODE_INFO_ARRAY, keys::NODEID),
];

impl instanton_job_t {
    unsafe fn new(spec: &instanton_job_spec_t) -> Result<Self, Code> {
        is_whole::<instanton_job_spec_t>(spec.size, "instanton_job_spec_t")?;
        is_served(spec.version)?;
        // SAFETY: the caller's promise, of all four texts.
        let [nspace, own_host, node_map, proc_map] =
            [spec.nspace, spec.own_host, spec.node_map, spec.proc_map].map(|at| unsafe { text(at) });
        let nspace =
            Nspace::new(nspace.filter(|name| !name.is_empty()).ok_or_else(|| bad("the namespace is NULL or empty"))?);
        let nspace = nspace.map_err(bad)?;
        let own_host = match own_host {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => host_name(),
        };
        let mut told = Vec::new();
        for (key, map) in [(keys::NODE_MAP, node_map), (keys::PROC_MAP, proc_map)] {
            told.extend(map.map(|map| Info::new(key, Value::string(map))));
        }
        if spec.job_size > 0 {
            told.push(Info::new(keys::JOB_SIZE, spec.job_size));
        }
        let or = |limit: u64, default: u64| if limit == 0 { default } else { limit };
        let limits = Limits {
            budget: Budget::new(or(spec.memory_limit, u64::MAX)),
            reader: or(spec.reader_limit, Limits::default().reader),
        };
        let server = Proc::new(nspace.clone(), Rank::WILDCARD);
        let mut job = Self {
            sender: Sender { server, identity: identity() },
            nspace,
            own_host,
            local_procs: spec.local_procs,
            told,
            limits,
            builder: None,
            said: 0,
            writer: None,
            claim: None,
            pending: HashMap::new(),
            listener: None,
            contradictions: 0,
        };
        // Maps that cannot be read are told at once.
        job.builder()?;
        Ok(job)
    }

    fn builder(&mut self) -> Result<&mut JobInfoBuilder, Code> {
        if self.builder.is_none() {
            let mut builder = JobInfoBuilder::new(&self.nspace, self.local_procs, &self.own_host);
            builder.infos(&self.told).map_err(bad)?;
            self.builder = Some(builder);
        }
        Ok(self.builder.as_mut().expect("made just now"))
    }

    /// Looks whether there is room for values that are said now.
    fn say<'a>(&mut self, values: impl IntoIterator<Item = &'a Datum<'a>>) -> Outcome {
        let bytes = values.into_iter().map(bytes_of).fold(0, usize::saturating_add);
        has_room(bytes.saturating_mul(2))?;
        self.said = self.said.saturating_add(bytes);
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut JobWriter, Code> {
        self.writer.as_mut().ok_or_else(unpublished)
    }

    fn publish(&mut self) -> Outcome {
        self.builder()?;
        let builder = self.builder.take().expect("made just now");
        // They are put into order, and written from there.
        has_room(std::mem::take(&mut self.said).saturating_mul(2))?;
        let info = builder.build().map_err(bad)?;
        let contradictions = info.contradictions().len() as u64;
        match &mut self.writer {
            Some(writer) => writer.replace_info(info).map_err(written)?,
            None => self.writer = Some(self.create(info)?),
        }
        self.contradictions = contradictions;
        Ok(())
    }
}

impl instanton_job_t {
    fn create(&mut self, info: JobInfo) -> Result<JobWriter, Code> {
        let Some(claim) = self.claim.take() else {
            return JobWriter::create(&self.nspace, info, &self.limits).map_err(written);
        };
        JobWriter::create_named(&self.nspace, info, &self.limits, claim).map_err(|(error, claim)| {
            self.claim = Some(claim);
            written(error)
        })
    }
}

fn unpublished() -> Code {
    fail(Status::ERR_INIT, "nothing of this job has been published (instanton_job_publish)")
}

fn unheard() -> Code {
    fail(Status::ERR_INIT, "instanton_job_listen comes first")
}

fn written(error: WriteError) -> Code {
    match error {
        // A value that is none of its type makes no sense, whichever call sees it first.
        WriteError::Value { .. } => bad(error),
        error => fail(error.status(), error),
    }
}

/// A number that tells this job's blobs from those of other nodes.
fn identity() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the kernel writes no more than it is told.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&name[..len]).into_owned()
}

fn scope(number: u32) -> Result<Scope, Code> {
    match number {
        1..=3 => Ok(Scope(number as u8)),
        _ => Err(bad(format_args!("scope {number}: there are 1 (LOCAL), 2 (REMOTE) and 3 (GLOBAL)"))),
    }
}

fn give(descriptor: OwnedFd, to: &mut c_int) {
    *to = descriptor.into_raw_fd();
}

fn system(error: std::io::Error) -> Code {
    fail(Status::ERR_OUT_OF_RESOURCE, error)
}

export! {
    fn instanton_job_create(spec: *const instanton_job_spec_t, job: *mut *mut instanton_job_t) {
        let (spec, job) = (shared(spec, "spec")?, there(job, "job")?);
        *job = Box::into_raw(Box::new(instanton_job_t::new(spec)?));
        Ok(())
    }

    fn instanton_job_info(
        job: *mut instanton_job_t,
        level: c_int,
        number: u32,
        key: *const c_char,
        value: *const instanton_value_t,
    ) {
        let (job, key) = (there(job, "job")?, crate::types::key(key)?);
        let value = shared(value, "value")?.datum()?;
        job.say([&value])?;
        let info = Info::new(key.as_bytes(), value.to_value().map_err(bad)?);
        let info = match LEVELS.iter().find(|(known, ..)| *known == level) {
            Some((_, array, of)) => Info::new(array, Value::infos(vec![Info::new(of, number), info])),
            None if level == 0 => info,
            None => return Err(no_level(level)),
        };
        if info.key == keys::NODE_MAP || info.key == keys::PROC_MAP {
            return Err(bad("maps are given when a job is created"));
        }
        job.builder()?.infos(&[info]).map_err(bad)
    }

    fn instanton_job_proc(
        job: *mut instanton_job_t,
        rank: u32,
        entries: *const instanton_entry_t,
        nentries: usize,
    ) {
        let job = there(job, "job")?;
        let entries = structs(entries, nentries)?;
        let mut values = Vec::with_capacity(entries.len());
        for entry in &entries {
            let value = entry.value.datum()?;
            value.check().map_err(bad)?;
            values.push((key_bytes(entry.key)?, value));
        }
        job.say(values.iter().map(|(_, value)| value))?;
        job.builder()?.process(rank, values).map_err(bad)
    }

    fn instanton_job_column(
        job: *mut instanton_job_t,
        key: *const c_char,
        first: u32,
        values: *const instanton_value_t,
        nvalues: usize,
    ) {
        let (job, key) = (there(job, "job")?, key_bytes(key)?);
        let values = structs(values, nvalues)?;
        let ranks = (first..=u32::MAX).take(values.len());
        if ranks.clone().count() < values.len() {
            return Err(bad(format_args!("{} values from rank {first} on are more than there are ranks", values.len())));
        }
        let mut data = Vec::with_capacity(values.len());
        for value in &values {
            let value = value.datum()?;
            value.check().map_err(bad)?;
            data.push(value);
        }
        job.say(&data)?;
        let builder = job.builder()?;
        ranks.zip(data).try_for_each(|(rank, value)| builder.process(rank, [(key, value)]).map_err(bad))
    }

    fn instanton_job_publish(job: *mut instanton_job_t) {
        there(job, "job")?.publish()
    }

    fn instanton_job_put(
        job: *mut instanton_job_t,
        rank: u32,
        scope: u32,
        key: *const c_char,
        value: *const instanton_value_t,
    ) {
        let (job, key) = (there(job, "job")?, crate::types::key(key)?);
        let value = shared(value, "value")?.datum()?;
        has_room(bytes_of(&value))?;
        let posted = Posted::new(crate::job::scope(scope)?, key, value.to_value().map_err(bad)?);
        job.pending.entry(rank).or_default().push(posted);
        Ok(())
    }

    fn instanton_job_commit(job: *mut instanton_job_t, rank: u32) {
        let job = there(job, "job")?;
        let writer = job.writer.as_mut().ok_or_else(unpublished)?;
        let pending = job.pending.remove(&rank).unwrap_or_default();
        has_room(pending.iter().map(|posted| posted.value.kept_size()).fold(0, usize::saturating_add))?;
        writer.update(Rank(rank), &pending).map_err(written)
    }

    fn instanton_job_post(
        job: *mut instanton_job_t,
        rank: u32,
        entries: *const instanton_entry_t,
        nentries: usize,
    ) {
        let job = there(job, "job")?;
        let entries = structs(entries, nentries)?;
        let keys = entries.iter().map(|entry| crate::types::key(entry.key)).collect::<Result<Vec<Key>, _>>()?;
        let mut borrowed = Vec::with_capacity(entries.len());
        for (entry, key) in entries.iter().zip(&keys) {
            borrowed.push(Entry { scope: scope(entry.scope)?, key, value: entry.value.datum()? });
        }
        has_room(borrowed.iter().map(|entry| bytes_of(&entry.value)).fold(0, usize::saturating_add))?;
        job.writer()?.post(Rank(rank), &borrowed).map_err(written)
    }

    fn instanton_job_delete(job: *mut instanton_job_t, rank: u32, key: *const c_char) {
        let (job, key) = (there(job, "job")?, crate::types::key(key)?);
        job.writer()?.remove(Rank(rank), &[key]).map_err(written)
    }

    fn instanton_job_outbound(
        job: *mut instanton_job_t,
        ranks: *const u32,
        nranks: usize,
        blob: *mut *mut c_void,
        length: *mut usize,
    ) {
        let (job, ranks) = (there(job, "job")?, array(ranks, nranks, "ranks")?);
        let (blob, length) = (there(blob, "blob")?, there(length, "length")?);
        let writer = job.writer.as_mut().ok_or_else(unpublished)?;
        // They are copied, put into a blob that grows, and handed out. Most of them may have been sent already.
        let taken = ranks.iter().map(|rank| writer.outbound_bytes(Rank(*rank), true)).fold(0, u64::saturating_add);
        has_room(taken.saturating_mul(4).min(1 << 30) as usize)?;
        let bytes = writer.outbound(&job.sender, ranks.iter().map(|rank| Rank(*rank))).map_err(exchanged)?;
        let place = libc::malloc(bytes.len().max(1));
        if place.is_null() {
            return Err(fail(Status::ERR_OUT_OF_RESOURCE, format_args!("{} bytes cannot be had", bytes.len())));
        }
        place.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        (*blob, *length) = (place, bytes.len());
        Ok(())
    }

    fn instanton_job_inbound(job: *mut instanton_job_t, blobs: *const c_void, length: usize) {
        let (job, blobs) = (there(job, "job")?, array(blobs.cast::<u8>(), length, "blobs")?);
        let writer = job.writer.as_mut().ok_or_else(unpublished)?;
        has_room(length.saturating_mul(2))?;
        writer.inbound(&job.sender, blobs).map(drop).map_err(exchanged)
    }

    fn instanton_job_wake(job: *mut instanton_job_t) {
        there(job, "job")?.writer()?.release();
        Ok(())
    }

    fn instanton_job_get(job: *mut instanton_job_t, rank: u32, key: *const c_char, value: *mut *mut c_void) {
        let (job, key, value) = (there(job, "job")?, key_bytes(key)?, there(value, "value")?);
        let (writer, question) = (job.writer()?, Question::new(crate::types::rank(rank), key));
        *value = copied(|f| writer.reader().read(&question, f), || writer.reader().get(&question))?;
        Ok(())
    }

    fn instanton_job_stats(job: *mut instanton_job_t, stats: *mut instanton_stats_t) {
        let (job, stats) = (there(job, "job")?, there(stats, "stats")?);
        is_whole::<instanton_stats_t>(stats.size, "instanton_stats_t")?;
        let is = job.writer()?.stats();
        *stats = instanton_stats_t {
            size: stats.size,
            readers: job.listener.as_ref().map_or(0, |listener| listener.readers() as u32),
            bytes: is.bytes,
            segments: is.segments as u64,
            live: is.live,
            retired: is.retired,
            set_aside: is.set_aside,
            generation: is.generation,
            contradictions: job.contradictions,
        };
        Ok(())
    }

    fn instanton_job_link(job: *mut instanton_job_t, path: *const c_char, readers: c_int) {
        let (job, path) = (there(job, "job")?, path_of(path)?);
        let readers = match readers {
            0 => Readers::User,
            1 => Readers::Group,
            2 => Readers::All,
            _ => return Err(bad(format_args!("readers {readers}: there are 0 (user), 1 (group) and 2 (all)"))),
        };
        if job.writer.is_some() || job.claim.is_some() {
            return Err(bad("a job takes a name once, before anything of it is published"));
        }
        if path.parent().is_some_and(|above| !above.as_os_str().is_empty() && !above.exists()) {
            return Err(bad(format_args!("the directory in which {} is to be made is not there", path.display())));
        }
        job.claim = Some(Claim::new(path, readers).map_err(named)?);
        Ok(())
    }

    fn instanton_job_export(
        job: *mut instanton_job_t,
        have: *const c_void,
        length: usize,
        descriptors: *mut c_int,
        room: usize,
        ndescriptors: *mut usize,
    ) {
        let (job, count) = (there(job, "job")?, there(ndescriptors, "ndescriptors")?);
        let have = have_of(have, length)?;
        if descriptors.is_null() && room > 0 {
            return Err(bad(format_args!("descriptors is NULL, and has room for {room}")));
        }
        let segments = job.writer()?.segments(&have.unwrap_or_else(Have::default));
        let copies = segments.into_iter().take(room).map(|(_, descriptor)| descriptor.try_clone_to_owned());
        let copies = copies.collect::<Result<Vec<_>, _>>().map_err(system)?;
        *count = copies.len();
        for (at, copy) in copies.into_iter().enumerate() {
            descriptors.add(at).write(copy.into_raw_fd());
        }
        Ok(())
    }

    fn instanton_job_reader(job: *mut instanton_job_t, descriptor: *mut c_int, reader: *mut u64) {
        let (job, descriptor, reader) = (there(job, "job")?, there(descriptor, "descriptor")?, there(reader, "reader")?);
        let page = job.writer()?.make_reader_page().map_err(written)?;
        *reader = page.id().0;
        give(page.into(), descriptor);
        Ok(())
    }

    fn instanton_job_reader_gone(job: *mut instanton_job_t, reader: u64) {
        there(job, "job")?.writer()?.reader_gone(ReaderId(reader));
        Ok(())
    }

    fn instanton_job_listen(job: *mut instanton_job_t, address: *mut c_char, room: usize) {
        let (job, _) = (there(job, "job")?, there(address, "address")?);
        job.writer()?;
        if job.listener.is_none() {
            job.listener = Some(Listener::open().map_err(system)?);
        }
        let text = job.listener.as_ref().expect("opened just now").address();
        if text.len() >= room {
            return Err(bad(format_args!("an address has {} bytes and a NUL, there is room for {room}", text.len())));
        }
        address.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        address.add(text.len()).write(0);
        Ok(())
    }

    fn instanton_job_allow(job: *mut instanton_job_t, user: u32) {
        let listener = there(job, "job")?.listener.as_mut().ok_or_else(unheard)?;
        listener.allow(user);
        Ok(())
    }

    fn instanton_job_descriptor(job: *mut instanton_job_t, descriptor: *mut c_int) {
        let (job, descriptor) = (there(job, "job")?, there(descriptor, "descriptor")?);
        *descriptor = job.listener.as_ref().ok_or_else(unheard)?.as_fd().as_raw_fd();
        Ok(())
    }

    fn instanton_job_serve(job: *mut instanton_job_t) {
        let job = there(job, "job")?;
        let writer = job.writer.as_mut().ok_or_else(unpublished)?;
        let Some(listener) = &mut job.listener else { return Ok(()) };
        listener.serve(writer).map_err(system)?;
        if writer.is_reclaim_due() {
            for (reader, misuse) in writer.reclaim() {
                if misuse == Misuse::Lie {
                    listener.cut(reader, writer);
                }
            }
        }
        Ok(())
    }
}

fn exchanged(error: ExchangeError) -> Code {
    match error {
        ExchangeError::Write(error) => written(error),
        error => fail(Status::ERR_UNPACK_FAILURE, error),
    }
}

/// As the header says.
///
/// # Safety
/// NULL, or a job that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn instanton_job_free(job: *mut instanton_job_t) {
    guard((), || {
        if !job.is_null() {
            // SAFETY: made by `instanton_job_create`, and given back once.
            drop(unsafe { Box::from_raw(job) });
        }
    });
}
