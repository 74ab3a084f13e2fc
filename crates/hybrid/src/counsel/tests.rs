//! Counsel as a search holds it.

use super::*;
use crate::file::Hybrid;
use crate::fingerprint::Fingerprint;
use crate::test_nets;
use tandem_chess::random::SplitMix;

fn counsel(mode: Mode) -> Arc<Counsel> {
    let minds = Minds::new(test_nets::transformer(1), None).unwrap();
    Arc::new(Counsel::new(Arc::new(minds), CounselSettings::new(mode)))
}

fn occasion(nodes: u64) -> Occasion {
    Occasion { depth: 8, root: false, nodes, clock: None }
}

/// Positions of a game by chance.
fn game(plies: usize) -> Vec<Position> {
    let mut random = SplitMix::new(5);
    let mut position = Position::startpos();
    let mut positions = Vec::new();
    for _ in 0..plies {
        positions.push(position.clone());
        let moves = position.legal_moves();
        position.play(moves[random.below(moves.len() as u32) as usize]);
    }
    positions
}

fn never() -> f32 {
    panic!("nobody needs it")
}

#[test]
fn in_step_it_answers_at_once_and_once_in_so_many_nodes() {
    let counsel = counsel(Mode::Slices { nodes: 100 });
    let mut seat = Seat::new(Arc::clone(&counsel));
    let positions = game(10);
    let heard = |seat: &mut Seat| -> Vec<bool> {
        let ask = |(index, position): (usize, &Position)| {
            seat.ask(position, occasion(30 * index as u64), never).is_some()
        };
        positions.iter().enumerate().map(ask).collect()
    };
    let expected = [true, false, false, false, true, false, false, false, true, false];
    assert_eq!(heard(&mut seat), expected);
    seat.begin();
    assert_eq!(heard(&mut seat), expected);
    for (position, heard) in positions.iter().zip(expected) {
        assert_eq!(seat.opinion(position.key()).is_some(), heard);
    }
    let Statistics { considered, asked, answered, hits, time, .. } = counsel.statistics();
    assert_eq!((considered, asked, answered, hits), (6, 6, 6, 3));
    assert!(time > Duration::ZERO);
    counsel.clear();
    assert!(positions.iter().all(|position| counsel.opinion(position.key()).is_none()));
}

#[test]
fn in_step_nobody_thinks_about_what_another_thread_thinks_about() {
    let counsel = counsel(Mode::Slices { nodes: 100 });
    let mut seat = Seat::new(Arc::clone(&counsel));
    let positions = game(2);
    let key = positions[0].key();
    assert!(counsel.room.queue.open(key) && !counsel.room.queue.open(key));
    assert!(seat.ask(&positions[0], occasion(0), never).is_none());
    // Its turn is not spent.
    assert!(seat.ask(&positions[1], occasion(1), never).is_some());
    counsel.room.queue.done(key);
    assert!(seat.ask(&positions[0], occasion(200), never).is_some());
    assert_eq!(counsel.statistics().asked, 2);
}

#[test]
fn in_step_it_says_the_same_each_time() {
    let positions = game(6);
    let first = counsel(Mode::Threads(1));
    let said = || -> Vec<Arc<Opinion>> {
        let counsel = Arc::new(first.in_step());
        let mut seat = Seat::new(Arc::clone(&counsel));
        let ask = |(index, position): (usize, &Position)| {
            seat.ask(position, occasion(1_000_000 * index as u64), never).unwrap()
        };
        positions.iter().enumerate().map(ask).collect()
    };
    assert_eq!(said(), said());
}

#[test]
fn nobody_waits_for_an_answer_that_the_clock_forbids() {
    let mut seat = Seat::new(counsel(Mode::Slices { nodes: 1 }));
    let position = Position::startpos();
    let clock = |taken: u64, meant: u64, left: u64| {
        let [taken, meant, left] = [taken, meant, left].map(Duration::from_micros);
        Occasion { clock: Some(SearchClock { taken, meant, left }), ..occasion(u64::MAX) }
    };
    const HOUR: u64 = 3_600_000_000;
    assert!(seat.ask(&position, clock(0, HOUR, 1), never).is_none());
    // Not even about the root, if an answer takes too much of the move's time.
    assert!(seat.ask(&position, Occasion { root: true, ..clock(0, 1, HOUR) }, never).is_none());
    assert!(seat.ask(&position, clock(0, HOUR, HOUR), never).is_some());
    assert!(seat.ask(&position, clock(1, 1, HOUR), never).is_none());
    // The move takes longer than it was meant to.
    assert!(seat.ask(&position, clock(HOUR, 1, HOUR), never).is_some());
}

