//! `tandem-lab elo`: Elo differences, rating lists and SPRTs from finished games or from counts.

use crate::error::LabError;
use crate::match_command::EloModel;
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tandem_arena::{
    stats::{Pentanomial, RatedGame, Ratings, Sprt, Wdl, rate},
    summary,
};
use tandem_chess::pgn;
use tandem_util::input;

/// Compute Elo with error bars from PGN files or counts
///
/// From PGN files with two players, prints the result of their match; with more, a rating list by maximum
/// likelihood (Bradley-Terry model with draws and the advantage of White). Games whose Round tags are N.1 and
/// N.2 count as a pair: one opening, colours swapped. Without files, give --wdl or --pairs.
#[derive(Args, Debug)]
pub(crate) struct EloArgs {
    /// PGN files to read the games from, plain or compressed with zstd or gzip
    files: Vec<PathBuf>,
    /// Numbers of wins, draws and losses of the first player, separated by commas, for example 120,300,80;
    /// instead of files
    #[arg(long, value_name = "W,D,L", value_delimiter = ',', conflicts_with = "files", value_parser = count())]
    wdl: Option<Vec<u64>>,
    /// Numbers of game pairs in which the first player scored 0, 1/2, 1, 3/2 and 2 points, separated by
    /// commas, for example 5,28,64,26,7; instead of files
    #[arg(long, value_name = "A,B,C,D,E", value_delimiter = ',', conflicts_with_all = ["files", "wdl"], value_parser = count())]
    pairs: Option<Vec<u64>>,
    /// Also run a sequential test (SPRT) with the bounds ELO0,ELO1, for example 0,5: H0 is that the first
    /// player is stronger by ELO0, H1 that it is stronger by ELO1; each is accepted wrongly with a
    /// probability of 0.05. Needs pairs of games
    #[arg(long, value_name = "ELO0,ELO1", value_delimiter = ',', allow_hyphen_values = true)]
    sprt: Option<Vec<f64>>,
    /// Unit of ELO0 and ELO1 of --sprt
    #[arg(long, value_enum, default_value_t = EloModel::Normalised)]
    model: EloModel,
    /// Give this player the rating ELO, and shift all others by the same amount, for example old=2000; prints
    /// a rating list even for two players (default: the mean rating of all players is 0)
    #[arg(long, value_name = "NAME=ELO", conflicts_with_all = ["wdl", "pairs", "sprt"])]
    anchor: Option<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Maximum number of players in a rating list; more would take hours, because every pair of them is a term of
/// the likelihood.
const MAX_PLAYERS: usize = 200;

/// Runs the command.
///
/// # Errors
///
/// When the arguments contradict each other, a file cannot be read, or there are no finished games.
pub(crate) fn run(args: &EloArgs) -> Result<(), LabError> {
    let sprt = match args.sprt.as_deref() {
        None => None,
        Some(&[elo0, elo1]) => Some(Sprt::new(elo0, elo1, 0.05, 0.05, args.model.into())?),
        Some(_) => return Err(LabError::Usage("--sprt takes two numbers, such as 0,5".into())),
    };
    let usage = |what: &str| LabError::Usage(what.into());
    if let Some(pairs) = &args.pairs {
        let counts = <[u64; 5]>::try_from(pairs.as_slice());
        let pairs =
            Pentanomial(counts.map_err(|_| usage("--pairs takes five numbers, such as 1,10,30,12,2"))?);
        return show(args, &pairs, None, sprt.as_ref(), "first", "second");
    }
    if let Some(wdl) = &args.wdl {
        let &[wins, draws, losses] = wdl.as_slice() else {
            return Err(usage("--wdl takes three numbers, such as 40,30,20"));
        };
        if sprt.is_some() {
            return Err(usage("--sprt needs pairs of games: give --pairs or PGN files"));
        }
        let wdl = Wdl { wins, draws, losses };
        return show(args, &Pentanomial::default(), Some(&wdl), None, "first", "second");
    }
    if args.files.is_empty() {
        return Err(usage("give PGN files, --wdl W,D,L or --pairs A,B,C,D,E"));
    }
    let games = Games::read(&args.files)?;
    match games.names.as_slice() {
        [] => Err(usage("there is no finished game in these files")),
        [alone] => Err(LabError::Usage(format!(
            "all games are {alone}'s against itself; Elo needs two players, whose White and Black tags differ"
        ))),
        [first, second] if args.anchor.is_none() => {
            let (pairs, wdl) = games.head_to_head();
            if sprt.is_some() && pairs.pairs() == 0 {
                return Err(usage("--sprt needs pairs of games, whose Round tags are N.1 and N.2"));
            }
            show(args, &pairs, Some(&wdl), sprt.as_ref(), first, second)
        }
        names if names.len() > MAX_PLAYERS => {
            let problem = format!("{} players are too many: up to {MAX_PLAYERS} are rated", names.len());
            Err(LabError::Usage(problem))
        }
        _ if sprt.is_some() => Err(usage("--sprt needs games between exactly two players")),
        _ => show_ratings(args, &games),
    }
}

fn show(
    args: &EloArgs,
    pairs: &Pentanomial,
    wdl: Option<&Wdl>,
    sprt: Option<&Sprt>,
    first: &str,
    second: &str,
) -> Result<(), LabError> {
    if wdl.map_or(pairs.pairs(), Wdl::games) == 0 {
        return Err(LabError::Usage("there are no games to count".into()));
    }
    if args.json {
        let mut value = summary::meeting_json(first, second, wdl, pairs);
        if let Some(sprt) = sprt {
            value["sprt"] = json!({ "test": sprt, "state": sprt.state(pairs) });
        }
        outln!("{value:#}");
        return Ok(());
    }
    out!("{}", summary::score_lines(first, second, wdl, pairs));
    if let Some(sprt) = sprt {
        out!("{}", summary::sprt_line(sprt, &sprt.state(pairs)));
    }
    if let Some(estimate) = summary::estimate(wdl, pairs) {
        outln!("Elo interval (95 %) [{:.1}, {:.1}]", estimate.elo_low, estimate.elo_high);
    }
    Ok(())
}

/// A parser for a number of games or pairs, up to 2^40, so that sums cannot overflow.
fn count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=1 << 40)
}

