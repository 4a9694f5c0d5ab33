//! Attributes that are supported, level by level: the answers of `PMIX_QUERY_ATTRIBUTE_SUPPORT`.
//!
//! The library's own levels (client, server, tool) are the tables below. The host's level is what the program that
//! embeds a server has registered, by the names of its module's functions; it is told under the names of the
//! functions that users call.
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::collect_small::collect_small;
use crate::control::rendezvous;
use crate::data::{DataArray, DataType, Info, InfoList, Key, RegAttr, Status, Text, Value, keys};

/// A function, and the names of its attributes.
type Table = &'static [(&'static str, &'static str)];

const CLIENT: Table = &[
    (
        "PMIx_Init",
        "PMIX_TIMEOUT PMIX_PROGRAMMING_MODEL PMIX_MODEL_LIBRARY_NAME PMIX_MODEL_LIBRARY_VERSION PMIX_THREADING_MODEL",
    ),
    ("PMIx_Finalize", "PMIX_EMBED_BARRIER PMIX_TIMEOUT"),
    ("PMIx_Get", GET),
    ("PMIx_Get_nb", GET),
    ("PMIx_Query_info", QUERY),
    ("PMIx_Query_info_nb", QUERY),
    (
        "PMIx_Register_event_handler",
        "PMIX_EVENT_HDLR_NAME PMIX_EVENT_HDLR_FIRST PMIX_EVENT_HDLR_LAST PMIX_EVENT_HDLR_FIRST_IN_CATEGORY \
         PMIX_EVENT_HDLR_LAST_IN_CATEGORY PMIX_EVENT_HDLR_BEFORE PMIX_EVENT_HDLR_AFTER PMIX_EVENT_HDLR_PREPEND \
         PMIX_EVENT_HDLR_APPEND PMIX_EVENT_CUSTOM_RANGE PMIX_RANGE PMIX_EVENT_AFFECTED_PROC PMIX_EVENT_AFFECTED_PROCS \
         PMIX_EVENT_RETURN_OBJECT PMIX_EVENT_ONESHOT",
    ),
    ("PMIx_Notify_event", NOTIFY),
    ("PMIx_IOF_pull", "PMIX_IOF_TAG_OUTPUT PMIX_IOF_TAG_FULLNAME_OUTPUT PMIX_IOF_TIMESTAMP_OUTPUT PMIX_IOF_XML_OUTPUT"),
    ("PMIx_IOF_push", "PMIX_IOF_PUSH_STDIN PMIX_IOF_COMPLETE"),
];

