//! Acknowledgement: the first message of a connection, in which a client says who it is and how it packs.
//!
//! Everything in it is bounded before it is looked at, because nobody has vouched for its sender yet.
use super::body::{Bodies, Body, DESCRIBED, PLAIN};
use crate::data::{Info, Nspace, Proc, Rank};
use crate::wire::Form;

/// Most bytes of an acknowledgement.
pub const MAX: usize = 128 << 10;
/// Most bytes of attributes in it that are read: values take more room than their bytes.
const MAX_INFO: usize = 4 << 10;

/// Most bytes of a credential that is looked at: those of munge have a few hundred.
const MAX_CREDENTIAL: usize = 4 << 10;
/// Name of the security module whose credentials a service of the machine judges.
const MUNGE: &[u8] = b"munge";

/// Flag of a client that a server has started.
const CLIENT: u8 = 0;
/// Flags of tools: without a name, with one, and with that of a process of a job.
const TOOL: u8 = 3;
const NAMED_TOOL: u8 = 4;
const TOOL_OF_JOB: u8 = 5;
/// Distance of a launcher's flag from that of any other tool.
const OF_LAUNCHER: u8 = 3;

/// The way of information in files.
const FILES: &[u8] = b"ds21";
/// The way of information in values, which all servers know.
pub const VALUES: &str = "hash";

/// Modules of the encoding whose bytes are those of `v41` for every type that both have.
const ENCODINGS: [&[u8]; 4] = [b"v41", b"v4", b"v51", b"v61"];
/// Module of the encoding in which integers have the width of their type.
const FIXED: &[u8] = b"v3";

/// Kind of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process of a job.
    Client,
    /// A process of a job that is a tool, or a launcher, as well.
    ToolOfJob,
    /// A tool, or a launcher, with a name of its own choice.
    NamedTool,
    /// A tool that is to be given a name.
    Tool,
}

impl Kind {
    /// Reads the flag of a peer.
    fn of(flag: u8) -> Option<Self> {
        match flag {
            // The second was started by itself, and knows how it is registered.
            CLIENT | 9 => Some(Kind::Client),
            TOOL | 6 => Some(Kind::Tool),
            NAMED_TOOL | 7 => Some(Kind::NamedTool),
            TOOL_OF_JOB | 8 => Some(Kind::ToolOfJob),
            _ => None,
        }
    }

    /// Returns the flag of a peer. A client is no launcher.
    fn flag(self, is_launcher: bool) -> u8 {
        let flag = match self {
            Kind::Client => return CLIENT,
            Kind::Tool => TOOL,
            Kind::NamedTool => NAMED_TOOL,
            Kind::ToolOfJob => TOOL_OF_JOB,
        };
        flag + if is_launcher { OF_LAUNCHER } else { 0 }
    }
}

/// The three numbers of a release.
pub type Release = [u32; 3];

/// An acknowledgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Ack {
    /// Its sender's kind.
    pub kind: Kind,
    /// Process that it says it is, or wants to be; of no namespace for a [`Kind::Tool`].
    pub proc: Proc,
    /// Form of its packs.
    pub form: Form,
    /// True if it reads data of its job from files.
    pub reads_files: bool,
    /// Its release; zeros where it names none.
    pub release: Release,
    /// Attributes that a tool says of itself.
    pub info: Vec<Info>,
    /// Credential of munge; none where it brings none, or one of another kind.
    pub credential: Option<Vec<u8>>,
}

