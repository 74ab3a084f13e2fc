//! A position together with the game that led to it.

use crate::keys::{self, Keys};
use crate::{
    BitBoard, Board, CastleRights, Changes, Color, File, Move, Piece, Placed, Rank, Square, fen,
    get_between_rays, get_bishop_moves, get_bishop_rays, get_knight_moves, get_pawn_attacks, get_rook_moves,
    get_rook_rays,
};
use arrayvec::ArrayVec;
use thiserror::Error;

/// Upper bound of the number of legal moves: fifteen queens and a king, each with its maximum. The largest
/// number in a real game is 218.
pub const MAX_MOVES: usize = 512;

/// Legal moves of a position, stored without allocation.
pub type MoveList = ArrayVec<Move, MAX_MOVES>;

/// A move that is not legal in the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} is not a legal move here")]
pub struct IllegalMove(pub Move);

/// A board with its history: it plays moves and takes them back, detects repetitions and the fifty-move rule,
/// keeps keys for hash tables, and logs the changes of the last move.
#[derive(Clone, Debug)]
pub struct Position {
    /// Current state, stored inline because it is read all the time.
    state: State,
    /// Earlier states, the last one at the end. Taking a move back copies one from here, which is cheaper
    /// than undoing the changes.
    past: Vec<State>,
    /// Keys of every position of the game, the current one last: contiguous, because the search for
    /// repetitions scans them.
    past_keys: Vec<u64>,
}

/// Everything that a move changes.
#[derive(Clone, Debug)]
struct State {
    board: Board,
    keys: Keys,
    key: u64,
    /// Contribution of the castling rights to the key; it is cached because it rarely changes.
    castling: u64,
    /// Piece on each square; the board itself has only one set of squares per kind.
    pieces: [Option<Piece>; 64],
    /// Pieces that the last move removed and added.
    changes: Changes,
    /// Plies since the last null move, or since the position was set up.
    plies_from_null: u16,
}

impl State {
    fn new(board: Board) -> Self {
        let mut pieces = [None; 64];
        for piece in Piece::ALL {
            for square in board.pieces(piece) {
                pieces[square as usize] = Some(piece);
            }
        }
        let keys = Keys::of(&board);
        let castling = keys::castling_number(&board);
        let mut state =
            Self { board, keys, key: 0, castling, pieces, changes: Changes::NONE, plies_from_null: 0 };
        state.update_key();
        state
    }

    /// Plays a legal move with known changes.
    #[inline]
    fn play(&mut self, mv: Move, changes: Changes) {
        self.changes = changes;
        for &removed in changes.removed() {
            self.pieces[removed.square as usize] = None;
        }
        for &added in changes.added() {
            self.pieces[added.square as usize] = Some(added.piece);
        }
        self.keys.update(&changes);
        let rights = castle_rights(&self.board);
        self.board.play_unchecked(mv);
        if castle_rights(&self.board) != rights {
            self.castling = keys::castling_number(&self.board);
        }
        self.plies_from_null = self.plies_from_null.saturating_add(1);
        self.update_key();
    }

    #[inline]
    fn reversible_plies(&self) -> usize {
        usize::from(self.board.halfmove_clock()).min(usize::from(self.plies_from_null))
    }

    #[inline]
    fn update_key(&mut self) {
        self.key = self.keys.pieces() ^ self.castling ^ keys::turn_number(&self.board);
    }
}

#[inline]
fn castle_rights(board: &Board) -> [CastleRights; 2] {
    Color::ALL.map(|color| *board.castle_rights(color))
}

impl From<Board> for Position {
    fn from(board: Board) -> Self {
        let state = State::new(board);
        // Capacity for a long game and a deep search, so that neither reallocates.
        let mut past_keys = Vec::with_capacity(512);
        past_keys.push(state.key);
        Self { state, past: Vec::with_capacity(512), past_keys }
    }
}

impl Default for Position {
    fn default() -> Self {
        Self::startpos()
    }
}

impl Position {
    /// The standard start position.
    pub fn startpos() -> Self {
        Board::default().into()
    }

    /// A position from FEN, X-FEN or Shredder-FEN.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a legal position; the error names the reason.
    pub fn from_fen(text: &str) -> Result<Self, fen::FenError> {
        Ok(fen::parse(text)?.into())
    }

