use proptest::prelude::*;

use super::*;

const FORMS: [Form; 4] = [Form::Plain, Form::Raw, Form::Bracket, Form::Colon];

fn names(expression: &[u8]) -> Vec<String> {
    let map = NodeMap::parse(expression).unwrap_or_else(|e| panic!("{}: {e}", expression.escape_ascii()));
    map.names().map(|name| String::from_utf8(name).unwrap()).collect()
}

fn text(map: Vec<u8>) -> String {
    String::from_utf8(map).unwrap()
}

#[test]
fn what_real_hosts_pass_is_read() {
    assert_eq!(names(b"pmix[vm]"), ["vm"]);
    assert_eq!(names(b"pmix[node[1:0-3]]"), ["node0", "node1", "node2", "node3"]);
    assert_eq!(names(b"pmix[odin[3:9,10-11].org,vm]"), ["odin009.org", "odin010.org", "odin011.org", "vm"]);
    assert_eq!(names(b"node0,node1"), ["node0", "node1"]);
    assert_eq!(names(b"raw:a,b\0"), ["a", "b"]);
    assert_eq!(names(b"pmix:\0a[1-2]\0"), ["a1", "a2"]);
    let written = b"pmix[odin009.org,odin010.org,n[1:7-8],n[2:10],r[1:1]n1x,r[1:1]n2x]";
    assert_eq!(names(written), ["odin009.org", "odin010.org", "n7", "n8", "n10", "r1n1x", "r1n2x"]);
    let procs = |expression: &[u8]| ProcMap::parse(expression).unwrap();
    assert_eq!(procs(b"raw:0-3;4,5,6,7;9"), procs(b"pmix[0-3;4-7;9]"));
    assert_eq!(procs(b"raw:0,1"), procs(b"0-1"));
    assert_eq!(procs(b"raw:0,1;2,3").ranges(1), [RankRange { first: 2, last: 3 }]);
    assert_eq!(procs(b"pmix[0-4;5;6;7]").rank_count(), 8);
}

#[test]
fn the_samples_of_the_standard_are_read_and_written() {
    let listed = "odin009.org,odin010.org,odin011.org,odin012.org,odin[102-107].org";
    let map = NodeMap::from_names(names(listed.as_bytes())).unwrap();
    assert_eq!(map.len(), 10);
    assert_eq!(text(map.to_text(Form::Colon)), "pmix:odin[009-012,102-107].org");
    assert_eq!(text(map.to_text(Form::Bracket)), "pmix[odin[3:9-12,102-107].org]");
    assert_eq!(NodeMap::parse(b"pmix:odin[009-012,102-107].org").unwrap(), map);

    let map = ProcMap::parse(b"1-4;2-5;8,10,11,12;6,7,9").unwrap();
    assert_eq!(text(map.to_text(Form::Colon)), "pmix:1-4;2-5;8,10-12;6-7,9");
    let sample = ProcMap::parse(b"pmix:2x(3);8,10-12;6-7,9").unwrap();
    let ranks: Vec<Vec<u32>> = (0..4).map(|node| sample.ranks(node).collect()).collect();
    assert_eq!(ranks, [vec![0, 1, 2], vec![3, 4, 5], vec![8, 10, 11, 12], vec![6, 7, 9]]);
}

#[test]
fn order_zeros_and_surroundings_are_kept() {
    let list = ["a28n01", "a99n02", "a28n02", "n9", "n10", "n010", "10.0.0.1", "10.0.0.2", "x", "x", "fe80::1"];
    let map = NodeMap::from_names(list).unwrap();
    assert_eq!(map.names().collect::<Vec<_>>(), list.map(|name| name.as_bytes().to_vec()));
    assert_eq!(
        text(map.to_text(Form::Bracket)),
        "pmix[a[2:28]n01,a[2:99,28]n02,n[1:9],n[2:10],n[3:10],10.0.0.[1:1-2],x,x,fe80::1]"
    );
    assert_eq!(names(b"n[8-11]"), ["n8", "n9", "n10", "n11"]);
    assert_eq!(names(b"n[08-11,7]"), ["n08", "n09", "n10", "n11", "n7"]);
    assert_eq!(map.position(b"n010"), Some(5));
}

