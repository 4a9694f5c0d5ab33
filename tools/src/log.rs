//! Logs of ranks (`PMIx_Log`): our own output, and the system's log.
//!
//! Texts for the output are written as they are, between the lines of the ranks. Texts for the system's log go to the
//! daemon behind [`SOCKET`] as one datagram each, with the priority of an error unless another one is asked for.
use std::os::unix::net::UnixDatagram;

use instanton::data::{Info, InfoList, Proc, Status, keys};

use crate::output::OutputSender;

/// Socket of the system's log.
const SOCKET: &str = "/dev/log";
/// The facility of user programs, as syslog(3) numbers it, and the priority of an error.
const USER: i32 = 1 << 3;
const ERROR: i32 = 3;

/// Attributes that are served when they are required: our channels, and those that are looked at besides.
const SERVED: [&str; 11] = [
    keys::LOG_STDOUT,
    keys::LOG_STDERR,
    keys::LOG_SYSLOG,
    keys::LOG_LOCAL_SYSLOG,
    keys::LOG_GLOBAL_SYSLOG,
    keys::LOG_SYSLOG_PRI,
    keys::LOG_ONCE,
    keys::LOG_SOURCE,
    // Its library has done it.
    keys::LOG_GENERATE_TIMESTAMP,
    keys::USERID,
    keys::GRPID,
];

fn is_too_much(info: &Info) -> bool {
    info.is_required() && !SERVED.iter().any(|key| info.key == *key)
}

/// Logs every item that names a channel of ours; the others are not for us.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` when no item does, or one is required that does not; `ERR_OUT_OF_RESOURCE` when our output does
/// not take it; `ERR_BAD_PARAM` for what is no text.
pub fn log(outputs: &[OutputSender; 2], client: &Proc, data: &[Info], directives: &[Info]) -> Result<(), Status> {
    if data.iter().chain(directives).any(is_too_much) {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let priority = directives.find(keys::LOG_SYSLOG_PRI).and_then(|info| info.value.as_i32()).unwrap_or(ERROR);
    let once = directives.is_set(keys::LOG_ONCE);
    let mut result = Err(Status::ERR_NOT_SUPPORTED);
    for item in data {
        let logged = match item.key.as_str().unwrap_or_default() {
            keys::LOG_STDOUT => write(&outputs[0], item),
            keys::LOG_STDERR => write(&outputs[1], item),
            // There is no other machine whose log could be meant.
            keys::LOG_SYSLOG | keys::LOG_LOCAL_SYSLOG | keys::LOG_GLOBAL_SYSLOG => {
                text(item).and_then(|text| to_system(client, priority, text))
            }
            _ => continue,
        };
        match logged {
            Ok(()) if once => return Ok(()),
            // Another channel may take what one does not.
            Ok(()) => result = Ok(()),
            Err(status) if result.is_err() => result = Err(status),
            Err(_) => {}
        }
    }
    result
}

fn text(item: &Info) -> Result<&[u8], Status> {
    item.value.as_bytes().ok_or(Status::ERR_BAD_PARAM)
}

fn write(output: &OutputSender, item: &Info) -> Result<(), Status> {
    output.write(text(item)?).map_err(|_| Status::ERR_OUT_OF_RESOURCE)
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

    #[test]
    fn what_is_required_and_not_served_is_too_much() {
        let required = |key| Info::new(key, true).required();
        assert!(is_too_much(&required(keys::LOG_EMAIL)));
        assert!(is_too_much(&required(keys::LOG_XML_OUTPUT)));
        assert!(!is_too_much(&required(keys::LOG_STDERR)));
        assert!(!is_too_much(&required(keys::LOG_ONCE)));
        assert!(!is_too_much(&required(keys::LOG_GENERATE_TIMESTAMP)));
        assert!(!is_too_much(&Info::new(keys::LOG_XML_OUTPUT, true)));
    }
}
