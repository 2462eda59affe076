//! Renames between two readings of the TSC: the kernel's stamp of each rename
//! must lie between them.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::system::{pin, ticks};

/// Renames in a row before a pause: of each process's renames a recorder takes
/// 512 on each CPU in 50 ms.
pub(crate) const BURST: u64 = 500;
/// The pause.
pub(crate) const PAUSE: Duration = Duration::from_millis(55);

struct Bracket {
    before: u64,
    after: u64,
}

/// Takes `count` brackets on each CPU; prints one line for each.
pub(crate) fn run(count: u64, cpus: &[usize]) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for &cpu in cpus {
        pin(cpu)?;
        let brackets = (0..count).map(|index| one(cpu, index)).collect::<Result<Vec<_>>>()?;
        for (index, Bracket { before, after }) in brackets.iter().enumerate() {
            writeln!(
                out,
                "{{\"cpu\":{cpu},\"name\":\"b{cpu}-{index}\",\"before\":{before},\"after\":{after}}}"
            )?;
        }
    }
    out.flush().context("cannot print")
}

fn one(cpu: usize, index: u64) -> Result<Bracket> {
    if index % BURST == BURST - 1 {
        std::thread::sleep(PAUSE);
    }
    let name = std::ffi::CString::new(format!("b{cpu}-{index}"))?;
    let before = ticks();
    // SAFETY: the name is a string with an end, which PR_SET_NAME copies.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let after = ticks();
    Ok(Bracket { before, after })
}
