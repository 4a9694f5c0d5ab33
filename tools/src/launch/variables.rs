//! Environment of a rank, besides the variables of the PMIx server.
use std::ffi::OsString;
use std::path::Path;

use crate::environment::Environment;
use crate::job::Job;
use crate::speech::Speech;

/// The environment of one rank, made of what was asked for.
pub fn of_rank(job: &Job, rank: u32, speech: Speech, asked: Environment) -> Environment {
    let mut all = asked;
    let is_for_open_mpi = !speech.is_pmi && speech.mpi.takes_those_of_open_mpi();
    if is_for_open_mpi {
        // Without it Open MPI 4 takes each rank for a job of its own.
        all.entry("OMPI_MCA_schizo".into()).or_insert("ompi".into());
    }
    if is_for_open_mpi && job.is_oversubscribed() {
        all.entry("OMPI_MCA_mpi_oversubscribe".into()).or_insert("1".into());
    }
    let node = job.node_of(rank);
    if job.nodes.len() > 1 {
        let directory = job.session.of_node(node).top().as_os_str().to_owned();
        // Open MPI names its files in /dev/shm by what the system calls the machine, which all nodes share. It passes
        // such variables on to what it spawns: the directory of the parent's node is nobody's wish.
        let is_of_a_node = |directory: &OsString| Path::new(directory).starts_with(job.session.top());
        for transport in ["vader", "sm"].into_iter().filter(|_| is_for_open_mpi) {
            let name = format!("OMPI_MCA_btl_{transport}_backing_directory").into();
            if all.get(&name).is_none_or(is_of_a_node) {
                all.insert(name, directory.clone());
            }
        }
        all.insert("TMPDIR".into(), directory);
    }
    all.extend(
        speech.mpi.variables(job, rank, speech.is_pmi).into_iter().map(|(name, value)| (name.into(), value.into())),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::of_app;
    use crate::session::Session;
    use instanton::launch::AppSpec;
    use std::collections::BTreeMap;

    fn environment(ours: &[(&str, &str)], asked: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
        let spec = AppSpec {
            ranks: 3,
            environment: asked.iter().map(|(name, value)| (name.into(), value.map(OsString::from))).collect(),
            program: "prog".into(),
            ..AppSpec::default()
        };
        let job =
            Job::new(vec![spec.clone(), AppSpec { ranks: 2, ..spec }], 1, Session::named("/tmp/x".into()), 1).unwrap();
        let ours = ours.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let all = of_rank(&job, 4, Speech::default(), of_app(&job.apps[1], &ours));
        all.into_iter().map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap())).collect()
    }

    #[test]
    fn a_rank_learns_its_place() {
        let all = environment(&[("HOME", "/h"), ("B", "2")], &[("A", Some("1")), ("B", None)]);
        for (name, value) in [
            ("HOME", "/h"),
            ("A", "1"),
            ("OMPI_COMM_WORLD_RANK", "4"),
            ("OMPI_COMM_WORLD_SIZE", "5"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "5"),
            ("OMPI_COMM_WORLD_NODE_RANK", "4"),
            ("OMPI_NUM_APP_CTX", "2"),
            ("OMPI_FIRST_RANKS", "0 3"),
            ("OMPI_APP_CTX_NUM_PROCS", "3 2"),
            ("OMPI_MCA_schizo", "ompi"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!all.contains_key("B"));
    }

    #[test]
    fn what_the_user_says_of_files_stays_and_a_parents_directory_goes() {
        let backing = |asked: Option<&str>| {
            let environment = asked.map(|value| ("OMPI_MCA_btl_vader_backing_directory".into(), Some(value.into())));
            let environment = environment.into_iter().collect();
            let spec = AppSpec { ranks: 4, environment, program: "prog".into(), ..AppSpec::default() };
            let job = Job::new(vec![spec], 2, Session::named("/tmp/x".into()), 1).unwrap();
            let all = of_rank(&job, 3, Speech::default(), of_app(&job.apps[0], &Environment::new()));
            all["OMPI_MCA_btl_vader_backing_directory".as_ref() as &std::ffi::OsStr].clone()
        };
        // Ranks that are not placed are on the first node.
        assert_eq!(backing(None), "/tmp/x");
        assert_eq!(backing(Some("/dev/shm")), "/dev/shm");
        assert_eq!(backing(Some("/tmp/x/node1")), "/tmp/x", "that of the node of a parent");
    }

    #[test]
    fn what_the_user_has_set_stays_and_what_an_outer_launcher_has_set_goes() {
        let ours = [
            ("OMPI_MCA_schizo", "slurm"),
            ("OMPI_MCA_ess", "^singleton"),
            ("OMPI_MCA_orte_hnp_uri", "x"),
            ("OMPI_UNIVERSE_SIZE", "9"),
            ("OMPI_COMM_WORLD_RANK", "7"),
            ("OMPI_MCA_pml", "ob1"),
        ];
        let all = environment(&ours, &[("OMPI_MCA_pml", Some("cm"))]);
        assert_eq!(all["OMPI_MCA_schizo"], "slurm");
        assert_eq!(all["OMPI_COMM_WORLD_RANK"], "4");
        assert_eq!(all["OMPI_MCA_pml"], "cm");
        for gone in ["OMPI_MCA_ess", "OMPI_MCA_orte_hnp_uri", "OMPI_UNIVERSE_SIZE"] {
            assert!(!all.contains_key(gone), "{gone}");
        }
    }
}
