/* Turns pairs along a walk and asks ViennaRNA for energies, without Python between the calls. vienna.py compiles this and hands
   it the library's own functions. Pair tables count from one, and their first entry is the length. */
#include <time.h>

typedef int (*energy_of_structure)(void *compound, const short *table);
typedef int (*energy_of_move)(void *compound, short *table, int first, int second);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int turn(short *table, int first, int last) {
    int was_on = table[first] == last;
    table[first] = was_on ? 0 : last;
    table[last] = was_on ? 0 : first;
    return was_on;
}

/* Seconds for the energy of the whole structure after each turn. */
double time_structures(energy_of_structure energy, void *compound, short *table, const int *pairs, int turns, long *sum) {
    double start = now();
    for (int at = 0; at < turns; at++) {
        turn(table, pairs[2 * at], pairs[2 * at + 1]);
        *sum += energy(compound, table);
    }
    return now() - start;
}

/* Seconds for what each turn changes, which is asked before it is made. */
double time_moves(energy_of_move energy, void *compound, short *table, const int *pairs, int turns, long *sum) {
    double start = now();
    for (int at = 0; at < turns; at++) {
        int first = pairs[2 * at], last = pairs[2 * at + 1];
        int sign = table[first] == last ? -1 : 1;
        *sum += energy(compound, table, sign * first, sign * last);
        turn(table, first, last);
    }
    return now() - start;
}
