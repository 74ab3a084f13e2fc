use super::*;
use crate::encoding::{squares, text};
use crate::test_nets::ARCHITECTURES;
use crate::{Architecture, Inputs, Isa, Precision, Preset, Weights};
use tandem_chess::random::SplitMix;
use tandem_chess::uci;

/// A tiny network that reads this.
fn tiny(input: &str) -> Weights {
    let wanted = format!("input = \"{input}\"");
    let found =
        ARCHITECTURES.into_iter().find(|text| text.contains(&wanted) && !text.contains("action_value"));
    Weights::random(Architecture::from_toml(found.unwrap()).unwrap(), 5)
}

/// A tiny network of action values.
fn tiny_actions() -> Weights {
    let found = ARCHITECTURES.into_iter().find(|text| text.contains("action_value"));
    Weights::random(Architecture::from_toml(found.unwrap()).unwrap(), 5)
}

fn adviser(weights: &Weights, method: Method) -> Adviser {
    Adviser::new(Arc::new(Network::new(weights, Precision::F32, Isa::best())), method).unwrap()
}

/// Everyone who can be asked: networks of every input, by every method that they have heads for.
fn advisers() -> Vec<Adviser> {
    let mut byte = Preset::Byte.architecture();
    byte.body.layers = 1;
    let networks = [tiny("text"), tiny("squares"), tiny("planes"), tiny_actions(), Weights::random(byte, 2)];
    let all = networks.iter().flat_map(|weights| Method::ALL.map(|method| (weights, method)));
    all.filter(|(weights, method)| method.fits(&weights.architecture().heads))
        .map(|(weights, method)| adviser(weights, method))
        .collect()
}

fn played(fen: &str, moves: &str) -> Position {
    let mut game = Position::from_fen(fen).unwrap();
    for text in moves.split_whitespace() {
        game.play(uci::parse(game.board(), text).unwrap());
    }
    game
}

const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

fn weight(advice: Advice<'_>, game: &Position, text: &str) -> WeighedMove {
    let mv = uci::parse(game.board(), text).unwrap();
    *advice.moves.iter().find(|weighed| weighed.mv == mv).unwrap()
}

#[test]
fn every_input_and_method_weighs_the_legal_moves_of_whole_games() {
    let mut advisers = advisers();
    assert_eq!(advisers.len(), 9);
    for (number, adviser) in advisers.iter_mut().enumerate() {
        let mut random = SplitMix::new(number as u64);
        let mut game = Position::startpos();
        for _ in 0..30 {
            let legal = game.legal_moves();
            let before = game.fen();
            let advice = adviser.weigh(&mut game);
            assert_eq!(game.fen(), before);
            let mut moves: Vec<Move> = advice.moves.iter().map(|weighed| weighed.mv).collect();
            let sum: f32 = advice.moves.iter().map(|weighed| weighed.weight).sum();
            assert!(advice.moves.iter().all(|weighed| (0.0..=1.0).contains(&weighed.weight)));
            if legal.is_empty() {
                assert!(advice.moves.is_empty() && advice.judged == 0);
                break;
            }
            // Half of the moves are the adviser's, half are by chance, so that games are not all the same.
            let index = if random.below(2) == 0 { 0 } else { random.below(moves.len() as u32) as usize };
            let mv = moves[index];
            moves.sort_by_key(|&mv| legal.iter().position(|&other| other == mv));
            assert_eq!(moves[..], legal[..], "{} in {before}", adviser.method());
            if adviser.method() == Method::Policy {
                assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            }
            game.play(mv);
        }
    }
}

#[test]
fn the_best_comes_first() {
    for adviser in &mut advisers() {
        let mut game = played(START, "e2e4 e7e5 g1f3");
        let (method, input) = (adviser.method(), adviser.network().architecture().input);
        let advice = adviser.weigh(&mut game);
        assert!(advice.moves.is_sorted_by(|a, b| a.weight >= b.weight));
        assert!(advice.moves[0].weight > advice.moves[advice.moves.len() - 1].weight);
        let judged = match (method, input) {
            (Method::Policy, _) | (Method::ActionValue, crate::Input::Squares) => 1,
            _ => advice.moves.len(),
        };
        assert_eq!(advice.judged, judged);
    }
}

