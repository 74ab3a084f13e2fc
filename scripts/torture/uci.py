"""A UCI fuzzer: legal dialogues, in which every `go` must be answered by one legal move, and lines of garbage."""

import queue
import subprocess
import tempfile
import threading
import time

import chess

from common import end, limits, run

# Seconds within which the engine must answer. A debug build on a busy machine is slow.
PATIENCE = 20
# Options that name files, start many threads or take much memory.
FILES = {"EvalFile", "TransformerFile", "HybridFile", "SyzygyPath"}
SPIN_MAXIMUM = {"Hash": 16, "Threads": 4, "StrategistThreads": 2, "MultiPV": 8, "Move Overhead": 50}
# The transformers of these modes take seconds to load in a debug build.
SLOW = {"SearchMode": ["alphabeta"], "Strategist": ["off"]}


class Engine:
    """A running engine whose lines arrive in a queue."""

    def __init__(self, setup):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(setup.tandem)], cwd=setup.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, start_new_session=True, preexec_fn=limits())
        self.lines = queue.Queue()
        self.sent = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def send(self, *lines):
        self.sent.extend(lines)
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def until(self, start, patience=PATIENCE):
        """Lines up to the one that begins with `start`; the last one is None if the engine ended or did not answer."""
        lines, deadline = [], time.monotonic() + patience
        while True:
            try:
                line = self.lines.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            lines.append(line)
            if line is None or line.startswith(start):
                return lines

    def history(self):
        return " | ".join(self.sent[-14:])[-700:]

    def close(self):
        end(self.process)
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def attack(setup, part):
    options = read_options(setup, part)
    while part.has_time(1):
        if setup.random.random() < 0.7:
            dialogue(setup, part, options)
        else:
            garbage(setup, part, options)


def read_options(setup, part):
    engine = Engine(setup)
    engine.send("uci")
    lines = engine.until("uciok")
    engine.close()
    if lines[-1] is None:
        part.find("dialogues", "no uciok")
    options = []
    for line in lines:
        if line and line.startswith("option name "):
            name, rest = line[len("option name "):].split(" type ", 1)
            options.append((name, rest.split()))
    return options


def random_value(random, name, words):
    """Value of an option: mostly valid, sometimes not."""
    kind = words[0]
    if name in FILES:
        return random.choice(["<empty>", "/no/such/file", "/dev/null", "/"])
    if random.random() < 0.1 and name not in SPIN_MAXIMUM and name not in SLOW:
        return random.choice(["", "-1", "99999999999999999999", "yes", "true false", "\u00e9", "0x10"])
    if kind == "check":
        return random.choice(["true", "false"])
    if kind == "combo":
        return random.choice(SLOW.get(name) or [words[at + 1] for at, word in enumerate(words) if word == "var"])
    if kind == "spin":
        low, high = int(words[words.index("min") + 1]), int(words[words.index("max") + 1])
        high = min(high, SPIN_MAXIMUM.get(name, high))
        return str(random.choice([low, high, random.randint(low, high)]))
    return ""


def set_option(random, options):
    name, words = random.choice(options)
    return f"setoption name {name}" + ("" if words[0] == "button" else f" value {random_value(random, name, words)}")


def random_position(random):
    """A position with at least one legal move, and the command that sets it."""
    while True:
        board = chess.Board()
        start = "startpos"
        if random.random() < 0.3:
            for _ in range(random.randint(1, 120)):
                moves = list(board.legal_moves)
                if not moves:
                    break
                board.push(random.choice(moves))
            board = chess.Board(board.fen())
            start = f"fen {board.fen()}"
        moves = []
        for _ in range(random.choice([0, 0, 1, 5, 30, 150])):
            legal = list(board.legal_moves)
            if not legal:
                break
            move = random.choice(legal)
            board.push(move)
            moves.append(move.uci())
        if any(board.legal_moves):
            return board, f"position {start}" + (f" moves {' '.join(moves)}" if moves else "")


def random_go(random, board):
    """A `go` command, the moves that it allows, and whether it has to be stopped."""
    legal = list(board.legal_moves)
    kind = random.randrange(9)
    searchmoves = random.sample(legal, random.randint(1, len(legal))) if random.random() < 0.1 else None
    suffix = " searchmoves " + " ".join(move.uci() for move in searchmoves) if searchmoves else ""
    clock = f"wtime {random.choice([1, 20, 200])} btime {random.choice([1, 20, 200])} winc {random.choice([0, 5])} binc 0"
    text, is_endless = {
        0: (f"depth {random.randint(1, 6)}", False),
        1: (f"nodes {random.choice([1, 2, 100, 3000])}", False),
        2: (f"movetime {random.choice([0, 1, 20])}", False),
        3: (clock, False),
        4: (f"{clock} movestogo {random.choice([1, 40])}", False),
        5: ("infinite", True),
        6: (f"ponder {clock}", True),
        7: (f"depth {random.choice([60, 200])}", True),
        8: (f"mate {random.randint(1, 3)} nodes 2000", False),
    }[kind]
    return f"go {text}{suffix}", searchmoves or legal, is_endless


