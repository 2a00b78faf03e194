//! A home of a session's own: private, and gone with the session (R230, R234).

use std::{
    ffi::OsString,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use super::environment::Variables;

/// Belong to the operator's home, so they end where another one begins.
const PREFIX: &str = "XDG_";

/// A private directory. Dropping it removes it with all that is in it.
#[derive(Debug)]
#[must_use = "the directory is removed when this is dropped"]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory of a session below `homes`, with a `tmp` in it; 0700, and empty.
    pub fn make(homes: &Path, session: &str) -> io::Result<Self> {
        let home = homes.join(session);
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true).create(homes)?;
        // What a daemon that was killed left under this name was of an end that is over.
        let _ = fs::remove_dir_all(&home);
        private.recursive(false).create(&home)?;
        let scratch = Self(home);
        private.create(scratch.0.join("tmp"))?;
        Ok(scratch)
    }

    /// Removes what a former daemon left.
    pub fn sweep(homes: &Path) {
        let _ = fs::remove_dir_all(homes);
    }

    /// Points an environment at this home; what the agent's own `env` names stays (R232).
    pub fn furnish(&self, env: &mut Vec<(OsString, OsString)>, own: &Variables) {
        let of_the_operator = |name: &OsString| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        env.retain(|(name, _)| own.contains_key(name) || !of_the_operator(name));
        for (name, value) in [("HOME", self.0.clone()), ("TMPDIR", self.0.join("tmp"))] {
            if !own.contains_key(std::ffi::OsStr::new(name)) {
                env.retain(|(known, _)| known != name);
                env.push((name.into(), value.into()));
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(home = %self.0.display(), %error, "scratch home was not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// R234: private, of this session, and gone with it.
    #[test]
    fn a_scratch_home_is_private_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let homes = dir.path().join("homes");
        let scratch = Scratch::make(&homes, "s").unwrap();
        let home = homes.join("s");
        assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(home.join("tmp/x"), "x").unwrap();
        drop(scratch);
        assert!(!home.exists() && homes.exists());
    }

    /// R230, R232: HOME and TMPDIR lie in it, nothing of the operator's XDG directories is left, `env` wins.
    #[test]
    fn an_environment_is_pointed_at_it() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(dir.path(), "s").unwrap();
        let pair = |n: &str, v: &str| (OsString::from(n), OsString::from(v));
        let all = || vec![pair("HOME", "/root"), pair("XDG_DATA_HOME", "/d"), pair("PATH", "/bin")];
        let mut env = all();
        scratch.furnish(&mut env, &Variables::new());
        assert!(env.contains(&pair("HOME", dir.path().join("s").to_str().unwrap())));
        assert!(env.iter().all(|(n, _)| n != "XDG_DATA_HOME") && env.contains(&pair("PATH", "/bin")));
        let own = Variables::from([pair("HOME", "/x"), pair("XDG_DATA_HOME", "/d")]);
        let mut env = vec![pair("HOME", "/x"), pair("XDG_DATA_HOME", "/d")];
        scratch.furnish(&mut env, &own);
        assert_eq!(env.len(), 3);
        assert!(env.contains(&pair("HOME", "/x")) && env.contains(&pair("XDG_DATA_HOME", "/d")));
    }
}
