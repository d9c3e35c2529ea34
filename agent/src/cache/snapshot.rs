//! A [`State`] from saved objects: what `plan --from FILE` reads.
