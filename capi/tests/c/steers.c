/* A debugger that starts a launcher and steers it (`steers INSTANTON`): the launcher comes to it, takes its directives, starts
 * its ranks at its word, and ends with it. */
#include "check.h"
#include "wait.h"
#include <fcntl.h>
#include <pmix_tool.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2 };

static char dir[] = "/tmp/steers-XXXXXX";
static const char *self_path, *instanton;
static pmix_proc_t me;
static char *address;
static bool yes = true;

static int registered, pushed, ready, launched, waiting, started, ended, over, lost;
static pmix_nspace_t job, launcher;
static int code_of_launcher;
/* Seconds that the launcher's job may take; 0 for any time. */
static int time_limit;

/* Ranks. */

/* Writes this process's number into a file of its own. */
static void leave_number(const char *name) {
    char path[128];
    sprintf(path, "%s/%s", getenv("STEERS"), name);
    FILE *file = fopen(path, "w");
    CHECK(file && fprintf(file, "%d\n", getpid()) > 0 && !fclose(file));
}

static int rank(const char *what) {
    pmix_proc_t self;
    char line[64] = "";
    CHECK(!getenv("PMIX_LAUNCHER_RNDZ_URI") && !strcmp(getenv("SAID"), "so"));
    OK(PMIx_Init(&self, NULL, 0));
    if (self.rank == 0)
        CHECK(fgets(line, sizeof line, stdin) && !strcmp(line, "input\n"));
    printf("rank %u\n", self.rank);
    fflush(stdout);
    if (!strcmp(what, "stays")) {
        leave_number(self.rank ? "one" : "zero");
        for (;;)
            pause();
    }
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

/* The debugger. */

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
    (void)id, (void)source, (void)results, (void)nresults;
    const char *name = NULL, *uri = NULL;
    const pmix_proc_t *affected = NULL;
    int code = -1;
    pmix_status_t how = PMIX_ERROR;
    for (size_t i = 0; i < ninfo; i++) {
        if (!strcmp(info[i].key, PMIX_NSPACE))
            name = info[i].value.data.string;
        if (!strcmp(info[i].key, PMIX_SERVER_URI))
            uri = info[i].value.data.string;
        if (!strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC))
            affected = info[i].value.data.proc;
        if (!strcmp(info[i].key, PMIX_EXIT_CODE))
            code = info[i].value.data.integer;
        if (!strcmp(info[i].key, PMIX_JOB_TERM_STATUS))
            how = info[i].value.data.status;
    }
    switch (status) {
    case PMIX_LAUNCHER_READY:
        CHECK(uri);
        set(&ready);
        break;
    case PMIX_LAUNCH_COMPLETE:
        CHECK(name);
        PMIX_LOAD_NSPACE(job, name);
        set(&launched);
        break;
    case PMIX_READY_FOR_DEBUG:
        CHECK(name && affected && !strcmp(name, affected->nspace));
        set(&waiting);
        break;
    case PMIX_EVENT_JOB_START:
        set(&started);
        break;
    case PMIX_EVENT_JOB_END:
        CHECK(affected);
        if (!strncmp(affected->nspace, me.nspace, strlen(me.nspace))) {
            code_of_launcher = code;
            set(&over);
        } else {
            IS(time_limit ? PMIX_ERR_TIMEOUT : PMIX_SUCCESS, how);
            set(&ended);
        }
        break;
    case PMIX_ERR_LOST_CONNECTION:
        set(&lost);
        break;
    default:
        CHECK(!"another event");
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* No event of the launcher and its job is for handlers of everything. */
static void on_default(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults, (void)done, (void)data;
    fprintf(stderr, "a default handler hears of %s\n", PMIx_Error_string(status));
    exit(1);
}

static void on_registered(pmix_status_t status, size_t id, void *data) {
    (void)id, (void)data;
    OK(status);
    set(&registered);
}

static void on_pushed(pmix_status_t status, void *data) {
    (void)data;
    OK(status);
    set(&pushed);
}

static void begin(void) {
    pmix_info_t info[3];
    pmix_value_t *got;
    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_IOF_LOCAL_OUTPUT, &yes, PMIX_BOOL);
    OK(PMIx_tool_init(&me, info, 3));
    OK(PMIx_Get(&me, PMIX_MYSERVER_URI, NULL, 0, &got));
    address = strdup(got->data.string);
    PMIX_VALUE_RELEASE(got);
    pmix_status_t codes[] = {PMIX_LAUNCHER_READY,  PMIX_LAUNCH_COMPLETE, PMIX_READY_FOR_DEBUG,
                             PMIX_EVENT_JOB_START, PMIX_EVENT_JOB_END,   PMIX_ERR_LOST_CONNECTION};
    PMIx_Register_event_handler(codes, 6, NULL, 0, on_event, on_registered, NULL);
    PMIx_Register_event_handler(NULL, 0, NULL, 0, on_default, on_registered, NULL);
    until(&registered, 2);
}

