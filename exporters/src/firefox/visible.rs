//! Which threads the viewer shows at first.
//!
//! Left alone, it shows the threads that used the CPU most. That leaves out the
//! machine with its counters, queues of GPUs, and threads that say what they do.

use super::ended::EndedThread;
use serde_json::{Value, json};
use std::cmp::Reverse;
use syscollect_model::SessionInfo;

/// As many threads as the viewer would show by itself.
const BUSIEST: usize = 15;
/// Of the busiest one's CPU time, a thread among them has at least one part in this many.
const PARTS: u64 = 20;
/// Threads with marks of programs that are shown as well.
const TALKATIVE: usize = 10;

/// What one thread has to show.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadContent {
    cpu_ns: u64,
    marks: usize,
    /// It is the machine's, or a queue of a GPU.
    always: bool,
    /// A snapshot was taken for what happened to it.
    is_subject: bool,
}

/// Adds the threads that are shown at first, and the one that is selected.
pub(super) fn choose_visible(meta: &mut Value, threads: &[EndedThread], session: &SessionInfo) {
    let subject = subject(threads, session);
    let shows = |(index, thread)| shows(index, thread, subject == Some(index));
    let shows: Vec<ThreadContent> = threads.iter().enumerate().map(shows).collect();
    let Choice { visible, selected } = choose(&shows);
    meta["initialVisibleThreads"] = json!(visible);
    // Threads by CPU time, not by name. (Processes it sorts by what their first threads did,
    // whatever the file says.)
    meta["keepProfileThreadOrder"] = json!(true);
    meta["initialSelectedThreads"] = json!(selected.as_slice());
}

/// The thread for which a trigger took the snapshot: of those that had its number, the last.
fn subject(threads: &[EndedThread], session: &SessionInfo) -> Option<usize> {
    let tid = session.snapshot.as_ref().filter(|mark| mark.tid != 0)?.tid.to_string();
    let had_it = |thread: &EndedThread| !thread.queue && thread.tid.split('.').next() == Some(&tid);
    let had_it = threads.iter().enumerate().filter(|(_, thread)| had_it(thread));
    had_it.max_by_key(|(_, thread)| thread.lifetime.0).map(|(index, _)| index)
}

fn shows(index: usize, thread: &EndedThread, is_subject: bool) -> ThreadContent {
    let marks = thread.state.markers.of_programs();
    let always = index == 0 || thread.queue || is_subject;
    ThreadContent { cpu_ns: thread.cpu_ns(), marks, always, is_subject }
}

/// Threads by index.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    visible: Vec<usize>,
    selected: Option<usize>,
}

fn choose(threads: &[ThreadContent]) -> Choice {
    let all = threads.iter().enumerate();
    let mut busiest: Vec<(usize, u64)> =
        all.clone().map(|(index, thread)| (index, thread.cpu_ns)).collect();
    busiest.sort_by_key(|(index, cpu_ns)| (Reverse(*cpu_ns), *index));
    let most = busiest.first().map_or(0, |(_, cpu_ns)| *cpu_ns);
    let busy =
        busiest.iter().take(BUSIEST).filter(|(_, cpu_ns)| *cpu_ns > 0 && *cpu_ns >= most / PARTS);
    let mut talkative: Vec<(usize, usize)> = all
        .clone()
        .filter(|(_, thread)| thread.marks > 0)
        .map(|(index, thread)| (index, thread.marks))
        .collect();
    talkative.sort_by_key(|(index, marks)| (Reverse(*marks), *index));

    let always = all.filter(|(_, thread)| thread.always).map(|(index, _)| index);
    let talkative = talkative.into_iter().take(TALKATIVE).map(|(index, _)| index);
    let mut visible: Vec<usize> =
        always.chain(busy.map(|(index, _)| *index)).chain(talkative).collect();
    visible.sort_unstable();
    visible.dedup();
    let subject = threads.iter().position(|thread| thread.is_subject);
    let busiest = busiest.first().filter(|(_, cpu_ns)| *cpu_ns > 0).map(|(index, _)| *index);
    Choice { visible, selected: subject.or(busiest).or((!threads.is_empty()).then_some(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(cpu_ns: u64) -> ThreadContent {
        ThreadContent { cpu_ns, ..ThreadContent::default() }
    }

    #[test]
    fn the_machine_queues_and_talkative_threads_are_shown_beside_the_busiest() {
        let machine = ThreadContent { always: true, ..ThreadContent::default() };
        let instrumented = ThreadContent { marks: 3, ..ThreadContent::default() };
        let threads =
            [machine, busy(5), busy(1_000), busy(49), busy(50), instrumented, busy(0), machine];
        assert_eq!(choose(&threads), Choice { visible: vec![0, 2, 4, 5, 7], selected: Some(2) });
    }

    #[test]
    fn the_thread_for_which_a_snapshot_was_taken_is_shown_and_selected() {
        let subject = ThreadContent { always: true, is_subject: true, ..busy(1) };
        let threads = [busy(1_000), busy(2), subject];
        assert_eq!(choose(&threads), Choice { visible: vec![0, 2], selected: Some(2) });
    }

    #[test]
    fn of_many_threads_as_many_are_shown_as_fit() {
        let threads: Vec<ThreadContent> = (0..100)
            .map(|index| ThreadContent { marks: index, ..busy(1_000 - index as u64) })
            .collect();
        let expected: Vec<usize> = (0..BUSIEST).chain(100 - TALKATIVE..100).collect();
        assert_eq!(choose(&threads), Choice { visible: expected, selected: Some(0) });
    }

    #[test]
    fn where_nothing_ran_the_machine_is_selected() {
        let machine = ThreadContent { always: true, ..ThreadContent::default() };
        assert_eq!(choose(&[machine, busy(0)]), Choice { visible: vec![0], selected: Some(0) });
        assert_eq!(choose(&[]), Choice { visible: Vec::new(), selected: None });
    }
}
