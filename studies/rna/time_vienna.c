/* Timing loops for ViennaRNA: toggles the pairs of a walk and computes the energies, without Python between the
   calls. vienna.py compiles this file and passes the library's own functions. Pair tables count from one, and
   their first entry is the length. */
#include <time.h>

typedef int (*energy_of_structure)(void *compound, const short *table);
typedef int (*energy_of_move)(void *compound, short *table, int first, int second);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int toggle(short *table, int first, int last) {
    int was_on = table[first] == last;
    table[first] = was_on ? 0 : last;
    table[last] = was_on ? 0 : first;
    return was_on;
}

/* Seconds for computing the energy of the whole structure after each step. */
double time_structures(energy_of_structure energy, void *compound, short *table, const int *pairs, int num_steps, long *sum) {
    double start = now();
    for (int at = 0; at < num_steps; at++) {
        toggle(table, pairs[2 * at], pairs[2 * at + 1]);
        *sum += energy(compound, table);
    }
    return now() - start;
}

/* Seconds for computing the change in energy of each step, which is done before the step is made. */
double time_moves(energy_of_move energy, void *compound, short *table, const int *pairs, int num_steps, long *sum) {
    double start = now();
    for (int at = 0; at < num_steps; at++) {
        int first = pairs[2 * at], last = pairs[2 * at + 1];
        int sign = table[first] == last ? -1 : 1;
        *sum += energy(compound, table, sign * first, sign * last);
        toggle(table, first, last);
    }
    return now() - start;
}
