use super::*;

fn machine(text: &str) -> Machine {
    super::synthetic::read(text).unwrap()
}

fn policy(map: &str, bind: &str) -> Policy {
    let mut policy = Policy::default();
    policy.map_by(map).unwrap();
    if !bind.is_empty() {
        policy.bind_to(bind).unwrap();
    }
    policy
}

/// The cpusets of the ranks, or the refusal.
fn bound(topology: &str, map: &str, bind: &str, ranks: u32) -> Result<Vec<String>, String> {
    let machine = machine(topology);
    let spots = place(&policy(map, bind), &machine, Nodes::ONE, ranks, &[], None)?;
    Ok(spots.iter().map(|spot| machine.cpuset(&spot.units)).collect())
}

const TWO: &str = "numa:2 core:2 pu:2";

#[test]
fn ranks_are_not_bound_unless_somebody_says_so() {
    for map in ["slot", "core", "numa", "ppr:2:numa", ":oversubscribe"] {
        let spots = place(&policy(map, ""), &machine(TWO), Nodes::ONE, 4, &[], None).unwrap();
        assert!(spots.iter().all(|spot| spot.units.is_empty()), "{map}");
    }
}

#[test]
fn ranks_are_bound_one_after_the_other() {
    assert_eq!(bound(TWO, "slot", "core", 4).unwrap(), ["hwloc:0-1", "hwloc:2-3", "hwloc:4-5", "hwloc:6-7"]);
    assert_eq!(bound(TWO, "slot", "hwthread", 3).unwrap(), ["hwloc:0", "hwloc:1", "hwloc:2"]);
    assert_eq!(bound(TWO, "slot", "numa", 3).unwrap(), ["hwloc:0-3", "hwloc:4-7", "hwloc:0-3"]);
}

#[test]
fn ranks_are_mapped_to_objects_in_turn_and_bound_within_them() {
    assert_eq!(bound(TWO, "numa", "core", 4).unwrap(), ["hwloc:0-1", "hwloc:4-5", "hwloc:2-3", "hwloc:6-7"]);
    assert_eq!(bound(TWO, "numa", "numa", 2).unwrap(), ["hwloc:0-3", "hwloc:4-7"]);
    assert_eq!(bound(TWO, "core", "numa", 3).unwrap(), ["hwloc:0-3", "hwloc:0-3", "hwloc:4-7"]);
    assert_eq!(bound(TWO, "ppr:1:numa", "core", 2).unwrap(), ["hwloc:0-1", "hwloc:4-5"]);
    assert_eq!(bound(TWO, "ppr:2:numa", "core", 3).unwrap(), ["hwloc:0-1", "hwloc:2-3", "hwloc:4-5"]);
    assert_eq!(bound("package:2 l3:2 core:2", "l3cache", "l3", 4).unwrap()[3], "hwloc:6-7");
}

#[test]
fn a_rank_may_have_several_processors() {
    assert_eq!(bound(TWO, "slot:pe=2", "", 2).unwrap(), ["hwloc:0-3", "hwloc:4-7"]);
    assert_eq!(bound(TWO, "numa:PE=2", "core", 2).unwrap(), ["hwloc:0-3", "hwloc:4-7"]);
    assert_eq!(bound(TWO, "slot:pe=3:hwtcpus", "", 2).unwrap(), ["hwloc:0-2", "hwloc:3-5"]);
    assert!(bound(TWO, "core:pe=2", "", 1).unwrap_err().contains("2 are asked for"));
    assert!(bound(TWO, "slot:pe=2", "numa", 1).unwrap_err().contains("leave out --bind-to numa"));
}

#[test]
fn lists_name_processors() {
    assert_eq!(bound(TWO, "pe-list=3,0", "", 2).unwrap(), ["hwloc:0-1,6-7"; 2]);
    assert_eq!(bound(TWO, "pe-list=3,0", "core", 2).unwrap(), ["hwloc:0-1", "hwloc:6-7"]);
    assert_eq!(bound(TWO, "pe-list=3,0:ordered", "", 2).unwrap(), ["hwloc:6-7", "hwloc:0-1"]);
    assert_eq!(bound(TWO, "pe-list=7,2-3:hwtcpus:ordered", "", 3).unwrap(), ["hwloc:7", "hwloc:2", "hwloc:3"]);
    assert!(bound(TWO, "pe-list=4", "", 1).unwrap_err().contains("no core 4"));
}

