//! Use of this machine: what processes and the node take of it, and the file systems that there are, as /proc tells them.
use std::fs;

use instanton::data::{DataArray, DataType, Info, InfoList, Proc, Query, Timeval, Value, keys};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Bytes of a megabyte, the unit of the Standard's attributes.
const MEGA: f32 = 1024.0 * 1024.0;

/// The memory of processes, in megabytes: an array with the name and the memory of each. Where the query wants averages
/// (`PMIX_QUERY_REPORT_AVG`) it is that of all of them, and of this launcher; where it wants the extremes
/// (`PMIX_QUERY_REPORT_MINMAX`), the least and the most. None where none of the processes is there.
pub fn memory(processes: &[(Proc, Pid)], query: &Query) -> Option<Value> {
    let each: Vec<(&Proc, f32)> = processes.iter().filter_map(|(proc, pid)| Some((proc, resident(*pid)?))).collect();
    let sizes = || each.iter().map(|(_, size)| *size);
    let (least, most) = (sizes().reduce(f32::min)?, sizes().reduce(f32::max)?);
    let mut said = Vec::new();
    if query.qualifiers.is_set(keys::QUERY_REPORT_AVG) {
        said.push(Info::new(keys::CLIENT_AVG_MEMORY, Value::Float(sizes().sum::<f32>() / each.len() as f32)));
        said.extend(resident(Pid::this()).map(|size| Info::new(keys::DAEMON_MEMORY, Value::Float(size))));
    }
    if query.qualifiers.is_set(keys::QUERY_REPORT_MINMAX) {
        let extremes = DataArray::new(DataType::FLOAT, vec![Value::Float(least), Value::Float(most)]).ok()?;
        said.push(Info::new(keys::QUERY_REPORT_MINMAX, extremes));
    }
    if said.is_empty() {
        said = each
            .iter()
            .map(|(proc, size)| {
                let entries =
                    vec![Info::new(keys::PROCID, Proc::clone(proc)), Info::new(keys::PROC_RSS, Value::Float(*size))];
                Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(entries))
            })
            .collect();
    }
    Some(Value::DataArray(DataArray::of_info(said)))
}

/// The resident memory of a process, in megabytes.
fn resident(pid: Pid) -> Option<f32> {
    let pages: f32 = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
    Some(pages * page as f32 / MEGA)
}

/// Resources that a process takes, as attributes (`PMIX_PROC_RESOURCE_USAGE`); none where it is not there.
pub fn of_process(proc: &Proc, pid: Pid) -> Option<Vec<Info>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|ticks| *ticks > 0)?;
    let time = number(11)? + number(12)?;
    let time = Timeval { sec: time / ticks, usec: time % ticks * 1_000_000 / ticks };
    let mut infos = vec![
        Info::new(keys::PROCID, proc.clone()),
        Info::new(keys::PROC_PID, Value::Pid(pid.as_raw())),
        Info::new(keys::PROC_OS_STATE, *fields.first()?),
        Info::new(keys::PROC_TIME, Value::Timeval(time)),
        Info::new(keys::PROC_PRIORITY, Value::Int32(i32::try_from(number(15)?).ok()?)),
        Info::new(keys::PROC_NUM_THREADS, u16::try_from(number(17)?).unwrap_or(u16::MAX)),
        Info::new(keys::PROC_VSIZE, Value::Float(number(20)? as f32 / MEGA)),
    ];
    infos.extend(resident(pid).map(|size| Info::new(keys::PROC_RSS, Value::Float(size))));
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    infos
        .extend(kilobytes(&status, "VmPeak").map(|size| Info::new(keys::PROC_PEAK_VSIZE, Value::Float(size / 1024.0))));
    Some(infos)
}

