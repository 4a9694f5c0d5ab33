//! Sorted maps and sets of what an iterator gives.

/// All of it, put in one by one. `collect` sorts a vector first: that brings a sort of its own for every type, 5 kB of code each,
/// and these have a handful of elements.
pub(crate) fn gathered<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    items.into_iter().for_each(|item| all.extend(Some(item)));
    all
}
