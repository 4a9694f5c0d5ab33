/* A server with forked readers: describes a job, lets its ranks read, exchanges what they post with another node's. */
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOCAL = 4, ALL = 8, LARGE = 1 << 20 };

static char *large;

static int count(const char *key, uint32_t scope, const struct pmix_value *value, void *arg)
{
    (void) key, (void) scope, (void) value;
    ++*(int *) arg;
    return 0;
}

/* A rank: finds the store by its environment. */
static void rank(uint32_t self)
{
    instanton_view_t *view = NULL;
    instanton_guard_t *guard = NULL;
    instanton_value_t seen = INSTANTON_VALUE_INIT, again = INSTANTON_VALUE_INIT;
    pmix_value_t *value = NULL;
    int n = 0;
    uint32_t releases;

    DONE(instanton_view_open(NULL, &view));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_process(view, 4711));
    if (self % 2) {
        DONE(instanton_view_process(view, self));
    }
    DONE(instanton_view_get(view, INSTANTON_RANK_WILDCARD, PMIX_JOB_SIZE, &value));
    CHECK(value->type == PMIX_UINT32 && value->data.uint32 == ALL);
    free(value);
    DONE(instanton_view_get(view, self, PMIX_HOSTNAME, &value));
    CHECK(value->type == PMIX_STRING && 0 == strcmp(value->data.string, "alpha"));
    free(value);
    DONE(instanton_view_get_at(view, INSTANTON_LEVEL_NODE, 1, PMIX_LOCAL_PEERS, &value));
    CHECK(0 == strcmp(value->data.string, "4,5,6,7"));
    free(value);
    DONE(instanton_view_get(view, self, "my.port", &value));
    CHECK(value->type == PMIX_UINT16 && value->data.uint16 == 5000 + self);
    free(value);
    DONE(instanton_view_get(view, INSTANTON_RANK_WILDCARD, "site", &value));
    CHECK(0 == strcmp(value->data.string, "here"));
    free(value);

    /* A value that nobody has posted yet comes with a wake, in segments that were not there at the beginning: in place,
     * too, under a guard that was taken before them. */
    DONE(instanton_view_pin(view, &guard));
    DONE(instanton_view_peek(guard, INSTANTON_RANK_WILDCARD, "site", &again));
    for (;;) {
        releases = instanton_view_releases(view);
        if (self % 2) {
            int rc = instanton_view_peek(guard, 7, "large", &seen);
            if (INSTANTON_SUCCESS == rc) {
                CHECK(seen.length == LARGE && 0 == memcmp(seen.bytes, large, LARGE));
                CHECK(0 == strcmp(again.bytes, "here"));
                DONE(instanton_view_get(view, 7, "large", &value));
                break;
            }
            CHECK(INSTANTON_ERR_NOT_FOUND == rc);
            DONE(instanton_view_wait(view, releases, -1));
            continue;
        }
        int rc = instanton_view_get(view, 7, "large", &value);
        if (INSTANTON_SUCCESS == rc) {
            break;
        }
        CHECK(INSTANTON_ERR_NOT_FOUND == rc);
        DONE(instanton_view_wait(view, releases, -1));
    }
    CHECK(value->type == PMIX_BYTE_OBJECT && value->data.bo.size == LARGE);
    CHECK(0 == memcmp(value->data.bo.bytes, large, LARGE));
    free(value);
    DONE(instanton_view_unpin(guard));

    /* In place. */
    DONE(instanton_view_pin(view, &guard));
    DONE(instanton_view_peek(guard, 7, "large", &seen));
    CHECK(seen.form == INSTANTON_BYTES && seen.length == LARGE && 0 == memcmp(seen.bytes, large, LARGE));
    DONE(instanton_view_peek(guard, 0, "card", &seen));
    CHECK(seen.form == INSTANTON_TEXT && seen.length == strlen("of rank 0"));
    CHECK(0 == strcmp(seen.bytes, "of rank 0"));
    /* A text that lies nowhere stays as long as the guard, too. */
    DONE(instanton_view_peek(guard, 7, PMIX_HOSTNAME, &again));
    CHECK(0 == strcmp(again.bytes, "beta") && 0 == strcmp(seen.bytes, "of rank 0"));
    DONE(instanton_view_peek(guard, INSTANTON_RANK_WILDCARD, PMIX_JOB_SIZE, &again));
    CHECK(again.form == INSTANTON_SCALAR && again.bits == ALL);
    DONE(instanton_view_unpin(guard));

    DONE(instanton_view_each(view, 0, count, &n));
    CHECK(n > 2);
    CHECK(INSTANTON_ERR_NOT_FOUND == instanton_view_get(view, 0, "taken.back", &value));
    CHECK(INSTANTON_ERR_TIMEOUT == instanton_view_wait(view, instanton_view_releases(view), 0));
    if (0 == self) {
        /* Killed under a guard: the server goes on. */
        DONE(instanton_view_pin(view, &guard));
        DONE(instanton_view_peek(guard, 0, "card", &seen));
        kill(getpid(), SIGKILL);
    }
    instanton_view_free(view);
    exit(0);
}

