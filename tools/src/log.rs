//! Logs of ranks (`PMIx_Log`): our own output, and the system's log.
//!
//! Texts for the output are written between the lines of the ranks: as they are, or with their source, the time, or as
//! elements of XML where that is wanted. Texts for the system's log go to the
//! daemon behind [`SOCKET`] as one datagram each, with the priority of an error unless another one is asked for.
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use instanton::data::{Info, InfoList, Proc, Status, Value, keys};
use instanton::internal::message::lines::{LineFormat, Origin};
use instanton::server::{Accepted, Answer, Completion};

use crate::output::{OutputSender, Pieces, Written};

/// Socket of the system's log.
const SOCKET: &str = "/dev/log";
/// The facility of user programs, as syslog(3) numbers it, and the priority of an error.
const USER: i32 = 1 << 3;
const ERROR: i32 = 3;

/// Attributes that are served when they are required: our channels, and those that are looked at besides.
const SERVED: [&str; 14] = [
    keys::LOG_STDOUT,
    keys::LOG_STDERR,
    keys::LOG_SYSLOG,
    keys::LOG_LOCAL_SYSLOG,
    keys::LOG_GLOBAL_SYSLOG,
    keys::LOG_SYSLOG_PRI,
    keys::LOG_ONCE,
    keys::LOG_SOURCE,
    keys::LOG_TAG_OUTPUT,
    keys::LOG_TIMESTAMP_OUTPUT,
    keys::LOG_XML_OUTPUT,
    // Its library has done it.
    keys::LOG_GENERATE_TIMESTAMP,
    keys::USERID,
    keys::GRPID,
];

fn is_too_much(info: &Info) -> bool {
    info.is_unserved(&SERVED)
}

/// The priority of what goes to the system's log.
fn priority(directives: &[Info]) -> i32 {
    directives.find(keys::LOG_SYSLOG_PRI).and_then(|info| info.value.as_i32()).unwrap_or(ERROR)
}

/// Logs every item that names a channel of ours; the others are not for us. The answer comes when all is written.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` when no item does, or one is required that does not, or cannot be written; `ERR_OUT_OF_RESOURCE`
/// when our output does not take it; `ERR_BAD_PARAM` for what is no text.
pub fn log(
    outputs: &[OutputSender; 2],
    client: &Proc,
    data: Vec<Info>,
    directives: &[Info],
    done: Completion<()>,
) -> Accepted {
    let request = Written::new(done);
    match log_for(&request, outputs, client, &Arc::new(data), directives) {
        Ok(()) => Ok(Answer::Later),
        Err(status) => {
            request.forget();
            Err(status)
        }
    }
}