/* Starts a launcher by these words, which is to have its ranks wait in Init. */
static pmix_status_t start(char *const words[]) {
    pmix_app_t app;
    pmix_info_t of_job[4], info;
    size_t wishes = time_limit ? 4 : 3;
    pmix_data_array_t array = {.type = PMIX_INFO, .size = wishes, .array = of_job};
    pmix_envar_t envar = {"SAID", "so", ':'};
    PMIX_INFO_LOAD(&of_job[0], PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&of_job[1], PMIX_NOTIFY_JOB_EVENTS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&of_job[2], PMIX_SET_ENVAR, &envar, PMIX_ENVAR);
    if (time_limit)
        PMIX_INFO_LOAD(&of_job[3], PMIX_JOB_TIMEOUT, &time_limit, PMIX_INT);
    PMIX_INFO_LOAD(&info, PMIX_LAUNCH_DIRECTIVES, &array, PMIX_DATA_ARRAY);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(words[0]);
    app.argv = PMIx_Argv_copy((char **)words);
    app.maxprocs = 1;
    PMIx_Setenv("PMIX_LAUNCHER_RNDZ_URI", address, true, &app.env);
    pmix_status_t status = PMIx_Spawn(&info, 1, &app, 1, launcher);
    PMIX_APP_DESTRUCT(&app);
    PMIX_INFO_DESTRUCT(&info);
    for (size_t i = 0; i < wishes; i++)
        PMIX_INFO_DESTRUCT(&of_job[i]);
    return status;
}

/* Makes the launcher the server that is asked. */
static pmix_status_t turn(void) {
    pmix_proc_t server;
    pmix_info_t info[2];
    int limit = 60;
    PMIX_LOAD_PROCID(&server, launcher, 0);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &limit, PMIX_INT);
    return PMIx_tool_set_server(&server, info, 2);
}

static void release(const char *nspace, pmix_rank_t rank) {
    pmix_proc_t who;
    pmix_info_t info[2];
    PMIX_LOAD_PROCID(&who, nspace, rank);
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &who, PMIX_PROC);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    OK(PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, &me, PMIX_RANGE_CUSTOM, info, 2, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info[0]);
}

/* The processes of the job that was launched. */
static size_t table(void) {
    pmix_query_t query;
    pmix_info_t *results;
    size_t count, rows;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_PROC_TABLE);
    OK(status);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, job, PMIX_STRING);
    OK(PMIx_Query_info(&query, 1, &results, &count));
    CHECK(count == 1 && results[0].value.type == PMIX_DATA_ARRAY);
    rows = results[0].value.data.darray->size;
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
    return rows;
}

/* Has ranks that wait in Init go on, the first with a line of input. */
static void let_go(void) {
    pmix_proc_t target;
    pmix_byte_object_t line = {"input\n", 6};
    PMIX_LOAD_PROCID(&target, launcher, PMIX_RANK_WILDCARD);
    OK(PMIx_IOF_push(&target, 1, &line, NULL, 0, on_pushed, NULL));
    until(&pushed, 1);
    release(job, PMIX_RANK_WILDCARD);
}

static void a_whole_launch(char *const words[]) {
    pmix_proc_t *servers;
    size_t n;
    OK(start(words));
    until(&ready, 1);
    OK(turn());
    OK(PMIx_tool_get_servers(&servers, &n));
    CHECK(n == 1 && !strcmp(servers[0].nspace, launcher) && servers[0].rank == 0);
    PMIX_PROC_FREE(servers, n);
    CHECK(!launched && !waiting);
    release(launcher, 0);
    until(&launched, 1);
    until(&started, 1);
    until(&waiting, RANKS);
    CHECK(table() == RANKS && strcmp(job, launcher));
    let_go();
    until(&ended, 1);
    until(&over, 1);
    until(&lost, 1);
    CHECK(code_of_launcher == 0 && launched == 1 && ready == 1 && waiting == RANKS);
    IS(PMIX_ERR_UNREACH, turn());
}

