//! Finds the program of an agent the way its own shell would, in the PATH that the agent will have (R230).

use std::{
    env,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

use super::spawn::SpawnError;

/// The path to run. A path is taken as it is; a name is searched. Entries of PATH that depend on a working
/// directory are left out: what a project holds must not become the agent.
pub(super) fn locate(program: &Path, path: &OsStr) -> Result<PathBuf, SpawnError> {
    if program.is_absolute() {
        return Ok(program.to_owned());
    }
    if program.as_os_str().as_bytes().contains(&b'/') {
        return Err(SpawnError::Relative { program: program.to_owned() });
    }
    let places = env::split_paths(path).filter(|directory| directory.is_absolute());
    places.map(|directory| directory.join(program)).find(|candidate| runs(candidate)).ok_or_else(|| {
        SpawnError::NotFound { program: program.to_owned(), path: path.to_string_lossy().into_owned() }
    })
}

fn runs(candidate: &Path) -> bool {
    candidate.is_file() && access(candidate, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(directory: &Path, name: &str, mode: u32) {
        std::fs::write(directory.join(name), "").expect("written");
        std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(mode)).expect("set");
    }

    /// R230: the first place that holds a program of that name counts; what cannot run is passed over.
    #[test]
    fn a_name_is_searched_in_the_order_of_the_path() {
        let (first, second) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
        file(first.path(), "agent", 0o644);
        file(second.path(), "agent", 0o755);
        std::fs::create_dir(first.path().join("other")).expect("made");
        file(second.path(), "other", 0o755);
        let path = env::join_paths([first.path(), second.path()]).expect("joined");
        for name in ["agent", "other"] {
            assert_eq!(locate(name.as_ref(), &path).expect("found"), second.path().join(name));
        }
    }

    /// R230: a program that is not found names the PATH searched.
    #[test]
    fn a_missing_program_names_the_path_searched() {
        let error = locate("no-such-agent".as_ref(), "/nowhere:/else".as_ref()).expect_err("missing");
        let text = error.to_string();
        assert!(text.contains("no-such-agent") && text.contains("/nowhere:/else"), "{text}");
    }

    #[test]
    fn nothing_is_searched_relative_to_a_working_directory() {
        assert!(matches!(locate("src/x".as_ref(), "/bin".as_ref()), Err(SpawnError::Relative { .. })));
        for path in ["", ".", "src:.:bin"] {
            assert!(matches!(locate("Cargo.toml".as_ref(), path.as_ref()), Err(SpawnError::NotFound { .. })));
        }
    }
}
