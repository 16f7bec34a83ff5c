//! A configuration of nginx: what stands in the way of Axon's answers.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `source` | the output of `nginx -T` or files, with their includes |
//! | `tokens`, `tree` | words, and directives with their lines |
//! | `scope` | which directives count at a place |
//! | `target` | where requests are handed to |
//! | `values` | sizes and times |
//! | `rules` | what may be wrong |
//!
//! Only places whose requests reach Axon are looked at. Whether the file is one that nginx takes is nginx's to say:
//! `nginx -t`.

mod rules;
mod scope;
mod source;
mod target;
mod tokens;
mod tree;
mod values;

use std::path::Path;

pub use tree::Place;

use crate::{
    check::{
        Finding, Subject, USUAL_SOCKET,
        nginx::{
            scope::{Passed, Scope},
            source::Configuration,
            target::{Target, is_one_of, targets},
            tree::Directive,
        },
        system,
    },
    transport::Address,
};

/// Looks at a configuration; `-` is standard input.
pub(super) fn examine(path: &Path, subject: &Subject) -> Vec<Finding> {
    match source::load(path) {
        Ok(configuration) => judge(&configuration, subject),
        Err(finding) => vec![finding],
    }
}

/// What the rules know besides the place.
struct Facts<'a> {
    /// What Axon would be started with.
    subject: &'a Subject,
    /// Where Axon listens: what it was told, or what the socket unit says.
    addresses: Vec<Address>,
    /// The `upstream` blocks.
    groups: Vec<&'a Directive>,
    /// The `map` blocks.
    maps: Vec<&'a Directive>,
}

/// A place whose requests reach Axon.
struct Examined<'a> {
    facts: &'a Facts<'a>,
    scope: Scope<'a>,
    passed: Passed<'a>,
}

fn judge(configuration: &Configuration, subject: &Subject) -> Vec<Finding> {
    let mut findings = configuration.findings.clone();
    let outermost = Scope::outermost(&configuration.items);
    let given = &subject.config.addresses;
    let facts = Facts {
        subject,
        addresses: if given.is_empty() { vec![Address::Unix(USUAL_SOCKET.into())] } else { given.clone() },
        groups: outermost.blocks("upstream"),
        maps: outermost.blocks("map"),
    };
    if !configuration.items.iter().any(|item| item.name == "http") {
        findings.push(rules::is_a_piece(&configuration.items));
    }
    let places = outermost.places();
    let other = rules::other_protocols(&facts, &places);
    let is_spoken_to = !other.is_empty();
    findings.extend(other);
    let uwsgi: Vec<_> = places
        .into_iter()
        .filter(|(_, passed)| passed.directive.name == "uwsgi_pass")
        .map(|(scope, passed)| Examined { facts: &facts, scope, passed })
        .collect();
    let ours: Vec<&Examined<'_>> = uwsgi.iter().filter(|place| place.reaches_axon()).collect();
    let ours = if ours.is_empty() {
        if !is_spoken_to {
            findings.extend(rules::nobody_reaches_axon(&facts, &uwsgi));
        }
        uwsgi.iter().collect()
    } else {
        ours
    };
    findings.extend(rules::workers(&facts, &configuration.items, &ours));
    if given.is_empty() {
        findings.extend(sockets(&ours).iter().flat_map(system::listening));
    }
    let found: Vec<(&Place, Vec<Finding>)> =
        ours.iter().map(|place| (&place.passed.directive.place, place.examine())).collect();
    for place in ours.iter().filter(|place| !place.scope.is_branch()) {
        let line = &place.passed.directive.place;
        // What is wrong with a branch of it is wrong with the place.
        let is_clean = found.iter().all(|(of, found)| *of != line || found.is_empty());
        if is_clean && findings.iter().all(|finding| finding.place.as_ref() != Some(line)) {
            let message = format!("{} hands requests to {}", place.scope.name(), place.passed.directive.argument(0));
            findings.push(Finding::ok("uwsgi_pass", message).at(line));
        }
    }
    findings.extend(found.into_iter().flat_map(|(_, found)| found));
    without_repetition(findings)
}

impl Examined<'_> {
    fn reaches_axon(&self) -> bool {
        self.targets().iter().any(|target| is_one_of(target, &self.facts.addresses))
    }

    fn targets(&self) -> Vec<Target> {
        targets(self.passed.directive.argument(0), &self.facts.groups)
    }

    fn examine(&self) -> Vec<Finding> {
        [rules::delivery(self), rules::request(self), rules::cache(self)].concat()
    }
}

/// The sockets behind some places, each once.
fn sockets(places: &[&Examined<'_>]) -> Vec<Address> {
    let mut found = Vec::new();
    for target in places.iter().flat_map(|place| place.targets()) {
        match target {
            Target::Known(address) if !found.contains(&address) => found.push(address),
            _ => {}
        }
    }
    found
}

/// What is wrong with an outer level is wrong at every place in it, and is told once.
fn without_repetition(findings: Vec<Finding>) -> Vec<Finding> {
    let mut out: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        if !out.contains(&finding) {
            out.push(finding);
        }
    }
    out
}
