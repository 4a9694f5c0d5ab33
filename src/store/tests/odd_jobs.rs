//! Jobs of every shape, read back from columns and maps and compared with what a table of all values says.
use std::collections::BTreeMap;

use super::corrupt::{attach_copies, copies};
use super::*;
use crate::data::DataType;
use crate::data::maps::{Form, NodeMap, ProcMap};

/// Numbers from a seed.
pub(in crate::store) struct Dice(pub(in crate::store) u64);

impl Dice {
    pub(in crate::store) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    pub(in crate::store) fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    pub(in crate::store) fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    pub(in crate::store) fn shuffle(&mut self, numbers: &mut [u32]) {
        (1..numbers.len()).rev().for_each(|at| numbers.swap(at, self.below(at as u32 + 1) as usize));
    }
}

/// A job, and what a reader must find.
struct Odd {
    infos: Vec<Info>,
    names: Vec<String>,
    /// The node of each rank; none where the map says nothing.
    nodes: Vec<Option<u32>>,
    /// The ranks of each node, as the map names them.
    lists: Vec<Vec<u32>>,
    given: BTreeMap<(u32, Key), Value>,
    /// The application of each rank.
    apps: Vec<u32>,
    own: u32,
}

fn placement(dice: &mut Dice, ranks: u32, nodes: u32) -> Vec<Option<u32>> {
    let block = 1 + dice.below(5);
    let kind = dice.below(6);
    let mut node = 0;
    (0..ranks)
        .map(|rank| match kind {
            0 => Some(rank / ranks.div_ceil(nodes)),
            1 => Some(rank % nodes),
            2 => Some(rank / block % nodes),
            // Differing numbers on each, some without any.
            3 => {
                if dice.one_in(3) {
                    node = (node + 1 + dice.below(2)).min(nodes - 1);
                }
                Some(node)
            }
            4 => Some(dice.below(nodes)),
            _ => (!dice.one_in(9)).then(|| dice.below(nodes) / 2 * 2 % nodes),
        })
        .collect()
}

/// One application, several one after the other, or several mixed; where their processes do not say it, what the host
/// says.
fn applications(dice: &mut Dice, ranks: u32) -> (Vec<u32>, Option<Vec<Info>>) {
    match dice.below(3) {
        0 => (vec![0; ranks as usize], Some(Vec::new())),
        1 => {
            let (size, mut apps, mut infos) = (1 + dice.below(ranks), Vec::new(), Vec::new());
            for (number, first) in (0..).zip((0..ranks).step_by(size as usize)) {
                let size = size.min(ranks - first);
                apps.extend((0..size).map(|_| number));
                let app = vec![Info::new(keys::APPNUM, number), Info::new(keys::APP_SIZE, size)];
                infos.push(about(keys::APP_INFO_ARRAY, app));
            }
            (apps, Some(infos))
        }
        _ => {
            let (count, turns) = (1 + dice.below(4), dice.one_in(2));
            ((0..ranks).map(|rank| if turns { rank % count } else { 3 * dice.below(count) }).collect(), None)
        }
    }
}

fn names(dice: &mut Dice, nodes: u32) -> Vec<String> {
    let kind = dice.below(4);
    (0..nodes)
        .map(|node| match kind {
            0 => format!("node{node:04}.cluster2"),
            1 => format!("r{}n{}", node / 7, 8 + node % 7),
            2 => format!("host{}", node * 3 % nodes.next_power_of_two() + 5 * nodes * u32::from(node % 2 == 0)),
            _ if node % 3 == 0 => format!("{:x}-odd", dice.next()),
            _ => format!("n{}", 95 + node),
        })
        .collect()
}

