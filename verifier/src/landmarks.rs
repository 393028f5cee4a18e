//! The symbols in text. They tell where to go on after bytes that do not decode, and give names to
//! places. Only violations need them.

use crate::elf::{Object, Place};
use crate::report::Violation;
use std::cell::OnceCell;
use std::cmp::Reverse;

/// A symbol: its section, value and index. Of symbols at one place, the first in the table sorts
/// last.
type Mark = (usize, u64, Reverse<usize>);

/// The marks of an object.
pub(crate) struct Landmarks<'a> {
    object: &'a Object<'a>,
    /// Sorted at the first question.
    sorted: OnceCell<Vec<Mark>>,
}

impl<'a> Landmarks<'a> {
    pub(crate) fn new(object: &'a Object<'a>) -> Landmarks<'a> {
        Landmarks { object, sorted: OnceCell::new() }
    }

    /// Returns the marks at or before a place, and those after it.
    fn around(&self, section: usize, offset: u64) -> (&[Mark], &[Mark]) {
        let sorted = self.sorted.get_or_init(|| {
            let in_text = |section: usize| self.object.sections[section].is_executable();
            let marks = self.object.symbols.iter().enumerate().filter_map(|(index, symbol)| match symbol.place {
                Place::Section(section) if in_text(section) => Some((section, symbol.value, Reverse(index))),
                _ => None,
            });
            let mut marks: Vec<_> = marks.collect();
            marks.sort_unstable();
            marks
        });
        sorted.split_at(sorted.partition_point(|mark| (mark.0, mark.1) <= (section, offset)))
    }

    /// Returns the first mark of the section after an offset.
    pub(crate) fn behind(&self, section: usize, offset: u64) -> Option<u64> {
        let mark = self.around(section, offset).1.first();
        mark.filter(|mark| mark.0 == section).map(|mark| mark.1)
    }

    /// Fills in section and function names and puts the violations into the order of their places.
    pub(crate) fn name_places(&self, violations: &mut [Violation]) {
        for violation in violations.iter_mut() {
            let Some(section) = violation.section else { continue };
            violation.section_name = self.object.sections.get(section).map(|s| s.name.to_owned());
            let nearest = self.around(section, violation.offset).0.iter().rev().take(16);
            let mut symbols = nearest.take_while(|mark| mark.0 == section).map(|mark| &self.object.symbols[mark.2.0]);
            violation.function = symbols.find(|s| !s.name.is_empty()).map(|s| match violation.offset - s.value {
                0 => s.name.to_owned(),
                distance => format!("{}+{distance:#x}", s.name),
            });
        }
        violations.sort_by_key(|v| (v.section, v.offset, v.rule));
    }
}