#[test]
fn the_order_may_fill_one_object_after_the_other() {
    let mut policy = policy("numa", "core");
    policy.rank_by("fill").unwrap();
    let spots = place(&policy, &machine(TWO), Nodes::ONE, 4, &[], None).unwrap();
    assert_eq!(spots.iter().map(|spot| spot.object.1).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn ranks_are_numbered_over_objects_of_another_kind() {
    let machine = machine("package:2 l3:2 core:2 pu:1");
    let placed = |map: &str, order: &str, nodes: u32| {
        let mut policy = policy(map, "");
        policy.rank_by(order).unwrap();
        let spots = place(&policy, &machine, Nodes { count: nodes, slots: None }, 6 * nodes, &[], None).unwrap();
        spots.iter().map(|spot| format!("{}.{}", spot.node, spot.object.1)).collect::<Vec<_>>().join(" ")
    };
    // Ranks are mapped to caches 0, 1, 2, 3, 0 and 1, of which two make a package.
    assert_eq!(placed("l3cache", "package", 1), "0.0 0.2 0.1 0.3 0.0 0.1");
    assert_eq!(placed("l3cache", "core", 1), "0.0 0.0 0.1 0.1 0.2 0.3");
    assert_eq!(placed("l3cache", "package:fill", 1), "0.0 0.1 0.0 0.1 0.2 0.3");
    assert_eq!(placed("package", "core", 1), "0.0 0.0 0.0 0.1 0.1 0.1");
    assert_eq!(placed("slot", "core", 1), "0.0 0.0 0.0 0.0 0.0 0.0");
    let over_two = placed("l3cache", "package,span", 2);
    assert_eq!(over_two, "0.0 0.2 1.0 1.2 0.1 0.3 1.1 1.3 0.0 1.0 0.1 1.1");
    let mut policy = policy("core", "");
    policy.rank_by("l2cache").unwrap();
    let refused = place(&policy, &machine, Nodes::ONE, 2, &[], None).unwrap_err();
    assert_eq!(refused, "this machine has no l2cache to rank by");
}

#[test]
fn processors_of_ranks_that_are_mapped_to_hardware_threads_are_these() {
    assert_eq!(bound(TWO, "hwthread:pe=1", "", 3).unwrap(), ["hwloc:0", "hwloc:1", "hwloc:2"]);
    assert!(bound(TWO, "hwthread:corecpus", "core", 5).is_ok() && bound(TWO, "hwthread", "core", 9).is_err());
    assert_eq!(bound(TWO, "hwthread", "core", 3).unwrap(), ["hwloc:0-1", "hwloc:0-1", "hwloc:2-3"]);
}

#[test]
fn a_binding_that_overlaps_is_refused_unless_it_may() {
    let refused = bound(TWO, "slot", "core", 5).unwrap_err();
    assert!(refused.contains("rank 4") && refused.contains("core 0") && refused.contains("core:overload"), "{refused}");
    assert_eq!(bound(TWO, "slot", "core:overload", 5).unwrap()[4], "hwloc:0-1");
    assert!(bound(TWO, "slot", "numa", 4).is_ok() && bound(TWO, "slot", "numa", 5).is_err());
    let machine = machine(TWO);
    let other = Spot { node: 0, object: (Kind::Core, 0), units: vec![0, 1] };
    let elsewhere = Spot { node: 1, object: (Kind::Core, 1), units: vec![2, 3] };
    let spots = place(&policy("slot", "core"), &machine, Nodes::ONE, 3, &[&other, &elsewhere], None).unwrap();
    assert_eq!(machine.cpuset(&spots[0].units), "hwloc:2-3", "another job's rank is bound to the first");
}

#[test]
fn what_a_machine_lacks_is_named() {
    for (map, bind, words) in [
        ("l2cache", "", "no l2cache to map by"),
        ("slot", "l3cache", "no l3cache to bind to"),
        ("ppr:1:numa", "", "room for 2 ranks"),
    ] {
        let refused = bound(TWO, map, bind, 3).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn words_are_read_in_any_case_and_shortened() {
    let mut read = Policy::default();
    read.map_by("PPR:2:Socket:NoOver:SPAN").unwrap();
    assert_eq!((&read.mapping, read.no_oversubscribe), (&Mapping::PerObject(2, Kind::Package), true));
    read.map_by("ppr:1:core,PE=2,oversubscribe").unwrap();
    assert_eq!(
        (&read.mapping, read.per_rank, read.no_oversubscribe),
        (&Mapping::PerObject(1, Kind::Core), Some(2), false)
    );
    read.map_by("L1").unwrap();
    read.bind_to("Hw:over,if").unwrap();
    let binding = Binding { to: Some(Some(Kind::Thread)), overloads: true, if_supported: true };
    assert_eq!((&read.mapping, read.binding), (&Mapping::By(Kind::L1), binding));
    read.map_by("rankfile:nooversubscribe,FILE=/a:b,c").unwrap();
    assert_eq!((&read.mapping, read.file), (&Mapping::RankFile, Some("/a:b,c".into())));
    for (wrong, word) in [
        ("coer", "core"),
        ("n", "numa or node"),
        ("core:pe", "pe=2"),
        ("core:pe=0", "\"0\""),
        ("ppr:x:core", "\"x\""),
        ("ppr:2", "ppr:2:package"),
        ("pe-list=a", "pe-list=0-3,8"),
        ("slot:nolocal", "leave it out"),
        ("seq:file=", ""),
        ("core:file", "file=ranks"),
    ] {
        let refused = Policy::default().map_by(wrong);
        assert!(refused.as_ref().is_ok_and(|()| word.is_empty()) || refused.unwrap_err().contains(word), "{wrong}");
    }
    assert!(Policy::default().bind_to("core:shared").is_err() && Policy::default().rank_by("moon").is_err());
}

#[test]
fn a_synthetic_machine_is_as_it_says() {
    let machine = machine("package:2 l3:2 core:2 pu:2");
    assert_eq!(machine.len(), 16);
    assert_eq!(machine.locality(&[4, 5]), "SK0:L31:CR2:HT4-5:NM0");
    assert_eq!(machine.locality(&[6, 8]), "SK0-1:L31-2:CR3-4:HT6,8:NM0");
    for (text, word) in [
        ("", "empty"),
        ("core", "number is missing"),
        ("moon:2", "moon:2"),
        ("core:0", "core:0"),
        ("core:2 core:2", "already"),
        ("core:99999 pu:99999", "more than"),
    ] {
        assert!(super::synthetic::read(text).unwrap_err().contains(word), "{text}");
    }
}

#[test]
fn the_real_machine_is_read_from_its_cores() {
    let core = |unit: usize| instanton::internal::sys::hwloc::Core {
        units: vec![unit, unit + 4],
        cpuset: format!("hwloc:{unit},{}", unit + 4),
        locality: format!("SK{}:L3{}:CR{unit}:HT{}-{}:NM0-1", unit / 2, unit / 2, 2 * unit, 2 * unit + 1),
    };
    let machine = Machine::of_cores(&[core(0), core(1), core(3)]).unwrap();
    let spots = place(&policy("package", "core"), &machine, Nodes::ONE, 3, &[], None).unwrap();
    let at = |rank: usize| machine.cpuset(&spots[rank].units);
    assert_eq!([at(0), at(1), at(2)], ["hwloc:0,4", "hwloc:3,7", "hwloc:1,5"]);
    assert_eq!(machine.locality(&spots[1].units), "SK1:L31:CR3:HT6-7:NM0");
    assert_eq!(machine.os_numbers(&spots[1].units), [3, 7]);
}

#[test]
fn files_place_rank_by_rank() {
    let machine = machine("package:2 core:2 pu:2");
    let read = |mapping: &str, text: &str| {
        read_file(text, &policy(mapping, ""), Some(&machine), |name| (name == "here").then_some(0)).map(|file| {
            let spots = place(&policy(mapping, ""), &machine, Nodes::ONE, file.len(), &[], Some(&file)).unwrap();
            spots.iter().map(|spot| machine.cpuset(&spot.units)).collect::<Vec<_>>()
        })
    };
    let text = "# two\nrank 1=here slot=1:0-1\nrank 0 = +n0 slot = 0,1 # both\n";
    assert_eq!(read("rankfile", text).unwrap(), ["hwloc:0-3", "hwloc:4-7"]);
    assert_eq!(read("rankfile:hwtcpus", "rank 0=here slots=3,5").unwrap(), ["hwloc:3,5"]);
    assert_eq!(read("seq", "here\nhere slots=1\n").unwrap().len(), 2);
    for (text, word) in [
        ("rank 0=here slot=0\nrank 0=here slot=1", "2: rank 0 is there already"),
        ("rank 1=here slot=0", "rank 0 is missing"),
        ("rank 0=there slot=0", "1: there is another machine"),
        ("rank 0=here slot=9", "1: there is no core 9"),
        ("rank 0=here slot=2:0", "no package 2"),
        ("rank 0=here slot=x", "x is no list"),
        ("rank x=here slot=0", "x is no rank"),
        ("0=here", "a line is as"),
        ("", "no rank"),
    ] {
        let refused = read("rankfile", text).unwrap_err();
        assert!(refused.contains(word), "{refused}");
    }
}

#[test]
fn drawings_show_who_is_bound_where() {
    let names = ["n", "m"].map(str::to_owned);
    let machine = machine(TWO);
    let spots = place(&policy("slot", "core"), &machine, Nodes::ONE, 2, &[], None).unwrap();
    assert_eq!(
        bindings(Some(&machine), &spots, &names),
        "rank 0 on node n: bound to core 0 [BB/../../..]\nrank 1 on node n: bound to core 1 [../BB/../..]\n"
    );
    assert_eq!(
        allocation(Some(&machine), "n", 4),
        "node n: 4 slots; 1 package, 2 numas, 4 cores, 8 hwthreads [../../../..]\n"
    );
    let spots = place(&policy("numa", ""), &machine, Nodes::ONE, 2, &[], None).unwrap();
    assert_eq!(
        map(&spots, &names, [(0, "a"), (1, "b")].into_iter()),
        "rank 0 (a): node n, numa 0\nrank 1 (b): node n, numa 1\n"
    );
}

#[test]
fn each_node_has_the_whole_machine() {
    let two = Nodes { count: 2, slots: None };
    let machine = machine(TWO);
    let spots = place(&policy("numa", "core"), &machine, two, 8, &[], None).unwrap();
    let at: Vec<_> = spots.iter().map(|spot| (spot.node, machine.cpuset(&spot.units))).collect();
    assert_eq!(
        at[..4],
        [(0, "0-1"), (0, "4-5"), (0, "2-3"), (0, "6-7")].map(|(node, on)| (node, format!("hwloc:{on}")))
    );
    assert_eq!(at[4], (1, "hwloc:0-1".to_owned()));
    assert!(place(&policy("slot", "core"), &machine, two, 9, &[], None).unwrap_err().contains("rank 4"));
    let names = ["n", "m"].map(str::to_owned);
    let drawn = bindings(Some(&machine), &spots[4..5], &names);
    assert_eq!(drawn, "rank 0 on node m: bound to core 0 [BB/../../..]\n");
    let file = read_file("n\nm\n", &policy("seq", ""), None, |name| {
        ["n", "m"].iter().position(|n| *n == name).map(|at| at as u32)
    });
    let spots = place(&policy("seq", ""), &machine, two, 2, &[], Some(&file.unwrap())).unwrap();
    assert_eq!([spots[0].node, spots[1].node], [0, 1]);
}

/// A measurement: `cargo test --release -p instanton-tools placing_many -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, and holds nothing to its time"]
fn placing_many_ranks_takes_so_long() {
    let machine = machine("package:2 numa:4 core:32 pu:2");
    for (map, bind) in [("slot", "core:overload"), ("numa", "core:overload"), ("slot:pe=2", "core:overload")] {
        let policy = policy(map, bind);
        let begun = std::time::Instant::now();
        let spots = place(&policy, &machine, Nodes::ONE, 1024, &[], None).unwrap();
        println!("{} ranks by {map}: {:?}", spots.len(), begun.elapsed());
    }
}
