//! Who is handed the requests, and in which protocol.

use crate::{
    check::{
        Finding,
        nginx::{
            Examined, Facts,
            scope::{Passed, Scope},
            target::{Target, is_one_of, targets},
            tree::Directive,
        },
    },
    transport::Address,
};

/// A file without `http` is a part of something larger.
pub(in crate::check::nginx) fn is_a_piece(items: &[Directive]) -> Finding {
    let message = "this is a piece of a configuration: what the rest sets, such as Debian's gzip on, is not seen";
    let finding = Finding::warning("nginx", message, "nginx -T | axon check --nginx -, as root");
    match items.first() {
        Some(item) => finding.at(&item.place),
        None => finding,
    }
}

/// Places where Axon is spoken to in something else than uwsgi.
pub(in crate::check::nginx) fn other_protocols(facts: &Facts<'_>, places: &[(Scope<'_>, Passed<'_>)]) -> Vec<Finding> {
    let judge = |(_, passed): &(Scope<'_>, Passed<'_>)| {
        let Directive { name, arguments, place, .. } = passed.directive;
        let argument = arguments.first()?;
        let to_axon = targets(argument, &facts.groups).iter().any(|target| is_one_of(target, &facts.addresses));
        let host = argument.split_once("://").map_or(argument.as_str(), |(_, host)| host);
        let message = match name.as_str() {
            "uwsgi_pass" if argument.starts_with("suwsgi://") => {
                "Axon is spoken to over TLS, which it does not speak".into()
            }
            "uwsgi_pass" => return None,
            _ => format!(
                "{name} speaks another protocol to Axon, which understands uwsgi only: every answer is 400 or 502"
            ),
        };
        let host = host.strip_prefix("unix:").map_or_else(
            || host.split('/').next().unwrap_or(host).to_owned(),
            |path| format!("unix:{}", path.split(':').next().unwrap_or(path)),
        );
        to_axon.then(|| Finding::error("protocol", message, format!("uwsgi_pass {host};")).at(place))
    };
    places.iter().filter_map(judge).collect()
}

/// Why no place hands requests to Axon.
pub(in crate::check::nginx) fn nobody_reaches_axon(facts: &Facts<'_>, uwsgi: &[Examined<'_>]) -> Option<Finding> {
    let listens: Vec<String> = facts.addresses.iter().map(Address::to_string).collect();
    let listens = listens.join(", ");
    let Some(first) = uwsgi.first() else {
        let message = "nothing in it hands requests to Axon: there is no uwsgi_pass";
        let fix = format!("location / {{ uwsgi_pass {listens}; }}, and what nginx.conf has for it");
        return Some(Finding::error("uwsgi_pass", message, fix));
    };
    if facts.subject.config.addresses.is_empty() {
        // Where Axon listens was only a guess.
        return None;
    }
    let directive = first.passed.directive;
    let targets = first.targets();
    let named = directive.argument(0);
    let finding = if targets.iter().any(|target| matches!(target, Target::Unknown(_))) {
        let message = format!("whether {named} is Axon cannot be told; Axon listens on {listens}");
        Finding::warning("uwsgi_pass", message, format!("uwsgi_pass {listens};"))
    } else {
        let message = format!("requests are handed to {named}, and Axon listens on {listens}");
        Finding::error("uwsgi_pass", message, format!("uwsgi_pass {listens}; or axon serve --uwsgi {named}"))
    };
    Some(finding.at(&directive.place))
}
