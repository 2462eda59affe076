//! Debug files of servers: a server in this process, and the real client.

use crate::links::Libc;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use syscollect_fixtures::server::{redirect, response, serve};
use syscollect_model::BuildId;
use syscollect_symbolize::debuginfod::{Debuginfod, DebuginfodError, DebuginfodOptions};

fn client(servers: &[&str], cache: &Path) -> Debuginfod {
    Debuginfod::new(DebuginfodOptions {
        servers: servers.iter().map(ToString::to_string).collect(),
        cache: cache.into(),
        file_bytes_max: 100 << 20,
        stall: Duration::from_secs(1),
        file_time: Duration::from_secs(60),
    })
}

fn fetch(servers: &[&str], cache: &Path, libc: &Libc) -> Result<u64, DebuginfodError> {
    let fetched = client(servers, cache).fetch(&libc.build_id, &|| false)?;
    assert_eq!(fetched.path, place(cache, &libc.build_id));
    assert_eq!(fs::read(fetched.path).unwrap(), libc.bytes);
    Ok(fetched.fetched)
}

fn place(cache: &Path, build_id: &BuildId) -> std::path::PathBuf {
    cache.join(build_id.to_string()).join("debuginfo")
}

/// Files in the cache, by their names.
fn files(cache: &Path, build_id: &BuildId) -> Vec<String> {
    let listed = fs::read_dir(cache.join(build_id.to_string())).unwrap();
    listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_a_server_sent_is_kept_as_other_clients_keep_it_and_not_asked_for_again() {
    let (libc, cache) = (Libc::read(), tempfile::tempdir().unwrap());
    let bytes = libc.bytes.clone();
    let (url, asked) = serve(move |_| response("200 OK", &bytes));
    assert_eq!(fetch(&[&url], cache.path(), &libc).unwrap(), libc.bytes.len() as u64);
    assert_eq!(fetch(&[&url], cache.path(), &libc).unwrap(), 0);
    let path = format!("/buildid/{}/debuginfo", libc.build_id);
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), [path]);
    assert_eq!(files(cache.path(), &libc.build_id), ["debuginfo"], "no drafts are left");
    // Without any server it is there still.
    assert_eq!(fetch(&[], cache.path(), &libc).unwrap(), 0);
}

#[test]
fn that_no_server_has_a_file_is_known_for_ten_minutes() {
    let (libc, cache) = (Libc::read(), tempfile::tempdir().unwrap());
    let (url, asked) = serve(|_| response("404 Not Found", b"not found"));
    for _ in 0..3 {
        let error = fetch(&[&url], cache.path(), &libc).unwrap_err();
        assert!(matches!(error, DebuginfodError::Absent), "{error}");
    }
    assert_eq!(asked.try_iter().count(), 1);
    grow_old(&place(cache.path(), &libc.build_id));
    assert!(fetch(&[&url], cache.path(), &libc).is_err());
    assert_eq!(asked.try_iter().count(), 1);
    // Meanwhile a server got it.
    let bytes = libc.bytes.clone();
    let (other, _asked) = serve(move |_| response("200 OK", &bytes));
    grow_old(&place(cache.path(), &libc.build_id));
    assert!(fetch(&[&url, &other], cache.path(), &libc).unwrap() > 0);
}

fn grow_old(path: &Path) {
    let noted = File::options().write(true).open(path).unwrap();
    noted.set_modified(SystemTime::now() - Duration::from_secs(700)).unwrap();
}

#[test]
fn a_server_that_hangs_is_left_and_the_next_one_is_asked() {
    let (libc, cache) = (Libc::read(), tempfile::tempdir().unwrap());
    let (hangs, asked) = serve(|_| {
        thread::sleep(Duration::from_secs(3600));
        Vec::new()
    });
    let begin = Instant::now();
    let mut client = client(&[&hangs], cache.path());
    let error = client.fetch(&libc.build_id, &|| false).unwrap_err();
    assert!(error.to_string().contains("is left: "), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    let error = client.fetch(&libc.build_id, &|| false).unwrap_err();
    assert!(matches!(error, DebuginfodError::NoServerLeft), "it is asked once: {error}");
    assert!(asked.try_iter().next().is_none() && files(cache.path(), &libc.build_id).is_empty());
    let bytes = libc.bytes.clone();
    let (answers, _asked) = serve(move |_| response("200 OK", &bytes));
    let (stalls, _asked) = serve(|_| {
        thread::sleep(Duration::from_secs(3600));
        Vec::new()
    });
    assert!(fetch(&[&stalls, &answers], cache.path(), &libc).unwrap() > 0);
}

#[test]
fn what_is_too_large_or_not_what_was_asked_for_is_not_kept() {
    let libc = Libc::read();
    let mut other = libc.bytes.clone();
    let id = libc.build_id.as_bytes();
    let at = other.windows(id.len()).position(|bytes| bytes == id).unwrap();
    other[at] ^= 1;
    let endless = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![7; 3 << 20]].concat();
    for (answer, reason) in [
        (endless, "more than 1048576 bytes"),
        (response("200 OK", b"<html>please log in</html>"), "no ELF file with the build id"),
        (response("200 OK", &other[..1 << 19]), "no ELF file with the build id"),
        (response("503 Service Unavailable", b""), "503"),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let (url, _asked) = serve(move |_| answer.clone());
        let mut client = Debuginfod::new(DebuginfodOptions {
            servers: vec![url],
            cache: cache.path().into(),
            file_bytes_max: 1 << 20,
            stall: Duration::from_secs(10),
            file_time: Duration::from_secs(60),
        });
        let error = client.fetch(&libc.build_id, &|| false).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert!(files(cache.path(), &libc.build_id).is_empty(), "{reason}");
    }
}

#[test]
fn a_server_may_lead_to_another_place_but_to_no_file_of_this_machine() {
    let (libc, cache) = (Libc::read(), tempfile::tempdir().unwrap());
    let bytes = libc.bytes.clone();
    let (elsewhere, _asked) = serve(move |_| response("200 OK", &bytes));
    let own = cache.path().join("own");
    fs::write(&own, &libc.bytes).unwrap();
    let inside = format!("file://{}", own.display());
    let (url, _asked) = serve(move |_| redirect(&inside));
    assert!(fetch(&[&url], cache.path(), &libc).is_err());
    let (url, _asked) = serve(move |_| redirect(&elsewhere));
    assert!(fetch(&[&url], cache.path(), &libc).unwrap() > 0);
    // And not in circles.
    let cache = tempfile::tempdir().unwrap();
    let (url, asked) = serve(redirect);
    assert!(fetch(&[&url], cache.path(), &libc).is_err());
    assert!(asked.try_iter().count() < 10);
}

#[test]
fn nobody_waits_for_what_nobody_wants() {
    let (libc, cache) = (Libc::read(), tempfile::tempdir().unwrap());
    let bytes = libc.bytes.clone();
    let (url, _asked) = serve(move |_| response("200 OK", &bytes));
    let mut client = client(&[&url], cache.path());
    let error = client.fetch(&libc.build_id, &|| true).unwrap_err();
    assert!(error.to_string().contains("abandoned"), "{error}");
    assert!(files(cache.path(), &libc.build_id).is_empty());
    assert!(client.fetch(&libc.build_id, &|| false).is_ok(), "it is not the server's fault");
}