    /// The position as FEN, or as Shredder-FEN if plain FEN could not identify the castling rooks.
    pub fn fen(&self) -> String {
        fen::format(&self.state.board)
    }

    /// The current board, for generating moves and attack sets.
    #[inline]
    pub fn board(&self) -> &Board {
        &self.state.board
    }

    /// Colour of the side that is to move.
    #[inline]
    pub fn side_to_move(&self) -> Color {
        self.state.board.side_to_move()
    }

    /// True if the side to move is in check.
    #[inline]
    pub fn in_check(&self) -> bool {
        !self.state.board.checkers().is_empty()
    }

    /// Zobrist key (64-bit hash) of the position: equal for positions that are equal under the repetition
    /// rule.
    #[inline]
    pub fn key(&self) -> u64 {
        self.state.key
    }

    /// Zobrist keys of groups of pieces, for tables that depend only on some of the pieces, such as the
    /// search's correction histories.
    #[inline]
    pub fn keys(&self) -> &Keys {
        &self.state.keys
    }

    /// Pieces that the last move removed and added.
    #[inline]
    pub fn changes(&self) -> &Changes {
        &self.state.changes
    }

    /// Number of moves played since the position was set up, which [`Self::undo`] can take back.
    #[inline]
    pub fn ply(&self) -> usize {
        self.past.len()
    }

    /// Kind of the piece on a square; `None` if the square is empty.
    #[inline]
    pub fn piece_on(&self, square: Square) -> Option<Piece> {
        self.state.pieces[square as usize]
    }

    /// All legal moves, in the generator's order.
    pub fn legal_moves(&self) -> MoveList {
        let mut moves = MoveList::new();
        self.state.board.generate_moves(|piece_moves| {
            moves.extend(piece_moves);
            false
        });
        moves
    }

    /// True if there is any legal move, that is, no checkmate or stalemate. It stops at the first move found.
    pub fn has_legal_move(&self) -> bool {
        self.state.board.generate_moves(|_| true)
    }

    /// True if a legal move castles: it moves the king onto a rook of its own side.
    #[inline]
    pub fn is_castling(&self, mv: Move) -> bool {
        self.state.board.colors(self.side_to_move()).has(mv.to)
    }

    /// True if `mv`, a legal move, captures en passant.
    #[inline]
    pub fn is_en_passant(&self, mv: Move) -> bool {
        self.piece_on(mv.from) == Some(Piece::Pawn)
            && mv.from.file() != mv.to.file()
            && self.piece_on(mv.to).is_none()
    }

    /// Kind of the opponent's piece that a legal move captures; `None` for quiet moves.
    #[inline]
    pub fn captured_by(&self, mv: Move) -> Option<Piece> {
        if self.is_castling(mv) {
            None
        } else if self.is_en_passant(mv) {
            Some(Piece::Pawn)
        } else {
            self.piece_on(mv.to)
        }
    }

    /// Pieces that a legal move will remove and add.
    pub fn changes_of(&self, mv: Move) -> Changes {
        let color = self.side_to_move();
        let piece = self.piece_on(mv.from).unwrap_or(Piece::Pawn);
        let placed = |piece, square| Placed { piece, color, square };
        if self.is_castling(mv) {
            let [king, rook] = castling_targets(mv);
            return Changes::castling(
                [placed(Piece::King, mv.from), placed(Piece::King, king)],
                [placed(Piece::Rook, mv.to), placed(Piece::Rook, rook)],
            );
        }
        let quiet = Changes::moved(placed(piece, mv.from), placed(mv.promotion.unwrap_or(piece), mv.to));
        if let Some(victim) = self.piece_on(mv.to) {
            quiet.capturing(Placed { piece: victim, color: !color, square: mv.to })
        } else if piece == Piece::Pawn && mv.from.file() != mv.to.file() {
            let square = Square::new(mv.to.file(), mv.from.rank());
            quiet.capturing(Placed { piece: Piece::Pawn, color: !color, square })
        } else {
            quiet
        }
    }

    /// Plays a move after checking that it is legal.
    ///
    /// # Errors
    ///
    /// Fails if the move is illegal; the position is unchanged.
    pub fn try_play(&mut self, mv: Move) -> Result<(), IllegalMove> {
        if !self.state.board.is_legal(mv) {
            return Err(IllegalMove(mv));
        }
        self.play(mv);
        Ok(())
    }

