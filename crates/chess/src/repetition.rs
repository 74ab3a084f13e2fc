//! Detection of repetitions one move before they happen ("upcoming repetition").
//!
//! A reversible move changes the key by the Zobrist numbers of one piece on two squares and of the side to
//! move. All 3,668 such changes are in a cuckoo hash table; if the difference between the current key and an
//! earlier one is among them, one move leads back to that earlier position.

use crate::keys::{piece_number, side_number};
use crate::{
    Color, Piece, Position, Square, get_between_rays, get_bishop_rays, get_king_moves, get_knight_moves,
    get_rook_rays,
};
use std::sync::LazyLock;

const SIZE: usize = 8192;

struct Cuckoo {
    keys: Box<[u64; SIZE]>,
    squares: Box<[(Square, Square); SIZE]>,
}

fn slots(key: u64) -> [usize; 2] {
    [key as usize % SIZE, (key >> 16) as usize % SIZE]
}

static CUCKOO: LazyLock<Cuckoo> = LazyLock::new(|| {
    let mut cuckoo =
        Cuckoo { keys: Box::new([0; SIZE]), squares: Box::new([(Square::A1, Square::A1); SIZE]) };
    for (color, piece, from, to) in reversible_moves() {
        let mut key = piece_number(color, piece, from) ^ piece_number(color, piece, to) ^ side_number();
        let mut squares = (from, to);
        let mut slot = slots(key)[0];
        loop {
            std::mem::swap(&mut cuckoo.keys[slot], &mut key);
            std::mem::swap(&mut cuckoo.squares[slot], &mut squares);
            if key == 0 {
                break;
            }
            let [first, second] = slots(key);
            slot = if slot == first { second } else { first };
        }
    }
    cuckoo
});

/// Every move that can be reversed, in one of its two directions.
fn reversible_moves() -> impl Iterator<Item = (Color, Piece, Square, Square)> {
    Color::ALL.into_iter().flat_map(|color| {
        Piece::ALL.into_iter().filter(|&piece| piece != Piece::Pawn).flat_map(move |piece| {
            Square::ALL.into_iter().flat_map(move |from| {
                let reach = match piece {
                    Piece::Knight => get_knight_moves(from),
                    Piece::Bishop => get_bishop_rays(from),
                    Piece::Rook => get_rook_rays(from),
                    Piece::Queen => get_bishop_rays(from) | get_rook_rays(from),
                    _ => get_king_moves(from),
                };
                reach
                    .into_iter()
                    .filter(move |&to| (from as usize) < to as usize)
                    .map(move |to| (color, piece, from, to))
            })
        })
    })
}

impl Position {
    /// True if the side to move can repeat a position with its next move, in a search whose root (start
    /// position) lies `ply` plies back. Positions before the root count only if they occurred twice.
    pub fn can_repeat(&self, ply: usize) -> bool {
        let limit = self.reversible_plies();
        let keys = self.past_keys();
        let n = keys.len() - 1;
        if limit < 3 || n < 3 {
            return false;
        }
        let cuckoo = &*CUCKOO;
        let occupied = self.board().occupied();
        // Combined key change of the opponent's moves since then; zero if they have undone themselves.
        let mut opponent = keys[n] ^ keys[n - 1] ^ side_number();
        for back in (3..=limit.min(n)).step_by(2) {
            opponent ^= keys[n - back] ^ keys[n - back + 1] ^ side_number();
            if opponent != 0 {
                continue;
            }
            let difference = keys[n] ^ keys[n - back];
            let Some(slot) = slots(difference).into_iter().find(|&slot| cuckoo.keys[slot] == difference)
            else {
                continue;
            };
            let (from, to) = cuckoo.squares[slot];
            if !(get_between_rays(from, to) & occupied).is_empty() {
                continue;
            }
            let target = keys[n - back];
            if back < ply || keys[..n - back].iter().rev().take(100).any(|&key| key == target) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uci;
    use tandem_util::random::SplitMix;

    #[test]
    fn the_table_holds_every_reversible_move() {
        assert_eq!(reversible_moves().count(), 3668);
        assert_eq!(CUCKOO.keys.iter().filter(|&&key| key != 0).count(), 3668);
    }

    /// Reference by brute force: some legal move leads to a position that occurred before.
    #[test]
    fn agrees_with_trying_every_move() {
        let mut random = SplitMix::new(7);
        let mut seen = [0, 0];
        for game in 0..200 {
            let mut position = Position::from_fen(if game % 2 == 0 {
                "4k3/8/3n4/8/8/3N4/8/R3K3 w - - 0 1"
            } else {
                "8/8/4k3/8/2b5/8/4K1R1/8 w - - 0 1"
            })
            .unwrap();
            for ply in 0..40 {
                let root = 1000;
                let slow = position.legal_moves().into_iter().any(|mv| {
                    let mut after = position.clone();
                    after.play(mv);
                    after.repetitions() > 0
                });
                assert_eq!(position.can_repeat(root), slow, "ply {ply}: {}", position.fen());
                seen[usize::from(slow)] += 1;
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
        }
        assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    }

    #[test]
    fn before_the_root_one_occurrence_is_not_enough() {
        let mut position = Position::startpos();
        for text in ["g1f3", "g8f6", "f3g1"] {
            let mv = uci::parse(position.board(), text).unwrap();
            position.play(mv);
        }
        assert!(position.can_repeat(4));
        assert!(!position.can_repeat(2));
    }
}
