//! File of one worker's games, to which only whole games are appended, and the journal of their checksums.
//!
//! Both exist until all games of the worker are played: `STEM-W-of-N.vf.part` and `STEM-W-of-N.vf.part.journal`. The
//! header of the journal holds the settings of the run. A resumed run compares every game with its checksum.

use super::PlaySettings;
use crate::error::SelfPlayError;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use tandem_data::{Encoder, Format, Options, Record, Source};
use tandem_util::checksum::checksum;
use tandem_util::journal::{AppendFile, Journal, JournalError, JournalFormat};
use tandem_util::output;

const FORMAT: JournalFormat = JournalFormat::Blocks { magic: b"TGAMES_1" };

/// Games of one worker.
pub(super) struct GameLog {
    /// `None` if an earlier run has completed the file.
    files: Option<(AppendFile, Journal)>,
    path: PathBuf,
    /// Number of games in the file.
    pub(super) games: u64,
    /// Sentences for the user about the files as they were found.
    pub(super) notices: Vec<String>,
}

/// Length and checksum of a game, an entry of the journal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct GameCheck {
    len: u64,
    checksum: u64,
}

impl GameCheck {
    fn of(game: &[u8]) -> Self {
        Self { len: game.len() as u64, checksum: checksum(game) }
    }

    fn pack(self) -> Vec<u8> {
        [self.len, self.checksum].map(u64::to_le_bytes).concat()
    }

    fn unpack(entry: &[u8]) -> Option<Self> {
        let (&[len, checksum], []) = entry.as_chunks() else { return None };
        Some(Self { len: u64::from_le_bytes(len), checksum: u64::from_le_bytes(checksum) })
    }
}

impl GameLog {
    /// Opens and locks the files, compares the games with their checksums, and truncates what a killed run has
    /// left behind the last of them.
    pub(super) fn open(path: PathBuf, count: u64, settings: &PlaySettings) -> Result<Self, SelfPlayError> {
        let part = part_of(&path);
        if path.exists() && !part.exists() {
            // This worker finished before the others.
            forget_finished(&path);
            let file = File::open(&path).map_err(SelfPlayError::io(&path))?;
            let mut games = 0;
            read_games(BufReader::new(&file), |_| games += 1).map_err(SelfPlayError::io(&path))?;
            if games < count {
                let problem =
                    format!("this worker has played its {games} games already; ask for as many as before");
                return Err(SelfPlayError::File { path, problem });
            }
            return Ok(Self { files: None, path, games, notices: Vec::new() });
        }
        let mut file = AppendFile::open(&part)?;
        let (mut journal, mut notices) = open_journal(&file, &settings_text(settings))?;
        let mut checks = Vec::new();
        journal.read(|entry| -> Result<(), JournalError> {
            checks.extend(GameCheck::unpack(entry));
            Ok(())
        })?;
        let (games, end) = verify(&file, &checks)?;
        if file.end() > end || checks.len() as u64 > games {
            let path = part.display();
            notices.push(format!(
                "{path}: behind game {games}, {} bytes are incomplete or damaged, as after a crash; they are removed and played \
                 again",
                file.end().saturating_sub(end)
            ));
        }
        file.cut(end)?;
        journal.truncate(games)?;
        Ok(Self { files: Some((file, journal)), path, games, notices })
    }

    /// Appends a game, and then its checksum.
    pub(super) fn add(&mut self, game: &[Record]) -> Result<(), SelfPlayError> {
        let target = Source { path: self.path.clone(), format: Format::Viri, options: Options::default() };
        let mut encoder = Encoder::new(&target);
        let mut bytes = Vec::new();
        let encoded = game.iter().try_for_each(|record| encoder.push(record, &mut bytes));
        let encoded = encoded.and_then(|()| encoder.finish(&mut bytes));
        encoded
            .map_err(|error| SelfPlayError::File { path: self.path.clone(), problem: error.to_string() })?;
        if let Some((part, journal)) = &mut self.files {
            part.append(&bytes)?;
            journal.append(&GameCheck::of(&bytes).pack())?;
        }
        self.games += 1;
        Ok(())
    }

    /// Moves the complete file to its final name.
    pub(super) fn finish(self) -> Result<(), SelfPlayError> {
        let Some((mut part, _journal)) = self.files else { return Ok(()) };
        part.sync()?;
        std::fs::rename(part.path(), &self.path).map_err(SelfPlayError::io(&self.path))?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        output::sync_folder(folder.unwrap_or(Path::new("."))).map_err(SelfPlayError::io(&self.path))?;
        forget_finished(&self.path);
        Ok(())
    }
}

/// Removes the files that only a resumed run needs, once all games are played.
pub(super) fn forget_finished(path: &Path) {
    for left in [journal_of(&part_of(path)), settings_file(&part_of(path))] {
        // A file that stays does no harm.
        let _ = std::fs::remove_file(left);
    }
}

pub(super) fn part_of(path: &Path) -> PathBuf {
    path.with_extension("vf.part")
}

pub(super) fn journal_of(part: &Path) -> PathBuf {
    part.with_extension("part.journal")
}

