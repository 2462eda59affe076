//! What a viewer was told that threads said, and that became of them, beside the same recorder's
//! snapshot.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use syscollect_model::{Event, LockAction, MessageText, Tables, ThreadId};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::compared::{numbered, thread_of};
use super::span::{FIRST_ROW, KnownSpan};

/// When a message was said, and by which thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MessageKey {
    time: i64,
    thread: u32,
}

/// All of a file: how each message begins. Behind that, the viewer has what else is said.
#[derive(Debug, Default)]
pub(super) struct Messages(BTreeMap<MessageKey, Vec<String>>);

impl Messages {
    /// Somebody may say something.
    pub(super) fn event(&mut self, time: i64, event: &Event, tables: &Tables) {
        let tid = |thread: ThreadId| tables.thread(thread).tid;
        let said = match event {
            Event::Message(track, message) => {
                let text = match &message.text {
                    Some(MessageText::Written(text)) => text.to_string(),
                    Some(MessageText::Interned { string, number }) => {
                        numbered(*string, *number, tables)
                    }
                    None => tables.strings.get(message.category).to_owned(),
                };
                thread_of(*track, tables).map(|thread| (thread, text))
            }
            Event::Instant(track, slice) => {
                let text = numbered(slice.name, slice.number, tables);
                thread_of(*track, tables).map(|thread| (thread, text))
            }
            Event::FrameImage(track, image) => {
                let text = numbered(image.mark.name, image.mark.number, tables);
                thread_of(*track, tables).map(|thread| (thread, text))
            }
            Event::ThreadStart(thread) => Some((tid(*thread), "starts".to_owned())),
            Event::ThreadEnd(thread) => Some((tid(*thread), "ends".to_owned())),
            Event::ThreadName(thread, name) => {
                Some((tid(*thread), format!("is named {}", tables.strings.get(*name))))
            }
            Event::ProcessExec(process, name) => {
                let first = tables.process(*process).pid;
                Some((first, format!("runs {}", tables.strings.get(*name))))
            }
            Event::Lock(lock) if lock.action == LockAction::GiveUp => {
                let name = tables.strings.get(tables.lock(lock.lock).name);
                Some((tid(lock.thread), format!("gives up on lock {name}")))
            }
            Event::Crash(crash) => Some((tid(crash.thread), String::new())),
            Event::SignalExit(exit) => {
                let thread = exit.thread.map(tid);
                Some((thread.unwrap_or(tables.process(exit.process).pid), String::new()))
            }
            _ => None,
        };
        if let Some((thread, text)) = said {
            self.0.entry(MessageKey { time, thread }).or_default().push(text);
        }
    }

    /// What a viewer was told is what is here, but for threads that help the recorder, which have
    /// no rows; how many messages.
    pub(super) fn compare(
        &self,
        seen: &ReceivedTimeline,
        span: KnownSpan,
        is_helper: impl Fn(u32) -> bool,
    ) -> Result<usize> {
        let mut told = BTreeMap::<MessageKey, Vec<&str>>::new();
        let of_threads = seen.messages.iter().filter(|one| !one.own && one.thread < FIRST_ROW);
        for one in of_threads.filter(|one| span.has(one.time) && !is_helper(one.thread)) {
            let said = MessageKey { time: one.time, thread: one.thread };
            told.entry(said).or_default().push(&one.text);
        }
        let mut compared = 0;
        let in_file = self
            .0
            .iter()
            .filter(|(said, _)| span.has(said.time) && said.thread != 0 && !is_helper(said.thread));
        for (said, texts) in in_file {
            let mut told = told.remove(said).unwrap_or_default();
            for text in texts {
                let found = told.iter().position(|told| told.starts_with(text.as_str()));
                let Some(found) = found else {
                    bail!("message {said:?} {text:?} was told as {told:?}");
                };
                told.swap_remove(found);
                compared += 1;
            }
            ensure!(told.is_empty(), "message {said:?} {told:?} was told, the file has {texts:?}");
        }
        let other = told.first_key_value();
        ensure!(other.is_none(), "a message that is not in the file was told: {other:?}");
        Ok(compared)
    }
}