fn value(dice: &mut Dice, kind: u32, rank: u32) -> Value {
    match kind {
        0 => Value::Uint32(7 + 3 * rank),
        1 => Value::Uint16(rank as u16 % 13),
        2 => Value::Uint64(dice.next()),
        3 => Value::Int32(-5 - rank as i32),
        4 => Value::string(format!("{}-{}", rank % 4, rank % 4 + 1)),
        5 => Value::string(format!("fabric-{rank}")),
        6 => [Value::String(None), Value::string(""), Value::string("x")][dice.below(3) as usize].clone(),
        7 => Value::Bool(rank.is_multiple_of(3)),
        8 => Value::from(vec![rank as u8; dice.below(40) as usize]),
        9 => Value::from(DataArray::of([Rank(rank), Rank(9)])),
        10 => Value::Double(f64::from(rank) / 3.0),
        // Now this type, now that.
        _ if rank.is_multiple_of(2) => Value::Uint8(rank as u8),
        _ => Value::from("odd"),
    }
}

fn odd(seed: u64) -> Odd {
    let mut dice = Dice(seed);
    let dice = &mut dice;
    let (ranks, count) = (1 + dice.below(300), 1 + dice.below(24));
    let mut names = names(dice, count);
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let count = names.len() as u32;
    let nodes = placement(dice, ranks, count);
    let on = |node| (0..ranks).filter(|rank| nodes[*rank as usize] == Some(node)).collect::<Vec<_>>();
    let mut lists: Vec<Vec<u32>> = (0..count).map(on).collect();
    if dice.one_in(3) {
        // The order of a map is nobody's rank.
        lists.iter_mut().for_each(|ranks| dice.shuffle(ranks));
    }
    let map = ProcMap::from_ranks(lists.iter().cloned()).unwrap();
    let form = [Form::Bracket, Form::Colon, Form::Raw, Form::Plain][dice.below(4) as usize];
    let mut infos = vec![
        Info::new(keys::JOB_SIZE, ranks),
        Info::new(keys::NODE_MAP, Value::string(NodeMap::from_names(&names).unwrap().to_text(Form::Bracket))),
        Info::new(keys::PROC_MAP, Value::string(map.to_text(form))),
        Info::new("same.key", "of the job"),
    ];
    let (apps, of_apps) = applications(dice, ranks);
    let each_says_its_app = of_apps.is_none();
    infos.extend(of_apps.into_iter().flatten());
    let own = dice.below(count);
    let mut given = BTreeMap::new();
    let long = "k".repeat(511);
    let reserved = [keys::RANK, keys::LOCAL_RANK, keys::NODE_RANK, keys::NODEID, keys::HOSTNAME, keys::GLOBAL_RANK];
    let own_keys = ["a.key", "same.key", &long, keys::CPUSET, keys::LOCALITY_STRING, "pmix.of.nobody", "my.port"];
    let plan: Vec<(&str, u32, u32)> =
        own_keys.iter().filter(|_| !dice.one_in(4)).map(|key| (*key, 0, 0)).collect::<Vec<_>>();
    let plan: Vec<_> = plan.into_iter().map(|(key, ..)| (key, dice.below(12), 1 + dice.below(4))).collect();
    let says = reserved.map(|_| (dice.one_in(2), dice.one_in(3)));
    let mut counts = vec![0u16; count as usize];
    let mut arrays = Vec::new();
    for rank in 0..ranks {
        let mut array = vec![Info::new(keys::RANK, Rank(rank))];
        if each_says_its_app {
            array.push(Info::new(keys::APPNUM, apps[rank as usize]));
        }
        let node = nodes[rank as usize];
        let local = node.map(|node| {
            counts[node as usize] += 1;
            counts[node as usize] - 1
        });
        for (key, (_, oddly)) in reserved.into_iter().zip(says).skip(1).filter(|(_, (said, _))| *said) {
            let contradicts = oddly && dice.one_in(5);
            let value = match (key, node, local) {
                (keys::NODEID, Some(node), _) if contradicts => Value::Uint64(node.into()),
                (keys::NODEID, Some(node), _) => Value::Uint32(node),
                (keys::HOSTNAME, Some(node), _) => Value::from(&names[node as usize][..]),
                (keys::LOCAL_RANK | keys::NODE_RANK, _, Some(local)) if contradicts => Value::Uint32(local.into()),
                (keys::LOCAL_RANK | keys::NODE_RANK, _, Some(local)) => {
                    Value::Uint16(local + u16::from(dice.one_in(20)))
                }
                (keys::GLOBAL_RANK, ..) => Value::ProcRank(Rank(rank + u32::from(contradicts))),
                _ => continue,
            };
            array.push(Info::new(key, value));
        }
        for (key, kind, often) in &plan {
            if !dice.one_in(4 * often) {
                array.push(Info::new(key, value(dice, *kind, rank)));
            }
            if dice.one_in(50) {
                array.push(Info::new(key, value(dice, 11, rank)));
            }
        }
        given.extend(array.iter().map(|info| ((rank, info.key.clone()), info.value.clone())));
        arrays.push(about(keys::PROC_INFO_ARRAY, array));
    }
    if dice.one_in(3) {
        // In another order, and some spoken of twice.
        arrays.reverse();
        let rank = dice.below(ranks);
        let again = vec![Info::new(keys::RANK, Rank(rank)), Info::new("a.key", Value::Uint32(1)), Info::new("b", 2u32)];
        given.extend(again.iter().map(|info| ((rank, info.key.clone()), info.value.clone())));
        arrays.push(about(keys::PROC_INFO_ARRAY, again));
    }
    infos.extend(arrays);
    Odd { infos, names, nodes, lists, given, apps, own }
}