const SERVER: Table = &[
    ("PMIx_Fence", FENCE),
    ("PMIx_Fence_nb", FENCE),
    ("PMIx_Get", GET),
    ("PMIx_Get_nb", GET),
    ("PMIx_Connect", "PMIX_TIMEOUT"),
    ("PMIx_Disconnect", "PMIX_TIMEOUT"),
    ("PMIx_Job_control", CLEANUP),
    ("PMIx_Job_control_nb", CLEANUP),
    ("PMIx_Process_monitor", MONITOR),
    ("PMIx_Process_monitor_nb", MONITOR),
    ("PMIx_Notify_event", NOTIFY),
    ("PMIx_Query_info", QUERY),
    ("PMIx_Query_info_nb", QUERY),
    ("PMIx_Group_construct", CONSTRUCT),
    ("PMIx_Group_construct_nb", CONSTRUCT),
    ("PMIx_Group_destruct", "PMIX_TIMEOUT"),
    ("PMIx_Group_destruct_nb", "PMIX_TIMEOUT"),
    ("PMIx_Group_invite", INVITE),
    ("PMIx_Group_invite_nb", INVITE),
    ("PMIx_Group_join", "PMIX_TIMEOUT"),
    ("PMIx_Group_join_nb", "PMIX_TIMEOUT"),
    (
        "PMIx_IOF_pull",
        "PMIX_IOF_CACHE_SIZE PMIX_IOF_DROP_OLDEST PMIX_IOF_DROP_NEWEST PMIX_IOF_BUFFERING_SIZE PMIX_IOF_BUFFERING_TIME",
    ),
    (
        "PMIx_server_setup_application",
        "PMIX_SETUP_APP_ENVARS PMIX_SETUP_APP_ALL PMIX_PERSONALITY PMIX_MODEL_LIBRARY_NAME",
    ),
    (
        "PMIx_server_init",
        "PMIX_SERVER_NSPACE PMIX_SERVER_RANK PMIX_HOSTNAME PMIX_SERVER_TMPDIR PMIX_SYSTEM_TMPDIR PMIX_SERVER_TOOL_SUPPORT \
         PMIX_SERVER_SESSION_SUPPORT PMIX_SERVER_SYSTEM_SUPPORT PMIX_SERVER_ALLOW_FOREIGN_TOOLS \
         PMIX_LAUNCHER_RENDEZVOUS_FILE PMIX_TCP_REPORT_URI PMIX_TCP_IPV4_PORT PMIX_TCP_IPV6_PORT PMIX_TCP_DISABLE_IPV4 \
         PMIX_TCP_DISABLE_IPV6 PMIX_SERVER_REMOTE_CONNECTIONS PMIX_TCP_IF_INCLUDE PMIX_TCP_IF_EXCLUDE \
         PMIX_SERVER_GATEWAY PMIX_SERVER_ENABLE_MONITORING PMIX_LAUNCHER PMIX_IOF_LOCAL_OUTPUT",
    ),
];

const TOOL: Table = &[
    ("PMIx_tool_init", TOOL_INIT),
    ("PMIx_tool_attach_to_server", TOOL_INIT),
    ("PMIx_tool_set_server", "PMIX_WAIT_FOR_CONNECTION PMIX_TIMEOUT"),
];

const GET: &str = "PMIX_OPTIONAL PMIX_IMMEDIATE PMIX_GET_REFRESH_CACHE PMIX_GET_POINTER_VALUES PMIX_GET_STATIC_VALUES \
                   PMIX_TIMEOUT PMIX_DATA_SCOPE PMIX_SESSION_INFO PMIX_JOB_INFO PMIX_APP_INFO PMIX_NODE_INFO PMIX_SESSION_ID \
                   PMIX_APPNUM PMIX_NODEID PMIX_HOSTNAME PMIX_NSPACE PMIX_JOBID PMIX_GROUP_CONTEXT_ID";
const FENCE: &str = "PMIX_COLLECT_DATA PMIX_COLLECT_GENERATED_JOB_INFO PMIX_TIMEOUT";
const CONSTRUCT: &str = "PMIX_GROUP_ASSIGN_CONTEXT_ID PMIX_GROUP_BOOTSTRAP PMIX_GROUP_ADD_MEMBERS PMIX_GROUP_LEADER \
                         PMIX_GROUP_OPTIONAL PMIX_GROUP_LOCAL_ONLY PMIX_GROUP_FT_COLLECTIVE PMIX_GROUP_NOTIFY_TERMINATION \
                         PMIX_GROUP_INFO PMIX_GROUP_ENDPT_DATA PMIX_GROUP_FINAL_MEMBERSHIP_ORDER PMIX_TIMEOUT";
const INVITE: &str = "PMIX_GROUP_ASSIGN_CONTEXT_ID PMIX_GROUP_OPTIONAL PMIX_GROUP_NOTIFY_TERMINATION PMIX_TIMEOUT";
const NOTIFY: &str = "PMIX_EVENT_CUSTOM_RANGE PMIX_EVENT_NON_DEFAULT";
const CLEANUP: &str = "PMIX_REGISTER_CLEANUP PMIX_REGISTER_CLEANUP_DIR PMIX_CLEANUP_RECURSIVE PMIX_CLEANUP_EMPTY \
                       PMIX_CLEANUP_IGNORE PMIX_CLEANUP_LEAVE_TOPDIR";