/// Both sides of each bound, with an answer that is known to take ten milliseconds.
#[test]
fn answers_take_no_more_than_their_part_of_the_time() {
    let position = Position::startpos();
    let answer = Duration::from_millis(10);
    let asks = |meant: Duration, left: Duration, nodes: u64| {
        let counsel = counsel(Mode::Slices { nodes: 1 });
        counsel.room.tally.forget();
        counsel.room.tally.answered(counsel.room.tally.search(), answer);
        let mut seat = Seat::new(counsel);
        let clock = |meant, left| Some(SearchClock { taken: Duration::ZERO, meant, left });
        let hour = Duration::from_secs(3600);
        // A look at a clock that had no time, and then another.
        assert!(seat.ask(&position, Occasion { clock: clock(answer, hour), ..occasion(0) }, never).is_none());
        seat.ask(&position, Occasion { clock: clock(meant, left), ..occasion(nodes) }, never).is_some()
    };
    let [meant, left, bit] = [200_000, 80_000, 1].map(Duration::from_micros);
    assert!(asks(meant, left, 1000));
    assert!(!asks(meant - bit, left, 1000));
    assert!(!asks(meant, left - bit, 1000));
    assert!(!asks(meant, left, 999), "the clock is not looked at again so soon");
}

#[test]
fn an_answer_that_was_begun_before_a_new_game_is_not_kept() {
    let counsel = counsel(Mode::Slices { nodes: 1 });
    let position = Position::startpos();
    let mut seat = Seat::new(Arc::clone(&counsel));
    assert!(seat.ask(&position, occasion(0), never).is_some());
    assert!(counsel.opinion(position.key()).is_some());
    let (era, opinion) = (counsel.room.opinions.era(), counsel.opinion(position.key()).unwrap());
    counsel.clear();
    counsel.room.opinions.insert(position.key(), opinion, era);
    assert!(counsel.opinion(position.key()).is_none());
}

#[test]
fn threads_of_its_own_answer_later() {
    let counsel = counsel(Mode::Threads(2));
    let mut seat = Seat::new(Arc::clone(&counsel));
    let positions = game(12);
    let start = Instant::now();
    while positions.iter().any(|position| counsel.opinion(position.key()).is_none()) {
        for position in &positions {
            if seat.opinion(position.key()).is_none() {
                assert!(seat.ask(position, occasion(0), never).is_none());
            }
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", counsel.statistics());
    }
    let in_step = counsel.in_step();
    let mut seat = Seat::new(Arc::new(in_step));
    for (index, position) in positions.iter().enumerate() {
        let expected = seat.ask(position, occasion(1_000_000 * index as u64), never);
        assert_eq!(counsel.opinion(position.key()), expected);
    }
    assert!(counsel.statistics().answered >= 12);
}

#[test]
fn the_selector_chooses_unless_it_is_the_root_or_always() {
    let nobody = Fingerprint::of(b"");
    let hybrid = |threshold| Hybrid {
        selector: Some(test_nets::selector(1)),
        threshold,
        ..Hybrid::new(nobody, nobody)
    };
    let heard = |threshold: f32, always: bool, root: bool| {
        let minds =
            Minds::new(test_nets::transformer(1), None).unwrap().with_hybrid(hybrid(threshold)).unwrap();
        let settings = CounselSettings { always, ..CounselSettings::new(Mode::Slices { nodes: 1 }) };
        let mut seat = Seat::new(Arc::new(Counsel::new(Arc::new(minds), settings)));
        seat.ask(&Position::startpos(), Occasion { root, ..occasion(0) }, || 0.5).is_some()
    };
    assert!(heard(0.0, false, false));
    assert!(!heard(1.0, false, false));
    assert!(heard(1.0, true, false) && heard(1.0, false, true));
}

#[test]
fn settings_come_before_what_was_learnt() {
    let nobody = Fingerprint::of(b"");
    let hybrid = Hybrid { blend: 0.25, threshold: 0.75, ..Hybrid::new(nobody, nobody) };
    let minds = Minds::new(test_nets::transformer(1), None).unwrap().with_hybrid(hybrid).unwrap();
    let minds = Arc::new(minds);
    let usual = CounselSettings::new(Mode::Slices { nodes: 1 });
    let learnt = Counsel::new(Arc::clone(&minds), usual);
    assert_eq!((learnt.blend(), learnt.threshold().probability()), (0.25, 0.75));
    let told = Counsel::new(
        minds,
        CounselSettings { blend: Some(1.0), threshold: Some(Threshold::new(0.5)), ..usual },
    );
    assert_eq!((told.blend(), told.threshold().probability()), (1.0, 0.5));
}
