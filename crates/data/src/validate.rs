//! Whether a data set is sound: positions, moves, scores and results that fit together.

use crate::record::{Outcome, Record};
use tandem_chess::fen;

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Complaint {
    /// Which record, from one.
    pub record: u64,
    /// The position, where it is one.
    pub position: String,
    /// What is wrong.
    pub problem: String,
    /// How bad it is: contradictions by their size, what is illegal above all.
    pub weight: f64,
}

/// Looks at every record of a data set.
pub struct Validator {
    /// Records that were looked at.
    pub records: u64,
    /// Positions that are none.
    pub bad_positions: u64,
    /// Moves that are not legal.
    pub bad_moves: u64,
    /// Scores that are large and have the wrong sign for the result.
    pub contradictions: u64,
    /// Scores that are large, of positions whose result is known: some may contradict it.
    pub clear_scores: u64,
    /// The worst.
    worst: Vec<Complaint>,
    keep: usize,
    /// From so many centipawns on a lost game is a contradiction.
    clear: i16,
}

impl Validator {
    /// Keeps so many of the worst complaints. A score from `clear` centipawns on should win.
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

    /// Looks at a record.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        let board = match record.position.board() {
            Ok(board) => board,
            Err(error) => {
                self.bad_positions += 1;
                return self.complain(String::new(), error.to_string(), f64::INFINITY);
            }
        };
        if let Some(mv) = record.mv.filter(|&mv| !board.is_legal(mv)) {
            self.bad_moves += 1;
            self.complain(fen::format(&board), format!("{mv} is not legal"), f64::MAX);
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
                self.complain(fen::format(&board), problem, f64::from(value).abs());
            }
        }
    }

    fn complain(&mut self, position: String, problem: String, weight: f64) {
        let at = self.worst.partition_point(|complaint| complaint.weight >= weight);
        if at < self.keep {
            self.worst.insert(at, Complaint { record: self.records, position, problem, weight });
            self.worst.truncate(self.keep);
        }
    }

    /// The worst, worst first.
    pub fn worst(&self) -> &[Complaint] {
        &self.worst
    }

    /// Whether every position and every move is legal.
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
    fn what_is_wrong_is_found_and_ranked() {
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
        let order: Vec<u64> = validator.worst().iter().map(|complaint| complaint.record).collect();
        assert_eq!(order, [7, 4, 6]);
    }
}
