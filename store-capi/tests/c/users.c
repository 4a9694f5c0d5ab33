/* Readers of another user, by the address of a writer that is root's: they are refused in words, and let in when the
 * writer says so. */
#include "check.h"
#include <grp.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER = 65534 };

static void reader(const char *address, int expected)
{
    instanton_view_spec_t spec = INSTANTON_VIEW_SPEC_INIT;
    instanton_view_t *view = NULL;
    instanton_guard_t *guard = NULL;

    CHECK(0 == setgroups(0, NULL) && 0 == setgid(OTHER) && 0 == setuid(OTHER));
    spec.address = address;
    CHECK(expected == instanton_view_open(&spec, &view));
    if (INSTANTON_SUCCESS == expected) {
        DONE(instanton_view_pin(view, &guard));
        DONE(instanton_view_unpin(guard));
    }
    instanton_view_free(view);
    exit(0);
}

static void comes(instanton_job_t *job, const char *address, int expected)
{
    struct pollfd ready = { .events = POLLIN };
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (0 == pid) {
        reader(address, expected);
    }
    DONE(instanton_job_descriptor(job, &ready.fd));
    while (0 == waitpid(pid, &status, WNOHANG)) {
        CHECK(poll(&ready, 1, 20) >= 0);
        DONE(instanton_job_serve(job));
    }
    CHECK(0 == status);
}

int main(void)
{
    instanton_job_t *job = job_on("alpha", 4);
    char address[INSTANTON_ADDRESS_SIZE];

    CHECK(INSTANTON_ERR_INIT == instanton_job_allow(job, OTHER));
    DONE(instanton_job_publish(job));
    DONE(instanton_job_listen(job, address, sizeof(address)));
    if (0 == getuid()) {
        comes(job, address, INSTANTON_ERR_NO_PERMISSIONS);
        DONE(instanton_job_allow(job, OTHER));
        comes(job, address, INSTANTON_SUCCESS);
    }
    instanton_job_free(job);
    puts("ok");
    return 0;
}
