//! Resource usage of processes, disks, networks and nodes. Version 6.1 of the public headers dropped these structures;
//! their numbers were not reused, and programs built with older headers still exchange them.
use rkyv::{Archive, Deserialize, Serialize};

use super::{Proc, Text, Timeval};

/// A C `float` that equals itself: compared bit by bit, so that a NaN is found again where it was stored.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialOrd)]
pub struct Real(pub f32);

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Real {}

/// A `pmix_proc_stats_t`.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct ProcStats {
    /// The process's node.
    pub node: Option<Text>,
    /// Its name.
    pub proc: Proc,
    /// Its process id.
    pub pid: i32,
    /// Program that it runs.
    pub cmd: Option<Text>,
    /// The letter that the operating system gives its state.
    pub state: u8,
    /// Processor time used.
    pub time: Timeval,
    /// Share of a processor, in percent.
    pub percent_cpu: Real,
    /// Scheduling priority.
    pub priority: i32,
    /// Threads.
    pub num_threads: u16,
    /// Proportional share of memory, in megabytes.
    pub pss: Real,
    /// Virtual memory, in megabytes.
    pub vsize: Real,
    /// Resident memory, in megabytes.
    pub rss: Real,
    /// Most virtual memory so far, in megabytes.
    pub peak_vsize: Real,
    /// The processor it ran on last.
    pub processor: u16,
    /// Time of this measurement.
    pub sample_time: Timeval,
}

/// A `pmix_disk_stats_t`.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct DiskStats {
    /// The disk.
    pub disk: Option<Text>,
    /// Reads completed.
    pub num_reads_completed: u64,
    /// Reads merged with others.
    pub num_reads_merged: u64,
    /// Sectors read.
    pub num_sectors_read: u64,
    /// Milliseconds spent reading.
    pub milliseconds_reading: u64,
    /// Writes completed.
    pub num_writes_completed: u64,
    /// Writes merged with others.
    pub num_writes_merged: u64,
    /// Sectors written.
    pub num_sectors_written: u64,
    /// Milliseconds spent writing.
    pub milliseconds_writing: u64,
    /// Operations under way.
    pub num_ios_in_progress: u64,
    /// Milliseconds with operations under way.
    pub milliseconds_io: u64,
    /// Milliseconds with operations under way, weighted by the number of those.
    pub weighted_milliseconds_io: u64,
}

/// A `pmix_net_stats_t`.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct NetStats {
    /// The interface.
    pub net_interface: Option<Text>,
    /// Bytes received.
    pub num_bytes_recvd: u64,
    /// Packets received.
    pub num_packets_recvd: u64,
    /// Errors while receiving.
    pub num_recv_errs: u64,
    /// Bytes sent.
    pub num_bytes_sent: u64,
    /// Packets sent.
    pub num_packets_sent: u64,
    /// Errors while sending.
    pub num_send_errs: u64,
}

/// A `pmix_node_stats_t`. Memory is in megabytes.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct NodeStats {
    /// The node.
    pub node: Option<Text>,
    /// Load average of one minute.
    pub la: Real,
    /// Of five.
    pub la5: Real,
    /// Of fifteen.
    pub la15: Real,
    /// All memory.
    pub total_mem: Real,
    /// Free memory.
    pub free_mem: Real,
    /// Buffers.
    pub buffers: Real,
    /// Page cache.
    pub cached: Real,
    /// Cached swap.
    pub swap_cached: Real,
    /// All swap.
    pub swap_total: Real,
    /// Free swap.
    pub swap_free: Real,
    /// Mapped memory.
    pub mapped: Real,
    /// Time of this measurement.
    pub sample_time: Timeval,
    /// Its disks.
    pub diskstats: Vec<DiskStats>,
    /// Its network interfaces.
    pub netstats: Vec<NetStats>,
}
