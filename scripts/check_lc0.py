#!/usr/bin/env python3
"""Check lc0 V6 training data against the games that it was made from.

    scripts/check_lc0.py GAMES.pgn CHUNKS.tar

An independent reader: it needs only numpy and python-chess, and shares no code
with the writer that it checks. The members `game_*.gz` of the tar must follow
the games of the PGN in order, one record for each move of the main line. Games
without moves or without a result are skipped. For every record it checks

  * version 6 and input format 1 (112 planes, classical),
  * the pieces and the repetition plane of the position and of the seven before
    it; boards from before the usual start must be empty, boards from before the
    FEN of a game that starts elsewhere are not checked,
  * castling rights, side to move and the 50-move count,
  * that the moves with a probability of 0 or more are the legal ones and all
    others have -1, and that the move played has probability 1 and is played_idx,
  * result_q and result_d as the side to move sees the game's result,
  * that plies_left falls by one from record to record and ends at 0 or 1.

It ends with status 1 at the first difference, and prints its place and values.
"""

import gzip
import re
import sys
import tarfile

import chess
import chess.pgn
import numpy as np

RECORD = np.dtype(
    [
        ("version", "<u4"),
        ("input_format", "<u4"),
        ("probabilities", "<f4", 1858),
        ("planes", "<u8", (8, 13)),
        ("castling", "u1", 4),  # ours O-O-O, ours O-O, theirs O-O-O, theirs O-O
        ("side_to_move", "u1"),
        ("rule50_count", "u1"),
        ("invariance_info", "u1"),
        ("dummy", "u1"),
        ("root_q", "<f4"),
        ("best_q", "<f4"),
        ("root_d", "<f4"),
        ("best_d", "<f4"),
        ("root_m", "<f4"),
        ("best_m", "<f4"),
        ("plies_left", "<f4"),
        ("result_q", "<f4"),
        ("result_d", "<f4"),
        ("played_q", "<f4"),
        ("played_d", "<f4"),
        ("played_m", "<f4"),
        ("orig_q", "<f4"),
        ("orig_d", "<f4"),
        ("orig_m", "<f4"),
        ("visits", "<u4"),
        ("played_idx", "<u2"),
        ("best_idx", "<u2"),
        ("policy_kld", "<f4"),
        ("q_st", "<f4"),
    ]
)
assert RECORD.itemsize == 8356

SQUARE_NAMES = chess.SQUARE_NAMES
PLANE_NAMES = [f"{who} {what}" for who in ("our", "their")
               for what in ("pawns", "knights", "bishops", "rooks", "queens", "king")]
PLANE_NAMES.append("repetition")
ALL_ONES = 2**64 - 1


class Mismatch(Exception):
    """A record that differs from its game."""


def policy_order():
    """The 1858 moves as the side to move sees them, in lc0's order.

    From every square a1, b1, ..., h8 the squares that a queen or a knight
    reaches on an empty board, in the same order; then the promotions to queen,
    rook and bishop. A promotion to a knight is the plain move.
    """
    moves = []
    for start in range(64):
        for end in range(64):
            files = abs(start % 8 - end % 8)
            ranks = abs(start // 8 - end // 8)
            queen = start != end and (files == 0 or ranks == 0 or files == ranks)
            knight = {files, ranks} == {1, 2}
            if queen or knight:
                moves.append(SQUARE_NAMES[start] + SQUARE_NAMES[end])
    for start in range(8):
        for end in range(max(start - 1, 0), min(start + 1, 7) + 1):
            for piece in "qrb":
                moves.append(f"{'abcdefgh'[start]}7{'abcdefgh'[end]}8{piece}")
    assert len(moves) == 1858
    return moves


POLICY = policy_order()
POLICY_INDEX = {name: index for index, name in enumerate(POLICY)}


def policy_index(board, move):
    """The index of a legal move; castling is written as king takes rook."""
    start, end = move.from_square, move.to_square
    if board.is_kingside_castling(move):
        end = chess.square(7, chess.square_rank(start))
    elif board.is_queenside_castling(move):
        end = chess.square(0, chess.square_rank(start))
    if board.turn == chess.BLACK:
        start, end = chess.square_mirror(start), chess.square_mirror(end)
    name = SQUARE_NAMES[start] + SQUARE_NAMES[end]
    if move.promotion and move.promotion != chess.KNIGHT:
        name += chess.piece_symbol(move.promotion)
    return POLICY_INDEX[name]


def plane_bit(square, us):
    """A plane has a byte for each rank, ours first; its highest bit is file a."""
    rank, file = chess.square_rank(square), chess.square_file(square)
    if us == chess.BLACK:
        rank = 7 - rank
    return 1 << (8 * rank + 7 - file)


def piece_planes(pieces, us):
    """The twelve planes of a board, given as a map of pieces, as `us` sees it."""
    planes = [0] * 12
    for square, piece in pieces.items():
        plane = piece.piece_type - 1 + (0 if piece.color == us else 6)
        planes[plane] |= plane_bit(square, us)
    return planes


def repetition_key(board):
    """Everything that must be equal for a position to count as repeated."""
    en_passant = board.ep_square if board.has_legal_en_passant() else None
    return board.board_fen(), board.turn, board.clean_castling_rights(), en_passant


def expect(what, found, wanted):
    if found != wanted:
        raise Mismatch(f"{what} is {found}, should be {wanted}")


def describe(indices):
    return " ".join(f"{POLICY[index]}({index})" for index in sorted(indices)) or "none"


def check_planes(record, history, us, from_start):
    """`history`: (pieces, was it a repetition) of every position so far."""
    for back in range(8):
        found = [int(plane) for plane in record["planes"][back]]
        if back < len(history):
            pieces, repeated = history[-1 - back]
            wanted = piece_planes(pieces, us) + [ALL_ONES if repeated else 0]
        elif from_start:
            wanted = [0] * 13
        else:
            continue
        for name, one, other in zip(PLANE_NAMES, found, wanted):
            if one != other:
                raise Mismatch(f"plane '{name}', {back} plies back, is {one:016x}, should be {other:016x}")


def check_policy(record, board, move):
    probabilities = record["probabilities"]
    if np.isnan(probabilities).any():
        raise Mismatch("a probability is not a number")
    legal = {policy_index(board, each) for each in board.legal_moves}
    possible = {int(index) for index in np.flatnonzero(probabilities >= 0)}
    if possible != legal:
        raise Mismatch(f"legal moves without a probability: {describe(legal - possible)}; "
                       f"illegal moves with one: {describe(possible - legal)}")
    if not (np.delete(probabilities, list(legal)) == -1).all():
        raise Mismatch("the probability of an illegal move is below 0 but not -1")
    played = policy_index(board, move)
    expect("played_idx", int(record["played_idx"]), played)
    expect(f"probability of the move played, {POLICY[played]}({played}),", float(probabilities[played]), 1.0)


def check_state(record, board):
    us, them = board.turn, not board.turn
    castling = [
        int(board.has_queenside_castling_rights(us)),
        int(board.has_kingside_castling_rights(us)),
        int(board.has_queenside_castling_rights(them)),
        int(board.has_kingside_castling_rights(them)),
    ]
    expect("version", int(record["version"]), 6)
    expect("input format", int(record["input_format"]), 1)
    expect("castling", [int(each) for each in record["castling"]], castling)
    expect("side to move", int(record["side_to_move"]), int(us == chess.BLACK))
    expect("50-move count", int(record["rule50_count"]), min(board.halfmove_clock, 255))


def check_result(record, result, us):
    white = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}[result]
    expect("result_q", float(record["result_q"]), white if us == chess.WHITE or white == 0 else -white)
    expect("result_d", float(record["result_d"]), 1.0 if white == 0 else 0.0)