    /// Plays a move that is known to be legal. An illegal one leaves a meaningless position; debug builds
    /// panic.
    #[inline]
    pub fn play(&mut self, mv: Move) {
        debug_assert!(self.state.board.is_legal(mv), "{mv} in {}", self.fen());
        let changes = self.changes_of(mv);
        self.past.push(self.state.clone());
        self.state.play(mv, changes);
        self.past_keys.push(self.state.key);
    }

    /// Plays a null move: the other side is to move. Returns false without effect if the side to move is in
    /// check.
    pub fn play_null(&mut self) -> bool {
        let Some(board) = self.state.board.null_move() else { return false };
        self.past.push(self.state.clone());
        self.state.board = board;
        self.state.changes = Changes::NONE;
        self.state.plies_from_null = 0;
        self.state.update_key();
        self.past_keys.push(self.state.key);
        true
    }

    /// Takes the last move back; false if there is none.
    pub fn undo(&mut self) -> bool {
        let Some(state) = self.past.pop() else { return false };
        self.state = state;
        self.past_keys.pop();
        true
    }

    /// Approximation of [`Self::key`] after a move, computed quickly: changes of castling and en passant
    /// rights are ignored. It is good enough for loading a hash table entry in advance.
    #[inline]
    pub fn key_after(&self, mv: Move) -> u64 {
        let us = self.side_to_move();
        let piece = self.piece_on(mv.from).unwrap_or(Piece::Pawn);
        let mut key = self.state.key
            ^ keys::side_number()
            ^ keys::piece_number(us, piece, mv.from)
            ^ keys::piece_number(us, mv.promotion.unwrap_or(piece), mv.to);
        if let Some(victim) = self.piece_on(mv.to) {
            key ^= keys::piece_number(!us, victim, mv.to);
        }
        key
    }

    /// True if a legal move gives check, directly or by discovery.
    pub fn gives_check(&self, mv: Move) -> bool {
        let board = &self.state.board;
        let us = self.side_to_move();
        let king = board.king(!us);
        let (diagonals, lines) = (get_bishop_rays(king), get_rook_rays(king));
        let unusual = mv.promotion.is_some() || self.is_castling(mv) || self.is_en_passant(mv);
        if unusual || (diagonals | lines).has(mv.from) {
            return self.gives_check_general(mv);
        }
        // No line is opened, so only the moving piece can give check.
        let unobstructed = || (get_between_rays(king, mv.to) & board.occupied()).is_empty();
        match self.piece_on(mv.from) {
            Some(Piece::Pawn) => get_pawn_attacks(mv.to, us).has(king),
            Some(Piece::Knight) => get_knight_moves(mv.to).has(king),
            Some(Piece::Bishop) => diagonals.has(mv.to) && unobstructed(),
            Some(Piece::Rook) => lines.has(mv.to) && unobstructed(),
            Some(Piece::Queen) => (diagonals | lines).has(mv.to) && unobstructed(),
            Some(Piece::King) | None => false,
        }
    }

    /// Like [`Self::gives_check`], for moves that open lines or change more than one piece.
    fn gives_check_general(&self, mv: Move) -> bool {
        let board = &self.state.board;
        let us = self.side_to_move();
        let king = board.king(!us);
        let changes = self.changes_of(mv);
        let mut occupied = board.occupied();
        let mut ours = board.colors(us);
        for removed in changes.removed() {
            occupied ^= removed.square.bitboard();
            ours &= !removed.square.bitboard();
        }
        for added in changes.added() {
            occupied |= added.square.bitboard();
        }
        // Pieces that did not move can only give check by discovery, along a line.
        let queens = board.pieces(Piece::Queen);
        let diagonal = ours & (board.pieces(Piece::Bishop) | queens);
        let straight = ours & (board.pieces(Piece::Rook) | queens);
        if !(get_bishop_moves(king, occupied) & diagonal).is_empty()
            || !(get_rook_moves(king, occupied) & straight).is_empty()
        {
            return true;
        }
        changes.added().iter().any(|added| {
            let reach = match added.piece {
                Piece::Pawn => get_pawn_attacks(added.square, us),
                Piece::Knight => get_knight_moves(added.square),
                Piece::Bishop => get_bishop_moves(added.square, occupied),
                Piece::Rook => get_rook_moves(added.square, occupied),
                Piece::Queen => {
                    get_bishop_moves(added.square, occupied) | get_rook_moves(added.square, occupied)
                }
                Piece::King => BitBoard::EMPTY,
            };
            reach.has(king)
        })
    }

