//! Machines that are not there: `numa:2 core:8 pu:2` is one of two memories with eight cores each, of two hardware
//! threads each.
use super::machine::{Kind, Machine};

/// Units of the largest.
const MOST_UNITS: u64 = 1 << 16;

/// Reads a description.
///
/// # Errors
/// A line that names the word that is wrong.
pub fn read(text: &str) -> Result<Machine, String> {
    let mut levels = Vec::new();
    let mut all = 1u64;
    for word in text.split_whitespace() {
        let wrong = |why: &str| format!("{word}: {why}, as in 'package:2 numa:2 core:8 pu:2'");
        let (name, count) = word.split_once(':').ok_or_else(|| wrong("a number is missing"))?;
        let kind = match name.to_ascii_lowercase().as_str() {
            "package" | "pack" | "socket" => Kind::Package,
            "numa" | "numanode" | "node" => Kind::Numa,
            "l3cache" | "l3" => Kind::L3,
            "l2cache" | "l2" => Kind::L2,
            "l1cache" | "l1d" | "l1" => Kind::L1,
            "core" => Kind::Core,
            "pu" | "hwthread" => Kind::Thread,
            _ => return Err(wrong("there are package, numa, l3cache, l2cache, l1cache, core and pu")),
        };
        let count =
            count.parse().ok().filter(|count| *count > 0).ok_or_else(|| wrong("that is no number of objects"))?;
        if levels.iter().any(|(other, _)| *other == kind) {
            return Err(wrong("it is there already"));
        }
        all = all.saturating_mul(u64::from(count));
        levels.push((kind, count));
    }
    if levels.is_empty() {
        return Err("it is empty; it is as 'package:2 numa:2 core:8 pu:2'".to_owned());
    }
    if all > MOST_UNITS {
        return Err(format!("{all} processing units are more than {MOST_UNITS}"));
    }
    Ok(Machine::synthetic(&levels))
}
