//! Values as a person reads them. Text in quotes, bytes in hexadecimal, numbers of a list by the name they have there.
//! Long things are shown by their beginning and their length.
use std::fmt::{self, Display, Formatter, Write as _};

use super::{
    App, Coord, Cpuset, DataArray, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, NetStats,
    NodePid, NodeStats, Pdata, ProcInfo, ProcStats, Query, RegAttr, Regex2, ResourceUnit, Text, Timeval, Topology,
    Value, names,
};

/// Elements of an array that are shown.
const SHOWN_ITEMS: usize = 64;
/// Bytes of a byte object that are shown.
const SHOWN_BYTES: usize = 32;

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Undef => f.write_str("undefined"),
            Value::Bool(flag) => flag.fmt(f),
            Value::String(text) => quoted(f, text),
            Value::Byte(n) | Value::Uint8(n) | Value::Command(n) => n.fmt(f),
            Value::Size(n) | Value::Uint64(n) => n.fmt(f),
            Value::Pid(n) | Value::Int(n) | Value::Int32(n) => n.fmt(f),
            Value::Int8(n) => n.fmt(f),
            Value::Int16(n) => n.fmt(f),
            Value::Int64(n) => n.fmt(f),
            Value::Uint(n) | Value::Uint32(n) => n.fmt(f),
            Value::Uint16(n) => n.fmt(f),
            Value::Float(n) => n.fmt(f),
            Value::Double(n) => n.fmt(f),
            Value::Timeval(time) => time.fmt(f),
            Value::Time(seconds) => write!(f, "{seconds} s"),
            Value::Status(status) => status.fmt(f),
            Value::Value(value) => value.fmt(f),
            Value::Proc(proc) => proc.fmt(f),
            Value::App(app) => app.fmt(f),
            Value::Info(info) => info.fmt(f),
            Value::Pdata(data) => data.fmt(f),
            Value::ByteObject(bytes)
            | Value::CompressedString(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::DataBuffer(bytes) => hexadecimal(f, bytes),
            Value::Persist(n) => f.write_str(names::PERSISTENCE.text(*n)),
            Value::Pointer(address) => write!(f, "{address:#x}"),
            Value::Scope(n) => f.write_str(names::SCOPE.text(*n)),
            Value::DataRange(n) => f.write_str(names::DATA_RANGE.text(*n)),
            Value::InfoDirectives(flags) => f.write_str(&names::info_directives(*flags)),
            Value::DataType(ty) => ty.fmt(f),
            Value::ProcState(n) => f.write_str(names::PROC_STATE.text(*n)),
            Value::ProcInfo(info) => info.fmt(f),
            Value::DataArray(array) => array.fmt(f),
            Value::ProcRank(rank) => rank.fmt(f),
            Value::Query(query) => query.fmt(f),
            Value::AllocDirective(n) => f.write_str(names::ALLOC_DIRECTIVE.text(*n)),
            Value::IofChannel(n) => f.write_str(names::iof_channel(*n).to_string_lossy().trim_end()),
            Value::Envar(envar) => envar.fmt(f),
            Value::Coord(coord) => coord.fmt(f),
            Value::Regattr(attribute) => attribute.fmt(f),
            Value::Regex(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Value::JobState(n) => f.write_str(names::JOB_STATE.text(*n)),
            Value::LinkState(n) => f.write_str(names::LINK_STATE.text(*n)),
            Value::ProcCpuset(cpuset) => cpuset.fmt(f),
            Value::Geometry(geometry) => geometry.fmt(f),
            Value::DeviceDist(distance) => distance.fmt(f),
            Value::Endpoint(endpoint) => endpoint.fmt(f),
            Value::Topo(topology) => topology.fmt(f),
            Value::Devtype(n) => f.write_str(&names::DEVICE_TYPE.flags(*n)),
            Value::Loctype(n) => f.write_str(&names::LOCALITY.flags(*n)),
            Value::ProcNspace(nspace) => nspace.fmt(f),
            Value::ProcStats(stats) => stats.fmt(f),
            Value::DiskStats(stats) => stats.fmt(f),
            Value::NetStats(stats) => stats.fmt(f),
            Value::NodeStats(stats) => stats.fmt(f),
            Value::StorMedium(n) => f.write_str(&names::STORAGE_MEDIUM.flags(*n)),
            Value::StorAccess(n) => f.write_str(&names::STORAGE_ACCESSIBILITY.flags(*n)),
            Value::StorPersist(n) => f.write_str(&names::STORAGE_PERSISTENCE.flags(*n)),
            Value::StorAccessType(n) => f.write_str(&names::STORAGE_ACCESS_TYPE.flags(*n)),
            Value::Device(device) => device.fmt(f),
            Value::ResblockDirective(n) => f.write_str(names::RESOURCE_BLOCK_DIRECTIVE.text(*n)),
            Value::ResourceUnit(unit) => unit.fmt(f),
            Value::NodePid(pid) => pid.fmt(f),
            Value::Regex2(regex) => regex.fmt(f),
            Value::AllocInherit(n) => f.write_str(names::ALLOC_INHERITANCE.text(*n)),
        }
    }
}

