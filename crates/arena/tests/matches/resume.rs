//! Resuming: a match that was killed continues with the games that are missing.

use crate::setup::{directory, spec, tournament};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, atomic::AtomicBool};
use std::time::{Duration, Instant};
use tandem_arena::{GameResult, MatchReport, Observer, Standings, Tournament, TournamentError};
use tandem_chess::pgn;

struct Silent;
impl Observer for Silent {}

/// Ends the match after a number of games.
struct StopAfter(usize);
impl Observer for StopAfter {
    fn finished(&mut self, _: &Standings, _: &GameResult) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

fn resumable(dir: &Path, games: usize) -> Tournament {
    let mut tournament = tournament(&[spec("a", "", "tc=9+0.1"), spec("b", "", "tc=9+0.1")], games);
    tournament.pgn = Some(dir.join("games.pgn"));
    tournament.state = Some(dir.join("match.state"));
    tournament
}

fn run(tournament: &Tournament, observer: &mut dyn Observer) -> Result<MatchReport, TournamentError> {
    tournament.run(&Arc::new(AtomicBool::new(false)), observer)
}

fn rounds(path: &Path) -> Vec<String> {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = pgn::GameReader::new(file);
    let mut rounds: Vec<String> = std::iter::from_fn(|| reader.next_game())
        .map(|game| game.unwrap().tag("Round").unwrap().to_owned())
        .collect();
    rounds.sort();
    rounds
}

const SIX: [&str; 6] = ["1.1", "1.2", "2.1", "2.2", "3.1", "3.2"];

#[test]
fn a_match_goes_on_after_torn_writes() {
    let dir = directory("torn");
    // Enough games that some remain when the match is ended, even if the disk is slower than the players.
    let tournament = resumable(&dir, 40);
    let pgn = tournament.pgn.clone().unwrap();
    std::fs::write(&pgn, "[Event \"earlier\"]\n[Round \"0\"]\n\n*\n\n").unwrap();
    let report = run(&tournament, &mut StopAfter(2)).unwrap();
    assert!((2..40).contains(&report.standings.games()));
    // A power failure may leave half a game and half a line.
    for (path, text) in [(&pgn, "[Event \"half a ga"), (&dir.join("match.state"), "{\"index\":5,\"whi")] {
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }
    let report = run(&tournament, &mut Silent).unwrap();
    assert_eq!(report.standings.games(), 40);
    let mut found = rounds(&pgn);
    assert_eq!(found[0], "0", "what was there before stays");
    found.dedup();
    assert_eq!(found.len(), 41, "every game is there once");
    // A finished match has nothing left to play.
    let again = run(&tournament, &mut Silent).unwrap();
    assert_eq!((again.standings.games(), again.overhead.moves), (40, 0));
    // The number of games may be increased later.
    let longer = run(&resumable(&dir, 42), &mut Silent).unwrap();
    assert_eq!(longer.standings.games(), 42);
    assert_eq!(rounds(&pgn).len(), 43);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn another_match_does_not_go_on() {
    let dir = directory("other");
    run(&resumable(&dir, 2), &mut Silent).unwrap();
    let mut other = resumable(&dir, 2);
    other.engines[1].limits.nodes = Some(5);
    let error = run(&other, &mut Silent).unwrap_err().to_string();
    assert!(error.contains("belongs to another match: its engines is"), "{error}");
    let mut other = resumable(&dir, 2);
    other.engines[0].name = Some("c".into());
    assert!(run(&other, &mut Silent).unwrap_err().to_string().contains("its engines are a, b, not c, b"));
    std::fs::write(dir.join("match.state"), "hello\n").unwrap();
    assert!(run(&resumable(&dir, 2), &mut Silent).unwrap_err().to_string().contains("line 1"));
    std::fs::remove_file(dir.join("match.state")).unwrap();
    run(&resumable(&dir, 2), &mut Silent).unwrap();
    std::fs::write(dir.join("games.pgn"), "").unwrap();
    let error = run(&resumable(&dir, 4), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("is shorter than the state file"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[cfg(unix)]
fn another_build_does_not_go_on() {
    let dir = directory("build");
    // A copy of the engine that can be "rebuilt". A shell writes it, because a file that this process writes
    // may still be open in an engine that another test is starting, and then it cannot be executed.
    let copy = dir.join("engine");
    let built = |games: usize| {
        let mut tournament = resumable(&dir, games);
        tournament.engines[0].command.clone_from(&copy);
        tournament
    };
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_fake-engine")]).arg(&copy);
        assert!(command.status().unwrap().success());
    };
    shell("cp \"$1\" \"$2\"");
    run(&built(2), &mut Silent).unwrap();
    let before = std::fs::read(dir.join("match.state")).unwrap();
    shell("echo another build >> \"$2\"");
    let error = run(&built(4), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("its program of a is"), "{error}");
    assert_eq!(std::fs::read(dir.join("match.state")).unwrap(), before);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn two_matches_do_not_share_a_file() {
    struct Rival(Tournament, Vec<String>);
    impl Observer for Rival {
        fn started(&mut self, _: &Standings, _: usize) -> bool {
            let mut other = self.0.clone();
            self.1.push(run(&other, &mut Silent).unwrap_err().to_string());
            other.pgn = None;
            self.1.push(run(&other, &mut Silent).unwrap_err().to_string());
            true
        }
    }
    let dir = directory("rival");
    let tournament = resumable(&dir, 2);
    let mut rival = Rival(tournament.clone(), Vec::new());
    assert_eq!(run(&tournament, &mut rival).unwrap().standings.games(), 2);
    assert!(rival.1[0].contains("games.pgn is in use by another match"), "{:?}", rival.1);
    assert!(rival.1[1].contains("match.state is in use by another match"), "{:?}", rival.1);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn files_that_are_not_the_matchs_own_stay_whole() {
    let dir = directory("foreign");
    let (state, pgn) = (dir.join("match.state"), dir.join("games.pgn"));
    for foreign in ["no line at all", "{\"some\": \"json\"}\nand half a li", "a line\nand half a li"] {
        std::fs::write(&state, foreign).unwrap();
        let error = run(&resumable(&dir, 2), &mut Silent).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
        assert_eq!(std::fs::read_to_string(&state).unwrap(), foreign);
    }
    std::fs::write(&state, "{\"tandem_ma").unwrap();
    run(&resumable(&dir, 2), &mut Silent).unwrap();
    // A single game may be left from a crash, but two games are work of the user.
    let game = "[Event \"x\"]\n[Round \"9\"]\n\n*\n\n";
    let known = std::fs::read_to_string(&pgn).unwrap();
    for foreign in [format!("{game}{game}"), "notes of mine\n".into()] {
        std::fs::write(&pgn, format!("{known}{foreign}")).unwrap();
        let error = run(&resumable(&dir, 4), &mut Silent).unwrap_err().to_string();
        assert!(error.contains("than one unfinished game"), "{error}");
        assert_eq!(std::fs::read_to_string(&pgn).unwrap(), format!("{known}{foreign}"));
    }
    std::fs::write(&pgn, format!("{known}{game}")).unwrap();
    run(&resumable(&dir, 4), &mut Silent).unwrap();
    assert_eq!(rounds(&pgn), ["1.1", "1.2", "2.1", "2.2"]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_state_that_does_not_fit_is_refused() {
    let dir = directory("misfit");
    let state = dir.join("match.state");
    run(&resumable(&dir, 4), &mut Silent).unwrap();
    let error = run(&resumable(&dir, 2), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("but this one ends with game 2"), "{error}");
    // Lines as earlier versions wrote them, without checksums, so that other faults are found.
    let text = without_checksums(&std::fs::read_to_string(&state).unwrap());
    let last = text.lines().last().unwrap();
    let culprit = last.replace("\"plies\"", "\"culprit\":7,\"plies\"");
    for (line, expected) in [(last, "for the second time"), (culprit.as_str(), "not in the game")] {
        std::fs::write(&state, format!("{text}{line}\n")).unwrap();
        let error = run(&resumable(&dir, 4), &mut Silent).unwrap_err().to_string();
        assert!(error.contains("line 6") && error.contains(expected), "{error}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

fn without_checksums(state: &str) -> String {
    let old = |line: &str| format!("{}}}\n", &line[..line.rfind(",\"checksum\":").expect("a checksum")]);
    state.lines().map(old).collect()
}

/// Collects the notices about the state file.
#[derive(Default)]
struct Notices(Vec<String>);
impl Observer for Notices {
    fn notice(&mut self, text: &str) {
        self.0.push(text.into());
    }
}

#[test]
fn a_damaged_state_is_noticed() {
    let dir = directory("damaged");
    let (state, pgn) = (dir.join("match.state"), dir.join("games.pgn"));
    run(&resumable(&dir, 4), &mut Silent).unwrap();
    let (whole, games) = (std::fs::read(&state).unwrap(), std::fs::read(&pgn).unwrap());
    let lines: Vec<&str> = std::str::from_utf8(&whole).unwrap().split_inclusive('\n').collect();
    let [header, last] = [lines[0].len(), whole.len() - lines[4].len()];
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    for (line, at) in [(1, header / 2), (2, header + 10), (4, last - 30)] {
        std::fs::write(&state, flipped(at)).unwrap();
        let error = run(&resumable(&dir, 4), &mut Silent).unwrap_err().to_string();
        assert!(error.contains(&format!("line {line}: it")), "{error}");
        assert_eq!(std::fs::read(&pgn).unwrap(), games);
    }
    // The last game is played again.
    std::fs::write(&state, flipped(last + 20)).unwrap();
    let mut notices = Notices::default();
    assert_eq!(run(&resumable(&dir, 4), &mut notices).unwrap().standings.games(), 4);
    assert!(notices.0[0].contains("the last entry is incomplete or damaged"), "{:?}", notices.0);
    assert_eq!(rounds(&pgn), ["1.1", "1.2", "2.1", "2.2"]);

    // A state that was emptied does not append the same games again.
    for rest in [&b""[..], b"{\"tandem_ma"] {
        std::fs::write(&state, rest).unwrap();
        let error = run(&resumable(&dir, 4), &mut Silent).unwrap_err().to_string();
        assert!(error.contains("match.state has lost its contents, but"), "{error}");
        assert_eq!(std::fs::read(&state).unwrap(), rest);
    }

    // A state of an earlier version goes on, and says so.
    std::fs::remove_file(&pgn).unwrap();
    std::fs::remove_file(&state).unwrap();
    run(&resumable(&dir, 2), &mut Silent).unwrap();
    std::fs::write(&state, without_checksums(&std::fs::read_to_string(&state).unwrap())).unwrap();
    let mut notices = Notices::default();
    assert_eq!(run(&resumable(&dir, 4), &mut notices).unwrap().standings.games(), 4);
    assert!(notices.0[0].contains("begun by an earlier version without checksums"), "{:?}", notices.0);
    assert_eq!(run(&resumable(&dir, 4), &mut Silent).unwrap().overhead.moves, 0);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Counts the games that are reported to it.
struct Count(usize);
impl Observer for Count {
    fn finished(&mut self, _: &Standings, _: &GameResult) -> bool {
        self.0 += 1;
        true
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_the_match() {
    let dir = directory("full");
    let mut tournament = resumable(&dir, 40);
    tournament.pgn = Some("/dev/full".into());
    let mut count = Count(0);
    let error = run(&tournament, &mut count).unwrap_err().to_string();
    assert!(error.contains("/dev/full"), "{error}");
    assert_eq!(count.0, 0, "what cannot be kept is not counted");
    assert_eq!(std::fs::read_to_string(dir.join("match.state")).unwrap().lines().count(), 1);
    std::fs::remove_dir_all(dir).unwrap();
}

const CHILD: &str = "TANDEM_ARENA_TEST_DIRECTORY";

#[test]
#[ignore = "not a test of its own: the match that the next test kills"]
fn child_match() {
    let dir = std::env::var_os(CHILD).expect("a folder, from the next test");
    run(&resumable(Path::new(&dir), 6), &mut Silent).unwrap();
}

#[test]
fn a_match_killed_again_and_again_reaches_the_full_count() {
    let dir = directory("killed");
    let deadline = Instant::now() + Duration::from_secs(600);
    let mut kills = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "resume::child_match"])
            .env(CHILD, &dir)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Each run gets a little longer, so that the kills fall into every phase and the match still ends.
        let until = Instant::now() + Duration::from_millis(60 + 45 * kills);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() >= until {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        match status {
            Some(status) => {
                assert!(status.success());
                break;
            }
            None => kills += 1,
        }
        assert!(Instant::now() < deadline, "the match does not end");
    }
    assert!(kills > 0);
    assert_eq!(rounds(&dir.join("games.pgn")), SIX);
    std::fs::remove_dir_all(dir).unwrap();
}
