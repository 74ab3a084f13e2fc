//! Random batches for measuring the speed of training steps without any data.

use crate::batch::{ActiveFeatures, Batch};
use crate::loss::Target;
use crate::trainer::Job;
use tandem_chess::{BoardBuilder, CastleRights, Color, Piece, Square};
use tandem_data::Packed;
use tandem_util::random::SplitMix;

/// Random positions with `pieces` pieces on random squares, and random targets; the same seed gives the same
/// batch.
pub fn random_batch(positions: usize, pieces: usize, seed: u64) -> Batch {
    let mut random = SplitMix::new(seed);
    let mut batch = Batch::default();
    while batch.len() < positions {
        if let Some(position) = random_position(pieces, &mut random) {
            let win_probability = random.unit() as f32;
            batch.push(position, Target { score: 2.0 * win_probability - 1.0, win_probability });
        }
    }
    batch
}

fn random_position(pieces: usize, random: &mut SplitMix) -> Option<Packed> {
    let mut builder = BoardBuilder::empty();
    builder.side_to_move = if random.below(2) == 0 { Color::White } else { Color::Black };
    builder.castle_rights = [CastleRights::EMPTY; 2];
    let kinds =
        [Piece::Pawn, Piece::Pawn, Piece::Pawn, Piece::Knight, Piece::Bishop, Piece::Rook, Piece::Queen];
    for number in 0..pieces.clamp(2, tandem_data::MAX_PIECES) {
        let color = if number % 2 == 0 { Color::White } else { Color::Black };
        let piece = if number < 2 { Piece::King } else { kinds[random.below(kinds.len() as u32) as usize] };
        loop {
            let square = Square::index(random.below(64) as usize);
            let last_rank = matches!(square.rank() as u8, 0 | 7);
            if builder.square(square).is_none() && !(piece == Piece::Pawn && last_rank) {
                *builder.square_mut(square) = Some((piece, color));
                break;
            }
        }
    }
    Packed::new(&builder.build().ok()?)
}

/// Random features, `active` for each side and all of one king bucket, including combinations that no real
/// position has.
pub fn random_features(job: &Job, positions: usize, active: usize, seed: u64) -> ActiveFeatures {
    let mut random = SplitMix::new(seed);
    let features = &job.layout.architecture().features;
    let (kings, stride) = (features.king_bucket_count() as u32, features.stride() as u32);
    let buckets = job.layout.architecture().buckets().count as u32;
    let mut batch = ActiveFeatures::new(2, active);
    for _ in 0..positions {
        let mut side = || -> Vec<u32> {
            // Kings stay near their corner, as they do in games.
            let king = random.below(kings).min(random.below(kings));
            (0..active).map(|_| king * stride + random.below(stride)).collect()
        };
        let (own, other) = (side(), side());
        let win_probability = random.unit() as f32;
        batch.push(
            &[&own, &other],
            random.below(buckets) as u8,
            Target { score: 2.0 * win_probability - 1.0, win_probability },
        );
    }
    batch
}
