// Evaluates the positions of a file, one FEN a line: evaluate NETWORK FENS
// Each is evaluated twice, from nothing and after a move forth and back; both must agree.
#include "tandem_nnue.hpp"

#include <fstream>
#include <iostream>

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "usage: evaluate NETWORK FENS\n";
        return 2;
    }
    try {
        const tandem::Network network(argv[1]);
        std::ifstream fens(argv[2]);
        for (std::string fen; std::getline(fens, fen);) {
            const auto value = network.evaluate(fen);
            tandem::Board board(network, fen);
            if (board.evaluate() != value) {
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