def check_game(game, records):
    """Compare the records of a game with its moves, up to the first difference."""
    board = game.board()
    moves = list(game.mainline_moves())
    from_start = board.fen() == chess.STARTING_FEN
    expect("number of records", len(records), len(moves))
    history, seen = [], set()
    for ply, (move, record) in enumerate(zip(moves, records)):
        key = repetition_key(board)
        history.append((board.piece_map(), key in seen))
        seen.add(key)
        try:
            check_state(record, board)
            check_planes(record, history, board.turn, from_start)
            check_policy(record, board, move)
            check_result(record, game.headers["Result"], board.turn)
            if ply:
                expect("plies_left", float(record["plies_left"]), float(records[ply - 1]["plies_left"]) - 1)
        except Mismatch as error:
            raise Mismatch(f"ply {ply}, {board.fen()}, {move.uci()}: {error}") from None
        board.push(move)
    if float(records[-1]["plies_left"]) not in (0.0, 1.0):
        raise Mismatch(f"plies_left of the last record is {records[-1]['plies_left']}, should be 0 or 1")


def games_of(path):
    """The games of a PGN file that training data can be made from."""
    with open(path, encoding="utf-8", errors="replace") as file:
        while (game := chess.pgn.read_game(file)) is not None:
            if game.errors:
                raise Mismatch(f"the PGN cannot be read: {game.errors[0]}")
            if game.next() is not None and game.headers.get("Result") in ("1-0", "0-1", "1/2-1/2"):
                yield game


def chunks_of(path):
    """The name and the records of every game in the tar."""
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and re.search(r"(^|/)game_[^/]*\.gz$", member.name):
                data = gzip.decompress(tar.extractfile(member).read())
                if len(data) % RECORD.itemsize:
                    raise Mismatch(f"{member.name}: {len(data)} bytes are not a multiple of {RECORD.itemsize}")
                yield member.name, np.frombuffer(data, RECORD)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: check_lc0.py GAMES.pgn CHUNKS.tar")
    games = records = 0
    try:
        chunks = chunks_of(sys.argv[2])
        for game in games_of(sys.argv[1]):
            name, chunk = next(chunks, (None, None))
            if name is None:
                raise Mismatch(f"the tar ends after {games} games, the PGN has more")
            try:
                check_game(game, chunk)
            except Mismatch as error:
                raise Mismatch(f"game {games + 1} of the PGN, {name}: {error}") from None
            games += 1
            records += len(chunk)
        if next(chunks, None) is not None:
            raise Mismatch(f"the PGN ends after {games} games, the tar has more")
        if games == 0:
            raise Mismatch("there is no game to check")
    except (Mismatch, OSError, EOFError, tarfile.TarError) as error:
        sys.exit(f"check_lc0: {error}")
    print(f"{games} games and {records} records are correct")


if __name__ == "__main__":
    main()
