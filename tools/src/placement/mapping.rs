//! Mapping and binding of the ranks of one job.
use super::files::FileRequest;
use super::machine::{Kind, Machine, Object};
use super::policy::{Mapping, Order, Policy};
use super::seats::{Nodes, Seat, numbered_over, seats};

/// The place of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Node that it runs on.
    pub node: u32,
    /// Kind and logical number of the object that it is mapped to.
    pub object: (Kind, u32),
    /// Units of the machine that it is bound to; none where it is not bound.
    pub units: Vec<usize>,
}

/// Objects that ranks are bound to, and how many are.
struct Bindable {
    kind: Kind,
    objects: Vec<Object>,
    /// Processors in each, which so many ranks may share.
    room: Vec<usize>,
    ranks: Vec<usize>,
}

/// Places so many ranks on nodes that are each this machine. `taken` has the spots of ranks of other jobs, and `file`
/// what a file says where the policy names one.
///
/// # Errors
/// A line that says what the machine lacks.
pub fn place(
    policy: &Policy,
    machine: &Machine,
    nodes: Nodes<'_>,
    ranks: u32,
    taken: &[&Spot],
    file: Option<&FileRequest>,
) -> Result<Vec<Spot>, String> {
    let processor = policy.processor();
    let objects = mapped(policy, machine, processor)?;
    let mut of_rank = seats(policy, ranks, nodes, objects.len())?;
    if let Order::Objects(kind, turn) = policy.order {
        of_rank = numbered_over(of_rank, turn, nodes.count, &overlapping(machine, kind, &objects)?);
    }
    if let Some(file) = file {
        of_rank = (0..ranks).map(|rank| Seat { node: file.node(rank), object: 0 }).collect();
    }
    let Some(kind) = policy.binds() else {
        let spot = |seat: &Seat| Spot { node: seat.node, object: objects[seat.object].0, units: Vec::new() };
        return Ok(of_rank.iter().map(spot).collect());
    };
    let per_rank = policy.per_rank.unwrap_or(1) as usize;
    if policy.per_rank.is_some() && kind != processor {
        return Err(format!(
            "pe={per_rank} binds ranks to so many of {}; leave out --bind-to {}",
            processor.name(),
            kind.name()
        ));
    }
    let of_node = |node| {
        let taken = taken.iter().filter(|spot| spot.node == node);
        Bindable::new(machine, kind, processor, &taken.map(|spot| &spot.units[..]).collect::<Vec<_>>())
    };
    let mut of_nodes = (0..nodes.count).map(of_node).collect::<Result<Vec<_>, _>>()?;
    let near: Vec<Vec<usize>> = objects.iter().map(|(of, units)| of_nodes[0].near(of.0, units)).collect();
    let mut spots = Vec::new();
    for (rank, Seat { node, object: at }) in (0..).zip(of_rank) {
        let (object, _) = &objects[at];
        let bindable = &mut of_nodes[node as usize];
        let units = match file.and_then(|file| file.units(rank)) {
            None if policy.shares_list() => objects[at].1.clone(),
            Some(units) => {
                let chosen: Vec<usize> = bindable.around(units);
                bindable.take(rank, &chosen, policy)?;
                units.to_vec()
            }
            None => {
                if near[at].len() < per_rank {
                    let (kind, number) = object;
                    return Err(format!(
                        "rank {rank}: {} {number} has {} {}, and {per_rank} are asked for; map by a larger object",
                        kind.name(),
                        near[at].len(),
                        bindable.kind.name()
                    ));
                }
                let chosen = bindable.emptiest(&near[at], per_rank);
                bindable.take(rank, &chosen, policy)?;
                let mut units: Vec<usize> =
                    chosen.iter().flat_map(|&object| bindable.objects[object].units.iter().copied()).collect();
                units.sort_unstable();
                units
            }
        };
        spots.push(Spot { node, object: *object, units });
    }
    Ok(spots)
}

/// The objects that ranks are mapped to, with their units.
type Mapped = Vec<((Kind, u32), Vec<usize>)>;

