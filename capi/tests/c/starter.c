/* A launcher that is attached to no server starts the processes of jobs itself, as its children: they find it, it forwards what
 * they print, hears of their end, reaps them and nobody else, and takes them with it. */
#include "check.h"
#include "wait.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pmix_tool.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, LEAK = 100 };

static char dir[] = "/tmp/starter-XXXXXX";
static char fifo[128], printed[128], here[64];
static const char *program;
static pmix_proc_t me;

/* The last job that is over, and its end. */
static int registered, over, seen, started;
static pmix_nspace_t last, name_of_started;
static pmix_status_t status_of_last;
static int code_of_last;

/* Processes that the launcher starts. */

static int open_fifo(int how) {
    int fd = open(getenv("FIFO"), how);
    CHECK(fd >= 0);
    return fd;
}

/* Says that it runs, as which process. */
static void report(void) {
    int fd = open_fifo(O_WRONLY);
    pid_t pid = getpid();
    CHECK(write(fd, &pid, sizeof pid) == sizeof pid && !close(fd));
}

static void has(const pmix_proc_t *proc, const char *key, uint32_t number) {
    pmix_value_t *got;
    OK(PMIx_Get(proc, key, NULL, 0, &got));
    CHECK(got->type == PMIX_UINT32 && got->data.uint32 == number);
    PMIX_VALUE_RELEASE(got);
}