/// File in which earlier versions stored the settings of a run.
pub(super) fn settings_file(part: &Path) -> PathBuf {
    part.with_extension("settings")
}

/// Settings that a resumed run must have too, as text.
pub(super) fn settings_text(settings: &PlaySettings) -> String {
    let PlaySettings { evaluator, seed, soft_nodes, hash, openings, adjudication, .. } = settings;
    format!(
        "judged by {evaluator}, seed {seed}, {soft_nodes} soft nodes, hash {hash} MiB, {openings}, {adjudication:?}" // language: old name
    )
}

/// Opens the journal of a file of games, or begins one. Games of an earlier version, which had no journal, are
/// entered into it. Returns also what the user should know about that.
fn open_journal(part: &AppendFile, settings: &str) -> Result<(Journal, Vec<String>), SelfPlayError> {
    let path = journal_of(part.path());
    let refuse = |problem: String| Err(SelfPlayError::File { path: part.path().into(), problem });
    let found = Journal::open(&path, FORMAT)?;
    let header = found.header().map(|text| String::from_utf8_lossy(text).into_owned());
    let old_settings = settings_file(part.path());
    let old = std::fs::read_to_string(&old_settings).ok().map(|text| text.trim().to_owned());
    if let Some(known) = header.as_ref().or(old.as_ref()).filter(|known| known.as_str() != settings) {
        return refuse(format!("games were begun with other settings ({known}); use those, or another name"));
    }
    if header.is_none() && old.is_none() && part.end() > 0 {
        let journal = path.display();
        return refuse(format!(
            "its journal {journal} is missing or empty: bring it back, or move the games away"
        ));
    }
    let mut journal = found.resume(settings.as_bytes())?;
    let mut notices = journal.notices().to_vec();
    if old.is_some() {
        if header.is_none() {
            let mut entered = Ok(());
            read_games(reader(part).map_err(SelfPlayError::io(part.path()))?, |game| {
                if entered.is_ok() {
                    entered = journal.append(&GameCheck::of(game).pack());
                }
            })
            .map_err(SelfPlayError::io(part.path()))?;
            entered?;
            notices.push(format!(
                "{}: begun by an earlier version without checksums, so damage may go unnoticed",
                part.path().display()
            ));
        }
        std::fs::remove_file(&old_settings).map_err(SelfPlayError::io(old_settings))?;
    }
    Ok((journal, notices))
}

fn reader(part: &AppendFile) -> io::Result<BufReader<&File>> {
    let mut file = part.file();
    file.rewind()?;
    Ok(BufReader::new(file))
}

/// Number of games that agree with their checksums, and the offset at which the last of them ends.
///
/// # Errors
///
/// Fails if a game is damaged and one behind it is not, because a crash damages only the end of a file.
fn verify(part: &AppendFile, checks: &[GameCheck]) -> Result<(u64, u64), SelfPlayError> {
    let io_error = || SelfPlayError::io(part.path());
    let mut input = reader(part).map_err(io_error())?;
    let (mut end, mut at) = (0, 0);
    let mut first_damaged = None;
    for (number, check) in checks.iter().enumerate() {
        let start = at;
        at += check.len;
        let is_intact = at <= part.end() && {
            let mut game = vec![0; check.len as usize];
            input.read_exact(&mut game).map_err(io_error())?;
            GameCheck::of(&game) == *check
        };
        match (is_intact, first_damaged) {
            (true, None) => end = at,
            (false, None) => first_damaged = Some((number, start)),
            (false, Some(_)) => {}
            (true, Some((damaged, byte))) => {
                let problem = format!(
                    "game {} (from byte {byte}) is damaged, and others follow; move the file and its journal away to begin anew",
                    damaged + 1
                );
                return Err(SelfPlayError::File { path: part.path().into(), problem });
            }
        }
    }
    Ok((first_damaged.map_or(checks.len(), |(number, _)| number) as u64, end))
}

/// Passes the bytes of each complete game in a file to `sink`.
fn read_games(mut input: impl Read, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
    const HEADER: usize = 32;
    let mut full = |bytes: &mut [u8]| -> io::Result<bool> {
        match input.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    };
    let mut header = [0; HEADER];
    let mut game = Vec::new();
    // A board without pieces: the file system filled the end of the file with zeros.
    while full(&mut header)? && header[..8] != [0; 8] {
        game.clear();
        game.extend_from_slice(&header);
        loop {
            let mut ply = [0; 4];
            if !full(&mut ply)? {
                return Ok(());
            }
            game.extend_from_slice(&ply);
            if ply == [0; 4] {
                break;
            }
        }
        sink(&game);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_games_and_zeros_are_not_counted() {
        let game = [&[1; 32][..], &[2; 8], &[0; 4]].concat();
        let two = [&game[..], &game].concat();
        for (file, expected) in [
            (two.clone(), 2),
            ([&two[..], &[0; 100]].concat(), 2),
            ([&two[..], &game[..43]].concat(), 2),
            (two[..20].to_vec(), 0),
            (Vec::new(), 0),
        ] {
            let mut games = 0;
            read_games(&file[..], |found| {
                assert!(found == game);
                games += 1;
            })
            .unwrap();
            assert_eq!(games, expected);
        }
    }
}