fn mapped(policy: &Policy, machine: &Machine, processor: Kind) -> Result<Mapped, String> {
    let kind = match &policy.mapping {
        Mapping::Slot | Mapping::Sequence | Mapping::RankFile => Kind::Node,
        Mapping::By(kind) | Mapping::PerObject(_, kind) => *kind,
        Mapping::Units(list) => {
            let objects = machine.objects(processor);
            let find = |number: &u32| {
                let object = objects.iter().find(|object| object.number == *number);
                object.ok_or_else(|| {
                    format!("--cpu-set, or pe-list: there is no {} {number} to run on", processor.name())
                })
            };
            let listed = list.iter().map(find).collect::<Result<Vec<_>, _>>()?;
            return Ok(match policy.is_ordered {
                true => listed.iter().map(|object| ((processor, object.number), object.units.clone())).collect(),
                false => {
                    let units = listed.iter().flat_map(|object| object.units.iter().copied()).collect();
                    vec![((Kind::Node, 0), units)]
                }
            });
        }
    };
    let objects = machine.objects(kind);
    if objects.is_empty() {
        return Err(format!("this machine has no {} to map by", kind.name()));
    }
    Ok(objects.into_iter().map(|object| ((kind, object.number), object.units)).collect())
}

/// Returns, for each object of a kind, the numbers of those among the mapped ones that share units with it.
fn overlapping(machine: &Machine, kind: Kind, mapped: &Mapped) -> Result<Vec<Vec<usize>>, String> {
    let objects = machine.objects(kind);
    if objects.is_empty() {
        return Err(format!("this machine has no {} to rank by", kind.name()));
    }
    let shared = |object: Object| {
        let touches = |(_, (_, units)): &(usize, &((Kind, u32), Vec<usize>))| {
            units.iter().any(|unit| object.units.contains(unit))
        };
        mapped.iter().enumerate().filter(touches).map(|(number, _)| number).collect()
    };
    Ok(objects.into_iter().map(shared).collect())
}

impl Bindable {
    fn new(machine: &Machine, kind: Kind, processor: Kind, taken: &[&[usize]]) -> Result<Self, String> {
        let objects = machine.objects(kind);
        if objects.is_empty() {
            return Err(format!("this machine has no {} to bind to", kind.name()));
        }
        let room = objects.iter().map(|object| machine.count(processor, &object.units).max(1)).collect();
        let ranks = vec![0; objects.len()];
        let mut bindable = Self { kind, objects, room, ranks };
        for units in taken {
            for object in bindable.around(units) {
                bindable.ranks[object] += 1;
            }
        }
        Ok(bindable)
    }

    /// The objects that these units are part of.
    fn around(&self, units: &[usize]) -> Vec<usize> {
        let touches = |object: &&usize| self.objects[**object].units.iter().any(|unit| units.contains(unit));
        let all: Vec<usize> = (0..self.objects.len()).collect();
        all.iter().filter(touches).copied().collect()
    }

    /// The objects within a mapped one of a kind, or the one that it is within.
    fn near(&self, mapped: Kind, units: &[usize]) -> Vec<usize> {
        let around = |object: &usize| self.objects[*object].units.contains(&units[0]);
        let within = |object: &usize| units.contains(&self.objects[*object].units[0]);
        let all = 0..self.objects.len();
        if self.kind <= mapped { all.filter(around).collect() } else { all.filter(within).collect() }
    }

    /// So many of some objects, those with the fewest ranks first.
    fn emptiest(&self, objects: &[usize], count: usize) -> Vec<usize> {
        let mut chosen = Vec::with_capacity(count);
        let mut level = objects.iter().map(|&object| self.ranks[object]).min();
        while let Some(ranks) = level.filter(|_| chosen.len() < count) {
            let on_level = objects.iter().copied().filter(|&object| self.ranks[object] == ranks);
            chosen.extend(on_level.take(count - chosen.len()));
            level = objects.iter().map(|&object| self.ranks[object]).filter(|&other| other > ranks).min();
        }
        chosen
    }

    /// One more rank is bound to these.
    fn take(&mut self, rank: u32, objects: &[usize], policy: &Policy) -> Result<(), String> {
        for &object in objects {
            if self.ranks[object] >= self.room[object] && !policy.binding.overloads {
                let (name, number) = (self.kind.name(), self.objects[object].number);
                return Err(format!(
                    "rank {rank} would be bound to {name} {number}, which is full ({}); start fewer ranks, or let them \
                     share with --bind-to {name}:overload",
                    self.room[object]
                ));
            }
            self.ranks[object] += 1;
        }
        Ok(())
    }
}
