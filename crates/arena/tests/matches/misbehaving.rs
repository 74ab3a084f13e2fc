//! Every way in which an engine can fail: the game is forfeited with its reason, the engine is started again, and the
//! match goes on; what is wrong from the start is said before the first game.

use crate::setup::{spec, tournament};
use std::sync::{Arc, atomic::AtomicBool};
use std::time::{Duration, Instant};
use tandem_arena::{GameResult, Observer, Patience, Report, Termination, Tournament, TournamentError};

struct Silent;
impl Observer for Silent {}

fn run(tournament: &Tournament) -> Result<Report, TournamentError> {
    tournament.run(&Arc::new(AtomicBool::new(false)), &mut Silent)
}

/// Plays four games of a well-behaved engine against one with faults.
fn against_good(faults: &str, limits: &str) -> Vec<GameResult> {
    let report = run(&tournament(&[spec("good", "", "tc=9+0.1"), spec("bad", faults, limits)], 4));
    report.unwrap().standings.results().cloned().collect()
}

fn assert_forfeits(faults: &str, termination: Termination, details: &str) {
    // Little time where the test must wait for it to pass; else plenty, for a busy machine is slow.
    let limits = match termination {
        Termination::TimeLoss => "tc=0.05,margin=20",
        Termination::Hang => "tc=0.5",
        _ => "tc=9+0.1",
    };
    let results = against_good(faults, limits);
    assert_eq!(results.len(), 4, "{faults}: every game is played");
    for result in &results {
        assert_eq!(result.termination, termination, "{faults}: {result:?}");
        assert_eq!(result.culprit, Some(1), "{faults}");
        assert_eq!(result.half_points(1), 0, "{faults}");
        let text = result.details.as_deref().unwrap_or_default();
        assert!(text.contains(details), "{faults}: '{text}' should tell of '{details}'");
        assert!(!text.contains('\u{1b}'), "{faults}: no control characters");
    }
}

#[test]
fn crashes_forfeit() {
    assert_forfeits("crash@3", Termination::Crash, "signal 6; its last words: thread 'main' panicked");
    assert_forfeits("exit@2", Termination::Crash, "exited with code 7");
    assert_forfeits("half-line-exit", Termination::Crash, "in the middle of the line 'bestm'");
}

#[test]
fn moves_that_are_none_forfeit() {
    assert_forfeits("illegal@2", Termination::IllegalMove, "'e2e5' is not a legal move in ");
    assert_forfeits("null", Termination::IllegalMove, "'0000'");
    assert_forfeits("none@2", Termination::IllegalMove, "'(none)'");
    assert_forfeits("empty-bestmove", Termination::IllegalMove, "''");
    assert_forfeits("nonsense", Termination::IllegalMove, "'?[2J'");
}

#[test]
fn late_moves_lose_on_time() {
    assert_forfeits("late@2", Termination::TimeLoss, "ms over its time");
    assert_forfeits("slow@2", Termination::TimeLoss, "ms over its time");
}

#[test]
fn engines_that_do_not_answer_hang() {
    assert_forfeits("hang@2", Termination::Hang, "not even to 'stop'");
    assert_forfeits("half-line@2", Termination::Hang, "no bestmove");
    assert_forfeits("flood@2", Termination::Hang, "no bestmove");
}

#[test]
fn oddities_that_do_no_harm_are_passed_over() {
    for oddity in ["garbage", "twice", "undying", "ponder"] {
        let fake = spec("odd", oddity, "tc=9+0.1");
        let report = run(&tournament(&[spec("good", "", "tc=9+0.1"), fake], 2)).unwrap();
        assert!(report.standings.results().all(|result| !result.termination.is_forfeit()), "{oddity}");
    }
}

#[test]
fn pondering_is_hit_and_missed() {
    let engines = ["a", "b"].map(|name| {
        let mut spec = spec(name, "ponder", "tc=9+0.1");
        spec.ponder = true;
        spec
    });
    let report = run(&tournament(&engines, 4)).unwrap();
    assert!(report.standings.results().all(|result| !result.termination.is_forfeit()));
}

#[test]
fn what_is_wrong_from_the_start_is_said_at_once() {
    for (faults, options, expected) in [
        ("exit-at-start", "", "engine bad exited with code 3; its last words: fatal: network file missing"),
        ("no-uciok", "", "engine bad did not answer 'uciok' to 'uci' within 1 s"),
        ("half-a-uciok", "", "engine bad did not answer 'uciok'"),
        ("flood-at-start", "", "engine bad did not answer 'uciok'"),
        ("no-readyok", "", "engine bad did not answer 'readyok' to 'isready'"),
        ("", ",option.Hsh=1", "engine bad: it has no option 'Hsh'; it has Hash, Ponder, UCI_Chess960"),
        ("", ",option.Hash=9999", "engine bad: option Hash is '9999', but it takes a number from 1 to 1024"),
    ] {
        let bad = spec("bad", faults, &format!("tc=1{options}"));
        let error = run(&tournament(&[spec("good", "", "tc=1"), bad], 2)).unwrap_err().to_string();
        assert!(error.contains(expected), "{faults}: '{error}' should be '{expected}'");
    }
    let mut missing = spec("bad", "", "tc=1");
    missing.command = "/no/such/engine".into();
    let error = run(&tournament(&[spec("good", "", "tc=1"), missing], 2)).unwrap_err().to_string();
    assert!(error.contains("engine bad: cannot run /no/such/engine"), "{error}");
    let mut chess960 = tournament(&[spec("good", "", "tc=1"), spec("bad", "no-chess960", "tc=1")], 2);
    chess960.rules.chess960 = true;
    assert!(run(&chess960).unwrap_err().to_string().contains("bad has no option UCI_Chess960"));
}

#[test]
fn an_untimed_engine_may_not_think_for_ever() {
    let mut tournament = tournament(&[spec("good", "", "nodes=10"), spec("bad", "slow", "nodes=10")], 2);
    tournament.patience = Patience { untimed_move: Duration::from_millis(100), ..tournament.patience };
    let report = run(&tournament).unwrap();
    assert!(report.standings.results().all(|result| result.termination == Termination::Hang));
}

#[test]
fn no_engine_outlives_the_match() {
    // Both ignore `quit` and the end of their input; each must be gone when the match is.
    let mark = format!("mark-{}", std::process::id());
    let engines = ["a", "b"].map(|name| spec(name, "undying", &format!("tc=5+0.1,arg={mark}")));
    run(&tournament(&engines, 2)).unwrap();
    if !cfg!(target_os = "linux") {
        return;
    }
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let alive = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&mark)
        });
        if !alive {
            break;
        }
        assert!(Instant::now() < deadline, "an engine is still running");
        std::thread::sleep(Duration::from_millis(20));
    }
}
