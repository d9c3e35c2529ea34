//! Which held placeholder serves which Pod that still has to land.

/// For each need the index of the placeholder that serves it, or `None`. A maximum matching: as many needs as possible
/// are served; earlier needs win over later ones.
#[must_use]
pub fn maximum(needs: usize, held: usize, serves: impl Fn(usize, usize) -> bool) -> Vec<Option<usize>> {
    let mut search = Search { serves, need_of: vec![None; held], seen: Vec::new() };
    for need in 0..needs {
        search.seen = vec![false; held];
        // An augmenting path moves needs that are served to other placeholders and never leaves one without.
        search.place(need);
    }
    let mut placeholder_of = vec![None; needs];
    for (placeholder, need) in search.need_of.iter().enumerate() {
        if let Some(need) = need {
            placeholder_of[*need] = Some(placeholder);
        }
    }
    placeholder_of
}

struct Search<F> {
    serves: F,
    need_of: Vec<Option<usize>>,
    seen: Vec<bool>,
}

impl<F: Fn(usize, usize) -> bool> Search<F> {
    /// Kuhn's algorithm: finds the need a placeholder, if necessary by finding others for those that have one.
    fn place(&mut self, need: usize) -> bool {
        for placeholder in 0..self.need_of.len() {
            if self.seen[placeholder] || !(self.serves)(need, placeholder) {
                continue;
            }
            self.seen[placeholder] = true;
            if self.need_of[placeholder].is_none_or(|other| self.place(other)) {
                self.need_of[placeholder] = Some(need);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by(edges: &[Vec<bool>], held: usize) -> Vec<Option<usize>> {
        maximum(edges.len(), held, |need, placeholder| edges[need][placeholder])
    }

    #[test]
    fn a_big_need_gets_the_big_placeholder_that_a_small_one_would_take() {
        // The small Pod fits both placeholders and comes first; the big one fits only the first.
        assert_eq!(by(&[vec![true, true], vec![true, false]], 2), [Some(1), Some(0)]);
    }

    #[test]
    fn where_not_all_can_be_served_the_earlier_needs_are() {
        assert_eq!(by(&[vec![true], vec![true]], 1), [Some(0), None]);
    }

    #[test]
    fn no_placeholders_serve_nothing() {
        assert_eq!(by(&[vec![], vec![]], 0), [None, None]);
    }

    /// The lexicographically first set of needs that can be served together, by trying everything.
    fn brute_force(edges: &[Vec<bool>], need: usize, used: &mut Vec<bool>) -> Vec<bool> {
        if need == edges.len() {
            return Vec::new();
        }
        let mut best = {
            let mut rest = brute_force(edges, need + 1, used);
            rest.insert(0, false);
            rest
        };
        for placeholder in 0..used.len() {
            if edges[need][placeholder] && !used[placeholder] {
                used[placeholder] = true;
                let mut rest = brute_force(edges, need + 1, used);
                used[placeholder] = false;
                rest.insert(0, true);
                best = best.max(rest);
            }
        }
        best
    }

    proptest! {
        #[test]
        fn as_many_as_possible_are_served_and_earlier_needs_win(
            edges in (0..6_usize).prop_flat_map(|held| prop::collection::vec(prop::collection::vec(any::<bool>(), held), 0..6)),
        ) {
            let held = edges.first().map_or(0, Vec::len);
            let found = by(&edges, held);
            let mut taken: Vec<_> = found.iter().flatten().collect();
            taken.sort();
            taken.dedup();
            prop_assert_eq!(taken.len(), found.iter().flatten().count(), "no placeholder serves two");
            for (need, placeholder) in found.iter().enumerate() {
                prop_assert!(placeholder.is_none_or(|placeholder| edges[need][placeholder]));
            }
            let best = brute_force(&edges, 0, &mut vec![false; held]);
            prop_assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), best);
        }
    }
}
