//! The cost of formatting and parsing a move: `cargo bench -p tandem-chess --bench notation`. Throughput is
//! in moves.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use tandem_chess::pgn::{self, Game, GameReader};
use tandem_chess::{Board, Move, san, uci};

/// Kasparov against Topalov, Wijk aan Zee 1999: castling, sacrifices, checks and a promotion threat.
const GAME: &str = "1. e4 d6 2. d4 Nf6 3. Nc3 g6 4. Be3 Bg7 5. Qd2 c6 6. f3 b5 7. Nge2 Nbd7 8. Bh6 Bxh6 9. Qxh6 Bb7 \
    10. a3 e5 11. O-O-O Qe7 12. Kb1 a6 13. Nc1 O-O-O 14. Nb3 exd4 15. Rxd4 c5 16. Rd1 Nb6 17. g3 Kb8 18. Na5 Ba8 \
    19. Bh3 d5 20. Qf4+ Ka7 21. Rhe1 d4 22. Nd5 Nbxd5 23. exd5 Qd6 24. Rxd4 cxd4 25. Re7+ Kb6 26. Qxd4+ Kxa5 \
    27. b4+ Ka4 28. Qc3 Qxd5 29. Ra7 Bb7 30. Rxb7 Qc4 31. Qxf6 Kxa3 32. Qxa6+ Kxb4 33. c3+ Kxc3 34. Qa1+ Kd2 \
    35. Qb2+ Kd1 36. Bf1 Rd2 37. Rd7 Rxd7 38. Bxc4 bxc4 39. Qxh8 Rd3 40. Qa8 c3 41. Qa4+ Ke1 42. f4 f5 43. Kc1 Rd2 \
    44. Qa7 1-0\n";

fn game() -> Game {
    GameReader::new(GAME.as_bytes()).next_game().expect("a game").expect("a good game")
}

/// Every position of the game with its move and the move's text.
fn moves() -> Vec<(Board, Move, String)> {
    let game = game();
    let mut board = game.start;
    let mut moves = Vec::new();
    for ply in game.moves {
        moves.push((board.clone(), ply.mv, san::format(&board, ply.mv)));
        board.play(ply.mv);
    }
    moves
}

#[divan::bench]
fn san_parse(bencher: Bencher) {
    let moves = moves();
    bencher.counter(ItemsCount::new(moves.len())).bench(|| {
        for (board, _, text) in &moves {
            let _ = divan::black_box(san::parse(board, text));
        }
    });
}

#[divan::bench]
fn san_format(bencher: Bencher) {
    let moves = moves();
    let mut text = String::new();
    bencher.counter(ItemsCount::new(moves.len())).bench_local(|| {
        for (board, mv, _) in &moves {
            text.clear();
            san::write_san(board, *mv, &mut text);
            divan::black_box(&text);
        }
    });
}

#[divan::bench]
fn uci_parse(bencher: Bencher) {
    let moves: Vec<_> =
        moves().into_iter().map(|(board, mv, _)| (uci::format(&board, mv, false), board)).collect();
    bencher.counter(ItemsCount::new(moves.len())).bench(|| {
        for (text, board) in &moves {
            let _ = divan::black_box(uci::parse(board, text));
        }
    });
}

#[divan::bench]
fn pgn_read(bencher: Bencher) {
    let text = GAME.repeat(100);
    let plies = 100 * game().moves.len();
    bencher
        .counter(ItemsCount::new(plies))
        .counter(BytesCount::new(text.len()))
        .bench(|| GameReader::new(text.as_bytes()).filter(Result::is_ok).count());
}

#[divan::bench]
fn pgn_write(bencher: Bencher) {
    let game = game();
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(game.moves.len())).bench_local(|| {
        out.clear();
        pgn::write(&mut out, &game)
    });
}

fn main() {
    divan::main();
}
