//! Doors: the one file of the server that knows by which protocols peers come.
//!
//! It opens the sockets, says where they are, and writes the variables that lead a process to them. Everything else in
//! the server sees a [`Door`] and nothing of what is behind it.
use mio::Registry;

use super::config::{ServerConfig, ServerError};
use super::fork_environment::{DoorVariables, EnvSink};
use super::stock_places::StockPorts;
use crate::control::address::{self, Address};
use crate::control::bind::{self, PathSocket};
use crate::control::listener::Listener;
use crate::control::rendezvous;
use crate::control::report::{self, UriFile};
use crate::data::Proc;
use crate::message::door::{Door, MakesJobFiles};
#[cfg(feature = "pmi")]
use crate::pmi::{self, listener::PmiListener};
use crate::stock;
use crate::stock::contact::Contact;
use crate::stock::folder::Kept;
use crate::stock::listener::{StockListener, Unopened};
use crate::sys::interfaces;
use crate::trace;
use crate::transport::common::Common;

pub use crate::control::rendezvous::Uri;

/// The doors of a server, open.
pub struct Doors {
    /// Doors by their numbers.
    pub doors: Vec<Box<dyn Door>>,
    /// Address for tools; none where the server accepts none.
    pub tools_uri: Option<Uri>,
    /// Text for a file that tools read, on whatever library; none where the server accepts none.
    pub report: Option<String>,
    /// Address that peers are told when they are let in.
    pub uri: Uri,
    /// Variables that lead a process to the doors.
    pub variables: Vec<Box<dyn DoorVariables>>,
    /// Maker of files with the data of jobs; none where nobody looks into such.
    pub job_files: Option<Box<dyn MakesJobFiles>>,
    /// Files that go with the server.
    pub files: Files,
}

/// Files that are removed when this is dropped.
pub struct Files {
    _path: Option<PathSocket>,
    _uri_file: Option<UriFile>,
    _contacts: Vec<Kept>,
}

