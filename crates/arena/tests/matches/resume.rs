//! A match that was killed goes on where it was.

use crate::setup::{directory, spec, tournament};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, atomic::AtomicBool};
use std::time::{Duration, Instant};
use tandem_arena::{GameResult, Observer, Report, Standings, Tournament, TournamentError};
use tandem_chess::pgn;

struct Silent;
impl Observer for Silent {}

/// Calls the match off after some games.
struct StopAfter(usize);
impl Observer for StopAfter {
    fn finished(&mut self, _: &Standings, _: &GameResult) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

fn kept(dir: &Path, games: usize) -> Tournament {
    let mut tournament = tournament(&[spec("a", "", "tc=9+0.1"), spec("b", "", "tc=9+0.1")], games);
    tournament.pgn = Some(dir.join("games.pgn"));
    tournament.state = Some(dir.join("match.state"));
    tournament
}

fn run(tournament: &Tournament, observer: &mut dyn Observer) -> Result<Report, TournamentError> {
    tournament.run(&Arc::new(AtomicBool::new(false)), observer)
}

fn rounds(path: &Path) -> Vec<String> {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = pgn::Reader::new(file);
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
    // Enough games that some are left when the match is called off, though the disk is slower than the players.
    let tournament = kept(&dir, 40);
    let pgn = tournament.pgn.clone().unwrap();
    std::fs::write(&pgn, "[Event \"earlier\"]\n[Round \"0\"]\n\n*\n\n").unwrap();
    let report = run(&tournament, &mut StopAfter(2)).unwrap();
    assert!((2..40).contains(&report.standings.games()));
    // What a power cut may leave: half a game, half a line.
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
    // Finished: a third run has nothing to play.
    let again = run(&tournament, &mut Silent).unwrap();
    assert_eq!((again.standings.games(), again.overhead.moves), (40, 0));
    // More games may be added later.
    let longer = run(&kept(&dir, 42), &mut Silent).unwrap();
    assert_eq!(longer.standings.games(), 42);
    assert_eq!(rounds(&pgn).len(), 43);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn another_match_does_not_go_on() {
    let dir = directory("other");
    run(&kept(&dir, 2), &mut Silent).unwrap();
    let mut other = kept(&dir, 2);
    other.engines[1].limits.nodes = Some(5);
    let error = run(&other, &mut Silent).unwrap_err().to_string();
    assert!(error.contains("belongs to another match: its engines is"), "{error}");
    let mut other = kept(&dir, 2);
    other.engines[0].name = Some("c".into());
    assert!(run(&other, &mut Silent).unwrap_err().to_string().contains("its engines are a, b, not c, b"));
    std::fs::write(dir.join("match.state"), "hello\n").unwrap();
    assert!(run(&kept(&dir, 2), &mut Silent).unwrap_err().to_string().contains("line 1"));
    std::fs::remove_file(dir.join("match.state")).unwrap();
    run(&kept(&dir, 2), &mut Silent).unwrap();
    std::fs::write(dir.join("games.pgn"), "").unwrap();
    let error = run(&kept(&dir, 4), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("is shorter than the state file"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

const CHILD: &str = "TANDEM_ARENA_TEST_DIRECTORY";

/// Not a test: the match that the next one kills.
#[test]
fn child_match() {
    if let Some(dir) = std::env::var_os(CHILD) {
        run(&kept(Path::new(&dir), 6), &mut Silent).unwrap();
    }
}

#[test]
fn a_match_killed_again_and_again_reaches_the_full_count() {
    let dir = directory("killed");
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut kills = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "resume::child_match"])
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
