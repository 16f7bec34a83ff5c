//! Answers that nginx keeps: whether the key tells apart what differs.

use crate::check::{
    Finding,
    nginx::{Examined, tree::Directive},
};

/// How often variables are replaced by what they are made of.
const MAX_STEPS: usize = 8;

/// Everything about a cache, where there is one.
pub(in crate::check::nginx) fn cache(place: &Examined<'_>) -> Vec<Finding> {
    if !place.caches() {
        return Vec::new();
    }
    [unbuffered(place), query(place), form(place), methods(place), pieces(place), range(place), secret(place)]
        .into_iter()
        .flatten()
        .collect()
}

impl Examined<'_> {
    /// Whether nginx keeps answers of this place.
    pub(super) fn caches(&self) -> bool {
        self.scope.value("uwsgi_cache").is_some_and(|zone| zone != "off")
    }

    /// The variables that make up a text, and those that these are made of.
    fn variables(&self, text: &str) -> Vec<String> {
        let mut found = names(text);
        for _ in 0..MAX_STEPS {
            let behind = |name: &String| {
                let is_named = |directive: &&&Directive| directive.argument(1).strip_prefix('$') == Some(name);
                let map = self.facts.maps.iter().find(is_named).map(|map| map.argument(0));
                let set = self.scope.all("set");
                let set = set.iter().find(|set| set.argument(0).strip_prefix('$') == Some(name));
                let set = set.map(|set| set.argument(1));
                [map, set].into_iter().flatten().flat_map(names).collect::<Vec<_>>()
            };
            let mut more: Vec<String> = found.iter().flat_map(behind).filter(|name| !found.contains(name)).collect();
            more.sort();
            more.dedup();
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        found
    }

    fn key(&self) -> Vec<String> {
        self.variables(self.scope.value("uwsgi_cache_key").unwrap_or_default())
    }

    fn error_in_key(&self, message: &str, fix: &str) -> Finding {
        Finding::error("cache", message, fix).at(self.scope.place("uwsgi_cache_key", self.passed))
    }
}

fn unbuffered(place: &Examined<'_>) -> Option<Finding> {
    (!place.scope.is_on("uwsgi_buffering", true)).then(|| {
        let message = "nothing is ever kept: nginx keeps only answers that it buffers";
        Finding::warning("cache", message, "uwsgi_buffering on; uwsgi_buffers 8 64k; uwsgi_max_temp_file_size 0;")
            .at(place.scope.place("uwsgi_buffering", place.passed))
    })
}

fn query(place: &Examined<'_>) -> Option<Finding> {
    let key = place.key();
    let has_query = key.iter().any(|name| matches!(name.as_str(), "request_uri" | "args" | "query_string"));
    (!has_query).then(|| {
        let message = "the query is no part of the cache's key: one list of files is answered with another one's";
        place.error_in_key(message, "uwsgi_cache_key \"$request_uri $slice_range $axon_accept\"; see docs/caching.md")
    })
}

fn form(place: &Examined<'_>) -> Option<Finding> {
    let ignored = place.scope.all("uwsgi_ignore_headers");
    // Otherwise nginx takes Axon's Vary: Accept into account by itself.
    let ignores_vary = ignored.iter().flat_map(|line| &line.arguments).any(|name| name.eq_ignore_ascii_case("vary"));
    let key = place.key();
    let params = place.scope.all("uwsgi_param");
    let told = params.iter().find(|param| param.argument(0) == "HTTP_ACCEPT").map(|param| names(param.argument(1)));
    // What Axon is told is in the key, or nothing that changes.
    let covered = told.is_some_and(|told| told.iter().all(|name| key.contains(name)));
    (ignores_vary && !covered && !key.iter().any(|name| name == "http_accept")).then(|| {
        let message = "the Accept field is no part of the cache's key and Vary is ignored: a bundle comes in the form \
                       that another client asked for";
        place.error_in_key(message, "uwsgi_cache_key \"$request_uri $http_accept\"; or docs/caching.md's $axon_accept")
    })
}

fn methods(place: &Examined<'_>) -> Option<Finding> {
    let directive = place.scope.directive("uwsgi_cache_methods")?;
    directive.arguments.iter().any(|method| method.eq_ignore_ascii_case("POST")).then(|| {
        let message = "answers to POST are kept, and the list in the body is no part of the key: one list is answered with \
                       another one's";
        Finding::error("cache", message, "uwsgi_cache_methods GET HEAD;").at(&directive.place)
    })
}

fn slices(place: &Examined<'_>) -> bool {
    place.scope.value("slice").is_some_and(|len| len != "0")
}

fn pieces(place: &Examined<'_>) -> Option<Finding> {
    (slices(place) && !place.key().iter().any(|name| name == "slice_range")).then(|| {
        let message = "$slice_range is no part of the cache's key: all pieces of an answer are taken for the same";
        place.error_in_key(message, "uwsgi_cache_key \"$request_uri $slice_range $axon_accept\";")
    })
}

fn range(place: &Examined<'_>) -> Option<Finding> {
    let params = place.scope.all("uwsgi_param");
    let told = params.iter().find(|param| param.argument(0) == "HTTP_RANGE").map(|param| param.argument(1));
    (slices(place) && told != Some("$slice_range") && !place.scope.has_unread_include()).then(|| {
        let message = "Axon is not told which piece is wanted: it sends the whole for each";
        Finding::error("cache", message, "uwsgi_param HTTP_RANGE $slice_range;")
            .at(place.scope.place("slice", place.passed))
    })
}

fn secret(place: &Examined<'_>) -> Option<Finding> {
    place.facts.subject.config.secret_file.is_none().then(|| {
        let message = "Axon has no secret file: with a restart every ETag changes, and all that is kept is sent again";
        Finding::warning("cache", message, "axon serve --secret-file /var/lib/axon/secret")
            .at(place.scope.place("uwsgi_cache", place.passed))
    })
}

/// The variables of a text, by name.
fn names(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for piece in text.split('$').skip(1) {
        let piece = piece.strip_prefix('{').unwrap_or(piece);
        let name: String = piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if !name.is_empty() && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
