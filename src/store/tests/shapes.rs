//! Jobs of many nodes and ranks, whatever their shape: what follows from the maps, compared with what each rank's place
//! says.
use super::odd_jobs::Dice;
use super::*;
use crate::data::maps::{Form, NodeMap, ProcMap};

/// The ranks of each node, and the names of these.
struct Shape {
    name: fn(u32) -> String,
    nodes: Vec<Vec<u32>>,
}

fn blocks(ranks: u32, nodes: u32) -> Vec<Vec<u32>> {
    let size = ranks.div_ceil(nodes);
    (0..nodes).map(|node| (ranks.min(node * size)..ranks.min((node + 1) * size)).collect()).collect()
}

fn sizes(mut size: impl FnMut(u32) -> u32, ranks: u32) -> Vec<Vec<u32>> {
    let (mut nodes, mut next) = (Vec::new(), 0);
    while next < ranks {
        let end = ranks.min(next + size(nodes.len() as u32));
        nodes.push((next..end).collect());
        next = end;
    }
    nodes
}

fn shapes(dice: &mut Dice) -> Vec<Shape> {
    const RANKS: u32 = 16_000;
    let padded: fn(u32) -> String = |node| format!("node{node:06}");
    let names: [fn(u32) -> String; 6] = [
        padded,
        |node| format!("n{node}"),
        |node| format!("n{node:03}.cluster7.org"),
        |node| format!("r{}c{}n{:02}", node / 640, node / 40 % 16, node % 40),
        // They have nothing in common.
        |node| format!("{:x}-host", u64::from(node + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        |node| format!("n{}", node ^ 5),
    ];
    let mut random: Vec<u32> = (0..RANKS).collect();
    dice.shuffle(&mut random);
    let turned = |mut nodes: Vec<Vec<u32>>| {
        nodes.reverse();
        nodes
    };
    let mut idle = vec![Vec::new(); 4000];
    blocks(RANKS, 125).into_iter().enumerate().for_each(|(nth, ranks)| idle[32 * nth] = ranks);
    let every_third =
        blocks(RANKS, 500).into_iter().map(|ranks| ranks.into_iter().filter(|rank| rank % 3 == 0).collect());
    let mut placed = vec![
        blocks(RANKS, RANKS),
        turned(blocks(RANKS, RANKS)),
        blocks(RANKS, RANKS / 2),
        blocks(RANKS, 1),
        blocks(RANKS, 500),
        turned(blocks(RANKS, 500)),
        sizes(|node| 16 + 32 * (node % 2), RANKS),
        sizes(|node| 1 + u32::from(node.is_multiple_of(1000)), RANKS),
        sizes(|_| 1 + dice.below(5), RANKS),
        (0..500).map(|node| (node..RANKS).step_by(500).collect()).collect(),
        random.chunks(32).map(<[u32]>::to_vec).collect(),
        random.chunks(1).map(<[u32]>::to_vec).collect(),
        idle,
        every_third.collect(),
        // The first and the last ranks together.
        (0..RANKS / 2).map(|node| vec![node, RANKS - 1 - node]).collect(),
    ];
    let several = placed[0].clone();
    let mut shapes: Vec<Shape> = names[1..].iter().map(|name| Shape { name: *name, nodes: several.clone() }).collect();
    let others = names.iter().map(|name| Shape { name: *name, nodes: blocks(RANKS, 500) });
    shapes.extend(others);
    shapes.extend(placed.drain(..).map(|nodes| Shape { name: padded, nodes }));
    shapes
}

fn check(shape: &Shape, form: Form, dice: &mut Dice) {
    let Shape { name, nodes } = shape;
    let ranks = nodes.iter().flatten().max().unwrap() + 1;
    let names: Vec<String> = (0..nodes.len() as u32).map(name).collect();
    let own = dice.below(nodes.len() as u32) as usize;
    let apps = if dice.one_in(2) { vec![ranks] } else { vec![ranks / 3, ranks / 5, ranks - ranks / 3 - ranks / 5] };
    let text = |text: Vec<u8>| Value::string(String::from_utf8(text).unwrap());
    let mut infos = vec![
        Info::new(keys::NODE_MAP, text(NodeMap::from_names(&names).unwrap().to_text(form))),
        Info::new(keys::PROC_MAP, text(ProcMap::from_ranks(nodes.iter().cloned()).unwrap().to_text(form))),
    ];
    if dice.one_in(2) {
        infos.insert(0, Info::new(keys::JOB_SIZE, ranks));
    }
    infos.extend((0u32..).zip(&apps).map(|(number, size)| {
        about(keys::APP_INFO_ARRAY, vec![Info::new(keys::APPNUM, number), Info::new(keys::APP_SIZE, *size)])
    }));
    let info = JobInfo::from_infos(&nspace(), nodes[own].len() as u32, &infos, &names[own]).unwrap();
    let mut writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
    let (reader, _) = attach(&mut writer);
    reader.verify().unwrap();
    if let Some(rank) = nodes[own].first() {
        reader.populate_own(Rank(*rank)).unwrap();
    }
    let mut place_of = vec![None; ranks as usize];
    for (node, on_it) in (0u32..).zip(nodes) {
        on_it.iter().for_each(|rank| place_of[*rank as usize] = Some(node));
    }
    let what = format!("{form:?}, {} ranks on {} nodes like {}", ranks, nodes.len(), names[own]);
    let mut asked: Vec<u32> = (0..60).map(|_| dice.below(ranks)).collect();
    asked.extend([0, ranks - 1]);
    asked.extend(nodes[own].first());
    for rank in asked {
        let get = |key| get_all_ways(&reader, writer.reader(), &Question::new(Rank(rank), key));
        let mut app_rank = rank;
        let app = apps.iter().position(|size| {
            let here = app_rank < *size;
            app_rank -= if here { 0 } else { *size };
            here
        });
        assert_eq!(get(keys::APP_RANK), Some(Value::ProcRank(Rank(app_rank))), "{what}: {rank}");
        assert_eq!(get(keys::APPNUM), app.map(|app| Value::Uint32(app as u32)), "{what}: {rank}");
        let node = place_of[rank as usize];
        let peers = node.map(|node| &nodes[node as usize]);
        let below = peers.map(|peers| peers.iter().filter(|other| **other < rank).count() as u16);
        let size = peers.map(|peers| Value::Uint32(peers.len() as u32));
        let list = peers.map(|peers| peers.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        assert_eq!(get(keys::HOSTNAME), node.map(|node| Value::from(&names[node as usize][..])), "{what}: {rank}");
        assert_eq!(get(keys::NODEID), node.map(Value::Uint32), "{what}: {rank}");
        assert_eq!(get(keys::LOCAL_RANK), below.map(Value::Uint16), "{what}: {rank}");
        assert_eq!(get(keys::NODE_SIZE), size, "{what}: {rank}");
        assert_eq!(get(keys::LOCAL_PEERS), list.map(Value::string), "{what}: {rank}");
    }
    for _ in 0..20 {
        let node = dice.below(nodes.len() as u32);
        let level = Directives::of_host(Text::new(names[node as usize].as_bytes()).unwrap());
        let question = Question::new(Rank::WILDCARD, keys::NODEID).with(&level);
        assert_eq!(get_all_ways(&reader, writer.reader(), &question), Some(Value::Uint32(node)), "{what}");
    }
    let used = nodes.iter().zip(&names).filter(|(ranks, _)| !ranks.is_empty()).map(|(_, name)| &name[..]);
    let list = used.collect::<Vec<_>>();
    let of_job = |key| get_all_ways(&reader, writer.reader(), &Question::new(Rank::WILDCARD, key));
    assert_eq!(of_job(keys::NUM_NODES), Some(Value::Uint32(list.len() as u32)), "{what}");
    assert_eq!(of_job(keys::NODE_LIST), Some(Value::string(list.join(","))), "{what}");
    for info in infos.iter().filter(|info| info.key == keys::NODE_MAP || info.key == keys::PROC_MAP) {
        let found = reader.get(&Question::new(Rank::WILDCARD, &info.key.to_string()[..])).unwrap();
        assert_eq!(found, info.value, "{what}: {}", info.key);
    }
}

#[test]
fn what_follows_from_maps_of_every_shape_is_right() {
    let mut dice = Dice(20_261_122);
    for shape in shapes(&mut dice) {
        for form in [Form::Bracket, Form::Plain, Form::Raw, Form::Colon] {
            check(&shape, form, &mut dice);
        }
    }
}

/// A list of the own node's processes that is too long for its record is computed, the host's only if it is another
/// one.
#[test]
fn one_node_may_have_all_ranks() {
    const RANKS: u32 = 70_000;
    let list = |ranks: &mut dyn Iterator<Item = u32>| ranks.map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
    let (all, others) = (list(&mut (0..RANKS)), list(&mut (1..RANKS)));
    for (given, bytes) in [(None, 64 << 10), (Some(&all), 64 << 10), (Some(&others), 1 << 20)] {
        let mut infos = vec![Info::new(keys::NODE_MAP, "a"), Info::new(keys::PROC_MAP, format!("0-{}", RANKS - 1))];
        infos.extend(given.map(|list| Info::new(keys::LOCAL_PEERS, &list[..])));
        let info = JobInfo::from_infos(&nspace(), RANKS, &infos, "a").unwrap();
        let mut writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
        assert!(writer.stats().bytes < bytes, "{:?}", writer.stats());
        let (reader, _) = attach(&mut writer);
        reader.populate_own(Rank(7)).unwrap();
        for (rank, level) in [
            (Rank(7), Directives::NONE),
            (Rank(RANKS - 1), Directives::NONE),
            (Rank::WILDCARD, Directives::NONE),
            (Rank::WILDCARD, Directives::at(InfoLevel::Node)),
            (Rank::WILDCARD, Directives::of_host(Text::new("a").unwrap())),
        ] {
            let question = Question::new(rank, keys::LOCAL_PEERS).with(&level);
            let expected = Value::from(&given.unwrap_or(&all)[..]);
            assert!(get_all_ways(&reader, writer.reader(), &question) == Some(expected), "{rank} at {level:?}");
        }
        assert_eq!(
            get_all_ways(&reader, writer.reader(), &Question::new(Rank(9), keys::LOCALLDR)),
            Some(Rank(0).into())
        );
    }
    // Of a job without data nobody is told where it runs.
    let infos = [Info::new(keys::REGISTER_NODATA, true)];
    let info = JobInfo::from_infos(&nspace(), RANKS, &infos, "a").unwrap();
    let writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
    assert!(writer.reader().get(&Question::new(Rank(7), keys::LOCAL_PEERS)).is_err());
}
