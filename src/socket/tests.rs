//! Claims of several daemons on one place, and what may lie in their way.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::Barrier,
};

use super::{
    claim::{Claim, ClaimError, claim_with},
    endpoint::Offered,
};
use crate::{config::Paths, limits::SOCKET_PATH_BYTES_MAX};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn paths(&self) -> Paths {
        let below = |name: &str| self.0.path().join(name);
        Paths { config: below("config.toml"), runtime_dir: below("run"), state_dir: below("a/b/state") }
    }

    fn claim(&self) -> Result<Claim, ClaimError> {
        claim_with(&self.paths(), Offered::default())
    }

    fn refusal(&self) -> String {
        self.claim().unwrap_err().to_string()
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

/// R255: directories and sockets are the user's alone, whatever the umask says.
#[test]
fn what_is_made_is_the_users_alone() {
    let place = Place::new();
    let claim = place.claim().unwrap();
    let paths = place.paths();
    for dir in [&paths.runtime_dir, &paths.state_dir, &place.0.path().join("a")] {
        assert_eq!(mode(dir), 0o700, "{dir:?}");
    }
    for file in [paths.host_socket(), paths.control_socket(), paths.state_lock(), paths.runtime_lock()] {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    UnixStream::connect(paths.host_socket()).unwrap();
    drop(claim);
    assert!(!paths.host_socket().exists() && !paths.control_socket().exists());
    assert!(paths.state_lock().exists(), "a lock file is never unlinked");
}

/// R57: a second daemon is refused with the pid of the first, on either directory alone.
#[test]
fn a_second_daemon_is_told_who_is_there() {
    let place = Place::new();
    let first = place.claim().unwrap();
    let error = place.claim().unwrap_err();
    assert!(matches!(error, ClaimError::Owned { pid: Some(pid), .. } if pid == std::process::id()));
    assert_eq!(error.exit_code(), 100);
    let elsewhere = Place::new().paths();
    let other_runtime = Paths { runtime_dir: elsewhere.runtime_dir.clone(), ..place.paths() };
    let other_state = Paths { state_dir: elsewhere.state_dir.clone(), ..place.paths() };
    for paths in [other_runtime, other_state] {
        fs::create_dir_all(elsewhere.runtime_dir.parent().unwrap()).unwrap();
        let error = claim_with(&paths, Offered::default()).unwrap_err();
        assert!(matches!(error, ClaimError::Owned { .. }), "{error}");
    }
    fs::remove_dir_all(elsewhere.runtime_dir.parent().unwrap()).unwrap();
    drop(first);
    place.claim().unwrap();
}

/// R57: of twenty that start at once exactly one runs, with a stale socket in the way or without.
#[test]
fn of_twenty_at_once_exactly_one_is_the_daemon() {
    for stale in [false, true] {
        let place = Place::new();
        if stale {
            fs::create_dir(place.paths().runtime_dir).unwrap();
            fs::set_permissions(place.paths().runtime_dir, PermissionsExt::from_mode(0o700)).unwrap();
            drop(UnixListener::bind(place.paths().host_socket()).unwrap());
        }
        let gate = Barrier::new(20);
        let claims: Vec<_> = std::thread::scope(|scope| {
            let contender = || {
                gate.wait();
                place.claim()
            };
            let all: Vec<_> = (0..20).map(|_| scope.spawn(contender)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1);
        for refused in claims.iter().filter_map(|claim| claim.as_ref().err()) {
            assert!(matches!(refused, ClaimError::Owned { pid: Some(_), .. }), "{refused}");
        }
        UnixStream::connect(place.paths().host_socket()).unwrap();
    }
}

/// R57: what a killed daemon left behind is taken over.
#[test]
fn a_stale_socket_and_a_stale_pid_are_taken_over() {
    let place = Place::new();
    drop(place.claim().unwrap());
    fs::write(place.paths().state_lock(), "1\n").unwrap();
    drop(UnixListener::bind(place.paths().control_socket()).unwrap());
    assert!(fs::symlink_metadata(place.paths().control_socket()).unwrap().file_type().is_socket());
    let _claim = place.claim().unwrap();
    assert_eq!(fs::read_to_string(place.paths().state_lock()).unwrap(), format!("{}\n", std::process::id()));
}

/// R255: what belongs to something else is refused by name and left alone.
#[test]
fn what_is_no_stale_socket_is_never_unlinked() {
    let place = Place::new();
    drop(place.claim().unwrap());
    let path = place.paths().host_socket();

    fs::write(&path, "precious").unwrap();
    assert!(place.refusal().contains("host.sock: a regular file is there"), "{}", place.refusal());
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    assert!(place.refusal().contains("a directory is there"));
    fs::remove_dir(&path).unwrap();

    symlink("/dev/null", &path).unwrap();
    assert!(place.refusal().contains("a symbolic link is there"));
    fs::remove_file(&path).unwrap();

    let foreign = UnixListener::bind(&path).unwrap();
    assert!(place.refusal().contains("another program listens there"));
    UnixStream::connect(&path).unwrap();
    drop(foreign);
    place.claim().unwrap();
}

#[test]
fn a_socket_that_was_replaced_is_not_unlinked_at_the_end() {
    let place = Place::new();
    let claim = place.claim().unwrap();
    let path = place.paths().host_socket();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "somebody else's").unwrap();
    drop(claim);
    assert!(path.exists());
}

/// R255: a path that is too long names its length, the limit and the setting.
#[test]
fn a_path_that_is_too_long_names_the_limit_and_the_setting() {
    let place = Place::new();
    let room = SOCKET_PATH_BYTES_MAX - place.0.path().as_os_str().len() - "//control.sock".len();
    for (name, fits) in
        [("x".repeat(room), true), ("x".repeat(room + 1), false), ("ä".repeat(room / 2 + 1), false)]
    {
        let paths = Paths { runtime_dir: place.0.path().join(&name), ..place.paths() };
        let claimed = claim_with(&paths, Offered::default());
        assert_eq!(claimed.is_ok(), fits, "{claimed:?}");
        let Err(error) = claimed else { continue };
        let bytes = paths.control_socket().as_os_str().len();
        let said = error.to_string();
        assert!(
            said.contains(&format!("has {bytes} bytes of at most 107; set $XDG_RUNTIME_DIR or ACP")),
            "{said}"
        );
        assert!(!paths.runtime_dir.exists(), "nothing is made");
    }
}

/// R255: a directory that others can enter is refused.
#[test]
fn a_directory_open_to_others_is_refused() {
    let place = Place::new();
    drop(place.claim().unwrap());
    let dir = place.paths().runtime_dir;
    for open in [0o755, 0o701, 0o720, 0o777] {
        fs::set_permissions(&dir, PermissionsExt::from_mode(open)).unwrap();
        let said = place.refusal();
        assert!(
            said.contains(&format!("run: it is open to others (mode 0{open:o}); chmod 700 it")),
            "{said}"
        );
    }
    fs::remove_dir_all(&dir).unwrap();

    fs::write(&dir, "").unwrap();
    assert!(place.refusal().contains("is no directory"));
    fs::remove_file(&dir).unwrap();

    let target = place.0.path().join("target");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, PermissionsExt::from_mode(0o755)).unwrap();
    symlink(&target, &dir).unwrap();
    assert!(place.refusal().contains("is open to others"), "a link is judged by where it leads");
    fs::set_permissions(&target, PermissionsExt::from_mode(0o700)).unwrap();
    place.claim().unwrap();
}

#[test]
fn a_missing_parent_says_which_setting_decides() {
    let place = Place::new();
    let paths = Paths { runtime_dir: place.0.path().join("missing/run"), ..place.paths() };
    let said = claim_with(&paths, Offered::default()).unwrap_err().to_string();
    assert!(said.contains("missing/run: No such file") && said.contains("ACPVISOR_RUNTIME_DIR"), "{said}");
}

#[test]
fn sockets_of_a_service_manager_are_taken_and_left() {
    let place = Place::new();
    drop(place.claim().unwrap());
    let path = place.paths().host_socket();
    let host = Some(UnixListener::bind(&path).unwrap());
    let claim = claim_with(&place.paths(), Offered { host, control: None }).unwrap();
    UnixStream::connect(&path).unwrap();
    claim.host.accept().unwrap();
    assert_eq!(claim.host.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(claim);
    assert!(path.exists() && !place.paths().control_socket().exists());
}
