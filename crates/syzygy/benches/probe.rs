//! Probes per second, ours and those of pyrrhic-rs, in positions of all tables with three and four pieces. The tables
//! are warm: divan probes each position many times.
//!
//! `cargo bench -p tandem-syzygy`; it needs the folder `TANDEM_DATA`.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/pyrrhic.rs"]
mod pyrrhic;

use common::{folder, names, pieces, random_position};
use divan::{Bencher, black_box, counter::ItemsCount};
use pyrrhic::Pyrrhic;
use std::sync::LazyLock;
use tandem_chess::{Board, Position};
use tandem_syzygy::Tables;
use tandem_util::random::SplitMix;

/// Positions of each table.
const POSITIONS: usize = 100;

static BOARDS: LazyLock<Vec<Board>> = LazyLock::new(|| {
    let mut random = SplitMix::new(3);
    let mut boards = Vec::new();
    for name in names(&folder()) {
        boards.extend((0..POSITIONS).map(|_| random_position(&pieces(&name), false, &mut random)));
    }
    boards
});
static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables::open(folder().to_str().unwrap()).unwrap());
static PEER: LazyLock<Pyrrhic> = LazyLock::new(|| Pyrrhic::open(folder().to_str().unwrap()));

fn main() {
    divan::main();
}

fn each_board<T>(bencher: Bencher<'_, '_>, probe: impl Fn(&Board) -> T + Sync) {
    let boards = &*BOARDS;
    // Opens the tables.
    boards.iter().for_each(|board| drop(probe(board)));
    bencher.counter(ItemsCount::new(boards.len())).bench(|| {
        for board in boards {
            black_box(probe(black_box(board)));
        }
    });
}

#[divan::bench_group]
mod results {
    use super::*;

    #[divan::bench]
    fn tandem(bencher: Bencher<'_, '_>) {
        each_board(bencher, |board| TABLES.wdl(board));
    }

    #[divan::bench]
    fn pyrrhic(bencher: Bencher<'_, '_>) {
        each_board(bencher, |board| PEER.wdl(board));
    }
}

/// Distances of all moves of a position: the other reader has no other way to ask for them.
#[divan::bench_group]
mod distances {
    use super::*;

    #[divan::bench]
    fn tandem(bencher: Bencher<'_, '_>) {
        each_board(bencher, |board| TABLES.rank_moves(&Position::from(board.clone())));
    }

    #[divan::bench]
    fn pyrrhic(bencher: Bencher<'_, '_>) {
        each_board(bencher, |board| PEER.root(board));
    }
}
