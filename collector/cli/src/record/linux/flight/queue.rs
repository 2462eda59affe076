//! What was asked waits here for the thread that answers: so much and no more.

use super::asked::{Asked, Asker};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Requests that wait, of the owner and as many of members.
const MOST_WAITING: usize = 16;
/// Requests of each of these in one turn, after which it is looked for what else is to be done.
const MOST_IN_A_TURN: usize = 4;

/// For the thread that listens.
pub(super) struct AskSender {
    owners: SyncSender<Asked>,
    members: SyncSender<Asked>,
}

/// For the thread that answers.
pub(super) struct AskReceiver {
    owners: Receiver<Asked>,
    members: Receiver<Asked>,
}

/// Both ends.
pub(super) fn queue() -> (AskSender, AskReceiver) {
    let (own, owners) = sync_channel(MOST_WAITING);
    let (of_members, members) = sync_channel(MOST_WAITING);
    (AskSender { owners: own, members: of_members }, AskReceiver { owners, members })
}

impl AskSender {
    /// Hands it on, or refuses it where too many wait; whether anybody hears it at all.
    pub(super) fn send(&self, asked: Asked) -> bool {
        let queue = match asked.asker {
            Asker::Owner => &self.owners,
            // They do not take the places of the owner.
            Asker::Member(_) => &self.members,
        };
        match queue.try_send(asked) {
            Ok(()) => true,
            Err(TrySendError::Full(asked)) => {
                asked.answer.refuse("too many requests wait: ask again");
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

impl AskReceiver {
    /// What is to be answered in this turn.
    pub(super) fn turn(&self) -> impl Iterator<Item = Asked> {
        let owners = self.owners.try_iter().take(MOST_IN_A_TURN);
        owners.chain(self.members.try_iter().take(MOST_IN_A_TURN))
    }
}

#[cfg(test)]
mod tests {
    use super::super::asked::AnswerSocket;
    use super::super::closing::Closer;
    use super::super::message::Request;
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn asked(asker: Asker, closer: &Closer) -> (UnixStream, Asked) {
        let (ours, theirs) = UnixStream::pair().expect("sockets can be made");
        let answer = AnswerSocket::of(theirs.into(), closer).expect("it is a stream");
        (ours, Asked { asker, request: Request::Status, file: None, answer })
    }

    #[test]
    fn thousands_of_requests_are_refused_with_a_reason_and_the_owners_are_heard() {
        let closer = Closer::start().unwrap();
        let (sender, receiver) = queue();
        let mut streams = Vec::new();
        for _ in 0..2000 {
            let (ours, asked) = asked(Asker::Member(1000), &closer);
            assert!(sender.send(asked));
            streams.push(ours);
            // Or this test needs more descriptors than a process may have.
            if streams.len() > MOST_WAITING {
                let mut answer = String::new();
                streams.pop().unwrap().read_to_string(&mut answer).unwrap();
                assert!(answer.contains("too many requests wait"), "{answer}");
            }
        }
        let (_ours, of_root) = asked(Asker::Owner, &closer);
        assert!(sender.send(of_root));
        let turns: Vec<usize> = (0..6).map(|_| receiver.turn().count()).collect();
        assert_eq!(turns, [MOST_IN_A_TURN + 1, 4, 4, 4, 0, 0], "root's comes in the first");
        drop(receiver);
        assert!(!sender.send(asked(Asker::Owner, &closer).1), "nobody is there any more");
    }
}