#[test]
fn a_position_is_worth_what_it_is_not_to_the_opponent() {
    let weights = tiny("squares");
    let network = Network::new(&weights, Precision::F32, Isa::best());
    let mut game = played(START, "e2e4 e7e5 g1f3 b8c6 f1b5");
    let mut adviser = adviser(&weights, Method::Value);
    for weighed in adviser.weigh(&mut game).moves {
        let mut after = game.clone();
        after.play(weighed.mv);
        let mut rows = [0.0; 64 * squares::CHANNELS];
        squares::encode(after.board(), &mut rows);
        let mut scratch = Scratch::default();
        let answer = network.run(&Inputs::Squares(&rows), &mut scratch).unwrap();
        let [win, draw, loss] = answer[0].values[0].as_ref().unwrap().wdl.map(f32::exp);
        let chance = (loss + draw / 2.0) / (win + draw + loss);
        assert!((weighed.weight - chance).abs() < 1e-5);
        let Some(Prospect::Outcomes { win: ours, .. }) = weighed.prospect else { panic!("{weighed:?}") };
        assert!((ours - f64::from(loss / (win + draw + loss))).abs() < 1e-5);
    }
}

#[test]
fn an_action_is_asked_with_its_position() {
    let weights = tiny_actions();
    let network = Network::new(&weights, Precision::F32, Isa::best());
    let mut game = played(START, "d2d4 g8f6 c2c4 e7e6 b1c3");
    let mut tokens = [0; text::TOKENS];
    text::encode(game.board(), &mut tokens);
    let mut adviser = adviser(&weights, Method::ActionValue);
    for weighed in adviser.weigh(&mut game).moves {
        let action = [text::action(game.board(), weighed.mv).unwrap()];
        let inputs = Inputs::Text { tokens: &tokens, actions: &[&action] };
        let mut scratch = Scratch::default();
        let logits = &network.run(&inputs, &mut scratch).unwrap()[0].action_value;
        let total: f32 = logits.iter().map(|logit| logit.exp()).sum();
        let middles = logits.iter().enumerate().map(|(at, logit)| logit.exp() * (at as f32 + 0.5) / 16.0);
        assert!((weighed.weight - middles.sum::<f32>() / total).abs() < 1e-5);
    }
}

#[test]
fn the_rules_are_known_without_asking() {
    for input in ["text", "squares", "planes"] {
        let mut adviser = adviser(&tiny(input), Method::Value);
        let mut game = Position::from_fen("6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1").unwrap();
        let best = adviser.weigh(&mut game).moves[0];
        assert_eq!((best.mv.to_string().as_str(), best.prospect), ("e1e8", Some(Prospect::Mate)));

        // Stalemate; then a pawn that leaves bare kings, and the last of fifty moves.
        let mut draw = |fen: &str, text: &str| {
            let mut game = Position::from_fen(fen).unwrap();
            let weighed = weight(adviser.weigh(&mut game), &game, text);
            assert_eq!((weighed.prospect, weighed.weight), (Some(Prospect::Draw), 0.5), "{fen}");
        };
        draw("7k/8/6K1/8/8/5Q2/8/8 w - - 0 1", "f3f7");
        draw("8/8/8/8/3k4/8/3p4/3K4 w - - 0 1", "d1d2");
        draw("8/5k2/8/8/8/8/R7/K7 w - - 99 90", "a1b1");
    }
}

/// White has gone there and back once: to do so again lets Black claim a draw.
const THERE_AND_BACK: &str = "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6";

#[test]
fn a_repetition_is_a_draw_whatever_the_network_says() {
    for adviser in &mut advisers() {
        let mut game = played(START, THERE_AND_BACK);
        let method = adviser.method();
        let advice = adviser.weigh(&mut game);
        let others = advice.moves.iter().filter(|weighed| weighed.prospect != Some(Prospect::Draw)).count();
        if method != Method::Policy {
            let repeating = weight(advice, &game, "f3g1");
            assert_eq!((repeating.prospect, repeating.weight), (Some(Prospect::Draw), 0.5));
            assert_eq!(others, advice.moves.len() - 1);
        }
        // Once is allowed.
        let mut game = played(START, "g1f3 g8f6");
        let repeating = weight(adviser.weigh(&mut game), &game, "f3g1");
        assert_ne!(repeating.prospect, Some(Prospect::Draw));
    }
}

#[test]
fn a_policy_repeats_itself_unless_it_is_winning() {
    let mut weights = tiny("text");
    let mut game = played(START, THERE_AND_BACK);
    let back = uci::parse(game.board(), "f3g1").unwrap();
    let action = usize::from(text::action(game.board(), back).unwrap());
    weights.get_mut("policy.bias").unwrap()[action] = 1e3;
    // Sure to lose, and sure to win: the first of 16 buckets, and the last.
    for (bucket, first) in [(0, true), (15, false)] {
        let mut weights = weights.clone();
        weights.get_mut("state_value.bias").unwrap()[bucket] = 1e3;
        let mut adviser = adviser(&weights, Method::Policy);
        let moves = adviser.weigh(&mut game).moves;
        assert_eq!(moves[0].mv == back, first);
        assert_eq!(moves[moves.len() - 1].mv == back, !first);
        let repeating = moves.iter().find(|weighed| weighed.mv == back).unwrap();
        assert!(repeating.weight > 0.99, "the probability stays what it is");
    }
}

