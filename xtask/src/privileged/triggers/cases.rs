//! Triggers, what each is for, and what only comes near it.
//!
//! A duration that comes near is more than half of the limit, and one that is enough less than
//! twice as much: a comparison that is off by a factor of two is found. Between it and the limit is
//! more than a busy machine takes to wake a thread.

/// Something that the load does.
#[derive(Clone, Copy)]
pub(super) struct Deed {
    /// What, how much of it, and by a thread or program of which name.
    pub(super) what: &'static str,
    pub(super) size: u64,
    pub(super) name: &'static str,
}

/// When what a snapshot marks happened, of what the load says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkedAt {
    /// It does not know.
    Anywhen,
    /// So many milliseconds behind its beginning.
    Beginning(u64),
    End,
}

/// A trigger, what it is for, and what is not enough for it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) cause: String,
    pub(super) near_misses: Vec<Deed>,
    pub(super) enough: Deed,
    /// What the reason says.
    pub(super) said: &'static str,
    pub(super) marked_at: MarkedAt,
    /// Nothing else is done meanwhile.
    pub(super) is_alone: bool,
}

/// A deed of the load, whose name is its own.
const fn does(what: &'static str, size: u64) -> Deed {
    by(what, size, "syscollect-load")
}

const fn by(what: &'static str, size: u64, name: &'static str) -> Deed {
    Deed { what, size, name }
}

fn case(
    name: &'static str,
    cause: &str,
    near_misses: &[Deed],
    enough: Deed,
    said: &'static str,
) -> Case {
    let (cause, near_misses) = (cause.to_owned(), near_misses.to_vec());
    let marked_at = MarkedAt::End;
    Case { name, cause, near_misses, enough, said, marked_at, is_alone: false }
}

impl Case {
    fn marked_at(self, marked_at: MarkedAt) -> Self {
        Self { marked_at, ..self }
    }

    fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }
}

/// Where the memory that the machine uses is so many MiB now, if there is some to use.
pub(super) fn cases(used: Option<u64>) -> Vec<Case> {
    let mut cases = durations();
    cases.extend(waits());
    cases.extend(ends());
    cases.extend(hits());
    cases.extend(values());
    cases.extend(used.map(memory));
    cases
}

/// The recorder and others need less than what comes near, and less than that from the limit.
fn memory(used: u64) -> Case {
    let cause = format!("counter \"Memory used\" > {}", (used + 1500) << 20);
    let [near, enough] = [1000, 2000].map(|more| does("memory", used + more));
    case("memory", &cause, &[near], enough, "Memory used is").marked_at(MarkedAt::Anywhen).alone()
}

fn durations() -> Vec<Case> {
    vec![
        case(
            "slow",
            "zone request > 600ms",
            &[does("zone", 380), does("other-zone", 1100)],
            does("zone", 1100),
            "zone request took",
        ),
        case(
            "upload",
            "zone upload > 600ms",
            &[does("async-zone", 380)],
            does("async-zone", 1100),
            "zone upload took",
        ),
        // What is usual are 20 ms, of which thirty times as much are as above.
        case(
            "unusual",
            "zone usual > 30x p50",
            &[does("usual", 380)],
            does("unusual", 1150),
            "zone usual took",
        ),
        case(
            "frame",
            "frame render > 600ms",
            &[
                does("frame", 380),
                does("other-frame", 1100),
                // One program does not end what another began.
                does("mark", 1300),
                does("mark", 2400),
            ],
            does("frame", 1100),
            "frame render took",
        ),
        case(
            "any-frame",
            "frame > 1500ms",
            &[does("main-frame", 1100)],
            does("main-frame", 2600),
            "frame Frame took",
        ),
        case(
            "call",
            "function syscollect_stalls > 600ms",
            &[does("function", 380)],
            does("function", 1100),
            "function syscollect_stalls took",
        ),
        case(
            "pair",
            "pair stall:request__start > 600ms",
            &[
                does("pair", 380),
                by("pair-of-threads", 1100, "begins"),
                does("pairs-left-open", 1100),
            ],
            does("pair", 1100),
            "pair stall:request__start took",
        ),
    ]
}

