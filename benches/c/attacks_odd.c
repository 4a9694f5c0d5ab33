/* Attacks by requests that hardly anybody makes: odd ones, or ordinary ones with odd contents. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attacks.h"

static void spawned(pmix_status_t status, char nspace[], void *data)
{
    (void)nspace;
    done(status, data);
}

static void registered(pmix_status_t status, size_t number, void *data)
{
    (void)number;
    done(status, data);
}

/* Output is pulled no longer. */
static void stopped(pmix_status_t status, size_t number, void *data)
{
    if (status == PMIX_SUCCESS)
        PMIx_IOF_deregister(number, NULL, 0, NULL, NULL);
    done(status, data);
}

static void measured(pmix_status_t status, pmix_device_distance_t *distances, size_t count, void *data,
                     pmix_release_cbfunc_t release, void *release_data)
{
    (void)distances, (void)count;
    if (release != NULL)
        release(release_data);
    done(status, data);
}

static pmix_info_t of_number64(const char *key, uint64_t number)
{
    pmix_info_t info = of_number(key, 0);
    info.value = (pmix_value_t){.type = PMIX_UINT64, .data.uint64 = number};
    return info;
}

static pmix_info_t of_byte(const char *key, pmix_data_type_t type, uint8_t number)
{
    pmix_info_t info = of_number(key, 0);
    info.value = (pmix_value_t){.type = type, .data.byte = number};
    return info;
}

/* A list of so many bytes that repeats a part. */
static char *list(const char *part, size_t bytes)
{
    char *all = malloc(bytes + 1);
    size_t length = strlen(part);
    for (size_t at = 0; at < bytes; at++)
        all[at] = part[at % length];
    all[bytes] = '\0';
    return all;
}

/* Topologies and cpusets of sizes that no machine has. */
static pmix_status_t hardware(void)
{
    static char *sets[4], *xml;
    static pmix_data_array_t array;
    static pmix_value_t values[2];
    if (xml == NULL) {
        sets[0] = "hwloc:0-4294967295";
        sets[1] = list("0-99999999999,", 1 << 20);
        sets[2] = list("0xffffffff,", 4 << 20);
        memcpy(sets[2], "hwloc:", 6);
        sets[3] = list("1,3,5,", 1 << 20);
        xml = malloc(8 << 20);
        size_t length = (size_t)sprintf(xml, "<?xml version=\"1.0\"?><topology version=\"2.0\">");
        for (int depth = 0; depth < 60000; depth++)
            length += (size_t)sprintf(xml + length, "<object type=\"Group\" cpuset=\"0xf...f\" complete_cpuset=\"0x1\">");
    }
    static pmix_topology_t topology = {.source = "hwloc"};
    static pmix_cpuset_t cpuset = {.source = "hwloc"};
    topology.topology = NULL;
    cpuset.bitmap = NULL;
    pmix_info_t info[2] = {of_text(PMIX_CPUSET, sets[next % 4]), of_text("pmix.topo2", xml)};
    pmix_query_t query = {.qualifiers = info, .nqual = 2};
    static char *keys[] = {PMIX_CPUSET, "pmix.topo2", "pmix.hwlocxml2", PMIX_QUERY_NAMESPACES, NULL};
    query.keys = keys;
    values[0] = (pmix_value_t){.type = PMIX_STRING, .data.string = sets[(next + 1) % 4]};
    array = (pmix_data_array_t){.type = PMIX_VALUE, .size = 1, .array = values};
    switch (next % 3) {
    case 0:
        return PMIx_Query_info_nb(&query, 1, told, NULL);
    case 1:
        info[1] = of_array(PMIX_ALLOC_FABRIC, &array);
        return PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, info, 2, told, NULL);
    default:
        return PMIx_Compute_distances_nb(&topology, &cpuset, info, 2, measured, NULL);
    }
}