/// Resources of the node that are in use, as attributes (`PMIX_NODE_RESOURCE_USAGE`).
pub fn of_node(name: &str) -> Vec<Info> {
    const MEMORY: [(&str, &str); 8] = [
        (keys::NODE_MEM_TOTAL, "MemTotal"),
        (keys::NODE_MEM_FREE, "MemFree"),
        (keys::NODE_MEM_BUFFERS, "Buffers"),
        (keys::NODE_MEM_CACHED, "Cached"),
        (keys::NODE_MEM_MAPPED, "Mapped"),
        (keys::NODE_MEM_SWAP_CACHED, "SwapCached"),
        (keys::NODE_SWAP_TOTAL, "SwapTotal"),
        (keys::NODE_MEM_SWAP_FREE, "SwapFree"),
    ];
    let mut infos = vec![Info::new(keys::HOSTNAME, name)];
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let loads = loads.split(' ').map_while(|load| load.parse::<f32>().ok());
    let averages = [keys::NODE_LOAD_AVG, keys::NODE_LOAD_AVG5, keys::NODE_LOAD_AVG15];
    infos.extend(averages.into_iter().zip(loads).map(|(key, load)| Info::new(key, Value::Float(load))));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    infos.extend(
        MEMORY
            .into_iter()
            .filter_map(|(key, name)| Some(Info::new(key, Value::Float(kilobytes(&memory, name)? / 1024.0)))),
    );
    infos
}

/// The number in a line `NAME: NUMBER kB`.
fn kilobytes(lines: &str, name: &str) -> Option<f32> {
    let line = lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The places where file systems with a device behind them are mounted.
pub fn storage() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let place = |line: &str| {
        let mut words = line.split(' ');
        let (device, place) = (words.next()?, words.next()?);
        (device.starts_with('/') && !place.contains(',')).then(|| place.to_owned())
    };
    let mut places: Vec<String> = mounts.lines().filter_map(place).collect();
    places.sort();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Rank};

    #[test]
    fn processes_and_the_node_are_measured() {
        let me = Proc::new(Nspace::new("job").unwrap(), Rank(3));
        let mine = of_process(&me, Pid::this()).unwrap();
        assert_eq!(mine.find(keys::PROC_PID).unwrap().value, Value::Pid(std::process::id() as i32));
        assert!(mine.find(keys::PROC_NUM_THREADS).unwrap().value.as_u32() > Some(0), "{mine:?}");
        let size = |infos: &[Info], key| match infos.find(key).map(|info| &info.value) {
            Some(Value::Float(size)) => *size,
            other => panic!("{key}: {other:?}"),
        };
        let [rss, vsize, peak] = [keys::PROC_RSS, keys::PROC_VSIZE, keys::PROC_PEAK_VSIZE].map(|key| size(&mine, key));
        assert!(0.0 < rss && rss < vsize && vsize <= peak, "{rss} {vsize} {peak}");
        assert!(of_process(&me, Pid::from_raw(i32::MAX)).is_none());
        let node = of_node("n");
        assert!(size(&node, keys::NODE_MEM_FREE) <= size(&node, keys::NODE_MEM_TOTAL), "{node:?}");
        assert!(size(&node, keys::NODE_LOAD_AVG15) >= 0.0);
    }

    #[test]
    fn memory_is_told_of_each_process_or_of_all_together() {
        let me = (Proc::new(Nspace::new("job").unwrap(), Rank(3)), Pid::this());
        let told = |qualifiers: &[&str]| {
            let qualifiers = qualifiers.iter().map(|key| Info::new(*key, true)).collect();
            memory(&[me.clone(), me.clone()], &Query { keys: Vec::new(), qualifiers })
        };
        let infos =
            |value: Option<Value>| -> Vec<Info> { value.unwrap().as_array().unwrap().infos().cloned().collect() };
        let each = infos(told(&[]));
        assert_eq!(each.len(), 2);
        let of_one = infos(Some(each[0].value.clone()));
        assert_eq!(of_one.find(keys::PROCID).unwrap().value, me.0.clone().into());
        let Value::Float(size) = of_one.find(keys::PROC_RSS).unwrap().value else { panic!("{of_one:?}") };
        assert!(size > 0.5, "{size} MB");
        let averages = infos(told(&[keys::QUERY_REPORT_AVG, keys::QUERY_REPORT_MINMAX]));
        let keys: Vec<&str> = averages.iter().filter_map(|info| info.key.as_str()).collect();
        assert_eq!(keys, [keys::CLIENT_AVG_MEMORY, keys::DAEMON_MEMORY, keys::QUERY_REPORT_MINMAX]);
        assert_eq!(memory(&[], &Query { keys: Vec::new(), qualifiers: Vec::new() }), None);
    }
}
