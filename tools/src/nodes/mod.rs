//! Simulated nodes (`--nodes K`): K PMIx servers in K processes on this machine, each with ranks, a host name, a
//! directory and shared memory of its own.
//!
//! Node 0 is the launcher's own server. Each other node is a [process](server) that the launcher has started, at the end
//! of a [link](wire) that goes through the launcher alone: a star. The links carry what the `Host` trait carries, and
//! nothing else. The [hub](hub) in the launcher knows which rank runs on which node (the [census]), and holds the
//! [meetings](meetings) of collectives. The [host] of each server asks it, and hands the rest to the host that a run of
//! one node has; calls over a link come to it by a [dispatch]. Reports of all [servers] are gathered the same way.
//!
//! The launcher starts the ranks of all nodes, and sees how they end; nodes start nothing. A node that dies takes its
//! ranks with it: the launcher kills them, tells the others (`PMIX_EVENT_NODE_DOWN`), and ends every meeting that waits
//! for it; of its ranks that are in [invitations](invitations) to groups, the hub says what their server would have. When
//! the launcher dies, the nodes are killed as ranks are.
mod census;
mod dispatch;
mod events;
mod host;
pub mod hub;
mod invitations;
mod meetings;
pub mod server;
pub mod servers;
mod under_way;
pub mod wire;

use clap::Args;
/// Attribute of a request (UINT32): the node whose server is asked.
pub use instanton::server::NODE;

/// Most nodes of a run.
const MOST: u32 = 64;

/// Options about nodes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machines (this one)")]
pub struct NodesOptions {
    /// Simulate K nodes on this machine, each with a server, a name and a directory of its own
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    pub nodes: u32,
}

/// The names of so many nodes on a machine; a run of one node has the machine's.
pub fn names(machine: &str, nodes: u32) -> Vec<String> {
    if nodes == 1 { vec![machine.to_owned()] } else { (0..nodes).map(|node| format!("{machine}-n{node}")).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_after_the_machine() {
        assert_eq!(names("host", 2), ["host-n0", "host-n1"]);
        assert_eq!(names("host", 1), ["host"]);
    }
}
