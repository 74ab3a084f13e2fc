//! Counters of a strategist client: queries, answers, cache hits, and the latency by which the clock is kept.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counts of one search, as the engine prints them after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of positions that the search evaluated with the NNUE.
    pub evaluations: u64,
    /// Number of positions for which the selector was asked or, in a hybrid without one, would have been
    /// asked.
    pub considered: u64,
    /// Number of positions sent to the strategist (the hybrid's transformer) for evaluation.
    pub queried: u64,
    /// Number of queries that the strategist answered while the search ran.
    pub answered: u64,
    /// Number of times that the search came to a position whose evaluation by the strategist was in the
    /// cache.
    pub hits: u64,
    /// Time that the network took, summed over all threads that ran it.
    pub time: Duration,
}

impl Statistics {
    /// Fraction of all evaluations that the strategist made, from 0 to 1; those by the NNUE are the rest.
    pub fn fraction(&self) -> f64 {
        self.answered as f64 / (self.answered + self.evaluations).max(1) as f64
    }

    /// Mean time of an answer; zero if there was none.
    pub fn mean_time(&self) -> Duration {
        self.time / u32::try_from(self.answered.max(1)).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { evaluations, considered, queried, answered, hits, .. } = self;
        write!(
            f,
            "considered {considered}, asked {queried}, answered {answered} in {:.1} ms each, {hits} hits, {:.3} % of {} \
             evaluations",
            1e3 * self.mean_time().as_secs_f64(),
            100.0 * self.fraction(),
            answered + evaluations,
        )
    }
}

/// A counter that many threads increment.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters behind [`Statistics`], and the latency of recent answers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) evaluations: Counter,
    pub(super) considered: Counter,
    pub(super) queried: Counter,
    pub(super) hits: Counter,
    answered: Counter,
    nanoseconds: Counter,
    /// Number of the present search, by which late answers to an earlier one are recognised.
    search: Counter,
    /// Slowest recent answer in nanoseconds. An outlier decays by an eighth with each later answer and by a
    /// quarter with each new search, down to `usual_answer`.
    longest_answer: AtomicU64,
    /// Fastest recent answer in nanoseconds: the latency to expect without outliers.
    usual_answer: AtomicU64,
}

impl Tally {
    /// Number of the present search.
    pub(super) fn search(&self) -> u64 {
        self.search.get()
    }

    /// Records an answer to a query of the search with this number. If that search is over, only the latency
    /// counts.
    pub(super) fn record_answer(&self, search: u64, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if search == self.search() {
            self.answered.add(1);
            self.nanoseconds.add(nanoseconds);
        }
        let longest_answer = self.longest_answer.load(Relaxed);
        self.longest_answer.store(nanoseconds.max(longest_answer - longest_answer / 8), Relaxed);
        let usual_answer = self.usual_answer.load(Relaxed);
        let known = if usual_answer == 0 { nanoseconds } else { usual_answer + usual_answer / 8 };
        self.usual_answer.store(nanoseconds.min(known), Relaxed);
    }

    /// Forgets all latencies, after an answer that is not typical, such as the first.
    pub(super) fn forget_latency(&self) {
        self.longest_answer.store(0, Relaxed);
        self.usual_answer.store(0, Relaxed);
    }

    pub(super) fn longest_answer(&self) -> Duration {
        Duration::from_nanos(self.longest_answer.load(Relaxed))
    }

    /// Resets the counters for a new search. An outlier decays even if nothing is queried; otherwise one slow
    /// answer could stop all queries for good. It never decays below the usual latency: a search that has no
    /// time for that would wait in vain for an answer.
    pub(super) fn begin_search(&self) {
        let longest_answer = self.longest_answer.load(Relaxed);
        self.longest_answer
            .store((longest_answer - longest_answer / 4).max(self.usual_answer.load(Relaxed)), Relaxed);
        self.search.add(1);
        let Self { evaluations, considered, queried, hits, answered, nanoseconds, .. } = self;
        for counter in [evaluations, considered, queried, hits, answered, nanoseconds] {
            counter.0.store(0, Relaxed);
        }
    }

    pub(super) fn read(&self) -> Statistics {
        Statistics {
            evaluations: self.evaluations.get(),
            considered: self.considered.get(),
            queried: self.queried.get(),
            answered: self.answered.get(),
            hits: self.hits.get(),
            time: Duration::from_nanos(self.nanoseconds.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_answer_decays_gradually() {
        let tally = Tally::default();
        let answered =
            |milliseconds| tally.record_answer(tally.search(), Duration::from_millis(milliseconds));
        answered(10);
        answered(800);
        tally.begin_search();
        assert_eq!(tally.longest_answer(), Duration::from_millis(600));
        answered(10);
        assert_eq!(tally.longest_answer(), Duration::from_millis(525));
        (0..60).for_each(|_| answered(10));
        assert_eq!(tally.longest_answer(), Duration::from_millis(10));
        let statistics = tally.read();
        assert_eq!((statistics.answered, statistics.mean_time()), (61, Duration::from_millis(10)));
    }

    /// While an outlier lasts nothing is queried, so that only new searches make it decay. The usual latency
    /// does not decay.
    #[test]
    fn new_searches_decay_an_outlier_but_not_the_usual_latency() {
        let tally = Tally::default();
        let answered =
            |milliseconds| tally.record_answer(tally.search(), Duration::from_millis(milliseconds));
        answered(6);
        answered(1000);
        (0..50).for_each(|_| tally.begin_search());
        let longest_answer = tally.longest_answer();
        assert!(
            longest_answer >= Duration::from_millis(6) && longest_answer < Duration::from_millis(7),
            "{longest_answer:?}"
        );
        // After some slower answers their latency is the usual one, as on a machine that has become slower.
        (0..20).for_each(|_| answered(12));
        (0..50).for_each(|_| tally.begin_search());
        assert_eq!(tally.longest_answer(), Duration::from_millis(12));
    }

    #[test]
    fn an_answer_that_comes_too_late_counts_for_no_other_search() {
        let tally = Tally::default();
        let search = tally.search();
        tally.begin_search();
        tally.record_answer(search, Duration::from_secs(1));
        assert_eq!(tally.read(), Statistics::default());
        assert_eq!(tally.longest_answer(), Duration::from_secs(1));
    }

    #[test]
    fn statistics_read_as_a_sentence() {
        let time = Duration::from_millis(30);
        let statistics =
            Statistics { evaluations: 990, considered: 20, queried: 12, answered: 10, hits: 44, time };
        let text =
            "considered 20, asked 12, answered 10 in 3.0 ms each, 44 hits, 1.000 % of 1000 evaluations";
        assert_eq!(statistics.to_string(), text);
    }
}