/* Allocations that nobody can give, under names that there are not, with lists of megabytes. */
static pmix_status_t allocation(void)
{
    static char *nodes, *cpus;
    if (nodes == NULL) {
        nodes = list("node[0-4294967295],", 1 << 20);
        cpus = list("0-4294967295:1,", 1 << 20);
    }
    static const pmix_alloc_directive_t all[] = {PMIX_ALLOC_NEW, PMIX_ALLOC_EXTEND, PMIX_ALLOC_RELEASE,
                                                 PMIX_ALLOC_REAQUIRE, PMIX_ALLOC_REQ_CANCEL, 127, 255};
    char name[32];
    snprintf(name, sizeof name, "id%u", next % 7);
    pmix_info_t info[] = {
        of_text(PMIX_ALLOC_ID, name), of_text(PMIX_ALLOC_REQ_ID, name), of_number64(PMIX_ALLOC_NUM_NODES, UINT64_MAX),
        of_number64(PMIX_ALLOC_NUM_CPUS, UINT64_MAX - next), of_text(PMIX_ALLOC_NODE_LIST, nodes),
        of_text(PMIX_ALLOC_NUM_CPU_LIST, cpus), of_text(PMIX_ALLOC_CPU_LIST, cpus), of_text(PMIX_ALLOC_TIME, nodes),
        of_text(PMIX_ALLOC_EXCLUDE, nodes)};
    size_t from = next % 3;
    return PMIx_Allocation_request_nb(all[next % 7], info + from, 1 + next % (9 - from), told, NULL);
}

static pmix_status_t session(void)
{
    static char *nodes;
    if (nodes == NULL)
        nodes = list("node,", 1 << 20);
    char name[32];
    snprintf(name, sizeof name, "id%u", next);
    static const char *truths[] = {PMIX_SESSION_PAUSE, PMIX_SESSION_RESUME, PMIX_SESSION_TERMINATE,
                                   PMIX_SESSION_INSTANTIATE, PMIX_SESSION_PREEMPT, PMIX_SESSION_RESTORE};
    pmix_info_t info[] = {of_text(PMIX_SESSION_CTRL_ID, name), of_truth(truths[next % 6]),
                          of_text(PMIX_SESSION_PROVISION_NODES, nodes), of_number(PMIX_SESSION_SIGNAL, 0)};
    return PMIx_Session_control(next % 2 ? UINT32_MAX : next, info, 1 + next % 4, told, NULL);
}

/* Makes a copy of this program whose loader is a script of ours, which never ends or prints without end. */
static const char *with_loader(bool prints)
{
    static char paths[2][4200];
    char *path = paths[prints], directory[4096], loader[4160], *bytes = malloc(1 << 20);
    if (path[0] != '\0')
        return free(bytes), path;
    snprintf(directory, sizeof directory, "%s", over);
    *strrchr(directory, '/') = '\0';
    snprintf(loader, sizeof loader, "%s/%c", directory, prints ? 'p' : 'w');
    snprintf(path, sizeof paths[0], "%s/of-%c", directory, prints ? 'p' : 'w');
    FILE *script = fopen(loader, "w"), *from = fopen("/proc/self/exe", "r"), *to = fopen(path, "w");
    fputs(prints ? "#!/bin/sh\nexec yes\n" : "#!/bin/sh\nexec sleep 1000\n", script);
    size_t length = fread(bytes, 1, 1 << 20, from);
    static const char usual[] = "/lib64/ld-linux-x86-64.so.2";
    char *at = memmem(bytes, length, usual, sizeof usual);
    if (at == NULL || strlen(loader) >= sizeof usual)
        exit(3);
    memset(at, 0, sizeof usual);
    memcpy(at, loader, strlen(loader));
    fwrite(bytes, 1, length, to);
    fclose(script), fclose(from), fclose(to);
    chmod(loader, 0755), chmod(path, 0755);
    return free(bytes), path;
}

/* Process sets of others: connects and disconnects that overlap and never match. */
static pmix_status_t overlapping(void)
{
    pmix_proc_t set[4] = {me, pair[next % 2], pair[(next + 1) % 2], me};
    if (next % 5 == 0)
        PMIX_LOAD_PROCID(&set[3], me.nspace, PMIX_RANK_WILDCARD);
    pmix_info_t limit = of_number(PMIX_TIMEOUT, 1);
    size_t count = 1 + next % 4;
    return next % 3 ? PMIx_Connect_nb(set, count, &limit, 1, done, NULL)
                    : PMIx_Disconnect_nb(set, count, &limit, 1, done, NULL);
}