const MONITOR: &str = "PMIX_MONITOR_ID PMIX_MONITOR_CANCEL PMIX_MONITOR_HEARTBEAT PMIX_SEND_HEARTBEAT PMIX_MONITOR_HEARTBEAT_TIME \
                       PMIX_MONITOR_HEARTBEAT_DROPS PMIX_MONITOR_FILE PMIX_MONITOR_FILE_SIZE PMIX_MONITOR_FILE_ACCESS \
                       PMIX_MONITOR_FILE_MODIFY PMIX_MONITOR_FILE_CHECK_TIME PMIX_MONITOR_FILE_DROPS PMIX_RANGE \
                       PMIX_EVENT_CUSTOM_RANGE";
const QUERY: &str = "PMIX_QUERY_STABLE_ABI_VERSION PMIX_QUERY_PROVISIONAL_ABI_VERSION PMIX_QUERY_ATTRIBUTE_SUPPORT \
                     PMIX_QUERY_AVAIL_SERVERS PMIX_QUERY_NAMESPACES PMIX_QUERY_LOCAL_PROC_TABLE PMIX_QUERY_NUM_PSETS PMIX_QUERY_PSET_NAMES \
                     PMIX_QUERY_PSET_MEMBERSHIP PMIX_QUERY_NUM_GROUPS PMIX_QUERY_GROUP_NAMES PMIX_QUERY_GROUP_MEMBERSHIP \
                     PMIX_PROCID PMIX_NSPACE PMIX_JOBID PMIX_RANK PMIX_SESSION_INFO PMIX_JOB_INFO PMIX_APP_INFO PMIX_NODE_INFO \
                     PMIX_SESSION_ID PMIX_APPNUM PMIX_NODEID PMIX_HOSTNAME PMIX_QUERY_SUPPORTED_KEYS \
                     PMIX_QUERY_SUPPORTED_QUALIFIERS";
const TOOL_INIT: &str = "PMIX_TOOL_NSPACE PMIX_TOOL_RANK PMIX_TOOL_DO_NOT_CONNECT PMIX_TOOL_CONNECT_OPTIONAL PMIX_TOOL_ATTACHMENT_FILE \
     PMIX_SERVER_URI PMIX_SERVER_PIDINFO PMIX_SERVER_NSPACE PMIX_CONNECT_TO_SYSTEM PMIX_CONNECT_SYSTEM_FIRST \
     PMIX_CONNECT_MAX_RETRIES PMIX_CONNECT_RETRY_DELAY PMIX_PRIMARY_SERVER PMIX_TCP_URI PMIX_SERVER_TMPDIR \
     PMIX_SYSTEM_TMPDIR PMIX_LAUNCHER PMIX_LAUNCHER_RENDEZVOUS_FILE PMIX_TIMEOUT";

/// Functions of a user that functions of the server module serve, where those are not `PMIx_` and their name.
const SERVED: [(&str, &str); 17] = [
    ("client_connected", "PMIx_Init"),
    ("client_connected2", "PMIx_Init"),
    ("client_finalized", "PMIx_Finalize"),
    ("fence_nb", "PMIx_Fence"),
    ("direct_modex", "PMIx_Get"),
    ("register_events", "PMIx_Register_event_handler"),
    ("deregister_events", "PMIx_Deregister_event_handler"),
    ("query", "PMIx_Query_info"),
    ("tool_connected", "PMIx_tool_init"),
    ("tool_connected2", "PMIx_tool_init"),
    ("log2", "PMIx_Log"),
    ("group", "PMIx_Group_construct"),
    ("fabric", "PMIx_Fabric_register"),
    ("allocate", "PMIx_Allocation_request"),
    ("monitor", "PMIx_Process_monitor"),
    ("iof_pull", "PMIx_IOF_pull"),
    ("push_stdin", "PMIx_IOF_push"),
];

/// The name of the function that users call; others than the module's are their own.
fn served(function: &str) -> String {
    if let Some((_, user)) = SERVED.iter().find(|(module, _)| *module == function) {
        return (*user).to_owned();
    }
    let mut letters = function.chars();
    match letters.next().filter(char::is_ascii_lowercase) {
        Some(first) => format!("PMIx_{}{}", first.to_ascii_uppercase(), letters.as_str()),
        None => function.to_owned(),
    }
}

