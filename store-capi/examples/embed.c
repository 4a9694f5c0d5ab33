/* A server that embeds the store: it describes a job of two processes, starts them, and publishes what they are to know.
 * The processes read it in place. An error ends the program with the library's words.
 *
 *   cc embed.c $(pkg-config --cflags --libs instanton_store) -o embed */
/* setenv and fork, where the compiler is asked for C without extensions. */
#define _POSIX_C_SOURCE 200809L
#include <instanton_store.h>
#include <pmix_common.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int status, const char *what)
{
    if (status != INSTANTON_SUCCESS) {
        fprintf(stderr, "%s: %d, %s\n", what, status, instanton_store_message());
        exit(1);
    }
}

/* A process of the job. In a real server it would be another program, which finds the address in its environment. */
static int process(uint32_t rank)
{
    instanton_view_t *view;
    instanton_guard_t *guard;
    instanton_value_t card = INSTANTON_VALUE_INIT;
    struct pmix_value *size;
    int status;

    must(instanton_view_open(NULL, &view), "open");
    /* A copy, which free() releases. */
    must(instanton_view_get(view, INSTANTON_RANK_WILDCARD, PMIX_JOB_SIZE, &size), PMIX_JOB_SIZE);
    /* A value that is not there yet: remember how often readers were woken, look, and sleep until they are woken
     * again. */
    for (;;) {
        uint32_t seen = instanton_view_releases(view);
        must(instanton_view_pin(view, &guard), "pin");
        status = instanton_view_peek(guard, 1 - rank, "card", &card);
        if (status == INSTANTON_SUCCESS) {
            break;
        }
        instanton_view_unpin(guard);
        if (status != INSTANTON_ERR_NOT_FOUND) {
            must(status, "card");
        }
        must(instanton_view_wait(view, seen, 30000), "wait");
    }
    /* In place, until the guard is given back. */
    printf("rank %u of %u sees \"%.*s\"\n", rank, size->data.uint32, (int) card.length, (const char *) card.bytes);
    must(instanton_view_unpin(guard), "unpin");
    free(size);
    instanton_view_free(view);
    return 0;
}

int main(void)
{
    instanton_job_spec_t spec = INSTANTON_JOB_SPEC_INIT;
    instanton_job_t *job;
    char address[INSTANTON_ADDRESS_SIZE], text[32];
    struct pollfd asked = { .events = POLLIN };
    int left = 2, status, failed = 0;

    /* 1. Describe the job, and write what is known of it to shared memory. */
    spec.nspace = "job@1";
    spec.own_host = "alpha";
    spec.node_map = "alpha";
    spec.proc_map = "0-1";
    spec.local_procs = 2;
    must(instanton_job_create(&spec, &job), "create");
    must(instanton_job_publish(job), "publish");

    /* 2. Tell its processes where it is. A forked child leaves the job alone. */
    must(instanton_job_listen(job, address, sizeof(address)), "listen");
    setenv(INSTANTON_ADDRESS_VARIABLE, address, 1);
    for (uint32_t rank = 0; rank < 2; rank++) {
        if (fork() == 0) {
            exit(process(rank));
        }
    }

    /* 3. Publish what they post, and wake who waits for it. */
    for (uint32_t rank = 0; rank < 2; rank++) {
        instanton_value_t card = INSTANTON_VALUE_INIT;
        snprintf(text, sizeof(text), "card of rank %u", rank);
        card.type = PMIX_STRING;
        card.form = INSTANTON_TEXT;
        card.bytes = text;
        card.length = SIZE_MAX;
        must(instanton_job_put(job, rank, INSTANTON_SCOPE_GLOBAL, "card", &card), "put");
        must(instanton_job_commit(job, rank), "commit");
    }
    must(instanton_job_wake(job), "wake");

    /* 4. Answer readers whenever they ask: for segments, mostly at their beginning. */
    must(instanton_job_descriptor(job, &asked.fd), "descriptor");
    while (left > 0) {
        poll(&asked, 1, 20);
        must(instanton_job_serve(job), "serve");
        while (left > 0 && waitpid(-1, &status, WNOHANG) > 0) {
            failed |= status;
            left--;
        }
    }
    instanton_job_free(job);
    return failed != 0;
}
