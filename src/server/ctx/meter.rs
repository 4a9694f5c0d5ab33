//! Meter: the processor time that each step of the control thread takes.
//!
//! While a step runs, everybody else waits. One that takes longer than [`LONG`] is named in the trace, with the process
//! that has asked for it, and counted. So is a call of the host, by the clock: a host that waits in a call keeps
//! everybody waiting. Counting costs two system calls a step: it is off where nobody traces, but for builds with
//! assertions. Requests are counted by kind, always.
use std::collections::BTreeMap;
use std::time::Duration;

use super::Ctx;
use crate::data::Proc;
use crate::trace;

/// Time that no step for one process may take.
pub const LONG: Duration = Duration::from_millis(10);

/// Counter of steps that take too long.
#[derive(Debug)]
pub struct Meter {
    is_on: bool,
    /// Kind of the step that runs, and the process that it is for.
    step: (&'static str, Option<Proc>),
    /// Requests that have come, by kind.
    requests: BTreeMap<&'static str, u64>,
    /// Number of steps that have taken longer than [`LONG`].
    pub overlong: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Meter {
            is_on: trace::enabled() || cfg!(debug_assertions),
            step: ("", None),
            requests: BTreeMap::new(),
            overlong: 0,
        }
    }
}

impl Meter {
    /// Counts a request of that kind.
    pub fn count(&mut self, kind: &'static str) {
        *self.requests.entry(kind).or_default() += 1;
    }

    /// Requests that have come, by kind.
    pub fn requests(&self) -> Vec<(String, u64)> {
        self.requests.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
    }
}

/// Processor time at which a step began; none where nobody counts.
#[derive(Clone, Copy, Debug)]
pub struct Begin(Option<Duration>);

impl Ctx {
    /// Begins a step of that kind.
    pub fn begin_step(&mut self, kind: &'static str) -> Begin {
        if !self.meter.is_on {
            return Begin(None);
        }
        self.meter.step = (kind, None);
        Begin(Some(self.system.processor_time()))
    }

    /// Says for whom the step is that runs, and what is asked.
    pub fn name_step(&mut self, kind: &'static str, proc: &Proc) {
        if self.meter.is_on {
            self.meter.step = (kind, Some(proc.clone()));
        }
    }

    /// Ends a step.
    pub fn end_step(&mut self, begin: Begin) {
        let Some(begin) = begin.0 else { return };
        let time = self.system.processor_time().saturating_sub(begin);
        if time > LONG {
            self.meter.overlong += 1;
            trace!("{} takes {} ms of processor time", self.step(), time.as_millis());
        }
    }

    /// Calls the host; a call that takes long is named.
    pub fn call_host<T>(&self, call: impl FnOnce() -> T, kind: &str) -> T {
        let begin = self.now();
        let result = call();
        let time = self.now().saturating_duration_since(begin);
        if time > LONG {
            trace!("the host takes {} ms in {kind}, for {}", time.as_millis(), self.step());
        }
        result
    }

    fn step(&self) -> String {
        match &self.meter.step {
            (kind, Some(proc)) => format!("{kind} of {proc}"),
            (kind, None) => (*kind).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ctx::testing;
    use crate::server::host::NoHost;

    #[test]
    fn a_step_that_takes_too_long_is_counted() {
        let mut test = testing::ctx(NoHost);
        for (time, overlong) in [(LONG, 0), (LONG + Duration::from_millis(1), 1)] {
            let begin = test.cx.begin_step("a step");
            test.advance(time);
            test.cx.end_step(begin);
            assert_eq!(test.cx.meter.overlong, overlong);
        }
    }
}