static int rank(const char *launcher) {
    pmix_proc_t self, all;
    pmix_value_t *got;
    pmix_info_t info;
    bool yes = true;
    char cwd[64], go;
    struct stat in, null;
    OK(PMIx_Init(&self, NULL, 0));
    PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
    has(&all, PMIX_JOB_SIZE, RANKS);
    has(&self, PMIX_APPNUM, self.rank);
    OK(PMIx_Get(&all, PMIX_PARENT_ID, NULL, 0, &got));
    CHECK(got->type == PMIX_PROC && !strcmp(got->data.proc->nspace, launcher));
    PMIX_VALUE_RELEASE(got);
    /* As it was asked for, and the leader of a group of its own. */
    CHECK(!strcmp(getenv("SET"), "job") && !strcmp(getenv("OF_APP"), self.rank ? "1" : "0"));
    CHECK((getenv("AGENT") != NULL) == (self.rank == 1));
    CHECK(getcwd(cwd, sizeof cwd) && !strcmp(cwd, self.rank ? "/" : getenv("HERE")));
    CHECK(getpgrp() == getpid());
    /* Nothing is inherited but three streams. */
    CHECK(fcntl(LEAK, F_GETFD) == -1);
    CHECK(!fstat(0, &in) && !stat("/dev/null", &null) && in.st_rdev == null.st_rdev);
    if (self.rank == 0) {
        int fd = open_fifo(O_RDONLY);
        CHECK(read(fd, &go, 1) == 1 && !close(fd));
    }
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    OK(PMIx_Fence(&all, 1, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    printf("out of %u\n", self.rank);
    fprintf(stderr, "err of %u\n", self.rank);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

static int heard, pulling;

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                      pmix_info_t info[], size_t ninfo) {
    (void)id, (void)info, (void)ninfo;
    CHECK(channel == PMIX_FWD_STDOUT_CHANNEL && source->rank < RANKS);
    if (bytes->size)
        set(&heard);
}

static void on_pulled(pmix_status_t status, size_t id, void *data) {
    (void)id, (void)data;
    OK(status);
    set(&pulling);
}

/* A tool that was launched finds its launcher, and the output of the launcher's processes there. */
static int tool(const char *launcher) {
    pmix_proc_t self, all, *servers;
    size_t n;
    OK(PMIx_tool_init(&self, NULL, 0));
    OK(PMIx_tool_get_servers(&servers, &n));
    CHECK(n == 1 && !strcmp(servers[0].nspace, launcher));
    PMIX_PROC_FREE(servers, n);
    PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
    OK(PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, on_pulled, NULL));
    until(&pulling, 1);
    printf("tool %u\n", self.rank);
    fflush(stdout);
    until(&heard, 1);
    OK(PMIx_tool_finalize());
    return 0;
}

static int process(const char *name, const char *what, const char *with) {
    sigset_t blocked;
    CHECK(!sigprocmask(SIG_BLOCK, NULL, &blocked) && !sigismember(&blocked, SIGTERM));
    if (!strcmp(what, "rank"))
        return rank(with);
    if (!strcmp(what, "tool"))
        return tool(with);
    if (!strcmp(what, "exits"))
        return atoi(with);
    if (!strcmp(what, "dies"))
        raise(SIGKILL);
    if (!strcmp(what, "ignores"))
        signal(SIGTERM, SIG_IGN);
    if (strcmp(what, "numbered"))
        report();
    else
        CHECK(!strcmp(name + strlen(name) - 2, "-0"));
    for (;;)
        pause();
}

/* The launcher. */

static void on_end(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
    (void)id, (void)results, (void)nresults;
    CHECK(status == PMIX_EVENT_JOB_END && !strcmp(source->nspace, me.nspace));
    for (size_t i = 0; i < ninfo; i++) {
        if (!strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC)) {
            CHECK(info[i].value.data.proc->rank == PMIX_RANK_WILDCARD);
            PMIX_LOAD_NSPACE(last, info[i].value.data.proc->nspace);
        } else if (!strcmp(info[i].key, PMIX_JOB_TERM_STATUS)) {
            status_of_last = info[i].value.data.status;
        } else if (!strcmp(info[i].key, PMIX_EXIT_CODE)) {
            code_of_last = info[i].value.data.integer;
        }
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    set(&over);
}

static void on_registered(pmix_status_t status, size_t id, void *data) {
    (void)id, (void)data;
    OK(status);
    set(&registered);
}

static void on_started(pmix_status_t status, char nspace[], void *data) {
    OK(status);
    CHECK(data == &started);
    PMIX_LOAD_NSPACE(name_of_started, nspace);
    set(&started);
}

static void app_of(pmix_app_t *app, const char *what, const char *with, int ranks) {
    char *argv[] = {(char *)program, (char *)what, (char *)with, NULL};
    PMIX_APP_CONSTRUCT(app);
    app->cmd = strdup(program);
    app->argv = PMIx_Argv_copy(argv);
    app->maxprocs = ranks;
}

static pmix_status_t spawn(const char *what, const char *with, int ranks, pmix_nspace_t nspace) {
    pmix_app_t app;
    app_of(&app, what, with, ranks);
    pmix_status_t status = PMIx_Spawn(NULL, 0, &app, 1, nspace);
    PMIX_APP_DESTRUCT(&app);
    return status;
}

/* The next job that is over is this one, and it has ended so. */
static void ends(const char *nspace, pmix_status_t status, int code) {
    until(&over, ++seen);
    CHECK(!strcmp(last, nspace));
    IS(status, status_of_last);
    CHECK(code_of_last == code);
}

/* A job of two applications, which comes up while another child of this program ends. */
static void a_whole_job(void) {
    pmix_app_t apps[2];
    pmix_info_t job[2];
    pmix_envar_t envar = {"SET", "job", ':'};
    pmix_nspace_t nspace;
    pmix_proc_t all;
    bool yes = true;
    int status, out = dup(1), err = dup(2);
    pid_t other = fork();
    if (other == 0) {
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(127);
    }
    app_of(&apps[0], "rank", me.nspace, 1);
    PMIx_Setenv("OF_APP", "0", true, &apps[0].env);
    app_of(&apps[1], "rank", me.nspace, 1);
    PMIx_Setenv("OF_APP", "1", true, &apps[1].env);
    apps[1].cwd = strdup("/");
    PMIX_INFO_CREATE(apps[1].info, 1);
    apps[1].ninfo = 1;
    PMIX_INFO_LOAD(&apps[1].info[0], PMIX_FORKEXEC_AGENT, "env AGENT=yes", PMIX_STRING);
    PMIX_INFO_REQUIRED(&apps[1].info[0]);
    PMIX_INFO_LOAD(&job[0], PMIX_SET_ENVAR, &envar, PMIX_ENVAR);
    PMIX_INFO_LOAD(&job[1], PMIX_IOF_TAG_OUTPUT, &yes, PMIX_BOOL);
    int file = open(printed, O_RDWR | O_CREAT | O_APPEND, 0600);
    fflush(NULL);
    CHECK(file >= 0 && out >= 0 && err >= 0 && dup2(file, 1) == 1 && dup2(file, 2) == 2);
    OK(PMIx_Spawn(job, 2, apps, 2, nspace));
    PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
    has(&all, PMIX_JOB_SIZE, RANKS);
    int fd = open(fifo, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "", 1) == 1 && !close(fd));
    until(&over, seen + 1);
    CHECK(dup2(out, 1) == 1 && dup2(err, 2) == 2 && !close(out) && !close(err));
    ends(nspace, PMIX_SUCCESS, 0);
    /* All that was printed is there when the end is told. */
    char text[1024] = "", line[64];
    CHECK(pread(file, text, sizeof text - 1, 0) > 0 && !close(file));
    for (int i = 0; i < RANKS; i++) {
        sprintf(line, "[1,%d]<stdout>: out of %d\n", i, i);
        CHECK(strstr(text, line));
        sprintf(line, "[1,%d]<stderr>: err of %d\n", i, i);
        CHECK(strstr(text, line));
    }
    /* Children that are not the launcher's are left to the program. */
    CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    for (int i = 0; i < 2; i++) {
        PMIX_APP_DESTRUCT(&apps[i]);
        PMIX_INFO_DESTRUCT(&job[i]);
    }
}

