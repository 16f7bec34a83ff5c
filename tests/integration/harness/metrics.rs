//! The page of metrics, read strictly.

use std::collections::BTreeMap;

use super::{Answer, Daemon, wait_until};

/// Where the metrics are.
pub const METRICS: &str = "/api/metrics";

/// A number that is whole.
fn whole(value: f64) -> u64 {
    value.to_string().parse().expect("a whole number")
}

/// A page of metrics: the value of each series, by its name with its labels as they stand there.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    series: BTreeMap<String, f64>,
    /// What each family is: counter, gauge, histogram.
    kinds: BTreeMap<String, String>,
}

impl Metrics {
    /// Reads a page; whatever is neither a comment nor a series is a failure.
    #[track_caller]
    pub fn parse(page: &str) -> Self {
        let mut metrics = Self::default();
        assert!(page.ends_with('\n'), "the last line is cut");
        for line in page.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a name and a type");
                assert_eq!(metrics.kinds.insert(name.to_owned(), kind.to_owned()), None, "{name} is there twice");
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').expect("a series and a value");
                let value = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
                assert_eq!(metrics.series.insert(name.to_owned(), value), None, "{name} is there twice");
            }
        }
        metrics
    }

    /// The value of a series; it must be there.
    #[track_caller]
    pub fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("there is no {series} among {:#?}", self.series.keys()))
    }

    /// The same, of something that is counted.
    #[track_caller]
    pub fn count(&self, series: &str) -> u64 {
        let value = self.value(series);
        assert!(value >= 0.0 && value.fract() == 0.0, "{series} is {value}");
        whole(value)
    }

    /// All series with values above 0 whose names begin like this.
    pub fn above_zero(&self, start: &str) -> Vec<(&str, u64)> {
        let found = self.series.iter().filter(|(name, value)| name.starts_with(start) && **value > 0.0);
        found.map(|(name, value)| (name.as_str(), whole(*value))).collect()
    }

    /// The names of all series, without their labels.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.series.keys().map(|series| series.split('{').next().unwrap_or(series))
    }

    /// All families with what they are.
    pub fn kinds(&self) -> &BTreeMap<String, String> {
        &self.kinds
    }
}

impl Daemon {
    /// A page of metrics, and how long it was.
    #[track_caller]
    pub fn metrics(&self) -> (Metrics, usize) {
        let Answer { status, body, .. } = self.get(METRICS);
        assert_eq!(status, 200);
        (Metrics::parse(std::str::from_utf8(&body).expect("text")), body.len())
    }

    /// Asks for metrics until they fit. An answer is counted once its connection is closed, so right after it they may
    /// not be there yet.
    #[track_caller]
    pub fn metrics_when(&self, what: &str, mut fits: impl FnMut(&Metrics) -> bool) -> Metrics {
        let mut found = Metrics::default();
        wait_until(what, || {
            found = self.metrics().0;
            fits(&found)
        });
        found
    }
}
