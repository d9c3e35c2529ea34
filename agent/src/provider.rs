//! What stands behind a node: who brings new ones, and who takes this one away.

use rotate_shared::Options;
use rotate_shared::options::Then;
use rotate_shared::plan::Provider;

use crate::cache::Node;

/// Detects the provider by the node's labels and annotations.
#[must_use]
pub fn detect(_node: &Node) -> Provider {
    unimplemented!()
}

/// What becomes of the empty node: as asked, or the provider's default.
#[must_use]
pub fn then(options: &Options, _provider: Provider) -> Then {
    options.then.unwrap_or(Then::Keep)
}
