//! Every object in `fixtures/hostile` tries one escape and is refused for exactly the rules that
//! its header names. Every object in `fixtures/accepted` is accepted. One test for each file:
//! `cargo test -p sfi-tests --test hostile -- store-mov64`.

mod forge;

use anyhow::{Context, Result, bail, ensure};
use forge::{Elf, Fixture};
use libtest_mimic::{Arguments, Failed, Trial};
use sfi_contract::Rule;
use sfi_verifier::{FinalText, Options, Verifier, Violation};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Least number of hostile objects.
const HOSTILE: usize = 80;
/// Least number of accepted objects.
const ACCEPTED: usize = 30;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = trials().expect("the fixtures can be read");
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials() -> Result<Vec<Trial>> {
    let hostile = forge::fixtures("hostile")?;
    let accepted = forge::fixtures("accepted")?;
    let named: BTreeSet<String> = hostile.iter().flat_map(|f| f.expect.iter().cloned()).collect();
    let counts = (hostile.len(), accepted.len());
    let mut trials = vec![Trial::test("coverage", move || Ok(coverage(counts, &named)?))];
    trials.push(Trial::test("memory", || memory().map_err(failed)));
    for fixture in hostile {
        trials.push(Trial::test(format!("hostile::{}", fixture.name), move || refused(&fixture).map_err(failed)));
    }
    for fixture in accepted {
        trials.push(Trial::test(format!("accepted::{}", fixture.name), move || fine(&fixture).map_err(failed)));
    }
    Ok(trials)
}

fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}

/// Checks that there are enough fixtures, and a hostile one for every rule.
fn coverage((hostile, accepted): (usize, usize), named: &BTreeSet<String>) -> Result<(), String> {
    if hostile < HOSTILE || accepted < ACCEPTED {
        return Err(format!("{hostile} hostile objects of {HOSTILE}, {accepted} accepted ones of {ACCEPTED}"));
    }
    let missing: Vec<_> = Rule::ALL.iter().filter(|rule| !named.contains(rule.id())).map(|r| r.id()).collect();
    let unknown: Vec<_> = named.iter().filter(|n| *n != "unreadable" && n.parse::<Rule>().is_err()).collect();
    if !missing.is_empty() || !unknown.is_empty() {
        return Err(format!("rules without a hostile object: {missing:?}; unknown rules: {unknown:?}"));
    }
    Ok(())
}

/// Returns the options for a fixture.
fn options(fixture: &Fixture) -> Options {
    Options { mode: fixture.mode, budget: fixture.budget, ..Options::default() }
}

/// Returns the verifier's violations in a fixture; `None` if it is unreadable.
fn violations(verifier: &mut Verifier, fixture: &Fixture, object: &[u8]) -> Result<Option<Vec<Violation>>> {
    let Some(place) = &fixture.text else {
        return Ok(verifier.verify(object).ok().map(|report| {
            assert_eq!(report.is_safe(), report.violations.is_empty(), "is_safe() says what the list says");
            report.violations
        }));
    };
    let elf = Elf(object);
    let text = FinalText {
        bytes: &object[elf.bytes(elf.section(".text")?)],
        offset: place.offset,
        gateways: &place.gateways,
        slots: &place.slots,
        anchors: place.anchors,
    };
    Ok(Some(verifier.verify_text(&text).err().unwrap_or_default()))
}

fn refused(fixture: &Fixture) -> Result<()> {
    ensure!(!fixture.expect.is_empty(), "the header does not say which rule is broken");
    let object = fixture.build("hostile")?;
    let Some(violations) = violations(&mut Verifier::new(&options(fixture)), fixture, &object)? else {
        ensure!(fixture.expect.contains("unreadable"), "unreadable, expected {:?}", fixture.expect);
        return Ok(());
    };
    ensure!(!violations.is_empty(), "ACCEPTED: expected {:?}", fixture.expect);
    let found: BTreeSet<String> = violations.iter().map(|v| v.rule.id().to_owned()).collect();
    if found != fixture.expect {
        bail!("expected {:?}, found {}", fixture.expect, list(&violations));
    }
    Ok(())
}

fn fine(fixture: &Fixture) -> Result<()> {
    ensure!(fixture.expect.is_empty(), "an accepted object breaks no rule");
    let object = fixture.build("accepted")?;
    let violations = violations(&mut Verifier::new(&options(fixture)), fixture, &object)?.context("unreadable")?;
    ensure!(violations.is_empty(), "refused: {}", list(&violations));
    Ok(())
}

/// Checks that a verdict does not depend on what a verifier remembers of other fixtures.
fn memory() -> Result<()> {
    let read = |kind| forge::fixtures(kind).map(|list| list.into_iter().map(move |fixture| (kind, fixture)));
    let all: Vec<(&str, Fixture)> = read("accepted")?.chain(read("hostile")?).collect();
    let mut kept: Vec<(Options, Verifier)> = Vec::new();
    for round in 0..2 {
        for (kind, fixture) in &all {
            // The tests of single fixtures write their own files meanwhile.
            let object = fixture.build(&format!("memory/{kind}"))?;
            let options = options(fixture);
            let place = kept.iter().position(|(of, _)| *of == options).unwrap_or_else(|| {
                kept.push((options, Verifier::new(&options)));
                kept.len() - 1
            });
            let found = violations(&mut kept[place].1, fixture, &object)?;
            let expected = violations(&mut Verifier::new(&options), fixture, &object)?;
            ensure!(found == expected, "{} in round {round}: {found:?}, and {expected:?} of a new one", fixture.name);
        }
    }
    Ok(())
}

fn list(violations: &[Violation]) -> String {
    let lines = violations.iter().map(|v| {
        let instruction = v.instruction.as_deref().unwrap_or("");
        format!("\n  {} at {:#x} `{instruction}`: {}", v.rule, v.offset, v.detail)
    });
    lines.collect()
}