#[test]
fn several_ranges_in_one_name_multiply() {
    let map = NodeMap::parse(b"r[1-2]n[01-02,7]x").unwrap();
    let expected = ["r1n01x", "r1n02x", "r1n7x", "r2n01x", "r2n02x", "r2n7x"];
    assert_eq!(map.names().collect::<Vec<_>>(), expected.map(|name| name.as_bytes().to_vec()));
    assert_eq!(map.name(4).unwrap(), b"r2n02x");
    assert_eq!(map.name(6), None);
    assert_eq!(NodeMap::parse(&map.to_text(Form::Bracket)).unwrap(), map);
}

#[test]
fn blocks_of_equal_nodes_take_a_few_bytes() {
    let nodes = (0..1000u32).map(|node| node * 32..node * 32 + 32);
    let map = ProcMap::from_ranks(nodes).unwrap();
    assert_eq!(text(map.to_text(Form::Colon)), "pmix:1000x(32)");
    assert_eq!(ProcMap::parse(&map.to_text(Form::Bracket)).unwrap(), map);
}

#[test]
fn nodes_without_processes() {
    let map = ProcMap::parse(b"0;;1;;").unwrap();
    assert_eq!((map.len(), map.ranges(1), map.ranges(9)), (3, &[][..], &[][..]));
    assert_eq!(text(map.to_text(Form::Bracket)), "pmix[0;;1]");
    assert!(ProcMap::parse(b";;").unwrap().is_empty());
    assert!(NodeMap::parse(b"pmix[]").unwrap().is_empty());
}

#[test]
fn what_stands_for_too_much_is_refused() {
    let too_large = |limit, result: MapError| match result {
        MapError::TooLarge { limit: l, .. } => assert_eq!(l, limit),
        other => panic!("{other}"),
    };
    for nodes in ["n[0-4000000000]", "a[1-99999]b[1-99999]c[1-99999]d[1-99999]e[1-99999]", "n[0-999999,0-999999]"] {
        too_large(Limit::Nodes, NodeMap::parse(nodes.as_bytes()).unwrap_err());
    }
    too_large(Limit::Name, NodeMap::parse(&[b'a'; 300]).unwrap_err());
    too_large(Limit::Name, NodeMap::parse("[1]".repeat(300).as_bytes()).unwrap_err());
    too_large(Limit::Ranks, ProcMap::parse(b"0-4000000000").unwrap_err());
    too_large(Limit::Ranks, ProcMap::parse(b"pmix:1000000x(1000000)").unwrap_err());
    too_large(Limit::Nodes, ProcMap::parse(b"pmix:999999999999999999x(0)").unwrap_err());
    too_large(Limit::Text, NodeMap::parse_within(b"abc", &Limits { text: 2, ..Limits::default() }).unwrap_err());
    // A map within the limits is not expanded: a few bytes stay a few bytes.
    assert_eq!(NodeMap::parse(b"n[0-1048575]").unwrap().name(1 << 19).unwrap(), b"n524288");
}

#[test]
fn what_breaks_the_grammar_is_refused_with_its_place() {
    for (expression, place) in [
        ("n[1-2", 5),
        ("n[[1-2]]", 2),
        ("n]", 1),
        ("a,,b", 2),
        ("a,", 2),
        ("n[2-1]", 5),
        ("n[]", 2),
        ("n[a-b]", 2),
        ("n[1234567890123456789]", 2),
        ("n[19:1]", 5),
        ("n[2:]", 4),
        ("pmix[n[1-2]", 10),
        ("pmix[n", 6),
        ("a\0b", 1),
        ("raw:a;b", 5),
    ] {
        match NodeMap::parse(expression.as_bytes()) {
            Err(MapError::Syntax { at, .. }) if at == place => {}
            other => panic!("{expression}: {other:?}"),
        }
    }
    for expression in
        ["0,", ",", "0,;1", "a", "0-", "2x3", "2x(3", "2x()", "1,2x(3)", "4294967295", "0 1", "-1", "0;1]"]
    {
        assert!(matches!(ProcMap::parse(expression.as_bytes()), Err(MapError::Syntax { .. })), "{expression}");
    }
    let blob = NodeMap::parse(b"blob:\0size=4:abcd").unwrap_err();
    assert_eq!(blob.status(), Status::ERR_NOT_SUPPORTED);
    assert!(NodeMap::from_names(["a,b"]).is_err() && NodeMap::from_names([""]).is_err());
    assert!(ProcMap::from_ranks([[u32::MAX]]).is_err());
}

