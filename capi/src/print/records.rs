//! Structures that hold no values: one text each.
use std::fmt::Write as _;

use instanton::data::constants::coord_view;
use instanton::data::names;
use libc::c_char;

use super::words::{NIL, NULL, or, rank, unsigned, within};
use super::{Page, say};
use crate::alloc;
use crate::boundary::Outcome;
use crate::types::*;

/// Every member points to what the headers say: a promise of the caller.
impl Page {
    pub(super) fn proc(&mut self, prefix: &[u8], proc: &pmix_proc_t) {
        self.put(&[prefix, b"PROC: ", within(&proc.nspace), b":"]);
        self.rank(proc.rank);
    }

    pub(super) unsafe fn proc_info(&mut self, prefix: &[u8], info: &pmix_proc_info_t) {
        self.head(prefix, b"PMIX_PROC_INFO");
        self.put(&[b"\tValue:\n"]);
        self.proc(&[prefix, b"\t"].concat(), &info.proc);
        // SAFETY: NULL or C strings, as promised by the caller.
        unsafe {
            self.put(&[b"\n", prefix, b"\tHostname: ", or(info.hostname, NULL)]);
            self.put(&[b"\tExecutable: ", or(info.executable_name, NULL)]);
        }
        self.put(&[b"\n", prefix]);
        let (pid, state) = (unsigned(info.pid), names::PROC_STATE.text(info.state));
        say!(self, "\tPid: {pid}\tExit code: {}\tState: {state}", info.exit_code);
    }

    pub(super) unsafe fn envar(&mut self, prefix: &[u8], envar: &pmix_envar_t) {
        self.head(prefix, b"PMIX_ENVAR");
        let separator = if envar.separator == 0 { b' ' } else { envar.separator as u8 };
        // SAFETY: NULL or C strings, as promised by the caller.
        unsafe { self.put(&[b"\tName: ", or(envar.envar, NULL), b"\tValue: ", or(envar.value, NULL)]) };
        self.put(&[b"\tSeparator: ", &[separator]]);
    }

    pub(super) unsafe fn regattr(&mut self, prefix: &[u8], attribute: &pmix_regattr_t) {
        self.head(prefix, b"PMIX_REGATTR");
        let key = match within(&attribute.string) {
            b"" => NULL,
            key => key,
        };
        // SAFETY: NULL or a C string, as promised by the caller.
        unsafe { self.put(&[b"\tName: ", or(attribute.name, NULL), b"\tString: ", key]) };
    }

    pub(super) fn coord(&mut self, prefix: &[u8], coord: &pmix_coord_t) {
        let view = match coord.view {
            coord_view::COORD_VIEW_UNDEF => "UNDEF",
            coord_view::COORD_LOGICAL_VIEW | coord_view::COORD_PHYSICAL_VIEW => names::COORD_VIEW.text(coord.view),
            _ => "UNRECOGNIZED",
        };
        self.head(prefix, b"PMIX_COORD");
        say!(self, "\tView: {view}\tDims: {}", coord.dims);
    }

    pub(super) unsafe fn geometry(&mut self, prefix: &[u8], geometry: &pmix_geometry_t) -> Outcome {
        self.line(prefix, b"PMIX_GEOMETRY", &format_args!("Fabric: {} ", geometry.fabric));
        // SAFETY: NULL or C strings, and as many coordinates, as promised by the caller.
        unsafe {
            self.put(&[b"UUID: ", or(geometry.uuid, NULL), b" OSName: ", or(geometry.osname, NULL)]);
            for coord in alloc::slice(geometry.coordinates, geometry.ncoords)? {
                self.put(&[b"\n"]);
                self.coord(prefix, coord);
            }
        }
        Ok(())
    }

    /// Prints a piece of hardware with its names.
    unsafe fn hardware(&mut self, prefix: &[u8], name: &[u8], uuid: *const c_char, osname: *const c_char, ty: u64) {
        self.head(prefix, name);
        // SAFETY: NULL or C strings, as promised by the caller.
        unsafe { self.put(&[b"\tValue: UUID: ", or(uuid, NULL), b" OSName: ", or(osname, NULL)]) };
        say!(self, " Type: {}", names::DEVICE_TYPE.text(ty));
    }

    pub(super) unsafe fn device(&mut self, prefix: &[u8], device: &pmix_device_t) {
        // SAFETY: as promised by the caller.
        unsafe { self.hardware(prefix, b"PMIX_DEVICE", device.uuid, device.osname, device.dtype) };
    }

    pub(super) unsafe fn distance(&mut self, prefix: &[u8], distance: &pmix_device_distance_t) {
        // SAFETY: as promised by the caller.
        unsafe { self.hardware(prefix, b"PMIX_DEVICE_DIST", distance.uuid, distance.osname, distance.dtype) };
        say!(self, " Min: {} Max: {}", distance.mindist, distance.maxdist);
    }

    pub(super) unsafe fn endpoint(&mut self, prefix: &[u8], endpoint: &pmix_endpoint_t) {
        self.head(prefix, b"PMIX_ENDPOINT");
        // SAFETY: NULL or C strings, as promised by the caller.
        unsafe { self.put(&[b"\tValue: ", or(endpoint.uuid, NULL), b"(", or(endpoint.osname, NULL)]) };
        say!(self, ") #bytes: {}", endpoint.endpt.size);
    }

