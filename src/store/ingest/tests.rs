//! Names of nodes in rows, compared with a plain list of them.
use std::collections::HashMap;

use super::nodes::Nodes;
use crate::data::maps::{Form, NodeMap};
use crate::store::tests::odd_jobs::Dice;

/// Names of nodes by index, as a list without rows would have them.
#[derive(Default)]
struct Model {
    names: Vec<Option<String>>,
    map: Vec<u32>,
}

impl Model {
    fn find(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|known| known.as_deref() == Some(name)).map(|at| at as u32)
    }

    fn map(&mut self, name: &str) {
        let index = self.find(name).unwrap_or_else(|| {
            self.names.push(Some(name.to_owned()));
            self.names.len() as u32 - 1
        });
        self.map.push(index);
    }
}

/// Names that often follow one another, with several numbers, zeroes in front, and again and again the same.
fn names(dice: &mut Dice) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..1 + dice.below(6) {
        let (first, count) = (dice.below(30) + 90 * dice.below(2), 1 + dice.below(25));
        let kind = dice.below(11);
        names.extend((first..first + count).map(|n| match kind {
            0 => format!("n{n}"),
            1 => format!("n{n:03}"),
            2 => format!("n{n:03}.org2"),
            3 => format!("r{}n{}", n / 8, n % 8),
            4 => format!("r{n}n1"),
            5 => format!("r1n{n}"),
            6 => format!("{n}"),
            7 => format!("10.0.{}.{}", n / 16, n % 16),
            8 => format!("n12345678{n:03}"),
            9 => ["head", "login", "n", "n.org2"][n as usize % 4].to_owned(),
            _ => format!("x{:x}", dice.next() % 64),
        }));
    }
    if dice.one_in(4) {
        names.reverse();
    }
    names
}

fn check(nodes: &Nodes, model: &Model, asked: &[String], seed: u64) {
    assert_eq!(nodes.len() as usize, model.names.len(), "seed {seed}");
    let shorts = model.names.iter().map(|name| name.as_deref().and_then(|name| name.split('.').next()));
    let mut by_short: HashMap<&str, u32> = HashMap::new();
    for (node, (name, short)) in (0u32..).zip(model.names.iter().zip(shorts)) {
        assert_eq!(nodes.name(node), name.clone().map(String::into_bytes), "seed {seed}: {node}");
        short.into_iter().for_each(|short| _ = *by_short.entry(short).or_insert(node));
    }
    for name in asked {
        assert_eq!(nodes.find(name.as_bytes()), model.find(name), "seed {seed}: {name} of {:?}", model.names);
        let short = name.split('.').next().unwrap();
        let found = nodes.find_short(short.as_bytes());
        assert_eq!(found, by_short.get(short).copied(), "seed {seed}: {short} of {:?}", model.names);
    }
    // Any piece of all names.
    let (from, to) = (nodes.len() / 3, nodes.len() - nodes.len() / 4);
    let (mut pieces, mut name) = (Vec::new(), Vec::new());
    for run in nodes.names(from, to) {
        assert_eq!(run.first, from + pieces.len() as u32);
        for nth in 0..run.count {
            run.write(nth, &mut name);
            pieces.push((!run.is_nameless()).then(|| String::from_utf8(name.clone()).unwrap()));
        }
    }
    assert_eq!(pieces, model.names[from as usize..to as usize], "seed {seed}");
}

#[test]
fn names_of_every_kind_are_found_and_written() {
    for seed in 0..3000 {
        let mut dice = Dice(seed);
        let (mut nodes, mut model) = (Nodes::default(), Model::default());
        let listed = names(&mut dice);
        if dice.one_in(4) {
            // Somebody spoke of one before.
            nodes.of_name(listed[0].as_bytes());
            model.names.push(Some(listed[0].clone()));
        }
        let form = [Form::Plain, Form::Raw, Form::Bracket, Form::Colon][dice.below(4) as usize];
        let text = NodeMap::from_names(&listed).unwrap().to_text(form);
        NodeMap::each_row_of(&text, |row| nodes.map_row(row)).unwrap();
        listed.iter().for_each(|name| model.map(name));
        for (place, index) in (0u32..).zip(&model.map) {
            assert_eq!(nodes.mapped(place), *index, "seed {seed}: {}", text.escape_ascii());
        }
        let mut asked = listed;
        for name in names(&mut dice) {
            if dice.one_in(3) {
                let index = nodes.of_name(name.as_bytes());
                assert_eq!(index, model.find(&name).unwrap_or(model.names.len() as u32), "seed {seed}: {name}");
                if index as usize == model.names.len() {
                    model.names.push(Some(name.clone()));
                }
            } else if dice.one_in(5) {
                // A node without a name, which may get one that another has.
                let index = nodes.numbered(1000 + nodes.len());
                model.names.push(None);
                if dice.one_in(2) {
                    nodes.name_it(index, name.as_bytes());
                    model.names[index as usize] = Some(name.clone());
                }
            }
            asked.push(name);
        }
        check(&nodes, &model, &asked, seed);
    }
}
