//! Flags that are on or off, given as kubectl takes them: `--wait`, `--wait=false`, and never `--wait false`.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction};

/// What a switch is where it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// On.
    On,
    /// Off, which help need not say.
    Off,
    /// Neither: whoever is asked decides.
    Ungiven,
}

/// Makes a flag one.
pub(super) trait SwitchArg {
    /// One that is this where it is not given.
    fn switch(self, ungiven: Switch) -> Self;
}

impl SwitchArg for Arg {
    fn switch(self, ungiven: Switch) -> Self {
        let flag = self
            .action(ArgAction::Set)
            .value_parser(boolean())
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true");
        match ungiven {
            Switch::On => flag.default_value("true"),
            Switch::Off => flag.default_value("false").hide_default_value(true),
            Switch::Ungiven => flag,
        }
    }
}

/// Booleans as Go reads them, so that `--force=false` means what it does in kubectl.
fn boolean() -> ValueParser {
    ValueParser::new(|text: &str| match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is true or false"),
    })
}
