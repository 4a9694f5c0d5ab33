//! Kills of jobs in which a rank of the program `killer` kills itself, its server or its launcher: who, in which call,
//! and how long after its beginning comes from a seed. `INSTANTON_TEST_KILLS` says how many, `INSTANTON_TEST_SEED`
//! repeats them.
use std::hash::{BuildHasher, RandomState};

use super::Launch;

/// Ranks of such a job.
pub const RANKS: u32 = 4;
/// Kills of a job without a word about them.
const KILLS: u64 = 12;
/// Times after the beginning of a call, in microseconds.
const AFTER: [u32; 8] = [0, 50, 200, 500, 1000, 2000, 5000, 20_000];
/// The call that begins first, PMIx_Init, and the number of calls.
const INIT: u64 = 0;
const CALLS: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Rank,
    Server,
    Launcher,
}

/// A kill.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    victim: Victim,
    call: u64,
    killer: u64,
    after: u32,
}

impl Kill {
    /// Some kills, at random; none of a rank in its Init. A stock server that is reading from such a rank may wait for
    /// itself for ever when it ends: so in 11 of 60 jobs of stock ranks on two daemons of 4.2.2, and one of 20 on those of
    /// 5.0.7 and 7.0.0rc1, all without the plug-in.
    pub fn some() -> impl Iterator<Item = Kill> {
        let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
        let mut random = number("INSTANTON_TEST_SEED").unwrap_or_else(|| RandomState::new().hash_one(0)) | 1;
        println!("INSTANTON_TEST_SEED={random}");
        let mut below = move |end: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % end
        };
        let any = move || Kill {
            victim: [Victim::Rank, Victim::Server, Victim::Launcher][below(3) as usize],
            call: below(CALLS),
            killer: below(RANKS.into()),
            after: AFTER[below(AFTER.len() as u64) as usize],
        };
        let is_told = |kill: &Kill| (kill.victim, kill.call) != (Victim::Rank, INIT);
        let kills = number("INSTANTON_TEST_KILLS").unwrap_or(KILLS) as usize;
        std::iter::repeat_with(any).filter(is_told).take(kills)
    }

    /// A launch of the program `killer` that makes this kill, and of a shell before it that tells the launcher's number.
    /// Files of the launcher may stay; it is run to the end of all its processes.
    pub fn of(self, launch: Launch) -> Launch {
        let victim = format!("{:?}", self.victim).to_lowercase();
        let words = [self.killer.to_string(), victim, self.call.to_string(), self.after.to_string()];
        let shell = ["-c", "INSTANTON_TEST_LAUNCHER=$$ exec \"$@\"", "launcher"];
        launch.args(words).through("/bin/bash").insert(0, shell).abandons_its_folder()
    }
}