    pub(super) unsafe fn proc_stats(&mut self, prefix: &[u8], stats: &pmix_proc_stats_t) {
        self.put(&[prefix, b"PMIX_PROC_STATS SAMPLED AT: "]);
        self.seconds(stats.sample_time);
        self.put(&[b"\n"]);
        // SAFETY: NULL or a C string, as promised by the caller.
        self.put(&[prefix, b"node: ", unsafe { or(stats.node, NIL) }, b" proc: [", within(&stats.proc.nspace)]);
        self.put(&[b","]);
        match rank(stats.proc.rank) {
            Some(name) => self.put(&[name.trim_start_matches("PMIX_RANK_").as_bytes()]),
            None => self.out.number(stats.proc.rank.into()),
        }
        say!(self, "] pid: {} cmd: ", stats.pid);
        // SAFETY: as above.
        self.put(&[unsafe { or(stats.cmd, NIL) }, b" state: ", &[stats.state as u8]]);
        let (priority, threads, processor) = (stats.priority, stats.num_threads, stats.processor);
        say!(self, " pri: {priority} #threads: {threads} Processor: {processor}\n");
        self.put(&[prefix, b"\ttime: "]);
        self.seconds(stats.time);
        say!(self, " cpu: {:5.2}", stats.percent_cpu);
        say!(self, "  PSS: {:8.2}  VMsize: {:8.2}", stats.pss, stats.vsize);
        say!(self, " PeakVMSize: {:8.2} RSS: {:8.2}\n", stats.peak_vsize, stats.rss);
    }

    pub(super) unsafe fn disk_stats(&mut self, prefix: &[u8], stats: &pmix_disk_stats_t) {
        // SAFETY: NULL or a C string, as promised by the caller.
        self.put(&[prefix, b"PMIX_DISK_STATS Disk: ", unsafe { or(stats.disk, NIL) }, b"\n"]);
        self.counters(
            prefix,
            &[
                ("NumReadsCompleted", stats.num_reads_completed),
                ("NumReadsMerged", stats.num_reads_merged),
                ("NumSectorsRead", stats.num_sectors_read),
                ("MillisecReading", stats.milliseconds_reading),
            ],
        );
        self.counters(
            prefix,
            &[
                ("NumWritesCompleted", stats.num_writes_completed),
                ("NumWritesMerged", stats.num_writes_merged),
                ("NumSectorsWrote", stats.num_sectors_written),
                ("MillisecWriting", stats.milliseconds_writing),
            ],
        );
        self.counters(
            prefix,
            &[
                ("NumIOsInProgress", stats.num_ios_in_progress),
                ("MillisecondsIO", stats.milliseconds_io),
                ("WeightedMillisecsIO", stats.weighted_milliseconds_io),
            ],
        );
    }

    pub(super) unsafe fn net_stats(&mut self, prefix: &[u8], stats: &pmix_net_stats_t) {
        // SAFETY: NULL or a C string, as promised by the caller.
        self.put(&[prefix, b"PMIX_NET_STATS Interface: ", unsafe { or(stats.net_interface, NIL) }, b"\n"]);
        self.counters(
            prefix,
            &[
                ("NumBytesRecvd", stats.num_bytes_recvd),
                ("NumPacketsRecv", stats.num_packets_recvd),
                ("NumRecvErrors", stats.num_recv_errs),
            ],
        );
        self.counters(
            prefix,
            &[
                ("NumBytesSent", stats.num_bytes_sent),
                ("NumPacketsSent", stats.num_packets_sent),
                ("NumSendErrors", stats.num_send_errs),
            ],
        );
    }

    /// A line of hexadecimal numbers.
    fn counters(&mut self, prefix: &[u8], counters: &[(&str, u64)]) {
        let words: Vec<String> = counters.iter().map(|(name, number)| format!("{name}: {number:x}")).collect();
        self.put(&[prefix, words.join(" ").as_bytes(), b"\n"]);
    }

    pub(super) unsafe fn node_stats(&mut self, prefix: &[u8], stats: &pmix_node_stats_t) {
        self.put(&[prefix, b"PMIX_NODE_STATS SAMPLED AT: "]);
        self.seconds(stats.sample_time);
        self.put(&[b"\tNode: "]);
        // SAFETY: NULL or a C string, as promised by the caller.
        self.put(&[unsafe { or(stats.node, NIL) }, b"\n", prefix]);
        say!(self, "Total Mem: {:5.2} Free Mem: {:5.2}", stats.total_mem, stats.free_mem);
        say!(self, " Buffers: {:5.2} Cached: {:5.2}\n", stats.buffers, stats.cached);
        self.put(&[prefix]);
        say!(self, "SwapCached: {:5.2} SwapTotal: {:5.2}", stats.swap_cached, stats.swap_total);
        say!(self, " SwapFree: {:5.2} Mapped: {:5.2}\n", stats.swap_free, stats.mapped);
        self.put(&[prefix]);
        say!(self, "\tla: {:5.2}\tla5: {:5.2}\tla15: {:5.2}\n", stats.la, stats.la5, stats.la15);
    }
}