int tool_floods(const char *word)
{
    pmix_proc_t tool;
    unsetenv("PMIX_NAMESPACE"), unsetenv("PMIX_RANK");
    if (PMIx_tool_init(&tool, NULL, 0) != PMIX_SUCCESS)
        return 1;
    static char *keys[501];
    for (int at = 0; at < 500; at++)
        keys[at] = PMIX_QUERY_PROC_TABLE;
    pmix_info_t info = of_text(PMIX_NSPACE, getenv("ATTACKED"));
    pmix_query_t query = {.keys = keys, .qualifiers = &info, .nqual = 1};
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, getenv("ATTACKED"), PMIX_RANK_WILDCARD);
    while (!is_over()) {
        for (int at = 0; at < 100; at++) {
            begin_one();
            if (strcmp(word, "tool-queries") == 0)
                PMIx_Query_info_nb(&query, 1, told, NULL);
            else if (strcmp(word, "tool-events") == 0)
                PMIx_Notify_event(-5000, &tool, PMIX_RANGE_GLOBAL, NULL, 0, done, NULL);
            else
                PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, printed, stopped, NULL);
        }
        usleep(1000);
    }
    _exit(0);
}

bool odd_request(const char *kind, pmix_status_t *status)
{
    static char *names[8193];
    char name[600];
    pmix_info_t info[4];
    snprintf(name, sizeof name, "name%u", next);
    if (IS("hardware"))
        return *status = hardware(), true;
    if (IS("odd-allocations"))
        return *status = allocation(), true;
    if (IS("sessions"))
        return *status = session(), true;
    if (IS("overlapping"))
        return *status = overlapping(), true;
    /* The data of another job, that there is or not. */
    if (IS("gets-of-jobs")) {
        pmix_proc_t other;
        snprintf(name, sizeof name, "%s.%u", me.nspace, next % 5000);
        PMIX_LOAD_PROCID(&other, name, next % 3 ? next % 5 : PMIX_RANK_WILDCARD);
        return *status = PMIx_Get_nb(&other, next % 7 ? "key" : NULL, NULL, 0, got, NULL), true;
    }
    /* All attributes that anybody supports. */
    if (IS("supports")) {
        static pmix_query_t all[1000];
        static char *one[] = {PMIX_QUERY_ATTRIBUTE_SUPPORT, NULL};
        static pmix_info_t of_all[3];
        static const char *whose[] = {PMIX_CLIENT_ATTRIBUTES, PMIX_SERVER_ATTRIBUTES, PMIX_HOST_ATTRIBUTES};
        for (int at = 0; at < 3; at++)
            of_all[at] = of_truth(whose[at]);
        for (unsigned at = 0; at < 1000; at++)
            all[at] = (pmix_query_t){.keys = one, .qualifiers = of_all, .nqual = 3};
        return *status = PMIx_Query_info_nb(all, next % 2 ? 1 : 1000, told, NULL), true;
    }
    if (IS("loaders") || IS("printing-loaders")) {
        const char *program = with_loader(IS("printing-loaders"));
        char *words[2] = {(char *)program, NULL};
        pmix_app_t app = {.cmd = (char *)program, .argv = words, .maxprocs = 1};
        return *status = PMIx_Spawn_nb(NULL, 0, &app, 1, spawned, NULL), true;
    }
    if (IS("tool-queries") || IS("tool-events") || IS("tool-pulls")) {
        if (next > 1)
            return usleep(10000), *status = PMIX_ERROR, true;
        setenv("ATTACKED", me.nspace, 1);
        for (int tool = 0; tool < TOOLS; tool++)
            if (fork() == 0) {
                execl("/proc/self/exe", "attacks", kind, over, "tool", NULL);
                _exit(1);
            }
        return *status = PMIX_ERROR, true;
    }
    /* Invitations, joins and declines that never match. */
    if (IS("joins")) {
        pmix_group_opt_t answer = next % 2 ? PMIX_GROUP_ACCEPT : PMIX_GROUP_DECLINE;
        switch (next % 4) {
        case 0:
            return *status = PMIx_Group_invite_nb(name, &me, 1, NULL, 0, told, NULL), true;
        case 1:
            return *status = PMIx_Group_join_nb(name, &pair[0], answer, NULL, 0, told, NULL), true;
        case 2:
            return *status = PMIx_Group_join_nb(name, NULL, answer, NULL, 0, told, NULL), true;
        default:
            return *status = PMIx_Group_leave_nb(name, NULL, 0, done, NULL), true;
        }
    }
    /* Signals that nobody minds, at others. */
    if (IS("signals")) {
        info[0] = of_number(PMIX_JOB_CTRL_SIGNAL, next % 2 ? SIGURG : SIGCONT);
        return *status = PMIx_Job_control_nb(pair, 2, info, 1, told, NULL), true;
    }
    if (IS("odd-controls")) {
        static const char *keys[] = {PMIX_JOB_CTRL_RESUME, PMIX_JOB_CTRL_PREEMPTIBLE, PMIX_JOB_CTRL_DEFINE_PSET,
                                     PMIX_JOB_CTRL_RESTART, PMIX_JOB_CTRL_PROVISION, PMIX_JOB_CTRL_CHECKPOINT_SIGNAL};
        info[0] = of_text(keys[next % 6], name);
        info[1] = of_text(PMIX_JOB_CTRL_ID, name);
        return *status = PMIx_Job_control_nb(pair, 2, info, 2, told, NULL), true;
    }
    if (IS("sets")) {
        info[0] = of_text(PMIX_JOB_CTRL_DEFINE_PSET, name);
        return *status = PMIx_Job_control_nb(pair, 2, info, 1, told, NULL), true;
    }
    if (IS("pull-churn"))
        return *status = PMIx_IOF_pull(pair, 2, NULL, 0, PMIX_FWD_ALL_CHANNELS, printed, stopped, NULL), true;
    if (IS("own-pushes")) {
        pmix_byte_object_t bytes = {.bytes = text(1 << 20), .size = 1 << 20};
        return *status = PMIx_IOF_push(&me, 1, &bytes, NULL, 0, done, NULL), true;
    }
    if (IS("all-pushes")) {
        pmix_proc_t all;
        PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
        pmix_byte_object_t bytes = {.bytes = text(100), .size = 100};
        return *status = PMIx_IOF_push(&all, 1, &bytes, NULL, 0, done, NULL), true;
    }
    /* Each range with each persistence, found by each range. */
    if (IS("ranges")) {
        static const uint8_t ranges[] = {0, 1, 2, 3, 4, 5, 6, 7, 254, 255}, persistences[] = {0, 1, 2, 3, 4, 200, 255};
        snprintf(name, sizeof name, "name%u", next % 2000);
        info[0] = of_text(name, text(1000));
        info[1] = of_byte(PMIX_RANGE, PMIX_DATA_RANGE, ranges[next % 10]);
        info[2] = of_byte(PMIX_PERSISTENCE, PMIX_PERSIST, persistences[next % 7]);
        char *one[] = {name, NULL};
        if (next % 3 == 0)
            return *status = PMIx_Lookup_nb(one, info + 1, 1, found, NULL), true;
        if (next % 3 == 1)
            return *status = PMIx_Unpublish_nb(one, info + 1, 1, done, NULL), true;
        return *status = PMIx_Publish_nb(info, 3, done, NULL), true;
    }
    /* Megabytes of one process, asked for by another node. */
    if (IS("far-data")) {
        if (next == 1)
            put(60, 500 << 10);
        pmix_proc_t other = {.rank = me.rank == 2 ? 3 : 2};
        PMIX_LOAD_NSPACE(other.nspace, me.nspace);
        info[0] = of_truth(PMIX_GET_REFRESH_CACHE);
        return *status = PMIx_Get_nb(&other, next % 2 ? "k1" : NULL, info, 1, got, NULL), true;
    }
    /* Keys that never come, of a process of another node that has posted others. */
    if (IS("awaited-keys")) {
        if (next == 1)
            put(1, 60 << 10);
        pmix_proc_t other = {.rank = me.rank == 2 ? 3 : 2};
        PMIX_LOAD_NSPACE(other.nspace, me.nspace);
        info[0] = of_number(PMIX_TIMEOUT, 1000);
        snprintf(name, sizeof name, "never%u.%u", me.rank, next);
        return *status = PMIx_Get_nb(&other, name, info, 1, got, NULL), true;
    }
    if (IS("monitor-churn")) {
        pmix_info_t monitor = of_truth(PMIX_MONITOR_HEARTBEAT), cancel = of_text(PMIX_MONITOR_CANCEL, name);
        info[0] = of_number(PMIX_MONITOR_HEARTBEAT_TIME, 1);
        info[1] = of_number(PMIX_MONITOR_HEARTBEAT_DROPS, 1);
        info[2] = of_text(PMIX_MONITOR_ID, name);
        info[0].value.type = info[1].value.type = PMIX_UINT32;
        begin_one();
        PMIx_Process_monitor_nb(&monitor, -5001, info, 3, told, NULL);
        PMIx_Heartbeat();
        return *status = PMIx_Process_monitor_nb(&cancel, PMIX_SUCCESS, NULL, 0, told, NULL), true;
    }
    /* Many whom nobody knows, of jobs that there are not. */
    if (IS("aborts-of-sets")) {
        static pmix_proc_t *all;
        if (all == NULL) {
            all = calloc(100000, sizeof *all);
            for (unsigned at = 0; at < 100000; at++) {
                snprintf(name, sizeof name, "%s.%u", me.nspace, at % 3000);
                PMIX_LOAD_PROCID(&all[at], name, at);
            }
        }
        return *status = PMIx_Abort(1, "", all, next % 2 ? 8000 : 100000), true;
    }
    if (IS("affected") || IS("million-codes")) {
        static pmix_status_t *codes;
        static pmix_proc_t *procs;
        enum { MANY = 1000000 };
        if (codes == NULL) {
            codes = malloc(MANY * sizeof *codes);
            procs = calloc(8000, sizeof *procs);
            for (int at = 0; at < MANY; at++)
                codes[at] = -10000 - at;
            for (unsigned at = 0; at < 8000; at++)
                PMIX_LOAD_PROCID(&procs[at], me.nspace, at);
        }
        pmix_data_array_t array = {.type = PMIX_PROC, .size = 8000, .array = procs};
        info[0] = of_array(PMIX_EVENT_AFFECTED_PROCS, &array);
        bool are_many = IS("million-codes");
        pmix_status_t of_event = -10000 - (int)(next % 16);
        if (next % 2 && !are_many)
            return *status = PMIx_Notify_event(of_event, &me, PMIX_RANGE_LOCAL, info, 1, done, NULL), true;
        return *status = PMIx_Register_event_handler(codes, are_many ? MANY : 16, info, are_many ? 0 : 1, handled,
                                                     registered, NULL),
               true;
    }
    /* The longest keys, as many as there is room for. */
    if (IS("longest-keys") || IS("more-longest-keys")) {
        unsigned at = 0, many = IS("longest-keys") ? 2000 : 500;
        pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = next};
        memset(name, 'k', 511);
        for (; at < many; at++) {
            snprintf(name + 500, 12, "%011u", IS("longest-keys") ? at : next * 500 + at);
            if (PMIx_Put(at % 3 == 0 ? PMIX_LOCAL : at % 3 == 1 ? PMIX_REMOTE : PMIX_GLOBAL, name, &value) != PMIX_SUCCESS)
                break;
        }
        return PMIx_Commit(), *status = PMIX_ERROR, true;
    }
    /* Values that are replaced, under guards that never go: all slots of its page hold what was first. */
    if (IS("held-guards")) {
        static volatile uint64_t *page;
        static unsigned words;
        if (next == 1) {
            put(8, 1000);
            PMIx_Fence(&me, 1, NULL, 0);
            pmix_value_t *read = NULL;
            if (PMIx_Get(&pair[0], "key0", NULL, 0, &read) == PMIX_SUCCESS)
                PMIX_VALUE_RELEASE(read);
            FILE *maps = fopen("/proc/self/maps", "r");
            char line[4096];
            while (fgets(line, sizeof line, maps) != NULL) {
                unsigned long from, to;
                char rights[8];
                if (strstr(line, "instanton") != NULL && sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 &&
                    rights[1] == 'w')
                    page = (volatile uint64_t *)from, words = (unsigned)(to - from) / 8;
            }
            fclose(maps);
            fprintf(stderr, "a page of %u words\n", words);
        }
        for (unsigned word = 8; page != NULL && word < words; word++)
            page[word] = 1 + next % 2;
        return put(1, 1000 + next % 60000), *status = PMIX_ERROR, true;
    }
    /* Answers that nobody takes, to the largest questions. */
    if (IS("everything")) {
        for (int at = 0; at < 8192; at++)
            names[at] = at % 2 ? PMIX_QUERY_JOB_STATUS : PMIX_QUERY_LOCAL_PROC_TABLE;
        pmix_query_t query = {.keys = names};
        return *status = PMIx_Query_info_nb(&query, 1, told, NULL), true;
    }
    return false;
}
