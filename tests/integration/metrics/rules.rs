//! What ships beside the metrics: alerts, a dashboard, their documentation. All of it fits the page as it is, and
//! promtool has nothing to say against it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::harness::{Daemon, METRICS, Metrics, Packet, Site, program, stream_target};

const ALERTS: &str = include_str!("../../../docs/alerts.yml");
const DASHBOARD: &str = include_str!("../../../docs/grafana.json");
const DOCUMENTATION: &str = include_str!("../../../docs/metrics.md");

/// A page after requests of every route and of many a status.
fn page() -> String {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("b.txt", "abcdef");
    let daemon = Daemon::start(&site, &[]);
    for target in [&*stream_target(&["a.txt", "b.txt"]), &stream_target(&["none"]), "/api/health", METRICS, "/"] {
        daemon.get(target);
    }
    daemon.send(&Packet::new("PUT", "/api/health"));
    daemon.metrics_when("all are counted", |metrics| metrics.above_zero("axon_requests_total").len() == 6);
    daemon.get(METRICS).text().to_owned()
}

/// Runs promtool with something on its standard input.
fn promtool(arguments: &[&str], input: &Path) -> Output {
    let mut command = Command::new(program("promtool", "prometheus"));
    command.args(arguments).stdin(fs::File::open(input).expect("a file")).stdout(Stdio::piped());
    command.output().expect("promtool runs")
}

/// It must be content, and have nothing to remark.
#[track_caller]
fn assert_passes(arguments: &[&str], input: &Path) -> String {
    let output = promtool(arguments, input);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}:\n{said}");
    said
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// All names of metrics in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("axon_")).collect()
}

/// Every name is that of a series, and every label that is compared with a plain value has it on some series.
#[track_caller]
fn assert_known(expressions: &str, page: &str) {
    let metrics = Metrics::parse(page);
    let known: BTreeSet<&str> = metrics.names().collect();
    let unknown: Vec<_> = named(expressions).into_iter().filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "there is no {unknown:?} among {known:?}");
    for label in ["route", "cause", "status"] {
        for (at, _) in expressions.match_indices(&format!("{label}=\"")) {
            let selector = expressions[at..].split_inclusive('"').take(2).collect::<String>();
            assert!(page.contains(&selector), "no series has {selector}");
        }
    }
}

/// All expressions of a dashboard, wherever they are.
fn expressions(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("expr").and_then(Value::as_str);
            own.into_iter().chain(fields.values().flat_map(expressions)).collect()
        }
        Value::Array(values) => values.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn promtool_finds_nothing_in_the_page() {
    let site = Site::empty();
    let file = site.beside("page");
    fs::write(&file, page()).expect("a file");
    assert_eq!(assert_passes(&["check", "metrics"], &file), "");
    // It would say something of a page that breaks the conventions.
    fs::write(&file, "# TYPE axon_requests counter\naxon_requests 1\n").expect("a file");
    assert!(!promtool(&["check", "metrics"], &file).status.success());
}

#[test]
fn the_alerts_are_rules_and_go_off_when_they_should() {
    let nothing = Path::new("/dev/null");
    let said = assert_passes(&["check", "rules", text(&shipped("docs/alerts.yml"))], nothing);
    assert!(said.contains("5 rules found"), "{said}");
    assert_passes(&["test", "rules", text(&shipped("tests/alerts.yml"))], nothing);
    assert_known(ALERTS, &page());
    // Each has its test.
    let tests = fs::read_to_string(shipped("tests/alerts.yml")).expect("a file");
    for name in ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} never goes off");
        assert!(tests.contains(&format!("alertname: {name}, exp_alerts: []")), "{name} never stays quiet");
        assert!(DOCUMENTATION.contains(&format!("| `{name}` |")), "{name} is not explained");
    }
    assert_eq!(ALERTS.matches("- alert: ").count(), ALERTS.matches("        annotations:\n").count());
}

#[test]
fn every_panel_of_the_dashboard_shows_something_that_there_is() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let expressions = expressions(&dashboard);
    assert_known(&expressions.join("\n"), &page());
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().expect("a number")).collect();
    assert_eq!(ids.len(), panels.len(), "each has its own number");
    for panel in panels {
        let targets = panel["targets"].as_array().expect("what it shows");
        assert!(!targets.is_empty() && panel["title"].is_string() && panel["description"].is_string(), "{panel}");
    }
    // Whatever a query of a variable names, too.
    assert_known(&dashboard["templating"].to_string(), &page());

    // Is it PromQL, once Grafana has put its values in? Rules must be; and JSON is YAML.
    let filled = |expression: &&str| expression.replace("$__rate_interval", "5m").replace("$instance", ".*");
    let rules = expressions.iter().map(filled).enumerate();
    let rules: Vec<Value> =
        rules.map(|(index, expr)| json!({"record": format!("panel:{index}"), "expr": expr})).collect();
    let site = Site::empty();
    let file = site.beside("rules.json");
    fs::write(&file, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string()).expect("a file");
    let said = assert_passes(&["check", "rules", text(&file)], Path::new("/dev/null"));
    assert!(said.contains(&format!("{} rules found", expressions.len())), "{said}");
}

#[test]
fn the_documentation_tells_of_all_metrics_and_of_no_others() {
    let page = page();
    let metrics = Metrics::parse(&page);
    for (family, kind) in metrics.kinds() {
        assert!(DOCUMENTATION.contains(&format!("| `{family}` | {kind} |")), "{family}, a {kind}, is not explained");
    }
    let families: BTreeSet<&str> = metrics.kinds().keys().map(String::as_str).collect();
    let unknown: Vec<_> = named(DOCUMENTATION).into_iter().filter(|name| !families.contains(name)).collect();
    assert!(unknown.is_empty(), "there is no {unknown:?}");
    // The dashboard leaves out none.
    let shown = named(DASHBOARD);
    for family in families {
        assert!(shown.iter().any(|name| name.starts_with(family)), "{family} is nowhere in the dashboard");
    }
}

#[test]
fn the_configuration_of_prometheus_is_one() {
    let configuration = DOCUMENTATION.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let site = Site::empty();
    fs::write(site.beside("axon-alerts.yml"), ALERTS).expect("a file");
    let file = site.beside("prometheus.yml");
    fs::write(&file, configuration.expect("an example")).expect("a file");
    let said = assert_passes(&["check", "config", text(&file)], Path::new("/dev/null"));
    assert!(said.contains("5 rules found") && said.contains("is valid prometheus config"), "{said}");
}
