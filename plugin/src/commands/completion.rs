//! `kubectl rotate completion`: scripts for shells, and the program that kubectl asks.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use rotate_shared::exit;

use super::Ended;
use crate::cli::{Cli, CompletionArgs, quoted};
use crate::failure::Failure;
use crate::session::Session;

/// The beginning of a plugin's name.
const PLUGIN: &str = "kubectl-";
/// The beginning of the name of the program that completes it.
const COMPLETES: &str = "kubectl_complete-";

pub(super) fn run(session: &Session, args: &CompletionArgs) -> Ended {
    if let Some(shell) = args.shell {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "kubectl-rotate", &mut script);
        session.console.raw(&String::from_utf8_lossy(&script))?;
    }
    if args.install {
        install(session)?;
    }
    Ok(exit::DONE)
}

fn install(session: &Session) -> Result<(), Failure> {
    let program = program(env::args_os().next().map(PathBuf::from))
        .ok_or_else(|| Failure::Other("where this program is cannot be found out: call it by its path".to_owned()))?;
    let (directory, link) = beside(&program)?;
    match put(&program, &link) {
        Ok(Put::New) => session.console.data(&format!("{} created\n", link.display()))?,
        Ok(Put::Same) => session.console.data(&format!("{} unchanged\n", link.display()))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::Other(format!("{} is there already, and not ours: remove it first", link.display())));
        }
        Err(error) => {
            let (line, meaning) = by_hand(&program, &link);
            session.console.data(&format!("{line}\n"))?;
            return Err(Failure::Other(format!("{} cannot be written: {error}; {meaning}", directory.display())));
        }
    }
    let searched = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&searched).any(|path| path == directory) {
        session.console.warning(&format!(
            "{} is not in PATH: kubectl finds neither this program nor its completion there",
            directory.display()
        ));
    }
    Ok(())
}

/// Where the program was found, not where links lead: krew's links are in PATH, what they lead to is not.
fn program(called: Option<PathBuf>) -> Option<PathBuf> {
    let called = called?;
    let found = if called.components().count() > 1 {
        Some(called)
    } else {
        let searched = env::var_os("PATH")?;
        env::split_paths(&searched).map(|directory| directory.join(&called)).find(|path| path.is_file())
    };
    let found = found.or_else(|| env::current_exe().ok())?;
    std::path::absolute(found).ok()
}

/// The folder of a program, and what is called there to complete it.
fn beside(program: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let name = program.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PLUGIN));
    let (Some(name), Some(directory)) = (name, program.parent()) else {
        return Err(Failure::Other(format!(
            "{} is not called kubectl-…: kubectl does not take it for a plugin",
            program.display()
        )));
    };
    let name = format!("{COMPLETES}{name}");
    let name = if cfg!(windows) { format!("{}.cmd", name.trim_end_matches(".exe")) } else { name };
    Ok((directory.to_owned(), directory.join(name)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    New,
    Same,
}

/// A link to whatever is called like the program in the same folder, so that it stays right when that is upgraded.
#[cfg(unix)]
fn put(program: &Path, link: &Path) -> io::Result<Put> {
    let target = Path::new(program.file_name().unwrap_or_default());
    match std::fs::read_link(link) {
        Ok(there) if there == target => Ok(Put::Same),
        // Another link, or something else altogether.
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => std::os::unix::fs::symlink(target, link).map(|()| Put::New),
    }
}

/// A script that calls the program in the same folder: links need a privilege there.
#[cfg(not(unix))]
fn put(program: &Path, link: &Path) -> io::Result<Put> {
    let script = format!("{}\r\n", script(program));
    match std::fs::read_to_string(link) {
        Ok(there) if there == script => Ok(Put::Same),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => std::fs::write(link, script).map(|()| Put::New),
    }
}

/// The line of such a script.
fn script(program: &Path) -> String {
    format!("@\"%~dp0{}\" __complete %*", program.file_name().unwrap_or_default().to_string_lossy())
}

/// A line for who has more rights, and what is to be done with it.
fn by_hand(program: &Path, link: &Path) -> (String, String) {
    if cfg!(windows) {
        return (script(program), format!("the line above belongs into {}", link.display()));
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let (name, link) = (quoted(&name), quoted(&link.display().to_string()));
    (format!("sudo ln -s {name} {link}"), "the line above does it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_completes_a_plugin_stands_beside_it() {
        let beside = |path: &str| beside(Path::new(path)).map(|(_, link)| link.display().to_string());
        assert_eq!(beside("/opt/bin/kubectl-rotate").ok().as_deref(), Some("/opt/bin/kubectl_complete-rotate"));
        assert_eq!(
            beside("/opt/bin/kubectl-rotate_node").ok().as_deref(),
            Some("/opt/bin/kubectl_complete-rotate_node")
        );
        assert!(beside("/opt/bin/rotate").is_err());
    }

    #[test]
    fn a_link_is_made_once_and_nothing_is_written_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let (program, link) =
            (directory.path().join("kubectl-rotate"), directory.path().join("kubectl_complete-rotate"));
        std::fs::write(&program, "").expect("it can be written");
        assert_eq!(put(&program, &link).ok(), Some(Put::New));
        assert_eq!(put(&program, &link).ok(), Some(Put::Same));
        std::fs::remove_file(&link).expect("it is there");
        std::fs::write(&link, "somebody's").expect("it can be written");
        assert_eq!(put(&program, &link).map_err(|error| error.kind()).err(), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read_to_string(&link).ok().as_deref(), Some("somebody's"));
    }

    #[test]
    fn the_line_to_type_survives_a_shell() {
        let (line, _) = by_hand(Path::new("/my bin/kubectl-rotate"), Path::new("/my bin/kubectl_complete-rotate"));
        assert_eq!(line, "sudo ln -s kubectl-rotate '/my bin/kubectl_complete-rotate'");
        // cmd.exe knows no single quotes, and a link to a program does not get the word that asks it for completion.
        assert_eq!(script(Path::new("/my bin/kubectl-rotate.exe")), "@\"%~dp0kubectl-rotate.exe\" __complete %*");
    }
}