static void serve(instanton_job_t *job, const pid_t *ranks)
{
    struct pollfd ready = { .events = POLLIN };
    int left = LOCAL, status;

    DONE(instanton_job_descriptor(job, &ready.fd));
    while (left > 0) {
        poll(&ready, 1, 20);
        DONE(instanton_job_serve(job));
        for (int i = 0; i < LOCAL; i++) {
            if (ranks[i] == waitpid(ranks[i], &status, WNOHANG)) {
                CHECK(0 == i ? WIFSIGNALED(status) && SIGKILL == WTERMSIG(status)
                             : WIFEXITED(status) && 0 == WEXITSTATUS(status));
                left--;
            }
        }
    }
    DONE(instanton_job_serve(job));
}

int main(void)
{
    instanton_job_t *alpha = job_on("alpha", LOCAL), *beta = job_on("beta", ALL - LOCAL);
    instanton_job_t *nodes[] = { alpha, beta };
    instanton_value_t value, ports[ALL];
    instanton_stats_t stats = INSTANTON_STATS_INIT;
    char address[INSTANTON_ADDRESS_SIZE], text[32], all[1 << 16];
    pmix_value_t *found = NULL;
    size_t length = 0;
    pid_t ranks[LOCAL];

    large = malloc(LARGE);
    memset(large, 7, LARGE);
    CHECK(instanton_store_version() == INSTANTON_STORE_VERSION);
    CHECK(INSTANTON_ERR_INIT == instanton_job_commit(alpha, 0));
    for (int n = 0; n < 2; n++) {
        value = words("here");
        DONE(instanton_job_info(nodes[n], INSTANTON_LEVEL_JOB, 0, "site", &value));
        for (int i = 0; i < ALL; i++) {
            ports[i] = number(PMIX_UINT16, 5000 + i);
        }
        DONE(instanton_job_column(nodes[n], "my.port", 0, ports, ALL));
        DONE(instanton_job_publish(nodes[n]));
    }
    DONE(instanton_job_listen(alpha, address, sizeof(address)));
    CHECK(0 == setenv(INSTANTON_ADDRESS_VARIABLE, address, 1));
    for (uint32_t i = 0; i < LOCAL; i++) {
        ranks[i] = fork();
        CHECK(ranks[i] >= 0);
        if (0 == ranks[i]) {
            rank(i);
        }
    }

    /* Every rank posts; then a fence carries it all to the other node. */
    for (uint32_t i = 0; i < ALL; i++) {
        instanton_job_t *home = i < LOCAL ? alpha : beta;
        snprintf(text, sizeof(text), "of rank %u", i);
        value = words(text);
        DONE(instanton_job_put(home, i, INSTANTON_SCOPE_GLOBAL, "card", &value));
        DONE(instanton_job_put(home, i, INSTANTON_SCOPE_GLOBAL, "taken.back", &value));
        DONE(instanton_job_commit(home, i));
        DONE(instanton_job_delete(home, i, "taken.back"));
    }
    for (int n = 0; n < 2; n++) {
        const uint32_t members[2][LOCAL] = { { 0, 1, 2, 3 }, { 4, 5, 6, 7 } };
        void *blob = NULL;
        size_t size = 0;
        DONE(instanton_job_outbound(nodes[n], members[n], LOCAL, &blob, &size));
        CHECK(length + size <= sizeof(all));
        memcpy(all + length, blob, size);
        length += size;
        free(blob);
    }
    for (int n = 0; n < 2; n++) {
        DONE(instanton_job_inbound(nodes[n], all, length));
        for (uint32_t i = 0; i < ALL; i++) {
            snprintf(text, sizeof(text), "of rank %u", i);
            DONE(instanton_job_get(nodes[n], i, "card", &found));
            CHECK(found->type == PMIX_STRING && 0 == strcmp(found->data.string, text));
            free(found);
            CHECK(INSTANTON_ERR_NOT_FOUND == instanton_job_get(nodes[n], i, "taken.back", &found));
        }
    }
    CHECK(INSTANTON_ERR_UNPACK_FAILURE == instanton_job_inbound(alpha, all, length - 1));

    instanton_entry_t big = entry("large", bytes(large, LARGE));
    DONE(instanton_job_post(beta, 7, &big, 1));
    {
        const uint32_t poster = 7;
        void *blob = NULL;
        DONE(instanton_job_outbound(beta, &poster, 1, &blob, &length));
        DONE(instanton_job_inbound(alpha, blob, length));
        free(blob);
    }
    DONE(instanton_job_wake(alpha));
    serve(alpha, ranks);

    DONE(instanton_job_stats(alpha, &stats));
    CHECK(stats.readers == 0 && stats.generation == 1 && stats.contradictions == 0 && stats.bytes > LARGE);
    instanton_job_free(alpha);
    instanton_job_free(beta);
    free(large);
    puts("ok");
    return 0;
}
