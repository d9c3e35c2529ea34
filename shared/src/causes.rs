//! Errors with the causes beneath them, as people are told of them.

use std::error::Error;

/// An error with its causes, each said once: many say those beneath them themselves.
#[must_use]
pub fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

/// What really happened, without all that it went through.
#[must_use]
pub fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    // The system's number of an error is for programs.
    match text.rsplit_once(" (os error ") {
        Some((words, number)) if number.trim_end_matches(')').parse::<i32>().is_ok() => words.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to start")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("failed to read it: {0}")]
    struct Middle(#[source] io::Error);

    #[test]
    fn each_cause_is_said_once() {
        let error = Outer(Middle(io::Error::other("no such file")));
        assert_eq!(whole(&error), "failed to start: failed to read it: no such file");
    }

    #[test]
    fn what_really_happened_is_said_without_the_systems_number() {
        let error = Outer(Middle(io::Error::other("Connection refused (os error 111)")));
        assert_eq!(innermost(&error), "Connection refused");
        assert_eq!(innermost(&Outer(Middle(io::Error::other("x (os error y)")))), "x (os error y)");
    }
}
