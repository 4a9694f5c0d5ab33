//! Allocations within the one of the run (`PMIx_Allocation_request`): slots of this machine, as long as there are free
//! ones.
//!
//! An allocation is a number of slots that its owner holds: what others may ask for is less by them. It starts nothing
//! and hinders no spawn. It ends when it is released, or with its owner.
use std::collections::BTreeMap;

use instanton::data::constants::alloc_directive::{ALLOC_EXTEND, ALLOC_NEW, ALLOC_RELEASE};
use instanton::data::{Info, InfoList, Nspace, Proc, Status, Value, keys};
use instanton::server::{Completion, Infos};

/// Attributes that are served when they are required.
const SERVED: [&str; 7] = [
    keys::ALLOC_ID,
    keys::ALLOC_REQ_ID,
    keys::ALLOC_NUM_NODES,
    keys::ALLOC_NUM_CPUS,
    keys::ALLOC_NODE_LIST,
    keys::USERID,
    keys::GRPID,
];
/// Most allocations of one owner.
const MOST: usize = 1024;

/// Request of a rank or tool, and the way back.
#[derive(Debug)]
pub struct Request {
    /// Process that asks.
    pub owner: Proc,
    /// A `constants::alloc_directive`.
    pub directive: u8,
    /// Attributes.
    pub data: Vec<Info>,
    /// Answered with the allocation.
    pub done: Completion<Infos>,
}

/// The allocations that are held: by their names, who holds them, and how many slots.
#[derive(Debug, Default)]
pub struct Allocations {
    held: BTreeMap<String, (Proc, u64)>,
    last: u64,
}

impl Allocations {
    /// Returns the number of slots that are held.
    pub fn slots(&self) -> u64 {
        self.held.values().map(|(_, slots)| slots).sum()
    }

    /// Allocations of a process end with it.
    pub fn process_ended(&mut self, proc: &Proc) {
        self.held.retain(|_, (owner, _)| owner != proc);
    }

    /// Allocations of a job end with it, whichever of its processes they are of.
    pub fn job_ended(&mut self, nspace: &Nspace) {
        self.held.retain(|_, (owner, _)| owner.nspace != *nspace);
    }

    /// Answers a request; `nodes` are this machine, or the simulated ones, and `free` is the number of slots that no rank
    /// holds. Nobody keeps account of which node they are on.
    pub fn answer(&mut self, request: Request, nodes: &[String], free: u64) {
        let Request { owner, directive, data, done } = request;
        let answer = self.decide(&owner, directive, &data, nodes, free.saturating_sub(self.slots()));
        done.complete(answer.map(|infos| (Status::SUCCESS, infos)));
    }

    /// The number of slots that a process holds under a name.
    fn held_by(&mut self, owner: &Proc, name: Option<&str>) -> Result<&mut u64, Status> {
        let held = self.held.get_mut(name.ok_or(Status::ERR_BAD_PARAM)?);
        held.filter(|(holder, _)| holder == owner).map(|(_, slots)| slots).ok_or(Status::ERR_NOT_FOUND)
    }