impl Display for DataArray {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.data_type().to_string();
        write!(f, "{} {} [", self.len(), name.strip_prefix("PMIX_").unwrap_or(&name))?;
        list(f, self.items())?;
        f.write_char(']')
    }
}

impl Display for Info {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let required = if self.is_required() { " (required)" } else { "" };
        write!(f, "{}={}{required}", self.key, self.value)
    }
}

impl Display for Pdata {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} by {}", self.key, self.value, self.proc)
    }
}

impl Display for App {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} x ", self.maxprocs)?;
        quoted(f, &self.cmd)?;
        write!(f, " argv [")?;
        list(f, &self.argv)?;
        write!(f, "] env [")?;
        list(f, &self.env)?;
        write!(f, "] in ")?;
        quoted(f, &self.cwd)?;
        write!(f, " [")?;
        list(f, &self.info)?;
        f.write_char(']')
    }
}

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        list(f, &self.keys)?;
        f.write_str("] where [")?;
        list(f, &self.qualifiers)?;
        f.write_char(']')
    }
}

impl Display for Timeval {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.usec) {
            Ok(usec) if usec < 1_000_000 => write!(f, "{}.{usec:06} s", self.sec),
            _ => write!(f, "{} s {} us", self.sec, self.usec),
        }
    }
}

impl Display for Envar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", plain(&self.name))?;
        quoted(f, &self.value)?;
        match self.separator {
            0 => Ok(()),
            byte => write!(f, " separated by {}", char::from(byte).escape_default()),
        }
    }
}

impl Display for ProcInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = names::PROC_STATE.text(self.state);
        let (program, host) = (plain(&self.executable), plain(&self.hostname));
        write!(f, "{} {program} pid {} on {host}: {state}, exit code {}", self.proc, self.pid, self.exit_code)
    }
}

impl Display for RegAttr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map_or("NULL".into(), |key| key.to_string_lossy());
        write!(f, "{} {key} {}: ", plain(&self.name), self.data_type)?;
        list(f, &self.description)
    }
}

impl Display for NodePid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} on node {} {}", self.pid, self.nodeid, plain(&self.hostname))
    }
}

impl Display for Regex2 {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: \"{}\"", plain(&self.method), self.bytes.escape_ascii())
    }
}

impl Display for Topology {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", plain(&self.source), self.xml.as_ref().map_or(0, Text::len))
    }
}

impl Display for Cpuset {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", plain(&self.source), plain(&self.bitmap))
    }
}

impl Display for Coord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", names::COORD_VIEW.text(self.view))?;
        list(f, &self.coord)?;
        f.write_char(')')
    }
}