fn show_ratings(args: &EloArgs, games: &Games) -> Result<(), LabError> {
    let mut ratings = games.ratings();
    if let Some(anchor) = &args.anchor {
        let parsed = anchor.rsplit_once('=').and_then(|(name, elo)| Some((name, elo.parse::<f64>().ok()?)));
        let (name, elo) = parsed
            .filter(|(_, elo)| elo.is_finite())
            .ok_or_else(|| LabError::Usage(format!("--anchor '{anchor}' should be NAME=ELO")))?;
        let engine = games.names.iter().position(|known| known == name).ok_or_else(|| {
            LabError::Usage(format!(
                "--anchor names '{name}', but the players are {}",
                games.names.join(", ")
            ))
        })?;
        ratings.anchor(engine, elo);
    }
    if args.json {
        outln!("{:#}", json!({ "names": games.names, "ratings": ratings }));
    } else {
        out!("{}", summary::rating_table(&games.names, &ratings));
    }
    Ok(())
}

/// The finished games of some PGN files.
#[derive(Default)]
struct Games {
    names: Vec<String>,
    /// Units of the statistics: pairs of games, or single games.
    units: Vec<Vec<RatedGame>>,
}

impl Games {
    fn read(paths: &[PathBuf]) -> Result<Self, LabError> {
        let mut games = Self::default();
        // The player with White in the first round, if rounds are numbered: games are stored in the order in
        // which they ended.
        let mut first: Option<((u64, u64), usize)> = None;
        for path in paths {
            let mut reader = pgn::GameReader::new(input::open(path).map_err(LabError::file(path))?);
            // Games that wait for the second one of their pair, by round, White and Black.
            let mut rounds: BTreeMap<(String, usize, usize), usize> = BTreeMap::new();
            while let Some(game) = reader.next_game() {
                let game = game.map_err(|error| LabError::Usage(format!("{}: {error}", path.display())))?;
                let half_points = match game.result {
                    pgn::GameResult::WhiteWins => 2,
                    pgn::GameResult::Draw => 1,
                    pgn::GameResult::BlackWins => 0,
                    pgn::GameResult::Unknown => continue,
                };
                let white = games.player(game.tag("White").unwrap_or("?"));
                let black = games.player(game.tag("Black").unwrap_or("?"));
                let rated = RatedGame { white, black, half_points };
                let round = game.tag("Round").and_then(|round| round.rsplit_once('.'));
                let number = round.and_then(|(round, game)| Some((round.parse().ok()?, game.parse().ok()?)));
                if let Some(number) = number
                    && first.is_none_or(|(first, _)| number < first)
                {
                    first = Some((number, white));
                }
                let round = round.map(|(round, _)| round);
                let pair = round.and_then(|round| rounds.remove(&(round.to_owned(), black, white)));
                match (pair, round) {
                    (Some(unit), _) => games.units[unit].push(rated),
                    (None, Some(round)) => {
                        rounds.insert((round.to_owned(), white, black), games.units.len());
                        games.units.push(vec![rated]);
                    }
                    (None, None) => games.units.push(vec![rated]),
                }
            }
        }
        if games.names.len() == 2 && first.is_some_and(|(_, white)| white == 1) {
            games.names.swap(0, 1);
            for game in games.units.iter_mut().flatten() {
                (game.white, game.black) = (1 - game.white, 1 - game.black);
            }
        }
        Ok(games)
    }

