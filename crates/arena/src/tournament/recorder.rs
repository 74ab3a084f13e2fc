//! Saves finished games: in memory, in the PGN and in the state file, in an order that survives a crash.

use super::{Tournament, TournamentError};
use crate::journal::{Journal, PgnFile};
use crate::schedule::Pairing;
use crate::standings::{GameResult, Standings};
use crate::{GameRecord, Overhead, record};
use std::time::Duration;
use tandem_chess::Color;

pub(super) struct MatchRecorder {
    pub(super) standings: Standings,
    pub(super) overhead: Overhead,
    journal: Option<Journal>,
    pgn: Option<PgnFile>,
}

impl MatchRecorder {
    /// Opens the files of a match of `games` games, and reads the results that earlier runs left in them.
    pub(super) fn open(
        tournament: &Tournament,
        names: Vec<String>,
        games: usize,
    ) -> Result<Self, TournamentError> {
        // The PGN comes first, because its end is only certain once it is locked, and the state file records
        // it.
        let mut pgn = tournament.pgn.as_deref().map(PgnFile::open).transpose()?;
        let mut standings = Standings::new(names);
        let mut journal = None;
        if let Some(path) = &tournament.state {
            let header = tournament.header(&standings.names, pgn.as_ref().map_or(0, PgnFile::end));
            let (opened, results, pgn_end) = Journal::open(path, &header, games, tournament.pgn.as_deref())?;
            results.into_iter().for_each(|result| standings.add(result));
            journal = Some(opened);
            if let Some(pgn) = &mut pgn {
                pgn.resume_at(pgn_end, path)?;
            }
        }
        Ok(Self { standings, overhead: Overhead::default(), journal, pgn })
    }

    /// Sentences for the user about the state file as it was found.
    pub(super) fn notices(&self) -> &[String] {
        self.journal.as_ref().map(Journal::notices).unwrap_or_default()
    }

    /// Saves a finished game. After an error no further game may be saved, because the files would no longer
    /// agree.
    pub(super) fn save(
        &mut self,
        tournament: &Tournament,
        pairing: &Pairing,
        record: &GameRecord,
        wall: Duration,
    ) -> Result<GameResult, TournamentError> {
        let sides = [pairing.white, pairing.black];
        let pgn_end = match &mut self.pgn {
            Some(pgn) => {
                let heading = record::Heading {
                    event: &tournament.event,
                    round: format!("{}.{}", pairing.round + 1, pairing.index % 2 + 1),
                    names: sides.map(|engine| self.standings.names[engine].as_str()),
                    limits: sides.map(|engine| tournament.engines[engine].limits),
                    chess960: tournament.rules.chess960,
                };
                pgn.append(&record::to_pgn(record, &heading))?
            }
            None => 0,
        };
        let result = GameResult {
            index: pairing.index,
            white: pairing.white,
            black: pairing.black,
            opening: tournament.book.opening(pairing.round).0,
            outcome: record.outcome,
            termination: record.termination,
            details: record.details.clone(),
            culprit: record
                .culprit
                .map(|side| if side == Color::White { pairing.white } else { pairing.black }),
            plies: record.moves.len(),
            seconds: wall.as_secs_f64(),
            pgn_end,
        };
        if let Some(journal) = &mut self.journal {
            journal.add(&result)?;
        }
        self.overhead.add(&record.overhead);
        self.standings.add(result.clone());
        Ok(result)
    }
}
