//! The effect of rounding on a transformer, measured by its evaluations of positions.

use super::ExportArgs;
use crate::distance::Distance;
use crate::error::LabError;
use crate::lines;
use crate::progress::Progress;
use crate::strategist::{PositionEval, evaluate};
use crate::table::Table;
use rayon::prelude::*;
use tandem_chess::Position;
use tandem_data::{Cursor, OnError, RecordReader};
use tandem_transformer::{Network, Scratch};

/// Distance in plies between the positions taken from a random game, because neighbouring positions are much
/// alike.
const PLIES_APART: usize = 7;
/// Positions that are evaluated between two updates of the progress display.
const CHUNK: usize = 16;

/// The positions on which networks are compared; those without a legal move are skipped.
pub(super) fn positions(args: &ExportArgs) -> Result<Vec<Position>, LabError> {
    let Some(path) = &args.data else {
        let lines = lines::random_games(args.positions.saturating_mul(PLIES_APART), args.seed);
        let positions = lines.iter().flat_map(lines::Line::positions).step_by(PLIES_APART);
        return Ok(positions.filter(Position::has_legal_move).collect());
    };
    let sources = args.options.sources(std::slice::from_ref(path))?;
    let mut reader = RecordReader::new(sources, 1, OnError::Stop, None, Cursor::default());
    let mut positions = Vec::new();
    for record in reader.records() {
        if positions.len() == args.positions {
            break;
        }
        let Ok(board) = record?.position.board() else { continue };
        positions.extend(Some(Position::from(board)).filter(Position::has_legal_move));
    }
    Ok(positions)
}

/// Differences between the evaluations of two networks.
#[derive(Debug, Default)]
pub(super) struct Accuracy {
    win_probabilities: Distance,
    moves: Distance,
    /// Positions for which both networks have a best move, and those for which it is the same.
    with_best: u64,
    same_best: u64,
    of_actions: bool,
}

impl Accuracy {
    /// Compares a rounded network with the original.
    ///
    /// # Errors
    ///
    /// When a network does not accept the input.
    pub(super) fn measure(
        exact: &Network,
        rounded: &Network,
        positions: &[Position],
    ) -> Result<Self, LabError> {
        let of_actions = exact.architecture().heads.action_value.is_some();
        let mut accuracy = Self { of_actions, ..Self::default() };
        let mut progress = Progress::new("positions", Some(positions.len() as u64));
        for chunk in positions.chunks(CHUNK) {
            let evaluated: Vec<[PositionEval; 2]> = chunk
                .par_iter()
                .map_init(Scratch::default, |scratch, position| {
                    Ok::<_, LabError>([
                        evaluate(exact, position, scratch)?,
                        evaluate(rounded, position, scratch)?,
                    ])
                })
                .collect::<Result<_, _>>()?;
            evaluated.iter().for_each(|[exact, rounded]| accuracy.add(exact, rounded));
            progress.add(chunk.len() as u64);
        }
        progress.finish();
        Ok(accuracy)
    }

    fn add(&mut self, exact: &PositionEval, rounded: &PositionEval) {
        if let (Some(exact), Some(rounded)) = (exact.win_probability, rounded.win_probability) {
            self.win_probabilities.add(rounded - exact);
        }
        for ((_, exact), (_, rounded)) in exact.moves.iter().zip(&rounded.moves) {
            self.moves.add(f64::from(rounded - exact));
        }
        if let (Some((exact, _)), Some((rounded, _))) = (exact.best(), rounded.best()) {
            self.with_best += 1;
            self.same_best += u64::from(exact == rounded);
        }
    }

    /// The differences as a table.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&["difference of", "compared", "max", "mean"]);
        let moves = if self.of_actions { "win probability after a move" } else { "probability of a move" };
        for (name, distance) in [("win probability", &self.win_probabilities), (moves, &self.moves)] {
            if distance.count() > 0 {
                table.push(vec![
                    name.into(),
                    distance.count().to_string(),
                    format!("{:.5}", distance.largest()),
                    format!("{:.6}", distance.mean()),
                ]);
            }
        }
        table
    }

    /// The agreement of the best moves, as a property for the model card; `None` if no moves were compared.
    pub(super) fn facts(&self) -> Option<(String, String)> {
        let percent = 100.0 * self.same_best as f64 / self.with_best as f64;
        let fact = || ("same best move".into(), format!("{percent:.1} % of {} positions", self.with_best));
        (self.with_best > 0).then(fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_compared_by_value_and_moves() {
        let [a, b] = [Position::startpos().legal_moves()[0], Position::startpos().legal_moves()[1]];
        let evaluation = |win_probability, first, second| PositionEval {
            win_probability,
            moves: vec![(a, first), (b, second)],
        };
        let mut accuracy = Accuracy::default();
        accuracy.add(&evaluation(Some(0.5), 0.75, 0.25), &evaluation(Some(0.625), 0.25, 0.75));
        accuracy.add(&evaluation(None, 0.75, 0.25), &evaluation(None, 0.75, 0.25));
        accuracy.add(&PositionEval::default(), &PositionEval::default());
        assert_eq!((accuracy.win_probabilities.count(), accuracy.win_probabilities.largest()), (1, 0.125));
        assert_eq!((accuracy.moves.count(), accuracy.moves.mean()), (4, 0.25));
        assert_eq!(accuracy.facts().unwrap().1, "50.0 % of 2 positions");
    }
}
