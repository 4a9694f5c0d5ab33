//! Removal of the entries of a map that meet a condition.
use std::collections::BTreeMap;

/// Takes the entries out that `which` picks, in their order.
pub fn take_where<T>(map: &mut BTreeMap<u64, T>, which: impl Fn(&T) -> bool) -> Vec<T> {
    let numbers: Vec<u64> = map.iter().filter(|(_, item)| which(item)).map(|(number, _)| *number).collect();
    numbers.iter().filter_map(|number| map.remove(number)).collect()
}
