//! The scenarios, by what they are about.

mod crash;
mod drain;
mod likeness;
mod refusals;
mod surge;

use std::pin::Pin;

use anyhow::Result;

use crate::world::World;

/// A scenario's future.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// A scenario: its name is the sentence that it shows.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a World) -> Running<'a>,
}

/// Makes a [`Case`] of an async function on a `&World`, named after the function.
macro_rules! cases {
    ($($function:ident),* $(,)?) => {
        vec![$($crate::cases::Case { name: stringify!($function), run: |world| Box::pin($function(world)) }),*]
    };
}
use cases;

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    [surge::cases(), drain::cases(), refusals::cases(), crash::cases(), likeness::cases()].concat()
}