    /// Number of plies back to which this position can have occurred before: no capture, pawn move or null
    /// move lies within.
    #[inline]
    pub(crate) fn reversible_plies(&self) -> usize {
        self.state.reversible_plies()
    }

    /// Keys of the game so far, that of the current position last.
    #[inline]
    pub(crate) fn past_keys(&self) -> &[u64] {
        &self.past_keys
    }

    /// Number of earlier occurrences of this position in the game; 0 if it is new.
    pub fn repetitions(&self) -> usize {
        self.repetitions_of(&self.state, self.past.len())
    }

    /// The board `plies` plies ago, and the number of its earlier occurrences in the game; `None` before the
    /// first known position.
    pub fn before(&self, plies: usize) -> Option<(&Board, usize)> {
        let n = self.past.len().checked_sub(plies)?;
        let state = self.past.get(n).unwrap_or(&self.state);
        Some((&state.board, self.repetitions_of(state, n)))
    }

    /// Number of earlier occurrences of the `n`th position of the game.
    fn repetitions_of(&self, state: &State, n: usize) -> usize {
        let limit = state.reversible_plies().min(n);
        (4..=limit).step_by(2).filter(|back| self.past_keys[n - back] == state.key).count()
    }

    /// True if this position is a draw by repetition for a search whose root (start position) lies `ply`
    /// plies back: it occurred once since the root, or twice in the whole game.
    #[inline]
    pub fn is_repetition(&self, ply: usize) -> bool {
        let n = self.past_keys.len() - 1;
        let limit = self.reversible_plies().min(n);
        let mut seen = 0;
        let mut back = 4;
        while back <= limit {
            if self.past_keys[n - back] == self.state.key {
                seen += 1;
                if back < ply || seen == 2 {
                    return true;
                }
            }
            back += 2;
        }
        false
    }

    /// True if each side has made fifty moves without capture or pawn move, and the last one did not give
    /// mate.
    #[inline]
    pub fn is_fifty_moves(&self) -> bool {
        self.state.board.halfmove_clock() >= 100 && (!self.in_check() || self.has_legal_move())
    }

    /// True if neither side can mate by any sequence of moves: bare kings, one minor piece, or bishops that
    /// all stand on squares of one colour.
    pub fn is_insufficient_material(&self) -> bool {
        let heavy = self.state.board.pieces(Piece::Pawn)
            | self.state.board.pieces(Piece::Rook)
            | self.state.board.pieces(Piece::Queen);
        if !heavy.is_empty() {
            return false;
        }
        let pieces = self.state.board.occupied().len();
        if pieces <= 3 {
            return true;
        }
        let bishops = self.state.board.pieces(Piece::Bishop);
        self.state.board.pieces(Piece::Knight).is_empty()
            && (bishops.is_subset(BitBoard::DARK_SQUARES) || bishops.is_subset(BitBoard::LIGHT_SQUARES))
    }

    /// Static exchange evaluation (the balance of all captures on the move's target square): true if the
    /// exchange that starts with a legal move gains at least `threshold` centipawns for the moving side.
    #[inline]
    pub fn see_ge(&self, mv: Move, threshold: i32) -> bool {
        crate::see::see_ge(self, mv, threshold)
    }
}