fn list(odd: &Odd, node: u32) -> Vec<u32> {
    (0..odd.nodes.len() as u32).filter(|rank| odd.nodes[*rank as usize] == Some(node)).collect()
}

/// The value that a reader must answer for a key of a rank, if any.
fn expected(odd: &Odd, rank: u32, key: &str) -> Option<Value> {
    if let Some(value) = odd.given.get(&(rank, Key::try_from(key).unwrap())) {
        return Some(value.clone());
    }
    let node = odd.nodes[rank as usize];
    let local = || list(odd, node?).iter().position(|other| *other == rank);
    match key {
        keys::RANK | keys::GLOBAL_RANK => Some(Value::ProcRank(Rank(rank))),
        keys::APP_RANK => {
            let before = odd.apps[..rank as usize].iter().filter(|app| **app == odd.apps[rank as usize]);
            Some(Value::ProcRank(Rank(before.count() as u32)))
        }
        keys::APPNUM => Some(Value::Uint32(odd.apps[rank as usize])),
        keys::LOCAL_RANK | keys::NODE_RANK => local().map(|local| Value::Uint16(local as u16)),
        keys::NODEID => node.map(Value::Uint32),
        keys::HOSTNAME => node.map(|node| Value::from(&odd.names[node as usize][..])),
        keys::LOCAL_SIZE | keys::NODE_SIZE => node.map(|node| Value::Uint32(list(odd, node).len() as u32)),
        keys::LOCALLDR => node.map(|node| Value::ProcRank(Rank(list(odd, node)[0]))),
        keys::LOCAL_PEERS => node.map(|node| peers(odd, node)),
        _ => None,
    }
}

