//! Reading games on several threads, in order.

use super::Game;
use super::error::{PgnError, PgnErrorKind};
use super::reader::GameParser;
use super::split::{Splitter, StreamPosition};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Approximate size in bytes of the batches that threads receive, large enough that the queue costs nothing.
const BATCH_BYTES: usize = 256 << 10;

/// Reads games on `threads` threads, applies `work` to each of them there, and passes the results to `sink`
/// in the order of the games, errors included. Cutting the stream, and decompressing it, happens on a thread
/// of its own.
///
/// Memory holds only a few batches of games at a time, so files may be of any size.
pub fn read_parallel<R, T>(
    input: R,
    threads: usize,
    work: impl Fn(Game) -> T + Sync,
    mut sink: impl FnMut(Result<T, PgnError>),
) where
    R: BufRead + Send,
    T: Send,
{
    let threads = threads.max(1);
    let (batches, batch_queue) = sync_channel::<(TextBatch, Sender<BatchResults<T>>)>(threads);
    let (promises, in_order) = sync_channel::<Receiver<BatchResults<T>>>(2 * threads);
    let batch_queue = Arc::new(Mutex::new(batch_queue));
    let work = &work;
    thread::scope(|scope| {
        scope.spawn(|| cut_batches(input, batches, promises));
        for _ in 0..threads {
            let batch_queue = Arc::clone(&batch_queue);
            scope.spawn(move || {
                loop {
                    let batch = batch_queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((batch, done)) = batch else { return };
                    let _ = done.send(batch.read(work));
                }
            });
        }
        // Only the threads hold the receiver now: once the last of them has ended, sending fails instead of
        // blocking.
        drop(batch_queue);
        let mut games = 0;
        for promise in in_order {
            // A thread that ended early has panicked; the scope propagates the panic.
            let Ok(done) = promise.recv() else { return };
            for outcome in done {
                games += 1;
                sink(outcome.map_err(|error| PgnError { game: games, ..error }));
            }
        }
    });
}

/// Results of the games of a batch; the numbers of games are not known yet.
type BatchResults<T> = Vec<Result<T, PgnError>>;

/// Consecutive texts that one thread parses.
#[derive(Default)]
struct TextBatch {
    bytes: Vec<u8>,
    /// End of each text in `bytes`, and its place in the stream.
    texts: Vec<(usize, StreamPosition)>,
    /// Fault of the stream behind the last text.
    failure: Option<(PgnErrorKind, StreamPosition)>,
}

impl TextBatch {
    fn read<T>(self, work: impl Fn(Game) -> T) -> BatchResults<T> {
        let mut reader = GameParser::new();
        let mut done = Vec::with_capacity(self.texts.len() + 1);
        let mut start = 0;
        for (end, mut place) in self.texts {
            let mut at = 0;
            while let Some(outcome) = reader.next_game(&self.bytes[start..end], &mut at, &mut place) {
                done.push(outcome.map(&work));
            }
            start = end;
        }
        done.extend(self.failure.map(|(kind, place)| Err(reader.count_failure(kind, place))));
        done
    }
}

/// Cuts the stream into batches. Each goes to the threads, and the receiver of its results to the end of the
/// queue. It stops early if the receiving end is dropped.
fn cut_batches<T>(
    input: impl BufRead,
    batches: SyncSender<(TextBatch, Sender<BatchResults<T>>)>,
    promises: SyncSender<Receiver<BatchResults<T>>>,
) {
    let mut splitter = Splitter::new(input);
    let mut ended = false;
    while !ended {
        let mut batch = TextBatch::default();
        while batch.bytes.len() < BATCH_BYTES && batch.failure.is_none() && !ended {
            match splitter.advance() {
                Ok(true) => {
                    let (text, place) = splitter.text();
                    batch.bytes.extend_from_slice(text);
                    batch.texts.push((batch.bytes.len(), place));
                }
                Ok(false) => ended = true,
                Err(kind) => batch.failure = Some((kind, splitter.text().1)),
            }
        }
        let (done, promise) = channel();
        if promises.send(promise).is_err() || batches.send((batch, done)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgn::GameReader;

    #[test]
    fn parallel_reading_equals_reading_one_by_one() {
        let mut text = String::new();
        for round in 0..20_000 {
            text += &format!("[Round \"{round}\"]\n\n");
            text += ["1. e4 e5 *\n", "1. e4 Ke7 *\n", "1. d4 d5 1-0 1. c4 0-1\n", "\n"][round % 4];
        }
        let describe = |outcome: Result<String, PgnError>| outcome.unwrap_or_else(|error| error.to_string());
        let name = |game: Game| format!("{} {:?}", game.tag("Round").unwrap_or("none"), game.moves.len());
        let expected: Vec<_> =
            GameReader::new(text.as_bytes()).map(|game| describe(game.map(name))).collect();
        for threads in [0, 1, 3] {
            let mut games = Vec::new();
            read_parallel(text.as_bytes(), threads, name, |outcome| games.push(describe(outcome)));
            assert!(games == expected, "{threads} threads");
        }
    }

    #[test]
    fn a_panic_is_passed_on() {
        fn fail(_: Game) -> u8 {
            panic!("as the test wants it")
        }
        let (done, ended) = channel();
        thread::spawn(move || {
            // More batches than the queues hold.
            let text = "1. e4 e5 *\n".repeat(200_000);
            let read = || read_parallel(text.as_bytes(), 1, fail, |_: Result<u8, PgnError>| ());
            let _ = done.send(std::panic::catch_unwind(read).is_err());
        });
        assert_eq!(ended.recv_timeout(std::time::Duration::from_secs(60)), Ok(true));
    }
}