static void what_cannot_be_started(bool is_watched) {
    pmix_nspace_t nspace;
    pmix_app_t app;
    pmix_info_t info;
    bool yes = true;
    app_of(&app, "exits", "0", 0);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Spawn(NULL, 0, &app, 1, nspace));
    app.maxprocs = INT_MAX;
    IS(PMIX_ERR_JOB_INSUFFICIENT_RESOURCES, PMIx_Spawn(NULL, 0, &app, 1, nspace));
    app.maxprocs = 1;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Spawn(NULL, 0, &app, 0, nspace));
    PMIX_INFO_LOAD(&info, PMIX_DEBUG_STOP_ON_EXEC, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Spawn(&info, 1, &app, 1, nspace));
    PMIX_INFO_DESTRUCT(&info);
    app.cwd = strdup("/no/such/place");
    IS(PMIX_ERR_JOB_WDIR_NOT_FOUND, PMIx_Spawn(NULL, 0, &app, 1, nspace));
    PMIX_APP_DESTRUCT(&app);
    const char *file = program;
    program = "/no/such/program";
    IS(PMIX_ERR_JOB_EXE_NOT_FOUND, spawn("exits", "0", 1, nspace));
    program = file;
    if (is_watched)
        return;
    /* A program that cannot be executed is noticed by the system alone. */
    int fd = open(printed, O_WRONLY | O_TRUNC);
    CHECK(fd >= 0 && write(fd, "#!/no/such/program\n", 19) == 19 && !close(fd) && !chmod(printed, 0700));
    program = printed;
    IS(PMIX_ERR_JOB_FAILED_TO_LAUNCH, spawn("exits", "0", 1, nspace));
    program = file;
}

static pid_t reported(void) {
    pid_t pid;
    char more;
    int fd = open(fifo, O_RDONLY);
    CHECK(fd >= 0 && read(fd, &pid, sizeof pid) == sizeof pid);
    /* To the end, so that the next one finds nobody else there. */
    CHECK(read(fd, &more, 1) == 0 && !close(fd));
    return pid;
}

