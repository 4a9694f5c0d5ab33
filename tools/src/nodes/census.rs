//! Census: which processes run on which node, and which of them are gone.
use std::collections::{BTreeMap, BTreeSet, HashMap};

use instanton::data::{Nspace, Proc, Rank};

/// The processes of all nodes.
#[derive(Default)]
pub struct Census {
    /// The node of each rank of each namespace.
    placement: HashMap<Nspace, Vec<u32>>,
    /// The node of each tool of each namespace. Tools may have named themselves, with any rank.
    tools: HashMap<Nspace, BTreeMap<u32, u32>>,
    /// Ranks that have ended, and are not expected again.
    gone: HashMap<Nspace, BTreeSet<u32>>,
    /// Number of ends of processes so far, and that of the last end of each rank.
    ends: u64,
    ended: HashMap<Nspace, BTreeMap<u32, u64>>,
    /// The last end of each rank that was started anew since, whether or not it has ended again.
    begun_anew: HashMap<Nspace, BTreeMap<u32, u64>>,
    /// Nodes that are lost.
    down: BTreeSet<usize>,
}

impl Census {
    /// A job is about to be registered.
    pub fn place(&mut self, nspace: &Nspace, nodes: Vec<u32>) {
        self.placement.insert(nspace.clone(), nodes);
    }

    /// A tool is on a node.
    pub fn admit(&mut self, tool: &Proc, node: u32) {
        self.tools.entry(tool.nspace.clone()).or_default().insert(tool.rank.0, node);
        self.expect(tool);
    }

    /// The tools of a namespace, each with its node; none where it is not one of tools.
    pub fn tools_of(&self, nspace: &Nspace) -> Option<Vec<(Proc, usize)>> {
        let tools = self.tools.get(nspace)?;
        Some(tools.iter().map(|(rank, node)| (Proc::new(nspace.clone(), Rank(*rank)), *node as usize)).collect())
    }

    /// The tools on a node.
    pub fn tools_on(&self, node: usize) -> Vec<Proc> {
        let all = self.tools.keys().filter_map(|nspace| self.tools_of(nspace)).flatten();
        all.filter(|(_, other)| *other == node).map(|(tool, _)| tool).collect()
    }

    /// A job is over.
    pub fn forget(&mut self, nspace: &Nspace) {
        self.placement.remove(nspace);
        self.tools.remove(nspace);
        self.gone.remove(nspace);
        self.ended.remove(nspace);
        self.begun_anew.remove(nspace);
    }

    /// A process has ended.
    pub fn has_ended(&mut self, proc: &Proc) {
        if self.placement.contains_key(&proc.nspace) || self.tools.contains_key(&proc.nspace) {
            self.gone.entry(proc.nspace.clone()).or_default().insert(proc.rank.0);
            self.ends += 1;
            self.ended.entry(proc.nspace.clone()).or_default().insert(proc.rank.0, self.ends);
        }
    }

    /// Number of ends of processes so far.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// A process that has ended comes again.
    pub fn expect(&mut self, proc: &Proc) {
        if let Some(gone) = self.gone.get_mut(&proc.nspace) {
            gone.remove(&proc.rank.0);
        }
        if let Some(end) = self.end_of(proc) {
            self.begun_anew.entry(proc.nspace.clone()).or_default().insert(proc.rank.0, end);
        }
    }

    /// A node is lost. Returns whether that is news.
    pub fn lose(&mut self, node: usize) -> bool {
        self.down.insert(node)
    }

    /// Returns whether a node is lost.
    pub fn is_down(&self, node: usize) -> bool {
        self.down.contains(&node)
    }

    /// Returns whether some node is lost.
    pub fn has_lost(&self) -> bool {
        !self.down.is_empty()
    }

    /// The nodes of processes; none where a name is not known here.
    pub fn nodes_of(&self, procs: &[Proc]) -> Option<BTreeSet<usize>> {
        Some(self.each(procs)?.into_iter().map(|(_, node)| node).collect())
    }

    /// The nodes of processes of which none is left there, with those that are gone; of those that came again after so
    /// many ends, none counts.
    pub fn deserted(&self, procs: &[Proc], since: Option<u64>) -> BTreeMap<usize, Vec<Proc>> {
        let (mut deserted, mut living) = (BTreeMap::<usize, Vec<Proc>>::new(), BTreeSet::new());
        if self.down.is_empty() && !procs.iter().any(|proc| self.gone.contains_key(&proc.nspace)) {
            return deserted;
        }
        for (proc, node) in self.each(procs).unwrap_or_default() {
            let has_come_again = since.is_some_and(|since| self.end_of(&proc).is_some_and(|end| end > since));
            if has_come_again || self.is_gone(&proc) || self.is_down(node) {
                deserted.entry(node).or_default().push(proc);
            } else {
                living.insert(node);
            }
        }
        deserted.retain(|node, _| !living.contains(node));
        deserted
    }

    /// Returns whether a process is neither gone nor on a node that is lost.
    pub fn is_left(&self, proc: &Proc) -> bool {
        !self.is_gone(proc) && self.node_of(proc).is_some_and(|node| !self.is_down(node))
    }

