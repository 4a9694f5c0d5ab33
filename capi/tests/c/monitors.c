/* A process that shows no sign of life: no heartbeats, and a file that does not change. The host embeds a server, rank 0 is
 * monitored, and rank 1 prints what it hears of that. Without arguments only what every library does, so that what is printed
 * can be compared; with "more" what the Standard has besides. */
#include "check.h"
#include "wait.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MINE = -2345, OVER = -2346, MAX = 64 };

static const char *job = "job@1", *mode;
static int heard, at_host, answers, prints;
static pmix_status_t last, answer;

static void hear(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                 pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)info, (void)ninfo, (void)results, (void)nresults;
    CHECK(!strcmp(source->nspace, job));
    if (prints)
        printf("%d of rank %u\n", status, source->rank);
    last = status;
    set(&heard);
    next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void answered(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *what, pmix_release_cbfunc_t release,
                     void *release_data) {
    (void)info, (void)ninfo;
    answer = status;
    if (release)
        release(release_data);
    set(what);
}

static pmix_info_t given[4];
static size_t ngiven;

static void with(const char *key, const void *value, pmix_data_type_t type) {
    PMIX_INFO_LOAD(&given[ngiven], key, value, type);
    ngiven++;
}

static void with_number(const char *key, uint32_t value) {
    with(key, &value, PMIX_UINT32);
}

/* Asks with what is given, which is used up then. */
static pmix_status_t monitor(const char *key, const char *text, pmix_status_t alarm) {
    static int want;
    pmix_info_t what;
    PMIX_INFO_LOAD(&what, key, text, text ? PMIX_STRING : PMIX_POINTER);
    OK(PMIx_Process_monitor_nb(&what, alarm, given, ngiven, answered, &answers));
    until(&answers, ++want);
    PMIX_INFO_DESTRUCT(&what);
    for (; ngiven; ngiven--)
        PMIX_INFO_DESTRUCT(&given[ngiven - 1]);
    return answer;
}

static void fence(void) {
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, job, PMIX_RANK_WILDCARD);
    OK(PMIx_Fence(&all, 1, NULL, 0));
}

static void beat(void) {
    pmix_info_t what;
    PMIX_INFO_LOAD(&what, PMIX_SEND_HEARTBEAT, NULL, PMIX_POINTER);
    OK(PMIx_Process_monitor_nb(&what, PMIX_SUCCESS, NULL, 0, NULL, NULL));
}

static void watched(const char *file) {
    bool yes = true;
    IS(PMIX_ERR_BAD_PARAM, monitor(PMIX_MONITOR_HEARTBEAT, NULL, PMIX_MONITOR_HEARTBEAT_ALERT));
    with_number(PMIX_MONITOR_HEARTBEAT_TIME, 1);
    OK(monitor(PMIX_MONITOR_HEARTBEAT, NULL, PMIX_MONITOR_HEARTBEAT_ALERT));
    fence(); /* The first alarm, and no second one without life between. */
    beat();
    fence(); /* The second alarm. */
    IS(PMIX_ERR_BAD_PARAM, monitor(PMIX_MONITOR_FILE, file, PMIX_MONITOR_FILE_ALERT));
    with_number(PMIX_MONITOR_FILE_CHECK_TIME, 1);
    IS(PMIX_ERR_BAD_PARAM, monitor(PMIX_MONITOR_FILE, file, PMIX_MONITOR_FILE_ALERT));
    with("pmix.monitor.fsize", &yes, PMIX_BOOL);
    with_number(PMIX_MONITOR_FILE_DROPS, 2);
    IS(PMIX_ERR_BAD_PARAM, monitor(PMIX_MONITOR_FILE, file, PMIX_MONITOR_FILE_ALERT));
    with_number(PMIX_MONITOR_FILE_CHECK_TIME, 1);
    with("pmix.monitor.fsize", &yes, PMIX_BOOL);
    with_number(PMIX_MONITOR_FILE_DROPS, 1);
    OK(monitor(PMIX_MONITOR_FILE, file, PMIX_MONITOR_FILE_ALERT));
    fence();
}

static void watcher(void) {
    for (int alarms = 1; alarms <= 3; alarms++) {
        until(&heard, alarms);
        fence();
    }
}

/* The code is the one that was asked for, and the one that asked hears it as well. A named monitor can be taken back, and what
 * has no monitor here is the host's. */
static void watched_more(const char *file) {
    with_number(PMIX_MONITOR_HEARTBEAT_TIME, 1);
    with_number(PMIX_MONITOR_HEARTBEAT_DROPS, 2);
    OK(monitor(PMIX_MONITOR_HEARTBEAT, NULL, MINE));
    until(&heard, 1);
    IS(MINE, last);
    PMIx_Heartbeat(); /* A second alarm follows none but a sign of life. */
    until(&heard, 2);
    fence();
    OK(monitor(PMIX_MONITOR_CANCEL, NULL, PMIX_SUCCESS));
    for (int i = 0; i <= MAX; i++) {
        with_number(PMIX_MONITOR_HEARTBEAT_TIME, 3600);
        with(PMIX_MONITOR_ID, i ? "others" : "first", PMIX_STRING);
        IS(i < MAX ? PMIX_SUCCESS : PMIX_ERR_OUT_OF_RESOURCE, monitor(PMIX_MONITOR_HEARTBEAT, NULL, MINE));
    }
    OK(monitor(PMIX_MONITOR_CANCEL, "first", PMIX_SUCCESS));
    IS(PMIX_ERR_NOT_FOUND, monitor(PMIX_MONITOR_CANCEL, "first", PMIX_SUCCESS));
    OK(monitor(PMIX_MONITOR_CANCEL, "others", PMIX_SUCCESS));
    IS(PMIX_ERR_NOT_FOUND, monitor(PMIX_MONITOR_CANCEL, "others", PMIX_SUCCESS));
    IS(PMIX_ERR_NOT_AVAILABLE, monitor("a.host's", file, MINE));
    with_number(PMIX_MONITOR_FILE_CHECK_TIME, 3600);
    with(PMIX_MONITOR_FILE_MODIFY, "modified", PMIX_STRING);
    OK(monitor(PMIX_MONITOR_FILE, file, MINE));
    /* For this process alone: rank 1 counts what it hears. */
    pmix_data_range_t range = PMIX_RANGE_PROC_LOCAL;
    with_number(PMIX_MONITOR_HEARTBEAT_TIME, 1);
    with(PMIX_RANGE, &range, PMIX_DATA_RANGE);
    OK(monitor(PMIX_MONITOR_HEARTBEAT, NULL, MINE));
    until(&heard, 3);
    IS(MINE, last);
    /* This one ends with its process: rank 1 hears of the end, and then of what it asks for itself. */
    with_number(PMIX_MONITOR_HEARTBEAT_TIME, 5);
    OK(monitor(PMIX_MONITOR_HEARTBEAT, NULL, MINE));
}

