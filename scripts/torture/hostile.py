"""A UCI engine with one fault, which its argument names. It plays the first legal move otherwise."""

import os
import signal
import sys
import time

import chess

fault = sys.argv[1]


def say(text):
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)


def play(board, move):
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "exit":
        os._exit(3)
    elif fault == "hang":
        time.sleep(1000)
    elif fault == "late":
        time.sleep(1.5)
    elif fault == "illegal":
        move = "a1a1"
    elif fault == "null-move":
        move = "0000"
    elif fault == "no-move":
        return say("bestmove")
    elif fault == "garbage":
        say("\x00\xff\x1b[2J bestmove? info depth -1 score cp 99999999999999999999 pv " + "e2e4 " * 50)
        say("info string " + "x" * 100_000)
    elif fault == "endless":
        while True:
            say("info depth 1 score cp 1 pv e2e4")
    elif fault == "endless-line":
        while True:
            sys.stdout.write("x" * 65536)
            sys.stdout.flush()
    elif fault == "close-stdout":
        os.close(1)
        time.sleep(1000)
    elif fault == "close-stdin":
        os.close(0)
    elif fault == "twice":
        say(f"bestmove {move}")
    elif fault == "binary":
        os.write(1, bytes(range(256)) * 20 + b"\n")
    elif fault == "odd-info":
        say("info depth 999999999999 seldepth -3 multipv 0 score mate 0 nodes x nps hashfull 5000 wdl 1 2 pv z9z9")
        say("info score cp 30000 lowerbound upperbound pv")
    say(f"bestmove {move}")
    if fault == "exit-after-move":
        os._exit(0)


def main():
    board = chess.Board()
    if fault == "exit-at-start":
        return
    if fault == "ignore-signals":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if fault == "child" and os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    for line in sys.stdin:
        words = line.split()
        if not words or fault == "silent":
            continue
        if words[0] == "uci" and fault != "no-uciok":
            say("id name hostile\nuciok")
        elif words[0] == "isready" and fault != "no-readyok":
            say("readyok")
        elif words[0] == "position":
            moves = words[words.index("moves") + 1:] if "moves" in words else []
            board = chess.Board() if words[1] == "startpos" else chess.Board(" ".join(words[2:8]))
            for move in moves:
                board.push_uci(move)
        elif words[0] == "go":
            play(board, next(iter(board.legal_moves)).uci())
        elif words[0] == "quit" and fault not in ("ignore-quit", "ignore-signals"):
            return
    if fault in ("ignore-quit", "ignore-signals"):
        time.sleep(30)


main()
