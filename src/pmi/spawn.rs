//! Spawn requests: many lines in PMI-1, one frame in PMI-2, and the same request to the host.
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::words::{Words, number};
use super::{PATH, PREPUT};
use crate::account::{Account, Charge, Kind};
use crate::data::{App, DataArray, Info, Key, Text, Value, keys};
use crate::message::Forward;

/// Most bytes of a request of many lines.
const LONGEST: usize = 1 << 20;
/// Bytes that each pair of it counts for besides its own.
const PAIR: usize = 64;

/// A pair of words that belongs to nobody else.
type Pair = (Vec<u8>, Vec<u8>);

/// An application of a frame: its program, its arguments and its number of processes.
type Part<'a> = (&'a [u8], Vec<Vec<u8>>, Option<i64>);

/// Request that is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpawn {
    #[error("a spawn of more than {LONGEST} bytes")]
    Long,
    #[error("a line of a spawn without a name")]
    Line,
    #[error("a line of a spawn with a NUL")]
    Nul,
    #[error("a spawn with an unusable {0}")]
    Field(&'static str),
    #[error("a spawn for whose lines there is no room")]
    Full,
}

/// A spawn request, and how many processes it starts.
#[derive(Debug, PartialEq)]
pub struct Spawn {
    pub request: Forward,
    pub processes: usize,
}

/// Commands of a request of PMI-1 that have come so far. Of one with a fault nothing is kept, and the fault is told when
/// its last line has come.
#[derive(Debug, Default)]
pub struct Lines {
    commands: Vec<Vec<Pair>>,
    bytes: usize,
    charge: Option<Charge>,
    fault: Option<BadSpawn>,
    is_open: bool,
    /// Number of the command that comes, and of the last one.
    so_far: i64,
    total: i64,
}

impl Lines {
    /// A command begins (`mcmd=spawn`).
    pub fn begin(&mut self) {
        (self.so_far, self.total) = (1, 1);
        self.is_open = true;
        if self.fault.is_none() {
            self.commands.push(Vec::new());
        }
    }

    /// Returns whether the lines that come belong to a command.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes in a line of a command, at the expense of an account. Returns the pairs of all commands at the end of the
    /// last one, or the first [`BadSpawn`] among them.
    pub fn take(&mut self, line: &[u8], account: &Account) -> Option<Result<Vec<Vec<Pair>>, BadSpawn>> {
        if line == b"endcmd" {
            self.is_open = false;
            if self.so_far < self.total {
                return None;
            }
            let Lines { commands, fault, .. } = std::mem::take(self);
            return Some(fault.map_or(Ok(commands), Err));
        }
        if let Err(fault) = self.keep(line, account) {
            (self.commands, self.charge) = (Vec::new(), None);
            self.fault.get_or_insert(fault);
        }
        None
    }

    fn keep(&mut self, line: &[u8], account: &Account) -> Result<(), BadSpawn> {
        if line.contains(&0) {
            return Err(BadSpawn::Nul);
        }
        let at = line.iter().position(|byte| *byte == b'=').ok_or(BadSpawn::Line)?;
        let (name, value) = (&line[..at], &line[at + 1..]);
        match name {
            b"totspawns" => self.total = number(value).unwrap_or(1),
            b"spawnssofar" => self.so_far = number(value).unwrap_or(1),
            _ => {}
        }
        if self.fault.is_some() {
            return Ok(());
        }
        self.bytes += line.len() + PAIR;
        if self.bytes > LONGEST {
            return Err(BadSpawn::Long);
        }
        let has_room = match &mut self.charge {
            Some(charge) => charge.resize(Kind::Input, self.bytes),
            None => {
                self.charge = account.charge(Kind::Input, self.bytes);
                self.charge.is_some()
            }
        };
        let command = self.commands.last_mut().filter(|_| has_room).ok_or(BadSpawn::Full)?;
        command.push((name.to_vec(), value.to_vec()));
        Ok(())
    }
}

/// Names of lines with a number behind them.
const NUMBERED: [&str; 5] = ["preput_key_", "preput_val_", "info_key_", "info_val_", "arg"];

