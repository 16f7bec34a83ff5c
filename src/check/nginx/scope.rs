//! Which directives count at a place: those of the innermost level that has any.

use crate::check::nginx::{Place, tree::Directive};

/// The levels around a place, outermost first: http, server, location, and what is nested in it.
#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    levels: Vec<Level<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Level<'a> {
    /// Whose block it is; None for the outermost level of a file.
    of: Option<&'a Directive>,
    items: &'a [Directive],
}

/// Who answers the requests of a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed<'a> {
    /// `uwsgi_pass`, `proxy_pass` and so on.
    pub(super) directive: &'a Directive,
}

/// How the directives are called that hand a request to somebody else.
pub(super) const PASSES: [&str; 5] = ["uwsgi_pass", "proxy_pass", "fastcgi_pass", "scgi_pass", "grpc_pass"];

impl<'a> Scope<'a> {
    /// The level of `http`, or of a file that holds what belongs into it.
    pub(super) fn outermost(items: &'a [Directive]) -> Self {
        let http = items.iter().find(|item| item.name == "http" && item.block.is_some());
        let level = http.map_or(Level { of: None, items }, |http| Level { of: Some(http), items: http.items() });
        Self { levels: vec![level] }
    }

    /// The blocks of the innermost level with a name: `upstream`, `map`.
    pub(super) fn blocks(&self, name: &str) -> Vec<&'a Directive> {
        self.level().items.iter().filter(|item| item.name == name && item.block.is_some()).collect()
    }

    /// Whether this is an `if` or `limit_except`, which hands on to whom its location does unless it says otherwise.
    pub(super) fn is_branch(&self) -> bool {
        self.level().of.is_some_and(is_branch)
    }

    /// Every place beneath this one where requests are handed on, this one included.
    pub(super) fn places(&self) -> Vec<(Self, Passed<'a>)> {
        let mut found = Vec::new();
        if let Some(passed) = self.passed() {
            found.push((self.clone(), passed));
        }
        for item in self.level().items {
            if matches!(item.name.as_str(), "server" | "location" | "if" | "limit_except") && item.block.is_some() {
                let mut inner = self.clone();
                inner.levels.push(Level { of: Some(item), items: item.items() });
                found.extend(inner.places());
            }
        }
        found
    }

    /// The directive that counts here; of several in one block the last.
    pub(super) fn directive(&self, name: &str) -> Option<&'a Directive> {
        self.all(name).pop()
    }

    /// The directives of the innermost level that has any: nginx inherits all or none.
    pub(super) fn all(&self, name: &str) -> Vec<&'a Directive> {
        self.levels_with(name).next().unwrap_or_default()
    }

    /// Those of the next level outside, which the inner ones replace.
    pub(super) fn replaced(&self, name: &str) -> Vec<&'a Directive> {
        self.levels_with(name).nth(1).unwrap_or_default()
    }

    /// Whether the innermost level itself has such a directive.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.level().items.iter().any(|item| item.name == name)
    }

    /// The first argument of the directive that counts, if there is one.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.directive(name).map(|directive| directive.argument(0))
    }

    /// Whether a switch is on; `default` where nobody says.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        self.value(name).map_or(default, |value| value.eq_ignore_ascii_case("on"))
    }

    /// Where to point at for what is not there: the directive if there is one, else the place itself.
    pub(super) fn place(&self, name: &str, passed: Passed<'a>) -> &'a Place {
        self.directive(name).map_or(&passed.directive.place, |directive| &directive.place)
    }

    /// Whether a file is included here that could not be read, and that may hold more.
    pub(super) fn has_unread_include(&self) -> bool {
        self.levels.iter().any(|level| level.items.iter().any(|item| item.name == "include"))
    }

    /// How the innermost level is called: `location /api/`.
    pub(super) fn name(&self) -> String {
        let words = |of: &Directive| {
            std::iter::once(&of.name).chain(&of.arguments).map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        self.level().of.map_or_else(|| "the file".into(), words)
    }

    fn levels_with(&self, name: &str) -> impl Iterator<Item = Vec<&'a Directive>> {
        let of_level = move |level: &Level<'a>| -> Vec<&'a Directive> {
            level.items.iter().filter(|item| item.name == name && item.block.is_none()).collect()
        };
        self.levels.iter().rev().map(of_level).filter(|found| !found.is_empty())
    }

    /// The directive that says who answers here.
    fn passed(&self) -> Option<Passed<'a>> {
        for level in self.levels.iter().rev() {
            if let Some(directive) = level.items.iter().rev().find(|item| PASSES.contains(&item.name.as_str())) {
                return Some(Passed { directive });
            }
            if !level.of.is_some_and(is_branch) {
                return None;
            }
        }
        None
    }

    fn level(&self) -> Level<'a> {
        // There is always one: it is made with one, and they only become more.
        self.levels.last().copied().unwrap_or(Level { of: None, items: &[] })
    }
}

fn is_branch(of: &Directive) -> bool {
    matches!(of.name.as_str(), "if" | "limit_except")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::nginx::tree::parse;

    const NESTED: &str = "http {
        gzip on; p a; p b; q a;
        server {
            gzip off; p c;
            location / { uwsgi_pass one; gzip on; p d; p e; location /inner { r 1; } if ($x) { gzip off; } }
            location /none { }
            location /other { proxy_pass two; limit_except GET { deny all; } }
        }
    }";

    fn arguments(found: &[&Directive]) -> Vec<String> {
        found.iter().map(|item| item.argument(0).to_owned()).collect()
    }

    #[test]
    fn the_innermost_level_that_says_something_counts_and_lists_are_taken_whole() {
        let items = parse(&"f".into(), NESTED).expect("a tree");
        let scope = Scope::outermost(&items);
        assert_eq!(arguments(&scope.all("p")), ["a", "b"]);
        let places = scope.places();
        let names: Vec<String> = places.iter().map(|(scope, _)| scope.name()).collect();
        // Neither a nested location nor one that answers by itself is a place.
        assert_eq!(names, ["location /", "if ($x)", "location /other", "limit_except GET"]);
        let (location, passed) = &places[0];
        assert_eq!(arguments(&location.all("p")), ["d", "e"]);
        assert_eq!(arguments(&location.replaced("p")), ["c"]);
        assert_eq!(location.value("q"), Some("a"));
        assert!(location.is_on("gzip", false) && !location.is_on("nothing", false) && location.is_on("nothing", true));
        assert_eq!((location.place("q", *passed).line, location.place("nothing", *passed).line), (2, 5));
        let (branch, passed) = &places[1];
        assert!(!branch.is_on("gzip", true));
        assert_eq!((arguments(&branch.all("p")), passed.directive.argument(0)), (vec!["d".into(), "e".into()], "one"));
        assert!(!branch.has_unread_include());
        assert!(location.is_own("p") && !location.is_own("q"));
    }

    #[test]
    fn a_file_may_be_a_piece_of_a_configuration() {
        let items = parse(&"f".into(), "include x; location / { uwsgi_pass one; }").expect("a tree");
        let places = Scope::outermost(&items).places();
        assert_eq!(places.len(), 1);
        assert!(places[0].0.has_unread_include());
        let items = parse(&"f".into(), "uwsgi_pass one;").expect("a tree");
        assert_eq!(Scope::outermost(&items).places()[0].0.name(), "the file");
    }
}
