//! All filters merged into one decision tree.

use crate::filter::{Field, Filter, Test};
use crate::head::Head;
use std::collections::HashMap;

/// Most nodes of a tree.
pub const MOST_NODES: usize = 1 << 14;
/// Most filters of a tree.
pub const MOST_FILTERS: usize = 256;
/// Most different fields of all filters.
pub const MOST_FIELDS: usize = 64;
/// Most lines of a tree's text, which repeats shared parts.
const MOST_LINES: usize = 4096;

/// Filters cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Too many filters.
    #[error("{0} filters; at most {MOST_FILTERS} can be merged")]
    Filters(usize),
    /// Too many different fields.
    #[error("the filters look at {0} different fields; at most {MOST_FIELDS} can be merged")]
    Fields(usize),
    /// They overlap in too many ways.
    #[error("the filters overlap in so many ways that their tree has more than {MOST_NODES} nodes")]
    Nodes,
}

#[derive(Debug, PartialEq, Eq)]
enum Node {
    Leaf(Option<usize>),
    Branch { field: Field, edges: Vec<(u64, u32)>, otherwise: u32 },
}

/// A decision tree. Equal parts of it are shared.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    root: u32,
}

/// A filter with the tests that are not decided yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open {
    filter: usize,
    tests: Vec<Test>,
}

#[derive(Default)]
struct Maker {
    nodes: Vec<Node>,
    made: HashMap<Vec<Open>, u32>,
}

