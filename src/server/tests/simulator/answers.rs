//! Words of servers: their ways to ranks and manager, and what a rank does about each.
use super::client::{Client, Stage};
use super::host::Purpose;
use super::machine::lock;
use super::model::{Collective, Expected};
use super::queue::Happening;
use super::rules::{Broken, Rule};
use super::world::{SLOWEST, World};
use crate::data::Status;
use crate::message::Reply;
use crate::message::door::Outgoing;

impl World {
    /// Takes what the server of a node has said, and has it come to where it goes.
    pub fn deliver(&mut self, node: usize) {
        // The host may have answered at once.
        self.nodes[node].reactor.run_commands();
        if !self.nodes[node].machine.has_no_work() {
            self.later(SLOWEST, Happening::Works(node));
        }
        for client in 0..self.clients.len() {
            if self.clients[client].node != node {
                continue;
            }
            let said = self.clients[client].peer.as_ref().map(|peer| peer.hears()).unwrap_or_default();
            let said = said.into_iter().flat_map(|message| match self.bug {
                Some(bug) => bug.garble(message),
                None => vec![message],
            });
            for message in said.collect::<Vec<_>>() {
                // Others may hear of a fence before this one hears that its commit has failed before that.
                if matches!(message, Outgoing::Reply { number: 0, .. }) {
                    self.model.failed_to_commit(&self.clients[client].proc);
                }
                let at = self.within(SLOWEST).max(self.clients[client].last_told);
                self.clients[client].last_told = at;
                self.at(at, Happening::Told(client, message));
            }
            self.look_at_word(client);
        }
        let asks = lock(&self.hosts).take();
        for (node, ask) in asks {
            let at = self.within(SLOWEST).max(self.last_heard[node]);
            self.last_heard[node] = at;
            self.at(at, Happening::Hears(node, ask));
        }
    }

    /// Looks whether a rank that waits at its job's word is released.
    fn look_at_word(&mut self, client: usize) {
        let Client { proc, node, waiting, .. } = &mut self.clients[client];
        let Some((number, word)) = waiting.iter_mut().find_map(|(number, one)| Some((*number, one.word.as_mut()?)))
        else {
            return;
        };
        let store = self.nodes[*node].reactor.router.jobs.store(&proc.nspace);
        if store.is_some_and(|store| store.releases() != *word) {
            waiting.entry(number).and_modify(|one| one.word = None);
            let at = self.clock.passed();
            self.at(at, Happening::Released(client, number));
        }
    }

    pub fn told(&mut self, client: usize, message: Outgoing) -> Result<(), Broken> {
        let Client { proc, stage, .. } = &self.clients[client];
        if *stage == Stage::Ended {
            return Ok(());
        }
        let at = self.clock.passed();
        match message.made() {
            Outgoing::Accepted { proc: as_whom, .. } => {
                self.log.note(at, format_args!("{proc} is let in"));
                if as_whom != *proc {
                    return Err(format!("{proc} is let in as {as_whom}").into());
                }
                self.clients[client].stage = Stage::In;
                self.later(SLOWEST, Happening::Acts(client));
                Ok(())
            }
            Outgoing::Refused { status, .. } => {
                self.log.note(at, format_args!("{proc} is refused: {status}"));
                self.end(client);
                Ok(())
            }
            Outgoing::Reply { number, reply, .. } => {
                self.log.note(at, format_args!("{proc} is answered {number}: {reply:?}"));
                self.answered(client, number, &reply)
            }
            Outgoing::Push(push) => {
                self.log.note(at, format_args!("{proc} is told {push:?}"));
                Ok(())
            }
            Outgoing::Shared(push) => {
                self.log.note(at, format_args!("{proc} is told {push:?}"));
                Ok(())
            }
            // Nothing that a rank sends here is long.
            Outgoing::GoOn | Outgoing::Made { .. } => Ok(()),
            Outgoing::End => {
                self.log.note(at, format_args!("{proc} is cut off"));
                self.end(client);
                Ok(())
            }
        }
    }

    /// A rank has an answer.
    pub fn answered(&mut self, client: usize, number: u64, reply: &Reply) -> Result<(), Broken> {
        let one = self.no_longer_awaits(client, number);
        let Client { proc, node, groups, stage, .. } = &mut self.clients[client];
        if *stage == Stage::Ended {
            return Ok(());
        }
        // The outcome of commits was noted when the server said it.
        if number == 0 {
            return Ok(());
        }
        let Some(one) = one else {
            // It was on its way when the rank said goodbye.
            if *stage == Stage::Leaving {
                return Ok(());
            }
            return Rule::AnsweredOnce
                .broken(format!("{proc} is answered {number}, which it does not wait for: {reply:?}"));
        };
        self.model.answered(&self.nodes[*node], proc, &one.expected, reply)?;
        if let (Expected::Met(Collective { group: Some(group), .. }, _), Reply::Infos(Status::SUCCESS, _)) =
            (&one.expected, reply)
        {
            groups.insert(group.clone());
        }
        let is_made = matches!(reply, Reply::Done(Status::SUCCESS) | Reply::Infos(Status::SUCCESS, _));
        if !is_made && matches!(&one.expected, Expected::Met(collective, _) if collective.purpose != Purpose::Fence) {
            // Those who have made it wait for this one to end it with them.
            self.is_left_out = true;
        }
        match one.expected {
            Expected::Goodbye => self.end(client),
            _ if one.blocks => self.later(SLOWEST, Happening::Acts(client)),
            _ => {}
        }
        Ok(())
    }
}
