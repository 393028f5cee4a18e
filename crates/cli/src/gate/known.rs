//! Findings that are known already, so that only new ones fail a build: by a baseline that people
//! write, or by the SARIF of an earlier run.
//!
//! A known finding is a finding. An object with one is not safe, statements say so, and the loader
//! refuses it.

use super::{Finding, Outcome, digest};
use anyhow::{Context, ensure};
use glob::Pattern;
use serde::Deserialize;
use serde_json::Value;
use sfi_loader::manifest::file;
use std::collections::HashMap;
use std::path::Path;
use time::{Date, Month, OffsetDateTime};

/// The name of [`fingerprint`] in SARIF.
pub const FINGERPRINT: &str = "sfiFunction/v1";

/// Returns a number for a finding that stays when code before it changes: it depends on rule,
/// object, function and instruction, and not on offsets.
pub fn fingerprint(outcome: &Outcome, finding: &Finding) -> String {
    let parts = [
        finding.code.id(),
        &outcome.name(),
        finding.section_name.as_deref().unwrap_or_default(),
        finding.function_name().unwrap_or_default(),
        finding.instruction.as_deref().unwrap_or_default(),
    ];
    digest::sha256(parts.join("\0").as_bytes())
}

/// The findings that are known.
#[derive(Debug, Default)]
pub struct Known {
    /// Of the baseline.
    entries: Vec<Entry>,
    /// Of earlier runs: how often each fingerprint stands there.
    earlier: HashMap<String, usize>,
}

/// A baseline's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    known: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    rule: String,
    object: String,
    function: Option<String>,
    reason: String,
    expires: toml::value::Datetime,
}

/// An entry of a baseline.
#[derive(Debug)]
struct Entry {
    rule: Pattern,
    object: Pattern,
    function: Option<Pattern>,
    reason: String,
    /// The last day on which it holds.
    expires: Date,
    /// Number of findings that it covered.
    used: u64,
}

