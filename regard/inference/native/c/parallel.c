/* parallel_for on borrowed threads: a second OpenMP pool beside torch's would make the threads of
 * the two wait for each other. */
#include "kernels.h"
#include <cpuid.h>
#include <pthread.h>
#include <stdatomic.h>

typedef void (*GompParallel)(void (*)(void *), void *, unsigned, unsigned);
typedef int (*OmpQuery)(void);
static GompParallel run_team;
static OmpQuery thread_number, thread_count;

/* Without this call everything runs on the calling thread. */
void use_openmp(void *gomp_parallel, void *omp_get_thread_num, void *omp_get_num_threads) {
    run_team = (GompParallel)gomp_parallel;
    thread_number = (OmpQuery)omp_get_thread_num;
    thread_count = (OmpQuery)omp_get_num_threads;
}

/* OpenMP's threads do not survive a fork, but the thread that forked still counts on its own: it
 * would wait for them for ever. In the child it works alone; threads that it starts get new ones.
 */
static _Thread_local int forked;
static void in_child(void) { forked = 1; }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

typedef struct {
    Task task;
    const void *args;
    int parts;
} Job;

static void run_share(void *given) {
    const Job *job = given;
    /* OMP_THREAD_LIMIT and OMP_DYNAMIC can give fewer threads than were requested */
    for (int part = thread_number(); part < job->parts; part += thread_count())
        job->task(job->args, part, job->parts);
}

void parallel_for(Task task, const void *args, int parts) {
    if (parts < 1) parts = 1;
    if (parts == 1 || !run_team || forked) {
        for (int part = 0; part < parts; part++) task(args, part, parts);
        return;
    }
    Job job = {.task = task, .args = args, .parts = parts};
    run_team(run_share, &job, (unsigned)parts, 0);
}

#ifndef MAX_ISA_LEVEL
#define MAX_ISA_LEVEL 2
#endif

int isa_level(void) {
    static _Atomic int level = -1; /* of two threads that come first, both find out */
    int known = atomic_load_explicit(&level, memory_order_relaxed);
    if (known < 0) {
        __builtin_cpu_init();
        unsigned a, b, c = 0, d;
        const int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
        const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
        const int vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vnni");
        const int wide = vnni && MAX_ISA_LEVEL >= ISA_AVX512;
        known = !avx2 ? ISA_NONE : wide ? ISA_AVX512 : ISA_AVX2;
        atomic_store_explicit(&level, known, memory_order_relaxed);
    }
    return known;
}
