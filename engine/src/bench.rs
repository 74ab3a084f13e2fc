//! A fixed set of searches: its node count is the engine's signature, its speed the machine's.

use crate::output::say;
use crate::positions::BENCH;
use std::time::{Duration, Instant};
use tandem_chess::Position;
use tandem_search::{Limits, OutOfMemory, Searcher, nodes_per_second};
use thiserror::Error;

/// How a bench is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bench {
    pub(crate) depth: u32,
    pub(crate) threads: usize,
    pub(crate) hash: usize,
}

impl Default for Bench {
    fn default() -> Self {
        Self { depth: 13, threads: 1, hash: 16 }
    }
}

/// Why there is no signature, and no speed.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    #[error("stopped before all positions were searched")]
    Stopped,
}

/// Searches every position to a fixed depth. With one thread, the same build or any other counts the same nodes.
pub(crate) fn run(bench: Bench, parent: &Searcher) -> Result<(), BenchError> {
    let limits = Limits { depth: Some(bench.depth), ..Limits::default() };
    let (nodes, time) = search_all(bench, &limits, true, parent)?;
    let nps = nodes_per_second(nodes, time);
    say(format_args!("Bench: {nodes} nodes {nps} nps"));
    Ok(())
}

/// Searches the positions for a fixed time in all, with every core, and tells the speed.
pub(crate) fn speedtest(
    seconds: u64,
    threads: usize,
    hash: usize,
    parent: &Searcher,
) -> Result<(), BenchError> {
    let each = Duration::from_secs(seconds) / BENCH.len() as u32;
    let limits = Limits { move_time: Some(each), ..Limits::default() };
    let bench = Bench { depth: 0, threads, hash };
    let (nodes, time) = search_all(bench, &limits, false, parent)?;
    let nps = nodes_per_second(nodes, time);
    say(format_args!("Threads     {threads}"));
    say(format_args!("Hash        {hash} MiB"));
    say(format_args!("Time        {:.2} s", time.as_secs_f64()));
    say(format_args!("Nodes       {nodes}"));
    say(format_args!("Nodes/s     {nps}"));
    Ok(())
}

fn search_all(
    bench: Bench,
    limits: &Limits,
    show: bool,
    parent: &Searcher,
) -> Result<(u64, Duration), BenchError> {
    let mut searcher = parent.sibling(bench.hash)?;
    searcher.set_threads(bench.threads);
    // A second mind that thinks in step with the search, so that nodes can be compared.
    searcher.set_counsel(parent.counsel().map(|counsel| std::sync::Arc::new(counsel.in_step())));
    let signals = searcher.signals();
    let (mut nodes, mut time) = (0, Duration::ZERO);
    for (index, fen) in BENCH.iter().enumerate() {
        let Ok(position) = Position::from_fen(fen) else { continue };
        signals.arm(false);
        let start = Instant::now();
        let result = searcher.search(&position, limits, &mut |_| ());
        time += start.elapsed();
        nodes += result.nodes;
        if parent.signals().is_stopped() {
            return Err(BenchError::Stopped);
        }
        if show {
            let number = index + 1;
            say(format_args!(
                "{number:>2}/{} {:>10} nodes  {:<9} {fen}",
                BENCH.len(),
                result.nodes,
                result.score
            ));
        }
    }
    Ok((nodes, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_position_is_legal() {
        for fen in BENCH {
            assert_eq!(Position::from_fen(fen).map(|position| position.fen()).as_deref(), Ok(*fen));
        }
    }

    #[test]
    fn the_signature_is_the_same_each_time() {
        let bench = Bench { depth: 6, ..Bench::default() };
        let limits = Limits { depth: Some(bench.depth), ..Limits::default() };
        let parent = Searcher::new(tandem_nets::Judge::Bootstrap.factory(), 1).unwrap();
        let count = || search_all(bench, &limits, false, &parent).unwrap().0;
        assert_eq!(count(), count());
    }
}