fn name_lists() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![
        "[a-c]{0,2}[0-9]{1,3}",
        "[a-c]{1,2}[0-2]{0,2}[-.:a-c]{0,2}[0-9]{0,3}[a-c.]{0,2}",
        "[!-~&&[^,;\\[\\]]]{1,20}"
    ];
    let run = ("[a-c]{0,2}[0-9]{0,2}[a-c.]", 0..200u32, 1..8u32, 0..4usize, "[a-c.]{0,2}")
        .prop_map(|(a, first, n, w, b)| (first..first + n).map(|i| format!("{a}{i:0w$}{b}")).collect::<Vec<_>>());
    prop::collection::vec(prop_oneof![name.prop_map(|name| vec![name]), run], 0..12).prop_map(|lists| lists.concat())
}

fn rank_lists() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let irregular = prop::collection::vec(prop::collection::vec(0..40u32, 0..6), 0..8);
    let blocks = (0..6u32, 1..6u32).prop_map(|(n, k)| (0..n).map(|i| (i * k..(i + 1) * k).collect()).collect());
    // More on a node than are read at once, of all lengths.
    let many = prop::collection::vec(prop::collection::vec(0..9_000_000u32, 0..150), 1..3);
    let irregular = prop_oneof![irregular, many];
    let pair = (irregular, prop_oneof![blocks, Just(Vec::new())]);
    pair.prop_map(|(a, b): (Vec<Vec<u32>>, Vec<Vec<u32>>)| [b.clone(), a, b].concat())
}

/// The ranks of nodes that had some.
#[derive(Default)]
struct Seen(Vec<Vec<u32>>);

impl RangesOfNodes for Seen {
    fn each(&mut self, node: u32, ranks: &[u32]) {
        ranks.iter().for_each(|rank| self.range(node, RankRange { first: *rank, last: *rank }));
    }

    fn range(&mut self, node: u32, range: RankRange) {
        self.0.resize(self.0.len().max(node as usize + 1), Vec::new());
        self.0[node as usize].extend(range.first..=range.last);
    }
}

/// A map as `to_text` writes it, equal blocks one by one.
fn one_by_one(lists: &[Vec<u32>], form: Form) -> Vec<u8> {
    let map = ProcMap::from_ranks(lists.iter().cloned()).unwrap();
    match form {
        Form::Colon => {
            let text = text(map.to_text(Form::Bracket));
            text.replace("pmix[", "pmix:").replace(']', "").into_bytes()
        }
        form => map.to_text(form),
    }
}

