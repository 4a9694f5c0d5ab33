//! The embedding program as one more peer: see [`Client::in_process`](crate::client::Client::in_process).
//!
//! It has no connection and no registration, and the name of the server itself. Its requests come through the
//! mailbox, and messages to it go straight to its client. It makes the requests of a client, but takes part in no
//! collective as a rank would.
use std::sync::Arc;

use super::ctx::Ctx;
use super::ctx::peers::{PROGRAM, Peer, Role};
use crate::message::Delivery;
use crate::message::door::Outgoing;
use crate::trace;

/// Callback that takes in the messages to the program.
pub type DeliveryHandler = Box<dyn Fn(Delivery) + Send>;

/// Room of the embedding program.
#[derive(Default)]
pub struct Program {
    handler: Option<DeliveryHandler>,
}

impl Program {
    /// Makes the program a peer, whose messages go to `handler` from now on. A peer that it was before must be over.
    pub fn open(&mut self, cx: &mut Ctx, handler: DeliveryHandler) {
        let peer = Peer::new(cx.own_name(), Role::Program, None);
        cx.peers.insert(PROGRAM, peer);
        self.handler = Some(handler);
    }

    /// Hands the program a message that another peer would be sent through a door.
    pub fn deliver(&self, message: Outgoing) {
        let delivery = match message.made() {
            Outgoing::Reply { number, reply, .. } => Delivery::Reply(number, reply),
            Outgoing::Push(push) => Delivery::Push(push),
            Outgoing::Shared(push) => Delivery::Push(Arc::unwrap_or_clone(push)),
            // It has ended the server itself, and reads nothing from a socket.
            Outgoing::End | Outgoing::GoOn => return,
            other => return trace!("the server's own program is told {other:?}"),
        };
        if let Some(handler) = &self.handler {
            handler(delivery);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::data::Status;
    use crate::message::Reply;
    use crate::server::ctx::testing;
    use crate::server::host::NoHost;

    #[test]
    fn the_program_is_a_peer_of_the_servers_name_and_hears_its_answers() {
        let mut test = testing::ctx(NoHost);
        let (mut program, (sender, receiver)) = (Program::default(), mpsc::channel());
        program.open(&mut test.cx, Box::new(move |delivery| sender.send(delivery).unwrap()));
        assert_eq!(test.cx.peers[&PROGRAM].proc, test.cx.own_name());
        let caller = test.request(PROGRAM);
        test.cx.reply_status(caller.peer, caller.number, Ok(()));
        test.sent().into_iter().for_each(|(_, message)| program.deliver(message));
        let answer = receiver.try_recv();
        assert!(matches!(answer, Ok(Delivery::Reply(number, Reply::Done(Status::SUCCESS))) if number == caller.number));
    }

    #[test]
    fn the_last_handler_alone_is_called_and_an_end_is_no_message() {
        let mut test = testing::ctx(NoHost);
        let (mut program, (sender, receiver)) = (Program::default(), mpsc::channel());
        program.open(&mut test.cx, Box::new(|_| panic!("the first handler is called")));
        program.open(&mut test.cx, Box::new(move |delivery| sender.send(delivery).unwrap()));
        program.deliver(Outgoing::Reply { number: 1, reply: Reply::Done(Status::SUCCESS), descriptors: Vec::new() });
        program.deliver(Outgoing::End);
        assert_eq!(receiver.try_iter().count(), 1);
    }
}
