//! How often a value was how large.

use crate::transport::LocalCounter;

/// Upper bounds of buckets, ascending. The last one is `u64::MAX`: no bound.
pub(super) type Bounds<const N: usize> = [u64; N];

/// Counts values by the bucket they fall into. One thread adds values and takes no lock for it; any may read.
///
/// The library's own histogram takes one for each value, and all workers would share it.
#[derive(Debug)]
pub(super) struct Histogram<const N: usize> {
    bounds: &'static Bounds<N>,
    buckets: [LocalCounter; N],
    sum: LocalCounter,
}

/// What histograms of the same bounds have counted together.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Snapshot<const N: usize> {
    bounds: &'static Bounds<N>,
    buckets: [u64; N],
    sum: u64,
}

impl<const N: usize> Histogram<N> {
    pub(super) fn new(bounds: &'static Bounds<N>) -> Self {
        Self { bounds, buckets: [const { LocalCounter::new() }; N], sum: LocalCounter::new() }
    }

    /// Counts a value. One that is exactly a bound belongs below it.
    pub(super) fn add(&self, value: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.buckets[bucket].add(1);
        self.sum.add(value);
    }
}

impl<const N: usize> Snapshot<N> {
    /// The sum of histograms that have these bounds.
    pub(super) fn of<'a>(bounds: &'static Bounds<N>, histograms: impl Iterator<Item = &'a Histogram<N>>) -> Self {
        let mut snapshot = Self { bounds, buckets: [0; N], sum: 0 };
        for histogram in histograms {
            snapshot.sum = snapshot.sum.wrapping_add(histogram.sum.get());
            for (sum, bucket) in snapshot.buckets.iter_mut().zip(&histogram.buckets) {
                *sum += bucket.get();
            }
        }
        snapshot
    }

    /// How many values there were.
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their sum, in a unit so many times as large.
    #[expect(clippy::cast_precision_loss, reason = "the text has no more digits")]
    pub(super) fn sum(&self, unit: u64) -> f64 {
        self.sum as f64 / unit as f64
    }

    /// Each bound in that unit, and how many values lie between it and the one before.
    #[expect(clippy::cast_precision_loss, reason = "bounds are round numbers")]
    pub(super) fn buckets(&self, unit: u64) -> [(f64, u64); N] {
        let bound = |bound| if bound == u64::MAX { f64::INFINITY } else { bound as f64 / unit as f64 };
        std::array::from_fn(|index| (bound(self.bounds[index]), self.buckets[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds<3> = [100, 2500, u64::MAX];

    #[test]
    fn a_value_falls_below_the_first_bound_that_holds_it() {
        let (one, other) = (Histogram::new(&BOUNDS), Histogram::new(&BOUNDS));
        for value in [0, 100, 101, 2500] {
            one.add(value);
        }
        other.add(2501);
        let snapshot = Snapshot::of(&BOUNDS, [&one, &other].into_iter());
        assert_eq!(snapshot, Snapshot { bounds: &BOUNDS, buckets: [2, 2, 1], sum: 5202 });
        assert_eq!(snapshot.count(), 5);
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(close(snapshot.sum(1000), 5.202));
        let [(low, 2), (high, 2), (rest, 1)] = snapshot.buckets(1000) else { panic!("{snapshot:?}") };
        assert!(close(low, 0.1) && close(high, 2.5) && rest.is_infinite());
    }
}
