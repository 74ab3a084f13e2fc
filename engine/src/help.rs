//! Text of the command `help`.

/// All commands with their arguments, in three groups.
pub(crate) const HELP: &str = "\
Tandem, a chess engine that speaks UCI. Load it into any chess GUI, or type commands here.

Playing
  uci                          who this is, and its options
  isready                      answers readyok
  ucinewgame                   forget the last game
  setoption name N [value V]   set an option
  position startpos|fen F [moves M...]
                               the position to think about
  go [limits]                  think; the limits, in any combination:
                                 wtime btime winc binc (ms), movestogo, movetime (ms),
                                 depth, nodes, mate (moves), infinite, ponder,
                                 searchmoves M..., or perft D to count positions
  stop                         answer now, and end all that was read before
  ponderhit                    the expected move was played
  quit                         leave

Looking
  d                            show the board
  eval [F]                     what the evaluation says, without search, of a FEN F if given
  perft D                      count the positions D plies away
  bench [depth [threads [MiB]]]
                               search a fixed set of positions: a signature and a speed
  speedtest [seconds [threads [MiB]]]
                               how fast this machine is with all its cores
  genfens N seed S book P [dfrc]
                               N random openings, for OpenBench
  help                         this text

From the shell, the same commands work as arguments: tandem bench, tandem perft 5. If one fails,
the exit status is 1.";
