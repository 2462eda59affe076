//! What was recorded and is not told yet, played in turns that have a bound, so that a viewer is
//! heard and served between them however much comes at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use syscollect_capture::Teed;
use syscollect_merge::Live;
use syscollect_playback::Stopped;

/// How long a turn plays.
const LONGEST_TURN: Duration = Duration::from_millis(10);
/// Items after which it is looked whether the turn is over.
const LOOK_AFTER: usize = 1_000;

/// Chunks that were taken and not played.
#[derive(Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Teed>,
    /// What was fed may be told, and not all of it was.
    is_playing: bool,
}

impl Backlog {
    /// Whether all was played, and more may be [added](Self::add): until then what comes waits where
    /// programs have shares of the room.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.is_playing
    }

    /// What came.
    pub(super) fn add(&mut self, taken: Vec<Teed>) {
        self.waiting.extend(taken);
    }

    /// Plays for a turn, as long as there is room for what is told; whether by then nothing is
    /// passed over any more.
    pub(super) fn play(
        &mut self,
        player: &mut Live<'_>,
        has_room: impl Fn() -> bool,
    ) -> Result<bool, Stopped> {
        let begun = Instant::now();
        let may_go_on = || begun.elapsed() < LONGEST_TURN && has_room();
        let mut is_complete = false;
        while may_go_on() {
            if self.is_playing {
                self.is_playing = !player.play_part(LOOK_AFTER)?;
                continue;
            }
            match self.waiting.pop_front() {
                Some(Teed::Chunk(chunk)) => player.feed(chunk)?,
                Some(Teed::Resumes(chunk)) => player.feed_resuming(chunk)?,
                Some(Teed::LeftOut(left_out)) => player.left_out(left_out.lane),
                Some(Teed::NothingBefore(ticks)) => {
                    player.reach(ticks);
                    self.is_playing = true;
                }
                Some(Teed::Complete) => is_complete = true,
                None => break,
            }
        }
        Ok(is_complete)
    }
}

#[cfg(test)]
mod tests {
    use super::super::follow::SharedLive;
    use super::*;
    use syscollect_exporters::TracyLive;
    use syscollect_merge::play_live;
    use syscollect_model::Ticks;
    use syscollect_store::CaptureReader;
    use syscollect_tests::tracy_viewer::StrictViewer;
    use syscollect_tests::{FakeMachine, FakeProgram, ticks};
    use syscollect_tracy_protocol::{Counts, Limits};

    const OF_FLOOD: u64 = 30_000;
    const OF_OTHER: u64 = 100;

    /// A program that writes far more zones than wait for a viewer, and one that does not, as they
    /// come at once.
    fn flood() -> Vec<Teed> {
        let mut machine = FakeMachine::new(1);
        for (pid, name) in [(100, "flood"), (200, "other")] {
            machine.process(pid, 1, name, &[(pid, name)]);
        }
        for (client, pid, zones) in [(1, 100, OF_FLOOD), (2, 200, OF_OTHER)] {
            let mut program = FakeProgram::new(&mut machine, client, pid);
            let location = program.location("work", "", "", 0, 0);
            let mut thread = program.thread(client as u16, pid);
            for zone in 0..zones {
                let us = 10 + zone * OF_FLOOD / zones * 4;
                thread.begin(&mut machine, us, location, &[]);
                thread.end(&mut machine, us + 2);
            }
            program.finish(&mut machine);
        }
        machine.clock(OF_FLOOD * 4 + 1_000);
        let reader = CaptureReader::from_bytes(machine.finish()).unwrap();
        let lanes = reader.lanes().into_iter();
        let entries = lanes.flat_map(|lane| reader.chunks(lane).to_vec());
        let chunks = entries.map(|entry| Teed::Chunk(reader.read(&entry).unwrap()));
        chunks.chain([Teed::NothingBefore(Ticks(ticks(OF_FLOOD * 4 + 500)))]).collect()
    }

    /// What a viewer gets that reads between turns; or once all was played, however little room
    /// there is.
    fn told(heeds_room: bool) -> (Counts, StrictViewer) {
        let limits = Limits { waiting: 1 << 20, output: 4 << 10, ..Limits::default() };
        let live = SharedLive::of(TracyLive::new(limits));
        let mut viewer = StrictViewer::default();
        let (mut backlog, mut player_of) = (Backlog::default(), live.clone());
        backlog.add(flood());
        let played = play_live(&mut player_of, |player| {
            live.borrow_mut().session().connect(1_700_000_000);
            // It is welcome before anything is told.
            assert!(live.borrow_mut().session().receive(&viewer.take_bytes()).is_ok());
            while !backlog.is_empty() {
                let has_room = || !heeds_room || !live.borrow_mut().session().is_behind();
                backlog.play(player, has_room)?;
                if !heeds_room && !backlog.is_empty() {
                    continue;
                }
                let mut live = live.borrow_mut();
                let session = live.session();
                let asked = viewer.take_bytes();
                assert!(session.receive(&asked).is_ok());
                session.pump();
                while !session.output().is_empty() {
                    viewer.receive(session.output()).unwrap();
                    let sent = session.output().len();
                    session.sent(sent);
                    session.pump();
                }
            }
            Ok(())
        });
        played.unwrap();
        let counts = live.borrow_mut().session().counts();
        (counts, viewer)
    }

    #[test]
    fn a_viewer_that_reads_loses_nothing_however_much_comes_at_once() {
        let (counts, viewer) = told(true);
        assert_eq!(counts.left_out, 0);
        let of = |tid| viewer.seen().zones.iter().filter(|zone| zone.thread == tid).count() as u64;
        assert_eq!([100, 200].map(of), [OF_FLOOD, OF_OTHER]);
        let (counts, _) = told(false);
        assert!(counts.left_out > 0, "there is more than finds room");
    }
}
