//! Circles of imports between the modules of a crate.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The names that lead to a module or an item from the crate's root.
type Names = Vec<String>;
/// The modules of a crate with their tokens. The root's path is empty.
type Modules = BTreeMap<Names, Vec<TokenTree>>;

/// Reads the modules below a folder. Modules of tests are left out.
fn modules(source: &Path) -> Modules {
    let mut all = Modules::new();
    for path in super::sources(source) {
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let mut names: Names = inside.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
        if names.last().is_some_and(|last| last == "tests") {
            continue;
        }
        if names.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            names.pop();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        all.insert(names, tokens.into_iter().collect());
    }
    all
}

/// The names in a module's code.
#[derive(Default)]
struct Found {
    /// Imports: the path, the name that it has here, and whether it is exported.
    uses: Vec<(Names, String, bool)>,
    /// Paths of two names or more outside of imports.
    paths: Vec<Names>,
}

fn is(tree: Option<&TokenTree>, punctuation: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(p)) if p.as_char() == punctuation)
}

fn word(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// Says whether `::` begins here.
fn colons(tokens: &[TokenTree], at: usize) -> bool {
    is(tokens.get(at), ':') && is(tokens.get(at + 1), ':')
}

/// Reads the tree of an import.
fn import(tokens: &[TokenTree], prefix: &[String], public: bool, found: &mut Found) {
    let (mut names, mut at) = (prefix.to_vec(), 0);
    loop {
        match tokens.get(at) {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inner.split(|tree| is(Some(tree), ',')) {
                    import(part, &names, public, found);
                }
                return;
            }
            Some(TokenTree::Ident(ident)) if *ident == "as" => {
                let name = word(tokens.get(at + 1)).unwrap();
                found.uses.push((names, name, public));
                return;
            }
            Some(TokenTree::Ident(ident)) => names.push(ident.to_string()),
            Some(TokenTree::Punct(p)) if p.as_char() == '*' => names.push("*".to_owned()),
            Some(_) => {}
            None => break,
        }
        at += 1;
    }
    // `self` at the end names the module itself.
    if names.len() > 1 && names.last().is_some_and(|last| last == "self") {
        names.pop();
    }
    if let Some(name) = names.last().cloned() {
        found.uses.push((names, name, public));
    }
}

