//! The module for Lua: built for each Lua that is there over the client as it is installed, tested,
//! and its example recorded.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::dist::client::ClientLibraries;
use crate::process::{output_of, output_within, root};
use crate::report::{Outcome, Report};

use super::{LIMIT, Recording, built, record, recorded};

/// As pkg-config and Debian's alternatives name them.
const LUAS: [&str; 5] = ["lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit"];
/// What the example marks by these names.
const ZONES: [&str; 5] = ["frame", "update", "checked", "script", "think"];

/// Builds, tests, records and reads back, with each Lua.
pub(super) fn steps(report: &mut Report, syscollect: Option<&Path>) {
    let mut client = None;
    report.step("Lua: install the client", || {
        client = Some(InstalledClient::new()?);
        Ok(())
    });
    let Some(client) = client else { return };
    for lua in LUAS {
        report.step(&format!("Lua: {lua}"), || example(&client, lua, syscollect));
    }
}

/// What needs neither root nor a recorder: the tests, with each Lua.
pub(crate) fn without_recorder() -> Result<Outcome> {
    let luas: Vec<&str> = LUAS.into_iter().filter(|lua| is_there(lua)).collect();
    if luas.is_empty() {
        return Ok(Outcome::NotOffered("no Lua with its headers, make and pkg-config".to_owned()));
    }
    let client = InstalledClient::new()?;
    for lua in &luas {
        client.tested(lua)?;
    }
    Ok(Outcome::Passed(luas.join(", ")))
}

/// Whether that Lua runs, and something can be built for it.
fn is_there(lua: &str) -> bool {
    let runs = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
    runs(Command::new(lua).arg("-v"))
        && runs(Command::new("pkg-config").args(["--exists", lua]))
        && runs(Command::new("make").arg("--version"))
}

/// The client below a folder, and the module beside it.
struct InstalledClient {
    folder: TempDir,
}

impl InstalledClient {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        ClientLibraries::build()?.install(&folder.path().join("prefix"))?;
        // Built there, so that the checkout stays as it is.
        let source = root().join("usdt-client/lua");
        output_of(Command::new("cp").arg("-r").arg(source).arg(folder.path().join("lua")))?;
        Ok(Self { folder })
    }

    /// `make` of the module, as a user calls it.
    fn make(&self, lua: &str) -> Command {
        let mut make = Command::new("make");
        make.arg("-C").arg(self.folder.path().join("lua")).arg(format!("LUA={lua}"));
        make.env("PKG_CONFIG_PATH", self.folder.path().join("prefix/lib/pkgconfig"));
        make
    }

    /// Runs the tests.
    fn tested(&self, lua: &str) -> Result<()> {
        output_within(LIMIT, self.make(lua).arg("check")).map(|_| ())
    }

    /// Installs the module; returns a program with which that Lua finds it.
    fn program(&self, lua: &str) -> Result<Command> {
        let folder = self.folder.path().join("installed").join(lua);
        let (scripts, libraries) = (folder.join("share"), folder.join("lib"));
        let mut install = self.make(lua);
        install.arg(format!("LUA_DIR={}", scripts.display()));
        output_of(install.arg(format!("C_DIR={}", libraries.display())).arg("install"))?;
        // The recorder hands on what it has been given.
        let mut program = Command::new("env");
        program.arg(format!("LUA_PATH={}/?.lua", scripts.display()));
        program.arg(format!("LUA_CPATH={}/?.so", libraries.display())).arg(lua);
        Ok(program)
    }
}

/// Tests the module, and compares what the example marked with what is in the report.
fn example(client: &InstalledClient, lua: &str, syscollect: Option<&Path>) -> Result<Outcome> {
    if !is_there(lua) {
        return Ok(Outcome::NotOffered(format!("{lua}, its headers, make or pkg-config")));
    }
    client.tested(lua)?;
    let mut program = client.program(lua)?;
    program.arg(root().join("usdt-client/lua/examples/frames.lua")).arg("100");
    let Recording { printed: marked, report } =
        record(&built(syscollect)?, &program, client.folder.path())?;
    let mut counted = Vec::new();
    for name in ZONES {
        let recorded = recorded(&report, name);
        ensure!(marked[name] == recorded, "{name}: {} marked, {recorded} recorded", marked[name]);
        counted.push(format!("{name} {recorded}"));
    }
    let (said, messages) = (&marked["messages"], &report["events"]["messages"]);
    ensure!(said == messages, "messages: {said} marked, {messages} recorded");
    ensure!(report["lost"] == 0, "lost: {}", report["lost"]);
    Ok(Outcome::Passed(format!("marked and recorded: {}", counted.join(", "))))
}
