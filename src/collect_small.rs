//! Collecting into small sorted maps and sets.

/// Collects `items` one insertion at a time. `Iterator::collect` into a `BTreeMap` or `BTreeSet` sorts a vector
/// first, and that compiles a sort of its own for every element type, 5 kB of code each; the collections made here
/// have a handful of elements.
pub(crate) fn collect_small<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    items.into_iter().for_each(|item| all.extend(Some(item)));
    all
}
