//! Damaged tables: every probe answers or fails, in bounded time, whatever a file has become.

mod common;
#[path = "common/sample.rs"]
mod sample;

use common::{folder, pieces, random_position, table_files};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tandem_chess::{Board, Position};
use tandem_syzygy::{Kind, ProbeError, SyzygyError, Tables, Wdl};
use tandem_util::random::SplitMix;

/// Positions that are probed with each damaged file.
const POSITIONS: usize = 40;
/// A probe takes microseconds, and opening a table milliseconds.
const LIMIT: Duration = Duration::from_secs(5);

/// Cuts a file, inverts bits, or overwrites bytes: in its header or anywhere.
fn damage(file: &[u8], n: usize, random: &mut SplitMix) -> Vec<u8> {
    let mut file = file.to_owned();
    let below = |limit: usize, random: &mut SplitMix| random.below(limit.max(1) as u32) as usize;
    // Headers have more branches than the other parts.
    let reach = if n.is_multiple_of(2) { file.len().min(200) } else { file.len() };
    match n / 2 % 4 {
        0 => file.truncate(below(reach, random)),
        // A cut that leaves a possible length.
        1 => file.truncate(below(reach, random) / 64 * 64 + 16),
        2 => {
            let at = below(reach, random);
            file[at] ^= 1 << random.below(8);
        }
        _ => {
            for _ in 0..1 + random.below(8) {
                let at = below(reach, random);
                file[at] = random.below(256) as u8;
            }
        }
    }
    file
}

#[test]
#[ignore = "needs data"]
fn no_damage_ends_the_program_or_takes_long() {
    let mut random = SplitMix::new(4);
    let (mut files, mut answers, mut failures, mut unusable) = (0, 0, 0, 0);
    for path in table_files(&folder()) {
        let whole = std::fs::read(&path).unwrap();
        let pieces = pieces(path.file_stem().unwrap().to_str().unwrap());
        let boards = Vec::from_iter((0..POSITIONS).map(|_| random_position(&pieces, false, &mut random)));
        // Distances need the results too.
        let results = path.with_extension("rtbw");
        let others =
            Vec::from_iter((results != path).then(|| (results.clone(), std::fs::read(&results).unwrap())));
        for n in 0..200 {
            let damaged = damage(&whole, n, &mut random);
            let start = Instant::now();
            let tables = Tables::from_files(others.iter().cloned().chain([(path.clone(), damaged)]));
            for board in &boards {
                match (
                    tables.wdl(board),
                    tables.dtz(board),
                    tables.rank_moves(&Position::from(board.clone())),
                ) {
                    (Ok(_), _, _) => answers += 1,
                    _ => failures += 1,
                }
            }
            let broken = tables.take_broken();
            // Wrong results may have no distance in the other table, which then looks damaged too.
            assert!(broken.len() <= 2, "{broken:?}");
            unusable += usize::from(!broken.is_empty());
            assert!(start.elapsed() < LIMIT, "{} takes long", path.display());
            files += 1;
        }
    }
    println!("{files} damaged files, {unusable} of them unusable; {answers} answers, {failures} failures");
    assert!(files >= 10_000 && unusable > 5_000 && answers > 100_000 && failures > 100_000);
}

/// Positions of the small tables.
fn sample_boards() -> Vec<Board> {
    let mut random = SplitMix::new(5);
    (0..40).map(|_| random_position(&pieces("KQvK"), false, &mut random)).collect()
}

#[test]
fn small_tables_are_read() {
    let tables = Tables::from_files(sample::files());
    let boards = sample_boards();
    let results: HashSet<Wdl> = boards.iter().map(|board| tables.wdl(board).unwrap()).collect();
    assert_eq!(results, HashSet::from([Wdl::Loss, Wdl::Draw, Wdl::Win]), "a bare king may take the queen");
    // Without real results some wins have no move that keeps them.
    assert!(boards.iter().filter(|board| tables.dtz(board).is_ok()).count() > 10);
    assert_eq!(tables.take_broken(), []);
}

