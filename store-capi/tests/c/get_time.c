/* The time of a look-up in C, copied and in place. Printed, never tested: run it by hand on what `make dist` built. */
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { RANKS = 8, TIMES = 2000000 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void timed(const char *name, instanton_view_t *view, uint32_t rank, const char *key)
{
    instanton_guard_t *guard = NULL;
    instanton_value_t seen = INSTANTON_VALUE_INIT;
    pmix_value_t *value = NULL;
    double copied = 1e9, in_place = 1e9;

    for (int round = 0; round < 5; round++) {
        double begin = now();
        for (int i = 0; i < TIMES; i++) {
            DONE(instanton_view_get(view, rank, key, &value));
            free(value);
        }
        double time = (now() - begin) / TIMES;
        copied = time < copied ? time : copied;
        DONE(instanton_view_pin(view, &guard));
        begin = now();
        for (int i = 0; i < TIMES; i++) {
            DONE(instanton_view_peek(guard, rank, key, &seen));
        }
        time = (now() - begin) / TIMES;
        in_place = time < in_place ? time : in_place;
        DONE(instanton_view_unpin(guard));
    }
    printf("%-24s copied %5.1f ns, in place %5.1f ns\n", name, copied, in_place);
}

int main(void)
{
    instanton_job_t *job = job_on("alpha", 4);
    instanton_view_spec_t spec = INSTANTON_VIEW_SPEC_INIT;
    instanton_view_t *view = NULL;
    char block[4096] = { 7 };
    int fds[8];
    size_t n = 0;
    uint64_t reader;

    DONE(instanton_job_publish(job));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        instanton_entry_t entries[] = { entry("small", bytes(block, 64)), entry("page", bytes(block, 4096)) };
        if (rank < 4) {
            DONE(instanton_job_post(job, rank, entries, 2));
        }
    }
    DONE(instanton_job_export(job, NULL, 0, fds, 8, &n));
    DONE(instanton_job_reader(job, &spec.page, &reader));
    spec.descriptors = fds;
    spec.ndescriptors = n;
    DONE(instanton_view_import(&spec, &view));
    DONE(instanton_view_process(view, 0));
    timed("job size", view, INSTANTON_RANK_WILDCARD, PMIX_JOB_SIZE);
    timed("own local rank", view, 0, PMIX_LOCAL_RANK);
    timed("local rank of a peer", view, 3, PMIX_LOCAL_RANK);
    timed("64 bytes of a peer", view, 2, "small");
    timed("4 KiB of a peer", view, 2, "page");
    instanton_view_free(view);
    instanton_job_free(job);
    return 0;
}