/// The function whose attributes are those of another one: its blocking form, and the first of several that one function
/// of the module serves.
fn like(function: &str) -> Option<&str> {
    match function {
        "PMIx_Group_destruct" => Some("PMIx_Group_construct"),
        "PMIx_Fabric_update" | "PMIx_Fabric_deregister" => Some("PMIx_Fabric_register"),
        _ => function.strip_suffix("_nb"),
    }
}

/// Attributes that the host supports, by function, as it has registered them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostSupport(BTreeMap<String, Vec<String>>);

impl HostSupport {
    /// Takes in the attributes of one function of the host's module.
    ///
    /// # Errors
    /// `ERR_REPEAT_ATTR_REGISTRATION` for one that has been registered.
    pub(crate) fn register(&mut self, function: &str, attributes: &[String]) -> Result<(), Status> {
        let function = served(function);
        if function.is_empty() || self.0.contains_key(&function) {
            return Err(if function.is_empty() { Status::ERR_BAD_PARAM } else { Status::ERR_REPEAT_ATTR_REGISTRATION });
        }
        self.0.insert(function, attributes.to_vec());
        Ok(())
    }
}

/// Version of the Standard's stable binary interface that the C library keeps to.
pub const STABLE_ABI: &str = "1.0";
/// Version of its provisional one: none is kept to.
pub const PROVISIONAL_ABI: &str = "0.0";

/// The answer to a key of a query that asks for that version, which everybody knows.
pub(crate) fn abi_version(key: &Text) -> Option<Info> {
    let known = [(keys::QUERY_STABLE_ABI_VERSION, STABLE_ABI), (keys::QUERY_PROVISIONAL_ABI_VERSION, PROVISIONAL_ABI)];
    let (key, version) = known.into_iter().find(|(known, _)| known.as_bytes() == key.as_bytes())?;
    Some(Info::new(key, version))
}

/// The answers to a key of a query that asks for servers on this node, which everybody can look for.
pub(crate) fn available_servers(key: &Text) -> Option<Vec<Info>> {
    (key.as_bytes() == keys::QUERY_AVAIL_SERVERS.as_bytes()).then(rendezvous::available)
}

/// Returns whether a query's key asks for supported attributes.
pub(crate) fn is_asked_by(key: &Text) -> bool {
    key.as_bytes() == keys::QUERY_ATTRIBUTE_SUPPORT.as_bytes()
}

/// Returns whether attributes of the host's level are asked for, too.
pub(crate) fn asks_for_host(qualifiers: &[Info]) -> bool {
    [keys::HOST_FUNCTIONS, keys::HOST_ATTRIBUTES].iter().any(|key| qualifiers.find(key).is_some())
}

/// Qualifiers of a query for supported attributes: the functions of each level, and the attributes of some.
pub(crate) const LEVELS: [&str; 8] = [
    keys::CLIENT_FUNCTIONS,
    keys::CLIENT_ATTRIBUTES,
    keys::SERVER_FUNCTIONS,
    keys::SERVER_ATTRIBUTES,
    keys::TOOL_FUNCTIONS,
    keys::TOOL_ATTRIBUTES,
    keys::HOST_FUNCTIONS,
    keys::HOST_ATTRIBUTES,
];

/// Keys of the attributes of queries: the library's own, and those that the host has registered.
pub(crate) fn of_queries(host: &HostSupport) -> impl Iterator<Item = &str> {
    let registered = host.0.get("PMIx_Query_info").into_iter().flatten().map(String::as_str);
    QUERY.split_ascii_whitespace().chain(registered).filter_map(|name| keys::key_of(name)?.to_str().ok())
}

