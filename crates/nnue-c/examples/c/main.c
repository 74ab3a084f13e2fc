// Plays moves from the initial position and prints the evaluation after each: follow NETWORK MOVE...
#include "tandem_nnue.h"

#include <stdio.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tandem_last_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: follow NETWORK MOVE...\n");
        return 2;
    }
    TandemNetwork *network = NULL;
    TandemBoard *board = NULL;
    if (tandem_network_load(argv[1], &network) != TANDEM_STATUS_OK) {
        return fail("cannot load the network");
    }
    const char *start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    int status = 0;
    if (tandem_board_new(network, start, &board) != TANDEM_STATUS_OK) {
        status = fail("cannot set up the board");
    }
    for (int i = 2; i < argc && status == 0; i++) {
        int32_t centipawns = 0;
        if (tandem_board_push(board, argv[i]) != TANDEM_STATUS_OK) {
            status = fail(argv[i]);
        } else if (tandem_board_evaluate(board, &centipawns) != TANDEM_STATUS_OK) {
            status = fail("cannot evaluate");
        } else {
            printf("%s %d\n", argv[i], (int)centipawns);
        }
    }
    tandem_board_free(board);
    tandem_network_free(network);
    return status;
}
