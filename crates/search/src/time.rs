//! How much of the clock a move deserves.

use crate::limits::Limits;
use crate::params::*;
use std::time::{Duration, Instant};
use tandem_hybrid::SearchClock;

/// Measures a search against its share of the clock.
#[derive(Clone, Debug)]
pub(crate) struct TimeManager {
    start: Instant,
    /// No new iteration after this, scaled by how clear the choice is.
    soft: Option<Duration>,
    /// Break off here.
    hard: Option<Duration>,
    /// The soft limit is to be taken as it is.
    fixed: bool,
}

/// What the last iteration says of how clear the choice is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clarity {
    /// Share of all nodes that went into the best move.
    pub(crate) best_share: f64,
    /// Iterations since the best move last changed.
    pub(crate) stable_for: u32,
    /// How far the score has fallen from its recent average, in centipawns.
    pub(crate) drop: i32,
    /// How unsure the strategist is of the move, in nats, if it was asked.
    pub(crate) doubt: Option<f64>,
    /// There is only one legal move.
    pub(crate) forced: bool,
}

impl TimeManager {
    pub(crate) fn new(start: Instant, limits: &Limits, overhead: Duration) -> Self {
        let mut manager = Self { start, soft: None, hard: None, fixed: false };
        if let Some(time) = limits.move_time {
            let time = time.saturating_sub(overhead).max(Duration::from_millis(1));
            (manager.soft, manager.hard, manager.fixed) = (Some(time), Some(time), true);
        }
        if let Some(clock) = limits.clock {
            // The time that can be spent at all: the last message must still arrive.
            let usable = clock.remaining.saturating_sub(overhead).max(Duration::from_millis(1)).as_secs_f64();
            let increment = clock.increment.as_secs_f64();
            let percent = |value: i32| f64::from(value) / 100.0;
            let share = match clock.moves_to_go {
                Some(moves) => usable / f64::from(moves.clamp(1, 40)) * 0.9,
                None => usable * percent(tm_share()) / 10.0,
            };
            let ceiling = usable * if clock.moves_to_go == Some(1) { 0.9 } else { 0.5 };
            let soft = (share + increment * percent(tm_increment())).min(ceiling);
            let hard = (soft * percent(tm_hard())).min(ceiling);
            let merge = |old: Option<Duration>, new: f64| {
                let new = Duration::from_secs_f64(new);
                Some(old.map_or(new, |old| old.min(new)))
            };
            (manager.soft, manager.hard) = (merge(manager.soft, soft), merge(manager.hard, hard));
        }
        manager
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// How the search stands with the clock, if one runs.
    pub(crate) fn clock(&self) -> Option<SearchClock> {
        let taken = self.elapsed();
        let hard = self.hard?;
        Some(SearchClock { taken, meant: self.soft.unwrap_or(hard), left: hard.saturating_sub(taken) })
    }

    /// Whether the search must break off now.
    pub(crate) fn is_over(&self) -> bool {
        self.hard.is_some_and(|hard| self.elapsed() >= hard)
    }

    /// Whether another iteration is not worth beginning.
    pub(crate) fn is_enough(&self, clarity: Clarity) -> bool {
        let Some(soft) = self.soft else { return false };
        if self.fixed {
            return self.elapsed() >= soft;
        }
        if clarity.forced {
            return self.elapsed() >= soft / 10;
        }
        let percent = |value: i32| f64::from(value) / 100.0;
        let nodes = (percent(tm_node_base()) - clarity.best_share * percent(tm_node_factor())).max(0.4);
        let stability = (percent(tm_stability_base())
            - f64::from(clarity.stable_for.min(10)) * percent(tm_stability_step()))
        .max(0.6);
        let falling = 1.0 + f64::from(clarity.drop.clamp(-20, 50)) * percent(tm_drop()) / 10.0;
        let doubt = clarity.doubt.map_or(1.0, |nats| {
            (percent(counsel_time_base()) + nats * percent(counsel_time_doubt())).clamp(0.5, 1.5)
        });
        self.elapsed().as_secs_f64() >= soft.as_secs_f64() * nodes * stability * falling * doubt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Clock;

    fn manager(remaining_ms: u64, increment_ms: u64, moves_to_go: Option<u32>) -> TimeManager {
        let clock = Clock {
            remaining: Duration::from_millis(remaining_ms),
            increment: Duration::from_millis(increment_ms),
            moves_to_go,
        };
        let limits = Limits { clock: Some(clock), ..Limits::default() };
        TimeManager::new(Instant::now(), &limits, Duration::from_millis(10))
    }

    #[test]
    fn no_limit_ever_exceeds_what_is_left() {
        for remaining in [0, 1, 5, 11, 30, 100, 1000, 60_000, 3_600_000] {
            for increment in [0, 10, 100, 5000] {
                for moves_to_go in [None, Some(0), Some(1), Some(2), Some(40), Some(1000)] {
                    let manager = manager(remaining, increment, moves_to_go);
                    let hard = manager.hard.unwrap();
                    assert!(manager.soft.unwrap() <= hard);
                    let usable = remaining.saturating_sub(10).max(1);
                    assert!(hard <= Duration::from_millis(usable), "{remaining} {increment} {moves_to_go:?}");
                }
            }
        }
    }

    #[test]
    fn a_fixed_time_is_taken_as_it_is() {
        let limits = Limits { move_time: Some(Duration::from_millis(500)), ..Limits::default() };
        let manager = TimeManager::new(Instant::now(), &limits, Duration::from_millis(10));
        assert_eq!(manager.hard, Some(Duration::from_millis(490)));
        assert_eq!(manager.soft, manager.hard);
    }

    #[test]
    fn doubt_takes_more_of_the_clock() {
        let mut manager = manager(100_000, 0, None);
        let enough = |manager: &TimeManager, doubt| {
            manager.is_enough(Clarity { best_share: 0.7, stable_for: 5, drop: 0, doubt, forced: false })
        };
        let seconds = |doubt| {
            (1..40).find(|&seconds| {
                let ago = Duration::from_millis(250 * seconds);
                manager.start = Instant::now().checked_sub(ago).unwrap();
                enough(&manager, doubt)
            })
        };
        let taken = [Some(0.0), None, Some(3.0)].map(seconds);
        assert!(taken[0] < taken[1] && taken[1] < taken[2], "{taken:?}");
    }

    #[test]
    fn without_a_clock_there_is_no_end() {
        let manager = TimeManager::new(Instant::now(), &Limits::default(), Duration::ZERO);
        let unclear = Clarity { best_share: 1.0, stable_for: 100, drop: 0, doubt: None, forced: true };
        assert!(!manager.is_over() && !manager.is_enough(unclear));
    }
}
