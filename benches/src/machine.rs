//! The machine that was measured, and what its clock costs.
use std::fs::read_to_string;
use std::hint::black_box;
use std::time::Instant;

/// Cores and processor, as the kernel names them: "2 cores of ...".
#[must_use]
pub fn processor() -> String {
    let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} {} of {}", if cores == 1 { "core" } else { "cores" }, model(&info).unwrap_or("unknown make"))
}

/// The number of the kernel's release.
#[must_use]
pub fn kernel() -> String {
    let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Suffixes of a site or a builder say nothing about speed.
    let release = release.split('-').next().unwrap_or_default();
    format!("Linux {}", release.trim())
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

/// Returns the time that one reading of the clock adds to a measured time, in microseconds: the median of many.
#[must_use]
pub fn clock_overhead() -> f64 {
    let mut times: Vec<f64> = (0..1001)
        .map(|_| {
            let start = Instant::now();
            black_box(Instant::now()).duration_since(start).as_nanos() as f64 / 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Bytes of this process that lie in memory, shared ones included; none where the kernel does not say.
#[must_use]
pub fn resident() -> Option<u64> {
    // Exact, unlike the counters of /proc/self/status.
    kilobytes(&read_to_string("/proc/self/smaps_rollup").ok()?, "Rss:")
}

/// Forgets how much of this process has lain in memory at most.
///
/// # Errors
/// When the kernel does not do that.
pub fn forget_peak() -> std::io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

/// Bytes of this process that have lain in memory at most since the peak was forgotten; none where the kernel does not
/// say.
#[must_use]
pub fn peak() -> Option<u64> {
    kilobytes(&read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Bytes that can still be had; none where the kernel does not say.
#[must_use]
pub fn available() -> Option<u64> {
    kilobytes(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// In bytes, what a line of the form `NAME: 123 kB` says.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A: fast one\nmodel name\t: B\n"), Some("A: fast one"));
        assert_eq!(model("processor\t: 0\n"), None);
    }

    #[test]
    fn this_process_lies_in_memory() {
        assert!(resident().expect("/proc") > 100_000);
        assert!(available().expect("/proc") > 100_000);
        assert_eq!(kilobytes("VmSize: 1 kB\nVmRSS:\t 12 kB\n", "VmRSS:"), Some(12 * 1024));
    }
}
