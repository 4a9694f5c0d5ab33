//! Parsers of a stock server's words, as functions of bytes alone, for tests that damage them: each returns whether it
//! takes them.
use super::connection::{event, output};
use super::{answers, exchange, job_info};
use crate::data::{Info, Nspace, Proc, Rank, Status};
use crate::server::blob_of_host;
use crate::store::exchange::is_exchange;

/// An answer, and in front of it the number of its kind.
pub fn is_answer(bytes: &[u8]) -> bool {
    let Some((kind, body)) = bytes.split_first() else { return false };
    match kind {
        0 => answers::read(body, answers::nothing).is_ok(),
        1 => answers::read(body, answers::infos).is_ok(),
        2 => answers::read(body, answers::published).is_ok(),
        3 => answers::read(body, answers::credential).is_ok(),
        4 => answers::read(body, answers::spawned).is_ok(),
        5 => answers::read(body, answers::connected).is_ok(),
        6 => answers::read(body, answers::pull).is_ok(),
        7 => answers::read(body, answers::data).is_ok_and(hands_on),
        // The number of a release.
        major @ 8..=15 => answers::read(body, |status, body| answers::group((major - 8).into(), status, body)).is_ok(),
        16 => exchange::by_place(body).is_ok(),
        17 => Nspace::new("job").is_ok_and(|job| exchange::by_name(body, &job, |part| Some(part.to_vec())).is_ok()),
        _ => false,
    }
}

/// Words about processes are handed on as another node's server would.
fn hands_on(found: Vec<(Proc, Vec<Info>)>) -> bool {
    let Some((asked, _)) = found.first().cloned() else { return true };
    let handed: Result<Vec<u8>, Status> = blob_of_host(&asked, 1, answers::posted(found));
    handed.inspect(|blob| assert!(is_exchange(blob), "the own server reads what is handed on")).is_ok()
}

/// The information of a job: as it is asked for at first, or as values.
pub fn is_job_info(bytes: &[u8]) -> bool {
    let Ok(nspace) = Nspace::new("job") else { return false };
    let first = job_info::read(bytes, &nspace).is_ok_and(|job| {
        let _ = job.hostname_of(Rank(1));
        job.is_whole()
    });
    let mut job = job_info::JobInfo::default();
    let known = answers::read(bytes, answers::data);
    first
        | known.is_ok_and(|known| {
            job.add(known.into_iter().flat_map(|(_, info)| info).collect());
            job.is_whole()
        })
}

/// The body of an event, or of output.
pub fn is_news(bytes: &[u8]) -> bool {
    event(bytes).is_ok() | output(bytes).is_ok()
}
