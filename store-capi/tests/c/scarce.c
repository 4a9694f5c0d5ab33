/* Readers and a writer that run out of descriptors, and a writer that is late: nobody loses what it has, and all goes on
 * when there are some again. */
#include "check.h"
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = 4096, LARGE = 1 << 20 };

static int asked[2], answered[2];

static void say(int to)
{
    CHECK(1 == write(to, "s", 1));
}

static void hear(int from)
{
    char byte;
    CHECK(1 == read(from, &byte, 1));
}

/* Has this process open no descriptor beside those that it has. */
static void limit(int is_limited)
{
    static struct rlimit before;
    struct rlimit now;

    if (is_limited) {
        CHECK(0 == getrlimit(RLIMIT_NOFILE, &before));
        now = before;
        now.rlim_cur = 3;
    } else {
        now = before;
    }
    CHECK(0 == setrlimit(RLIMIT_NOFILE, &now));
}

static void reader(const char *address)
{
    instanton_view_spec_t spec = INSTANTON_VIEW_SPEC_INIT;
    instanton_view_t *view = NULL;
    instanton_guard_t *guard = NULL;
    instanton_value_t held = INSTANTON_VALUE_INIT, large = INSTANTON_VALUE_INIT;
    pmix_value_t *value = NULL;

    spec.address = address;
    DONE(instanton_view_open(&spec, &view));
    DONE(instanton_view_pin(view, &guard));
    DONE(instanton_view_peek(guard, 1, "card", &held));
    say(asked[1]);
    hear(answered[0]);

    /* There is a new segment, for which this process has no descriptor. */
    limit(1);
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_view_peek(guard, 2, "large", &large));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_view_get(view, 2, "large", &value) && NULL == value);
    limit(0);
    CHECK(INSTANTON_ERR_TIMEOUT == instanton_view_wait(view, instanton_view_releases(view), 0));
    say(asked[1]);
    hear(answered[0]);

    /* The values that it holds have been replaced often meanwhile. */
    for (size_t i = 0; i < SMALL; i++) {
        CHECK('A' == ((const char *) held.bytes)[i]);
    }
    DONE(instanton_view_peek(guard, 2, "large", &large));
    CHECK(LARGE == large.length);
    DONE(instanton_view_unpin(guard));
    DONE(instanton_view_get(view, 2, "large", &value));
    free(value);
    instanton_view_free(view);
    exit(0);
}

static void late_comer(const char *address)
{
    instanton_view_spec_t spec = INSTANTON_VIEW_SPEC_INIT;
    instanton_view_t *view = NULL;
    instanton_guard_t *guard = NULL;

    spec.address = address;
    DONE(instanton_view_open(&spec, &view));
    DONE(instanton_view_pin(view, &guard));
    DONE(instanton_view_unpin(guard));
    instanton_view_free(view);
    exit(0);
}

/* Answers readers until something is said, or a process has ended well. */
static void serve(instanton_job_t *job, pid_t until)
{
    struct pollfd ready[2] = { { .events = POLLIN }, { .fd = asked[0], .events = POLLIN } };
    int status = 0;

    DONE(instanton_job_descriptor(job, &ready[0].fd));
    for (;;) {
        CHECK(poll(ready, 2, 20) >= 0);
        DONE(instanton_job_serve(job));
        if (ready[1].revents) {
            hear(asked[0]);
            return;
        }
        if (until == waitpid(until, &status, WNOHANG)) {
            CHECK(0 == status);
            return;
        }
    }
}

int main(void)
{
    instanton_job_t *job = job_on("alpha", 4);
    char address[INSTANTON_ADDRESS_SIZE], *much = calloc(1, LARGE);
    instanton_entry_t post = entry("card", bytes(much, SMALL));
    struct pollfd ready = { .events = POLLIN };
    instanton_view_t *view = NULL;
    char path[64];
    int is_quiet = 0;
    pid_t pid;

    memset(much, 'A', LARGE);
    CHECK(0 == pipe(asked) && 0 == pipe(answered));
    DONE(instanton_job_publish(job));
    DONE(instanton_job_listen(job, address, sizeof(address)));
    DONE(instanton_job_post(job, 1, &post, 1));
    CHECK((pid = fork()) >= 0);
    if (0 == pid) {
        reader(address);
    }
    serve(job, pid);
    post = entry("large", bytes(much, LARGE));
    DONE(instanton_job_post(job, 2, &post, 1));
    say(answered[1]);
    serve(job, pid);
    for (int i = 0; i < 200; i++) {
        memset(much, 'B' + i % 20, SMALL);
        post = entry("card", bytes(much, SMALL));
        DONE(instanton_job_post(job, 1, &post, 1));
        DONE(instanton_job_serve(job));
    }
    say(answered[1]);
    serve(job, pid);

    /* A reader comes when the writer has none left: the descriptor is not readable all the time. */
    DONE(instanton_job_descriptor(job, &ready.fd));
    DONE(instanton_job_serve(job));
    CHECK(0 == poll(&ready, 1, 0));
    CHECK((pid = fork()) >= 0);
    if (0 == pid) {
        late_comer(address);
    }
    limit(1);
    for (int turn = 0; turn < 100 && !is_quiet; turn++) {
        CHECK(1 == poll(&ready, 1, -1));
        DONE(instanton_job_serve(job));
        is_quiet = 0 == poll(&ready, 1, 0);
    }
    limit(0);
    CHECK(is_quiet);
    serve(job, pid);
    instanton_job_free(job);

    /* A reader by a name needs descriptors as well. */
    job = job_on("alpha", 4);
    snprintf(path, sizeof(path), "/tmp/instanton-scarce-%d", (int) getpid());
    DONE(instanton_job_link(job, path, INSTANTON_READERS_USER));
    DONE(instanton_job_publish(job));
    limit(1);
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_view_map(path, INSTANTON_OWNER_SELF, &view) && NULL == view);
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_view_post_mortem(path, INSTANTON_OWNER_SELF, &view));
    limit(0);
    DONE(instanton_view_map(path, INSTANTON_OWNER_SELF, &view));
    instanton_view_free(view);
    instanton_job_free(job);
    free(much);
    puts("ok");
    return 0;
}
