//! Spawn requests: many lines in PMI-1, one frame in PMI-2, and the same request to the host.
use super::PREPUT;
use super::words::{Words, number};
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
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpawn {
    #[error("a spawn of more than {LONGEST} bytes")]
    Long,
    #[error("a line of a spawn without a name")]
    Line,
    #[error("a spawn with an unusable {0}")]
    Field(&'static str),
}

/// A spawn request, and how many processes it starts.
#[derive(Debug, PartialEq)]
pub struct Spawn {
    pub request: Forward,
    pub processes: usize,
}

/// Commands of a request of PMI-1 that have come so far.
#[derive(Debug, Default)]
pub struct Lines {
    commands: Vec<Vec<Pair>>,
    bytes: usize,
    is_open: bool,
}

impl Lines {
    /// A command begins (`mcmd=spawn`).
    pub fn begin(&mut self) {
        self.commands.push(Vec::new());
        self.is_open = true;
    }

    /// Returns whether the lines that come belong to a command.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes in a line of a command. Returns the pairs of all commands at the end of the last one.
    ///
    /// # Errors
    /// [`BadSpawn`] for what is no line, or too many.
    pub fn take(&mut self, line: &[u8]) -> Result<Option<Vec<Vec<Pair>>>, BadSpawn> {
        let command = self.commands.last_mut().ok_or(BadSpawn::Line)?;
        if line != b"endcmd" {
            self.bytes += line.len() + PAIR;
            if self.bytes > LONGEST {
                return Err(BadSpawn::Long);
            }
            let at = line.iter().position(|byte| *byte == b'=').ok_or(BadSpawn::Line)?;
            command.push((line[..at].to_vec(), line[at + 1..].to_vec()));
            return Ok(None);
        }
        self.is_open = false;
        let number = |name| find(command, name).and_then(number);
        let (total, so_far) = (number("totspawns").unwrap_or(1), number("spawnssofar").unwrap_or(1));
        Ok((so_far >= total).then(|| std::mem::take(self).commands))
    }
}

/// Reads the commands of a request of PMI-1.
///
/// # Errors
/// [`BadSpawn`] names what is wrong.
pub fn of_lines(commands: &[Vec<Pair>]) -> Result<Spawn, BadSpawn> {
    let list = |command: &[Pair], count: [&str; 2], key: &str, value: &str| {
        let count = count.into_iter().find_map(|name| find(command, name)).and_then(number).unwrap_or(0);
        let of = |prefix: &str, at: i64| find(command, &format!("{prefix}{at}")).map(<[u8]>::to_vec);
        (0..count.min(command.len() as i64))
            .filter_map(|at| Some((of(key, at)?, of(value, at)?)))
            .collect::<Vec<Pair>>()
    };
    let mut preput = Vec::new();
    let mut apps = Vec::new();
    for command in commands {
        preput.extend(list(command, ["preput_num"; 2], "preput_key_", "preput_val_"));
        let infos = list(command, ["info_num", "infonum"], "info_key_", "info_val_");
        let count = find(command, "argcnt").and_then(number).unwrap_or(0).min(command.len() as i64);
        let arguments = (1..=count).filter_map(|at| find(command, &format!("arg{at}"))).map(<[u8]>::to_vec).collect();
        let processes = find(command, "nprocs").and_then(number);
        apps.push(app(find(command, "execname"), arguments, processes, &infos)?);
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

fn find<'a>(pairs: &'a [Pair], name: &str) -> Option<&'a [u8]> {
    pairs.iter().find(|(known, _)| known == name.as_bytes()).map(|(_, value)| value.as_slice())
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
        let mut lines = Lines::default();
        let text = "nprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\npreput_num=1\npreput_key_0=P\npreput_val_0=t=1\n\
                    argcnt=1\narg1=x y\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd";
        lines.begin();
        assert!(text.lines().all(|line| lines.take(line.as_bytes()).unwrap().is_none()) && !lines.is_open());
        lines.begin();
        let second = ["nprocs=3", "execname=b", "totspawns=2", "spawnssofar=2"];
        assert!(second.iter().all(|line| lines.take(line.as_bytes()).unwrap().is_none()));
        let commands = lines.take(b"endcmd").unwrap().unwrap();
        let spawn = of_lines(&commands).unwrap();
        assert_eq!(spawn.processes, 5);
        let argv = vec!["./a b".to_owned(), "x y".to_owned()];
        assert_eq!(parts(&spawn), (argv, 2, Some("/tmp".to_owned()), 1));
        assert_eq!(lines.commands.len(), 0, "the next one begins anew");
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
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"nprocs=1"), Err(BadSpawn::Line));
        lines.begin();
        let long = [b"arg1=".to_vec(), vec![b'x'; LONGEST]].concat();
        assert_eq!((lines.take(b"none"), lines.take(&long)), (Err(BadSpawn::Line), Err(BadSpawn::Long)));
    }
}
