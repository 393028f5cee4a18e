//! The names of unlikely parts of functions, which gcc collects in one section. The part of `f` has
//! a symbol `f.cold`.

use foldhash::{HashMap, HashMapExt};
use std::collections::BTreeMap;

/// A section and an offset.
pub(crate) type Place = (usize, u64);
/// Names of functions by place, without the suffix of an unlikely part, and whether it was there.
pub(crate) type Functions<'a> = BTreeMap<Place, Vec<(&'a str, bool)>>;

/// Returns the functions of unlikely parts, by the part's place: of those parts that are the only
/// one of their name and alone at their place, if one function has the name. After `ld -r` there
/// may be several.
pub(crate) fn wholes(functions: &Functions<'_>) -> HashMap<Place, Place> {
    let parts = || functions.iter().filter(|(_, here)| here.iter().any(|(_, cold)| *cold));
    let mut named = HashMap::<&str, [Vec<Place>; 2]>::new();
    for (name, _) in parts().flat_map(|(_, here)| here) {
        named.entry(name).or_default();
    }
    for (place, here) in functions {
        for (name, cold) in here {
            if let Some(places) = named.get_mut(name) {
                places[usize::from(!cold)].push(*place);
            }
        }
    }
    let only = |(place, here): (&Place, &Vec<(&str, bool)>)| match (&here[..], named.get(here[0].0)) {
        ([_], Some([parts, wholes])) if parts.len() == 1 && wholes.len() == 1 => Some((*place, wholes[0])),
        _ => None,
    };
    parts().filter_map(only).collect()
}

/// Splits off the suffix that compilers give to a function's unlikely part. Says whether it was
/// there.
pub(crate) fn stem(name: &str) -> (&str, bool) {
    match name.split_once(".cold") {
        Some((stem, rest)) if rest.strip_prefix('.').unwrap_or(rest).bytes().all(|b| b.is_ascii_digit()) => {
            (stem, true)
        }
        _ => (name, false),
    }
}