def dialogue(setup, part, options):
    """One engine process with many searches."""
    random, engine = setup.random, Engine(setup)
    options = [option for option in options if option[0] != "UCI_Chess960"]
    try:
        for _ in range(random.randint(5, 40)):
            if not part.has_time(1):
                break
            for _ in range(random.choice([0, 0, 1, 3, 12])):
                engine.send(set_option(random, options))
                part.count("options set")
            if random.random() < 0.1:
                engine.send("ucinewgame")
            board, position = random_position(random)
            command, allowed, is_endless = random_go(random, board)
            engine.send(position, command)
            if is_endless or random.random() < 0.2:
                time.sleep(random.choice([0, 0, 0.001, 0.01, 0.05]))
                if random.random() < 0.2:
                    engine.send("isready")
                engine.send("ponderhit" if "ponder" in command and random.random() < 0.5 else "stop")
            part.count("searches")
            lines = engine.until("bestmove")
            if lines[-1] is None:
                status = engine.process.poll()
                part.find("searches", f"no bestmove (exit {status}) after: {engine.history()}")
                return
            move = lines[-1].split()[1]
            if move not in {legal.uci() for legal in allowed}:
                part.find("searches", f"bestmove {move} is not allowed after: {engine.history()}")
            engine.send("isready")
            more = engine.until("readyok")
            if more[-1] is None:
                part.find("searches", f"no readyok after: {engine.history()}")
                return
            if any(line.startswith("bestmove") for line in more):
                part.find("searches", f"two bestmoves after: {engine.history()}")
        quit_engine(part, engine, "searches")
    except BrokenPipeError:
        part.find("searches", f"the engine ended after: {engine.history()}")
    finally:
        engine.close()


def quit_engine(part, engine, attack):
    engine.send("quit")
    try:
        status = engine.process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        part.find(attack, f"no end after quit: {engine.history()}")
        return
    if status:
        part.find(attack, f"exit {status} after: {engine.history()}")


def garbage_line(random, options):
    words = ["position", "startpos", "fen", "moves", "go", "depth", "3", "nodes", "100", "movetime", "1", "wtime", "-5", "btime",
             "99999999999999999999", "winc", "movestogo", "0", "searchmoves", "e2e4", "e9e4", "0000", "setoption", "name", "value",
             "ucinewgame", "isready", "uci", "stop", "ponderhit", "eval", "d", "debug", "on", "register", "later", "\t", "",
             "8/8/8/8/8/8/8/8", "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR", "w", "KQkq", "-", "9", "\u2654", "ponder", "mate", "1"]
    kind = random.randrange(5)
    if kind == 0:
        return bytes(random.randrange(256) for _ in range(random.randint(0, 80))).replace(b"\n", b" ")
    if kind == 1:
        return " ".join(random.choice(words) for _ in range(random.randint(0, 15))).encode()
    if kind == 2:
        return set_option(random, options).encode()
    line = bytearray(random_position(random)[1] if random.random() < 0.5 else "go depth 2 wtime 100 btime 100 searchmoves e2e4 d2d4", "utf8")
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(line))
        line[at:at + random.randint(0, 3)] = bytes(random.choice(b"0123456789/abKQkq- wfen\xff") for _ in range(random.randint(0, 3)))
    return bytes(line).replace(b"\n", b" ")


def garbage(setup, part, options):
    """Many odd lines to one process, which must then still play."""
    random = setup.random
    options = [option for option in options if option[0] not in ("Hash", "Threads", "StrategistThreads", "SearchMode", "Strategist")]
    lines = [garbage_line(random, options) for _ in range(random.choice([5, 50, 300]))]
    if random.random() < 0.1:
        lines.append(b"position startpos moves " + b"e2e4 " * random.choice([1000, 100_000]))
    closing = b"\nstop\nisready\nquit\n"
    outcome = run([setup.tandem], setup.folder, timeout=60, stdin=b"\n".join(lines) + closing)
    part.count("garbage lines", len(lines))
    failure = outcome.failure()
    if failure or outcome.status:
        kept = setup.root / "target" / f"torture-garbage-{abs(hash(tuple(lines))):x}.txt"
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(b"\n".join(lines) + closing)
        part.find("garbage lines", f"{failure or outcome.tail()} (lines kept in {kept})")


