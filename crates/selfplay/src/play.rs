//! Self-play: games of the search against itself, stored as training data.
//!
//! Each worker appends whole games to a file of its own, and their checksums to a journal. A game depends on the
//! seed and its number alone, so that a resumed run gives the same files as an uninterrupted one.

mod game_log;

use crate::adjudication::Adjudication;
use crate::error::SelfPlayError;
use crate::game;
use crate::opening::Openings;
use crate::threads::on_threads;
use game_log::{GameLog, forget_finished};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tandem_chess::Position;
use tandem_data::{Packed, Record};
use tandem_search::{EvaluatorFactory, Limits, Searcher};
use tandem_util::random::SplitMix;

/// Settings of a self-play run; a resumed run must have the same ones.
pub struct PlaySettings {
    /// Function that creates the search's static evaluators, one for each worker.
    pub factory: Arc<EvaluatorFactory>,
    /// Text that identifies the evaluator, different for another network, for example with a hash of its
    /// file; a run is only resumed with the same text.
    pub evaluator: String,
    /// Total number of games, over all workers.
    pub games: u64,
    /// Seed of the openings: the same seed gives the same games.
    pub seed: u64,
    /// Soft node limit of a move's search: no new iteration begins after this many nodes. One that has begun
    /// may go on, up to a fixed multiple of the limit.
    pub soft_nodes: u64,
    /// Size of each worker's hash table, in MiB.
    pub hash: usize,
    /// Number of worker threads. Each plays one game at a time and writes to a file of its own.
    pub workers: usize,
    /// Start positions of the games: a book, Chess960 or random plies.
    pub openings: Openings,
    /// Rules for ending games early, by the scores of both sides.
    pub adjudication: Adjudication,
}

/// Observer of a running self-play, for example a progress bar.
pub trait PlayObserver: Send {
    /// Called after each game with the number of finished games, the positions of this run, and the number of
    /// games in all.
    fn on_game(&mut self, games: u64, positions: u64, of: u64) {
        let _ = (games, positions, of);
    }

    /// Called at the start of a resumed run with each sentence that the user should read, for example that
    /// damaged games at the end of a file were removed.
    fn on_notice(&mut self, text: &str) {
        let _ = text;
    }
}

/// Counts and times of a self-play run after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayReport {
    /// Number of games of the whole run that are finished, those of earlier runs included.
    pub games: u64,
    /// Number of games among [`Self::games`] that an earlier run had played.
    pub earlier: u64,
    /// Number of positions recorded in the games of this run.
    pub positions: u64,
    /// Wall-clock time of this run, summed over its workers.
    pub time: Duration,
    /// Part of [`Self::time`] that the workers spent in the search.
    pub searching: Duration,
    /// True if all games are finished and the files have their final names.
    pub finished: bool,
}

/// One finished game of self-play: its recorded positions, and the time spent in the search.
pub struct GameRecord {
    /// Positions from the end of the opening on, each with its move, score and result.
    pub records: Vec<Record>,
    /// Time that the search took in this game, over all moves.
    pub searching: Duration,
}

/// Hard node limit of a search, as a multiple of the soft one.
pub(crate) const HARD_LIMIT_FACTOR: u64 = 8;

/// Plays one game, which depends only on the seed and the number of the game; `None` if it was cancelled.
///
/// # Errors
///
/// Fails if no balanced opening is found.
pub fn play_game(
    searcher: &mut Searcher,
    settings: &PlaySettings,
    number: u64,
    cancel: &AtomicBool,
) -> Result<Option<GameRecord>, SelfPlayError> {
    let mut random = SplitMix::new(settings.seed ^ SplitMix::new(number).next_u64());
    searcher.clear(&AtomicBool::new(false));
    let mut searching = Duration::ZERO;
    let mut think = |position: &Position, nodes: u64| {
        searcher.signals().arm(false);
        let limits = Limits {
            soft_nodes: Some(nodes),
            nodes: Some(HARD_LIMIT_FACTOR.saturating_mul(nodes)),
            ..Limits::default()
        };
        let start = Instant::now();
        let result = searcher.search(position, &limits, &mut |_| ());
        searching += start.elapsed();
        result
    };
    let opened = game::draw_opening(&settings.openings, &mut random, cancel, |position| {
        think(position, 2 * settings.soft_nodes).score
    });
    let Some(position) = opened? else { return Ok(None) };

    let mut records: Vec<Record> = Vec::new();
    let white = game::play_out(position, &settings.adjudication, cancel, |position| {
        let result = think(position, settings.soft_nodes);
        let (mv, packed) = (result.best?, Packed::try_from(position.board()).ok()?);
        records.push(Record {
            mv: Some(mv),
            score: Some(game::score_of(result.score)),
            starts_game: records.is_empty(),
            ..Record::new(packed)
        });
        Some((mv, result.score))
    });
    let Some(white) = white else { return Ok(None) };
    for record in &mut records {
        record.result = Some(white.from_view_of(record.position.side_to_move()));
    }
    Ok(Some(GameRecord { records, searching }))
}

