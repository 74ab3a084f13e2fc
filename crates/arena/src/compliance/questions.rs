//! Random positions and limits of search.

use super::session::Ending;
use std::time::Duration;
use tandem_chess::{Board, Color, Move, Position, fen, uci};
use tandem_util::random::SplitMix;

/// Positions without a legal move: checkmates and stalemates.
pub(super) const FINISHED: [&str; 5] = [
    "7k/5KQ1/8/8/8/8/8/8 b - - 0 1",
    "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3",
    "R5k1/5ppp/8/8/8/8/8/4K3 b - - 0 1",
    "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1",
    "k7/P7/K7/8/8/8/8/8 b - - 0 1",
];

/// A position with the moves that led to it from a start position.
pub(super) struct Setup {
    pub(super) position: Position,
    /// The command `position` that sets it up, with its end of line.
    pub(super) command: String,
}

impl Setup {
    /// A start position and legal moves from it.
    pub(super) fn new(start: &Board, moves: &[Move], chess960: bool) -> Self {
        let mut position = Position::from(start.clone());
        let mut command = String::from("position ");
        if *start == Board::default() && !chess960 {
            command.push_str("startpos");
        } else {
            command.push_str("fen ");
            command.push_str(&fen::format(start));
        }
        for (n, &mv) in moves.iter().enumerate() {
            command.push_str(if n == 0 { " moves " } else { " " });
            command.push_str(&uci::format(position.board(), mv, chess960));
            position.play(mv);
        }
        command.push('\n');
        Self { position, command }
    }
}

/// Start position of a game: the usual one, or a random one of double Chess960.
pub(super) fn start_position(chess960: bool, random: &mut SplitMix) -> Board {
    if chess960 {
        Board::double_chess960_startpos(random.below(960), random.below(960))
    } else {
        Board::default()
    }
}

/// A position with a legal move: random moves from the start, or a few pieces on random squares, where mates
/// are near.
pub(super) fn random_setup(chess960: bool, random: &mut SplitMix) -> Setup {
    loop {
        if random.below(4) == 0 {
            if let Some(position) = few_pieces(random) {
                let board = position.board().clone();
                return Setup::new(&board, &[], true);
            }
            continue;
        }
        let start = start_position(chess960, random);
        if let Some(moves) = random_moves(&start, random.below(100) as usize, random) {
            return Setup::new(&start, &moves, chess960);
        }
    }
}

/// Random legal moves that leave the game unfinished.
pub(super) fn random_moves(start: &Board, plies: usize, random: &mut SplitMix) -> Option<Vec<Move>> {
    let mut position = Position::from(start.clone());
    let mut moves = Vec::with_capacity(plies);
    for _ in 0..plies {
        let legal = position.legal_moves();
        let mv = *legal.get(random.below(legal.len() as u32) as usize)?;
        position.play(mv);
        moves.push(mv);
    }
    position.has_legal_move().then_some(moves)
}

/// Both kings and one to three other pieces; `None` if they do not make a legal position.
fn few_pieces(random: &mut SplitMix) -> Option<Position> {
    let mut squares = [b'1'; 64];
    let others = 1 + random.below(3);
    let mut pieces = vec![b'K', b'k'];
    pieces.extend((0..others).map(|_| b"QQRRBNPqqrrbnp"[random.below(14) as usize]));
    for piece in pieces {
        let square = loop {
            let square = random.below(64) as usize;
            let is_pawn_on_edge = matches!(piece, b'P' | b'p') && !(8..56).contains(&square);
            if squares[square] == b'1' && !is_pawn_on_edge {
                break square;
            }
        };
        squares[square] = piece;
    }
    let ranks: Vec<_> = squares.chunks(8).map(String::from_utf8_lossy).collect();
    let side = if random.below(2) == 0 { 'w' } else { 'b' };
    let position = Position::from_fen(&format!("{} {side} - - 0 1", ranks.join("/"))).ok()?;
    position.has_legal_move().then_some(position)
}

/// A random limit: the arguments of `go`, and how the search ends.
pub(super) fn random_limit(side: Color, random: &mut SplitMix) -> (String, Ending) {
    let millis = |n: u32| Duration::from_millis(u64::from(n));
    match random.below(8) {
        0 => (format!("depth {}", 1 + random.below(7)), Ending::Limit),
        1 => (format!("nodes {}", 1 + random.below(5000)), Ending::Limit),
        2 => {
            let time = 1 + random.below(100);
            (format!("movetime {time}"), Ending::Time(millis(time)))
        }
        3 | 4 => {
            let (mine, theirs, increment) =
                (1 + random.below(1000), 1 + random.below(1000), random.below(20));
            let (white, black) = if side == Color::White { (mine, theirs) } else { (theirs, mine) };
            let to_go = if random.below(2) == 0 {
                String::new()
            } else {
                format!(" movestogo {}", 1 + random.below(40))
            };
            let text = format!("wtime {white} btime {black} winc {increment} binc {increment}{to_go}");
            (text, Ending::Time(millis(mine)))
        }
        5 => ("infinite".into(), Ending::StopAlone(millis(random.below(50)))),
        6 => (format!("depth {}", 20 + random.below(100)), Ending::Stop(millis(random.below(50)))),
        _ => (format!("nodes {}", 100_000_000), Ending::Stop(millis(random.below(5)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_positions_have_no_legal_move() {
        for text in FINISHED {
            assert!(!Position::from_fen(text).unwrap().has_legal_move(), "{text}");
        }
    }

    #[test]
    fn random_positions_are_legal_and_set_up_by_their_commands() {
        let mut random = SplitMix::new(1);
        for n in 0..200 {
            let setup = random_setup(n % 2 == 0, &mut random);
            assert!(setup.position.has_legal_move());
            let words = setup.command.strip_prefix("position ").unwrap();
            let (start, moves) = words.trim_end().split_once(" moves ").unwrap_or((words.trim_end(), ""));
            let mut position = match start.strip_prefix("fen ") {
                Some(text) => Position::from_fen(text).unwrap(),
                None => Position::startpos(),
            };
            for text in moves.split_ascii_whitespace() {
                let mv = uci::parse(position.board(), text).unwrap();
                position.play(mv);
            }
            assert_eq!(position.fen(), setup.position.fen());
        }
    }

    #[test]
    fn a_walk_is_repeatable() {
        let walk = |seed| random_moves(&Board::default(), 20, &mut SplitMix::new(seed));
        assert_eq!(walk(3), walk(3));
    }
}