static void watcher_more(void) {
    until(&heard, 2);
    IS(MINE, last);
    fence();
    until(&heard, 3);
    IS(OVER, last);
    with_number(PMIX_MONITOR_HEARTBEAT_TIME, 1);
    with_number(PMIX_MONITOR_HEARTBEAT_DROPS, 6);
    OK(monitor(PMIX_MONITOR_HEARTBEAT, NULL, PMIX_SUCCESS));
    until(&heard, 4);
    IS(PMIX_MONITOR_HEARTBEAT_ALERT, last);
}

static int client(int rank, const char *file) {
    pmix_proc_t me;
    pmix_status_t codes[] = {PMIX_MONITOR_HEARTBEAT_ALERT, PMIX_MONITOR_FILE_ALERT, MINE, OVER};
    OK(PMIx_Init(&me, NULL, 0));
    CHECK(PMIx_Register_event_handler(codes, 4, NULL, 0, hear, NULL, NULL) >= 0);
    fence();
    prints = !mode && rank == 1;
    if (rank == 0)
        mode ? watched_more(file) : watched(file);
    else
        mode ? watcher_more() : watcher();
    if (mode && rank == 0)
        _exit(0);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

static pmix_status_t on_monitor(const pmix_proc_t *proc, const pmix_info_t *what, pmix_status_t error,
                                const pmix_info_t *directives, size_t ndirs, pmix_info_cbfunc_t cbfunc, void *data) {
    (void)error, (void)directives, (void)cbfunc, (void)data;
    CHECK(proc->rank == 0 && ndirs >= 2);
    if (!strcmp(what->key, PMIX_MONITOR_CANCEL))
        return what->value.data.string ? PMIX_ERR_NOT_FOUND : PMIX_ERR_NOT_SUPPORTED;
    CHECK(!strcmp(what->key, "a.host's"));
    set(&at_host);
    return PMIX_ERR_NOT_AVAILABLE;
}

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

int main(int argc, char **argv) {
    /* Ends a process that is left when another has failed. */
    alarm(600);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2) {
        mode = argv[3];
        return client(atoi(argv[1]), argv[2]);
    }
    mode = argv[1];
    pmix_server_module_t module = {.monitor = mode ? on_monitor : NULL};
    OK(PMIx_server_init(&module, NULL, 0));
    pmix_status_t codes[] = {PMIX_MONITOR_HEARTBEAT_ALERT, PMIX_MONITOR_FILE_ALERT, MINE};
    /* A host hears of what goes through its server, whoever it is for. */
    CHECK(PMIx_Register_event_handler(codes, 3, NULL, 0, hear, NULL, NULL) >= 0);
    char host[256], *nodes, *ranks, file[] = "/tmp/monitors-XXXXXX", number[] = "0";
    CHECK(!gethostname(host, sizeof host));
    OK(PMIx_generate_regex(host, &nodes));
    OK(PMIx_generate_ppn("0,1", &ranks));
    pmix_info_t info[3];
    uint32_t size = 2;
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_NODE_MAP, nodes, PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_PROC_MAP, ranks, PMIX_STRING);
    int ready = 0, want = 0;
    OK(PMIx_server_register_nspace(job, 2, info, 3, done, &ready));
    until(&ready, ++want);
    for (int i = 0; i < 3; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    free(nodes);
    free(ranks);
    int fd = mkstemp(file);
    CHECK(fd >= 0 && write(fd, "life", 4) == 4 && !close(fd));
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, job, i);
        OK(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, done, &ready));
        until(&ready, ++want);
        char **env = NULL;
        OK(PMIx_server_setup_fork(&proc, &env));
        number[0] = '0' + i;
        pids[i] = fork();
        if (pids[i] == 0) {
            for (char **setting = env; *setting; setting++)
                putenv(*setting);
            execl(argv[0], argv[0], number, file, mode, NULL);
            _exit(127);
        }
        for (char **setting = env; *setting; setting++)
            free(*setting);
        free(env);
    }
    for (int i = 0; i < 2; i++) {
        int status;
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, job, i);
        if (mode && i == 0)
            OK(PMIx_Notify_event(OVER, &proc, PMIX_RANGE_NAMESPACE, NULL, 0, done, &ready));
    }
    /* Alarms come to the host as to rank 1, but for one that only that has asked for. */
    until(&heard, mode ? 2 : 3);
    CHECK(mode ? at_host == 1 : at_host == 0);
    OK(PMIx_server_finalize());
    CHECK(!unlink(file));
    return 0;
}
