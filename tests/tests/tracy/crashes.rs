//! Crashes, of which a file has room for one.

use crate::scenario::Scenario;
use syscollect_model::{Crash, Event, SignalExit, StackId, ThreadId};

const SECOND: u64 = 1_000_000_000;

impl Scenario {
    fn crash(&mut self, at: u64, thread: ThreadId, address: u64, stack: Option<StackId>) {
        let [signal, code] = ["SIGSEGV", "SEGV_MAPERR"].map(|name| self.name(name));
        self.at(at, Event::Crash(Crash { thread, signal, code, address, stack }));
    }

    fn signal_exit(&mut self, at: u64, thread: ThreadId, signal: &str) {
        let process = self.tables.thread(thread).process;
        let is_crash = signal != "SIGKILL";
        let exit = SignalExit {
            process,
            thread: None,
            signal: self.name(signal),
            is_crash,
            has_core_dump: is_crash,
        };
        self.at(at, Event::SignalExit(exit));
        self.at(at, Event::ProcessEnd(process));
    }
}

#[test]
fn a_crash_is_the_files_crash_and_a_message() {
    let mut scenario = Scenario::new(1);
    let [one, two] = [5, 6].map(|pid| scenario.task(pid, "app"));
    let stack = Some(scenario.stack(&["deref", "main"]));
    scenario.crash(1, one, 0x10, stack);
    scenario.crash(2, two, 0, None);
    let trace = scenario.read();
    let crash = trace.crash.as_ref().unwrap();
    let words = "SIGSEGV (SEGV_MAPERR) at 0x10";
    assert_eq!((crash.thread, crash.time, &*crash.message), (5, 1, words));
    assert_eq!(trace.stack_names(crash.callstack), ["deref", "main"]);
    let messages: Vec<_> =
        trace.messages.iter().map(|message| (message.thread, &*message.text)).collect();
    assert_eq!(messages, [(5, words), (6, "SIGSEGV (SEGV_MAPERR)")]);
    assert_eq!(trace.messages[0].callstack, crash.callstack);
}

#[test]
fn the_crash_that_ended_its_process_comes_before_what_others_claim() {
    let mut scenario = Scenario::new(1);
    let [hostile, honest, silent] = [5, 6, 7].map(|pid| scenario.task(pid, "app"));
    let stack = Some(scenario.stack(&["deref", "main"]));
    (1..100).for_each(|at| scenario.crash(at, hostile, 0xbad, None));
    // One that the program survived, then the one that ends it, and what its handler made of that.
    scenario.crash(200, honest, 0x10, None);
    scenario.crash(2 * SECOND, honest, 0x20, stack);
    scenario.crash(2 * SECOND + 50, honest, 0, None);
    scenario.signal_exit(2 * SECOND + 90, honest, "SIGABRT");
    scenario.signal_exit(3 * SECOND, silent, "SIGSEGV");
    let trace = scenario.read();
    let crash = trace.crash.as_ref().unwrap();
    assert_eq!((crash.thread, &*crash.message), (6, "SIGSEGV (SEGV_MAPERR) at 0x20"));
    assert_eq!(trace.stack_names(crash.callstack), ["deref", "main"]);
    let of_silent = trace.messages.iter().find(|message| message.thread == 7).unwrap();
    assert_eq!(of_silent.text, "ended by SIGSEGV, core dumped");
}

#[test]
fn a_process_that_crashed_and_told_nothing_is_the_crash_and_who_was_killed_is_none() {
    let mut scenario = Scenario::new(1);
    let [killed, crashed] = [5, 6].map(|pid| scenario.task(pid, "app"));
    scenario.signal_exit(1, killed, "SIGKILL");
    assert_eq!(scenario.read().crash, None);
    scenario.signal_exit(2, crashed, "SIGBUS");
    let trace = scenario.read();
    let crash = trace.crash.as_ref().unwrap();
    assert_eq!((crash.thread, crash.time), (6, 2));
    assert_eq!((&*crash.message, crash.callstack), ("ended by SIGBUS, core dumped", 0));
}