    fn decide(
        &mut self,
        owner: &Proc,
        directive: u8,
        data: &[Info],
        all: &[String],
        free: u64,
    ) -> Result<Vec<Info>, Status> {
        let is_known = [ALLOC_NEW, ALLOC_EXTEND, ALLOC_RELEASE].contains(&directive);
        if !is_known || data.iter().any(|info| info.is_unserved(&SERVED)) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let number = |key| data.find(key).map(|info| info.value.as_u64().ok_or(Status::ERR_BAD_PARAM)).transpose();
        let named = data.find(keys::ALLOC_ID).and_then(|info| info.value.as_str());
        if directive == ALLOC_RELEASE {
            self.held_by(owner, named)?;
            named.map(|name| self.held.remove(name));
            return Ok(Vec::new());
        }
        let nodes = data.find(keys::ALLOC_NODE_LIST).and_then(|info| info.value.as_str());
        let is_here = |name: &str| all.iter().any(|node| instanton::launch::is_named(name.trim(), node));
        let wanted =
            number(keys::ALLOC_NUM_NODES)?.map_or(all.len(), |wanted| usize::try_from(wanted).unwrap_or(usize::MAX));
        if wanted > all.len() || nodes.is_some_and(|nodes| !nodes.split(',').all(is_here)) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let nodes = nodes.map_or_else(|| all[..wanted.max(1)].join(","), str::to_owned);
        let slots = number(keys::ALLOC_NUM_CPUS)?.unwrap_or(1);
        if slots == 0 {
            return Err(Status::ERR_BAD_PARAM);
        }
        if slots > free {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let (name, slots) = match directive {
            ALLOC_EXTEND => {
                let held = self.held_by(owner, named)?;
                *held += slots;
                (named.unwrap_or_default().to_owned(), *held)
            }
            ALLOC_NEW if self.held.values().filter(|(holder, _)| holder == owner).count() >= MOST => {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            _ => {
                self.last += 1;
                let name = format!("{}.{}", owner.nspace, self.last);
                self.held.insert(name.clone(), (owner.clone(), slots));
                (name, slots)
            }
        };
        let request = data.find(keys::ALLOC_REQ_ID).cloned();
        let said = [
            Info::new(keys::ALLOC_ID, name.as_str()),
            Info::new(keys::ALLOC_NUM_NODES, nodes.split(',').count() as u64),
            Info::new(keys::ALLOC_NUM_CPUS, slots),
            Info::new(keys::ALLOC_NODE_LIST, Value::string(nodes)),
        ];
        Ok(said.into_iter().chain(request).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::Rank;

    #[test]
    fn slots_of_simulated_nodes_are_on_those_that_were_asked_for() {
        let owner = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let nodes = ["n0", "n1", "n2"].map(str::to_owned);
        let on = |wish: Option<Info>| {
            let told = Allocations::default().decide(&owner, ALLOC_NEW, wish.as_slice(), &nodes, 6)?;
            let number = told.find(keys::ALLOC_NUM_NODES).unwrap().value.as_u64().unwrap();
            Ok((number, told.find(keys::ALLOC_NODE_LIST).unwrap().value.as_str().unwrap().to_owned()))
        };
        assert_eq!(on(None), Ok((3, "n0,n1,n2".to_owned())));
        assert_eq!(on(Some(Info::new(keys::ALLOC_NUM_NODES, 2u64))), Ok((2, "n0,n1".to_owned())));
        assert_eq!(on(Some(Info::new(keys::ALLOC_NODE_LIST, "n2,n1"))), Ok((2, "n2,n1".to_owned())));
        assert_eq!(on(Some(Info::new(keys::ALLOC_NUM_NODES, 4u64))), Err(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(on(Some(Info::new(keys::ALLOC_NODE_LIST, "n1,n3"))), Err(Status::ERR_OUT_OF_RESOURCE));
    }

    #[test]
    fn slots_are_given_as_long_as_there_are_free_ones_and_only_their_owner_gives_them_back() {
        let mut all = Allocations::default();
        let [a, b] = [0, 1].map(|rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank)));
        let ask = |all: &mut Allocations, owner: &Proc, directive, data: &[Info]| {
            let free = 4 - all.slots();
            all.decide(owner, directive, data, &["n".to_owned()], free)
        };
        let cpus = |number: u64| Info::new(keys::ALLOC_NUM_CPUS, number);
        let told = ask(&mut all, &a, ALLOC_NEW, &[cpus(3), Info::new(keys::ALLOC_REQ_ID, "mine")]).unwrap();
        let id = told.find(keys::ALLOC_ID).unwrap().clone();
        assert_eq!(told.find(keys::ALLOC_NODE_LIST).and_then(|info| info.value.as_str()), Some("n"));
        assert_eq!(told.find(keys::ALLOC_REQ_ID).and_then(|info| info.value.as_str()), Some("mine"));
        assert_eq!(ask(&mut all, &b, ALLOC_NEW, &[cpus(2)]), Err(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(ask(&mut all, &b, ALLOC_EXTEND, &[id.clone(), cpus(1)]), Err(Status::ERR_NOT_FOUND));
        let more = ask(&mut all, &a, ALLOC_EXTEND, &[id.clone(), cpus(1)]).unwrap();
        assert_eq!((more.find(keys::ALLOC_NUM_CPUS).unwrap().value.as_u64(), all.slots()), (Some(4), 4));
        assert_eq!(ask(&mut all, &b, ALLOC_RELEASE, std::slice::from_ref(&id)), Err(Status::ERR_NOT_FOUND));
        assert_eq!(ask(&mut all, &a, ALLOC_RELEASE, std::slice::from_ref(&id)), Ok(Vec::new()));
        for (wish, status) in [
            (cpus(0), Status::ERR_BAD_PARAM),
            (Info::new(keys::ALLOC_NUM_NODES, 2u64), Status::ERR_OUT_OF_RESOURCE),
            (Info::new(keys::ALLOC_NODE_LIST, "n,other"), Status::ERR_OUT_OF_RESOURCE),
            (Info::new(keys::ALLOC_MEM_SIZE, Value::Float(1.0)).required(), Status::ERR_NOT_SUPPORTED),
        ] {
            assert_eq!(ask(&mut all, &b, ALLOC_NEW, &[wish]), Err(status));
        }
        for unknown in [0, 77] {
            assert_eq!(ask(&mut all, &b, unknown, &[cpus(100)]), Err(Status::ERR_NOT_SUPPORTED));
        }
        ask(&mut all, &b, ALLOC_NEW, &[]).unwrap();
        assert_eq!(all.slots(), 1);
        all.process_ended(&b);
        assert_eq!(all.slots(), 0);
        ask(&mut all, &a, ALLOC_NEW, &[]).unwrap();
        all.job_ended(&Nspace::new("jo").unwrap());
        assert_eq!(all.slots(), 1);
        all.job_ended(&a.nspace);
        assert_eq!(all.slots(), 0);
    }
}
