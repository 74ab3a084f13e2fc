// Evaluates the positions of a file, one FEN per line: evaluate NETWORK FENS
// Each is evaluated from scratch, on a board, and on the board again after a move and its undo; all must agree.
#include "tandem_nnue.hpp"

#include <fstream>
#include <iostream>

// Plays the first legal move and takes it back. Does nothing if there is none.
static void push_and_pop(tandem::Board &board) {
    std::string move = "a1a1";
    for (int squares = 0; squares < 64 * 64; squares++) {
        const int from = squares / 64, to = squares % 64;
        move[0] = static_cast<char>('a' + from % 8);
        move[1] = static_cast<char>('1' + from / 8);
        move[2] = static_cast<char>('a' + to % 8);
        move[3] = static_cast<char>('1' + to / 8);
        if (board.try_push(move)) {
            board.evaluate();
            board.pop();
            return;
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "usage: evaluate NETWORK FENS\n";
        return 2;
    }
    try {
        const tandem::Network network(argv[1]);
        std::ifstream fens(argv[2]);
        if (!fens) {
            std::cerr << argv[2] << ": cannot be read\n";
            return 1;
        }
        for (std::string fen; std::getline(fens, fen);) {
            const auto value = network.evaluate(fen);
            tandem::Board board(network, fen);
            const auto before = board.evaluate();
            push_and_pop(board);
            if (before != value || board.evaluate() != value) {
                std::cerr << "the board and the position disagree: " << fen << '\n';
                return 1;
            }
            std::cout << value << '\n';
        }
    } catch (const tandem::Error &error) {
        std::cerr << "error " << error.status() << ": " << error.what() << '\n';
        return 1;
    }
    return 0;
}
