//! Lines of play to evaluate along.

use crate::error::LabError;
use tandem_chess::random::SplitMix;
use tandem_chess::{Move, Position};
use tandem_data::{Cursor, OnError, Reader, Source};

/// A position and moves from it.
pub(crate) struct Line {
    pub(crate) start: Position,
    pub(crate) moves: Vec<Move>,
}

/// A random game ends after so many plies at the latest.
const LONGEST: usize = 200;
/// Moves from a position of a data set: the known one, then any.
const FROM_DATA: usize = 7;

impl Line {
    /// The first position and those after each move.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Position> {
        let mut position = self.start.clone();
        let first = position.clone();
        std::iter::once(first).chain(self.moves.iter().map(move |&mv| {
            position.play(mv);
            position.clone()
        }))
    }

    /// From a position, with the first move if it is known and legal, and then random ones.
    fn random(start: Position, first: Option<Move>, most: usize, random: &mut SplitMix) -> Self {
        let mut position = start.clone();
        let mut moves = Vec::new();
        while moves.len() < most && !position.is_fifty_moves() {
            let legal = position.legal_moves();
            if legal.is_empty() {
                break;
            }
            let known = first.filter(|mv| moves.is_empty() && legal.contains(mv));
            let mv = known.unwrap_or_else(|| legal[random.below(legal.len() as u32) as usize]);
            position.play(mv);
            moves.push(mv);
        }
        Self { start, moves }
    }
}

/// Games of random moves from the starting position, of so many positions in all.
pub(crate) fn random_games(positions: usize, seed: u64) -> Vec<Line> {
    let mut random = SplitMix::new(seed);
    let mut lines = Vec::new();
    let mut left = positions;
    while left > 0 {
        let line = Line::random(Position::startpos(), None, LONGEST.min(left - 1), &mut random);
        left -= line.moves.len() + 1;
        lines.push(line);
    }
    lines
}

/// Short lines from the positions of a data set, of so many positions in all, or fewer if it ends before.
pub(crate) fn from_data(sources: Vec<Source>, positions: usize, seed: u64) -> Result<Vec<Line>, LabError> {
    let mut random = SplitMix::new(seed);
    let mut reader = Reader::new(sources, 1, OnError::Stop, None, Cursor::default());
    let mut lines = Vec::new();
    let mut left = positions;
    for record in reader.records() {
        let record = record?;
        let Ok(board) = record.position.board() else { continue };
        let line = Line::random(board.into(), record.mv, FROM_DATA.min(left - 1), &mut random);
        left -= line.moves.len() + 1;
        lines.push(line);
        if left == 0 {
            break;
        }
    }
    if lines.is_empty() {
        return Err(LabError::Usage("there are no positions in the data".into()));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn games_have_as_many_positions_as_were_asked_for() {
        let lines = random_games(1000, 3);
        assert_eq!(lines.iter().map(|line| line.positions().count()).sum::<usize>(), 1000);
        let again = random_games(1000, 3);
        assert!(lines.iter().zip(&again).all(|(one, other)| one.moves == other.moves));
        let few = |line: &Line| line.positions().any(|position| position.board().occupied().len() < 12);
        assert!(lines.iter().any(few), "endgames too");
    }
}
