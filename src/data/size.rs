//! Memory that a value takes in C (`PMIx_Value_get_size`).
use super::{App, DataType, DiskStats, Geometry, Info, NetStats, Proc, Text, Value};

/// Bytes that the allocator takes for a piece of memory beside what was asked for.
const ALLOCATION: usize = 16;

impl Value {
    /// Bytes of the `pmix_value_t`, of what is in it, and of everything that points to.
    ///
    /// ```
    /// use instanton::data::Value;
    /// assert_eq!(Value::from(7u32).size(), 32 + 4);
    /// assert_eq!(Value::from("seven").size(), 32 + 6);
    /// ```
    pub fn size(&self) -> usize {
        DataType::VALUE.c_size() + self.payload()
    }

    /// Bytes that the value takes here and in a message: those of [`size`](Value::size), and a place for each element
    /// of its arrays, however small that is in C.
    pub fn kept_size(&self) -> usize {
        self.size() + self.elements() * size_of::<Value>()
    }

    /// Counts the elements of all arrays in it.
    fn elements(&self) -> usize {
        match self {
            Value::DataArray(array) => array.len() + array.items().iter().map(Value::elements).sum::<usize>(),
            Value::Value(value) => value.elements(),
            Value::Info(info) => info.value.elements(),
            Value::Pdata(data) => data.value.elements(),
            Value::Query(query) => query.qualifiers.iter().map(|info| info.value.elements()).sum(),
            Value::App(app) => app.info.iter().map(|info| info.value.elements()).sum(),
            _ => 0,
        }
    }

    fn payload(&self) -> usize {
        match self {
            Value::String(text) => string(text),
            other => other.element(),
        }
    }

    /// As an element of an array.
    fn element(&self) -> usize {
        self.data_type().c_size() + self.referenced()
    }

    /// Returns the size of the memory that pointers in it lead to.
    fn referenced(&self) -> usize {
        match self {
            Value::String(text) => string(text),
            Value::ByteObject(bytes)
            | Value::Regex(bytes)
            | Value::CompressedString(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::DataBuffer(bytes) => bytes.len(),
            Value::Value(value) => value.payload(),
            Value::Info(info) => info.value.payload(),
            Value::Pdata(data) => data.value.payload(),
            Value::Query(query) => strings(&query.keys) + infos(&query.qualifiers),
            Value::App(app) => app.size(),
            Value::DataArray(array) => array.items().iter().map(Value::element).sum(),
            Value::Envar(envar) => string(&envar.name) + string(&envar.value),
            Value::ProcInfo(info) => string(&info.hostname) + string(&info.executable),
            Value::Regattr(attribute) => string(&attribute.name) + strings(&attribute.description),
            Value::NodePid(pid) => string(&pid.hostname),
            Value::Regex2(regex) => string(&regex.method) + regex.bytes.len(),
            Value::Topo(topology) => string(&topology.source) + string(&topology.xml),
            Value::ProcCpuset(cpuset) => string(&cpuset.source) + string(&cpuset.bitmap),
            Value::Coord(coord) => size_of_val(&coord.coord[..]),
            Value::Geometry(geometry) => places(geometry),
            Value::Device(device) => string(&device.uuid) + string(&device.osname),
            Value::DeviceDist(distance) => string(&distance.uuid) + string(&distance.osname),
            Value::Endpoint(endpoint) => string(&endpoint.uuid) + string(&endpoint.osname) + endpoint.endpt.len(),
            Value::ProcStats(stats) => string(&stats.node) + string(&stats.cmd),
            Value::DiskStats(stats) => string(&stats.disk),
            Value::NetStats(stats) => string(&stats.net_interface),
            Value::NodeStats(stats) => string(&stats.node) + disks(&stats.diskstats) + networks(&stats.netstats),
            _ => 0,
        }
    }
}

impl Info {
    /// Bytes that the attribute takes here, with its key and all that its value has.
    pub(crate) fn kept_size(&self) -> usize {
        size_of::<Info>() + self.key.len() + ALLOCATION + self.value.kept_size()
    }
}

impl Proc {
    /// Bytes that the name takes here.
    pub(crate) fn kept_size(&self) -> usize {
        size_of::<Proc>() + self.nspace.len() + ALLOCATION
    }
}

impl Text {
    /// Bytes that the text takes here, in a list of texts.
    pub(crate) fn kept_size(&self) -> usize {
        size_of::<Text>() + self.len() + ALLOCATION
    }
}

impl App {
    /// Bytes that it points to in C.
    pub(crate) fn size(&self) -> usize {
        let App { cmd, argv, env, cwd, info, .. } = self;
        string(cmd) + strings(argv) + strings(env) + string(cwd) + infos(info)
    }
}

/// A text and its NUL; where there is none, stock libraries count the NUL all the same.
fn string(text: &Option<Text>) -> usize {
    text.as_ref().map_or(1, |text| text.len() + 1)
}

fn strings(texts: &[Text]) -> usize {
    texts.iter().map(|text| text.len() + 1).sum()
}

fn infos(infos: &[Info]) -> usize {
    infos.iter().map(|info| DataType::INFO.c_size() + info.value.payload()).sum()
}

fn places(geometry: &Geometry) -> usize {
    let coords = geometry.coordinates.iter().map(|coord| DataType::COORD.c_size() + size_of_val(&coord.coord[..]));
    string(&geometry.uuid) + string(&geometry.osname) + coords.sum::<usize>()
}

fn disks(stats: &[DiskStats]) -> usize {
    stats.iter().map(|stats| DataType::DISK_STATS.c_size() + string(&stats.disk)).sum()
}

fn networks(stats: &[NetStats]) -> usize {
    stats.iter().map(|stats| DataType::NET_STATS.c_size() + string(&stats.net_interface)).sum()
}
