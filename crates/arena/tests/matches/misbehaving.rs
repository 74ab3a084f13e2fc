//! All the ways in which an engine can fail: the game is forfeited with its reason, the engine is started
//! again, and the match continues. Faults that exist from the start are reported before the first game.

use crate::setup::{directory, spec, tournament};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::{Duration, Instant};
use tandem_arena::{
    GameResult, MatchReport, Observer, Standings, Termination, Timeouts, Tournament, TournamentError,
};

struct Silent;
impl Observer for Silent {}

fn run(tournament: &Tournament) -> Result<MatchReport, TournamentError> {
    tournament.run(&Arc::new(AtomicBool::new(false)), &mut Silent)
}

/// Plays four games of a well-behaved engine against one with faults, and checks that it forfeits all of
/// them.
fn assert_forfeits(faults: &str, termination: Termination, details: &str) {
    // A short time where the test must wait for it to pass; otherwise plenty, because a busy machine is slow.
    let limits = match termination {
        Termination::TimeLoss => "tc=0.05,margin=20",
        Termination::Hang => "tc=0.5",
        _ => "tc=9+0.1",
    };
    let mut tournament = tournament(&[spec("good", "", "tc=9+0.1"), spec("bad", faults, limits)], 4);
    if termination == Termination::Hang {
        tournament.timeouts.after_stop = Duration::from_millis(200);
    }
    let results: Vec<_> = run(&tournament).unwrap().standings.results().cloned().collect();
    assert_eq!(results.len(), 4, "{faults}: every game is played");
    for result in &results {
        assert_eq!(result.termination, termination, "{faults}: {result:?}");
        assert_eq!(result.culprit, Some(1), "{faults}");
        assert_eq!(result.half_points(1), 0, "{faults}");
        let text = result.details.as_deref().unwrap_or_default();
        assert!(text.contains(details), "{faults}: '{text}' should contain '{details}'");
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
fn illegal_moves_forfeit() {
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
    // From the first move on, because an earlier move could be late on a busy machine.
    assert_forfeits("hang", Termination::Hang, "not even to 'stop'");
    assert_forfeits("half-line", Termination::Hang, "no bestmove");
    assert_forfeits("flood", Termination::Hang, "no bestmove");
    assert_forfeits("flood-readyok", Termination::Hang, "no bestmove");
}

#[test]
fn harmless_oddities_are_ignored() {
    for oddity in ["garbage", "twice", "undying", "ponder"] {
        let fake = spec("odd", oddity, "tc=9+0.1");
        let report = run(&tournament(&[spec("good", "", "tc=9+0.1"), fake], 2)).unwrap();
        assert!(report.standings.results().all(|result| !result.termination.is_forfeit()), "{oddity}");
    }
}

#[test]
fn pondering_is_hit_and_missed() {
    let dir = directory("ponder");
    let diary = |name: &str| dir.join(name);
    let engines = ["a", "b"].map(|name| {
        let mut spec = spec(name, "ponder", "tc=9+0.1,ponder=on");
        spec.args.push(format!("diary={}", diary(name).display()));
        spec
    });
    let report = run(&tournament(&engines, 4)).unwrap();
    assert!(report.standings.results().all(|result| !result.termination.is_forfeit()));
    for name in ["a", "b"] {
        let text = std::fs::read_to_string(diary(name)).unwrap();
        let count = |wanted: &str| text.lines().filter(|line| *line == wanted).count();
        let [begun, hit, missed] = ["go ponder", "ponderhit", "stop"].map(count);
        assert!(hit > 0 && missed > 0, "{name}: {hit} hits, {missed} misses");
        assert_eq!(begun, hit + missed, "{name}: every ponder search is ended");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_start_that_fails_is_tried_again() {
    let dir = directory("starts");
    let mut bad = spec("bad", "exit@2 fail-from@3 fail-until@5", "tc=9+0.1");
    bad.args.push(format!("diary={}", dir.join("diary").display()));
    let mut tournament = tournament(&[spec("good", "", "tc=9+0.1"), bad], 4);
    tournament.concurrency = 1;
    let report = run(&tournament).unwrap();
    let details: Vec<_> = report.standings.results().filter_map(|result| result.details.clone()).collect();
    assert_eq!(details.len(), 4);
    assert!(details.iter().all(|text| text.contains("exited with code 7")), "{details:?}");
    std::fs::remove_dir_all(dir).unwrap();
}

/// Records the results in the order in which games end.
#[derive(Default)]
struct Forfeits(Vec<GameResult>);
impl Observer for Forfeits {
    fn finished(&mut self, _: &Standings, result: &GameResult) -> bool {
        self.0.push(result.clone());
        true
    }
}

#[test]
fn an_engine_that_no_longer_starts_forfeits_and_then_ends_the_match() {
    let dir = directory("no-starts");
    // The engine is started once before the match and once for the first game; after that every start fails.
    let mut bad = spec("bad", "exit@2 fail-from@3", "tc=9+0.1");
    bad.args.push(format!("diary={}", dir.join("diary").display()));
    let mut tournament = tournament(&[spec("good", "", "tc=9+0.1"), bad], 20);
    tournament.concurrency = 1;
    let mut seen = Forfeits::default();
    let error = tournament.run(&Arc::new(AtomicBool::new(false)), &mut seen).unwrap_err().to_string();
    assert!(error.contains("engine bad exited with code 3"), "{error}");
    assert_eq!(seen.0.len(), 5, "one game, and four for which it did not start");
    for result in &seen.0[1..] {
        assert_eq!((result.termination, result.culprit, result.plies), (Termination::Crash, Some(1), 0));
        assert!(result.details.as_deref().unwrap().starts_with("did not start: engine bad exited"));
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn engines_stay_up_from_game_to_game() {
    let dir = directory("stay");
    let engines = ["a", "b", "c"].map(|name| {
        let mut spec = spec(name, "", "tc=9+0.1");
        spec.args.push(format!("diary={}", dir.join(name).display()));
        spec
    });
    let mut tournament = tournament(&engines, 6);
    tournament.concurrency = 1;
    run(&tournament).unwrap();
    for name in ["a", "b", "c"] {
        // One start for the check before the match, and one to play.
        assert_eq!(std::fs::read_to_string(dir.join(name)).unwrap(), "start\nstart\n");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Sets the flag of Ctrl-C after the first game.
struct Interrupt(Arc<AtomicBool>);
impl Observer for Interrupt {
    fn finished(&mut self, _: &Standings, _: &GameResult) -> bool {
        self.0.store(true, Ordering::Relaxed);
        true
    }
}

#[test]
fn a_cancelled_game_is_not_a_forfeit() {
    // In its second game the engine does not answer after `ucinewgame`, and then Ctrl-C comes.
    let cancel = Arc::new(AtomicBool::new(false));
    let mut tournament =
        tournament(&[spec("good", "", "tc=9+0.1"), spec("bad", "no-second-game", "tc=9+0.1")], 8);
    tournament.concurrency = 1;
    tournament.timeouts.ready = Duration::from_secs(60);
    let started = Instant::now();
    let report = tournament.run(&cancel, &mut Interrupt(Arc::clone(&cancel))).unwrap();
    assert_eq!(report.standings.games(), 1);
    assert!(report.standings.results().all(|result| !result.termination.is_forfeit()));
    assert!(started.elapsed() < Duration::from_secs(50), "it does not wait for the engine");
}

struct Panics;
impl Observer for Panics {
    fn finished(&mut self, _: &Standings, _: &GameResult) -> bool {
        panic!("the display broke")
    }
}

#[test]
fn an_observer_that_panics_ends_the_match() {
    let match_of_many = std::thread::spawn(|| {
        let engines = [spec("a", "", "tc=9+0.1"), spec("b", "", "tc=9+0.1")];
        tournament(&engines, 40).run(&Arc::new(AtomicBool::new(false)), &mut Panics)
    });
    assert!(match_of_many.join().is_err());
}

#[test]
fn faults_at_the_start_are_reported_at_once() {
    for (faults, options, expected) in [
        ("exit-at-start", "", "engine bad exited with code 3; its last words: fatal: network file missing"),
        ("no-uciok", "", "engine bad did not answer 'uciok' to 'uci' within 1 s"),
        ("half-a-uciok", "", "engine bad did not answer 'uciok'"),
        ("flood-at-start", "", "engine bad did not answer 'uciok'"),
        ("flood-options", "", "engine bad did not answer 'uciok'"),
        ("no-readyok", "", "engine bad did not answer 'readyok' to 'isready'"),
        ("", ",option.Hsh=1", "engine bad: it has no option 'Hsh'; it has Hash, Ponder, UCI_Chess960"),
        ("no-ponder", ",ponder=on", "engine bad: it has no option 'Ponder'; it has Hash, UCI_Chess960"),
        ("", ",option.Hash=9999", "engine bad: option Hash is '9999', but it takes a number from 1 to 1024"),
    ] {
        // The faulty engine comes first, and the timeout is short only where the test waits for it.
        let bad = spec("bad", faults, &format!("tc=1{options}"));
        let mut tournament = tournament(&[bad, spec("good", "", "tc=1")], 2);
        if expected.contains("'uciok'") {
            tournament.timeouts.start = Duration::from_secs(1);
        } else if expected.contains("'readyok'") {
            tournament.timeouts.ready = Duration::from_secs(1);
        }
        let error = run(&tournament).unwrap_err().to_string();
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
    tournament.timeouts = Timeouts { untimed_move: Duration::from_millis(100), ..tournament.timeouts };
    let report = run(&tournament).unwrap();
    assert!(report.standings.results().all(|result| result.termination == Termination::Hang));
}

#[test]
#[cfg(target_os = "linux")]
fn no_engine_outlives_the_match() {
    // Both ignore `quit` and the end of their input; each must be gone when the match has ended.
    let mark = format!("mark-{}", std::process::id());
    let engines = ["a", "b"].map(|name| spec(name, "undying", &format!("tc=5+0.1,arg={mark}")));
    run(&tournament(&engines, 2)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
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
