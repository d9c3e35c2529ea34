//! Which held placeholder serves which Pod that still has to land.

/// For each need the index of the placeholder that serves it, or `None`. A maximum matching: as many needs as possible
/// are served; earlier needs win over later ones.
#[must_use]
pub fn maximum(_needs: usize, _held: usize, _serves: impl Fn(usize, usize) -> bool) -> Vec<Option<usize>> {
    unimplemented!()
}
