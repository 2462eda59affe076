use super::*;
use std::fs;
use std::io::Write;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_under_its_name_only_when_it_is_finished() {
    let folder = folder();
    let target = Target::new(&folder.path().join("x.pftrace"), false, None).unwrap();
    let draft = target.draft().unwrap();
    draft.file().write_all(b"whole").unwrap();
    assert!(!folder.path().join("x.pftrace").exists());
    let path = draft.publish(&target).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(names(folder.path()), ["x.pftrace"]);
}

#[test]
fn an_unfinished_file_leaves_nothing_behind() {
    let folder = folder();
    let target = Target::new(&folder.path().join("x.pftrace"), false, None).unwrap();
    drop(target.draft().unwrap());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_was_written_until_a_panic_is_kept_as_a_draft() {
    let folder = folder();
    let target = Target::new(&folder.path().join("x.syscap"), false, None).unwrap();
    let panicked = std::thread::spawn(move || {
        let draft = target.draft().unwrap();
        draft.file().write_all(b"recorded").unwrap();
        // No message: nothing is wrong with the test.
        std::panic::resume_unwind(Box::new("as a defect would"));
    });
    assert!(panicked.join().is_err());
    let names = names(folder.path());
    let [draft] = names.as_slice() else { panic!("{names:?}") };
    assert_eq!(fs::read(folder.path().join(draft)).unwrap(), b"recorded");
}

#[test]
fn an_existing_file_is_kept_unless_force_is_given() {
    let folder = folder();
    let path = folder.path().join("x.pftrace");
    fs::write(&path, "old").unwrap();
    let message = Target::new(&path, false, None).unwrap_err().to_string();
    assert!(message.contains("x.pftrace exists") && message.contains("--force"), "{message}");

    let target = Target::new(&path, true, None).unwrap();
    let draft = target.draft().unwrap();
    draft.file().write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old", "until the new one is finished");
    draft.publish(&target).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_file_that_comes_while_we_write_is_kept_and_so_is_ours() {
    let folder = folder();
    let target = Target::new(&folder.path().join("x.pftrace"), false, None).unwrap();
    let draft = target.draft().unwrap();
    draft.file().write_all(b"ours").unwrap();
    let draft_path = draft.path();
    fs::write(target.path(), "theirs").unwrap();
    let message = format!("{:#}", draft.publish(&target).unwrap_err());
    assert!(message.contains(draft_path.to_str().unwrap()), "{message}");
    assert_eq!(fs::read(target.path()).unwrap(), b"theirs");
    assert_eq!(fs::read(draft_path).unwrap(), b"ours");
}

#[test]
fn no_rename_replaces_a_file_unasked() {
    let folder = folder();
    let handle = Folder::open(folder.path()).unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    fs::write(folder.path().join("b"), "b").unwrap();
    let error = handle.rename("a".as_ref(), "b".as_ref(), false).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    handle.rename("a".as_ref(), "b".as_ref(), true).unwrap();
    assert_eq!(fs::read(folder.path().join("b")).unwrap(), b"a");
}

#[test]
fn a_missing_folder_is_named_with_the_way_out() {
    let folder = folder();
    let missing = folder.path().join("missing");
    let message =
        format!("{:#}", Target::new(&missing.join("x.pftrace"), false, None).unwrap_err());
    assert!(
        message.contains(missing.to_str().unwrap()) && message.contains("create it"),
        "{message}"
    );
    fs::write(&missing, "").unwrap();
    let message =
        format!("{:#}", Target::new(&missing.join("x.pftrace"), false, None).unwrap_err());
    assert!(message.contains("is a file, not a folder"), "{message}");
}

#[test]
fn something_else_than_a_file_is_refused() {
    let folder = folder();
    fs::create_dir(folder.path().join("x.pftrace")).unwrap();
    let message =
        Target::new(&folder.path().join("x.pftrace"), true, None).unwrap_err().to_string();
    assert!(message.contains("no plain file"), "{message}");
}

#[cfg(unix)]
mod on_unix {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_file_is_its_owners_alone() {
        let folder = folder();
        let target = Target::new(&folder.path().join("x.pftrace"), false, None).unwrap();
        let path = target.draft().unwrap().publish(&target).unwrap();
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_symbolic_link_is_neither_followed_nor_replaced() {
        let folder = folder();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, folder.path().join("x.pftrace")).unwrap();
        for force in [false, true] {
            let message =
                Target::new(&folder.path().join("x.pftrace"), force, None).unwrap_err().to_string();
            assert!(message.contains("symbolic link"), "{message}");
        }
        symlink(&victim, folder.path().join("y.syscap.partial")).unwrap();
        let target = Target::new(&folder.path().join("y.pftrace"), false, None).unwrap();
        assert!(target.draft_named("y.syscap.partial".into()).is_err());
        assert_eq!(fs::read(victim).unwrap(), b"precious");
    }

    #[test]
    fn a_link_of_another_user_on_the_way_leads_nothing_elsewhere() {
        let folder = folder();
        let [sub, elsewhere] = ["sub", "elsewhere"].map(|name| folder.path().join(name));
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &sub).unwrap();
        Target::new(&sub.join("x.pftrace"), false, None).expect("its own link is followed");
        // Only root can give it to somebody else.
        if std::os::unix::fs::lchown(&sub, Some(12_345), None).is_ok() {
            let error = Target::new(&sub.join("x.pftrace"), true, None).unwrap_err().to_string();
            let says = format!("{} is a symbolic link of user 12345", sub.display());
            assert!(error.contains(&says), "{error}");
        }
    }

    #[test]
    fn files_of_root_go_to_the_user_who_called_sudo() {
        let folder = folder();
        // SAFETY: no preconditions.
        let root = unsafe { libc::geteuid() } == 0;
        // Giving a file to oneself is allowed to everybody, so this runs anywhere.
        let owner = match (root, fs::metadata(folder.path()).unwrap()) {
            (true, _) => Owner { uid: 12_345, gid: 54_321 },
            (false, own) => Owner { uid: own.uid(), gid: own.gid() },
        };
        let target = Target::new(&folder.path().join("x.pftrace"), false, Some(owner)).unwrap();
        let path = target.draft().unwrap().publish(&target).unwrap();
        let metadata = fs::metadata(path).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (owner.uid, owner.gid));
    }
}