/* The number that a process has left in a file, as soon as it is there. */
static pid_t number_in(const char *name) {
    char path[128], line[32];
    sprintf(path, "%s/%s", dir, name);
    for (;;) {
        FILE *file = fopen(path, "r");
        int is_whole = file && fgets(line, sizeof line, file) && strchr(line, '\n');
        if (file)
            fclose(file);
        if (is_whole)
            return atoi(line);
        sched_yield();
    }
}

/* Opens what tells of a process's end, which is then waited for. */
static int watched(const char *name) {
    int fd = syscall(SYS_pidfd_open, number_in(name), 0);
    CHECK(fd >= 0);
    return fd;
}

static void ends(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    CHECK(poll(&polled, 1, 120000) == 1 && !close(fd));
}

/* A debugger of its own, to be killed: while its launcher waits, or its ranks run. */
static void killed(int with_ranks, char *const words[]) {
    char path[128];
    int said[2], status;
    char byte;
    CHECK(!pipe(said));
    pid_t tool = fork();
    if (!tool) {
        begin();
        OK(start(words));
        until(&ready, 1);
        if (with_ranks) {
            OK(turn());
            release(launcher, 0);
            until(&launched, 1);
            until(&waiting, RANKS);
            let_go();
        }
        CHECK(write(said[1], "", 1) == 1);
        for (;;)
            pause();
    }
    close(said[1]);
    CHECK(read(said[0], &byte, 1) == 1 && !close(said[0]));
    int all[] = {watched("launcher"), with_ranks ? watched("zero") : -1, with_ranks ? watched("one") : -1};
    CHECK(!kill(tool, SIGKILL) && waitpid(tool, &status, 0) == tool);
    for (int i = 0; i < 3; i++)
        if (all[i] >= 0)
            ends(all[i]);
    sprintf(path, "rm %s/launcher; rm -f %s/zero %s/one", dir, dir, dir);
    CHECK(!system(path));
}

int main(int argc, char **argv) {
    alarm(600);
    if (argc > 2)
        return rank(argv[2]);
    self_path = argv[0];
    instanton = argv[1];
    CHECK(mkdtemp(dir) && !setenv("STEERS", dir, 1) && !setenv("TMPDIR", dir, 1));
    char *stays[] = {"/bin/sh", "-c", "echo $$ >$STEERS/launcher; exec \"$@\"", "sh", (char *)instanton, "run",
                     "-n",      "2",  (char *)self_path, "rank", "stays", NULL};
    killed(0, stays);
    killed(1, stays);
    begin();
    char *none[] = {"/no/such/launcher", NULL};
    CHECK(start(none) != PMIX_SUCCESS);
    char *words[] = {(char *)instanton, "run", "-n", "2", (char *)self_path, "rank", "ends", NULL};
    a_whole_launch(words);
    /* One that dies before it comes is waited for no longer. */
    char *dies[] = {"/bin/sh", "-c", "kill -9 $$", NULL};
    OK(start(dies));
    IS(PMIX_ERR_UNREACH, turn());
    until(&over, 2);
    CHECK(code_of_launcher == 128 + SIGKILL);
    /* One whose job has taken its time has the status of that. Its ranks wait for a debugger's word. */
    ready = 0;
    time_limit = 1;
    OK(start(words));
    until(&ready, 1);
    OK(turn());
    release(launcher, 0);
    until(&over, 3);
    CHECK(code_of_launcher == 124);
    /* And one that has come, and whose debugger leaves, ends with that, and leaves nothing. */
    ready = 0;
    OK(start(stays));
    until(&ready, 1);
    int left = watched("launcher");
    OK(PMIx_tool_finalize());
    ends(left);
    free(address);
    char path[128];
    sprintf(path, "%s/launcher", dir);
    CHECK(!unlink(path) && !rmdir(dir));
    return 0;
}
