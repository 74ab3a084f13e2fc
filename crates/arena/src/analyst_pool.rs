//! A pool of analysts: distributes many positions over several copies of one engine, which work in parallel.

use crate::{Analyst, Fault, StartError, affinity};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Function that starts an analyst (an engine that answers questions about positions). It is called once for
/// each thread, and again after a failure.
pub type AnalystFactory<'a> = dyn Fn() -> Result<Box<dyn Analyst>, StartError> + Sync + 'a;

/// Distributes the items, for example positions of a test suite, among `concurrency` analysts and returns the
/// answers in the order of the items. Each analyst is bound to processors of its own if there are enough. The
/// answer of an item whose analyst failed is the fault; an item that was not reached before `cancel` was set
/// has `None`. `done` is called for each answer as it arrives.
///
/// # Errors
///
/// Fails if an analyst cannot be started.
pub fn ask_all<T: Sync, R: Send>(
    items: &[T],
    concurrency: usize,
    threads_each: usize,
    make: &AnalystFactory,
    cancel: &AtomicBool,
    ask: impl Fn(&mut dyn Analyst, &T) -> Result<R, Fault> + Sync,
    mut done: impl FnMut(usize, &Result<R, Fault>),
) -> Result<Vec<Option<Result<R, Fault>>>, StartError> {
    let slots = concurrency.clamp(1, items.len().max(1));
    let assignment = affinity::assign(slots, threads_each);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let (sender, answers) = mpsc::channel();
    let mut collected: Vec<Option<Result<R, Fault>>> = items.iter().map(|_| None).collect();
    let mut failure = None;
    thread::scope(|scope| {
        for slot in 0..slots {
            let sender = sender.clone();
            let processors = assignment.as_ref().and_then(|assignment| assignment.of(slot));
            let (next, failed, ask) = (&next, &failed, &ask);
            scope.spawn(move || {
                if let Some(processors) = processors {
                    affinity::bind(processors);
                }
                let mut analyst: Option<Box<dyn Analyst>> = None;
                while !cancel.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let usable = analyst.take().filter(|analyst| analyst.is_usable());
                    let mut ready = match usable.map_or_else(make, Ok) {
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
