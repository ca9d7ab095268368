/* What the kernels need of OpenMP, with plain threads. ThreadSanitizer sees how these wait for each
 * other; in a libgomp that was built without it, every wait looks like a race. Compiled into the
 * library with use_openmp renamed, so that it takes the place of torch's. */
#undef use_openmp
#include <pthread.h>
#include <stdlib.h>

enum { MAX_TEAM = 64 };
static _Thread_local int number, count = 1;

typedef struct {
    void (*work)(void *);
    void *data;
    int number, count;
} Member;

static void *run(void *given) {
    const Member *member = given;
    const int outer_number = number, outer_count = count;
    number = member->number;
    count = member->count;
    member->work(member->data);
    number = outer_number;
    count = outer_count;
    return NULL;
}

static void parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags) {
    Member members[MAX_TEAM];
    pthread_t started[MAX_TEAM];
    const int team = threads < MAX_TEAM ? (int)threads : MAX_TEAM;
    (void)flags;
    for (int i = team - 1; i >= 0; i--) {
        members[i] = (Member){.work = work, .data = data, .number = i, .count = team};
        if (!i) run(members);
        else if (pthread_create(started + i, NULL, run, members + i)) abort();
    }
    for (int i = 1; i < team; i++) pthread_join(started[i], NULL);
}

static int thread_number(void) { return number; }
static int thread_count(void) { return count; }

void real_use_openmp(void *, void *, void *);

void use_openmp(void *unused_parallel, void *unused_number, void *unused_count) {
    (void)unused_parallel, (void)unused_number, (void)unused_count;
    real_use_openmp((void *)parallel, (void *)thread_number, (void *)thread_count);
}