/// Lines of a command of PMI-1 by name; of several with the same one the first. Each is looked at once: what a command
/// says that it has of them costs nothing.
#[derive(Debug, Default)]
struct Command<'a> {
    named: HashMap<&'a [u8], &'a [u8]>,
    numbered: BTreeMap<(&'static str, i64), &'a [u8]>,
}

impl<'a> Command<'a> {
    fn of(pairs: impl IntoIterator<Item = &'a Pair>) -> Self {
        let mut command = Command::default();
        for (name, value) in pairs {
            let in_list = |list: &'static str| Some((list, index(name.strip_prefix(list.as_bytes())?)?));
            match NUMBERED.into_iter().find_map(in_list) {
                Some(at) => command.numbered.entry(at).or_insert(value),
                None => command.named.entry(name).or_insert(value),
            };
        }
        command
    }

    /// The first of these lines that there is, as a number.
    fn number(&self, names: &[&str]) -> Option<i64> {
        names.iter().find_map(|name| self.named.get(name.as_bytes())).and_then(|text| number(text))
    }

    /// The lines of a name whose numbers are in a range, in order.
    fn list(&self, name: &'static str, at: Range<i64>) -> impl Iterator<Item = (i64, &'a [u8])> {
        let range = (name, at.start)..(name, at.end.max(at.start));
        self.numbered.range(range).map(|((_, at), value)| (*at, *value))
    }

    /// Keys with their values, as many as one of these lines says.
    fn pairs(&self, counts: &[&str], key: &'static str, value: &'static str) -> Vec<Pair> {
        let count = self.number(counts).unwrap_or(0);
        let with_value = |(at, key): (i64, &[u8])| Some((key.to_vec(), self.numbered.get(&(value, at))?.to_vec()));
        self.list(key, 0..count).filter_map(with_value).collect()
    }
}

/// Reads the number of a line, in the one way that it is written.
fn index(text: &[u8]) -> Option<i64> {
    let is_one = text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || !text.starts_with(b"0"));
    number(text).filter(|_| is_one)
}

/// Reads the commands of a request of PMI-1.
///
/// # Errors
/// [`BadSpawn`] names what is wrong.
pub fn of_lines(commands: &[Vec<Pair>]) -> Result<Spawn, BadSpawn> {
    let mut preput = Vec::new();
    let mut apps = Vec::new();
    for command in commands.iter().map(Command::of) {
        preput.extend(command.pairs(&["preput_num"], "preput_key_", "preput_val_"));
        let infos = command.pairs(&["info_num", "infonum"], "info_key_", "info_val_");
        let count = command.number(&["argcnt"]).unwrap_or(0);
        let arguments =
            command.list("arg", 1..count.saturating_add(1)).map(|(_, argument)| argument.to_vec()).collect();
        let program = command.named.get(&b"execname"[..]).copied();
        apps.push(app(program, arguments, command.number(&["nprocs"]), &infos)?);
    }
    spawn(apps, &preput)
}

/// Reads a request of PMI-2.
///
/// # Errors
/// [`BadSpawn`] names what is wrong.
pub fn of_words(words: &Words<'_>) -> Result<Spawn, BadSpawn> {
    let is_numbered = |name: &[u8], prefix: &str| {
        name.strip_prefix(prefix.as_bytes()).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
    };
    let (mut preput, mut infos) = (Vec::<Pair>::new(), Vec::<Pair>::new());
    let mut current: Option<Part<'_>> = None;
    let mut apps = Vec::new();
    for (name, value) in words.pairs() {
        match (name, &mut current) {
            (b"subcmd", _) => {
                if let Some((program, arguments, processes)) = current.take() {
                    apps.push(app(Some(program), arguments, processes, &std::mem::take(&mut infos))?);
                }
                current = Some((value, Vec::new(), None));
            }
            (b"maxprocs", Some((_, _, processes))) => *processes = number(value),
            (name, Some((_, arguments, _))) if is_numbered(name, "argv") => arguments.push(value.to_vec()),
            (name, Some(_)) if is_numbered(name, "infokey") => infos.push((value.to_vec(), Vec::new())),
            (name, Some(_)) if is_numbered(name, "infoval") => {
                infos.last_mut().ok_or(BadSpawn::Field("infokey"))?.1 = value.to_vec();
            }
            (name, _) if is_numbered(name, "ppkey") => preput.push((value.to_vec(), Vec::new())),
            (name, _) if is_numbered(name, "ppval") => {
                preput.last_mut().ok_or(BadSpawn::Field("ppkey"))?.1 = value.to_vec();
            }
            _ => {}
        }
    }
    if let Some((program, arguments, processes)) = current {
        apps.push(app(Some(program), arguments, processes, &infos)?);
    }
    spawn(apps, &preput)
}

