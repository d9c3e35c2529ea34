//! The scenarios, by what they are about.

mod cluster_api;
mod crash;
mod drain;
mod groups;
mod karpenter;
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
    /// Whether the simulator has what it needs.
    pub(crate) simulated: bool,
}

/// Makes a [`Case`] of an async function on a `&World`, named after the function, with its theme before that if there is one.
macro_rules! cases {
    ($theme:literal: $($function:ident),* $(,)?) => {
        vec![$($crate::cases::Case {
            name: concat!($theme, "::", stringify!($function)),
            run: |world| Box::pin($function(world)),
            simulated: true,
        }),*]
    };
    ($($function:ident),* $(,)?) => {
        vec![$($crate::cases::Case {
            name: stringify!($function),
            run: |world| Box::pin($function(world)),
            simulated: true,
        }),*]
    };
}
use cases;

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    // Those that take longest come first, so that none is left to run alone.
    [
        karpenter::cases(),
        surge::cases(),
        drain::cases(),
        refusals::cases(),
        crash::cases(),
        groups::cases(),
        likeness::cases(),
        cluster_api::cases(),
    ]
    .concat()
}