impl Display for Geometry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in fabric {}: ", plain(&self.uuid), plain(&self.osname), self.fabric)?;
        list(f, &self.coordinates)
    }
}

impl Display for Device {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = names::DEVICE_TYPE.flags(self.device_type);
        write!(f, "{kind} {} {}", plain(&self.uuid), plain(&self.osname))
    }
}

impl Display for DeviceDistance {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = names::DEVICE_TYPE.flags(self.device_type);
        let (near, far) = (self.mindist, self.maxdist);
        write!(f, "{kind} {} {}: {near} to {far}", plain(&self.uuid), plain(&self.osname))
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", plain(&self.uuid), plain(&self.osname))?;
        hexadecimal(f, &self.endpt)
    }
}

impl Display for ResourceUnit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count, names::DEVICE_TYPE.flags(self.device_type))
    }
}

impl Display for ProcStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} pid {} on {} at {}: state {}, {} on processor {} ({}%), priority {}, {} threads, \
             pss {} vsize {} rss {} peak {} MB",
            self.proc,
            plain(&self.cmd),
            self.pid,
            plain(&self.node),
            self.sample_time,
            char::from(self.state).escape_default(),
            self.time,
            self.processor,
            self.percent_cpu.0,
            self.priority,
            self.num_threads,
            self.pss.0,
            self.vsize.0,
            self.rss.0,
            self.peak_vsize.0,
        )
    }
}

impl Display for DiskStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} reads ({} merged) of {} sectors in {} ms, {} writes ({} merged) of {} sectors in {} ms, \
             {} under way, {} ms busy ({} weighted)",
            plain(&self.disk),
            self.num_reads_completed,
            self.num_reads_merged,
            self.num_sectors_read,
            self.milliseconds_reading,
            self.num_writes_completed,
            self.num_writes_merged,
            self.num_sectors_written,
            self.milliseconds_writing,
            self.num_ios_in_progress,
            self.milliseconds_io,
            self.weighted_milliseconds_io,
        )
    }
}

impl Display for NetStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: received {} bytes in {} packets, {} errors; sent {} bytes in {} packets, {} errors",
            plain(&self.net_interface),
            self.num_bytes_recvd,
            self.num_packets_recvd,
            self.num_recv_errs,
            self.num_bytes_sent,
            self.num_packets_sent,
            self.num_send_errs,
        )
    }
}

impl Display for NodeStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {}: load {} {} {}, {} of {} MB free, {} buffers, {} cached, {} mapped, \
             swap {} of {} free, {} cached; disks [",
            plain(&self.node),
            self.sample_time,
            self.la.0,
            self.la5.0,
            self.la15.0,
            self.free_mem.0,
            self.total_mem.0,
            self.buffers.0,
            self.cached.0,
            self.mapped.0,
            self.swap_free.0,
            self.swap_total.0,
            self.swap_cached.0,
        )?;
        list(f, &self.diskstats)?;
        f.write_str("]; networks [")?;
        list(f, &self.netstats)?;
        f.write_char(']')
    }
}

fn plain(text: &Option<Text>) -> std::borrow::Cow<'_, str> {
    text.as_ref().map_or("NULL".into(), Text::to_string_lossy)
}

fn quoted(f: &mut Formatter<'_>, text: &Option<Text>) -> fmt::Result {
    match text {
        Some(text) => write!(f, "{text:?}"),
        None => f.write_str("NULL"),
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().take(SHOWN_ITEMS).enumerate() {
        write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
    }
    match items.len().saturating_sub(SHOWN_ITEMS) {
        0 => Ok(()),
        more => write!(f, ", and {more} more"),
    }
}

fn hexadecimal(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    write!(f, "{} bytes", bytes.len())?;
    for (index, byte) in bytes.iter().take(SHOWN_BYTES).enumerate() {
        write!(f, "{}{byte:02x}", if index == 0 { " " } else { "" })?;
    }
    f.write_str(if bytes.len() > SHOWN_BYTES { "..." } else { "" })
}