/// An application. Hints that are unknown here change nothing.
fn app(
    program: Option<&[u8]>,
    arguments: Vec<Vec<u8>>,
    processes: Option<i64>,
    infos: &[Pair],
) -> Result<App, BadSpawn> {
    let text = |bytes: &[u8], what| Text::new(bytes).map_err(|_| BadSpawn::Field(what));
    let program = text(program.filter(|name| !name.is_empty()).ok_or(BadSpawn::Field("program"))?, "program")?;
    let arguments = arguments.iter().map(|argument| text(argument, "argument")).collect::<Result<Vec<_>, _>>()?;
    let maxprocs = processes.and_then(|count| i32::try_from(count).ok()).filter(|count| *count > 0);
    let mut app = App {
        cmd: Some(program.clone()),
        argv: std::iter::once(program).chain(arguments).collect(),
        env: Vec::new(),
        cwd: None,
        maxprocs: maxprocs.ok_or(BadSpawn::Field("number of processes"))?,
        info: Vec::new(),
    };
    for (name, value) in infos {
        match &name[..] {
            b"wdir" | b"wd" => app.cwd = Some(text(value, "directory")?),
            b"env" => app.env.extend(
                value.split(|byte| *byte == b'\n').map(|set| text(set, "setting")).collect::<Result<Vec<_>, _>>()?,
            ),
            b"path" => app.info.push(Info::new(PATH, Value::string(value))),
            b"host" => app.info.push(Info::new(keys::HOST, Value::string(value))),
            b"hostfile" => app.info.push(Info::new(keys::HOSTFILE, Value::string(value))),
            _ => {}
        }
    }
    Ok(app)
}

