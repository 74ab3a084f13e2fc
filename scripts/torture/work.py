"""Commands that write files and can be resumed, with what their results must be."""

import dataclasses
import shutil
import tempfile
import time
from pathlib import Path
from typing import Callable

import chess
import chess.pgn

from common import end, run, start

RECIPE = """name = "small"
[data]
train = [{{ path = "{games}" }}]
validation = [{{ path = "{games}" }}]
[network]
features = "768"
accumulator = 32
[training]
batch = 256
positions = {positions}
validate_every = {every}
validation_positions = 500
keep = 3
"""
SELECTOR = """name = "selector"
[selector]
nnue = {{ path = "{nnue}" }}
transformer = {{ path = "{transformer}" }}
usage = 0.2
[data]
train = [{{ path = "{games}" }}]
validation_fraction = 0.3
cases = 120
validation_cases = 40
[training]
epochs = 40
"""
TRANSFORMER = """name = "byte"
lr = 1e-3
[data]
train = [{{ path = "{games}" }}]
validation_fraction = 0.1
[network]
preset = "byte"
[training]
batch = 32
positions = 640
validate_every = 64
validation_positions = 64
"""
# Files whose contents depend on time, or whose number depends on restarts.
VARYING = ("events.out", "log.jsonl", "loss.svg", "lock", ".md", ".checkpoint", "recipe.toml", ".json")


@dataclasses.dataclass
class Work:
    """A command that runs in an empty folder, and again in the same folder after it was killed."""

    name: str
    command: Callable[[Path], list]
    result: Callable[[Path], dict]
    # Patterns of the files from which it resumes.
    state: tuple = ()
    # True if its finished folder makes another start an error.
    refuses_when_done: str = ""

    def new_folder(self, parent, name):
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
        return folder

    def finish(self, folder, timeout):
        """Runs the command to its end, also if it was at its end already."""
        outcome = run(self.command(folder), folder, timeout=timeout)
        if outcome.status and self.refuses_when_done and self.refuses_when_done in outcome.text:
            outcome.status = 0
        return outcome

    def interrupt(self, folder, seconds):
        """Kills the command after a time; returns False if it had ended before."""
        with open("/dev/null", "wb") as nothing:
            process = start(self.command(folder), folder, nothing)
            time.sleep(seconds)
            was_running = process.poll() is None
            end(process)
        return was_running

    def state_files(self, folder):
        return sorted(path for pattern in self.state for path in folder.glob(pattern) if path.stat().st_size)


def results(*patterns):
    """Contents of the files that match, which must be the same to the byte."""

    def read(folder):
        paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    return read


def games_of_match(folder):
    """Rounds of the games in a PGN; none may be missing or twice, and all must be legal."""
    found = []
    if not (folder / "games.pgn").exists():
        return {}
    with open(folder / "games.pgn", encoding="utf8") as pgn:
        while game := chess.pgn.read_game(pgn):
            found.append((game.headers["Round"], "illegal" if game.errors else "legal"))
    return {"rounds": sorted(found, key=str)}


def material(setup, folder):
    """Games and networks that the commands need."""
    folder.mkdir(exist_ok=True)
    lab, root = setup.lab, setup.root
    made = run([lab, "data", "selfplay", "games", "--games", "12", "--nodes", "60", "--workers", "1", "--hash", "1", "--net", "bootstrap"],
               folder, timeout=300)
    if made.status:
        raise SystemExit(f"no games: {made.text}")
    shutil.move(folder / "games-0-of-1.vf", folder / "games.vf")
    write_book(setup.random, folder / "book.epd")
    architectures = root / "crates/transformer/tests/architectures"
    run([lab, "new", architectures / "squares.toml", "-o", "squares.ttn"], folder)
    return folder


def write_book(random, path):
    """Positions after a few random moves, because engines that are limited by nodes repeat their games."""
    lines = []
    for _ in range(20):
        board = chess.Board()
        for _ in range(8):
            board.push(random.choice(list(board.legal_moves)))
        lines.append(board.epd() + "\n")
    path.write_text("".join(lines))


def works(setup, folder):
    """All resumable commands. `folder` holds their material."""
    lab, games = setup.lab, folder / "games.vf"
    # The same file several times, so that a kill hits the work and not only the start of the program.
    many = [games] * 40
    small, selector, byte = folder / "small.toml", folder / "selector.toml", folder / "byte.toml"
    small.write_text(RECIPE.format(games=games, positions=60_000, every=4000))
    selector.write_text(SELECTOR.format(games=games, nnue=setup.root / "nets/tandem.tnn", transformer=folder / "squares.ttn"))
    byte.write_text(TRANSFORMER.format(games=games))
    train = [lab, "train", "--run", "run", "--resume", "--device", "cpu", "--threads", "2"]
    match = ["--engine", "cmd=@tandem,name=a", "--engine", "cmd=@tandem,name=b", "--each", "nodes=150,option.Hash=1", "--concurrency", "2",
             "--pgn", "games.pgn", "--state", "match.state", "--max-moves", "40", "--quiet", "--no-affinity",
             "--openings", folder / "book.epd"]
    all_works = [
        Work("train an NNUE", lambda _: [*train, small], results("run/small.tnn", "run/small.safetensors"), ("run/*.checkpoint",)),
        Work("train a selector", lambda _: [*train, selector], results("run/*.hybrid"), ("run/*.checkpoint",),
             refuses_when_done="exists already"),
        Work("match", lambda _: [lab, "match", *match, "--games", "20"], games_of_match, ("match.state",)),
        Work("sprt", lambda _: [lab, "sprt", *match, "--games", "20", "--elo0", "-190", "--elo1", "190", "--alpha", "0.00001", "--beta",
                                "0.00001"], games_of_match, ("match.state",)),
        Work("selfplay", lambda _: [lab, "data", "selfplay", "out", "--games", "10", "--nodes", "150", "--workers", "2", "--hash", "1", "--net",
                                    "bootstrap"], results("out-*.vf"), ("out-*.part", "out-*.journal"), refuses_when_done="all played"),
        Work("label", lambda _: [lab, "data", "label", games, "-o", "out.vf", "--nodes", "60", "--threads", "2", "--hash", "1"],
             results("out.vf"), ("out.vf.journal",)),
        Work("convert", lambda _: [lab, "data", "convert", *many, "-o", "out.csv.zst"], results("out.csv.zst")),
        Work("shuffle", lambda _: [lab, "data", "shuffle", *many, "-o", "out.csv"], results("out.csv")),
        Work("split", lambda _: [lab, "data", "split", *many, "--train", "out-t.vf", "--validation", "out-v.vf", "--validation-fraction", "0.3"],
             results("out-t.vf", "out-v.vf")),
    ]
    if setup.has_torch():
        all_works.append(Work("train a transformer", lambda _: [*train, byte], results("run/byte.ttn"), ("run/*.checkpoint",),
                              refuses_when_done="exists already"))
    return all_works


def unexpected_files(folder, expected):
    """Files that the uninterrupted command does not leave."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return sorted(name for name in names - expected if not any(part in name for part in VARYING))