fn waits() -> Vec<Case> {
    vec![
        // Real-time threads leave the others 50 ms of each second.
        case(
            "starved",
            "waiting starved > 400ms",
            &[
                by("starved", 260, "starved"),
                by("starved", 750, "starved too"),
                by("blocked", 1100, "starved"),
            ],
            by("starved", 750, "starved"),
            "starved",
        )
        .marked_at(MarkedAt::Anywhen)
        .alone(),
        case(
            "stuck",
            "blocked sleeper > 600ms",
            &[
                by("blocked", 380, "sleeper"),
                by("blocked", 1100, "sleepers"),
                by("starved", 750, "sleeper"),
            ],
            by("blocked", 1100, "sleeper"),
            "sleeper",
        )
        .marked_at(MarkedAt::Beginning(600)),
        case(
            "disk",
            "uninterruptible disk > 600ms",
            &[
                by("uninterruptible", 380, "disk"),
                by("uninterruptible", 1100, "disks"),
                by("blocked", 1100, "disk"),
            ],
            by("uninterruptible", 1100, "disk"),
            "is blocked uninterruptibly",
        )
        .marked_at(MarkedAt::Beginning(600)),
    ]
}

/// Numbers of signals: QUIT 3, KILL 9, USR1 10, SEGV 11, USR2 12, TERM 15.
fn ends() -> Vec<Case> {
    vec![
        case(
            "ended",
            "exit leaver",
            &[by("exit", 0, "leavers")],
            by("exit", 0, "leaver"),
            "ended with code 0",
        ),
        case(
            "failed",
            "exit failing code 3",
            &[
                by("exit", 0, "failing"),
                by("exit", 4, "failing"),
                by("signal", 3, "failing"),
                by("exit", 3, "failings"),
            ],
            by("exit", 3, "failing"),
            "ended with code 3",
        ),
        case(
            "nonzero",
            "exit \"two words\" code nonzero",
            &[
                by("exit", 0, "two words"),
                by("signal", 15, "two words"),
                by("exit", 1, "two words too"),
            ],
            by("exit", 1, "two words"),
            "two words",
        ),
        case(
            "signalled",
            "exit victim signal USR1",
            &[
                by("signal", 12, "victim"),
                by("exit", 10, "victim"),
                by("ignored-signal", 10, "victim"),
                by("signal", 10, "victims"),
            ],
            by("signal", 10, "victim"),
            "was ended by SIGUSR1",
        ),
        case(
            "crashed",
            "crash crasher",
            &[
                by("signal", 9, "crasher"),
                by("signal", 15, "crasher"),
                by("exit", 6, "crasher"),
                by("exit", 139, "crasher"),
                by("signal", 11, "crashers"),
            ],
            by("abort", 0, "crasher"),
            "was ended by SIGABRT",
        ),
    ]
}

fn hits() -> Vec<Case> {
    vec![
        case(
            "opened",
            "hit stall:opened if path == \"/etc/passwd\"",
            &[does("opened", 1), does("opened", 2), does("opened", 3)],
            does("opened", 0),
            "stall:opened was hit",
        ),
        case(
            "answered",
            "hit stall:answered if size > 4096 and 0 != 5000",
            &[does("answered", 4096), does("answered", 5000)],
            does("answered", 4097),
            "stall:answered was hit",
        ),
        case(
            "owed",
            "hit stall:owed if 0 < -5",
            // Of these what is owed is less than nothing.
            &[does("owed", 5), does("owed", 6_u64.wrapping_neg())],
            does("owed", 6),
            "stall:owed was hit",
        ),
        case(
            "entered",
            "hit syscollect_enters",
            &[does("other-entered", 1)],
            does("entered", 1),
            "syscollect_enters was hit",
        ),
        case(
            "sent",
            "tracepoint signal:signal_generate if sig == 47 and pid > 1",
            &[does("sent", 46), does("sent", 48)],
            does("sent", 47),
            "signal:signal_generate was hit",
        ),
        case(
            "renamed",
            "tracepoint task:task_rename if newcomm == \"a new name\"",
            &[by("renamed", 0, "a new nam"), by("renamed", 0, "a new name,")],
            by("renamed", 0, "a new name"),
            "task:task_rename was hit",
        ),
    ]
}

fn values() -> Vec<Case> {
    vec![
        case("alarm", "message \"alarm 7\"", &[does("message", 6)], does("message", 7), "alarm 7")
            .alone(),
        case(
            "pager",
            "message in pager \"alarm 8\"",
            &[by("message", 8, "pagers"), by("message", 9, "pager")],
            by("message", 8, "pager"),
            "alarm 8",
        ),
        case(
            "queue",
            "plot \"queue length\" > 100",
            // It is at its length plus 7 in the end.
            &[does("plot", 93), does("other-plot", 1000)],
            does("plot", 101),
            "queue length is 101",
        )
        .alone(),
        case(
            "level",
            "plot level <= -5.5",
            &[does("level", 54)],
            does("level", 55),
            "level is -5.5",
        ),
    ]
}