impl Maker {
    fn push(&mut self, node: Node) -> Result<u32, TreeError> {
        if self.nodes.len() == MOST_NODES {
            return Err(TreeError::Nodes);
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// Makes the tree of the filters that may still match, the first choice first.
    fn make(&mut self, mut open: Vec<Open>) -> Result<u32, TreeError> {
        // A filter without open tests matches. Those after it have no say.
        if let Some(decided) = open.iter().position(|open| open.tests.is_empty()) {
            open.truncate(decided + 1);
        }
        if let Some(node) = self.made.get(&open) {
            return Ok(*node);
        }
        let node = match Self::choose(&open) {
            None => Node::Leaf(open.first().map(|open| open.filter)),
            Some(field) => {
                let mut values: Vec<u64> = open.iter().filter_map(|open| value(open, &field)).collect();
                values.sort_unstable();
                values.dedup();
                let otherwise = self.make(Self::without(&open, &field, None))?;
                let mut edges = Vec::new();
                for value in values {
                    edges.push((value, self.make(Self::without(&open, &field, Some(value)))?));
                }
                Node::Branch { field, edges, otherwise }
            }
        };
        let node = self.push(node)?;
        self.made.insert(open, node);
        Ok(node)
    }

    /// Chooses the field that the most filters test, of those that the first filter tests.
    fn choose(open: &[Open]) -> Option<Field> {
        let count = |field: &Field| open.iter().filter(|open| value(open, field).is_some()).count();
        let first = open.first()?;
        first.tests.iter().rev().map(|test| test.field).max_by_key(count)
    }

    /// Returns the filters that a field's value leaves. `None`: the field has none of the values
    /// that are asked for, or the message lacks it.
    fn without(open: &[Open], field: &Field, found: Option<u64>) -> Vec<Open> {
        let left = open.iter().filter(|open| value(open, field).is_none_or(|value| found == Some(value)));
        left.map(|open| Open {
            filter: open.filter,
            tests: open.tests.iter().filter(|test| test.field != *field).copied().collect(),
        })
        .collect()
    }
}

fn value(open: &Open, field: &Field) -> Option<u64> {
    open.tests.iter().find(|test| test.field == *field).map(|test| test.value)
}

impl Tree {
    /// Merges filters. Of several that match a message the first wins.
    ///
    /// # Errors
    /// [`TreeError`].
    pub fn new<'f>(filters: impl IntoIterator<Item = &'f Filter>) -> Result<Self, TreeError> {
        let open = filters.into_iter().enumerate();
        let open: Vec<Open> = open.map(|(filter, f)| Open { filter, tests: f.tests().to_vec() }).collect();
        if open.len() > MOST_FILTERS {
            return Err(TreeError::Filters(open.len()));
        }
        let mut fields: Vec<Field> = open.iter().flat_map(|open| &open.tests).map(|test| test.field).collect();
        fields.sort_unstable();
        fields.dedup();
        if fields.len() > MOST_FIELDS {
            return Err(TreeError::Fields(fields.len()));
        }
        let mut maker = Maker::default();
        let root = maker.make(open)?;
        Ok(Self { nodes: maker.nodes, root })
    }

    /// Finds the filter of a message.
    #[inline]
    pub fn find(&self, head: &Head) -> Option<usize> {
        let mut at = self.root;
        // Each step goes to a node that was made before, so the walk ends.
        loop {
            match &self.nodes[at as usize] {
                Node::Leaf(found) => return *found,
                Node::Branch { field, edges, otherwise } => {
                    let found = head.field(field);
                    let edge = found.and_then(|value| edges.binary_search_by_key(&value, |edge| edge.0).ok());
                    at = edge.map_or(*otherwise, |edge| edges[edge].1);
                }
            }
        }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the tree as text. `names` are those of the filters.
    pub fn text(&self, names: &[&str]) -> String {
        let mut out = Vec::new();
        self.write(self.root, 0, "", names, &mut out);
        out.concat()
    }

    fn write(&self, at: u32, depth: usize, before: &str, names: &[&str], out: &mut Vec<String>) {
        if out.len() >= MOST_LINES {
            return;
        }
        let indent = "  ".repeat(depth);
        match &self.nodes[at as usize] {
            Node::Leaf(found) => {
                let name = found.map_or("the normal path", |found| names.get(found).copied().unwrap_or("?"));
                out.push(format!("{indent}{before}{name}\n"));
            }
            Node::Branch { field, edges, otherwise } => {
                out.push(format!("{indent}{before}{field}\n"));
                for (value, next) in edges {
                    self.write(*next, depth + 1, &format!("{value:#x}: "), names, out);
                }
                self.write(*otherwise, depth + 1, "otherwise: ", names, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Base;

    fn filter(tests: &[(usize, u64, u64)]) -> Filter {
        let test = |(offset, mask, value): &(usize, u64, u64)| Test {
            field: Field::new(Base::Frame, *offset, 1, *mask).unwrap(),
            value: *value,
        };
        Filter::new(tests.iter().map(test)).unwrap()
    }

    #[test]
    fn the_first_that_matches_wins() {
        let filters = [filter(&[(0, 0xff, 1)]), filter(&[(1, 0xff, 2)]), filter(&[])];
        let tree = Tree::new(&filters).unwrap();
        let find = |bytes: &[u8]| tree.find(&Head::of(bytes));
        assert_eq!(find(&[1, 2]), Some(0));
        assert_eq!(find(&[0, 2]), Some(1));
        assert_eq!(find(&[0, 0]), Some(2));
        assert_eq!(find(&[]), Some(2), "a message without the field");
        assert_eq!(Tree::new(&filters[..2]).unwrap().find(&Head::of(&[9, 9])), None);
        assert_eq!(Tree::new([]).unwrap().find(&Head::of(&[1])), None);
    }

    #[test]
    fn equal_parts_are_shared_and_the_size_is_bounded() {
        // A hundred ports of one protocol: one branch for each field.
        let ports: Vec<Filter> = (0..100).map(|port| filter(&[(0, 0xff, 8), (1, 0xff, port)])).collect();
        assert!(Tree::new(&ports).unwrap().nodes() <= 103);
        // Each filter wants other values of other fields, so they overlap in very many ways.
        let knot = |count: usize| {
            let tests = |i: usize| (0..6).map(move |k| ((i * 7 + k * 5) % 48, 0xff, ((i * 31 + k * 17) % 3) as u64));
            (0..count).map(|i| filter(&tests(i).collect::<Vec<_>>())).collect::<Vec<_>>()
        };
        assert!(Tree::new(&knot(4)).is_ok());
        assert_eq!(Tree::new(&knot(200)).err(), Some(TreeError::Nodes));
        let wide: Vec<Filter> = (0..70).map(|at| filter(&[(at, 1, 1)])).collect();
        assert_eq!(Tree::new(&wide).err(), Some(TreeError::Fields(70)));
        let many = vec![filter(&[]); MOST_FILTERS + 1];
        assert_eq!(Tree::new(&many).err(), Some(TreeError::Filters(MOST_FILTERS + 1)));
    }
}