/// Plays games, or resumes an earlier run. The games of worker W are in `STEM-W-of-N.vf`, which has `.part`
/// at its end until they are complete.
///
/// # Errors
///
/// Fails if the files belong to another run, to other settings or another number of workers, if all games are
/// played already, or if a file cannot be written.
pub fn play(
    settings: &PlaySettings,
    stem: &Path,
    cancel: &Arc<AtomicBool>,
    watch: &mut dyn PlayObserver,
) -> Result<PlayReport, SelfPlayError> {
    let workers = settings.workers.max(1);
    if let Some(other) = other_run(stem, workers) {
        let problem = format!(
            "made by another number of workers; go on with as many, or choose another name than {}",
            stem.display()
        );
        return Err(SelfPlayError::File { path: other, problem });
    }
    if (0..workers).all(|worker| file_of(stem, worker, workers).exists()) {
        (0..workers).for_each(|worker| forget_finished(&file_of(stem, worker, workers)));
        let problem = "these games are all played; choose another name or move the files away".into();
        return Err(SelfPlayError::File { path: file_of(stem, 0, workers), problem });
    }
    let total = Mutex::new((PlayReport { finished: true, ..PlayReport::default() }, watch));
    let run = |worker: usize| -> Result<(), SelfPlayError> {
        let count = (settings.games + (workers - 1 - worker) as u64) / workers as u64;
        let mut log = GameLog::open(file_of(stem, worker, workers), count, settings)?;
        {
            let (total, watch) = &mut *total.lock().unwrap_or_else(PoisonError::into_inner);
            total.earlier += log.games;
            total.games += log.games;
            log.notices.iter().for_each(|notice| watch.on_notice(notice));
        }
        let start = Instant::now();
        let mut searcher = Searcher::new(Arc::clone(&settings.factory), settings.hash)?;
        while log.games < count {
            let number = worker as u64 + log.games * workers as u64;
            let Some(game) = play_game(&mut searcher, settings, number, cancel)? else {
                total.lock().unwrap_or_else(PoisonError::into_inner).0.finished = false;
                break;
            };
            log.add(&game.records)?;
            let (total, watch) = &mut *total.lock().unwrap_or_else(PoisonError::into_inner);
            total.games += 1;
            total.positions += game.records.len() as u64;
            total.searching += game.searching;
            watch.on_game(total.games, total.positions, settings.games);
        }
        let finished = log.games >= count;
        total.lock().unwrap_or_else(PoisonError::into_inner).0.time += start.elapsed();
        if finished { log.finish() } else { Ok(()) }
    };
    on_threads(workers, stem, cancel, &run)?;
    Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner).0)
}

fn name_of(stem: &Path) -> String {
    stem.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn file_of(stem: &Path, worker: usize, workers: usize) -> PathBuf {
    stem.with_file_name(format!("{}-{worker}-of-{workers}.vf", name_of(stem)))
}

/// A file that a run with another number of workers has left, complete or not.
fn other_run(stem: &Path, workers: usize) -> Option<PathBuf> {
    let folder = stem.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|file| workers_of(stem, file).is_some_and(|count| count != workers)).min()
}

/// Number of workers in the name of a file of games; `None` for other files.
fn workers_of(stem: &Path, file: &Path) -> Option<usize> {
    let name = file.file_name()?.to_str()?;
    let rest = name.strip_prefix(&name_of(stem))?.strip_prefix('-')?;
    let rest = rest.strip_suffix(".part").unwrap_or(rest).strip_suffix(".vf")?;
    let (worker, workers) = rest.split_once("-of-")?;
    worker.parse::<usize>().and(workers.parse::<usize>()).ok()
}