/// Destination squares of king and rook when the king on `mv.from` castles with the rook on `mv.to`.
pub(crate) fn castling_targets(mv: Move) -> [Square; 2] {
    let rank: Rank = mv.from.rank();
    let (king, rook) = if mv.from.file() < mv.to.file() { (File::G, File::F) } else { (File::C, File::D) };
    [Square::new(king, rank), Square::new(rook, rank)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uci;

    fn play(position: &mut Position, moves: &str) {
        for text in moves.split_whitespace() {
            let mv = uci::parse(position.board(), text).unwrap();
            position.play(mv);
        }
    }

    /// Walks a tree of moves and compares everything that is updated incrementally with the same computed
    /// from scratch.
    fn check_tree(position: &mut Position, depth: u32) {
        let fresh = Position::from(position.board().clone());
        assert_eq!(position.key(), fresh.key(), "{}", position.fen());
        assert_eq!(position.keys(), fresh.keys(), "{}", position.fen());
        assert_eq!(position.state.pieces, fresh.state.pieces, "{}", position.fen());
        if depth == 0 {
            return;
        }
        for mv in position.legal_moves() {
            let check = position.gives_check(mv);
            let before = position.key();
            let captured = position.captured_by(mv);
            position.play(mv);
            assert_eq!(check, position.in_check(), "{mv} to {}", position.fen());
            assert_eq!(captured, position.changes().captured().map(|placed| placed.piece));
            check_tree(position, depth - 1);
            assert!(position.undo());
            assert_eq!(position.key(), before);
        }
    }

    #[test]
    fn incremental_state_equals_state_from_scratch() {
        for fen in [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
            "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
            "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
            // Chess960: king and rook swap, and castle across each other.
            "1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1",
            "5rkr/8/8/8/8/8/8/RK1R4 w DAhf - 0 1",
        ] {
            check_tree(&mut Position::from_fen(fen).unwrap(), 3);
        }
    }

    #[test]
    fn repetition_is_counted_in_the_game_and_in_the_search() {
        let mut position = Position::startpos();
        play(&mut position, "g1f3 g8f6 f3g1 f6g8");
        assert_eq!(position.repetitions(), 1);
        assert!(!position.is_repetition(0));
        assert!(!position.is_repetition(4), "the first occurrence is the root itself, not after it");
        assert!(position.is_repetition(5));
        play(&mut position, "g1f3 g8f6 f3g1 f6g8");
        assert_eq!(position.repetitions(), 2);
        assert!(position.is_repetition(0));
    }

    #[test]
    fn earlier_positions_of_the_game_are_known() {
        let mut position = Position::startpos();
        let mut game = Vec::new();
        for moves in ["", "g1f3", "g8f6", "f3g1", "f6g8", "e2e4", "e7e5", "g1f3", "b8c6", "f3g1", "c6b8"] {
            play(&mut position, moves);
            game.push((position.board().clone(), position.repetitions()));
        }
        assert_eq!(game.iter().filter(|(_, repetitions)| *repetitions == 1).count(), 2);
        for (plies, (board, repetitions)) in game.iter().rev().enumerate() {
            assert_eq!(position.before(plies), Some((board, *repetitions)));
        }
        assert_eq!(position.before(game.len()), None);
    }

    #[test]
    fn a_pawn_move_ends_the_search_for_repetitions() {
        let mut position = Position::startpos();
        play(&mut position, "g1f3 g8f6 f3g1 f6g8 e2e4");
        assert_eq!(position.repetitions(), 0);
    }

    #[test]
    fn fifty_moves_are_a_draw_unless_the_last_one_mates() {
        let drawn = Position::from_fen("8/8/8/8/8/2k5/8/K6R w - - 100 90").unwrap();
        assert!(drawn.is_fifty_moves());
        let mated = Position::from_fen("R5k1/5ppp/8/8/8/8/8/K7 b - - 100 90").unwrap();
        assert!(!mated.is_fifty_moves());
    }

    #[test]
    fn material_that_cannot_mate() {
        for (fen, dead) in [
            ("8/8/8/8/8/2k5/8/K7 w - - 0 1", true),
            ("8/8/8/8/8/2k5/8/K1N5 w - - 0 1", true),
            ("8/8/8/8/2b5/2k5/8/K7 w - - 0 1", true),
            ("8/8/8/8/1b6/2k5/8/KB6 w - - 0 1", false),
            ("8/8/8/8/2b5/2k5/8/KB6 w - - 0 1", true),
            ("8/8/8/8/8/2k5/8/K1N1N3 w - - 0 1", false),
            ("8/8/8/8/8/2k5/P7/K7 w - - 0 1", false),
        ] {
            assert_eq!(Position::from_fen(fen).unwrap().is_insufficient_material(), dead, "{fen}");
        }
    }

    #[test]
    fn null_moves_are_undone() {
        let mut position = Position::from_fen("4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1").unwrap();
        let (key, fen) = (position.key(), position.fen());
        assert!(position.play_null());
        assert_eq!(position.changes(), &Changes::NONE);
        assert_ne!(position.key(), key);
        position.undo();
        assert_eq!((position.key(), position.fen()), (key, fen));
        let mut checked = Position::from_fen("4k3/8/8/8/8/8/4q3/4K3 w - - 0 1").unwrap();
        assert!(!checked.play_null());
    }
}
