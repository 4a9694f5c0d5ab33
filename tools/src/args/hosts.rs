//! Options that name machines. There is one, this one, which they may give a number of slots; of a run on simulated
//! nodes they may name these.
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use instanton::launch::is_named;

use crate::nodes;

/// Options that name machines.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machines (this one)")]
pub struct HostArgs {
    /// This machine, by any of its names; it has N slots, or one for each time that it is named
    #[arg(short = 'H', long, value_name = "NAME[:N],...")]
    host: Vec<String>,
    /// Machines in a file: lines of NAME [slots=N]
    #[arg(long, visible_alias = "machinefile", alias = "default-hostfile", value_name = "FILE")]
    hostfile: Vec<PathBuf>,
    /// Allow more ranks than slots: needed in an `instanton up` alone, since other runs always do
    #[arg(long, overrides_with = "nooversubscribe")]
    oversubscribe: bool,
    /// Refuse to run more ranks than there are slots
    #[arg(long, overrides_with = "oversubscribe")]
    pub nooversubscribe: bool,
}

/// Names of the nodes of a run.
#[derive(Debug)]
pub struct Hosts {
    machine: String,
    nodes: Vec<String>,
}

/// Slots that a node was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slots {
    given: u32,
    /// True if it was named without a number.
    is_open: bool,
}

impl Hosts {
    /// Nodes of a machine that has this name.
    pub fn new(machine: &str, nodes: u32) -> Self {
        Self { machine: machine.to_owned(), nodes: nodes::names(machine, nodes) }
    }

    /// The nodes that a name is of: one, or all where it is the machine's.
    fn named(&self, name: &str) -> Vec<usize> {
        let all = 0..self.nodes.len();
        if is_named(name, &self.machine) {
            return all.collect();
        }
        let short = |node: &String| node.rsplit_once('-').is_some_and(|(_, short)| short == name);
        all.filter(|at| self.nodes.len() > 1 && (self.nodes[*at] == name || short(&self.nodes[*at]))).collect()
    }

    /// The first node that a name is of.
    pub fn first(&self, name: &str) -> Option<u32> {
        self.named(name).first().map(|node| *node as u32)
    }

    /// Returns whether there are several nodes.
    pub fn are_several(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Returns whether an entry of a list of hosts, which may have a number of slots, names one of the nodes.
    pub fn have(&self, entry: &str) -> bool {
        !self.named(split(entry).0).is_empty()
    }

    /// Returns the number of slots that entries of lists give each node, or the lines of files where there are none;
    /// none where neither names any. A node has `all` slots by itself.
    ///
    /// # Errors
    /// A line that names the place of what is wrong.
    pub fn slots(&self, entries: &[&str], files: &[&Path], all: u32) -> Result<Option<Vec<u32>>, String> {
        let mut slots = vec![Slots::default(); self.nodes.len()];
        for entry in entries {
            read_host(entry, all, self, &mut slots).map_err(|error| format!("--host {entry}: {error}"))?;
        }
        if entries.is_empty() {
            for path in files {
                let name = path.display();
                let text =
                    fs::read_to_string(path).map_err(|error| format!("cannot read the host file {name}: {error}"))?;
                let before = slots.clone();
                for (line, number) in text.lines().zip(1..) {
                    read_line(line, self, &mut slots).map_err(|error| format!("{name}:{number}: {error}"))?;
                }
                if slots == before {
                    return Err(format!("the host file {name} names no machine"));
                }
            }
        } else if let Some(path) = files.iter().find(|path| fs::File::open(path).is_err()) {
            return Err(format!("cannot read the host file {}", path.display()));
        }
        let given = |slots: &Slots| slots.given.saturating_add(if slots.is_open { all } else { 0 });
        let is_said = slots.iter().any(|slots| *slots != Slots::default());
        Ok(is_said.then(|| slots.iter().map(given).collect()))
    }
}

impl HostArgs {
    /// Returns whether some machine is named.
    pub fn are_named(&self) -> bool {
        !self.host.is_empty() || !self.hostfile.is_empty()
    }

    /// Returns whether more ranks than slots are asked for by name.
    pub fn oversubscribes(&self) -> bool {
        self.oversubscribe
    }