fn log_for(
    request: &Written,
    outputs: &[OutputSender; 2],
    client: &Proc,
    data: &Arc<Vec<Info>>,
    directives: &[Info],
) -> Result<(), Status> {
    if data.iter().chain(directives).any(is_too_much) {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let priority = priority(directives);
    let source = match directives.find(keys::LOG_SOURCE).map(|info| &info.value) {
        Some(Value::Proc(source)) => source,
        _ => client,
    };
    let once = directives.is_set(keys::LOG_ONCE);
    let mut result = Err(Status::ERR_NOT_SUPPORTED);
    for (at, item) in data.iter().enumerate() {
        let logged = match item.key.as_str().unwrap_or_default() {
            keys::LOG_STDOUT => write((request, client), &outputs[0], (source, "stdout"), (data, at), directives),
            keys::LOG_STDERR => write((request, client), &outputs[1], (source, "stderr"), (data, at), directives),
            // There is no other machine whose log could be meant.
            keys::LOG_SYSLOG | keys::LOG_LOCAL_SYSLOG | keys::LOG_GLOBAL_SYSLOG => {
                text(item).and_then(|text| to_system(client, priority, text))
            }
            _ => continue,
        };
        match logged {
            Ok(()) if once => return Ok(()),
            Ok(()) => result = Ok(()),
            Err(status) if item.is_required() => return Err(status),
            // Another channel may take what one does not.
            Err(status) if result.is_err() => result = Err(status),
            Err(_) => {}
        }
    }
    result
}

fn text(item: &Info) -> Result<&[u8], Status> {
    item.value.as_bytes().ok_or(Status::ERR_BAD_PARAM)
}

/// Has the text of one of the items written, in the form that is wanted: the thread that writes it gives it that.
fn write(
    (request, client): (&Written, &Proc),
    output: &OutputSender,
    (source, stream): (&Proc, &'static str),
    (data, at): (&Arc<Vec<Info>>, usize),
    directives: &[Info],
) -> Result<(), Status> {
    text(&data[at])?;
    let form = Form::read((source, stream), directives);
    let shown = Shown { form, source: source.clone(), stream, data: data.clone(), at, taken: 0 };
    output.log(client, shown, request.clone()).map_err(|_| Status::ERR_OUT_OF_RESOURCE)
}

/// Text of one of the items, on its way to where it is shown.
struct Shown {
    form: Form,
    source: Proc,
    stream: &'static str,
    data: Arc<Vec<Info>>,
    at: usize,
    taken: usize,
}

impl Pieces for Shown {
    fn show_next(&mut self, shown: &mut Vec<u8>) -> bool {
        let text = text(&self.data[self.at]).unwrap_or_default();
        self.taken += self.form.show((&self.source, self.stream), &text[self.taken..], shown);
        self.taken < text.len()
    }
}

/// Bytes that are shown from which on a piece ends with its line.
const PIECE: usize = 64 << 10;

/// Form in which a text is shown.
struct Form {
    format: LineFormat,
    tag: String,
}

impl Form {
    fn read((source, stream): (&Proc, &str), directives: &[Info]) -> Self {
        let format = LineFormat {
            stamps: directives.is_set(keys::LOG_TIMESTAMP_OUTPUT),
            is_xml: directives.is_set(keys::LOG_XML_OUTPUT),
        };
        let tag = match directives.is_set(keys::LOG_TAG_OUTPUT) {
            true => format!("[{},{}]<{stream}>: ", source.nspace, source.rank),
            false => String::new(),
        };
        Form { format, tag }
    }

    /// Shows the first lines of a text, a piece of it; where it is XML, a line of many pieces becomes as many elements.
    /// Returns the number of bytes that they have.
    fn show(&self, (source, stream): (&Proc, &str), text: &[u8], shown: &mut Vec<u8>) -> usize {
        let (mut taken, most) = (0, shown.len() + PIECE);
        while taken < text.len() && shown.len() < most {
            let rest = &text[taken..];
            let most = if self.format.is_xml { rest.len().min(PIECE) } else { rest.len() };
            let end = rest[..most].iter().position(|byte| *byte == b'\n').map_or(most, |at| at + 1);
            self.format.show(Origin { source, stream, tag: &self.tag }, &rest[..end], false, shown);
            taken += end;
        }
        taken
    }
}

fn to_system(client: &Proc, priority: i32, text: &[u8]) -> Result<(), Status> {
    let message = [format!("<{}>instanton: {client}: ", USER | priority & 7).as_bytes(), text].concat();
    let send = || {
        let socket = UnixDatagram::unbound()?;
        // The daemon may be slow; a message is not worth waiting for it.
        socket.set_nonblocking(true)?;
        socket.send_to(&message, SOCKET)
    };
    send().map(drop).map_err(|_| Status::ERR_NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Rank};

    #[test]
    fn what_is_required_and_not_served_is_too_much() {
        let required = |key| Info::new(key, true).required();
        assert!(is_too_much(&required(keys::LOG_EMAIL)));
        assert!(!is_too_much(&required(keys::LOG_STDERR)));
        assert!(!is_too_much(&required(keys::LOG_ONCE)));
        assert!(!is_too_much(&required(keys::LOG_GENERATE_TIMESTAMP)));
        assert!(!is_too_much(&required(keys::LOG_XML_OUTPUT)));
        assert!(!is_too_much(&Info::new(keys::LOG_EMAIL, true)));
    }

    #[test]
    fn what_is_logged_is_an_error_unless_somebody_says_otherwise() {
        assert_eq!((priority(&[]), priority(&[Info::new(keys::LOG_SYSLOG_PRI, 5)])), (3, 5));
    }

    #[test]
    fn a_long_text_is_shown_in_pieces_however_long_its_form_is() {
        let source = Proc::new(Nspace::new("job").unwrap(), Rank(3));
        let (of, directives) = ((&source, "stderr"), [Info::new(keys::LOG_XML_OUTPUT, true)]);
        for text in [vec![b'\n'; 10 * PIECE], vec![b'"'; 10 * PIECE]] {
            let (form, mut at) = (Form::read(of, &directives), 0);
            while at < text.len() {
                let mut shown = Vec::new();
                at += form.show(of, &text[at..], &mut shown);
                assert!(shown.len() < 8 * PIECE, "{} bytes", shown.len());
            }
            assert_eq!(at, text.len());
        }
    }

    #[test]
    fn a_text_is_shown_in_the_form_that_is_wanted() {
        let source = Proc::new(Nspace::new("job").unwrap(), Rank(3));
        let shown = |keys: &[&str]| {
            let directives: Vec<Info> = keys.iter().map(|key| Info::new(*key, true)).collect();
            let (mut shown, of) = (Vec::new(), (&source, "stderr"));
            assert_eq!(Form::read(of, &directives).show(of, b"a\nb<\n", &mut shown), 5);
            String::from_utf8(shown).unwrap()
        };
        assert_eq!(shown(&[]), "a\nb<\n");
        assert_eq!(shown(&[keys::LOG_TAG_OUTPUT]), "[job,3]<stderr>: a\n[job,3]<stderr>: b<\n");
        let xml = |text: &str| format!("<stderr nspace=\"job\" rank=\"3\">{text}</stderr>\n");
        assert_eq!(shown(&[keys::LOG_XML_OUTPUT]), xml("a") + &xml("b&lt;"));
        let stamped = shown(&[keys::LOG_TIMESTAMP_OUTPUT, keys::LOG_TAG_OUTPUT]);
        assert!(
            stamped.lines().all(|line| line.starts_with("20") && line.contains("Z [job,3]<stderr>: ")),
            "{stamped}"
        );
    }
}