    /// Returns whether one of these processes has ended after so many ends, and its rank was started anew since.
    pub fn has_begun_anew(&self, procs: &[Proc], since: u64) -> bool {
        let end_before = |proc: &Proc| self.begun_anew.get(&proc.nspace)?.get(&proc.rank.0).copied();
        let is_anew = |proc: &Proc| end_before(proc).is_some_and(|end| end > since);
        self.ends > since && self.each(procs).is_some_and(|each| each.iter().any(|(proc, _)| is_anew(proc)))
    }

    fn is_gone(&self, proc: &Proc) -> bool {
        self.gone.get(&proc.nspace).is_some_and(|gone| gone.contains(&proc.rank.0))
    }

    /// Number of the last end of a process, if it has ended.
    pub fn end_of(&self, proc: &Proc) -> Option<u64> {
        self.ended.get(&proc.nspace)?.get(&proc.rank.0).copied()
    }

    /// The node of a process, where that is known.
    pub fn node_of(&self, Proc { nspace, rank }: &Proc) -> Option<usize> {
        let placed = self.placement.get(nspace).and_then(|placed| placed.get(rank.0 as usize));
        let node = placed.or_else(|| self.tools.get(nspace)?.get(&rank.0))?;
        Some(*node as usize)
    }

    /// Processes by their ranks, each with its node.
    fn each(&self, procs: &[Proc]) -> Option<Vec<(Proc, usize)>> {
        let mut each = Vec::new();
        for proc in procs {
            if proc.rank != Rank::WILDCARD {
                each.push((proc.clone(), self.node_of(proc)?));
                continue;
            }
            let of = |(rank, node): (u32, &u32)| (Proc::new(proc.nspace.clone(), Rank(rank)), *node as usize);
            match (self.placement.get(&proc.nspace), self.tools.get(&proc.nspace)) {
                (Some(placed), _) => each.extend((0..).zip(placed).map(of)),
                (None, Some(tools)) => each.extend(tools.iter().map(|(rank, node)| of((*rank, node)))),
                (None, None) => return None,
            }
        }
        Some(each)
    }

    /// Processes by their ranks; as they are named where that is not known here.
    pub fn by_rank(&self, procs: &[Proc]) -> Vec<Proc> {
        self.each(procs).map_or_else(|| procs.to_vec(), |each| each.into_iter().map(|(proc, _)| proc).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_the_ranks_that_they_say() {
        let mut census = Census::default();
        let tool = Nspace::new("tool").unwrap();
        let proc = |rank| Proc::new(tool.clone(), rank);
        let last = Rank(instanton::data::constants::rank::RANK_VALID - 1);
        census.admit(&proc(last), 2);
        census.admit(&proc(Rank(0)), 1);
        assert_eq!(census.nodes_of(&[proc(Rank::WILDCARD)]), Some([1, 2].into()));
        assert_eq!(census.nodes_of(&[proc(last)]), Some([2].into()));
        assert_eq!(census.nodes_of(&[proc(Rank(1))]), None);
        assert_eq!(census.tools_of(&tool), Some(vec![(proc(Rank(0)), 1), (proc(last), 2)]));
        assert_eq!((census.tools_on(2), census.tools_on(0)), (vec![proc(last)], vec![]));
        census.has_ended(&proc(last));
        assert!(!census.is_left(&proc(last)) && census.is_left(&proc(Rank(0))));
        assert_eq!(census.deserted(&[proc(Rank::WILDCARD)], None), [(2, vec![proc(last)])].into());
        census.admit(&proc(last), 1);
        assert!(census.is_left(&proc(last)));
        census.forget(&tool);
        assert_eq!((census.nodes_of(&[proc(last)]), census.tools_of(&tool)), (None, None));
    }

    #[test]
    fn a_node_is_deserted_when_the_last_of_its_named_processes_is_gone() {
        let mut census = Census::default();
        let job = Nspace::new("job").unwrap();
        let proc = |rank| Proc::new(job.clone(), Rank(rank));
        census.place(&job, vec![0, 1, 1, 2]);
        let all = [Proc::new(job.clone(), Rank::WILDCARD)];
        assert_eq!(census.nodes_of(&all), Some([0, 1, 2].into()));
        assert_eq!(census.nodes_of(&[proc(4)]), None);
        census.has_ended(&proc(2));
        assert_eq!(census.deserted(&all, None), [].into());
        assert_eq!(census.deserted(&[proc(0), proc(2)], None), [(1, vec![proc(2)])].into());
        census.has_ended(&proc(1));
        assert_eq!(census.deserted(&all, None), [(1, vec![proc(1), proc(2)])].into());
        let ends = census.ends();
        census.expect(&proc(2));
        assert_eq!(census.deserted(&all, None), [].into());
        assert_eq!(census.deserted(&all, Some(0)), [(1, vec![proc(1), proc(2)])].into());
        assert_eq!(census.deserted(&all, Some(ends)), [].into());
        assert!(census.has_begun_anew(&all, 0) && !census.has_begun_anew(&all, ends));
        census.has_ended(&proc(2));
        assert!(census.has_begun_anew(&all, 0) && !census.has_begun_anew(&all, ends), "it ends once more");
        census.expect(&proc(2));
        assert!(census.has_begun_anew(&all, ends));
        assert!(census.lose(2) && !census.lose(2) && census.is_down(2));
        assert_eq!(census.deserted(&all, None), [(2, vec![proc(3)])].into());
        census.forget(&job);
        assert_eq!((census.deserted(&all, None), census.by_rank(&all)), ([].into(), all.to_vec()));
    }
}