/// The answers to such a query: for each level that its qualifiers name, the functions as one text, or of the functions
/// that the qualifier names (all of them for a truth, or `all`) an array with the attributes of each.
pub(crate) fn answers(qualifiers: &[Info], host: &HostSupport) -> Vec<Info> {
    let of = |table: Table| -> BTreeMap<String, Vec<String>> {
        let words = |(function, names): &(&str, &str)| {
            ((*function).to_owned(), names.split_ascii_whitespace().map(str::to_owned).collect())
        };
        collect_small(table.iter().map(words))
    };
    let (client, server, tool) =
        (LazyCell::new(|| of(CLIENT)), LazyCell::new(|| of(SERVER)), LazyCell::new(|| of(TOOL)));
    // A question that is asked again gets no second answer.
    let mut seen = BTreeSet::new();
    let answer = |qualifier: &Info| {
        let (level, lists) = match qualifier.key.as_str()? {
            keys::CLIENT_FUNCTIONS => (&*client, true),
            keys::CLIENT_ATTRIBUTES => (&*client, false),
            keys::SERVER_FUNCTIONS => (&*server, true),
            keys::SERVER_ATTRIBUTES => (&*server, false),
            keys::TOOL_FUNCTIONS => (&*tool, true),
            keys::TOOL_ATTRIBUTES => (&*tool, false),
            keys::HOST_FUNCTIONS => (&host.0, true),
            keys::HOST_ATTRIBUTES => (&host.0, false),
            _ => return None,
        };
        let asked = qualifier.value.as_str().filter(|_| !lists).unwrap_or_default();
        if !seen.insert([qualifier.key.as_bytes(), asked.as_bytes()].join(&b' ')) {
            return None;
        }
        let value = match lists {
            true => Value::string(level.keys().map(String::as_str).collect::<Vec<_>>().join(",")),
            false => attributes(level, &qualifier.value),
        };
        Some(Info { key: qualifier.key.clone(), flags: 0, value })
    };
    qualifiers.iter().filter_map(answer).collect()
}

/// The attributes of the functions that are asked for; of none that is known, nothing.
fn attributes(level: &BTreeMap<String, Vec<String>>, asked: &Value) -> Value {
    let wanted: BTreeMap<String, &Vec<String>> = match asked.as_str() {
        Some("all") | None => collect_small(level.iter().map(|(function, names)| (function.clone(), names))),
        Some(names) => {
            let named = names.split(',').map(|name| served(name.trim()));
            let known = |function: String| {
                let mut forms = std::iter::successors(Some(function.as_str()), |form| like(form));
                let names = forms.find_map(|form| level.get(form))?;
                Some((function, names))
            };
            collect_small(named.filter_map(known))
        }
    };
    let found: Vec<Info> = wanted
        .into_iter()
        .filter_map(|(function, names)| {
            let described = names.iter().map(|name| Value::Regattr(Box::new(described(name)))).collect();
            let array = DataArray::new(DataType::REGATTR, described).ok()?;
            Some(Info { key: Key::new(function.as_bytes()).ok()?, flags: 0, value: array.into() })
        })
        .collect();
    match found.is_empty() {
        true => Value::Undef,
        false => Value::infos(found),
    }
}

