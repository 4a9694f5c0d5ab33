/* A tool that is a launcher: it has a server of its own, registers jobs there and starts their processes, first without functions
 * of a host and then with some. Another tool attaches to it. */
#include "check.h"
#include "wait.h"
#include <pmix_tool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, NEWS = -4242 };

static char file[] = "/tmp/launcher-XXXXXX";
static int ready, want, published, heard;

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

static void hear(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t complete, void *data) {
    (void)id, (void)info, (void)ninfo, (void)results, (void)nresults;
    CHECK(status == NEWS && source->rank < RANKS);
    complete(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    set(&heard);
}

/* A rank that meets the others, and tells its launcher so; what it is told when it publishes is what it is started with. */
static int rank(pmix_status_t status) {
    pmix_proc_t me, all, other;
    pmix_value_t value, *got;
    pmix_info_t info;
    bool yes = true;
    OK(PMIx_Init(&me, NULL, 0));
    value.type = PMIX_UINT32;
    value.data.uint32 = me.rank + 40;
    OK(PMIx_Put(PMIX_GLOBAL, "key", &value));
    OK(PMIx_Commit());
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    OK(PMIx_Fence(&all, 1, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_LOAD_PROCID(&other, me.nspace, (me.rank + 1) % RANKS);
    OK(PMIx_Get(&other, "key", NULL, 0, &got));
    CHECK(got->type == PMIX_UINT32 && got->data.uint32 == other.rank + 40);
    PMIX_VALUE_RELEASE(got);
    OK(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &got));
    CHECK(got->data.uint32 == RANKS);
    PMIX_VALUE_RELEASE(got);
    PMIX_INFO_LOAD(&info, "svc", "port", PMIX_STRING);
    IS(status, PMIx_Publish(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    OK(PMIx_Notify_event(NEWS, &me, PMIX_RANGE_SESSION, NULL, 0, NULL, NULL));
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

/* A tool that comes to the launcher, which has left its address in a file. */
static int visitor(const char *address) {
    pmix_proc_t me;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_TOOL_ATTACHMENT_FILE, address, PMIX_STRING);
    OK(PMIx_tool_init(&me, &info, 1));
    CHECK(PMIx_tool_is_connected());
    PMIX_INFO_DESTRUCT(&info);
    OK(PMIx_tool_finalize());
    return 0;
}

static void start(pid_t *pid, char *const argv[], char **env) {
    extern char **environ;
    *pid = fork();
    if (*pid == 0) {
        for (char **setting = env; setting && *setting; setting++)
            putenv(*setting);
        execve(argv[0], argv, environ);
        _exit(127);
    }
}

static void ends(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Runs a job whose ranks are to be told `status` when they publish. */
static void run(const char *program, const char *job, const char *status) {
    char host[256], *nodes, *ranks;
    pmix_info_t info[3];
    uint32_t size = RANKS;
    pid_t pids[RANKS];
    CHECK(!gethostname(host, sizeof host));
    OK(PMIx_generate_regex(host, &nodes));
    OK(PMIx_generate_ppn("0,1", &ranks));
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_NODE_MAP, nodes, PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_PROC_MAP, ranks, PMIX_STRING);
    free(nodes);
    free(ranks);
    OK(PMIx_server_register_nspace(job, RANKS, info, 3, done, &ready));
    until(&ready, ++want);
    for (int i = 0; i < 3; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    char *const argv[] = {(char *)program, "rank", (char *)status, NULL};
    for (int i = 0; i < RANKS; i++) {
        pmix_proc_t proc;
        char **env = NULL;
        PMIX_LOAD_PROCID(&proc, job, i);
        OK(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, done, &ready));
        until(&ready, ++want);
        OK(PMIx_server_setup_fork(&proc, &env));
        start(&pids[i], argv, env);
        for (char **setting = env; *setting; setting++)
            free(*setting);
        free(env);
    }
    for (int i = 0; i < RANKS; i++)
        ends(pids[i]);
    PMIx_server_deregister_nspace(job, done, &ready);
    until(&ready, ++want);
}

static void collected(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *what, pmix_op_cbfunc_t release,
                      void *data) {
    (void)info, (void)ninfo;
    if (release)
        release(PMIX_SUCCESS, data);
    OK(status);
    set(what);
}

static pmix_status_t on_publish(const pmix_proc_t *proc, const pmix_info_t *info, size_t ninfo, pmix_op_cbfunc_t cbfunc,
                                void *data) {
    (void)cbfunc, (void)data;
    CHECK(!strcmp(proc->nspace, "second@1") && ninfo >= 1 && !strcmp(info[0].key, "svc"));
    set(&published);
    return PMIX_OPERATION_SUCCEEDED;
}

int main(int argc, char **argv) {
    pmix_proc_t me;
    pmix_info_t info[3];
    bool yes = true;
    /* Ends a process that is left when another has failed. */
    alarm(600);
    if (argc > 2)
        return strcmp(argv[1], "rank") ? visitor(argv[2]) : rank(atoi(argv[2]));
    int fd = mkstemp(file);
    CHECK(fd >= 0 && !close(fd) && !unlink(file));
    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_LAUNCHER_RENDEZVOUS_FILE, file, PMIX_STRING);
    OK(PMIx_tool_init(&me, info, 3));
    CHECK(!PMIx_tool_is_connected());
    OK(PMIx_server_setup_application(me.nspace, NULL, 0, collected, &ready));
    until(&ready, ++want);
    pmix_status_t news = NEWS;
    CHECK(PMIx_Register_event_handler(&news, 1, NULL, 0, hear, NULL, NULL) >= 0);
    char status[16];
    sprintf(status, "%d", PMIX_ERR_NOT_SUPPORTED);
    run(argv[0], "first@1", status);
    until(&heard, RANKS);
    /* The launcher's own handlers get events that it raises itself. */
    OK(PMIx_Notify_event(NEWS, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    until(&heard, RANKS + 1);
    char *const argv_of_visitor[] = {argv[0], "visitor", file, NULL};
    pid_t pid;
    start(&pid, argv_of_visitor, NULL);
    ends(pid);
    pmix_server_module_t module = {.publish = on_publish};
    OK(PMIx_tool_set_server_module(&module));
    run(argv[0], "second@1", "0");
    CHECK(published == RANKS);
    until(&heard, 2 * RANKS + 1);
    IS(PMIX_ERR_INIT, PMIx_tool_set_server_module(&module));
    /* An init more changes nothing. */
    OK(PMIx_tool_init(&me, info, 3));
    OK(PMIx_tool_finalize());
    OK(PMIx_server_setup_application(me.nspace, NULL, 0, collected, &ready));
    until(&ready, ++want);
    OK(PMIx_tool_finalize());
    IS(PMIX_ERR_INIT, PMIx_server_setup_application(me.nspace, NULL, 0, collected, &ready));
    for (int i = 0; i < 3; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    CHECK(access(file, F_OK));
    return 0;
}
