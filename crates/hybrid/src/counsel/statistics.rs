//! What is counted while counsel is held.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What happened in a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Positions that the tactician judged.
    pub evaluations: u64,
    /// How often a position was looked at by the selector, or would have been if there were one.
    pub considered: u64,
    /// Questions to the strategist.
    pub asked: u64,
    /// Those that it answered.
    pub answered: u64,
    /// How often the search came by a position of which something was said.
    pub hits: u64,
    /// How long the strategist thought, all its threads together.
    pub time: Duration,
}

impl Statistics {
    /// The strategist's part of all evaluations.
    pub fn share(&self) -> f64 {
        self.answered as f64 / (self.answered + self.evaluations).max(1) as f64
    }

    /// How long an answer took.
    pub fn time_each(&self) -> Duration {
        self.time / u32::try_from(self.answered.max(1)).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { evaluations, considered, asked, answered, hits, .. } = self;
        write!(
            f,
            "considered {considered}, asked {asked}, answered {answered} in {:.1} ms each, {hits} hits, {:.3} % of {} \
             evaluations",
            1e3 * self.time_each().as_secs_f64(),
            100.0 * self.share(),
            answered + evaluations,
        )
    }
}

/// A number that threads count up.
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

/// [`Statistics`] in the making.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) evaluations: Counter,
    pub(super) considered: Counter,
    pub(super) asked: Counter,
    pub(super) hits: Counter,
    answered: Counter,
    nanoseconds: Counter,
    /// Which search this is.
    search: Counter,
    /// About the longest that an answer took lately. One that took long by chance is forgotten little by little, by other
    /// answers and by new searches, down to what is usual.
    longest: AtomicU64,
    /// About the shortest that an answer took lately.
    usual: AtomicU64,
}

impl Tally {
    /// Which search is counted now.
    pub(super) fn search(&self) -> u64 {
        self.search.get()
    }

    /// A question of a search was answered. If that search is over, nothing but the time is of interest.
    pub(super) fn answered(&self, search: u64, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if search == self.search() {
            self.answered.add(1);
            self.nanoseconds.add(nanoseconds);
        }
        let longest = self.longest.load(Relaxed);
        self.longest.store(nanoseconds.max(longest - longest / 8), Relaxed);
        let usual = self.usual.load(Relaxed);
        let known = if usual == 0 { nanoseconds } else { usual + usual / 8 };
        self.usual.store(nanoseconds.min(known), Relaxed);
    }

    /// Nothing is known of how long an answer takes.
    pub(super) fn forget(&self) {
        self.longest.store(0, Relaxed);
        self.usual.store(0, Relaxed);
    }

    pub(super) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Relaxed))
    }

    /// A new search begins. What took long once is forgotten a little even if nobody dares to ask: else nobody would again.
    /// What an answer always takes is not: searches that have no time for one must not come to think that they have.
    pub(super) fn clear(&self) {
        let longest = self.longest.load(Relaxed);
        self.longest.store((longest - longest / 4).max(self.usual.load(Relaxed)), Relaxed);
        self.search.add(1);
        let Self { evaluations, considered, asked, hits, answered, nanoseconds, .. } = self;
        for counter in [evaluations, considered, asked, hits, answered, nanoseconds] {
            counter.0.store(0, Relaxed);
        }
    }

    pub(super) fn read(&self) -> Statistics {
        Statistics {
            evaluations: self.evaluations.get(),
            considered: self.considered.get(),
            asked: self.asked.get(),
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
    fn one_slow_answer_is_forgotten_little_by_little() {
        let tally = Tally::default();
        let answered = |milliseconds| tally.answered(tally.search(), Duration::from_millis(milliseconds));
        answered(10);
        answered(800);
        tally.clear();
        assert_eq!(tally.longest(), Duration::from_millis(600));
        answered(10);
        assert_eq!(tally.longest(), Duration::from_millis(525));
        (0..60).for_each(|_| answered(10));
        assert_eq!(tally.longest(), Duration::from_millis(10));
        let statistics = tally.read();
        assert_eq!((statistics.answered, statistics.time_each()), (61, Duration::from_millis(10)));
    }

    /// As long as it is remembered nobody is asked, and without an answer nothing else would make it shorter. What is usual
    /// is remembered for ever: who has no time for it has none in the next search either.
    #[test]
    fn searches_alone_forget_it_too_but_not_what_is_usual() {
        let tally = Tally::default();
        let answered = |milliseconds| tally.answered(tally.search(), Duration::from_millis(milliseconds));
        answered(6);
        answered(1000);
        (0..50).for_each(|_| tally.clear());
        let longest = tally.longest();
        assert!(longest >= Duration::from_millis(6) && longest < Duration::from_millis(7), "{longest:?}");
        // A machine that has become slower is believed after some answers.
        (0..20).for_each(|_| answered(12));
        (0..50).for_each(|_| tally.clear());
        assert_eq!(tally.longest(), Duration::from_millis(12));
    }

    #[test]
    fn an_answer_that_comes_too_late_counts_for_no_other_search() {
        let tally = Tally::default();
        let search = tally.search();
        tally.clear();
        tally.answered(search, Duration::from_secs(1));
        assert_eq!(tally.read(), Statistics::default());
        assert_eq!(tally.longest(), Duration::from_secs(1));
    }

    #[test]
    fn statistics_read_as_a_sentence() {
        let time = Duration::from_millis(30);
        let statistics =
            Statistics { evaluations: 990, considered: 20, asked: 12, answered: 10, hits: 44, time };
        let text =
            "considered 20, asked 12, answered 10 in 3.0 ms each, 44 hits, 1.000 % of 1000 evaluations";
        assert_eq!(statistics.to_string(), text);
    }
}
