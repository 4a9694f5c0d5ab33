/* A rank of instanton run that starts a program which copies its input, pushes to it and pulls what it says: everything comes back, in order and to
 * its end. Then the program is started again, and its input ends with what the rank aborts. */
#include "check.h"
#include "wait.h"
#include <pmix_tool.h>

enum { MUCH = 3000000 };
static char got[MUCH], sent[MUCH];
static size_t length;
static int ends, readies;

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                      pmix_info_t info[], size_t ninfo) {
    (void)id;
    CHECK(source->rank == 0);
    if (bytes->size == 0) {
        bool complete = false;
        for (size_t i = 0; i < ninfo; i++)
            complete |= PMIx_Check_key(info[i].key, PMIX_IOF_COMPLETE);
        CHECK(complete);
        set(&ends);
        return;
    }
    CHECK(channel == PMIX_FWD_STDOUT_CHANNEL && length + bytes->size <= MUCH);
    memcpy(got + length, bytes->bytes, bytes->size);
    length += bytes->size;
}

static void ready(pmix_status_t status, size_t number, void *what) {
    OK(status);
    *(size_t *)what = number;
    set(&readies);
}

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

static void start(pmix_proc_t *all) {
    char *argv[] = {"cat", NULL};
    pmix_app_t app = {.cmd = "cat", .argv = argv, .maxprocs = 1};
    pmix_info_t info[3];
    const char *keys[] = {PMIX_FWD_STDIN, PMIX_FWD_STDOUT, PMIX_FWD_STDERR};
    for (int i = 0; i < 3; i++) {
        PMIX_INFO_CONSTRUCT(&info[i]);
        OK(PMIx_Info_load(&info[i], keys[i], NULL, PMIX_BOOL));
        PMIx_Info_required(&info[i]);
    }
    PMIx_Proc_load(all, "", PMIX_RANK_WILDCARD);
    OK(PMIx_Spawn(info, 3, &app, 1, all->nspace));
}

int main(void) {
    pmix_proc_t me, all;
    pmix_info_t room;
    uint32_t size = 16 << 20;
    size_t pull;
    OK(PMIx_Init(&me, NULL, 0));
    start(&all);
    for (size_t i = 0; i < MUCH; i++)
        sent[i] = (char)(i % 251);
    int pushed = 0, pushes = 0;
    for (size_t at = 0; at < MUCH; at += 100000) {
        pmix_byte_object_t bytes = {sent + at, 100000};
        OK(PMIx_IOF_push(&all, 1, &bytes, NULL, 0, done, &pushed));
        pushes++;
        if (at == 0) {
            /* Its output so far is there as well. */
            until(&pushed, 1);
            OK(PMIx_Info_load(&room, PMIX_IOF_CACHE_SIZE, &size, PMIX_UINT32));
            OK(PMIx_IOF_pull(&all, 1, &room, 1, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, on_output, ready, &pull));
            until(&readies, 1);
        }
    }
    until(&pushed, pushes);
    OK(PMIx_IOF_push(&all, 1, &(pmix_byte_object_t){NULL, 0}, NULL, 0, NULL, NULL));
    until(&ends, 2);
    CHECK(length == MUCH && !memcmp(got, sent, MUCH));
    OK(PMIx_IOF_deregister(pull, NULL, 0, NULL, NULL));

    start(&all);
    OK(PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, on_output, ready, &pull));
    OK(PMIx_Abort(1, "enough", &all, 1));
    until(&ends, 4);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}
