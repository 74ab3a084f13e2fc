//! Strict checks on an engine that misbehaves on request, and on real engines.

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tandem_arena::compliance::{Check, Compliance, Report};
use tandem_arena::{EngineLimits, EngineSpec, Timeouts};

fn check(spec: EngineSpec) -> Report {
    let limits = EngineLimits { nodes: Some(300), ..EngineLimits::default() };
    let compliance = Compliance {
        spec: EngineSpec { limits, ..spec },
        searches: 20,
        games: 1,
        concurrency: 1,
        seed: 1,
        // A busy machine is late, which is not what these tests are about.
        margin: Duration::from_secs(2),
        ready: Duration::from_secs(2),
        timeouts: Timeouts::default(),
        weakened: false,
        skip_options: Vec::new(),
    };
    compliance.run(&AtomicBool::new(false), &|_| {}).unwrap()
}

fn fake(faults: &[&str]) -> EngineSpec {
    EngineSpec {
        command: env!("CARGO_BIN_EXE_fake-engine").into(),
        args: faults.iter().map(|&fault| fault.into()).collect(),
        ..EngineSpec::default()
    }
}

fn failed(report: &Report, check: Check) -> bool {
    report.checks.get(&check).is_some_and(|tally| tally.failed > 0)
}

/// It answers every search at once, also an infinite one, and otherwise keeps to the rules.
#[test]
fn an_engine_that_does_not_wait_for_stop_is_found() {
    let report = check(fake(&[]));
    assert!(failed(&report, Check::Stop), "{report:?}");
    for check in [Check::BestMove, Check::Clock, Check::Unknown] {
        assert!(report.checks[&check].made > 0 && !failed(&report, check), "{check:?} {report:?}");
    }
}

#[test]
fn illegal_moves_are_found() {
    assert!(failed(&check(fake(&["illegal"])), Check::BestMove));
}

#[test]
fn a_crash_is_counted_and_the_checks_go_on() {
    let report = check(fake(&["crash@2"]));
    assert!(report.checks[&Check::Alive].failed > 1, "{report:?}");
    assert!(report.checks.contains_key(&Check::End));
}

#[test]
#[ignore = "needs Stockfish 15.1"]
fn stockfish_passes() {
    let command = ["/usr/games/stockfish", "/usr/bin/stockfish"]
        .iter()
        .find(|path| std::path::Path::new(path).exists());
    let report = check(EngineSpec { command: command.unwrap().into(), ..EngineSpec::default() });
    assert_eq!(report.failures(), 0, "{report:#?}");
}
