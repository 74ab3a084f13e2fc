//! Counsel: the strategist is asked for a search, and what it says is there when the search comes by again.

mod queue;
mod statistics;

pub use statistics::Statistics;

use crate::opinion::Opinion;
use crate::opinions::Opinions;
use crate::selector::{Circumstances, Features, Threshold};
use crate::strategist::{Minds, Strategist};
use queue::{Question, Queue};
use statistics::Tally;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_chess::Position;

/// Who does the strategist's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// So many threads of its own. The search goes on meanwhile.
    Threads(usize),
    /// The search itself stands still for it, once in so many nodes at most. One thread then always finds the same.
    Slices {
        /// Nodes between two questions of one search thread.
        nodes: u64,
    },
}

/// How counsel is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounselSettings {
    /// Who thinks.
    pub mode: Mode,
    /// Every position that the search names is asked about, whatever the selector says of it.
    pub always: bool,
    /// From which probability on the selector says yes, if not from the one that comes with it.
    pub threshold: Option<Threshold>,
    /// How much of a blended value is the strategist's, if not as much as comes with the networks.
    pub blend: Option<f32>,
    /// How many opinions are kept.
    pub capacity: usize,
}

impl CounselSettings {
    /// As many as a long search asks for: a few megabytes.
    const CAPACITY: usize = 1 << 15;
    /// Few enough questions that the search keeps nine tenths of its speed with a strategist that takes five milliseconds.
    pub const SLICE: Mode = Mode::Slices { nodes: 50_000 };

    /// The usual ones.
    pub fn new(mode: Mode) -> Self {
        Self { mode, always: false, threshold: None, blend: None, capacity: Self::CAPACITY }
    }
}

/// The strategist's side of a search. It is shared by the search's threads, each of which has a [`Seat`].
///
/// Threads of its own end when it is dropped, after what they are thinking about.
#[derive(Debug)]
pub struct Counsel {
    settings: CounselSettings,
    room: Arc<Room>,
}

/// What the strategist's threads see.
#[derive(Debug)]
struct Room {
    minds: Arc<Minds>,
    opinions: Opinions,
    queue: Queue,
    tally: Tally,
}

impl Counsel {
    /// Counsel of these minds. Threads that the system refuses are missed by nobody: fewer questions are answered.
    pub fn new(minds: Arc<Minds>, settings: CounselSettings) -> Self {
        let room = Arc::new(Room {
            opinions: Opinions::new(settings.capacity),
            queue: Queue::default(),
            tally: Tally::default(),
            minds,
        });
        match settings.mode {
            Mode::Threads(threads) => {
                for _ in 0..threads.max(1) {
                    let room = Arc::clone(&room);
                    let _ = std::thread::Builder::new().name("strategist".into()).spawn(move || room.serve());
                }
            }
            Mode::Slices { .. } => {
                // How long an answer takes must be known before a clock runs. The first one also fetches the network.
                let mut strategist = Strategist::new(Arc::clone(&room.minds));
                room.answer(&mut strategist, &Position::startpos(), room.tally.search());
                room.tally.forget();
                room.answer(&mut strategist, &Position::startpos(), room.tally.search());
            }
        }
        let counsel = Self { settings, room };
        counsel.clear();
        counsel.begin();
        counsel
    }

    /// Counsel of the same minds that has heard nothing yet, and always finds the same: for measurements.
    pub fn in_step(&self) -> Self {
        let mode = match self.settings.mode {
            Mode::Threads(_) => CounselSettings::SLICE,
            slices => slices,
        };
        Self::new(Arc::clone(&self.room.minds), CounselSettings { mode, ..self.settings })
    }

    /// Both minds.
    fn minds(&self) -> &Arc<Minds> {
        &self.room.minds
    }

    /// How much of a blended value is the strategist's.
    pub fn blend(&self) -> f32 {
        self.settings.blend.unwrap_or(self.minds().blend())
    }

    /// From which probability of the selector's on the strategist is asked.
    pub fn threshold(&self) -> Threshold {
        self.settings.threshold.unwrap_or(self.minds().threshold())
    }

    /// A new search begins: questions of the last one are dropped, and counting starts anew.
    pub fn begin(&self) {
        self.room.queue.clear();
        self.room.tally.clear();
    }

    /// Nobody searches any more: what was not answered yet need not be.
    pub fn end(&self) {
        self.room.queue.clear();
    }

    /// Forgets all opinions, for a new game.
    pub fn clear(&self) {
        self.room.queue.clear();
        self.room.opinions.clear();
    }

    /// What was said of a position.
    pub fn opinion(&self, key: u64) -> Option<Arc<Opinion>> {
        self.room.opinions.get(key)
    }

    /// What happened since the search began.
    pub fn statistics(&self) -> Statistics {
        self.room.tally.read()
    }

    /// The search judged so many positions by the tactician.
    pub fn note_evaluations(&self, evaluations: u64) {
        self.room.tally.evaluations.add(evaluations);
    }
}

impl Drop for Counsel {
    fn drop(&mut self) {
        self.room.queue.close();
    }
}

impl Room {
    /// Answers questions until there will be no more.
    fn serve(&self) {
        let mut strategist = Strategist::new(Arc::clone(&self.minds));
        while let Some(question) = self.queue.take() {
            self.answer(&mut strategist, &question.position, question.search);
            self.queue.done(question.key());
        }
    }