#[cfg(test)]
mod tests {
    use super::game_log::{journal_of, part_of, settings_file, settings_text};
    use super::*;
    use std::fs::File;
    use std::sync::atomic::Ordering::Relaxed;
    use tandem_data::{Cursor, OnError, Options, RecordReader, Source};
    use tandem_search::{Bootstrap, Evaluator};

    struct Silent;
    impl PlayObserver for Silent {}

    fn settings(games: u64, workers: usize) -> PlaySettings {
        PlaySettings {
            factory: Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
            evaluator: "bootstrap".into(),
            games,
            seed: 7,
            soft_nodes: 60,
            hash: 1,
            workers,
            openings: Openings::default(),
            adjudication: Adjudication::default(),
        }
    }

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tandem-selfplay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn records(path: &Path) -> Vec<Record> {
        let sources = Source::parse(path.to_str().unwrap(), &Options::default()).unwrap();
        let mut reader = RecordReader::new(sources, 1, OnError::Stop, None, Cursor::default());
        reader.records().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn games_are_the_same_for_a_seed_regardless_of_interruptions() {
        let dir = directory("resume");
        let go = Arc::new(AtomicBool::new(false));
        let report = play(&settings(6, 2), &dir.join("whole"), &go, &mut Silent).unwrap();
        assert_eq!((report.games, report.earlier, report.finished), (6, 0, true));
        let whole: Vec<Vec<u8>> =
            (0..2).map(|worker| std::fs::read(file_of(&dir.join("whole"), worker, 2)).unwrap()).collect();

        // The same games, interrupted within a game of each worker of an earlier version, which stored the
        // settings and no checksums.
        let stem = dir.join("broken");
        for (worker, bytes) in whole.iter().enumerate() {
            let part = part_of(&file_of(&stem, worker, 2));
            std::fs::write(settings_file(&part), settings_text(&settings(6, 2)) + "\n").unwrap();
            std::fs::write(&part, &bytes[..bytes.len() * (worker + 1) / 3]).unwrap();
        }
        let mut notices = Notices::default();
        let report = play(&settings(6, 2), &stem, &go, &mut notices).unwrap();
        assert!(report.earlier > 0 && report.earlier < 6, "{report:?}");
        assert!(
            notices.0.concat().contains("begun by an earlier version without checksums"),
            "{:?}",
            notices.0
        );
        for (worker, bytes) in whole.iter().enumerate() {
            assert_eq!(std::fs::read(file_of(&stem, worker, 2)).unwrap(), *bytes);
        }
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 4, "nothing else is left");

        let all = records(&file_of(&stem, 0, 2));
        assert_eq!(all.iter().filter(|record| record.starts_game).count(), 3);
        assert!(all.iter().all(|record| record.result.is_some() && record.score.is_some()));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[derive(Default)]
    struct Notices(Vec<String>);
    impl PlayObserver for Notices {
        fn on_notice(&mut self, text: &str) {
            self.0.push(text.into());
        }
    }

    /// Stops a run after a number of games.
    struct StopAfter(u64, Arc<AtomicBool>);
    impl PlayObserver for StopAfter {
        fn on_game(&mut self, games: u64, _: u64, _: u64) {
            self.1.store(games >= self.0, Relaxed);
        }
    }

    #[test]
    fn damaged_games_are_noticed_and_those_at_the_end_are_played_again() {
        let dir = directory("damaged");
        let go = Arc::new(AtomicBool::new(false));
        play(&settings(5, 1), &dir.join("whole"), &go, &mut Silent).unwrap();
        let whole = std::fs::read(file_of(&dir.join("whole"), 0, 1)).unwrap();
        let stem = dir.join("x");
        let stop = Arc::new(AtomicBool::new(false));
        play(&settings(5, 1), &stem, &stop, &mut StopAfter(4, Arc::clone(&stop))).unwrap();
        let part = part_of(&file_of(&stem, 0, 1));
        let (games, journal) = (std::fs::read(&part).unwrap(), std::fs::read(journal_of(&part)).unwrap());
        assert!(whole.starts_with(&games));
        let resume = |notices: &mut Notices| {
            go.store(false, Relaxed);
            play(&settings(5, 1), &stem, &go, notices)
        };

        // A bit of the first game: the others behind it are intact, so the file did not end there.
        let mut flipped = games.clone();
        flipped[40] ^= 1;
        std::fs::write(&part, &flipped).unwrap();
        let error = resume(&mut Notices::default()).unwrap_err().to_string();
        assert!(error.contains("x-0-of-1.vf.part: game 1 (from byte 0) is damaged"), "{error}");
        assert_eq!(std::fs::read(&part).unwrap(), flipped, "a refused file stays");

        // A journal that was removed or emptied, and one of other settings.
        std::fs::write(&part, &games).unwrap();
        std::fs::write(journal_of(&part), b"").unwrap();
        let error = resume(&mut Notices::default()).unwrap_err().to_string();
        assert!(error.contains("its journal"), "{error}");
        std::fs::remove_file(journal_of(&part)).unwrap();
        assert!(resume(&mut Notices::default()).unwrap_err().to_string().contains("its journal"));

        // The last game has a flipped bit; the last two are gone; the end is filled with zeros.
        let mut last = games.clone();
        *last.last_chunk_mut::<8>().unwrap() = [7; 8];
        let third = games.len() / 2;
        let zeros = [&games[..third], &vec![0; games.len() - third]].concat();
        for damaged in [last, games[..third].to_vec(), zeros] {
            std::fs::write(&part, &damaged).unwrap();
            std::fs::write(journal_of(&part), &journal).unwrap();
            let mut notices = Notices::default();
            resume(&mut notices).unwrap();
            assert!(notices.0.concat().contains("played again"), "{:?}", notices.0);
            assert!(std::fs::read(file_of(&stem, 0, 1)).unwrap() == whole);
            assert!(!journal_of(&part).exists() && !part.exists());
            std::fs::remove_file(file_of(&stem, 0, 1)).unwrap();
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn other_settings_and_finished_files_are_refused() {
        let dir = directory("refused");
        let stem = dir.join("x");
        let stop = Arc::new(AtomicBool::new(true));
        let report = play(&settings(2, 1), &stem, &stop, &mut Silent).unwrap();
        assert!(!report.finished && report.games == 0);
        let go = Arc::new(AtomicBool::new(false));
        let other = PlaySettings { soft_nodes: 61, ..settings(2, 1) };
        assert!(play(&other, &stem, &go, &mut Silent).unwrap_err().to_string().contains("other settings"));
        go.store(false, Relaxed);
        assert!(
            play(&settings(2, 2), &stem, &go, &mut Silent)
                .unwrap_err()
                .to_string()
                .contains("number of workers")
        );
        go.store(false, Relaxed);
        play(&settings(2, 1), &stem, &go, &mut Silent).unwrap();
        assert!(
            play(&settings(2, 1), &stem, &go, &mut Silent).unwrap_err().to_string().contains("all played")
        );
        // Files of a run with another number of workers: complete ones, and those of some worker.
        let refused = |stem: &Path| play(&settings(2, 2), stem, &go, &mut Silent).unwrap_err().to_string();
        assert!(refused(&stem).contains("x-0-of-1.vf: made by another number of workers"));
        for left in ["y-1-of-3.vf.part", "z-0-of-300.vf.part"] {
            std::fs::write(dir.join(left), b"").unwrap();
            assert!(refused(&dir.join(&left[..1])).contains(&format!("{left}: made by another")), "{left}");
        }
        // Names that do not belong to a run with that stem.
        for other in ["w-1-of-3.vf.settings", "w-x-of-3.vf", "w-2-0-of-3.vf", "w-0-of-3-0-of-2.vf"] {
            std::fs::write(dir.join(other), b"").unwrap();
        }
        assert_eq!(other_run(&dir.join("w"), 2), None);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_run_that_continues_elsewhere_is_refused() {
        let dir = directory("locked");
        let part = part_of(&file_of(&dir.join("x"), 0, 1));
        let held = File::create(&part).unwrap();
        held.lock().unwrap();
        let go = Arc::new(AtomicBool::new(false));
        let error = play(&settings(1, 1), &dir.join("x"), &go, &mut Silent).unwrap_err();
        assert!(error.to_string().contains("in use by another run"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn chess960_games_are_played() {
        let dir = directory("frc");
        let mut settings = settings(2, 1);
        settings.openings.chess960 = true;
        play(&settings, &dir.join("x"), &Arc::new(AtomicBool::new(false)), &mut Silent).unwrap();
        assert!(!records(&file_of(&dir.join("x"), 0, 1)).is_empty());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