    /// Returns the number of slots that each node is given; none where nothing is said of any. A node has `all` slots
    /// by itself.
    ///
    /// # Errors
    /// A line that names the place of what is wrong.
    pub fn slots(&self, all: u32, hosts: &Hosts) -> Result<Option<Vec<u32>>, String> {
        let entries: Vec<&str> = self.host.iter().flat_map(|list| list.split(',')).collect();
        let files: Vec<&Path> = self.hostfile.iter().map(PathBuf::as_path).collect();
        hosts.slots(&entries, &files, all)
    }
}

/// `NAME`, `NAME:N` or `NAME:*`.
fn read_host(entry: &str, all: u32, hosts: &Hosts, slots: &mut [Slots]) -> Result<(), String> {
    let (name, number) = split(entry);
    let nodes = here(name, hosts)?;
    let number = match number {
        None => 1,
        Some("*" | "auto") => all,
        Some(number) => count(number)?,
    };
    nodes.into_iter().for_each(|node| slots[node].given = slots[node].given.saturating_add(number));
    Ok(())
}

/// The name in an entry of a list of hosts, and its number of slots.
fn split(entry: &str) -> (&str, Option<&str>) {
    let entry = entry.trim();
    match entry.rsplit_once(':') {
        // An address of IPv6 without brackets has more colons.
        Some((name, number)) if !name.contains(':') || name.ends_with(']') => (name, Some(number)),
        _ => (entry, None),
    }
}

/// `NAME`, `NAME slots=N` or `NAME:N`; a comment begins with `#`.
fn read_line(line: &str, hosts: &Hosts, slots: &mut [Slots]) -> Result<(), String> {
    let line = line.split('#').next().unwrap_or_default().replace('=', " = ");
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else { return Ok(()) };
    let (name, mut number) = match name.split_once(':') {
        // As MPICH and Intel MPI write it.
        Some((name, number)) if !number.contains(':') => (name, Some(count(number)?)),
        _ => (name, None),
    };
    let nodes = here(name.rsplit_once('@').map_or(name, |(_, name)| name), hosts)?;
    let mut most = None;
    while let Some(word) = words.next() {
        let value = words.next().filter(|word| *word == "=").and_then(|_| words.next());
        let value = value.ok_or_else(|| format!("{word} has no value, as in slots=4"))?;
        match word.to_ascii_lowercase().replace('-', "_").as_str() {
            "slots" | "cpu" | "count" => number = Some(count(value)?),
            "max_slots" | "slots_max" => most = Some(count(value)?),
            // Names of users and ports matter to who connects to another machine.
            "user" | "username" | "user_name" | "port" => {}
            _ => return Err(format!("{word} is unknown; a line is NAME [slots=N] [max_slots=N]")),
        }
    }
    for node in nodes {
        let slots = &mut slots[node];
        match number.or(most) {
            Some(number) => slots.given = slots.given.saturating_add(most.map_or(number, |most| number.min(most))),
            None => slots.is_open = true,
        }
    }
    Ok(())
}

/// The nodes that have a name.
fn here(name: &str, hosts: &Hosts) -> Result<Vec<usize>, String> {
    let nodes = hosts.named(name);
    match (nodes.is_empty(), name.is_empty(), hosts.nodes.len()) {
        (false, ..) => Ok(nodes),
        (_, true, _) => Err("the name of a machine is missing".to_owned()),
        (_, _, 1) => {
            Err(format!("{name} is another machine, and all ranks run on this one; name localhost, or nothing"))
        }
        (.., count) => Err(format!("{name} is another machine; the simulated nodes are n0 to n{}", count - 1)),
    }
}

fn count(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text} is no number of slots"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(host: &[&str], lines: Option<&str>) -> Result<Option<u32>, String> {
        Ok(slots_on(1, host, lines)?.map(|slots| slots.iter().sum()))
    }

    fn slots_on(nodes: u32, host: &[&str], lines: Option<&str>) -> Result<Option<Vec<u32>>, String> {
        // Tests run beside each other.
        let name = format!("instanton-hosts-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        let hostfile = lines.map(|lines| fs::write(&path, lines).unwrap()).map(|()| path.clone());
        let host = host.iter().map(|host| host.to_string()).collect();
        let args =
            HostArgs { host, hostfile: hostfile.into_iter().collect(), oversubscribe: false, nooversubscribe: false };
        let found = args.slots(8, &Hosts::new("n", nodes));
        let _ = fs::remove_file(path);
        found
    }

    #[test]
    fn slots_are_counted() {
        assert_eq!(slots(&[], None), Ok(None));
        assert_eq!(slots(&["n:3,localhost", "n"], None), Ok(Some(5)));
        assert_eq!(slots(&["n:*"], None), Ok(Some(8)));
        let file = "# mine\n\nn slots=2 max-slots=4\nlocalhost slots = 1 # more\nroot@n:3\n";
        assert_eq!(slots(&[], Some(file)), Ok(Some(6)));
        assert_eq!(slots(&[], Some("n\n")), Ok(Some(8)));
        assert_eq!(slots(&["n:2"], Some("n slots=5")), Ok(Some(2)));
    }

    #[test]
    fn simulated_nodes_have_slots_of_their_own() {
        assert_eq!(slots_on(3, &["n1:2,n-n2"], None), Ok(Some(vec![0, 2, 1])));
        assert_eq!(slots_on(2, &["localhost:3"], None), Ok(Some(vec![3, 3])));
        assert_eq!(slots_on(2, &[], Some("n0 slots=1\nn1\n")), Ok(Some(vec![1, 8])));
        let error = slots_on(2, &["n2"], None).unwrap_err();
        assert!(error.contains("n0 to n1"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (host, word) in
            [("m:3", "m is another machine"), ("n:x", "x is no number"), ("", "missing"), ("n:0", "0 is")]
        {
            let error = slots(&[host], None).unwrap_err();
            assert!(error.starts_with(&format!("--host {host}: ")) && error.contains(word), "{error}");
        }
        for (line, word) in
            [("m slots=2", "another machine"), ("n slots=x", "x is no"), ("n slots", "slots=4"), ("n speed=2", "speed")]
        {
            let error = slots(&[], Some(&format!("n\n{line}\n"))).unwrap_err();
            assert!(error.contains(":2: ") && error.contains(word), "{error}");
        }
        assert!(slots(&[], Some("# nobody\n")).unwrap_err().contains("names no machine"));
    }
}
