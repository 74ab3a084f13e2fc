//! Several streams as one.

use crate::error::DataError;
use crate::record::Record;
use tandem_chess::random::SplitMix;

type Stream = Box<dyn Iterator<Item = Result<Record, DataError>> + Send>;

/// Takes records from several streams, as often from each as its weight says, until all have ended.
pub struct Mix {
    streams: Vec<(f64, Stream)>,
    random: SplitMix,
}

impl Mix {
    /// Streams with their weights; one of no weight is left out.
    pub fn new(streams: Vec<(f64, Stream)>, seed: u64) -> Self {
        let streams = streams.into_iter().filter(|(weight, _)| *weight > 0.0).collect();
        Self { streams, random: SplitMix::new(seed) }
    }
}

impl Iterator for Mix {
    type Item = Result<Record, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.streams.is_empty() {
            let total: f64 = self.streams.iter().map(|(weight, _)| weight).sum();
            let mut place = self.random.unit() * total;
            let chosen = self.streams.iter().position(|(weight, _)| {
                place -= weight;
                place < 0.0
            });
            let chosen = chosen.unwrap_or(self.streams.len() - 1);
            match self.streams[chosen].1.next() {
                Some(record) => return Some(record),
                // The others share what it leaves.
                None => drop(self.streams.remove(chosen)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    #[test]
    fn streams_come_by_weight_and_to_the_end() {
        let records = samples::games(20);
        let marked = |ply: u16| {
            let records: Vec<_> = records.iter().map(|&record| Ok(Record { ply, ..record })).collect();
            Box::new(records.into_iter()) as Stream
        };
        let mix = Mix::new(vec![(3.0, marked(1)), (1.0, marked(2)), (0.0, marked(3))], 5);
        let mixed: Vec<u16> = mix.map(|record| record.unwrap().ply).collect();
        assert_eq!(mixed.len(), 2 * records.len());
        let early = &mixed[..records.len()];
        let share = early.iter().filter(|&&ply| ply == 1).count() as f64 / early.len() as f64;
        assert!((0.7..0.8).contains(&share), "{share}");
    }
}