    fn player(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// The match of the first player against the second, as pairs and as single games.
    fn head_to_head(&self) -> (Pentanomial, Wdl) {
        let (mut pairs, mut wdl) = (Pentanomial::default(), Wdl::default());
        for unit in &self.units {
            let points: Vec<u8> = unit
                .iter()
                .map(|game| if game.white == 0 { game.half_points } else { 2 - game.half_points })
                .collect();
            points.iter().for_each(|&points| wdl.add(points));
            if let &[first, second] = points.as_slice() {
                pairs.add(first, second);
            }
        }
        (pairs, wdl)
    }

    fn ratings(&self) -> Ratings {
        rate(self.names.len(), &self.units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(round: &str, white: &str, black: &str, result: &str) -> String {
        format!(
            "[White \"{white}\"]\n[Black \"{black}\"]\n[Round \"{round}\"]\n[Result \"{result}\"]\n\n1. e4 {result}\n\n"
        )
    }

    fn read(name: &str, games: &[String]) -> Games {
        let path = std::env::temp_dir().join(format!("tandem-elo-{}-{name}.pgn", std::process::id()));
        std::fs::write(&path, games.concat()).unwrap();
        let games = Games::read(std::slice::from_ref(&path)).unwrap();
        std::fs::remove_file(path).unwrap();
        games
    }

    #[test]
    fn the_first_player_does_not_depend_on_the_order_of_the_games() {
        let games = [
            game("1.1", "new", "old", "1-0"),
            game("1.2", "old", "new", "1/2-1/2"),
            game("2.1", "new", "old", "0-1"),
            game("10.1", "new", "old", "1-0"),
        ];
        let turned = [games[1].clone(), games[0].clone(), games[3].clone(), games[2].clone()];
        for (name, games) in [("straight", games), ("turned", turned)] {
            let games = read(name, &games);
            assert_eq!(games.names, ["new", "old"], "{name}");
            let (pairs, wdl) = games.head_to_head();
            assert_eq!(wdl, Wdl { wins: 2, draws: 1, losses: 1 }, "{name}");
            assert_eq!(pairs, Pentanomial([0, 0, 0, 1, 0]), "{name}");
        }
    }
}