impl Known {
    /// Adds the entries of a baseline.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, or holds unknown keys, malformed patterns, an empty reason
    /// or no date.
    pub fn add_baseline(&mut self, path: &Path) -> anyhow::Result<()> {
        let text = file::read_text(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let entries = parse(&text).with_context(|| format!("in the baseline `{}`", path.display()))?;
        self.entries.extend(entries);
        Ok(())
    }

    /// Adds the findings of an earlier run.
    ///
    /// # Errors
    /// It cannot be read or is not SARIF of this program.
    pub fn add_earlier(&mut self, path: &Path) -> anyhow::Result<()> {
        let text = file::read_text(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let log: Value = serde_json::from_str(&text).with_context(|| format!("`{}` is not SARIF", path.display()))?;
        let results = log["runs"][0]["results"].as_array();
        let results = results.with_context(|| format!("`{}` is not SARIF: it has no results", path.display()))?;
        for result in results {
            let print = result["partialFingerprints"][FINGERPRINT].as_str();
            let print = print.with_context(|| format!("`{}`: a result has no {FINGERPRINT}", path.display()))?;
            *self.earlier.entry(print.to_owned()).or_default() += 1;
        }
        Ok(())
    }

    /// Marks the findings that are known today.
    pub fn mark(&mut self, outcomes: &mut [Outcome]) {
        self.mark_on(outcomes, OffsetDateTime::now_utc().date());
    }

    fn mark_on(&mut self, outcomes: &mut [Outcome], today: Date) {
        for outcome in outcomes {
            let name = outcome.name();
            let Ok(mut verdict) = std::mem::replace(&mut outcome.result, Err(String::new())).map_err(|why| {
                outcome.result = Err(why);
            }) else {
                continue;
            };
            for finding in &mut verdict.findings {
                let covers = |entry: &&mut Entry| entry.expires >= today && entry.covers(&name, finding);
                if let Some(entry) = self.entries.iter_mut().find(covers) {
                    entry.used += 1;
                    finding.known = Some(entry.reason.clone());
                } else if let Some(left) =
                    self.earlier.get_mut(&fingerprint(outcome, finding)).filter(|left| **left > 0)
                {
                    *left -= 1;
                    finding.known = Some("known from an earlier run".to_owned());
                }
            }
            outcome.result = Ok(verdict);
        }
    }

    /// Returns advice about entries of the baseline: those that are too old, and those that cover
    /// nothing.
    pub fn advice(&self) -> Vec<String> {
        self.advice_on(OffsetDateTime::now_utc().date())
    }

    fn advice_on(&self, today: Date) -> Vec<String> {
        let about = |entry: &Entry| {
            let what = format!("baseline: {} in {}", entry.rule, entry.object);
            match (entry.expires < today, entry.used) {
                (true, _) => Some(format!("{what}: expired on {}; mend it, or set another date", entry.expires)),
                (false, 0) => Some(format!("{what}: covers no finding; remove it")),
                _ => None,
            }
        };
        self.entries.iter().filter_map(about).collect()
    }
}

impl Entry {
    fn covers(&self, object: &str, finding: &Finding) -> bool {
        let function = finding.function_name().unwrap_or_default();
        self.rule.matches(finding.code.id())
            && self.object.matches(object)
            && self.function.as_ref().is_none_or(|pattern| pattern.matches(function))
    }
}

fn parse(text: &str) -> anyhow::Result<Vec<Entry>> {
    let file: File = toml::from_str(text)?;
    let entry = |raw: RawEntry| {
        let pattern = |text: &str| Pattern::new(text).with_context(|| format!("`{text}` is not a pattern"));
        ensure!(!raw.reason.trim().is_empty(), "{} in {}: the reason is empty", raw.rule, raw.object);
        let date = raw.expires.date.context("`expires` is not a date such as 2027-01-31")?;
        let expires = Month::try_from(date.month)
            .and_then(|month| Date::from_calendar_date(date.year.into(), month, date.day))
            .with_context(|| format!("{date} is not a day"))?;
        Ok(Entry {
            rule: pattern(&raw.rule)?,
            object: pattern(&raw.object)?,
            function: raw.function.as_deref().map(pattern).transpose()?,
            reason: raw.reason,
            expires,
            used: 0,
        })
    };
    file.known.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Code, Verdict};
    use sfi_contract::Rule;

    fn finding(rule: &str, function: &str) -> Finding {
        let rule = Rule::ALL.iter().find(|known| known.id() == rule).unwrap();
        Finding {
            code: Code::Contract(*rule),
            section: None,
            section_name: None,
            offset: 0,
            file_offset: None,
            function: Some(function.to_owned()),
            source: None,
            instruction: None,
            detail: String::new(),
            known: None,
        }
    }

    fn object(findings: Vec<Finding>) -> Outcome {
        let verdict = Verdict { findings, ..Verdict::default() };
        Outcome { path: "a/x.a".into(), member: Some("m.o".into()), sha256: None, result: Ok(verdict) }
    }

    fn marked(known: &mut Known, findings: Vec<Finding>, today: &str) -> Vec<Option<String>> {
        let mut outcomes = [object(findings)];
        let [year, month, day]: [u16; 3] =
            today.split('-').map(|part| part.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
        let month = Month::try_from(month as u8).unwrap();
        known.mark_on(&mut outcomes, Date::from_calendar_date(year.into(), month, day as u8).unwrap());
        let [outcome] = outcomes;
        outcome.result.unwrap().findings.into_iter().map(|finding| finding.known).collect()
    }

    const ENTRY: &str = "[[known]]\nrule = \"SFI-S0*\"\nobject = \"a/*(m.o)\"\nfunction = \"set\"\n";

    #[test]
    fn an_entry_covers_what_it_names_until_its_last_day() {
        let text = format!("{ENTRY}reason = \"ticket 7\"\nexpires = 2027-01-31\n");
        let mut known = Known { entries: parse(&text).unwrap(), ..Known::default() };
        let findings =
            || vec![finding("SFI-S01", "set+0x12"), finding("SFI-S01", "get"), finding("SFI-C01", "set+0x1")];
        let reason = Some("ticket 7".to_owned());
        assert_eq!(marked(&mut known, findings(), "2027-02-01"), [None, None, None]);
        let date = |day| Date::from_calendar_date(2027, Month::January, day).unwrap();
        assert_eq!(known.advice_on(date(31)), ["baseline: SFI-S0* in a/*(m.o): covers no finding; remove it"]);
        assert_eq!(marked(&mut known, findings(), "2027-01-31"), [reason, None, None]);
        assert_eq!(known.advice_on(date(31)), Vec::<String>::new());
        let late = Date::from_calendar_date(2027, Month::February, 1).unwrap();
        assert!(known.advice_on(late)[0].ends_with("expired on 2027-01-31; mend it, or set another date"));
    }

    #[test]
    fn bad_baselines_are_refused() {
        for (rest, why) in [
            ("reason = \"\"\nexpires = 2027-01-31\n", "the reason is empty"),
            ("reason = \"x\"\n", "missing field `expires`"),
            ("expires = 2027-01-31\n", "missing field `reason`"),
            ("reason = \"x\"\nexpires = 10:00:00\n", "is not a date"),
            ("reason = \"x\"\nexpires = 2027-01-31\nline = 4\n", "unknown field `line`"),
        ] {
            let error = parse(&format!("{ENTRY}{rest}")).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
        let pattern = "[[known]]\nrule = \"[\"\nobject = \"*\"\nreason = \"x\"\nexpires = 2027-01-31\n";
        assert!(parse(pattern).unwrap_err().to_string().contains("is not a pattern"));
    }

    #[test]
    fn earlier_findings_are_counted() {
        let outcome = object(Vec::new());
        let print = fingerprint(&outcome, &finding("SFI-S01", "set+0x12"));
        let mut known = Known { earlier: HashMap::from([(print, 1)]), ..Known::default() };
        let findings = vec![finding("SFI-S01", "set+0x99"), finding("SFI-S01", "set+0xa0"), finding("SFI-S01", "get")];
        let earlier = Some("known from an earlier run".to_owned());
        assert_eq!(marked(&mut known, findings, "2027-01-01"), [earlier, None, None]);
    }
}
