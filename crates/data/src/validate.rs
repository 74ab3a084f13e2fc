//! Soundness of a data set: legal positions, legal moves, and scores that do not contradict results.
//!
//! A few illegal records are a bug of the tool that wrote them; many contradictions suggest that scores or
//! results are stored from another side's view than assumed.

use crate::record::{Outcome, Record};
use tandem_chess::fen;

/// A fault of one record, found by the [`Validator`].
#[derive(Clone, Debug, PartialEq)]
pub struct RecordFault {
    /// Number of the faulty record in the data set, counted from 1.
    pub record: u64,
    /// Position as FEN; empty if the record's position is not a legal board.
    pub position: String,
    /// Description of the fault: the reason for an illegal position, the illegal move, or the score and the
    /// result that contradict each other.
    pub problem: String,
    /// Severity by which faults are ranked: the absolute score in centipawns for a score that contradicts the
    /// result, [`f64::MAX`] for an illegal move, infinity for an illegal position.
    pub weight: f64,
}

/// Checks every record of a data set, counts the faults and keeps the most severe.
pub struct Validator {
    /// Number of records that were checked.
    pub records: u64,
    /// Number of records whose position is not a legal board.
    pub bad_positions: u64,
    /// Number of records whose move is illegal in their position.
    pub bad_moves: u64,
    /// Number of records that have a clear score (see [`Self::new`]) for the side that then lost the game.
    pub contradictions: u64,
    /// Number of records with a known result and a clear score (see [`Self::new`]): the total of which
    /// [`Self::contradictions`] is a part.
    pub clear_scores: u64,
    /// Most severe faults, in descending order.
    worst: Vec<RecordFault>,
    keep: usize,
    /// Score in centipawns from which a lost game is a contradiction.
    clear: i16,
}

impl Validator {
    /// A validator that keeps the `keep` most severe faults. A score of at least `clear` centipawns, for
    /// either side, is a clear score: that side is expected not to lose.
    pub fn new(keep: usize, clear: i16) -> Self {
        Self {
            records: 0,
            bad_positions: 0,
            bad_moves: 0,
            contradictions: 0,
            clear_scores: 0,
            worst: Vec::new(),
            keep,
            clear,
        }
    }

    /// Checks that the position and the move of a record are legal and that its score does not contradict the
    /// result, and counts its faults.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        let board = match record.position.board() {
            Ok(board) => board,
            Err(error) => {
                self.bad_positions += 1;
                return self.note_fault(String::new(), error.to_string(), f64::INFINITY);
            }
        };
        if let Some(mv) = record.mv.filter(|&mv| !board.is_legal(mv)) {
            self.bad_moves += 1;
            self.note_fault(fen::format(&board), format!("{mv} is not legal"), f64::MAX);
        }
        if let (Some(score), Some(result)) = (record.score, record.result) {
            let value = score.centipawns();
            let clear = value.unsigned_abs() >= self.clear.unsigned_abs();
            self.clear_scores += u64::from(clear);
            let lost = value > 0 && result == Outcome::Loss || value < 0 && result == Outcome::Win;
            if lost && clear {
                self.contradictions += 1;
                let problem =
                    format!("a score of {value}, and the game was a {}", crate::filter::name_of(result));
                self.note_fault(fen::format(&board), problem, f64::from(value).abs());
            }
        }
    }

    fn note_fault(&mut self, position: String, problem: String, weight: f64) {
        let at = self.worst.partition_point(|fault| fault.weight >= weight);
        if at < self.keep {
            self.worst.insert(at, RecordFault { record: self.records, position, problem, weight });
            self.worst.truncate(self.keep);
        }
    }

    /// The most severe faults, by [`RecordFault::weight`] in descending order; at most `keep` of
    /// [`Self::new`].
    pub fn worst(&self) -> &[RecordFault] {
        &self.worst
    }

    /// True if every position and every move so far was legal. Contradictions between scores and results do
    /// not count, since games are lost from winning positions.
    pub fn is_legal(&self) -> bool {
        self.bad_positions == 0 && self.bad_moves == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;
    use crate::record::Score;
    use tandem_chess::{Move, Square};

    #[test]
    fn faults_are_found_and_ranked() {
        let mut records: Vec<Record> = samples::games(5);
        for (number, record) in records.iter_mut().enumerate() {
            let winning = Score::Centipawns([0, 499, 500][number % 3]);
            record.score =
                Some(if record.result == Some(Outcome::Loss) { winning.flipped() } else { winning });
        }
        let mut validator = Validator::new(3, 500);
        records.iter().for_each(|record| validator.add(record));
        assert!(validator.is_legal() && validator.worst().is_empty());
        assert_eq!(validator.clear_scores, records.len() as u64 / 3);

        records[3].mv = Some(Move { from: Square::A1, to: Square::H8, promotion: None });
        (records[4].score, records[4].result) = (Some(Score::Centipawns(900)), Some(Outcome::Loss));
        (records[5].score, records[5].result) = (Some(Score::Mate(-1)), Some(Outcome::Win));
        records[6].position.pieces = [0; 16];
        let mut validator = Validator::new(3, 500);
        records.iter().for_each(|record| validator.add(record));
        assert_eq!((validator.bad_moves, validator.bad_positions, validator.contradictions), (1, 1, 2));
        let order: Vec<u64> = validator.worst().iter().map(|fault| fault.record).collect();
        assert_eq!(order, [7, 4, 6]);
    }
}
