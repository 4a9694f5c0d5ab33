//! Strategies for property tests: names, attributes and values of every type, nested a few levels deep.
//!
//! ```
//! use instanton::data::arbitrary;
//! use proptest::prelude::*;
//! proptest!(|(value in arbitrary::value())| {
//!     prop_assert_eq!(value.clone(), value);
//! });
//! ```
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::*;

/// Most elements of anything that has elements.
const MANY: usize = 6;

/// Text without NULs, mostly short, some of it not UTF-8.
pub fn text() -> impl Strategy<Value = Text> {
    let bytes = prop_oneof![
        4 => "[a-z0-9._-]{0,12}".prop_map(String::into_bytes),
        1 => vec(1..=u8::MAX, 0..40),
    ];
    bytes.prop_map(|bytes| Text::new(bytes).expect("no NUL"))
}

/// Keys: of the Standard, of programs, and the longest there can be.
pub fn key() -> impl Strategy<Value = Key> {
    let standard =
        (0..keys::all().len()).prop_map(|index| keys::all().nth(index).map_or(vec![], |row| row.1.as_bytes().to_vec()));
    let bytes = prop_oneof![
        3 => standard,
        3 => "[a-z]{1,8}".prop_map(String::into_bytes),
        1 => vec(1..=u8::MAX, 1..=Key::MAX),
    ];
    bytes.prop_map(|bytes| Key::new(bytes).expect("a legal key"))
}

/// Namespaces.
pub fn nspace() -> impl Strategy<Value = Nspace> {
    prop_oneof![4 => "[a-z@0-9-]{1,12}", 1 => "[a-z]{0,255}"].prop_map(|name| Nspace::new(name).expect("a legal name"))
}

/// Ranks, the special ones among them.
pub fn rank() -> impl Strategy<Value = Rank> {
    let special = [Rank::WILDCARD, Rank::UNDEF, Rank::LOCAL_NODE, Rank::LOCAL_PEERS, Rank::INVALID];
    prop_oneof![4 => (0..64u32).prop_map(Rank), 1 => any::<u32>().prop_map(Rank), 1 => prop::sample::select(special.to_vec())]
}

/// Processes.
pub fn proc() -> impl Strategy<Value = Proc> {
    (nspace(), rank()).prop_map(|(nspace, rank)| Proc { nspace, rank })
}

/// Attributes.
pub fn info() -> impl Strategy<Value = Info> {
    info_of(value())
}

/// Values of every type.
pub fn value() -> BoxedStrategy<Value> {
    leaf().prop_recursive(4, 64, MANY as u32, nested).boxed()
}

/// Values of one type, if values can be of it; nothing nested in them.
pub fn value_of(ty: DataType) -> Option<BoxedStrategy<Value>> {
    if let Some((_, strategy)) = leaves().into_iter().find(|(leaf, _)| *leaf == ty) {
        return Some(strategy);
    }
    let all = nested(leaf().boxed()).prop_filter("another type", move |value| value.data_type() == ty);
    ty.is_supported().then(|| all.boxed())
}

fn leaf() -> impl Strategy<Value = Value> {
    Union::new(leaves().into_iter().map(|(_, strategy)| strategy))
}

fn info_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Info> {
    (key(), any::<u32>(), value).prop_map(|(key, flags, value)| Info { key, flags, value })
}

/// Returns a strategy for values that hold other values.
fn nested(inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let infos = || vec(info_of(inner.clone()), 0..MANY);
    let pdata = (proc(), key(), inner.clone()).prop_map(|(proc, key, value)| Pdata { proc, key, value });
    let query = (vec(text(), 0..MANY), infos()).prop_map(|(keys, qualifiers)| Query { keys, qualifiers });
    let argv = || vec(text(), 0..MANY);
    let app = (option::of(text()), argv(), argv(), option::of(text()), any::<i32>(), infos())
        .prop_map(|(cmd, argv, env, cwd, maxprocs, info)| App { cmd, argv, env, cwd, maxprocs, info });
    let arrays_of = |ty, strategy: BoxedStrategy<Value>| {
        vec(strategy, 0..MANY).prop_map(move |items| DataArray::new(ty, items).expect("one type")).boxed()
    };
    let mut arrays: Vec<_> = leaves().into_iter().map(|(ty, strategy)| arrays_of(ty, strategy)).collect();
    let info = info_of(inner.clone()).prop_map(Value::from).boxed();
    let boxed = inner.clone().prop_map(|value| Value::Value(Box::new(value))).boxed();
    arrays.push(arrays_of(DataType::INFO, info.clone()));
    arrays.push(arrays_of(DataType::VALUE, boxed.clone()));
    let array = Union::new(arrays.clone()).prop_map(Value::from).boxed();
    let array_of_arrays = arrays_of(DataType::DATA_ARRAY, array.clone()).prop_map(Value::from);
    let infos = infos().prop_map(Value::infos);
    prop_oneof![
        4 => infos,
        4 => array,
        1 => array_of_arrays,
        1 => info,
        1 => boxed,
        1 => pdata.prop_map(Value::from),
        1 => query.prop_map(Value::from),
        1 => app.prop_map(Value::from),
    ]
    .boxed()
}

