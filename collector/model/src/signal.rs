//! Signals of Linux by number: their names, those by which programs crash, and why they were sent.

/// Signals by their names, without SIG.
pub const SIGNALS: [(&str, u8); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// Signals that a program's own fault causes.
const CRASHES: [&str; 7] = ["ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS"];

/// Why a signal was sent, by its name and the number that `siginfo_t` has as `si_code`.
const CODES: [(&str, &[&str]); 6] = [
    (
        "ILL",
        &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
        ],
    ),
    ("TRAP", &["TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT", "TRAP_UNK", "TRAP_PERF"]),
    ("BUS", &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"]),
    (
        "FPE",
        &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
    ),
    ("SEGV", &["SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"]),
    ("SYS", &["SYS_SECCOMP", "SYS_USER_DISPATCH"]),
];

/// Why any signal may be sent.
const CODES_OF_ALL: [(&str, i32); 8] = [
    ("SI_KERNEL", 0x80),
    ("SI_USER", 0),
    ("SI_QUEUE", -1),
    ("SI_TIMER", -2),
    ("SI_MESGQ", -3),
    ("SI_ASYNCIO", -4),
    ("SI_SIGIO", -5),
    ("SI_TKILL", -6),
];

fn short_name(number: u8) -> Option<&'static str> {
    SIGNALS.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

/// A signal's name, with SIG.
pub fn signal_name(number: u8) -> String {
    short_name(number).map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"))
}

/// Whether the signal says that the program crashed.
pub fn is_crash_signal(number: u8) -> bool {
    short_name(number).is_some_and(|name| CRASHES.contains(&name))
}

/// Why the signal was sent, as the manual has it: `SEGV_MAPERR`.
pub fn signal_code(number: u8, code: i32) -> String {
    if let Some((name, _)) = CODES_OF_ALL.iter().find(|(_, known)| *known == code) {
        return (*name).to_owned();
    }
    let of_signal = CODES.iter().find(|(name, _)| short_name(number) == Some(name));
    let place = usize::try_from(code).ok().and_then(|code| code.checked_sub(1));
    let name = of_signal.zip(place).and_then(|((_, names), place)| names.get(place));
    name.map_or_else(|| format!("code {code}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_names_and_codes_of_the_manual() {
        assert_eq!([11, 31, 34].map(signal_name), ["SIGSEGV", "SIGSYS", "signal 34"]);
        assert_eq!([6, 9, 11, 15, 34].map(is_crash_signal), [true, false, true, false, false]);
        let codes = [(11, 1), (11, 0x80), (8, 1), (6, -6), (11, 0), (9, 1), (11, 77), (7, -77)];
        assert_eq!(
            codes.map(|(signal, code)| signal_code(signal, code)),
            [
                "SEGV_MAPERR",
                "SI_KERNEL",
                "FPE_INTDIV",
                "SI_TKILL",
                "SI_USER",
                "code 1",
                "code 77",
                "code -77"
            ]
        );
    }
}