proptest! {
    #[test]
    fn names_survive_every_form(list in name_lists()) {
        let map = NodeMap::from_names(&list).unwrap();
        let bytes: Vec<Vec<u8>> = list.iter().map(|name| name.clone().into_bytes()).collect();
        prop_assert_eq!(map.names().collect::<Vec<_>>(), bytes.clone());
        for (index, name) in bytes.iter().enumerate() {
            prop_assert_eq!(map.name(index), Some(name.clone()));
        }
        for form in FORMS {
            let text = map.to_text(form);
            prop_assert_eq!(&NodeMap::parse(&text).unwrap(), &map, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn ranks_survive_every_form(lists in rank_lists()) {
        let map = ProcMap::from_ranks(lists.clone()).unwrap();
        for (node, ranks) in lists.iter().enumerate() {
            prop_assert_eq!(&map.ranks(node).collect::<Vec<_>>(), ranks);
        }
        for form in FORMS {
            let text = map.to_text(form);
            prop_assert_eq!(&ProcMap::parse(&text).unwrap(), &map, "{}", text.escape_ascii());
        }
    }

    /// Every expression that is said to be written as we write it is, letter by letter; and all that we write is said
    /// to be.
    #[test]
    fn an_expression_of_ours_is_known(
        lists in rank_lists(),
        as_it_is: bool,
        form in prop::sample::select(&FORMS[..]),
        at: prop::sample::Index,
        with in "(|[0-9,;x-]|0|3-3|,7|2x\\(3\\)|\0)",
    ) {
        let mut lists = lists;
        if !as_it_is {
            lists.iter_mut().for_each(|ranks| { ranks.sort_unstable(); ranks.dedup() });
        }
        let ours = one_by_one(&lists, form);
        let mut text = ours.clone();
        let place = at.index(text.len() + 1);
        text.splice(place..place, with.bytes());
        for text in [ours, text] {
            let mut seen = Seen::default();
            let Ok(found) = ProcMap::each_range(&text, &mut seen) else { continue };
            let map = ProcMap::parse(&text).unwrap();
            let nodes: Vec<Vec<u32>> = (0..map.len()).map(|node| map.ranks(node).collect()).collect();
            prop_assert_eq!(&seen.0[..], &nodes[..seen.0.len()], "{}", text.escape_ascii());
            let sorted = nodes.iter().all(|ranks| ranks.is_sorted_by(|a, b| a < b));
            let same = FORMS.into_iter().find(|form| !map.is_empty() && one_by_one(&nodes, *form) == text);
            prop_assert_eq!((found.form, found.in_order), (same, sorted), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn hostile_text_is_refused_or_means_the_same_again(
        tokens in prop::collection::vec(
            prop_oneof![
                "pmix\\[", "pmix:", "raw:", "[0-9]{1,3}", "[0-9]{17,20}", "[ab]", "\\[", "\\]", "-", ",", ";", ":", "x\\(", "\\)", "\0",
            ],
            0..14,
        ),
    ) {
        let text = tokens.concat().into_bytes();
        let limits = Limits { nodes: 5000, ranks: 5000, ..Limits::default() };
        if let Ok(map) = NodeMap::parse_within(&text, &limits) {
            prop_assert!(map.len() <= 5000);
            for form in FORMS {
                prop_assert_eq!(&NodeMap::parse(&map.to_text(form)).unwrap(), &map);
            }
        }
        if let Ok(map) = ProcMap::parse_within(&text, &limits) {
            prop_assert!(map.rank_count() <= 5000 && map.len() <= 5000);
            for form in FORMS {
                prop_assert_eq!(&ProcMap::parse(&map.to_text(form)).unwrap(), &map);
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes: Vec<u8>) {
        let _ = NodeMap::parse(&bytes);
        let _ = ProcMap::parse(&bytes);
    }
}

#[test]
fn names_given_one_by_one_are_put_together() {
    let map = NodeMap::parse(b"head,node01,node02,node03,tail").unwrap();
    assert_eq!(map.to_text(Form::Bracket), b"pmix[head,node[2:1-3],tail]");
    assert_eq!(map.to_text(Form::Colon), b"pmix:head,node[01-03],tail");
    // Neighbours that have nothing in common stay as they are.
    assert_eq!(NodeMap::parse(b"a,b").unwrap().to_text(Form::Bracket), b"pmix[a,b]");
}

/// A list is taken in one pass; the same names one by one give the same map, and the same refusal.
#[test]
fn a_list_and_its_names_one_by_one_are_the_same() {
    let listed = |list: &[u8]| (NodeMap::from_list(list), NodeMap::from_names(list.split(|byte| *byte == b',')));
    let name = prop_oneof!["[a-c]{0,2}[0-9]{0,3}[x.]{0,1}", Just("n007x".to_owned()), Just("n008x".to_owned())];
    proptest!(|(names in prop::collection::vec(name, 1..12))| {
        let list = names.join(",");
        let (whole, single) = listed(list.as_bytes());
        for form in FORMS {
            prop_assert_eq!(whole.as_ref().map(|map| map.to_text(form)).ok(), NodeMap::shortened(list.as_bytes(), form).ok());
        }
        match (whole, single) {
            (Ok(whole), Ok(single)) => {
                prop_assert_eq!(whole.to_text(Form::Bracket), single.to_text(Form::Bracket));
                prop_assert_eq!(whole, single);
            }
            // Nothing at all is an empty map; an empty name is wrong.
            (Ok(whole), Err(_)) => prop_assert!(names == [""] && whole.is_empty()),
            (whole, single) => prop_assert_eq!(whole, single),
        }
    });
    for list in ["n1,n2,", "n1,n2,n3,,n4", "n1,n2,n3;", "n1,n2,n3\0"] {
        let (whole, single) = listed(list.as_bytes());
        assert!(whole.is_err() && whole == single, "{list}");
    }
    assert_eq!(NodeMap::from_list(b"n1,n2,n3,n").unwrap().to_text(Form::Bracket), b"pmix[n[1:1-3],n]");
}