/// Peers are named as the map names them, as by stock libraries.
fn peers(odd: &Odd, node: u32) -> Value {
    Value::from(odd.lists[node as usize].iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

fn check(seed: u64) {
    let odd = odd(seed);
    let local = list(&odd, odd.own).len() as u32;
    let host = &odd.names[odd.own as usize];
    let info = JobInfo::from_infos(&nspace(), local, &odd.infos, host).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
    let (reader, _) = attach(&mut writer);
    reader.verify().unwrap();
    let own_ranks = list(&odd, odd.own);
    if let Some(rank) = own_ranks.first() {
        reader.populate_own(Rank(*rank)).unwrap();
    }
    assert_eq!(writer.local_ranks(), own_ranks.iter().copied().map(Rank).collect::<Vec<_>>(), "seed {seed}");
    let mut asked: Vec<&str> = derived_keys();
    let own_keys: std::collections::BTreeSet<Key> = odd.given.keys().map(|(_, key)| key.clone()).collect();
    let own_keys: Vec<String> = own_keys.iter().map(|key| key.to_string()).collect();
    asked.extend(own_keys.iter().map(|key| &key[..]));
    // A whole-job map leaves nobody without a node where all processes run here.
    let whole = local == odd.nodes.len() as u32;
    for rank in (0..odd.nodes.len() as u32).filter(|rank| !whole || odd.nodes[*rank as usize].is_some()) {
        for key in &asked {
            let found = get_all_ways(&reader, writer.reader(), &Question::new(Rank(rank), *key));
            assert_eq!(found, expected(&odd, rank, key), "seed {seed}: {key} of rank {rank}");
        }
        for (key, _, value, _) in reader.all(Rank(rank)).unwrap() {
            let known = expected(&odd, rank, &key.to_string_lossy());
            assert_eq!(Some(value), known, "seed {seed}: {key} among all of rank {rank}");
        }
        assert_eq!(reader.node_of(Rank(rank)), odd.nodes[rank as usize], "seed {seed}: node of {rank}");
    }
    for (node, name) in (0u32..).zip(&odd.names) {
        let level = Directives::of_host(Text::new(name.as_bytes()).unwrap());
        let of_node = |key| get_all_ways(&reader, writer.reader(), &Question::new(Rank::WILDCARD, key).with(&level));
        assert_eq!(of_node(keys::NODEID), Some(Value::Uint32(node)), "seed {seed}: {name}");
        let some = !odd.lists[node as usize].is_empty();
        assert_eq!(of_node(keys::LOCAL_PEERS), some.then(|| peers(&odd, node)), "seed {seed}: {name}");
    }
    for (key, info) in [(keys::PROC_MAP, 2), (keys::NODE_MAP, 1), ("same.key", 3)] {
        let found = reader.get(&Question::new(Rank::WILDCARD, key)).unwrap();
        assert_eq!(found, odd.infos[info].value, "seed {seed}: {key}");
    }
}

fn derived_keys() -> Vec<&'static str> {
    use super::super::info::known_keys::{OF_NODE, OF_PROCESS};
    OF_PROCESS.into_iter().chain(OF_NODE).collect()
}

#[test]
fn odd_jobs_are_read_back_as_they_were_given() {
    for seed in 0..150 {
        check(seed);
    }
}

#[test]
fn long_maps_and_lists_are_computed_as_they_were_given() {
    let names: Vec<String> = (0..2000).map(|node| format!("node{node:05}")).collect();
    for (form, cyclic) in [(Form::Bracket, false), (Form::Plain, true), (Form::Raw, false), (Form::Bracket, true)] {
        let ranks = |node: u32| (0..3).map(move |nth| if cyclic { node + 2000 * nth } else { 3 * node + nth });
        let map = Value::string(ProcMap::from_ranks((0..2000).map(ranks)).unwrap().to_text(form));
        let nodes = Value::string(NodeMap::from_names(&names).unwrap().to_text(Form::Bracket));
        let infos = [Info::new(keys::NODE_MAP, nodes), Info::new(keys::PROC_MAP, map.clone())];
        let info = JobInfo::from_infos(&nspace(), 3, &infos, "node00007").unwrap();
        let mut writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
        let (reader, _) = attach(&mut writer);
        let of_job = |key| get_all_ways(&reader, writer.reader(), &Question::new(Rank::WILDCARD, key)).unwrap();
        assert_eq!(of_job(keys::PROC_MAP), map, "{form:?}");
        assert_eq!(of_job(keys::NODE_LIST), Value::String(Some(Text::new(names.join(",")).unwrap())));
        let job = writer.segments(&Have { job: true, ..Have::default() });
        let info: u64 = job
            .iter()
            .map(|(_, fd)| std::fs::File::from(fd.try_clone_to_owned().unwrap()).metadata().unwrap().len())
            .sum();
        assert!(info < 16 << 10, "{info} bytes for a job that maps describe");
    }
}

/// A process map that is not kept as text is written again, letter by letter, whatever else the host says of where
/// processes are.
#[test]
fn a_process_map_comes_back_as_it_was_given() {
    let mut dice = Dice(20_261_122);
    let map = |text: Vec<u8>| Value::String(Some(Text::new(text).unwrap()));
    for round in 0..120 {
        let nodes = 200 + dice.below(200);
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
        (0..1500).for_each(|rank| lists[dice.below(nodes) as usize].push(rank));
        let form = [Form::Bracket, Form::Plain, Form::Raw][dice.below(3) as usize];
        let odd = dice.below(12);
        let shuffled = dice.one_in(2);
        if shuffled {
            lists.iter_mut().for_each(|ranks| dice.shuffle(ranks));
        }
        let mut text = ProcMap::from_ranks(lists).unwrap().to_text(form);
        let digit = |text: &[u8]| text.iter().rposition(u8::is_ascii_digit).unwrap();
        match odd {
            // Not as it would be written again: the text is what there is.
            1 => text.insert(digit(&text) + 1, b';'),
            2 => text.splice(digit(&text) + 1..digit(&text) + 1, *b",7").for_each(drop),
            3 => text.splice(digit(&text)..digit(&text), *b"0").for_each(drop),
            _ => {}
        }
        let given = match dice.below(3) {
            0 => Value::Regex([&text[..], b"\0"].concat()),
            1 => Value::Regex(text),
            _ => map(text),
        };
        let names: Vec<String> =
            (0..nodes).map(|node| format!("n{}", if odd == 4 { node / 2 } else { node })).collect();
        let mut infos = vec![
            Info::new(keys::NODE_MAP, map(NodeMap::from_names(&names).unwrap().to_text(Form::Bracket))),
            Info::new(keys::PROC_MAP, given.clone()),
        ];
        let process = |rank: u32, key: &str, value: Value| {
            about(keys::PROC_INFO_ARRAY, vec![Info::new(keys::RANK, Rank(rank)), Info::new(key, value)])
        };
        match odd {
            5 => infos.push(process(dice.below(1500), keys::HOSTNAME, Value::from("n0"))),
            6 => infos.push(process(dice.below(1500), keys::NODEID, Value::from(dice.below(nodes)))),
            7 => infos.push(process(1500 + dice.below(9), keys::NODEID, Value::from(1u32))),
            8 => infos.push(about(
                keys::NODE_INFO_ARRAY,
                vec![Info::new(keys::HOSTNAME, "n3"), Info::new(keys::NODEID, nodes + 7)],
            )),
            9 => infos.push(Info::new(keys::JOB_SIZE, 1504u32)),
            _ => {}
        }
        let local = if odd == 9 { 1504 } else { 1 };
        let mut job = JobInfoBuilder::new(&nspace(), local, "n1");
        job.infos(&infos).unwrap();
        if odd == 10 {
            job.infos(&[Info::new(keys::JOB_SIZE, 1500u32)]).unwrap();
            job.place(super::super::Placement::Cyclic);
        }
        let writer = JobWriter::create(&nspace(), job.build().unwrap(), &Limits::default()).unwrap();
        let found = writer.reader().get(&Question::new(Rank::WILDCARD, keys::PROC_MAP)).unwrap();
        assert_eq!(found, given, "round {round}, {odd}");
        // Lists that say all are all there is. A NUL in an expression is not one of ours.
        let bytes = given.as_bytes().map_or(0, <[u8]>::len);
        if shuffled && odd == 0 && !matches!(&given, Value::Regex(text) if text.ends_with(b"\0")) {
            let (ranks, members) = (1500 * (9 + 4 + 11) / 8, nodes as usize * (11 + 8 * 8) / 8);
            let stats = writer.stats().bytes as usize;
            assert!(stats < ranks + members + 4096 && stats < 2 * bytes, "{stats} bytes for a map of {bytes}");
        }
    }
}

#[test]
fn other_names_of_a_node_find_it() {
    let aliases = Value::from("login,login.example.org");
    let node = vec![Info::new(keys::HOSTNAME, "beta"), Info::new(keys::HOSTNAME_ALIASES, aliases)];
    let writer = writer_of(&[infos(), vec![about(keys::NODE_INFO_ARRAY, node)]].concat());
    let by_name = |name: &'static [u8]| {
        let level = Directives::of_host(Text::new(name).unwrap());
        writer.reader().get(&Question::new(Rank::WILDCARD, keys::NODEID).with(&level)).ok()
    };
    assert_eq!(by_name(b"login.example.org"), Some(Value::Uint32(1)));
    assert_eq!(by_name(b"login"), by_name(b"beta"));
    assert_eq!(by_name(b"log"), None);
    assert_eq!(by_name(b"alpha"), Some(Value::Uint32(0)));
}

