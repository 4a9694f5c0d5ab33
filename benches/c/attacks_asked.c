/* Attacks by what is asked: requests that wait, queries, groups, jobs to start, monitors and job control. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacks.h"

/* Chains of jobs that each start the next. */
#define CHAINS 4

static void spawned(pmix_status_t status, char nspace[], void *data)
{
    (void)status, (void)nspace, (void)data;
    end_one();
}

static void credential(pmix_status_t status, pmix_byte_object_t *bytes, pmix_info_t info[], size_t ninfo, void *data)
{
    (void)status, (void)bytes, (void)info, (void)ninfo, (void)data;
    end_one();
}

bool asked_request(const char *kind, pmix_status_t *status)
{
    static char *names[8193];
    char name[64];
    pmix_info_t info[2];
    size_t bytes;
    *status = PMIX_ERROR;
    snprintf(name, sizeof name, "name%u", next);
    if (IS("waits")) {
        char *one[2] = {name, NULL};
        info[0] = of_number(PMIX_WAIT, 0);
        return *status = PMIx_Lookup_nb(one, info, 1, found, NULL), true;
    }
    if (IS("fences")) {
        info[0] = of_number(PMIX_TIMEOUT, 1);
        info[1] = of_text("attribute", text(1900 << 10));
        return *status = PMIx_Fence_nb(with_victim, 2, info, 2, done, NULL), true;
    }
    if (IS("small-fences")) {
        info[0] = of_number(PMIX_TIMEOUT, 1);
        return *status = PMIx_Fence_nb(with_victim, 2, info, 1, done, NULL), true;
    }
    if (IS("own-fences"))
        return *status = PMIx_Fence_nb(&me, 1, NULL, 0, done, NULL), true;
    if (IS("clean-ups")) {
        char *path = text(1 << 20);
        memcpy(path, "/", 1);
        snprintf(path + 1, 32, "%u", next);
        path[strlen(path)] = 'x';
        info[0] = of_text(PMIX_REGISTER_CLEANUP, path);
        return *status = PMIx_Job_control_nb(NULL, 0, info, 1, told, NULL), true;
    }
    if (IS("queries") || IS("hosts") || IS("tables")) {
        bool is_of_hosts = IS("hosts");
        unsigned keys = IS("queries") ? 8192 : is_of_hosts ? 1 : 500;
        pmix_query_t query = {0};
        for (unsigned at = 0; at < keys; at++)
            names[at] = IS("queries") ? PMIX_QUERY_NAMESPACES : PMIX_QUERY_PROC_TABLE;
        names[keys] = NULL;
        query.keys = names;
        static char *hosts;
        if (hosts == NULL) {
            hosts = malloc(1 << 20);
            size_t length = 0;
            for (int host = 0; host < 100000; host++)
                length += (size_t)sprintf(hosts + length, "%sh%d", host == 0 ? "" : ",", host);
        }
        info[0] = of_text(PMIX_HOSTNAME, hosts);
        info[1] = of_text(PMIX_NSPACE, me.nspace);
        query.qualifiers = is_of_hosts ? info : info + 1;
        query.nqual = 1;
        return *status = PMIx_Query_info_nb(&query, 1, told, NULL), true;
    }
    if (IS("invitations"))
        return *status = PMIx_Group_invite_nb(name, with_victim, 2, NULL, 0, told, NULL), true;
    if (IS("constructs"))
        return *status = PMIx_Group_construct_nb(name, with_victim, 2, NULL, 0, told, NULL), true;
    if (IS("groups")) {
        pmix_info_t *results;
        if (PMIx_Group_construct(name, &me, 1, NULL, 0, &results, &bytes) == PMIX_SUCCESS)
            PMIx_Group_destruct(name, NULL, 0);
        return true;
    }
    if (IS("kept-groups"))
        return *status = PMIx_Group_construct_nb(name, &me, 1, NULL, 0, told, NULL), true;
    if (IS("spawns")) {
        char *words[2] = {"true", NULL};
        pmix_app_t app = {.cmd = "true", .argv = words, .maxprocs = 1};
        return *status = PMIx_Spawn_nb(NULL, 0, &app, 1, spawned, NULL), true;
    }
    if (IS("monitors")) {
        info[0] = of_number(PMIX_MONITOR_HEARTBEAT_TIME, 1);
        info[0].value.type = PMIX_UINT32;
        pmix_info_t monitor = of_truth(PMIX_MONITOR_HEARTBEAT);
        return *status = PMIx_Process_monitor_nb(&monitor, -5001, info, 1, told, NULL), true;
    }
    if (IS("files")) {
        pmix_info_t monitor = of_text(PMIX_MONITOR_FILE, "/etc/passwd");
        info[0] = of_number(PMIX_MONITOR_FILE_CHECK_TIME, 1);
        info[0].value.type = PMIX_UINT32;
        info[1] = of_truth(PMIX_MONITOR_FILE_SIZE);
        return *status = PMIx_Process_monitor_nb(&monitor, -5002, info, 2, told, NULL), true;
    }
    if (IS("heartbeats")) {
        pmix_info_t beat = of_truth(PMIX_SEND_HEARTBEAT);
        return *status = PMIx_Process_monitor_nb(&beat, PMIX_SUCCESS, NULL, 0, told, NULL), true;
    }
    if (IS("tools")) {
        if (fork() == 0) {
            pmix_proc_t tool;
            execl("/proc/self/exe", "attacks", "tool", over, NULL);
            _exit(PMIx_tool_init(&tool, NULL, 0));
        }
        return wait(NULL), true;
    }
    if (IS("crowds-of-spawned")) {
        char *words[2] = {"true", NULL};
        pmix_app_t app = {.cmd = "true", .argv = words, .maxprocs = CROWD};
        pmix_nspace_t nspace;
        return PMIx_Spawn(NULL, 0, &app, 1, nspace), true;
    }
    if (IS("chains-of-spawned")) {
        if (next <= CHAINS)
            return spawn_more("link", 1), true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        return true;
    }
    if (IS("large-spawns")) {
        char *words[2] = {"true", NULL}, *environment[2] = {text(20 << 20), NULL};
        memcpy(environment[0], "NAME=", 5);
        pmix_app_t app = {.cmd = "true", .argv = words, .env = environment, .maxprocs = 1};
        pmix_nspace_t nspace;
        PMIx_Spawn(NULL, 0, &app, 1, nspace);
        memset(environment[0], 'x', 5);
        return true;
    }
    if (IS("codes")) {
        static pmix_status_t codes[8000];
        for (int code = 0; code < 8000; code++)
            codes[code] = -10000 - code;
        int handler = PMIx_Register_event_handler(codes, 8000, NULL, 0, handled, NULL, NULL);
        if (handler >= 0)
            PMIx_Deregister_event_handler((size_t)handler, NULL, NULL);
        return true;
    }
    if (IS("connections")) {
        if (fork() == 0) {
            _exit(PMIx_Init(NULL, NULL, 0) == PMIX_SUCCESS ? 0 : 1);
        }
        return true;
    }
    if (IS("credentials"))
        return *status = PMIx_Get_credential_nb(NULL, 0, credential, NULL), true;
    if (IS("connects"))  {
        info[0] = of_number(PMIX_TIMEOUT, 1);
        return *status = PMIx_Connect_nb(with_victim, 2, info, 1, done, NULL), true;
    }
    /* The resources that processes take of the machine, of the same ones again and again. */
    if (IS("measures")) {
        static pmix_proc_t *all;
        enum { NAMED = 100000 };
        if (all == NULL) {
            all = malloc(NAMED * sizeof *all);
            for (unsigned at = 0; at < NAMED; at++)
                PMIX_LOAD_PROCID(&all[at], me.nspace, PMIX_RANK_WILDCARD);
        }
        pmix_data_array_t named = {.type = PMIX_PROC, .size = next % 2 ? NAMED : 8000, .array = all};
        pmix_info_t monitor = of_truth(PMIX_MONITOR_PROC_RESOURCE_USAGE);
        PMIX_LOAD_KEY(info[0].key, PMIX_MONITOR_TARGET_PROCS);
        info[0].flags = 0;
        info[0].value = (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = &named};
        return *status = PMIx_Process_monitor_nb(&monitor, PMIX_SUCCESS, info, 1, told, NULL), true;
    }
    if (IS("looks")) {
        pmix_info_t monitor = of_truth(PMIX_MONITOR_PROC_RESOURCE_USAGE);
        return *status = PMIx_Process_monitor_nb(&monitor, PMIX_SUCCESS, NULL, 0, told, NULL), true;
    }
    if (IS("usages")) {
        static pmix_query_t all[4000];
        char *one[2] = {PMIX_QUERY_MEMORY_USAGE, NULL};
        info[0] = of_text(PMIX_NSPACE, me.nspace);
        for (unsigned at = 0; at < 4000; at++)
            all[at] = (pmix_query_t){.keys = one, .qualifiers = info, .nqual = 1};
        return *status = PMIx_Query_info_nb(all, 4000, told, NULL), true;
    }
    /* Nobody listens, and each is told of each. */
    if (IS("checkpoints")) {
        static pmix_proc_t all[8000];
        for (unsigned at = 0; at < 8000; at++)
            all[at] = me;
        info[0] = of_text(PMIX_JOB_CTRL_CHECKPOINT, text(1 << 20));
        info[1] = of_truth(PMIX_JOB_CTRL_CHECKPOINT_EVENT);
        return *status = PMIx_Job_control_nb(all, 8000, info, 2, told, NULL), true;
    }
    /* Ends that are asked for under long names, of a process that takes no notice. */
    if (IS("named-ends")) {
        if (next == 1)
            signal(SIGTERM, SIG_IGN);
        info[0] = of_truth(PMIX_JOB_CTRL_TERMINATE);
        info[1] = of_text(PMIX_JOB_CTRL_ID, text(8 << 20));
        PMIx_Job_control(&me, 1, info, 2, NULL, NULL);
        if (next % 64 == 0) {
            info[0] = of_text(PMIX_JOB_CTRL_CANCEL, NULL);
            PMIx_Job_control(&me, 1, info, 1, NULL, NULL);
        }
        return true;
    }
    if (IS("aborts")) {
        pmix_proc_t nobody;
        PMIX_LOAD_PROCID(&nobody, me.nspace, 4000);
        PMIx_Abort(1, text(30 << 20), &nobody, 1);
        return true;
    }
    /* Each of many keys with each of many qualifiers. */
    if (IS("qualified-queries")) {
        static pmix_info_t many[8000];
        static char words[8000][16];
        pmix_query_t query = {0};
        for (int at = 0; at < 8000; at++) {
            many[at] = of_number("unknown", at);
            snprintf(words[at], 16, "pmix.k%d", at);
            names[at] = words[at];
        }
        names[8000] = NULL;
        query = (pmix_query_t){.keys = names, .qualifiers = many, .nqual = 8000};
        return *status = PMIx_Query_info_nb(&query, 1, told, NULL), true;
    }
    /* Reports of who waits and of the server's load, thousands at a time. */
    if (IS("reports")) {
        static pmix_query_t all[4000];
        static char *one[] = {"instanton.waiting", NULL}, *other[] = {"instanton.load", NULL};
        if (next < 5000)
            return *status = PMIx_Get_nb(&pair[next % 2], name, NULL, 0, got, NULL), true;
        for (unsigned at = 0; at < 4000; at++)
            all[at] = (pmix_query_t){.keys = at % 2 ? one : other};
        return *status = PMIx_Query_info_nb(all, 4000, told, NULL), true;
    }
    if (IS("allocations")) {
        info[0] = of_number(PMIX_ALLOC_NUM_NODES, 1);
        info[0].value.type = PMIX_UINT64;
        return *status = PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, info, 1, told, NULL), true;
    }
    return false;
}