    /// Answers a question of a search.
    fn answer(&self, strategist: &mut Strategist, position: &Position, search: u64) -> Arc<Opinion> {
        let (start, era) = (Instant::now(), self.opinions.era());
        let opinion = Arc::new(strategist.judge(position));
        self.opinions.insert(position.key(), Arc::clone(&opinion), era);
        self.tally.answered(search, start.elapsed());
        opinion
    }
}

/// Why and when a position is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// Plies that are still to be searched.
    pub depth: i32,
    /// It is the position that the whole search is about: no selector is asked.
    pub root: bool,
    /// Nodes that the thread has searched so far.
    pub nodes: u64,
    /// The clock, if one runs.
    pub clock: Option<SearchClock>,
}

/// How a search stands with the clock.
#[derive(Clone, Copy, Debug)]
pub struct SearchClock {
    /// How long it has taken.
    pub taken: Duration,
    /// How long it is meant to take, if nothing unusual happens.
    pub meant: Duration,
    /// How long it may still take.
    pub left: Duration,
}

/// Answers that must still fit into the time that is left, for one more to be asked for.
const ANSWERS_TO_SPARE: u32 = 8;
/// With a clock, a search spends no more than a part of its time on answers, the root's among them: a slow strategist is asked
/// less, and where moves must be quick not even about every root. With a tenth the search kept 0.87 of its nodes.
const PART_OF_TIME: u32 = 20;
/// Nodes before which a search that had no time does not look at its clock again.
const NODES_A_LOOK: u64 = 1000;

/// A search thread's place in counsel.
pub struct Seat {
    counsel: Arc<Counsel>,
    /// Where the search thinks for the strategist.
    own: Option<Box<Strategist>>,
    /// Nodes before which nothing is asked.
    next: u64,
    /// How long the search has thought for the strategist so far.
    spent: Duration,
}

impl Seat {
    /// A place for a search thread.
    pub fn new(counsel: Arc<Counsel>) -> Self {
        let in_step = matches!(counsel.settings.mode, Mode::Slices { .. });
        let own = in_step.then(|| Box::new(Strategist::new(Arc::clone(counsel.minds()))));
        Self { counsel, own, next: 0, spent: Duration::ZERO }
    }

    /// Counsel itself.
    pub fn counsel(&self) -> &Counsel {
        &self.counsel
    }

    /// A new search begins.
    pub fn begin(&mut self) {
        (self.next, self.spent) = (0, Duration::ZERO);
    }

    /// What was said of a position that the search comes by.
    #[inline]
    pub fn opinion(&self, key: u64) -> Option<Arc<Opinion>> {
        let opinion = self.counsel.opinion(key)?;
        self.counsel.room.tally.hits.add(1);
        Some(opinion)
    }

    /// Whether a search that has come so far may ask at all.
    #[inline]
    pub fn may_ask(&self, nodes: u64) -> bool {
        nodes >= self.next
    }

    /// Asks about a position of which nothing was said yet, if the selector thinks that it is worth it. The answer comes at
    /// once where the search thinks for the strategist, and otherwise some time later. `discord` tells how far apart the
    /// parts of the tactician's value are, in pawns, if that is needed.
    pub fn ask(
        &mut self,
        position: &Position,
        occasion: Occasion,
        discord: impl FnOnce() -> f32,
    ) -> Option<Arc<Opinion>> {
        let room = &*self.counsel.room;
        if !self.may_ask(occasion.nodes) {
            return None;
        }
        // Even threads of the strategist's own may take the core away that the search needs to answer in time.
        if !self.has_time(occasion) {
            self.next = occasion.nodes.saturating_add(NODES_A_LOOK);
            return None;
        }
        let slice = match self.counsel.settings.mode {
            Mode::Threads(_) => None,
            Mode::Slices { nodes } => Some(nodes),
        };
        room.tally.considered.add(1);
        let chosen = occasion.root
            || self.counsel.settings.always
            || room.minds.selector().is_none_or(|selector| {
                let circumstances = Circumstances { depth: occasion.depth, discord: discord() };
                selector.chooses(&Features::of(position, circumstances), self.counsel.threshold())
            });
        if !chosen {
            return None;
        }
        match (slice, &mut self.own) {
            (Some(nodes), Some(strategist)) => {
                // Threads of a search come by the same positions, the root first of all: one of them thinks, the others go on.
                if !room.queue.open(position.key()) {
                    return None;
                }
                room.tally.asked.add(1);
                self.next = occasion.nodes.saturating_add(nodes);
                let start = Instant::now();
                let opinion = room.answer(strategist, position, room.tally.search());
                room.queue.done(position.key());
                self.spent += start.elapsed();
                Some(opinion)
            }
            _ => {
                let weight = (occasion.root, occasion.depth);
                let question =
                    || Question::new(position, room.tally.search(), weight, room.minds.reads_history());
                if room.queue.put(position.key(), weight, question) {
                    room.tally.asked.add(1);
                }
                None
            }
        }
    }

    /// Whether there is time for an answer.
    fn has_time(&self, occasion: Occasion) -> bool {
        occasion.clock.is_none_or(|clock| {
            let answer = self.counsel.room.tally.longest();
            // Threads of its own think in time of their own.
            let is_cheap =
                self.own.is_none() || PART_OF_TIME * (self.spent + answer) <= clock.meant.max(clock.taken);
            clock.left >= ANSWERS_TO_SPARE * answer && is_cheap
        })
    }
}

#[cfg(test)]
mod tests;