fn writer_of(infos: &[Info]) -> JobWriter {
    JobWriter::create(&nspace(), job_info(infos), &Limits::default()).unwrap()
}

#[test]
fn everything_of_the_job_has_the_own_nodes_and_the_only_applications_keys() {
    let writer = writer(&Limits::default());
    let all = writer.reader().all(Rank::WILDCARD).unwrap();
    for key in [keys::JOB_SIZE, keys::UNIV_SIZE, keys::LOCAL_PEERS, keys::HOSTNAME, keys::APP_SIZE] {
        assert_eq!(all.iter().filter(|(known, ..)| *known == key).count(), 1, "{key}");
    }
}

/// Bits of the job information are turned over and its end is cut off; then everything is read. Nothing that has a
/// checksum is ever wrong, and columns only where their own would have told.
#[test]
fn damaged_columns_and_maps_are_survived() {
    for seed in 0..60 {
        let odd = odd(seed);
        let info = JobInfo::from_infos(&nspace(), 1, &odd.infos, &odd.names[odd.own as usize]).unwrap();
        let writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
        let true_reader = attach_copies(&copies(&writer)).unwrap();
        let mut dice = Dice(!seed);
        for round in 0..24 {
            let mut segments = copies(&writer);
            let words = segments.last_mut().unwrap();
            for _ in 0..=dice.below(3) {
                let at = dice.below(words.len() as u32) as usize;
                words[at] ^= 1 << dice.below(64);
            }
            if round % 4 == 3 {
                words.truncate(words.len() - dice.below(words.len() as u32) as usize);
            }
            let Some(reader) = attach_copies(&segments) else { continue };
            let _ = reader.populate_own(Rank(dice.below(odd.nodes.len() as u32)));
            let sound = reader.verify().is_ok();
            let mut questions: Vec<(Rank, Directives)> =
                (0..12).map(|_| (Rank(dice.below(odd.nodes.len() as u32)), Directives::NONE)).collect();
            questions.push((Rank::WILDCARD, Directives::NONE));
            for name in &odd.names {
                questions.push((Rank::WILDCARD, Directives::of_host(Text::new(name.as_bytes()).unwrap())));
            }
            for (rank, level) in questions {
                let _ = (reader.all(rank), reader.node_of(rank), reader.app_of(rank), reader.local_ranks());
                let known = odd.given.keys().map(|(_, key)| key.to_string()).collect::<std::collections::BTreeSet<_>>();
                let names = derived_keys().into_iter().chain([keys::PROC_MAP, keys::NODE_LIST, keys::JOB_SIZE]);
                for key in names.map(str::to_string).chain(known) {
                    let question = Question::new(rank, &key).with(&level);
                    if let Ok(found) = reader.get(&question)
                        && sound
                    {
                        let right = true_reader.get(&question).ok();
                        assert_eq!(Some(found), right, "seed {seed}, round {round}: {key} of {rank} at {level:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn types_of_scalars_have_bits() {
    for value in [Value::Int8(-1), Value::Float(-0.0), Value::Status(crate::data::Status(-25)), Value::Int64(i64::MIN)]
    {
        let datum = Datum::from(&value);
        let Datum::Scalar(ty, bits) = datum else { panic!("{value:?}") };
        assert_eq!(crate::store::codec::scalar_value(ty, bits), Some(value));
    }
    assert_eq!(Datum::from(&Value::from("text")).data_type(), DataType::STRING);
}
