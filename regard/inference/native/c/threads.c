/* Work in parts. Threads are lent by whoever has them (torch's OpenMP): a second pool beside it would make the threads of
 * the two wait for each other. */
#include "kernels.h"
#include <cpuid.h>

typedef void (*Team)(void (*)(void *), void *, unsigned, unsigned); /* GOMP_parallel */
typedef int (*Count)(void);                                         /* omp_get_thread_num, omp_get_num_threads */
static Team team;
static Count member, members;

void lend_threads(void *gomp_parallel, void *omp_get_thread_num, void *omp_get_num_threads) {
    team = (Team)gomp_parallel;
    member = (Count)omp_get_thread_num, members = (Count)omp_get_num_threads;
}

typedef struct {
    Work work;
    const void *what;
    int parts;
} Share;

static void one_share(void *given) {
    const Share *share = given; /* there may be fewer of us than were asked for: OMP_THREAD_LIMIT, OMP_DYNAMIC */
    for (int part = member(); part < share->parts; part += members()) share->work(share->what, part, share->parts);
}

void in_parts(Work work, const void *what, int parts) {
    if (parts <= 1 || !team) {
        for (int part = 0; part < (parts < 1 ? 1 : parts); part++) work(what, part, parts < 1 ? 1 : parts);
        return;
    }
    Share share = {work, what, parts};
    team(one_share, &share, (unsigned)parts, 0);
}

#ifndef HIGHEST
#define HIGHEST 2
#endif

int level(void) {
    static int known = -1;
    if (known < 0) {
        __builtin_cpu_init();
        unsigned a, b, c = 0, d;
        const int halves = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
        const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && halves;
        const int vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni");
        known = !avx2 ? 0 : vnni && HIGHEST > 1 ? 2 : 1;
    }
    return known;
}
