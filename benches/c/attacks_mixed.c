/* Attacks by calls in turn, from one thread, from several, and from clones with connections of their own; and by several
 * processes that fill all kinds of memory at once. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attacks.h"

/* Threads of an attacker. */
#define THREADS 8
/* Calls of a round. */
#define CALLS 10

static void credential(pmix_status_t status, pmix_byte_object_t *bytes, pmix_info_t info[], size_t ninfo, void *data)
{
    (void)bytes, (void)info, (void)ninfo;
    done(status, data);
}

static void validated(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *data)
{
    (void)info, (void)ninfo;
    done(status, data);
}

/* Makes a call that waits for its answer. */
static void call(unsigned round)
{
    char name[64];
    snprintf(name, sizeof name, "name%u", round % 64);
    char *names[] = {name, NULL}, *keys[] = {PMIX_QUERY_NAMESPACES, NULL};
    pmix_info_t info[2] = {of_text(name, name), of_truth(PMIX_IMMEDIATE)}, *results = NULL;
    pmix_pdata_t data = {.value.type = PMIX_UNDEF};
    pmix_query_t query = {.keys = keys};
    pmix_status_t code = -6000 - (int)(round % 64);
    pmix_value_t *value;
    size_t count;
    switch (round % CALLS) {
    case 0:
        if (PMIx_Get(&pair[round % 2], name, info + 1, 1, &value) == PMIX_SUCCESS)
            PMIX_VALUE_RELEASE(value);
        break;
    case 1:
        PMIx_Publish(info, 1);
        break;
    case 2:
        PMIX_LOAD_KEY(data.key, name);
        if (PMIx_Lookup(&data, 1, NULL, 0) == PMIX_SUCCESS)
            PMIX_VALUE_DESTRUCT(&data.value);
        break;
    case 3:
        PMIx_Unpublish(names, NULL, 0);
        break;
    case 4:
        if (PMIx_Query_info(&query, 1, &results, &count) == PMIX_SUCCESS)
            PMIX_INFO_FREE(results, count);
        break;
    case 5:
        PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL);
        break;
    case 6: {
        int handler = PMIx_Register_event_handler(&code, 1, NULL, 0, handled, NULL, NULL);
        if (handler >= 0)
            PMIx_Deregister_event_handler((size_t)handler, NULL, NULL);
        break;
    }
    case 7:
        PMIx_Heartbeat();
        break;
    case 8:
        put(1, 100);
        break;
    default:
        PMIx_Log(info, 0, NULL, 0);
    }
}

static void *calls(void *first)
{
    for (unsigned round = (unsigned)(size_t)first; !is_over(); round++)
        call(round);
    return NULL;
}

/* Answers that come to callbacks, of calls in turn. */
static pmix_status_t call_nb(void)
{
    char name[64];
    snprintf(name, sizeof name, "name%u", next % 1000);
    static char *names[2];
    names[0] = name;
    pmix_info_t info[2] = {of_text(name, name), of_truth(PMIX_IMMEDIATE)};
    switch (next % 8) {
    case 0:
        return PMIx_Get_nb(&pair[next / 8 % 2], name, info + 1, 1, got, NULL);
    case 1:
        return PMIx_Publish_nb(info, 1, done, NULL);
    case 2:
        return PMIx_Lookup_nb(names, NULL, 0, found, NULL);
    case 3:
        return PMIx_Unpublish_nb(names, NULL, 0, done, NULL);
    case 4:
        return PMIx_Fence_nb(&me, 1, NULL, 0, done, NULL);
    case 5:
        return PMIx_Get_credential_nb(NULL, 0, credential, NULL);
    case 6:
        return PMIx_Notify_event(-6000, &me, PMIX_RANGE_GLOBAL, info, 1, done, NULL);
    default:
        return PMIx_Connect_nb(&me, 1, NULL, 0, done, NULL);
    }
}