#[test]
fn no_bit_of_a_small_table_can_end_the_program() {
    let files = sample::files();
    let boards = sample_boards();
    let (mut answers, mut failures) = (0, 0);
    for changed in 0..files.len() {
        for bit in 0..8 * files[changed].1.len() {
            let mut damaged = files.clone();
            damaged[changed].1[bit / 8] ^= 1 << (bit % 8);
            let tables = Tables::from_files(damaged);
            for board in &boards {
                let ranked = tables.rank_moves(&Position::from(board.clone()));
                match tables.dtz(board).is_ok() && ranked.is_ok() {
                    true => answers += 1,
                    false => failures += 1,
                }
            }
            // Wrong results may have no distance in the other table, which then looks damaged too.
            assert!(tables.take_broken().len() <= 2, "bit {bit} of file {changed}");
        }
    }
    assert!(answers > 10_000 && failures > 10_000, "{answers}, {failures}");
}

/// An empty folder for a test.
fn new_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tandem-syzygy-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn open(folder: &Path) -> Result<Tables, SyzygyError> {
    Tables::open(folder.to_str().unwrap())
}

#[test]
#[ignore = "needs data"]
fn a_damaged_table_is_named_once_and_others_stay_in_use() {
    let folder = new_folder("damaged");
    for name in ["KQvK.rtbw", "KPvK.rtbw"] {
        std::fs::copy(common::folder().join(name), folder.join(name)).unwrap();
    }
    let whole = std::fs::read(folder.join("KPvK.rtbw")).unwrap();
    // A possible length, so that only reading finds it out.
    std::fs::remove_file(folder.join("KPvK.rtbw")).unwrap();
    std::fs::write(folder.join("KPvK.rtbw"), &whole[..3920]).unwrap();
    let tables = open(&folder).unwrap();
    assert_eq!((tables.max_pieces(), tables.count(Kind::Wdl), tables.count(Kind::Dtz)), (3, 2, 0));
    assert_eq!(tables.take_broken(), []);
    let pawn: Board = "8/8/3k4/8/8/8/4P3/K7 w - - 0 1".parse().unwrap();
    let queen: Board = "8/8/3k4/8/8/8/4Q3/K7 w - - 0 1".parse().unwrap();
    for _ in 0..2 {
        assert!(matches!(tables.wdl(&pawn), Err(ProbeError::Broken(..))), "{:?}", tables.wdl(&pawn));
        assert!(tables.wdl(&queen).is_ok());
    }
    let broken: Vec<String> = tables.take_broken().iter().map(ToString::to_string).collect();
    assert_eq!(broken.len(), 1);
    assert!(broken[0].contains("KPvK.rtbw' is damaged: at byte"), "{}", broken[0]);
    assert_eq!(tables.take_broken(), []);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn folders_without_tables_and_incomplete_tables_are_refused() {
    let folder = new_folder("incomplete");
    assert_eq!(open(&folder).unwrap_err(), SyzygyError::NoTables(folder.to_str().unwrap().to_owned()));
    for name in ["KPvK.txt", "readme.rtbw", "KvK.rtbw", "KQQQQQQvKQ.rtbw"] {
        std::fs::write(folder.join(name), "no table").unwrap();
    }
    assert!(matches!(open(&folder), Err(SyzygyError::NoTables(_))));
    std::fs::write(folder.join("KPvK.rtbw"), [0; 64]).unwrap();
    assert!(matches!(open(&folder), Err(SyzygyError::Truncated(path)) if path.ends_with("KPvK.rtbw")));
    std::fs::write(folder.join("KPvK.rtbw"), [0; 80]).unwrap();
    let tables = open(&folder).unwrap();
    let board: Board = "8/8/3k4/8/8/8/4P3/K7 w - - 0 1".parse().unwrap();
    assert!(matches!(tables.wdl(&board), Err(ProbeError::Broken(..))), "the first bytes are wrong");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn positions_that_no_table_has_are_refused() {
    let tables = Tables::from_files([("KRvK.rtbw".into(), Vec::new())]);
    let probe = |fen: &str| tables.wdl(Position::from_fen(fen).unwrap().board());
    assert_eq!(probe("4k3/8/8/8/8/8/4P3/4K2R w - - 0 1"), Err(ProbeError::TooManyPieces));
    assert_eq!(probe("4k3/8/8/8/8/8/8/4K2R w K - 0 1"), Err(ProbeError::CastlingRights));
    assert!(matches!(probe("4k3/8/8/8/8/8/8/4K2Q w - - 0 1"), Err(ProbeError::Missing(..))));
    assert!(matches!(probe("4k3/8/8/8/8/8/8/4K2R w - - 0 1"), Err(ProbeError::Broken(..))), "an empty file");
    assert_eq!(probe("4k3/8/8/8/8/8/8/4K3 w - - 0 1"), Ok(Wdl::Draw), "bare kings need no table");
}
