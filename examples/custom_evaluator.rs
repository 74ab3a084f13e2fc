//! Searches with an evaluator of one's own: material and mobility, in 20 lines.
//!
//! ```sh
//! cargo run --release -p tandem-examples --example custom_evaluator
//! ```
//!
//! The search finds mates and wins pieces with any evaluation. Replace [`Simple`] with yours to see how well it
//! plays; an evaluator with accumulators updates them in `push` and `pop`.

use std::error::Error;
use std::sync::Arc;
use tandem_chess::{Changes, Color, Piece, Position, attacks_by};
use tandem_search::{Centipawns, Evaluator, Limits, Searcher};

/// Material in centipawns, and one centipawn for each attacked square.
struct Simple;

impl Simple {
    fn of_side(position: &Position, side: Color) -> i32 {
        let board = position.board();
        let values = [(Piece::Pawn, 100), (Piece::Knight, 300), (Piece::Bishop, 320), (Piece::Rook, 500)];
        let material: i32 = values
            .into_iter()
            .chain([(Piece::Queen, 900)])
            .map(|(piece, value)| value * board.colored_pieces(side, piece).len() as i32)
            .sum();
        material + attacks_by(board, side).len() as i32
    }
}

impl Evaluator for Simple {
    fn evaluate(&mut self, position: &Position) -> Centipawns {
        let side = position.board().side_to_move();
        Centipawns(Self::of_side(position, side) - Self::of_side(position, !side))
    }

    // Nothing is kept between positions, so nothing has to follow the moves.
    fn reset(&mut self, _position: &Position) {}
    fn push(&mut self, _changes: &Changes) {}
    fn pop(&mut self) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    // One evaluator for each search thread; a hash table of 16 MiB.
    let factory = || Box::new(Simple) as Box<dyn Evaluator>;
    let mut searcher = Searcher::new(Arc::new(factory), 16)?;
    // White wins the queen by a fork.
    let position = Position::from_fen("q3k3/8/8/1N6/8/8/5PPP/6K1 w - - 0 1")?;
    let limits = Limits { depth: Some(8), ..Limits::default() };
    searcher.signals().arm(false);
    let result = searcher.search(&position, &limits, &mut |info| {
        println!("depth {:2}  score {:?}  nodes {}", info.depth, info.score, info.nodes);
    });
    let best = result.best.ok_or("there is no legal move")?;
    println!("best move: {}", tandem_chess::uci::format(position.board(), best, false));
    Ok(())
}