/// Opens the doors of a server. The poll tokens of a door's sockets are those from `tokens(door)` on.
///
/// # Errors
/// When the system refuses a socket or the file for the address.
pub fn open(
    config: &ServerConfig,
    uid: u32,
    registry: &Registry,
    tokens: impl Fn(u8) -> usize,
) -> Result<Doors, ServerError> {
    let failed = |what| move |source| ServerError::System { what, source };
    let server = Proc::new(config.nspace.clone(), config.rank);

    let (socket, abstract_name) = bind::bind_abstract(bind::FOR_JOBS).map_err(failed("open a socket"))?;
    let mut sockets = vec![socket];
    let path = match config.path_socket {
        true => {
            let (socket, path) = bind::bind_path(&config.tmpdir).map_err(failed("open a path socket"))?;
            sockets.push(socket);
            Some(path)
        }
        false => None,
    };
    let tools_uri = match config.tools {
        Some(support) => {
            let pid = support.pid.unwrap_or(std::process::id() as i32);
            let prefix = rendezvous::prefix(pid, support.is_system, &server);
            let (socket, name) = bind::bind_abstract(&prefix).map_err(failed("open a socket for tools"))?;
            sockets.push(socket);
            Some(Uri { server: server.clone(), name })
        }
        None => None,
    };

    let cloned = || registry.try_clone().map_err(failed("poll"));
    let common = Common::default();
    let listener = Listener::new(0, cloned()?, tokens(0), sockets, &common).map_err(failed("poll a socket"))?;
    let mut doors: Vec<Box<dyn Door>> = vec![Box::new(listener)];
    let mut variables: Vec<Box<dyn DoorVariables>> = Vec::new();
    let (mut stock_uri, mut stock_tools_uri, mut contacts) = (String::new(), String::new(), Vec::new());
    let mut job_files: Option<Box<dyn MakesJobFiles>> = None;
    if config.stock_clients && config.stock_ports != (StockPorts { ipv4: None, ipv6: None }) {
        let mut places = config.stock_ports.of_loopback();
        if let Some(wanted) = &config.stock_remote {
            let found = interfaces::all().map_err(failed("list the interfaces of this machine"))?;
            let far = wanted.places(&found, config.stock_ports)?;
            if far.is_empty() {
                trace!("no interface but loopback has a port: stock clients of other machines find no server here");
            }
            places.extend(far);
        }
        match StockListener::open(1, cloned()?, tokens(1), &places, &common) {
            Ok(door) => {
                let addresses = door.addresses().map_err(failed("tell the ports for stock clients"))?;
                // Where there are several, all processes are sent to the first, and tools to where all of them get.
                let reached = addresses.iter().find(|address| !address.ip().is_loopback()).or(addresses.first());
                let told = |address: Option<&_>| address.map_or_else(String::new, |at| stock::uri(&server, *at));
                (stock_uri, stock_tools_uri) = (told(addresses.first()), told(reached));
                doors.push(Box::new(door));
                contacts = stock_contacts(config, &server, &stock_tools_uri);
                job_files = stock::dstore::maker(&config.tmpdir, config.own_tmpdir);
                variables.push(Box::new(StockVariables { uri: stock_uri.clone() }));
            }
            Err(Unopened { place, source }) if place.port() != 0 || !place.ip().is_loopback() => {
                return Err(ServerError::Port { place, source });
            }
            // A network namespace may have no loopback interface: native clients need none.
            Err(e) => trace!("stock clients find no server here: {e}"),
        }
    }
    let report = tools_uri.as_ref().map(|uri| report::text(uri, &stock::contact::lines(&stock_tools_uri)));
    let uri_file = config.uri_file.as_ref().zip(report.as_ref()).map(|(file, text)| UriFile::write(file, text));
    let uri_file = uri_file.transpose().map_err(failed("write the address for tools"))?;
    #[cfg(feature = "pmi")]
    if config.pmi {
        let (socket, name) = bind::bind_abstract(bind::FOR_JOBS).map_err(failed("open a socket for PMI"))?;
        let number = doors.len() as u8;
        let opened = PmiListener::new(number, cloned()?, tokens(number), socket, uid, &common);
        doors.push(Box::new(opened.map_err(failed("poll a socket for PMI"))?));
        variables.push(Box::new(PmiVariables { name }));
    }
    let path_name = path.as_ref().and_then(|socket| socket.path.to_str().map(str::to_owned));
    variables.push(Box::new(NativeVariables { uid, abstract_name: abstract_name.clone(), path: path_name, stock_uri }));
    Ok(Doors {
        doors,
        uri: tools_uri.clone().unwrap_or_else(|| Uri { server, name: abstract_name.clone() }),
        tools_uri,
        report,
        variables,
        job_files,
        files: Files { _path: path, _uri_file: uri_file, _contacts: contacts },
    })
}

/// Writes the files by which tools on a stock library find a server that accepts tools.
fn stock_contacts(config: &ServerConfig, server: &Proc, uri: &str) -> Vec<Kept> {
    let Some(support) = config.tools.filter(|support| !support.without_files) else { return Vec::new() };
    let pid = support.pid.unwrap_or(std::process::id() as i32);
    let contact = Contact { server, uri, pid, is_public: support.allows_foreign };
    let of_system = support.is_system.then(|| contact.write_for_system(&config.system_tmpdir));
    let written = [Some(contact.write(&config.tmpdir)), of_system].into_iter().flatten();
    // Native tools need none.
    written
        .filter_map(|file| file.inspect_err(|e| trace!("stock tools find no file of this server: {e}")).ok())
        .collect()
}

/// Variables of the native door.
struct NativeVariables {
    uid: u32,
    abstract_name: String,
    path: Option<String>,
    stock_uri: String,
}