#[test]
fn a_temperature_makes_probabilities_alike() {
    let weights = tiny("squares");
    let spread = |temperature| {
        let adviser = adviser(&weights, Method::Policy);
        let mut adviser = adviser.with_temperature(Temperature::new(temperature).unwrap());
        let moves = adviser.weigh(&mut Position::startpos()).moves.to_vec();
        (moves[0].mv, moves[0].weight - moves[19].weight)
    };
    let (cold, usual, hot) = (spread(0.5), spread(1.0), spread(4.0));
    assert!(cold.0 == usual.0 && usual.0 == hot.0);
    assert!(cold.1 > usual.1 && usual.1 > hot.1);
}

#[test]
fn planes_show_the_game() {
    for method in [Method::Policy, Method::Value] {
        let mut adviser = adviser(&tiny("planes"), method);
        let mut game = played(START, "e2e4 e7e5 g1f3 b8c6");
        let mut bare = Position::from(game.board().clone());
        let mut weights = |game: &mut Position| weight(adviser.weigh(game), game, "f1b5").weight;
        assert_ne!(weights(&mut game), weights(&mut bare), "{method}");
    }
}

#[test]
fn only_what_is_named_and_legal_is_weighed() {
    for adviser in &mut advisers() {
        let mut game = Position::startpos();
        let all = weight(adviser.weigh(&mut game), &game, "d2d4");
        let only = ["d2d4", "g1f3", "e7e5"].map(|text| text.parse().unwrap());
        let advice = adviser.weigh_some(&mut game, &only, || false);
        assert_eq!(advice.moves.len(), 2);
        assert!((weight(advice, &game, "d2d4").weight - all.weight).abs() < 1e-6);
        assert!(adviser.weigh_some(&mut game, &only[2..], || false).moves.is_empty());
    }
}

#[test]
fn who_is_stopped_has_a_move_all_the_same() {
    // 218 moves, the most there can be; few of them leave the opponent a move.
    let fen = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1";
    for (weights, method) in [(tiny("planes"), Method::Value), (tiny_actions(), Method::ActionValue)] {
        let mut game = Position::from_fen(fen).unwrap();
        let mut adviser = adviser(&weights, method);
        let mut looks = 0;
        let advice = adviser.weigh_some(&mut game, &[], || {
            looks += 1;
            looks == 2
        });
        assert_eq!((advice.moves.len(), advice.judged), (218, 2 * AT_A_TIME));
        let known = advice.moves.iter().take_while(|weighed| weighed.prospect.is_some()).count();
        assert!((advice.judged..218).contains(&known), "{known}");
        assert!(
            advice.moves[known..].iter().all(|weighed| weighed.prospect.is_none() && weighed.weight == 0.0)
        );
    }
}

#[test]
fn castling_without_a_name_comes_last() {
    let mut game = Position::from_fen("1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1").unwrap();
    for (weights, method) in [(tiny_actions(), Method::ActionValue), (tiny("text"), Method::Policy)] {
        let mut adviser = adviser(&weights, method);
        let advice = adviser.weigh(&mut game);
        assert_eq!(weight(advice, &game, "c1b1").weight, 0.0);
        assert!(weight(advice, &game, "c1d1").weight > 0.0);
    }
}

#[test]
fn a_network_beyond_all_measure_still_weighs_moves() {
    for mut weights in [tiny("text"), tiny("squares"), tiny("planes"), tiny_actions()] {
        let names: Vec<String> = weights.iter().map(|(spec, _)| spec.name).collect();
        for name in names {
            weights.get_mut(&name).unwrap().iter_mut().for_each(|number| *number *= 1e30);
        }
        for method in Method::ALL.into_iter().filter(|method| method.fits(&weights.architecture().heads)) {
            let mut adviser = adviser(&weights, method);
            let moves = adviser.weigh(&mut Position::startpos()).moves.to_vec();
            assert_eq!(moves.len(), 20);
            assert!(moves.iter().all(|weighed| (0.0..=1.0).contains(&weighed.weight)), "{method}: {moves:?}");
        }
    }
}