/* Two whose time is over: the second does not hear what it is asked. They are called by their ranks. */
static void late_jobs(void) {
    pmix_nspace_t nspace;
    pmix_app_t app;
    pmix_info_t info[2];
    bool yes = true;
    int second = 1;
    app_of(&app, "numbered", "", 1);
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_TIMEOUT, &second, PMIX_INT);
    PMIX_INFO_REQUIRED(&info[0]);
    PMIX_INFO_LOAD(&info[1], PMIX_INDEX_ARGV, &yes, PMIX_BOOL);
    for (int i = 0; i < 2; i++) {
        signal(SIGTERM, i ? SIG_IGN : SIG_DFL);
        OK(PMIx_Spawn(info, 2, &app, 1, nspace));
        ends(nspace, PMIX_ERR_TIMEOUT, 128 + (i ? SIGKILL : SIGTERM));
    }
    signal(SIGTERM, SIG_DFL);
    for (int i = 0; i < 2; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_APP_DESTRUCT(&app);
}

int main(int argc, char **argv) {
    pmix_nspace_t nspace;
    pmix_info_t info[2];
    bool yes = true;
    /* Ends a process that is left when another has failed. */
    alarm(600);
    program = argv[0];
    if (argc > 2)
        return process(argv[0], argv[1], argv[2]);
    CHECK(mkdtemp(dir) && !chdir(dir) && getcwd(here, sizeof here));
    sprintf(fifo, "%s/fifo", here);
    sprintf(printed, "%s/printed", here);
    CHECK(!mkfifo(fifo, 0600) && !setenv("FIFO", fifo, 1) && !setenv("HERE", here, 1));
    CHECK(dup2(0, LEAK) == LEAK);
    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    /* A tool that is no launcher starts nothing. */
    OK(PMIx_tool_init(&me, info, 1));
    IS(PMIX_ERR_UNREACH, spawn("exits", "0", 1, nspace));
    OK(PMIx_tool_finalize());

    OK(PMIx_tool_init(&me, info, 2));
    pmix_status_t end = PMIX_EVENT_JOB_END;
    PMIx_Register_event_handler(&end, 1, NULL, 0, on_end, on_registered, NULL);
    until(&registered, 1);
    a_whole_job();
    /* A program under valgrind cannot fail to execute another. */
    what_cannot_be_started(argc > 1);
    OK(spawn("tool", me.nspace, 2, nspace));
    ends(nspace, PMIX_SUCCESS, 0);
    OK(spawn("exits", "3", 1, nspace));
    ends(nspace, PMIX_ERR_JOB_NON_ZERO_TERM, 3);
    OK(spawn("dies", "", 1, nspace));
    ends(nspace, PMIX_ERR_JOB_ABORTED_BY_SIG, 128 + SIGKILL);
    pmix_app_t app;
    app_of(&app, "exits", "0", 3);
    OK(PMIx_Spawn_nb(NULL, 0, &app, 1, on_started, &started));
    until(&started, 1);
    ends(name_of_started, PMIX_SUCCESS, 0);
    PMIX_APP_DESTRUCT(&app);
    late_jobs();
    /* Remaining children end with the launcher, be it against their will. */
    OK(spawn("stays", "", 1, nspace));
    pid_t first = reported();
    OK(spawn("ignores", "", 1, nspace));
    pid_t second = reported();
    CHECK(first != second && !kill(first, 0) && !kill(second, 0));
    OK(PMIx_tool_finalize());
    CHECK(kill(first, 0) == -1 && errno == ESRCH && kill(second, 0) == -1 && errno == ESRCH);
    CHECK(over == seen);
    for (int i = 0; i < 2; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    CHECK(!unlink(fifo) && !unlink(printed) && !rmdir(dir));
    return 0;
}