/// Reason why an acknowledgement is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAck {
    /// The acknowledgement ends too early.
    #[error("it ends within its {0}")]
    Short(&'static str),
    /// A field cannot be what it says.
    #[error("it has no usable {0}")]
    Field(&'static str),
    /// A kind of peer that is not let in through this door.
    #[error("a peer of kind {0} is not let in here")]
    Kind(u8),
    /// An encoding that this side does not know.
    #[error("it packs by {0:?}, which is not known here")]
    Encoding(String),
}

/// Returns the length of the first message's body, if its header can be one.
pub fn length(header: &[u8; super::frame::HEADER]) -> Option<usize> {
    let number = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let len = u32::from_ne_bytes(number(8)) as usize;
    (number(0) == [0xff; 4] && len <= MAX).then_some(len)
}

/// Reads an acknowledgement.
///
/// # Errors
/// [`BadAck`] names the field at fault.
pub fn parse(bytes: &[u8]) -> Result<Ack, BadAck> {
    let mut fields = Fields(bytes);
    let module = fields.text("security module")?;
    let len = fields.number("credential")?;
    let credential = fields.take(len as usize, "credential")?;
    // Text with a NUL behind it.
    let credential = credential.strip_suffix(b"\0").unwrap_or(credential);
    let is_judged = module == MUNGE && credential.len() <= MAX_CREDENTIAL;
    let [flag] = fields.array("kind")?;
    let kind = Kind::of(flag).ok_or(BadAck::Kind(flag))?;
    if flag != CLIENT {
        // User and group, as which the word of the kernel, or of munge, alone counts.
        fields.take(8, "user")?;
    }
    let proc = match kind {
        Kind::Tool => Proc::new(Nspace::new("").expect("a legal name"), Rank::UNDEF),
        _ => name(&mut fields)?,
    };
    let release = release(fields.text("version")?);
    let encoding = fields.text("encoding")?;
    let encoding = match encoding {
        FIXED => Form::PlainFixed,
        other if ENCODINGS.contains(&other) => Form::Plain,
        other => return Err(BadAck::Encoding(String::from_utf8_lossy(other).escape_debug().to_string())),
    };
    let form = match fields.array("form of packs")? {
        [PLAIN] => encoding.described(false),
        [DESCRIBED] => encoding.described(true),
        _ => return Err(BadAck::Field("form of packs")),
    };
    let reads_files = fields.text("storage module")? == FILES && matches!(kind, Kind::Client);
    // Attributes follow, or a slack byte. Those of a client are not needed.
    let is_read = kind != Kind::Client && fields.0.len() <= MAX_INFO;
    let info = if is_read { Body::new(fields.0, form).infos().unwrap_or_default() } else { Vec::new() };
    Ok(Ack { kind, proc, form, reads_files, release, info, credential: is_judged.then(|| credential.to_vec()) })
}

/// The name of a process.
fn name(fields: &mut Fields<'_>) -> Result<Proc, BadAck> {
    let nspace = Nspace::new(fields.text("namespace")?).map_err(|_| BadAck::Field("namespace"))?;
    let rank = Rank(fields.number("rank")?);
    if nspace.is_empty() || !rank.is_process() {
        return Err(BadAck::Field("name"));
    }
    Ok(Proc::new(nspace, rank))
}

/// The whole first message of a client or a tool, its header included: plain packs in `v41`, and information in the way
/// that is named. Attributes that a tool says of itself are left out where the release has no place for them.
pub fn write(kind: Kind, is_launcher: bool, proc: Option<&Proc>, version: &str, way: &str, info: &[Info]) -> Vec<u8> {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut body = b"native\0".to_vec();
    // Credential of that module: user and group, in the order of the machine.
    body.extend_from_slice(&8u32.to_be_bytes());
    body.extend_from_slice(&uid.to_ne_bytes());
    body.extend_from_slice(&gid.to_ne_bytes());
    body.push(kind.flag(is_launcher));
    if kind != Kind::Client {
        body.extend_from_slice(&uid.to_be_bytes());
        body.extend_from_slice(&gid.to_be_bytes());
    }
    if let Some(proc) = proc {
        body.extend_from_slice(proc.nspace.as_bytes());
        body.push(0);
        body.extend_from_slice(&proc.rank.0.to_be_bytes());
    }
    body.extend_from_slice(version.as_bytes());
    body.extend_from_slice(b"\0v41\0");
    body.push(PLAIN);
    body.extend_from_slice(way.as_bytes());
    body.push(0);
    if kind != Kind::Client {
        let mut said = Bodies::new(Form::Plain);
        if said.infos(info).is_ok() {
            body.extend_from_slice(&said.bytes);
        }
    }
    let mut out = [[0xff; 4], [0xff; 4], (body.len() as u32).to_ne_bytes(), [0; 4]].concat();
    out.extend_from_slice(&body);
    out
}

/// Returns the numbers of a version, which may have letters behind them.
fn release(version: &[u8]) -> Release {
    let number = |digits: &[u8]| digits.iter().take(4).fold(0, |number, digit| 10 * number + u32::from(digit - b'0'));
    let mut numbers = version.split(|byte| !byte.is_ascii_digit()).map(number);
    std::array::from_fn(|_| numbers.next().unwrap_or_default())
}

/// Bytes that are taken from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], BadAck> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BadAck::Short(what))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], BadAck> {
        self.take(N, what)?.try_into().map_err(|_| BadAck::Short(what))
    }

    fn number(&mut self, what: &'static str) -> Result<u32, BadAck> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// A text, behind which is a NUL.
    fn text(&mut self, what: &'static str) -> Result<&'a [u8], BadAck> {
        let len = self.0.iter().position(|byte| *byte == 0).ok_or(BadAck::Short(what))?;
        let text = self.take(len, what)?;
        self.take(1, what)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a client of 4.2.2 sends it, with its slack byte; or a tool, without one.
    fn seen(flag: u8, form: u8) -> Vec<u8> {
        let mut bytes = b"native\0\0\0\0\x08\x01\0\0\0\x02\0\0\0".to_vec();
        bytes.push(flag);
        if flag != 0 {
            bytes.extend([0; 8]);
        }
        if Kind::of(flag) != Some(Kind::Tool) {
            bytes.extend(b"job@1\0\0\0\0\x03");
        }
        bytes.extend(b"4.2.2rc2\0v41\0");
        bytes.push(form);
        bytes.extend(b"hash\0");
        if flag == 0 {
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn every_kind_of_peer_is_read() {
        let proc = Proc::new(Nspace::new("job@1").unwrap(), Rank(3));
        let ack = |kind, form| Ack {
            kind,
            proc: proc.clone(),
            form,
            reads_files: false,
            release: [4, 2, 2],
            info: Vec::new(),
            credential: None,
        };
        assert_eq!(parse(&seen(0, 1)), Ok(ack(Kind::Client, Form::Plain)));
        assert_eq!(parse(&seen(0, 2)), Ok(ack(Kind::Client, Form::Described)));
        assert_eq!(parse(&seen(9, 1)), Ok(ack(Kind::Client, Form::Plain)));
        for (flag, kind) in [(4, Kind::NamedTool), (7, Kind::NamedTool), (5, Kind::ToolOfJob), (8, Kind::ToolOfJob)] {
            assert_eq!(parse(&seen(flag, 1)), Ok(ack(kind, Form::Plain)));
        }
        for flag in [3, 6] {
            let tool = parse(&seen(flag, 1)).unwrap();
            assert!(tool.kind == Kind::Tool && tool.proc.nspace.is_empty());
        }
        for flag in [1, 2, 10, 11] {
            assert_eq!(parse(&seen(flag, 1)), Err(BadAck::Kind(flag)));
        }
        assert_eq!(parse(&seen(0, 7)), Err(BadAck::Field("form of packs")));
        let of_3 = |form| {
            let bytes = seen(0, form);
            let at = bytes.windows(3).position(|name| name == b"v41").unwrap();
            [&bytes[..at], b"v3", &bytes[at + 3..]].concat()
        };
        assert_eq!(parse(&of_3(1)), Ok(ack(Kind::Client, Form::PlainFixed)));
        assert_eq!(parse(&of_3(2)), Ok(ack(Kind::Client, Form::DescribedFixed)));
    }

    #[test]
    fn a_credential_of_munge_alone_is_kept() {
        let with = |module: &[u8], credential: &[u8]| {
            let whole = seen(0, 1);
            let len = (credential.len() as u32).to_be_bytes();
            let rest = &whole[b"native\0".len() + 4 + 8..];
            parse(&[module, &len[..], credential, rest].concat()).unwrap().credential
        };
        let text = b"MUNGE:AwQ=:";
        assert_eq!(with(b"munge\0", text).as_deref(), Some(&text[..]));
        assert_eq!(with(b"munge\0", b"MUNGE:AwQ=:\0").as_deref(), Some(&text[..]));
        assert_eq!(with(b"munge\0", b"").as_deref(), Some(&b""[..]));
        assert_eq!(with(b"munge\0", &[b'a'; MAX_CREDENTIAL + 1]), None);
        assert_eq!((with(b"native\0", text), with(b"none\0", b"")), (None, None));
    }

    #[test]
    fn a_client_here_says_what_is_read() {
        let proc = Proc::new(Nspace::new("job@1").unwrap(), Rank(3));
        let said = vec![Info::new("x", 7u32)];
        let kinds = [Kind::Client, Kind::NamedTool, Kind::ToolOfJob, Kind::Tool];
        for (kind, is_launcher) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let named = Some(&proc).filter(|_| kind != Kind::Tool);
            let whole = write(kind, is_launcher, named, "4.2.2", VALUES, &said);
            let (header, body) = whole.split_first_chunk::<{ super::super::frame::HEADER }>().unwrap();
            assert_eq!(length(header), Some(body.len()));
            let found = parse(body).unwrap();
            assert_eq!((found.kind, found.form, found.release), (kind, Form::Plain, [4, 2, 2]));
            let flag = body[b"native\0".len() + 4 + 8];
            assert_eq!(flag >= TOOL + OF_LAUNCHER, is_launcher && kind != Kind::Client);
            assert_eq!(named.unwrap_or(&found.proc), &found.proc);
            assert_eq!(found.info.len(), usize::from(kind != Kind::Client));
        }
    }

    #[test]
    fn what_a_tool_says_of_itself_is_read_where_it_can_be() {
        let info = vec![Info::new("pmix.cmd.line", "pps")];
        let mut packed = crate::stock::body::Bodies::new(Form::Plain);
        packed.infos(&info).unwrap();
        let whole = [seen(3, 1), packed.bytes].concat();
        assert_eq!(parse(&whole).unwrap().info, info);
        assert_eq!(parse(&whole[..whole.len() - 1]).unwrap().info, []);
        assert_eq!(parse(&[whole, vec![0; MAX_INFO]].concat()).unwrap().info, []);
    }

    #[test]
    fn every_cut_is_refused() {
        for flag in [0, 3, 4] {
            let whole = seen(flag, 1);
            let end = whole.len() - usize::from(flag == 0);
            for len in 0..end {
                assert!(parse(&whole[..len]).is_err(), "{len} bytes of it");
            }
        }
    }

    #[test]
    fn a_credential_that_is_longer_than_the_message_is_refused() {
        let mut bytes = seen(0, 1);
        bytes[7..11].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(parse(&bytes), Err(BadAck::Short("credential")));
    }
}
