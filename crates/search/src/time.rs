//! Time management: how much of the clock a move may use.

use crate::limits::Limits;
use crate::params::*;
use crate::settings::Settings;
use crate::strategist::SearchClock;
use std::time::{Duration, Instant};

/// Soft and hard time limit of one search.
#[derive(Clone, Debug)]
pub(crate) struct TimeManager {
    start: Instant,
    /// Time after which no new iteration begins, scaled by the stability of the result; `None` without a
    /// limit.
    soft: Option<Duration>,
    /// Time at which the search stops at once; `None` without a limit.
    hard: Option<Duration>,
    /// True for `movetime`, whose limit is not scaled.
    fixed: bool,
}

/// Stability of the result after an iteration; unstable results get more time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StabilityStats {
    /// Fraction of all nodes spent on the best move.
    pub(crate) best_move_fraction: f64,
    /// Iterations since the best move last changed.
    pub(crate) stable_for: u32,
    /// Centipawns by which the score has dropped below its recent average.
    pub(crate) drop: i32,
    /// Entropy of the strategist's root policy in nats, if it was queried.
    pub(crate) policy_entropy: Option<f64>,
    /// True if there is only one legal move.
    pub(crate) forced: bool,
}

impl TimeManager {
    pub(crate) fn new(start: Instant, limits: &Limits, settings: &Settings) -> Self {
        let overhead = settings.move_overhead;
        let mut manager = Self { start, soft: None, hard: None, fixed: false };
        if let Some(time) = limits.move_time {
            let time = time.saturating_sub(overhead).max(Duration::from_millis(1));
            (manager.soft, manager.hard, manager.fixed) = (Some(time), Some(time), true);
        }
        if let Some(clock) = limits.clock {
            // Time that can be spent at all, because the last message must still arrive.
            let usable = clock.remaining.saturating_sub(overhead).max(Duration::from_millis(1)).as_secs_f64();
            let increment = clock.increment.as_secs_f64();
            let percent = |value: i32| f64::from(value) / 100.0;
            let per_move = match clock.moves_to_go {
                Some(moves) => usable / f64::from(moves.clamp(1, 40)) * 0.9,
                None => usable * percent(tm_fraction()) / 10.0,
            };
            let ceiling = usable * if clock.moves_to_go == Some(1) { 0.9 } else { 0.5 };
            let soft = (per_move + increment * percent(tm_increment())).min(ceiling);
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

    /// State of the clock for the strategist's queries; `None` if no clock runs.
    pub(crate) fn clock(&self) -> Option<SearchClock> {
        let elapsed = self.elapsed();
        let hard = self.hard?;
        Some(SearchClock {
            elapsed,
            planned: self.soft.unwrap_or(hard),
            remaining: hard.saturating_sub(elapsed),
        })
    }

    /// True if the hard limit is reached.
    pub(crate) fn hard_limit_reached(&self) -> bool {
        self.hard.is_some_and(|hard| self.elapsed() >= hard)
    }

    /// True if the soft limit, scaled by the stability of the result, is reached and no further iteration
    /// should begin.
    pub(crate) fn soft_limit_reached(&self, stability_stats: StabilityStats) -> bool {
        let Some(soft) = self.soft else { return false };
        if self.fixed {
            return self.elapsed() >= soft;
        }
        if stability_stats.forced {
            return self.elapsed() >= soft / 10;
        }
        let percent = |value: i32| f64::from(value) / 100.0;
        let nodes = (percent(tm_node_base())
            - stability_stats.best_move_fraction * percent(tm_node_factor()))
        .max(0.4);
        let stability = (percent(tm_stability_base())
            - f64::from(stability_stats.stable_for.min(10)) * percent(tm_stability_step()))
        .max(0.6);
        let falling = 1.0 + f64::from(stability_stats.drop.clamp(-20, 50)) * percent(tm_drop()) / 10.0;
        let entropy = stability_stats.policy_entropy.map_or(1.0, |nats| {
            (percent(strategist_time_base()) + nats * percent(strategist_time_entropy())).clamp(0.5, 1.5)
        });
        self.elapsed().as_secs_f64() >= soft.as_secs_f64() * nodes * stability * falling * entropy
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
        TimeManager::new(Instant::now(), &limits, &Settings::default())
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
        let manager = TimeManager::new(Instant::now(), &limits, &Settings::default());
        assert_eq!(manager.hard, Some(Duration::from_millis(490)));
        assert_eq!(manager.soft, manager.hard);
    }

    #[test]
    fn an_uncertain_policy_takes_more_of_the_clock() {
        let mut manager = manager(100_000, 0, None);
        let enough = |manager: &TimeManager, policy_entropy| {
            manager.soft_limit_reached(StabilityStats {
                best_move_fraction: 0.7,
                stable_for: 5,
                drop: 0,
                policy_entropy,
                forced: false,
            })
        };
        let seconds = |policy_entropy| {
            (1..40).find(|&seconds| {
                let ago = Duration::from_millis(250 * seconds);
                manager.start = Instant::now().checked_sub(ago).unwrap();
                enough(&manager, policy_entropy)
            })
        };
        let taken = [Some(0.0), None, Some(3.0)].map(seconds);
        assert!(taken[0] < taken[1] && taken[1] < taken[2], "{taken:?}");
    }

    #[test]
    fn without_a_clock_there_is_no_end() {
        let manager = TimeManager::new(Instant::now(), &Limits::default(), &Settings::default());
        let stable = StabilityStats {
            best_move_fraction: 1.0,
            stable_for: 100,
            drop: 0,
            policy_entropy: None,
            forced: true,
        };
        assert!(!manager.hard_limit_reached() && !manager.soft_limit_reached(stable));
    }
}
