//! Keys that can be asked for, and the qualifiers of each: the answers to `PMIX_QUERY_SUPPORTED_KEYS` and to any key with
//! `PMIX_QUERY_SUPPORTED_QUALIFIERS`.
//!
//! Both come from what the library and its host have said of queries. Keys of job information, which can be asked for as
//! well, are as many as the host has registered with a job: they are not listed.
use super::known::is_qualifier;
use crate::attribute_support::{self, HostSupport, LEVELS};
use crate::data::{Value, keys};

/// Qualifiers that name a job.
const JOB: [&str; 2] = [keys::NSPACE, keys::JOBID];
/// Qualifiers that name a process.
const PROCESS: [&str; 4] = [keys::PROCID, keys::NSPACE, keys::JOBID, keys::RANK];

/// The list of keys.
pub fn keys(host: &HostSupport) -> Value {
    let mut told: Vec<&str> = Vec::new();
    for key in listed(host) {
        if !told.contains(&key) {
            told.push(key);
        }
    }
    Value::string(told.join(","))
}

/// The list of a key's qualifiers; nothing for a key that is not listed.
pub fn qualifiers(key: &str, host: &HostSupport) -> Value {
    match listed(host).any(|listed| listed == key) {
        true => Value::string(of(key).join(",")),
        false => Value::Undef,
    }
}

fn listed(host: &HostSupport) -> impl Iterator<Item = &str> {
    attribute_support::of_queries(host).filter(|key| !is_qualifier(key))
}

fn of(key: &str) -> Vec<&'static str> {
    match key {
        keys::QUERY_ATTRIBUTE_SUPPORT => LEVELS.into(),
        keys::QUERY_NAMESPACES => vec![keys::SESSION_ID],
        keys::QUERY_NAMESPACE_INFO | keys::QUERY_JOB_STATUS | keys::QUERY_PROC_TABLE => JOB.into(),
        keys::QUERY_LOCAL_PROC_TABLE => [&JOB[..], &[keys::HOSTNAME, keys::NODEID]].concat(),
        keys::QUERY_MEMORY_USAGE => {
            let more = [keys::PSET_NAME, keys::GROUP_ID, keys::QUERY_REPORT_AVG, keys::QUERY_REPORT_MINMAX];
            [&PROCESS[..], &more].concat()
        }
        keys::PROC_PID => PROCESS.into(),
        keys::QUERY_PSET_MEMBERSHIP => vec![keys::PSET_NAME, keys::QUERY_LOCAL_ONLY],
        keys::QUERY_GROUP_MEMBERSHIP => vec![keys::GROUP_ID, keys::QUERY_LOCAL_ONLY],
        keys::QUERY_NUM_PSETS | keys::QUERY_PSET_NAMES | keys::QUERY_NUM_GROUPS | keys::QUERY_GROUP_NAMES => {
            vec![keys::QUERY_LOCAL_ONLY]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_asked_for_is_what_the_library_and_its_host_serve() {
        let mut host = HostSupport::default();
        let named = ["PMIX_QUERY_MEMORY_USAGE", "PMIX_QUERY_REPORT_AVG", "PMIX_QUERY_NAMESPACES"];
        host.register("query", &named.map(str::to_owned)).unwrap();
        let told = keys(&host);
        let told: Vec<&str> = told.as_str().unwrap().split(',').collect();
        let times = |key| told.iter().filter(|told| **told == key).count();
        assert_eq!([keys::QUERY_MEMORY_USAGE, keys::QUERY_NAMESPACES, keys::QUERY_SUPPORTED_KEYS].map(times), [1; 3]);
        assert_eq!([keys::QUERY_REPORT_AVG, keys::NSPACE, keys::QUERY_PROC_TABLE].map(times), [0; 3]);
        let list = |value: Value| value.as_str().unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
        assert!(list(qualifiers(keys::QUERY_MEMORY_USAGE, &host)).contains(&keys::QUERY_REPORT_AVG.to_owned()));
        assert_eq!(qualifiers(keys::QUERY_STABLE_ABI_VERSION, &host), Value::string(""));
        assert_eq!(qualifiers(keys::QUERY_PROC_TABLE, &host), Value::Undef);
    }
}