/// The types that hold no other values, each with values of it.
fn leaves() -> Vec<(DataType, BoxedStrategy<Value>)> {
    macro_rules! leaves {
        ($($ty:ident $variant:ident $strategy:expr;)*) => {
            vec![$((DataType::$ty, $strategy.prop_map(Value::$variant).boxed())),*]
        };
    }
    let bytes = || vec(any::<u8>(), 0..80);
    let string = || option::of(text());
    let small = any::<u8>;
    let float = || any::<u32>().prop_map(f32::from_bits);
    let mut leaves = leaves! {
        BOOL Bool any::<bool>();
        BYTE Byte small();
        STRING String string();
        SIZE Size any::<u64>();
        PID Pid any::<i32>();
        INT Int any::<i32>();
        INT8 Int8 any::<i8>();
        INT16 Int16 any::<i16>();
        INT32 Int32 any::<i32>();
        INT64 Int64 any::<i64>();
        UINT Uint any::<u32>();
        UINT8 Uint8 small();
        UINT16 Uint16 any::<u16>();
        UINT32 Uint32 any::<u32>();
        UINT64 Uint64 any::<u64>();
        FLOAT Float float();
        DOUBLE Double any::<u64>().prop_map(f64::from_bits);
        TIMEVAL Timeval timeval();
        TIME Time any::<i64>();
        STATUS Status any::<i32>().prop_map(Status);
        PROC Proc proc();
        BYTE_OBJECT ByteObject bytes();
        PERSIST Persist small();
        POINTER Pointer any::<u64>();
        SCOPE Scope small().prop_map(Scope);
        DATA_RANGE DataRange small().prop_map(DataRange);
        COMMAND Command small();
        INFO_DIRECTIVES InfoDirectives any::<u32>();
        DATA_TYPE DataType any::<u16>().prop_map(DataType);
        PROC_STATE ProcState small();
        PROC_INFO ProcInfo proc_info().prop_map(Box::new);
        PROC_RANK ProcRank rank();
        COMPRESSED_STRING CompressedString bytes();
        ALLOC_DIRECTIVE AllocDirective small();
        IOF_CHANNEL IofChannel any::<u16>().prop_map(Channels);
        ENVAR Envar (string(), string(), small())
            .prop_map(|(name, value, separator)| Envar { name, value, separator });
        COORD Coord coord();
        REGATTR Regattr (string(), option::of(key()), any::<u16>(), vec(text(), 0..MANY))
            .prop_map(|(name, key, ty, description)| RegAttr { name, key, data_type: DataType(ty), description })
            .prop_map(Box::new);
        REGEX Regex bytes();
        JOB_STATE JobState small();
        LINK_STATE LinkState small();
        PROC_CPUSET ProcCpuset (string(), string()).prop_map(|(source, bitmap)| Cpuset { source, bitmap });
        GEOMETRY Geometry (any::<u64>(), string(), string(), vec(coord(), 0..MANY))
            .prop_map(|(fabric, uuid, osname, coordinates)| Geometry { fabric, uuid, osname, coordinates })
            .prop_map(Box::new);
        DEVICE_DIST DeviceDist (string(), string(), any::<u64>(), any::<u16>(), any::<u16>())
            .prop_map(|(uuid, osname, device_type, mindist, maxdist)| {
                Box::new(DeviceDistance { uuid, osname, device_type, mindist, maxdist })
            });
        ENDPOINT Endpoint (string(), string(), bytes())
            .prop_map(|(uuid, osname, endpt)| Box::new(Endpoint { uuid, osname, endpt }));
        TOPO Topo (string(), string(), vec(any::<u8>(), 32))
            .prop_map(|(source, xml, support)| {
                let support = if xml.is_some() { support } else { Vec::new() };
                Box::new(Topology { source, xml, support })
            });
        DEVTYPE Devtype any::<u64>();
        LOCTYPE Loctype any::<u16>();
        COMPRESSED_BYTE_OBJECT CompressedByteObject bytes();
        PROC_NSPACE ProcNspace nspace();
        PROC_STATS ProcStats proc_stats().prop_map(Box::new);
        DISK_STATS DiskStats disk_stats().prop_map(Box::new);
        NET_STATS NetStats net_stats().prop_map(Box::new);
        NODE_STATS NodeStats node_stats().prop_map(Box::new);
        DATA_BUFFER DataBuffer bytes();
        STOR_MEDIUM StorMedium any::<u64>();
        STOR_ACCESS StorAccess any::<u64>();
        STOR_PERSIST StorPersist any::<u64>();
        STOR_ACCESS_TYPE StorAccessType any::<u16>();
        DEVICE Device (string(), string(), any::<u64>())
            .prop_map(|(uuid, osname, device_type)| Box::new(Device { uuid, osname, device_type }));
        RESBLOCK_DIRECTIVE ResblockDirective small();
        RESOURCE_UNIT ResourceUnit any::<(u64, u64)>()
            .prop_map(|(device_type, count)| ResourceUnit { device_type, count });
        NODE_PID NodePid (string(), any::<u32>(), any::<i32>())
            .prop_map(|(hostname, nodeid, pid)| NodePid { hostname, nodeid, pid });
        REGEX2 Regex2 (string(), bytes()).prop_map(|(method, bytes)| Box::new(Regex2 { method, bytes }));
        ALLOC_INHERIT AllocInherit small();
    };
    leaves.push((DataType::UNDEF, Just(Value::Undef).boxed()));
    leaves
}

