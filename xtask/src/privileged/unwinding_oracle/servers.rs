//! Servers that real machines run, each as an ordinary user in a folder of its own, and what asks
//! them for something.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::privileged::context::{NOBODY, ends_with_us, finish, signal, text, until};

/// Where Debian keeps the programs of each version of PostgreSQL.
const POSTGRES: &str = "/usr/lib/postgresql";
const NGINX: &str = "\
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    gzip on;
    gzip_types text/plain;
    default_type text/plain;
    server { listen unix:socket; root .; }
}
";

/// A server that runs until this is dropped.
pub(crate) struct Server {
    process: Child,
    folder: tempfile::TempDir,
    /// The command line that asks it for something for some seconds.
    load: String,
}

impl Server {
    /// PostgreSQL, Redis and nginx; what is not installed is named instead.
    pub(crate) fn all() -> Result<(Vec<Self>, Vec<&'static str>)> {
        let started = [
            ("PostgreSQL", postgres().context("PostgreSQL")?),
            ("Redis", redis().context("Redis")?),
            ("nginx", nginx().context("nginx")?),
        ];
        let (mut servers, mut missing) = (Vec::new(), Vec::new());
        for (name, server) in started {
            match server {
                Some(server) => servers.push(server),
                None => missing.push(name),
            }
        }
        Ok((servers, missing))
    }

    /// Has it work.
    pub(crate) fn load(&self) -> Result<()> {
        run(&self.load, self.folder.path())
    }

    fn start(folder: tempfile::TempDir, line: &str, load: &str, socket: &str) -> Result<Self> {
        let mut command = as_nobody(line, folder.path());
        ends_with_us(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
        let server = Self { process, folder, load: load.to_owned() };
        let socket = server.folder.path().join(socket);
        until("a server to listen", || socket.exists().then_some(()))?;
        Ok(server)
    }
}

impl Drop for Server {
    /// All three take SIGINT for an order to end at once.
    fn drop(&mut self) {
        signal(self.process.id(), libc::SIGINT);
        let ended = until("a server to end", || self.process.try_wait().ok().flatten());
        if ended.is_err() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

fn postgres() -> Result<Option<Server>> {
    let versions = fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    let Some(programs) = programs.filter(|programs| programs.join("pgbench").is_file()).max()
    else {
        return Ok(None);
    };
    let (programs, folder) = (text(&programs)?, own_folder()?);
    let cluster = "-N -A trust -U nobody -E UTF8 --locale=C -D data";
    run(&format!("{programs}/initdb {cluster}"), folder.path())?;
    let here = text(folder.path())?.to_owned();
    let line = format!("{programs}/postgres -D data -k {here} -c listen_addresses= -c fsync=off");
    let asks = format!("{programs}/pgbench -h {here} -U nobody");
    let load = format!("{asks} -n -T 3 -c 4 postgres");
    let fill = format!("{asks} -i -q -s 2 postgres");
    let server = Server::start(folder, &line, &load, ".s.PGSQL.5432")?;
    // Its socket is there a moment before it answers.
    until("PostgreSQL to answer", || run(&fill, server.folder.path()).ok())?;
    Ok(Some(server))
}

fn redis() -> Result<Option<Server>> {
    if installed("redis-server").is_none() || installed("redis-benchmark").is_none() {
        return Ok(None);
    }
    let line = "redis-server --port 0 --unixsocket socket --save ";
    let load = "redis-benchmark -s socket -n 15000 -q -t set,get,lpush,lrange_100,mset,zadd";
    Server::start(own_folder()?, line, load, "socket").map(Some)
}

fn nginx() -> Result<Option<Server>> {
    let (Some(nginx), Some(_)) = (installed("nginx"), installed("curl")) else { return Ok(None) };
    let folder = own_folder()?;
    write(folder.path(), "nginx.conf", NGINX)?;
    write(
        folder.path(),
        "page",
        &"a page that is compressed each time it is asked for\n".repeat(2_000),
    )?;
    let line = format!("{} -e stderr -p . -c nginx.conf", text(&nginx)?);
    let load =
        "curl -sS --compressed --unix-socket socket -o /dev/null http://server/page?[1-3000]";
    Server::start(folder, &line, load, "socket").map(Some)
}

fn write(folder: &Path, name: &str, content: &str) -> Result<()> {
    let file = folder.join(name);
    fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
}

/// A folder that the ordinary user has for itself.
fn own_folder() -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("syscollect-server-").tempdir();
    let folder = folder.context("cannot create a folder")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))?;
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).context("cannot give a folder away")?;
    Ok(folder)
}

fn installed(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];
    folders.into_iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

fn as_nobody(line: &str, folder: &Path) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(folder).env("HOME", folder).uid(NOBODY).gid(NOBODY);
    command
}

fn run(line: &str, folder: &Path) -> Result<()> {
    let ended = finish(&mut as_nobody(line, folder))?;
    ensure!(ended.status.success(), "`{line}` ended with {}:\n{}", ended.status, ended.stderr);
    Ok(())
}