fn spawn(apps: Vec<App>, preput: &[Pair]) -> Result<Spawn, BadSpawn> {
    if apps.is_empty() {
        return Err(BadSpawn::Field("program"));
    }
    let mut given = Vec::new();
    for (key, value) in preput {
        let key = Key::new(key).map_err(|_| BadSpawn::Field("key"))?;
        given.push(Info { key, flags: 0, value: Value::string(value) });
    }
    let processes = apps.iter().map(|app| app.maxprocs as usize).sum();
    // Its presence tells the launcher what its parent speaks.
    let job_info = vec![Info::new(PREPUT, DataArray::of_info(given))];
    Ok(Spawn { request: Forward::Spawn { job_info, apps }, processes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(spawn: &Spawn) -> (Vec<String>, i32, Option<String>, usize) {
        let Forward::Spawn { job_info, apps } = &spawn.request else { panic!("{spawn:?}") };
        let argv = apps[0].argv.iter().map(ToString::to_string).collect();
        let Value::DataArray(preput) = &job_info[0].value else { panic!("{job_info:?}") };
        let preput = preput.len();
        (argv, apps[0].maxprocs, apps[0].cwd.as_ref().map(ToString::to_string), preput)
    }

    #[test]
    fn lines_become_a_request() {
        let (mut lines, account) = (Lines::default(), Account::of_job("job", 1 << 20));
        let text = "nprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\npreput_num=1\npreput_key_0=P\npreput_val_0=t=1\n\
                    argcnt=1\narg1=x y\ninfo_num=2\ninfo_key_0=wdir\ninfo_val_0=/tmp\ninfo_key_1=path\n\
                    info_val_1=/a:/b\nendcmd";
        lines.begin();
        assert!(text.lines().all(|line| lines.take(line.as_bytes(), &account).is_none()) && !lines.is_open());
        assert!(account.used() > text.len() as u64, "what has come is charged");
        lines.begin();
        let second = ["nprocs=3", "execname=b", "totspawns=2", "spawnssofar=2"];
        assert!(second.iter().all(|line| lines.take(line.as_bytes(), &account).is_none()));
        let commands = lines.take(b"endcmd", &account).unwrap().unwrap();
        let spawn = of_lines(&commands).unwrap();
        assert_eq!(spawn.processes, 5);
        let argv = vec!["./a b".to_owned(), "x y".to_owned()];
        assert_eq!(parts(&spawn), (argv, 2, Some("/tmp".to_owned()), 1));
        let Forward::Spawn { apps, .. } = &spawn.request else { panic!("{spawn:?}") };
        assert_eq!(apps[0].info, [Info::new(PATH, "/a:/b")]);
        assert_eq!((lines.commands.len(), account.used()), (0, 0), "the next one begins anew");
    }

    #[test]
    fn each_line_is_looked_at_once_whatever_a_command_says_that_it_has() {
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let mut command = ["preput_num", "info_num", "argcnt"].map(|name| pair(name, "9223372036854775807")).to_vec();
        let arguments = [("arg2", "b"), ("arg1", "a"), ("arg1", "later"), ("arg01", "c"), ("arg0", "d"), ("arg", "e")];
        command.extend(arguments.map(|(name, value)| pair(name, value)));
        command.extend(
            [("nprocs", "1"), ("execname", "x"), ("info_key_7", "wd"), ("info_val_7", "/")].map(|(n, v)| pair(n, v)),
        );
        command.extend(std::iter::repeat_n(pair("", ""), 15_500));
        let mut looks = 0;
        let read = Command::of(command.iter().inspect(|_| looks += 1));
        assert_eq!((read.named.len(), read.numbered.len()), (8, 5));
        let argv = ["x", "a", "b"].map(str::to_owned).to_vec();
        assert_eq!(parts(&of_lines(std::slice::from_ref(&command)).unwrap()), (argv, 1, Some("/".to_owned()), 0));
        assert_eq!(looks, command.len());
    }

    #[test]
    fn a_fault_is_told_behind_the_last_line_and_nothing_of_it_is_kept() {
        let long = [b"arg1=".to_vec(), vec![b'x'; 60_000]].concat();
        for (limit, line, times, expected) in [
            (u64::MAX, &b"no name"[..], 1, BadSpawn::Line),
            (u64::MAX, b"preput_val_0=\0", 1, BadSpawn::Nul),
            (u64::MAX, &long, 20, BadSpawn::Long),
            (100_000, &long, 2, BadSpawn::Full),
        ] {
            let (mut lines, account) = (Lines::default(), Account::of_job("job", limit));
            for so_far in 1..=2 {
                lines.begin();
                let number = format!("spawnssofar={so_far}");
                let ours = [&b"totspawns=2"[..], number.as_bytes()].into_iter();
                for line in ours.chain(std::iter::repeat_n(line, times)) {
                    assert!(lines.take(line, &account).is_none());
                }
                assert!(lines.is_open());
                let end = lines.take(b"endcmd", &account);
                assert_eq!(end, (so_far == 2).then(|| Err(expected.clone())), "{expected}");
                assert_eq!(account.used(), 0, "{expected}");
            }
        }
    }

    #[test]
    fn a_frame_becomes_a_request() {
        let body = b"cmd=spawn;ncmds=1;preputcount=1;ppkey0=P;ppval0=v;subcmd=a;maxprocs=2;argc=1;argv0=x;\
                     infokeycount=1;infokey0=wdir;infoval0=/tmp;";
        let spawn = of_words(&Words::of_frame(body).unwrap()).unwrap();
        assert_eq!(parts(&spawn), (vec!["a".to_owned(), "x".to_owned()], 2, Some("/tmp".to_owned()), 1));
    }

    #[test]
    fn what_starts_nothing_is_refused() {
        let of = |body: &str| of_words(&Words::of_frame(body.as_bytes()).unwrap()).map(drop);
        assert_eq!(of("cmd=spawn;ncmds=0;"), Err(BadSpawn::Field("program")));
        assert_eq!(of("cmd=spawn;subcmd=a;maxprocs=0;"), Err(BadSpawn::Field("number of processes")));
        assert_eq!(of("cmd=spawn;subcmd=a;infoval0=x;"), Err(BadSpawn::Field("infokey")));
    }
}
