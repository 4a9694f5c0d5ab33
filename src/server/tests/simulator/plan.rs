//! Plan of a run, drawn from its seed: nodes, jobs, what their ranks do together, and what goes wrong how often.
use super::random::Random;
use crate::data::{Nspace, Proc, Rank};

/// Everything that is decided before a run begins.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: usize,
    pub jobs: Vec<JobPlan>,
    /// Things that ranks do together, in this order.
    pub rounds: Vec<Round>,
    pub faults: Faults,
}

/// A job: its name, and the node of each of its ranks.
#[derive(Clone, Debug)]
pub struct JobPlan {
    pub nspace: Nspace,
    pub placement: Vec<usize>,
}

/// Frequency of each thing that goes wrong, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A rank is killed at some time.
    pub deaths: u64,
    /// A rank leaves out something that it should do with others.
    pub skips: u64,
    /// A node is lost at some time.
    pub lost_nodes: u64,
    /// A server is stopped for a while at some time.
    pub stops: u64,
    /// A host refuses a request.
    pub refusals: u64,
    /// The system refuses a call.
    pub system: u64,
    /// True if limits differ between those who meet.
    pub limits_differ: bool,
    /// Most bytes of shared memory that a server may have.
    pub memory: Option<u64>,
}

/// Something that ranks do together.
#[derive(Clone, Debug)]
pub struct Round {
    pub members: Vec<Proc>,
    pub deed: Deed,
    /// Limit in seconds.
    pub limit: Option<u64>,
}

/// Kinds of such things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Fence { collects: bool, naming: Naming },
    Construct { group: Nspace, context: bool },
    Destruct { group: Nspace },
    Connect,
    Disconnect,
}

/// Way in which the participants of a fence are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Not at all: the whole job, and the end is waited for at the job's word.
    Word,
    /// Not at all.
    Nothing,
    Wildcard,
    List,
    /// By a group that they are in.
    Group(Nspace),
}

impl JobPlan {
    /// Returns the names of all ranks.
    pub fn procs(&self) -> impl Iterator<Item = Proc> {
        (0..self.placement.len() as u32).map(|rank| Proc::new(self.nspace.clone(), Rank(rank)))
    }
}

impl Plan {
    /// Draws a plan.
    pub fn draw(random: &mut Random) -> Plan {
        let nodes = match random.below(20) {
            0..=1 => 1,
            2..=9 => random.between(2, 3),
            10..=17 => random.between(4, 8),
            18 => random.between(9, 24),
            _ => random.between(25, 64),
        } as usize;
        let jobs: Vec<JobPlan> = (0..random.between(1, 2)).map(|job| draw_job(random, job, nodes)).collect();
        let faults = draw_faults(random);
        let mut plan = Plan { nodes, jobs, rounds: Vec::new(), faults };
        for round in 0..random.between(2, 7) {
            plan.add_rounds(random, round);
        }
        plan
    }

    fn add_rounds(&mut self, random: &mut Random, number: u64) {
        let limit = random.permille(400).then(|| random.between(1, 4));
        let job = random.pick(&self.jobs).clone();
        let mut some: Vec<Proc> = job.procs().filter(|_| random.permille(600)).collect();
        if some.is_empty() {
            some = job.procs().collect();
        }
        let mut add = |members: &[Proc], deed| self.rounds.push(Round { members: members.to_vec(), deed, limit });
        let collects = random.permille(600);
        match random.below(10) {
            0..=4 => {
                let naming = [Naming::Word, Naming::Nothing, Naming::Wildcard];
                let naming = random.pick(&naming).clone();
                add(&job.procs().collect::<Vec<_>>(), Deed::Fence { collects, naming });
            }
            5..=6 => add(&some, Deed::Fence { collects, naming: Naming::List }),
            7..=8 => {
                let group = Nspace::new(format!("group{number}")).expect("a legal name");
                add(&some, Deed::Construct { group: group.clone(), context: random.permille(500) });
                if random.permille(700) {
                    add(&some, Deed::Fence { collects, naming: Naming::Group(group.clone()) });
                }
                if random.permille(700) {
                    add(&some, Deed::Destruct { group });
                }
            }
            _ => {
                let all: Vec<Proc> = self.jobs.iter().flat_map(JobPlan::procs).collect();
                let mut both: Vec<Proc> = all.iter().filter(|_| random.permille(700)).cloned().collect();
                if both.is_empty() {
                    both = all;
                }
                let mut add = |deed| self.rounds.push(Round { members: both.clone(), deed, limit });
                add(Deed::Connect);
                if random.permille(700) {
                    add(Deed::Disconnect);
                }
            }
        }
    }
}

fn draw_job(random: &mut Random, number: u64, nodes: usize) -> JobPlan {
    let most = if nodes > 8 { 1 } else { 3 };
    let mut placement: Vec<usize> = Vec::new();
    for node in 0..nodes {
        let ranks = random.between(u64::from(number == 0 && node == 0), most);
        placement.extend((0..ranks).map(|_| node));
    }
    if placement.is_empty() {
        placement.push(0);
    }
    if random.permille(300) {
        random.shuffle(&mut placement);
    }
    JobPlan { nspace: Nspace::new(format!("job{number}")).expect("a legal name"), placement }
}

fn draw_faults(random: &mut Random) -> Faults {
    let memory = random.permille(150).then(|| random.between(32, 512) << 10);
    let mut often = |most: u64| if random.permille(500) { 0 } else { random.below(most) };
    Faults {
        deaths: often(300),
        skips: often(100),
        lost_nodes: often(200),
        stops: often(300),
        refusals: often(50),
        system: often(100),
        limits_differ: often(2) == 1,
        memory,
    }
}
