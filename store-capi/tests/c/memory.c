/* A server whose own memory is used up: calls about large values are refused, and it goes on. */
#include "check.h"
#include <sys/resource.h>
#include <unistd.h>

enum { LARGE = 64 << 20, LEFT = 16 << 20 };

/* Lets this process have no more address space than LEFT beside what it has, or as much as before. */
static void limit(int is_limited)
{
    static struct rlimit before;
    struct rlimit now;
    unsigned long pages = 0;
    FILE *file = NULL;

    if (is_limited) {
        CHECK(0 == getrlimit(RLIMIT_AS, &before));
        CHECK(NULL != (file = fopen("/proc/self/statm", "r")) && 1 == fscanf(file, "%lu", &pages));
        fclose(file);
        now = before;
        now.rlim_cur = pages * (unsigned long) sysconf(_SC_PAGESIZE) + LEFT;
    } else {
        now = before;
    }
    CHECK(0 == setrlimit(RLIMIT_AS, &now));
}

int main(void)
{
    instanton_job_t *alpha = job_on("alpha", 4), *beta = job_on("beta", 4);
    char *much = calloc(1, LARGE);
    instanton_entry_t post = entry("much", bytes(much, LARGE));
    pmix_value_t *found = NULL;
    void *blob = NULL, *none = NULL;
    size_t length = 0, nothing = 0;
    uint32_t first = 0, second = 1;

    DONE(instanton_job_publish(alpha));
    DONE(instanton_job_publish(beta));
    DONE(instanton_job_post(alpha, first, &post, 1));
    DONE(instanton_job_outbound(alpha, &first, 1, &blob, &length));
    DONE(instanton_job_post(alpha, second, &post, 1));
    DONE(instanton_job_put(alpha, 2, INSTANTON_SCOPE_GLOBAL, "much", &post.value));

    limit(1);
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_put(alpha, 3, INSTANTON_SCOPE_GLOBAL, "k", &post.value));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_post(alpha, 3, &post, 1));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_info(alpha, INSTANTON_LEVEL_JOB, 0, "k", &post.value));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_proc(alpha, 0, &post, 1));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_column(alpha, "k", 0, &post.value, 1));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_outbound(alpha, &second, 1, &none, &nothing) && NULL == none);
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_inbound(beta, blob, length));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_get(alpha, first, "much", &found) && NULL == found);
    /* It drops what it was to publish, and there is memory again. */
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_commit(alpha, 2));
    limit(0);

    /* Data of a call that failed is not lost, but for what a commit was to publish. */
    DONE(instanton_job_outbound(alpha, &second, 1, &none, &nothing));
    CHECK(nothing > LARGE);
    DONE(instanton_job_inbound(beta, blob, length));
    DONE(instanton_job_get(beta, first, "much", &found));
    CHECK(LARGE == found->data.bo.size);
    free(found);
    CHECK(INSTANTON_ERR_NOT_FOUND == instanton_job_get(alpha, 2, "much", &found));

    /* A publication that fails is to be said anew. */
    DONE(instanton_job_info(alpha, INSTANTON_LEVEL_JOB, 0, "k", &post.value));
    limit(1);
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_job_publish(alpha));
    limit(0);
    DONE(instanton_job_publish(alpha));
    CHECK(INSTANTON_ERR_NOT_FOUND == instanton_job_get(alpha, INSTANTON_RANK_WILDCARD, "k", &found));
    free(blob);
    free(none);
    free(much);
    instanton_job_free(alpha);
    instanton_job_free(beta);
    puts("ok");
    return 0;
}
