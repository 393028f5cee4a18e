//! Long reports for people: the first findings, and the number of the others.

use std::collections::HashMap;

/// Number of findings that a report prints.
pub const SHOWN: usize = 20;
/// Number of groups that a report names.
const NAMED: usize = 5;

/// Counts the findings of a report about any number of objects.
#[derive(Debug, Default)]
pub struct Report {
    shown: usize,
    more: u64,
    /// Functions, or other groups, and the numbers of their findings that are not printed.
    groups: Vec<(String, u64)>,
    numbers: HashMap<String, usize>,
}

impl Report {
    /// Says whether to print the next finding. If not, counts it for its group: a function, which
    /// may be followed by `+0x` and a distance.
    pub fn shows(&mut self, group: Option<&str>) -> bool {
        if self.shown < SHOWN {
            self.shown += 1;
            return true;
        }
        self.more += 1;
        if let Some(group) = group {
            let name = group.rsplit_once("+0x").map_or(group, |(name, _)| name);
            let number = *self.numbers.entry(name.to_owned()).or_insert_with(|| {
                self.groups.push((name.to_owned(), 0));
                self.groups.len() - 1
            });
            self.groups[number].1 += 1;
        }
        false
    }

    /// Counts findings that have no place.
    pub fn omit(&mut self, number: u64) {
        self.more += number;
    }

    /// Describes the findings that were not printed, and forgets them:
    /// ``and 1980 more, in `f` (1200), `g` (700) and 13 others``.
    pub fn rest(&mut self) -> Option<String> {
        let more = std::mem::take(&mut self.more);
        let groups = std::mem::take(&mut self.groups);
        self.numbers.clear();
        if more == 0 {
            return None;
        }
        let mut text = format!("and {more} more");
        for (number, (name, count)) in groups.iter().take(NAMED).enumerate() {
            text += &format!("{} `{name}` ({count})", if number == 0 { ", in" } else { "," });
        }
        match groups.len().saturating_sub(NAMED) {
            0 => {}
            1 => text += " and one other",
            others => text += &format!(" and {others} others"),
        }
        Some(text)
    }
}

/// Describes the first items, one on a line, and the number of the others by group.
pub fn lines<T>(items: &[T], group: impl Fn(&T) -> Option<&str>, say: impl Fn(&T) -> String) -> String {
    let mut report = Report::default();
    let shown: Vec<String> = items.iter().filter(|item| report.shows(group(item))).map(say).collect();
    indented(shown.into_iter().chain(report.rest()))
}

/// Puts items on lines of their own.
pub fn indented(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().map(|item| format!("  {item}")).collect::<Vec<_>>().join("\n")
}

/// Names the first of some objects, and counts the others.
pub fn and_others(first: &str, others: usize) -> String {
    match others {
        0 => first.to_owned(),
        1 => format!("{first} and one other object"),
        _ => format!("{first} and {others} other objects"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the description of the rest of a report, and the number of findings that it prints.
    fn report<'a>(places: impl IntoIterator<Item = Option<&'a str>>, omitted: u64) -> (usize, Option<String>) {
        let mut report = Report::default();
        let shown = places.into_iter().filter(|place| report.shows(*place)).count();
        report.omit(omitted);
        let rest = report.rest();
        assert_eq!(report.rest(), None, "it is told once");
        (shown, rest)
    }

    #[test]
    fn the_rest_is_counted_by_function() {
        let rest = |places: usize, omitted| {
            let (shown, rest) = report((0..places).map(|i| if i < 22 { Some("f+0x10") } else { Some("g") }), omitted);
            assert_eq!(shown, places.min(SHOWN));
            rest
        };
        assert_eq!(rest(20, 0), None);
        assert_eq!(rest(21, 0).as_deref(), Some("and 1 more, in `f` (1)"));
        assert_eq!(rest(25, 10).as_deref(), Some("and 15 more, in `f` (2), `g` (3)"));
        assert_eq!(rest(0, 7).as_deref(), Some("and 7 more"));
        let named = |count: usize| {
            let names: Vec<String> = (0..count).map(|i| format!("n{}+0x1", i % 34)).collect();
            report(names.iter().map(|n| Some(n.as_str())), 0).1.unwrap()
        };
        assert_eq!(
            named(34 * 2),
            "and 48 more, in `n20` (2), `n21` (2), `n22` (2), `n23` (2), `n24` (2) and 29 others"
        );
        assert!(named(26).ends_with("`n24` (1) and one other"));
    }

    #[test]
    fn lines_are_the_first_items_and_the_number_of_the_others() {
        let said = |count: usize| {
            let items: Vec<String> = (0..count).map(|n| format!("f{}", n / 20)).collect();
            lines(&items, |item| Some(item), |item| format!("in {item}"))
        };
        assert_eq!(said(0), "");
        assert_eq!(said(2), "  in f0\n  in f0");
        assert_eq!(said(SHOWN).lines().count(), SHOWN);
        let long = said(SHOWN + 3);
        assert_eq!(long.lines().count(), SHOWN + 1);
        assert!(long.ends_with("\n  and 3 more, in `f1` (3)"), "{long}");
    }

    #[test]
    fn objects_are_counted() {
        assert_eq!(and_others("a.o", 0), "a.o");
        assert_eq!(and_others("a.o", 1), "a.o and one other object");
        assert_eq!(and_others("a.o", 2), "a.o and 2 other objects");
    }
}