impl DoorVariables for NativeVariables {
    fn set(&self, proc: &Proc, token: &[u8; 32], env: &mut dyn EnvSink) {
        let address = Address {
            proc: proc.clone(),
            uid: self.uid,
            abstract_name: self.abstract_name.clone(),
            path: self.path.clone(),
            token: *token,
            stock_uri: self.stock_uri.clone(),
        };
        env.set(address::VARIABLE, address.to_string().as_bytes());
    }
}

/// Variables of the stock door.
struct StockVariables {
    uri: String,
}

impl DoorVariables for StockVariables {
    fn set(&self, _: &Proc, _: &[u8; 32], env: &mut dyn EnvSink) {
        stock::URI_VARIABLES.iter().for_each(|name| env.set(name, self.uri.as_bytes()));
        // The kernel's word on the other end of the socket counts, and nothing that a client can say.
        env.set("PMIX_SECURITY_MODE", b"native");
        env.set("PMIX_GDS_MODULE", b"hash");
        env.set("PMIX_BFROP_BUFFER_TYPE", b"PMIX_BFROP_BUFFER_NON_DESC");
    }
}

/// Variables of the PMI door.
#[cfg(feature = "pmi")]
struct PmiVariables {
    name: String,
}

#[cfg(feature = "pmi")]
impl DoorVariables for PmiVariables {
    fn set(&self, _: &Proc, _: &[u8; 32], env: &mut dyn EnvSink) {
        env.set(pmi::VARIABLE, self.name.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;
    use crate::data::{Nspace, Rank};
    use crate::server::config::ToolSupport;

    #[test]
    fn each_file_of_a_server_lies_in_the_directory_for_it() {
        let [tmpdir, system_tmpdir] = ["session", "system"].map(|name| {
            let directory = std::env::temp_dir().join(format!("instanton-doors-{}-{name}", std::process::id()));
            std::fs::create_dir(&directory).unwrap();
            directory
        });
        let tools = Some(ToolSupport { is_system: true, ..ToolSupport::default() });
        let config = ServerConfig { tmpdir, system_tmpdir, tools, ..ServerConfig::default() };
        let server = Proc::new(Nspace::new("server").unwrap(), Rank(0));
        let files = stock_contacts(&config, &server, "uri");
        let names = [&config.tmpdir, &config.system_tmpdir].map(|directory| {
            let files = std::fs::read_dir(directory).unwrap();
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        });
        assert!(!names[0].is_empty() && names[0].iter().all(|name| !name.contains(".sys.")), "{names:?}");
        assert!(!names[1].is_empty() && names[1].iter().all(|name| name.contains(".sys.")), "{names:?}");
        drop(files);
        let hidden = Some(ToolSupport { without_files: true, ..ToolSupport::default() });
        assert!(stock_contacts(&ServerConfig { tools: hidden, ..config.clone() }, &server, "uri").is_empty());
        [&config.tmpdir, &config.system_tmpdir].iter().for_each(|directory| std::fs::remove_dir(directory).unwrap());
    }

    #[test]
    fn the_native_variable_leads_its_process_here() {
        let door = NativeVariables {
            uid: 7,
            abstract_name: "instanton-x".into(),
            path: Some("/tmp/s".into()),
            stock_uri: "x.0;tcp4://127.0.0.1:1".into(),
        };
        let proc = Proc::new(Nspace::new("job@1").unwrap(), Rank(3));
        let mut env = BTreeMap::<OsString, OsString>::new();
        door.set(&proc, &[5; 32], &mut env);
        let address: Address = env[&OsString::from("INSTANTON_SERVER")].to_str().unwrap().parse().unwrap();
        let expected = Address {
            proc,
            uid: 7,
            abstract_name: "instanton-x".into(),
            path: Some("/tmp/s".into()),
            token: [5; 32],
            stock_uri: "x.0;tcp4://127.0.0.1:1".into(),
        };
        assert_eq!(address, expected);
    }
}
