//! Sequences of moves on which `verify` and `export` evaluate a network: random games, or short random
//! continuations of the positions of a data set.

use crate::error::LabError;
use tandem_chess::{Move, Position};
use tandem_data::{Cursor, OnError, RecordReader, Source};
use tandem_util::random::SplitMix;

/// A starting position and the moves played from it.
pub(crate) struct Line {
    pub(crate) start: Position,
    pub(crate) moves: Vec<Move>,
}

/// Longest random game, in plies.
const MAX_GAME_PLIES: usize = 200;
/// Longest line from a position of a data set, in plies: the recorded move, then random ones.
const DATA_LINE_PLIES: usize = 7;

impl Line {
    /// Iterates over the starting position and the position after each move.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Position> {
        let mut position = self.start.clone();
        let first = position.clone();
        std::iter::once(first).chain(self.moves.iter().map(move |&mv| {
            position.play(mv);
            position.clone()
        }))
    }

    /// Plays up to `max_plies` random legal moves from a position; the first one is `first` if it is given and
    /// legal. Stops earlier at the end of the game, the fifty-move rule included.
    fn random(start: Position, first: Option<Move>, max_plies: usize, random: &mut SplitMix) -> Self {
        let mut position = start.clone();
        let mut moves = Vec::new();
        while moves.len() < max_plies && !position.is_fifty_moves() {
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

/// Random games from the starting position, with `positions` positions in all. The same seed gives the same
/// games.
pub(crate) fn random_games(positions: usize, seed: u64) -> Vec<Line> {
    let mut random = SplitMix::new(seed);
    let mut lines = Vec::new();
    let mut left = positions;
    while left > 0 {
        let line = Line::random(Position::startpos(), None, MAX_GAME_PLIES.min(left - 1), &mut random);
        left -= line.moves.len() + 1;
        lines.push(line);
    }
    lines
}

/// Short lines from the positions of a data set, with `positions` positions in all, or fewer if the data ends
/// before.
///
/// # Errors
///
/// When a record cannot be read, or the data has no legal position.
pub(crate) fn from_data(sources: Vec<Source>, positions: usize, seed: u64) -> Result<Vec<Line>, LabError> {
    let mut random = SplitMix::new(seed);
    let mut reader = RecordReader::new(sources, 1, OnError::Stop, None, Cursor::default());
    let mut lines = Vec::new();
    let mut left = positions;
    for record in reader.records() {
        let record = record?;
        let Ok(board) = record.position.board() else { continue };
        let line = Line::random(board.into(), record.mv, DATA_LINE_PLIES.min(left - 1), &mut random);
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
    fn random_games_have_the_requested_number_of_positions() {
        let lines = random_games(1000, 3);
        assert_eq!(lines.iter().map(|line| line.positions().count()).sum::<usize>(), 1000);
        let again = random_games(1000, 3);
        assert!(lines.iter().zip(&again).all(|(one, other)| one.moves == other.moves));
        let few = |line: &Line| line.positions().any(|position| position.board().occupied().len() < 12);
        assert!(lines.iter().any(few), "endgames too");
    }
}