fn timeval() -> impl Strategy<Value = Timeval> {
    any::<(i64, i64)>().prop_map(|(sec, usec)| Timeval { sec, usec })
}

fn real() -> impl Strategy<Value = Real> {
    any::<u32>().prop_map(|bits| Real(f32::from_bits(bits)))
}

fn coord() -> impl Strategy<Value = Coord> {
    (any::<u8>(), vec(any::<u32>(), 0..MANY)).prop_map(|(view, coord)| Coord { view, coord })
}

fn proc_info() -> impl Strategy<Value = ProcInfo> {
    (proc(), option::of(text()), option::of(text()), any::<(i32, i32, u8)>()).prop_map(
        |(proc, hostname, executable, (pid, exit_code, state))| ProcInfo {
            proc,
            hostname,
            executable,
            pid,
            exit_code,
            state,
        },
    )
}

fn proc_stats() -> impl Strategy<Value = ProcStats> {
    let who = (option::of(text()), proc(), option::of(text()));
    (who, any::<(i32, u8, i32, u16, u16)>(), [timeval(), timeval()], [real(), real(), real(), real(), real()]).prop_map(
        |((node, proc, cmd), (pid, state, priority, num_threads, processor), [time, sample_time], reals)| {
            let [percent_cpu, pss, vsize, rss, peak_vsize] = reals;
            ProcStats {
                node,
                proc,
                pid,
                cmd,
                state,
                time,
                percent_cpu,
                priority,
                num_threads,
                pss,
                vsize,
                rss,
                peak_vsize,
                processor,
                sample_time,
            }
        },
    )
}

fn disk_stats() -> impl Strategy<Value = DiskStats> {
    (option::of(text()), any::<[u64; 11]>()).prop_map(|(disk, n)| DiskStats {
        disk,
        num_reads_completed: n[0],
        num_reads_merged: n[1],
        num_sectors_read: n[2],
        milliseconds_reading: n[3],
        num_writes_completed: n[4],
        num_writes_merged: n[5],
        num_sectors_written: n[6],
        milliseconds_writing: n[7],
        num_ios_in_progress: n[8],
        milliseconds_io: n[9],
        weighted_milliseconds_io: n[10],
    })
}

fn net_stats() -> impl Strategy<Value = NetStats> {
    (option::of(text()), any::<[u64; 6]>()).prop_map(|(net_interface, n)| NetStats {
        net_interface,
        num_bytes_recvd: n[0],
        num_packets_recvd: n[1],
        num_recv_errs: n[2],
        num_bytes_sent: n[3],
        num_packets_sent: n[4],
        num_send_errs: n[5],
    })
}

fn node_stats() -> impl Strategy<Value = NodeStats> {
    let lists = (vec(disk_stats(), 0..3), vec(net_stats(), 0..3));
    (option::of(text()), vec(real(), 11), timeval(), lists).prop_map(|(node, n, sample_time, (diskstats, netstats))| {
        NodeStats {
            node,
            la: n[0],
            la5: n[1],
            la15: n[2],
            total_mem: n[3],
            free_mem: n[4],
            buffers: n[5],
            cached: n[6],
            swap_cached: n[7],
            swap_total: n[8],
            swap_free: n[9],
            mapped: n[10],
            sample_time,
            diskstats,
            netstats,
        }
    })
}