/// Finds the names in tokens. Code for tests is skipped.
fn scan(tokens: &[TokenTree], found: &mut Found) {
    let mut at = 0;
    while let Some(tree) = tokens.get(at) {
        match tree {
            TokenTree::Punct(_) if is(Some(tree), '#') && is_test(tokens.get(at + 1)) => {
                let ends = |tree: &TokenTree| match tree {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    tree => is(Some(tree), ';'),
                };
                at += tokens[at..].iter().position(ends).unwrap_or(0);
            }
            TokenTree::Group(group) => scan(&group.stream().into_iter().collect::<Vec<_>>(), found),
            TokenTree::Ident(ident) if *ident == "use" => {
                let end = tokens[at..].iter().position(|tree| is(Some(tree), ';')).map_or(tokens.len(), |n| at + n);
                let mut before = tokens[..at].iter().rev();
                let last = before.next();
                let restricted =
                    matches!(last, Some(TokenTree::Group(_))) && word(before.next()).as_deref() == Some("pub");
                import(&tokens[at + 1..end], &[], restricted || word(last).as_deref() == Some("pub"), found);
                at = end;
            }
            TokenTree::Ident(ident) if !(at >= 2 && colons(tokens, at - 2)) => {
                let mut names = vec![ident.to_string()];
                while colons(tokens, at + 1)
                    && let Some(name) = word(tokens.get(at + 3))
                {
                    names.push(name);
                    at += 3;
                }
                if names.len() > 1 {
                    found.paths.push(names);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Says whether an attribute is `[cfg(test)]`.
fn is_test(attribute: Option<&TokenTree>) -> bool {
    attribute.is_some_and(|tree| tree.to_string().replace(' ', "") == "[cfg(test)]")
}

/// Returns the path of a name from the crate's root, or `None` for other crates.
fn absolute(modules: &Modules, module: &[String], names: &[String]) -> Option<Names> {
    let (mut base, mut rest) = (module.to_vec(), names);
    match rest.first()?.as_str() {
        "crate" => return Some(rest[1..].to_vec()),
        "self" | "super" => {}
        _ if modules.contains_key(&[module, &rest[..1]].concat()) => {}
        _ => return None,
    }
    while let Some(first) = rest.first().filter(|first| ["self", "super"].contains(&first.as_str())) {
        if first == "super" {
            base.pop();
        }
        rest = &rest[1..];
    }
    Some([&base, rest].concat())
}

/// Imports of each module by the names that they have there.
type Aliases = BTreeMap<Names, BTreeMap<String, Option<Names>>>;

/// Finds the module that defines an item, through the modules that only hand it on.
fn home(modules: &Modules, aliases: &Aliases, path: &[String], depth: usize) -> Option<Names> {
    let known = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n]))?;
    let (module, rest) = path.split_at(known);
    let alias = rest.first().and_then(|name| aliases.get(module)?.get(name));
    match alias {
        None => Some(module.to_vec()),
        Some(None) => None,
        Some(Some(other)) if depth == 0 || other == path => Some(other[..known.min(other.len())].to_vec()),
        Some(Some(other)) => home(modules, aliases, &[other, &rest[1..]].concat(), depth - 1),
    }
}

/// Returns the edges of a crate's imports: from a module to those whose items it names. A module
/// that only hands an item on does not depend on it.
fn edges(modules: &Modules) -> BTreeMap<Names, BTreeSet<Names>> {
    let mut aliases = Aliases::new();
    let mut named = BTreeMap::<Names, Vec<Names>>::new();
    for (module, tokens) in modules {
        let mut found = Found::default();
        scan(tokens, &mut found);
        for (names, name, public) in found.uses {
            let path = absolute(modules, module, &names);
            if !public {
                named.entry(module.clone()).or_default().extend(path.clone());
            }
            aliases.entry(module.clone()).or_default().insert(name, path);
        }
        let paths = found.paths.iter().filter_map(|names| absolute(modules, module, names));
        named.entry(module.clone()).or_default().extend(paths);
    }
    let mut edges = BTreeMap::<Names, BTreeSet<Names>>::new();
    for (module, paths) in named {
        let homes = paths.iter().filter_map(|path| home(modules, &aliases, path, 8));
        let others = homes.filter(|home| *home != module).collect();
        edges.insert(module, others);
    }
    edges
}

/// Returns the imports that lie on circles, as text.
fn on_circles(modules: &Modules) -> Vec<String> {
    let edges = edges(modules);
    let reach = |from: &Names| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = open.pop() {
            for next in edges.get(&module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let name = |module: &Names| if module.is_empty() { "the root".to_owned() } else { module.join("::") };
    let mut found = Vec::new();
    for (from, targets) in &edges {
        for to in targets.iter().filter(|to| reach(to).contains(from)) {
            found.push(format!("{} -> {}", name(from), name(to)));
        }
    }
    found
}

/// The folders of crates whose modules form no circle.
const FOLDERS: &[&str] = &[
    "loader/src",
    "verifier/src",
    "rewriter/src",
    "crates/arbitration/src",
    "crates/ash/src",
    "crates/capi/src",
    "crates/cli/src",
    "crates/contract/src",
    "crates/debuginfo/src",
    "crates/dilp/src",
    "crates/elf/src",
    "crates/second/src",
    "crates/support/code",
    "crates/validator/src",
    "crates/xtask/src",
];

#[test]
fn modules_of_a_crate_form_no_circle() {
    for name in FOLDERS {
        let modules = modules(&super::root().join(name));
        assert!(modules.len() > 2, "{name}: {} modules", modules.len());
        assert!(edges(&modules).values().any(|targets| !targets.is_empty()), "{name}: no import is seen");
        assert_eq!(on_circles(&modules), [] as [String; 0], "{name}");
    }
}

/// Circles are seen through imports, paths in code, parents, macros and names that are handed on.
#[test]
fn circles_are_seen() {
    let circles = |files: &[(&str, &str)]| {
        let parse = |text: &str| text.parse::<TokenStream>().unwrap().into_iter().collect();
        let names = |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        on_circles(&files.iter().map(|(path, text)| (names(path), parse(text))).collect())
    };
    let pair = ["a -> b", "b -> a"];
    assert_eq!(circles(&[("", ""), ("a", "use crate::b::X;"), ("b", "use super::a::{self, Y as Z};")]), pair);
    assert_eq!(circles(&[("", ""), ("a", "fn f() { crate::b::g(1) }"), ("b", "type T = crate::a::T;")]), pair);
    assert_eq!(
        circles(&[("", ""), ("a", "macro_rules! m { () => { $crate::b::X } }"), ("b", "use crate::a::T;")]),
        pair
    );
    let handed = [("", "mod a; mod b; pub use a::X;"), ("a", "use crate::b::Y;"), ("b", "use crate::X;")];
    assert_eq!(circles(&handed), pair);
    let parent = [("", ""), ("a", "mod b; use b::f; struct S;"), ("a::b", "use super::S;")];
    assert_eq!(circles(&parent), ["a -> a::b", "a::b -> a"]);
    let root = [("", "mod a; struct S; fn f() { a::g() }"), ("a", "use crate::S;")];
    assert_eq!(circles(&root), ["the root -> a", "a -> the root"]);
    // Facades and tests make no circle.
    assert_eq!(circles(&[("", "mod a; pub use a::S; struct T;"), ("a", "use crate::T;")]), [] as [&str; 0]);
    let test = [("", ""), ("a", "use crate::b::X;"), ("b", "#[cfg(test)] mod tests { use crate::a::Y; }")];
    assert_eq!(circles(&test), [] as [&str; 0]);
}