/// An attribute by its name. One that is the host's own is known by that alone.
fn described(name: &str) -> RegAttr {
    let key = keys::key_of(name).and_then(|key| key.to_str().ok());
    RegAttr {
        name: Text::new(name).ok(),
        key: key.and_then(|key| Key::new(key).ok()),
        data_type: key.and_then(keys::type_of).unwrap_or(DataType::UNDEF),
        description: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(answer: &Info) -> Vec<String> {
        let functions = answer.value.as_array().unwrap().items();
        let of = |function: &Value| match function {
            Value::Info(info) => {
                let attributes = info.value.as_array().unwrap().items().iter();
                let name = |value: &Value| match value {
                    Value::Regattr(attribute) => attribute.name.clone().unwrap().to_string_lossy().into_owned(),
                    other => panic!("{other:?}"),
                };
                format!("{}: {}", info.key, attributes.map(name).collect::<Vec<_>>().join(" "))
            }
            other => panic!("{other:?}"),
        };
        functions.iter().map(of).collect()
    }

    #[test]
    fn every_attribute_that_is_said_to_be_supported_is_one() {
        for (function, attributes) in [CLIENT, SERVER, TOOL].concat() {
            for name in attributes.split_ascii_whitespace() {
                assert!(keys::key_of(name).is_some(), "{function}: {name}");
            }
        }
    }

    #[test]
    fn the_host_says_once_what_it_supports_and_users_ask_by_their_own_functions() {
        let mut host = HostSupport::default();
        let timeout = ["PMIX_TIMEOUT".to_owned(), "SITE_HINT".to_owned()];
        host.register("lookup", &timeout).unwrap();
        host.register("fence_nb", &timeout[..1]).unwrap();
        assert_eq!(host.register("lookup", &[]), Err(Status::ERR_REPEAT_ATTR_REGISTRATION));
        assert_eq!(host.register("", &[]), Err(Status::ERR_BAD_PARAM));
        let ask = |key: &str, value: Value| answers(&[Info::new(key, value)], &host);
        assert_eq!(ask(keys::HOST_FUNCTIONS, true.into())[0].value, Value::string("PMIx_Fence,PMIx_Lookup"));
        let all = ["PMIx_Fence: PMIX_TIMEOUT", "PMIx_Lookup: PMIX_TIMEOUT SITE_HINT"];
        assert_eq!(names(&ask(keys::HOST_ATTRIBUTES, true.into())[0]), all);
        assert_eq!(names(&ask(keys::HOST_ATTRIBUTES, Value::string("all"))[0]), all);
        assert_eq!(names(&ask(keys::HOST_ATTRIBUTES, Value::string("PMIx_Lookup"))[0]), all[1..]);
        assert_eq!(ask(keys::HOST_ATTRIBUTES, Value::string("PMIx_Spawn"))[0].value, Value::Undef);
        let finalize = ask(keys::CLIENT_ATTRIBUTES, Value::string("PMIx_Finalize"));
        assert_eq!(names(&finalize[0]), ["PMIx_Finalize: PMIX_EMBED_BARRIER PMIX_TIMEOUT"]);
        assert!(ask(keys::TIMEOUT, true.into()).is_empty());
    }

    #[test]
    fn functions_that_one_of_the_module_serves_have_its_attributes() {
        let mut host = HostSupport::default();
        for function in ["group", "fabric", "tool_connected2", "log2", "job_control"] {
            host.register(function, &["SITE_HINT".to_owned()]).unwrap();
        }
        for function in [
            "PMIx_Group_construct_nb",
            "PMIx_Group_destruct_nb",
            "PMIx_Group_destruct",
            "PMIx_Fabric_update_nb",
            "PMIx_tool_init",
            "PMIx_Log",
            "PMIx_Job_control_nb",
        ] {
            let asked = Info::new(keys::HOST_ATTRIBUTES, function);
            assert_eq!(names(&answers(&[asked], &host)[0]), [format!("{function}: SITE_HINT")]);
        }
        assert_eq!(answers(&[Info::new(keys::HOST_ATTRIBUTES, "_nb")], &host)[0].value, Value::Undef);
        let connect = Info::new(keys::SERVER_ATTRIBUTES, "PMIx_Connect_nb");
        assert_eq!(names(&answers(&[connect], &host)[0]), ["PMIx_Connect_nb: PMIX_TIMEOUT"]);
    }

    #[test]
    fn a_question_that_is_asked_again_has_one_answer() {
        let all = |key: &str| Info::new(key, "all");
        let often = [vec![all(keys::HOST_ATTRIBUTES); 100_000], vec![all(keys::CLIENT_FUNCTIONS); 100_000]].concat();
        let answers = answers(&often, &HostSupport::default());
        let keys: Vec<&str> = answers.iter().filter_map(|info| info.key.as_str()).collect();
        assert_eq!(keys, [keys::HOST_ATTRIBUTES, keys::CLIENT_FUNCTIONS]);
    }
}