/* Fills shared memory, published data and what fences hold: a process each, and the fourth all of them. */
static pmix_status_t fill(void)
{
    char name[64];
    snprintf(name, sizeof name, "name%u.%u", me.rank, next);
    unsigned what = me.rank % 4 == 1 ? next % 3 : me.rank % 4;
    pmix_value_t value = {.type = PMIX_STRING, .data.string = text(what == 2 ? 500 << 10 : 1900 << 10)};
    pmix_info_t info[2] = {of_number(PMIX_TIMEOUT, 1), of_text(name, value.data.string)};
    usleep(next > 400 ? 10000 : 0);
    switch (what) {
    case 2:
        PMIx_Put(PMIX_GLOBAL, name, &value);
        return PMIx_Commit(), PMIX_ERROR;
    case 3:
        return PMIx_Fence_nb(with_victim, 2, info, 2, done, NULL);
    default:
        return PMIx_Publish_nb(info + 1, 1, done, NULL);
    }
}

bool mixed_request(const char *kind, pmix_status_t *status)
{
    pmix_info_t info[1];
    *status = PMIX_ERROR;
    if (IS("threads")) {
        pthread_t threads[THREADS];
        for (size_t at = 0; at < THREADS; at++)
            pthread_create(&threads[at], NULL, calls, (void *)at);
        for (size_t at = 0; at < THREADS; at++)
            pthread_join(threads[at], NULL);
        return true;
    }
    if (IS("asking-clones")) {
        for (size_t clone = 0; next == 1 && clone < TOOLS; clone++)
            if (fork() == 0) {
                PMIx_Init(NULL, NULL, 0);
                calls((void *)clone);
                _exit(0);
            }
        return usleep(10000), true;
    }
    if (IS("calls"))
        return *status = call_nb(), true;
    if (IS("all-memory"))
        return *status = fill(), true;
    /* The same by the ranks of three jobs that this one has started. */
    if (IS("spawned-memory")) {
        if (next <= 3)
            spawn_more("all-memory", 4);
        return usleep(10000), true;
    }
    /* Requests that wait, with lists of what is short in a message. */
    if (IS("short-lists")) {
        static pmix_info_t list[2500];
        char key[64];
        for (size_t at = 0; at < sizeof list / sizeof *list; at++)
            list[at] = of_truth("x");
        snprintf(key, sizeof key, "never%u", next);
        return *status = PMIx_Get_nb(&pair[0], key, list, sizeof list / sizeof *list, got, NULL), true;
    }
    if (IS("short-arrays")) {
        static bool elements[20000];
        pmix_data_array_t array = {.type = PMIX_BOOL, .size = sizeof elements / sizeof *elements, .array = elements};
        pmix_info_t both[2] = {of_number(PMIX_TIMEOUT, 1), of_array("x", &array)};
        return *status = PMIx_Fence_nb(with_victim, 2, both, 2, done, NULL), true;
    }
    /* Handlers that come and go. */
    if (IS("handlers")) {
        pmix_status_t code = -6000 - (int)(next % 1000);
        int handler = PMIx_Register_event_handler(&code, 1, NULL, 0, handled, NULL, NULL);
        if (handler >= 0)
            PMIx_Deregister_event_handler((size_t)handler, NULL, NULL);
        return true;
    }
    /* The data that a victim has posted, and that its namespace has, not from memory but from the server. */
    if (IS("refreshes")) {
        info[0] = of_truth(PMIX_GET_REFRESH_CACHE);
        return *status = PMIx_Get_nb(&pair[next % 2], next % 4 < 2 ? "key0" : PMIX_LOCAL_PEERS, info, 1, got, NULL), true;
    }
    if (IS("resolves")) {
        char nodes[32], *all = NULL;
        pmix_proc_t *procs = NULL;
        size_t count = 0;
        snprintf(nodes, sizeof nodes, "nothing%u", next);
        PMIx_Resolve_peers(NULL, next % 2 ? nodes : me.nspace, &procs, &count);
        PMIx_Resolve_nodes(next % 3 ? nodes : me.nspace, &all);
        free(procs);
        free(all);
        return true;
    }
    if (IS("validations")) {
        pmix_byte_object_t bytes = {.bytes = text(1 << 20), .size = next % 2 ? 1 << 20 : 100};
        return *status = PMIx_Validate_credential_nb(&bytes, NULL, 0, validated, NULL), true;
    }
    return false;
}
