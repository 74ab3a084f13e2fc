use super::*;
use crate::encoding::{squares, text};
use crate::test_nets::ARCHITECTURES;
use crate::{Architecture, Inputs, Isa, Precision, Preset, Weights};
use tandem_chess::uci;
use tandem_util::random::SplitMix;

/// A tiny network with this input, without an action-value head.
fn tiny(input: &str) -> Weights {
    let wanted = format!("input = \"{input}\"");
    let found =
        ARCHITECTURES.into_iter().find(|text| text.contains(&wanted) && !text.contains("action_value"));
    Weights::random(Architecture::from_toml(found.unwrap()).unwrap(), 5)
}

/// A tiny network with an action-value head.
fn tiny_actions() -> Weights {
    let found = ARCHITECTURES.into_iter().find(|text| text.contains("action_value"));
    Weights::random(Architecture::from_toml(found.unwrap()).unwrap(), 5)
}

fn ranker(weights: &Weights, method: Method) -> MoveRanker {
    MoveRanker::new(Arc::new(Network::new(weights, Precision::F32, Isa::best())), method).unwrap()
}

/// Rankers for networks of every input, by every method that they have heads for.
fn rankers() -> Vec<MoveRanker> {
    let mut byte = Preset::Byte.architecture();
    byte.body.layers = 1;
    let networks = [tiny("text"), tiny("squares"), tiny("planes"), tiny_actions(), Weights::random(byte, 2)];
    let all = networks.iter().flat_map(|weights| Method::ALL.map(|method| (weights, method)));
    all.filter(|(weights, method)| method.is_supported_by(&weights.architecture().heads))
        .map(|(weights, method)| ranker(weights, method))
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

fn scored(ranked: RankedMoves<'_>, game: &Position, text: &str) -> ScoredMove {
    let mv = uci::parse(game.board(), text).unwrap();
    *ranked.moves.iter().find(|scored| scored.mv == mv).unwrap()
}

#[test]
fn every_input_and_method_ranks_the_legal_moves_of_whole_games() {
    let mut rankers = rankers();
    assert_eq!(rankers.len(), 9);
    for (number, ranker) in rankers.iter_mut().enumerate() {
        let mut random = SplitMix::new(number as u64);
        let mut game = Position::startpos();
        for _ in 0..30 {
            let legal = game.legal_moves();
            let before = game.fen();
            let ranked = ranker.rank_moves(&mut game);
            assert_eq!(game.fen(), before);
            let mut moves: Vec<Move> = ranked.moves.iter().map(|scored| scored.mv).collect();
            let sum: f32 = ranked.moves.iter().map(|scored| scored.score).sum();
            assert!(ranked.moves.iter().all(|scored| (0.0..=1.0).contains(&scored.score)));
            if legal.is_empty() {
                assert!(ranked.moves.is_empty() && ranked.num_evaluated == 0);
                break;
            }
            // Half of the moves are the ranker's and half are random, so that games differ.
            let index = if random.below(2) == 0 { 0 } else { random.below(moves.len() as u32) as usize };
            let mv = moves[index];
            moves.sort_by_key(|&mv| legal.iter().position(|&other| other == mv));
            assert_eq!(moves[..], legal[..], "{} in {before}", ranker.method());
            if ranker.method() == Method::Policy {
                assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            }
            game.play(mv);
        }
    }
}

#[test]
fn the_best_move_comes_first() {
    for ranker in &mut rankers() {
        let mut game = played(START, "e2e4 e7e5 g1f3");
        let (method, input) = (ranker.method(), ranker.network().architecture().input);
        let ranked = ranker.rank_moves(&mut game);
        assert!(ranked.moves.is_sorted_by(|a, b| a.score >= b.score));
        assert!(ranked.moves[0].score > ranked.moves[ranked.moves.len() - 1].score);
        let expected = match (method, input) {
            (Method::Policy, _) | (Method::ActionValue, crate::Input::Squares) => 1,
            _ => ranked.moves.len(),
        };
        assert_eq!(ranked.num_evaluated, expected);
    }
}

#[test]
fn the_value_after_a_move_is_that_of_the_opponent_negated() {
    let weights = tiny("squares");
    let network = Network::new(&weights, Precision::F32, Isa::best());
    let mut game = played(START, "e2e4 e7e5 g1f3 b8c6 f1b5");
    let mut ranker = ranker(&weights, Method::Value);
    for scored in ranker.rank_moves(&mut game).moves {
        let mut after = game.clone();
        after.play(scored.mv);
        let mut rows = [0.0; 64 * squares::CHANNELS];
        squares::encode(after.board(), &mut rows);
        let mut scratch = Scratch::default();
        let outputs = network.run(&Inputs::Squares(&rows), &mut scratch).unwrap();
        let [win, draw, loss] = outputs[0].values[0].as_ref().unwrap().wdl.map(f32::exp);
        let win_probability = (loss + draw / 2.0) / (win + draw + loss);
        assert!((scored.score - win_probability).abs() < 1e-5);
        let Some(ValueEstimate::Wdl { win: ours, .. }) = scored.value else { panic!("{scored:?}") };
        assert!((ours - f64::from(loss / (win + draw + loss))).abs() < 1e-5);
    }
}

#[test]
fn an_action_value_is_that_of_the_network() {
    let weights = tiny_actions();
    let network = Network::new(&weights, Precision::F32, Isa::best());
    let mut game = played(START, "d2d4 g8f6 c2c4 e7e6 b1c3");
    let mut tokens = [0; text::TOKENS];
    text::encode(game.board(), &mut tokens);
    let mut ranker = ranker(&weights, Method::ActionValue);
    for scored in ranker.rank_moves(&mut game).moves {
        let action = [text::action(game.board(), scored.mv).unwrap()];
        let inputs = Inputs::Text { tokens: &tokens, actions: &[&action] };
        let mut scratch = Scratch::default();
        let logits = &network.run(&inputs, &mut scratch).unwrap()[0].action_value;
        let total: f32 = logits.iter().map(|logit| logit.exp()).sum();
        let middles = logits.iter().enumerate().map(|(at, logit)| logit.exp() * (at as f32 + 0.5) / 16.0);
        assert!((scored.score - middles.sum::<f32>() / total).abs() < 1e-5);
    }
}

#[test]
fn mates_and_draws_by_rule_are_scored_without_the_network() {
    for input in ["text", "squares", "planes"] {
        let mut ranker = ranker(&tiny(input), Method::Value);
        let mut game = Position::from_fen("6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1").unwrap();
        let best = ranker.rank_moves(&mut game).moves[0];
        assert_eq!((best.mv.to_string().as_str(), best.value), ("e1e8", Some(ValueEstimate::Mate)));

        // Stalemate; then a capture that leaves bare kings, and the last of fifty moves.
        let mut draw = |fen: &str, text: &str| {
            let mut game = Position::from_fen(fen).unwrap();
            let scored = scored(ranker.rank_moves(&mut game), &game, text);
            assert_eq!((scored.value, scored.score), (Some(ValueEstimate::Draw), 0.5), "{fen}");
        };
        draw("7k/8/6K1/8/8/5Q2/8/8 w - - 0 1", "f3f7");
        draw("8/8/8/8/3k4/8/3p4/3K4 w - - 0 1", "d1d2");
        draw("8/5k2/8/8/8/8/R7/K7 w - - 99 90", "a1b1");
    }
}

/// White has moved forth and back once: to do so again lets Black claim a draw.
const THERE_AND_BACK: &str = "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6";

#[test]
fn a_repetition_is_scored_as_a_draw() {
    for ranker in &mut rankers() {
        let mut game = played(START, THERE_AND_BACK);
        let method = ranker.method();
        let ranked = ranker.rank_moves(&mut game);
        let others = ranked.moves.iter().filter(|scored| scored.value != Some(ValueEstimate::Draw)).count();
        if method != Method::Policy {
            let repeating = scored(ranked, &game, "f3g1");
            assert_eq!((repeating.value, repeating.score), (Some(ValueEstimate::Draw), 0.5));
            assert_eq!(others, ranked.moves.len() - 1);
        }
        // A second occurrence is allowed.
        let mut game = played(START, "g1f3 g8f6");
        let repeating = scored(ranker.rank_moves(&mut game), &game, "f3g1");
        assert_ne!(repeating.value, Some(ValueEstimate::Draw));
    }
}

#[test]
fn a_policy_repeats_unless_the_value_is_better_than_a_draw() {
    let mut weights = tiny("text");
    let mut game = played(START, THERE_AND_BACK);
    let back = uci::parse(game.board(), "f3g1").unwrap();
    let action = usize::from(text::action(game.board(), back).unwrap());
    weights.get_mut("policy.bias").unwrap()[action] = 1e3;
    // Certain loss, and certain win: the first of 16 buckets, and the last.
    for (bucket, first) in [(0, true), (15, false)] {
        let mut weights = weights.clone();
        weights.get_mut("state_value.bias").unwrap()[bucket] = 1e3;
        let mut ranker = ranker(&weights, Method::Policy);
        let moves = ranker.rank_moves(&mut game).moves;
        assert_eq!(moves[0].mv == back, first);
        assert_eq!(moves[moves.len() - 1].mv == back, !first);
        let repeating = moves.iter().find(|scored| scored.mv == back).unwrap();
        assert!(repeating.score > 0.99, "the probability stays what it is");
    }
}

#[test]
fn a_higher_temperature_flattens_probabilities() {
    let weights = tiny("squares");
    let spread = |temperature| {
        let ranker = ranker(&weights, Method::Policy);
        let mut ranker = ranker.with_temperature(Temperature::new(temperature).unwrap());
        let moves = ranker.rank_moves(&mut Position::startpos()).moves.to_vec();
        (moves[0].mv, moves[0].score - moves[19].score)
    };
    let (cold, usual, hot) = (spread(0.5), spread(1.0), spread(4.0));
    assert!(cold.0 == usual.0 && usual.0 == hot.0);
    assert!(cold.1 > usual.1 && usual.1 > hot.1);
}

#[test]
fn history_planes_change_the_scores() {
    for method in [Method::Policy, Method::Value] {
        let mut ranker = ranker(&tiny("planes"), method);
        let mut game = played(START, "e2e4 e7e5 g1f3 b8c6");
        let mut bare = Position::from(game.board().clone());
        let mut score = |game: &mut Position| scored(ranker.rank_moves(game), game, "f1b5").score;
        assert_ne!(score(&mut game), score(&mut bare), "{method}");
    }
}

#[test]
fn only_selected_legal_moves_are_ranked() {
    for ranker in &mut rankers() {
        let mut game = Position::startpos();
        let all = scored(ranker.rank_moves(&mut game), &game, "d2d4");
        let only = ["d2d4", "g1f3", "e7e5"].map(|text| text.parse().unwrap());
        let ranked = ranker.rank_selected(&mut game, &only, || false);
        assert_eq!(ranked.moves.len(), 2);
        assert!((scored(ranked, &game, "d2d4").score - all.score).abs() < 1e-6);
        assert!(ranker.rank_selected(&mut game, &only[2..], || false).moves.is_empty());
    }
}

#[test]
fn a_stopped_ranker_still_returns_a_move() {
    // 218 moves, the maximum of any known position; few of them leave the opponent a move.
    let fen = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1";
    for (weights, method) in [(tiny("planes"), Method::Value), (tiny_actions(), Method::ActionValue)] {
        let mut game = Position::from_fen(fen).unwrap();
        let mut ranker = ranker(&weights, method);
        let mut calls = 0;
        let ranked = ranker.rank_selected(&mut game, &[], || {
            calls += 1;
            calls >= 2
        });
        assert_eq!((ranked.moves.len(), ranked.num_evaluated), (218, 1 + 2));
        let known = ranked.moves.iter().take_while(|scored| scored.value.is_some()).count();
        assert!((ranked.num_evaluated..218).contains(&known), "{known}");
        assert!(ranked.moves[known..].iter().all(|scored| scored.value.is_none() && scored.score == 0.0));
    }
}

#[test]
fn castling_without_a_token_comes_last() {
    let mut game = Position::from_fen("1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1").unwrap();
    for (weights, method) in [(tiny_actions(), Method::ActionValue), (tiny("text"), Method::Policy)] {
        let mut ranker = ranker(&weights, method);
        let ranked = ranker.rank_moves(&mut game);
        assert_eq!(scored(ranked, &game, "c1b1").score, 0.0);
        assert!(scored(ranked, &game, "c1d1").score > 0.0);
    }
}

#[test]
fn overflowing_weights_still_rank_moves() {
    for mut weights in [tiny("text"), tiny("squares"), tiny("planes"), tiny_actions()] {
        let names: Vec<String> = weights.iter().map(|(spec, _)| spec.name).collect();
        for name in names {
            weights.get_mut(&name).unwrap().iter_mut().for_each(|number| *number *= 1e30);
        }
        for method in
            Method::ALL.into_iter().filter(|method| method.is_supported_by(&weights.architecture().heads))
        {
            let mut ranker = ranker(&weights, method);
            let moves = ranker.rank_moves(&mut Position::startpos()).moves.to_vec();
            assert_eq!(moves.len(), 20);
            assert!(moves.iter().all(|scored| (0.0..=1.0).contains(&scored.score)), "{method}: {moves:?}");
        }
    }
}
