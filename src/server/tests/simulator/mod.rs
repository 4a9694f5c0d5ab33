//! A deterministic simulator: servers, their ranks and their hosts, in one thread and in simulated time, from a seed.
//!
//! The servers are those of production behind a door over channels ([`node`]). Ranks are state machines that speak the
//! client's protocol ([`client`], [`act`]) and post data ([`posted`]). The hosts hand everything to one manager
//! ([`host`], [`manager`]), as daemons of a resource manager do. The [`plan`] of a run, the way of each message, and what
//! goes wrong are drawn from the seed alone ([`random`]). The [`world`] is the state of a run, with a [`queue`] of what
//! will happen. The [`course`] takes one thing after the other: ranks act, words of servers arrive ([`answers`]), and
//! ranks, nodes and jobs end ([`ends`]). The [`model`] checks what must hold ([`rules`]); seeded [`bugs`] show that it
//! would notice.
//!
//! Arrows point one way: `world <- {act, ends <- answers} <- course`.
//!
//! A failure names its seed and shows the last steps; `INSTANTON_SIM_SEED` runs that one again, with all steps.
//! `INSTANTON_SIM_SEEDS` says how many seeds are run, and `INSTANTON_SIM_SECONDS` for how long more of them are.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

mod act;
mod answers;
mod bugs;
mod client;
mod course;
mod ends;
mod host;
mod log;
mod machine;
mod manager;
mod model;
mod node;
mod plan;
mod posted;
mod queue;
mod random;
mod rules;
mod world;

use bugs::{Bug, TWINS};
use rules::Broken;
use world::World;

/// Variable that names one seed.
const ONE: &str = "INSTANTON_SIM_SEED";
/// Variable that says how many seeds are run.
const MANY: &str = "INSTANTON_SIM_SEEDS";
/// Variable that says for how many seconds seeds are run, at least as many as are usual.
const SECONDS: &str = "INSTANTON_SIM_SECONDS";
/// Seeds that are run unless another number is said: the first ones, the same everywhere.
const USUAL: u64 = 600;
/// A seed beyond these in which the data of a fence that was given up comes behind the next one's.
const LATE_DATA: u64 = 25_760;
/// Seeds of which at least one shows a bug: the first ones.
const ENOUGH: u64 = 50;

/// Result of a run: a hash over its steps, or the rule that does not hold, with the last steps.
fn run(seed: u64, bug: Option<Bug>, is_printed: bool) -> Result<(u64, u64), Broken> {
    let mut world = World::new(seed, bug);
    world.log.is_printed = is_printed;
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    let Broken { rule, what } = match result {
        Ok(Ok(())) => return Ok((world.log.hash(), world.log.steps())),
        Ok(Err(broken)) => broken,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text");
            format!("panic: {text}").into()
        }
    };
    Err(Broken { rule, what: format!("{}seed {seed}: {what}\n{ONE}={seed} repeats it", world.log.shown()) })
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_seed_keeps_the_rules() {
    if let Some(seed) = number_in(ONE) {
        return run(seed, None, true).map(|_| ()).unwrap_or_else(|broken| panic!("{}", broken.what));
    }
    let begin = Instant::now();
    let least = number_in(MANY).unwrap_or(USUAL);
    let time = Duration::from_secs(number_in(SECONDS).unwrap_or(0));
    run(LATE_DATA, None, false).unwrap_or_else(|broken| panic!("{}", broken.what));
    let (mut seeds, mut steps) = (0, 0);
    while seeds < least || begin.elapsed() < time {
        match run(seeds, None, false) {
            Ok((_, of_seed)) => steps += of_seed,
            Err(broken) => panic!("{}", broken.what),
        }
        seeds += 1;
    }
    println!("{seeds} seeds, {steps} steps in {:.1} s", begin.elapsed().as_secs_f32());
}

#[test]
fn a_seed_repeats_itself() {
    for seed in 0..20 {
        assert_eq!(run(seed, None, false), run(seed, None, false), "seed {seed}");
    }
}

#[test]
fn each_seeded_bug_breaks_its_rule() {
    for (bug, rule) in TWINS {
        let breaks = |seed| run(seed, Some(bug), false).is_err_and(|broken| broken.rule == Some(rule));
        assert!((0..ENOUGH).any(breaks), "{bug:?} does not break {rule:?} in any of {ENOUGH} seeds");
    }
}
