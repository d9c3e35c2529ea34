//! Everything that is printed: data on stdout, everything else on stderr.

pub(crate) mod age;
pub(crate) mod console;
pub(crate) mod escape;
pub(crate) mod fleet;
pub(crate) mod fold;
pub(crate) mod format;
pub(crate) mod live;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod rotation;
pub(crate) mod table;

pub(crate) use console::Console;
pub(crate) use format::Format;
