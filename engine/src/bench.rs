//! `bench` and `speedtest`: a fixed set of searches. The node count of `bench` is the engine's signature, by
//! which two builds are compared; its speed is the machine's.

use crate::output::send;
use crate::positions::BENCH;
use std::time::{Duration, Instant};
use tandem_chess::Position;
use tandem_search::{Limits, NoRoom, OutOfMemory, Searcher, nodes_per_second};
use thiserror::Error;

/// Arguments of `bench`: depth in plies, threads, and hash in MiB.
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

/// The reason why a bench has no result.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    #[error(transparent)]
    Threads(#[from] NoRoom),
    #[error("stopped before all positions were searched")]
    Stopped,
}

/// Searches every position to a fixed depth and returns the line with the signature. With one thread, all builds of a
/// version count the same nodes.
///
/// # Errors
/// If the memory is not available or the bench is stopped.
pub(crate) fn run(bench: Bench, parent: &Searcher) -> Result<String, BenchError> {
    let limits = Limits { depth: Some(bench.depth), ..Limits::default() };
    let (nodes, time) = search_all(bench, &limits, true, parent)?;
    let nps = nodes_per_second(nodes, time);
    Ok(format!("Bench: {nodes} nodes {nps} nps"))
}

/// Searches the positions for `seconds` in all, usually with every core, and returns lines with the speed.
///
/// # Errors
/// If the memory is not available or the test is stopped.
pub(crate) fn speedtest(
    seconds: u64,
    threads: usize,
    hash: usize,
    parent: &Searcher,
) -> Result<String, BenchError> {
    let each = Duration::from_secs(seconds) / BENCH.len() as u32;
    let limits = Limits { move_time: Some(each), ..Limits::default() };
    let bench = Bench { depth: 0, threads, hash };
    let (nodes, time) = search_all(bench, &limits, false, parent)?;
    let nps = nodes_per_second(nodes, time);
    Ok(format!(
        "Threads     {threads}\nHash        {hash} MiB\nTime        {:.2} s\nNodes       {nodes}\nNodes/s     {nps}",
        time.as_secs_f64()
    ))
}

fn search_all(
    bench: Bench,
    limits: &Limits,
    show: bool,
    parent: &Searcher,
) -> Result<(u64, Duration), BenchError> {
    let mut searcher = parent.sibling(bench.hash)?;
    searcher.try_set_threads(bench.threads)?;
    // The strategist is queried from the search, so that node counts can be compared.
    searcher.set_strategist(parent.strategist().map(|strategist| strategist.synchronous()));
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
            send(format_args!(
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
        let parent = Searcher::new(tandem_nets::EvaluatorChoice::Bootstrap.factory(), 1).unwrap();
        let count = || search_all(bench, &limits, false, &parent).unwrap().0;
        assert_eq!(count(), count());
    }
}
