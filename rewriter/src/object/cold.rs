//! The names of cold parts: the code of functions that gcc takes to be unlikely and collects in one
//! section. The part of `f` has a symbol `f.cold`.

use crate::object::read::{Object, Place, SymbolIndex};
use foldhash::{HashMap, HashMapExt};

/// The functions of cold parts, by symbol: those parts that are the only one of their name, if one
/// function has the name. After `ld -r` there may be several.
#[derive(Default)]
pub(crate) struct Wholes(HashMap<SymbolIndex, SymbolIndex>);

impl Wholes {
    /// Finds the functions of all cold parts.
    pub(crate) fn find(object: &Object<'_>) -> Wholes {
        let functions = || object.symbols.iter().enumerate().filter(|(_, symbol)| symbol.is_function());
        let mut named = HashMap::<&[u8], [Vec<SymbolIndex>; 2]>::new();
        for (index, part) in functions() {
            if let (name, true) = stem(part.name)
                && part.size != 0
            {
                named.entry(name).or_default()[0].push(index);
            }
        }
        for (index, function) in functions() {
            if let (Some([_, wholes]), Place::Section(_)) = (named.get_mut(function.name), function.place) {
                wholes.push(index);
            }
        }
        let only = named.values().filter_map(|[parts, wholes]| match (&parts[..], &wholes[..]) {
            (&[part], &[whole]) => Some((part, whole)),
            _ => None,
        });
        Wholes(only.collect())
    }

    /// Returns the function of a cold part, or the symbol itself if it is another one.
    pub(crate) fn of(&self, symbol: SymbolIndex) -> SymbolIndex {
        self.0.get(&symbol).copied().unwrap_or(symbol)
    }
}

/// Splits off the suffix that gcc gives to a function's cold part. Says whether it was there.
pub(super) fn stem(name: &[u8]) -> (&[u8], bool) {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let bare = &name[..name.len() - digits];
    let numbered = bare.strip_suffix(b".cold.").filter(|_| digits != 0);
    match numbered.or_else(|| name.strip_suffix(b".cold")) {
        Some(stem) => (stem, true),
        None => (name, false),
    }
}
