//! Many questions put to several copies of one engine at once.

use crate::{Analyst, Fault, StartError, affinity};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Makes an analyst: once for each thread, and again where one failed.
pub type Factory<'a> = dyn Fn() -> Result<Box<dyn Analyst>, StartError> + Sync + 'a;

/// Puts every item to one of `concurrency` analysts, each bound to processors of its own where there are enough, and
/// returns the answers in order. An item whose analyst fails has that fault as its answer; an item that was not
/// reached before `cancel` was set has none. `done` hears of each answer as it comes.
pub fn consult<T: Sync, R: Send>(
    items: &[T],
    concurrency: usize,
    threads_each: usize,
    make: &Factory,
    cancel: &AtomicBool,
    ask: impl Fn(&mut dyn Analyst, &T) -> Result<R, Fault> + Sync,
    mut done: impl FnMut(usize, &Result<R, Fault>),
) -> Result<Vec<Option<Result<R, Fault>>>, StartError> {
    let slots = concurrency.clamp(1, items.len().max(1));
    let places = affinity::assign(slots, threads_each);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let (sender, answers) = mpsc::channel();
    let mut collected: Vec<Option<Result<R, Fault>>> = items.iter().map(|_| None).collect();
    let mut failure = None;
    thread::scope(|scope| {
        for slot in 0..slots {
            let sender = sender.clone();
            let place = places.as_ref().and_then(|places| places.of(slot));
            let (next, failed, ask) = (&next, &failed, &ask);
            scope.spawn(move || {
                if let Some(place) = place {
                    affinity::bind(place);
                }
                let mut analyst: Option<Box<dyn Analyst>> = None;
                while !cancel.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let well = analyst.take().filter(|analyst| analyst.is_well());
                    let mut ready = match well.map_or_else(make, Ok) {
                        Ok(analyst) => analyst,
                        Err(StartError::Cancelled { .. }) => break,
                        Err(error) => {
                            failed.store(true, Ordering::Relaxed);
                            let _ = sender.send(Err(error));
                            break;
                        }
                    };
                    let answer = ask(&mut *ready, item);
                    analyst = Some(ready);
                    if matches!(answer, Err(Fault::Cancelled)) || sender.send(Ok((index, answer))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for message in answers {
            match message {
                Ok((index, answer)) => {
                    done(index, &answer);
                    collected[index] = Some(answer);
                }
                Err(error) => failure = Some(error),
            }
        }
    });
    failure.map_or(Ok(collected), Err)
}
