//! Leftovers of a server, for tests that have ended every job it knew.
use super::Router;

impl Router {
    /// Checks that nothing is left of any job.
    ///
    /// # Errors
    /// Names what is left.
    pub(in crate::server) fn check_empty(&self) -> Result<(), String> {
        let Router { cx, jobs, collectives, fences, connections, groups, queries, gets, .. } = self;
        let numbers = [
            ("timers", usize::from(cx.timers.next().is_some())),
            ("peers", cx.peers.len()),
            ("jobs", jobs.names().len()),
            ("bytes of shared memory", cx.accounts.shared().used() as usize),
            ("look-ups", gets.open()),
            ("queries", queries.open()),
            ("bytes charged", cx.accounts.charged() as usize),
        ];
        if let Some((what, number)) = numbers.iter().find(|(_, number)| *number > 0) {
            return Err(format!("{number} {what}"));
        }
        same("collectives", collectives)?;
        same("fences", fences)?;
        same("connections", connections)?;
        same("groups", groups)?;
        same("subscriptions", &cx.subscriptions)?;
        same("awaited", &cx.awaited)
    }
}

/// Checks that something looks like a new one, but for the numbers that it has counted.
fn same<T: Default + std::fmt::Debug>(name: &str, left: &T) -> Result<(), String> {
    let (left, new) = (uncounted(&format!("{left:?}")), uncounted(&format!("{:?}", T::default())));
    if left == new { Ok(()) } else { Err(format!("left of {name}: {left}")) }
}

/// Returns a debug text without the last numbers that were given.
fn uncounted(text: &str) -> String {
    let mut pieces = text.split("last");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(
            piece
                .find([',', ' ', '}'])
                .map_or("", |at| piece[at..].trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit())),
        );
    }
    out
}
