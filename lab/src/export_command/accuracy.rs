//! What rounding costs a network, found by what it says of positions.

use super::ExportArgs;
use crate::distance::Distance;
use crate::error::LabError;
use crate::lines;
use crate::progress::Progress;
use crate::strategist::{Judgement, judge};
use crate::table::Table;
use rayon::prelude::*;
use tandem_chess::Position;
use tandem_data::{Cursor, OnError, Reader};
use tandem_transformer::{Network, Scratch};

/// One of so many positions of a random game is taken: neighbours are much alike.
const APART: usize = 7;
/// So many are judged before progress is told.
const AT_A_TIME: usize = 16;

/// Positions to compare networks on, of games that are not over.
pub(super) fn positions(args: &ExportArgs) -> Result<Vec<Position>, LabError> {
    let Some(path) = &args.data else {
        let lines = lines::random_games(args.positions.saturating_mul(APART), args.seed);
        let positions = lines.iter().flat_map(lines::Line::positions).step_by(APART);
        return Ok(positions.filter(Position::has_legal_move).collect());
    };
    let sources = args.options.sources(std::slice::from_ref(path))?;
    let mut reader = Reader::new(sources, 1, OnError::Stop, None, Cursor::default());
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

/// How far what a network says is from what another says.
#[derive(Debug, Default)]
pub(super) struct Accuracy {
    chances: Distance,
    moves: Distance,
    /// Positions of which both say a best move, and those where it is the same.
    with_best: u64,
    same_best: u64,
    of_actions: bool,
}

impl Accuracy {
    /// Compares a network with the one that it was made from.
    pub(super) fn measure(
        exact: &Network,
        rounded: &Network,
        positions: &[Position],
    ) -> Result<Self, LabError> {
        let of_actions = exact.architecture().heads.action_value.is_some();
        let mut accuracy = Self { of_actions, ..Self::default() };
        let mut progress = Progress::new("positions", Some(positions.len() as u64));
        for some in positions.chunks(AT_A_TIME) {
            let judged: Vec<[Judgement; 2]> = some
                .par_iter()
                .map_init(Scratch::default, |scratch, position| {
                    Ok::<_, LabError>([judge(exact, position, scratch)?, judge(rounded, position, scratch)?])
                })
                .collect::<Result<_, _>>()?;
            judged.iter().for_each(|[exact, rounded]| accuracy.add(exact, rounded));
            progress.add(some.len() as u64);
        }
        progress.finish();
        Ok(accuracy)
    }

    fn add(&mut self, exact: &Judgement, rounded: &Judgement) {
        if let (Some(exact), Some(rounded)) = (exact.chance, rounded.chance) {
            self.chances.add(rounded - exact);
        }
        for ((_, exact), (_, rounded)) in exact.moves.iter().zip(&rounded.moves) {
            self.moves.add(f64::from(rounded - exact));
        }
        if let (Some((exact, _)), Some((rounded, _))) = (exact.best(), rounded.best()) {
            self.with_best += 1;
            self.same_best += u64::from(exact == rounded);
        }
    }

    /// The differences.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&["difference of", "compared", "largest", "mean"]);
        let moves = if self.of_actions { "chance to win after a move" } else { "probability of a move" };
        for (name, distance) in [("chance to win", &self.chances), (moves, &self.moves)] {
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

    /// What is no difference.
    pub(super) fn facts(&self) -> Option<(String, String)> {
        let share = 100.0 * self.same_best as f64 / self.with_best as f64;
        let told = || ("same best move".into(), format!("{share:.1} % of {} positions", self.with_best));
        (self.with_best > 0).then(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_is_compared_part_by_part() {
        let [a, b] = [Position::startpos().legal_moves()[0], Position::startpos().legal_moves()[1]];
        let said = |chance, first, second| Judgement { chance, moves: vec![(a, first), (b, second)] };
        let mut accuracy = Accuracy::default();
        accuracy.add(&said(Some(0.5), 0.75, 0.25), &said(Some(0.625), 0.25, 0.75));
        accuracy.add(&said(None, 0.75, 0.25), &said(None, 0.75, 0.25));
        accuracy.add(&Judgement::default(), &Judgement::default());
        assert_eq!((accuracy.chances.count(), accuracy.chances.largest()), (1, 0.125));
        assert_eq!((accuracy.moves.count(), accuracy.moves.mean()), (4, 0.25));
        assert_eq!(accuracy.facts().unwrap().1, "50.0 % of 2 positions");
    }
}
