use super::*;
use crate::checksum::checksum;

const BLOCKS: JournalFormat = JournalFormat::Blocks { magic: b"A_TEST_1" };
const LINES: JournalFormat = JournalFormat::Lines { start: b"{\"test\":" };

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()))
}

fn open(path: &Path, format: JournalFormat, header: &[u8]) -> Result<Journal, JournalError> {
    Journal::open(path, format)?.resume(header)
}

fn entries(path: &Path, format: JournalFormat) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut push = |entry: &[u8]| -> Result<(), JournalError> {
        found.push(entry.to_vec());
        Ok(())
    };
    open(path, format, b"").unwrap().read(&mut push).unwrap();
    found
}

#[test]
fn an_entry_that_could_not_be_read_is_not_written() {
    let path = path("journal");
    let mut journal = open(&path, BLOCKS, b"blocks").unwrap();
    let longest = vec![7u8; MAX_BLOCK as usize];
    journal.append(&longest).unwrap();
    let error = journal.append(&[&longest[..], &[7]].concat()).unwrap_err().to_string();
    assert!(error.contains("a block of 16777217 bytes"), "{error}");
    journal.append(b"short").unwrap();
    drop(journal);
    assert_eq!(entries(&path, BLOCKS), [longest, b"short".to_vec()]);
    std::fs::remove_file(&path).unwrap();

    let mut journal = open(&path, LINES, b"{\"test\": 1}").unwrap();
    assert!(journal.append(b"two\nlines").is_err());
    assert!(journal.append(b"no object").is_err());
    journal.append_synced(b"{\"one\":1}").unwrap();
    drop(journal);
    assert_eq!(entries(&path, LINES), [b"{\"one\":1}"]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn incomplete_entries_are_dropped_and_whole_ones_stay() {
    let path = path("torn-journal");
    let blocks = (BLOCKS, &b"blocks"[..], [&b"first"[..], b"", b"third", b"fourth"]);
    let lines =
        (LINES, &b"{\"test\": 1}"[..], [&b"{\"n\":1}"[..], b"{\"n\":\"}\"}", b"{\"n\":3}", b"{\"n\":4}"]);
    for (format, header, all) in [blocks, lines] {
        let mut journal = open(&path, format, header).unwrap();
        let mut ends = Vec::new();
        for entry in &all[..3] {
            journal.append(entry).unwrap();
            ends.push(std::fs::metadata(&path).unwrap().len() as usize);
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        // Truncated anywhere, or filled with zeros by a file system that lost the rest.
        for len in 0..whole.len() {
            for tail in [0, 1, 16, 100] {
                let torn = [&whole[..len], &vec![0; tail]].concat();
                std::fs::write(&path, &torn).unwrap();
                let journal = open(&path, format, header);
                let count = journal.unwrap_or_else(|error| panic!("{len} and {tail}: {error}")).entries();
                // Zeros may happen to be what was cut off.
                let intact = torn.iter().zip(&whole).take_while(|(a, b)| a == b).count();
                let expected = ends.iter().filter(|&&end| end <= intact).count();
                assert_eq!(count, expected as u64, "{len} and {tail}");
                assert!(whole.starts_with(&std::fs::read(&path).unwrap()));
            }
        }
        std::fs::write(&path, &whole).unwrap();
        let mut journal = open(&path, format, header).unwrap();
        assert!(journal.notices().is_empty());
        journal.append(all[3]).unwrap();
        drop(journal);
        assert_eq!(entries(&path, format), all);
        let mut journal = open(&path, format, b"").unwrap();
        journal.truncate(1).unwrap();
        journal.append(all[1]).unwrap();
        drop(journal);
        assert_eq!(entries(&path, format), all[..2]);
        std::fs::remove_file(&path).unwrap();
    }
}

/// No flipped bit passes: in the last entry the entry is removed with a notice, elsewhere it is an error.
#[test]
fn every_flipped_bit_is_noticed() {
    let path = path("flipped-journal");
    let blocks = (BLOCKS, &b"blocks"[..], [&b"first"[..], b"second", b"third"]);
    let lines = (LINES, &b"{\"test\": 1}"[..], [&b"{\"n\":1}"[..], b"{\"n\":2}", b"{\"n\":3}"]);
    for (format, header, all) in [blocks, lines] {
        let mut journal = open(&path, format, header).unwrap();
        let mut last = 0;
        for entry in all {
            last = std::fs::metadata(&path).unwrap().len() as usize;
            journal.append(entry).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            std::fs::write(&path, &flipped).unwrap();
            match open(&path, format, header) {
                Ok(journal) => {
                    // Without the line break before it, the last line is one with the line before.
                    let is_joined = format == LINES && at + 1 == last;
                    assert!(at >= last || is_joined, "{format:?}, byte {at}, bit {bit}: accepted");
                    let entries = if is_joined { 1 } else { 2 };
                    assert_eq!((journal.entries(), journal.notices().len()), (entries, 1), "{at}, {bit}");
                    assert!(whole[..last].starts_with(&std::fs::read(&path).unwrap()));
                }
                Err(_) => assert_eq!(std::fs::read(&path).unwrap(), flipped, "a refused file stays"),
            }
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(entries(&path, format), all);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn damaged_and_foreign_files_are_refused_and_stay() {
    let path = path("foreign-journal");
    let mut journal = open(&path, BLOCKS, b"blocks").unwrap();
    for entry in [&b"first"[..], b"", b"third"] {
        journal.append(entry).unwrap();
    }
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    // Damage in complete blocks with others behind them: in the content of the first, and in its length.
    let [number, length] = [8 + 16 + 6 + 16, 8 + 16 + 6 + 7].map(|at| {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        damaged
    });
    for foreign in [&number[..], &length, b"x", b"A_TEST_2 and something short", &[7; 200]] {
        std::fs::write(&path, foreign).unwrap();
        let error = open(&path, BLOCKS, b"blocks").expect_err("refused").to_string();
        assert!(error.contains("move it away"), "{error}");
        let outcome = Journal::read_unlocked::<JournalError>(&path, BLOCKS, |_| Ok(()));
        assert!(outcome.is_err() || outcome.unwrap().is_none());
        assert_eq!(std::fs::read(&path).unwrap(), foreign);
    }
    std::fs::write(&path, "no line at all").unwrap();
    assert!(open(&path, LINES, b"{\"test\": 1}").is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"no line at all");
    std::fs::remove_file(path).unwrap();
}

/// Bytes of journals that earlier versions wrote: both formats must stay readable.
#[test]
fn journals_of_earlier_versions_are_resumed() {
    let path = path("earlier-journal");
    let block = [
        &b"A_TEST_1"[..],
        &[6, 0, 0, 0, 0, 0, 0, 0],
        &(!checksum(b"blocks")).to_le_bytes(),
        b"blocks",
        &[5, 0, 0, 0, 0, 0, 0, 0],
        &(!checksum(b"first")).to_le_bytes(),
        b"first",
    ];
    let blocks = (BLOCKS, block.concat(), [&b"first"[..], b"second"]);
    let lines = (LINES, b"{\"test\": 1}\n{\"n\":1}\n".to_vec(), [&b"{\"n\":1}"[..], b"{\"n\":2}"]);
    for (format, bytes, all) in [blocks, lines] {
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(entries(&path, format), all[..1]);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let mut journal = open(&path, format, b"").unwrap();
        assert!(journal.notices()[0].contains("without checksums"), "{:?}", journal.notices());
        journal.append(all[1]).unwrap();
        drop(journal);
        assert_eq!(entries(&path, format), all);
        std::fs::remove_file(&path).unwrap();
    }
}
