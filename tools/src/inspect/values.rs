//! Values of a job and of its ranks, as the store's own reader finds them.
use instanton::data::{Key, Rank, RankSet, Scope, Value, keys};
use instanton::store::{JobReader, Miss, Origin, Question};

use super::segments::Job;

/// Ranks whose values are asked for.
#[derive(Debug)]
pub enum Ranks {
    /// Nobody has said: the job's own, and of a key those of all.
    Unsaid,
    /// The job's own.
    Job,
    /// Values of all ranks.
    All,
    /// Values of some ranks.
    These(RankSet),
}

/// Values that are asked for.
#[derive(Debug)]
pub struct Asked {
    /// The one key, as text.
    pub key: Option<Key>,
    /// The ranks.
    pub ranks: Ranks,
}

/// A value, or the reason why there is none.
#[derive(Debug)]
pub struct Row {
    /// The rank; none for the job itself.
    pub rank: Option<u32>,
    /// The key; none where not even that could be read.
    pub key: Option<Key>,
    /// Scope of what was posted.
    pub scope: Option<Scope>,
    /// Source of the value.
    pub origin: Option<Origin>,
    /// The value, or the fault.
    pub value: Result<Value, String>,
}

impl Row {
    /// Returns whether it is a fault.
    pub fn is_fault(&self) -> bool {
        self.value.is_err()
    }
}

/// A key, by its name of the Standard or its text.
pub fn key(said: &str) -> Result<Key, String> {
    if said.is_empty() {
        return Err("--key: a key is meant".into());
    }
    let named = keys::key_of(said).map_or(said.as_bytes(), |key| key.to_bytes());
    Key::new(named).map_err(|error| format!("--key {said}: {error}"))
}

/// The values that are asked for, rank by rank.
pub fn rows(job: &Job, asked: &Asked) -> Vec<Row> {
    let Some(reader) = &job.reader else { return Vec::new() };
    // A damaged segment may claim any number of ranks.
    let count = reader.rank_count().max(reader.job_size()).min(instanton::store::MAX_RANKS);
    let of_job = matches!(asked.ranks, Ranks::Unsaid | Ranks::Job);
    let mut all = Vec::new();
    if of_job {
        look(reader, Rank::WILDCARD, asked.key.as_ref(), &mut all);
    }
    let ranks: Box<dyn Iterator<Item = u32>> = match &asked.ranks {
        Ranks::Unsaid if asked.key.is_some() => Box::new(0..count),
        Ranks::Unsaid | Ranks::Job => Box::new(std::iter::empty()),
        Ranks::All => Box::new(0..count),
        Ranks::These(ranks) => Box::new(ranks.iter().take_while(move |rank| *rank < count)),
    };
    for rank in ranks {
        look(reader, Rank(rank), asked.key.as_ref(), &mut all);
    }
    all
}

fn look(reader: &JobReader, rank: Rank, wanted: Option<&Key>, rows: &mut Vec<Row>) {
    let number = rank.is_process().then_some(rank.0);
    let row = |key, scope, origin, value| Row { rank: number, key, scope, origin, value };
    let found = match reader.all(rank) {
        Ok(found) => found,
        Err(miss) => return rows.push(row(None, None, None, Err(miss.to_string()))),
    };
    let before = rows.len();
    for (key, scope, value, origin) in found {
        if wanted.is_none_or(|wanted| *wanted == key) {
            let scope = (origin == Origin::Modex).then_some(scope);
            rows.push(row(Some(key), scope, Some(origin), Ok(value)));
        }
    }
    // Some values are computed when they are asked for.
    if let Some(wanted) = wanted.filter(|_| rows.len() == before) {
        match reader.get(&Question::new(rank, wanted)) {
            Ok(value) => rows.push(row(Some(wanted.clone()), None, Some(Origin::Info), Ok(value))),
            Err(Miss::NotFound) => {}
            Err(miss) => rows.push(row(Some(wanted.clone()), None, None, Err(miss.to_string()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_two_names() {
        assert_eq!(key("PMIX_JOB_SIZE").unwrap(), key(keys::JOB_SIZE).unwrap());
        assert_eq!(key("my.key").unwrap().as_bytes(), b"my.key");
        assert!(key("").is_err());
    }
}
