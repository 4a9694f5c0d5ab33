/* Output and input of processes. The program is a host that forwards them; it starts itself again as tools that print what they pull, push
 * what they read, and are killed while they do so. The host answers inside its upcalls, at once and later, from another thread. */
#define _GNU_SOURCE
#include "check.h"
#include "wait.h"
#include <pmix_tool.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "job@1";
static pmix_proc_t all;

static void attribute(pmix_info_t *info, const char *key, const void *value, pmix_data_type_t type) {
    PMIX_INFO_CONSTRUCT(info);
    OK(PMIx_Info_load(info, key, value, type));
}

/* The tools. Each says that it is ready, and ends at SIGUSR1. */

static sigset_t usr1;

static void killed_by(size_t number, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                      pmix_info_t *info, size_t ninfo) {
    (void)number, (void)channel, (void)source, (void)bytes, (void)info, (void)ninfo;
    raise(SIGKILL);
}

static int tool(const char *kind, pid_t server) {
    pmix_proc_t me;
    pmix_info_t info, first[2];
    int signal, number = -1;
    bool starts = !strcmp(kind, "starts"), forwards = !strcmp(kind, "forwards");
    attribute(&first[0], PMIX_SERVER_PIDINFO, &server, PMIX_PID);
    attribute(&first[1], PMIX_IOF_LOCAL_OUTPUT, NULL, PMIX_BOOL);
    OK(PMIx_tool_init(&me, first, starts ? 2 : 1));
    if (!strcmp(kind, "prints")) {
        IS(PMIX_ERR_NOT_SUPPORTED, PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDIN_CHANNEL, NULL, NULL, NULL));
        IS(PMIX_ERR_BAD_PARAM, PMIx_IOF_pull(NULL, 0, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL));
        attribute(&info, PMIX_IOF_TAG_OUTPUT, NULL, PMIX_BOOL);
        number = PMIx_IOF_pull(&all, 1, &info, 1, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL);
        CHECK(number > 0);
    } else if (starts || forwards) {
        pmix_app_t app;
        pmix_nspace_t started;
        PMIx_App_construct(&app);
        app.cmd = "program";
        pmix_info_t wishes[2];
        attribute(&wishes[0], starts ? PMIX_FWD_STDERR : PMIX_FWD_STDOUT, &(bool){forwards}, PMIX_BOOL);
        attribute(&wishes[1], PMIX_TAG_OUTPUT, NULL, PMIX_BOOL);
        OK(PMIx_Spawn(wishes, forwards ? 2 : 1, &app, 1, started));
        CHECK(PMIx_Check_nspace(started, job));
    } else if (!strcmp(kind, "pushes")) {
        attribute(&info, PMIX_IOF_PUSH_STDIN, NULL, PMIX_BOOL);
        IS(PMIX_OPERATION_SUCCEEDED, PMIx_IOF_push(&all, 1, NULL, &info, 1, NULL, NULL));
        IS(PMIX_ERR_BAD_PARAM, PMIx_IOF_push(NULL, 0, NULL, &info, 1, NULL, NULL));
    } else {
        CHECK(PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDERR_CHANNEL, killed_by, NULL, NULL) > 0);
    }
    CHECK(write(2, "+", 1) == 1);
    sigwait(&usr1, &signal);
    if (number > 0) {
        OK(PMIx_IOF_deregister(number, NULL, 0, NULL, NULL));
        IS(PMIX_ERR_BAD_PARAM, PMIx_IOF_deregister(number, NULL, 0, NULL, NULL));
    }
    return PMIx_tool_finalize();
}

/* The host. */

static int pulls, stops, pushes, ended, upcalls;
static size_t taken;
static char input[100000];

struct answer {
    pmix_op_cbfunc_t cbfunc;
    void *cbdata;
};

static void *answer_later(void *what) {
    struct answer *answer = what;
    answer->cbfunc(PMIX_SUCCESS, answer->cbdata);
    free(answer);
    return NULL;
}

/* In each of the three ways that there are. */
static pmix_status_t answered(pmix_op_cbfunc_t cbfunc, void *cbdata) {
    pthread_t thread;
    struct answer *answer;
    switch (upcalls++ % 3) {
    case 0:
        return PMIX_OPERATION_SUCCEEDED;
    case 1:
        cbfunc(PMIX_SUCCESS, cbdata);
        return PMIX_SUCCESS;
    default:
        answer = malloc(sizeof *answer);
        *answer = (struct answer){cbfunc, cbdata};
        CHECK(pthread_create(&thread, NULL, answer_later, answer) == 0 && pthread_detach(thread) == 0);
        return PMIX_SUCCESS;
    }
}

static int has(const pmix_info_t info[], size_t ninfo, const char *key) {
    int found = 0;
    for (size_t i = 0; i < ninfo; i++)
        found += PMIx_Check_key(info[i].key, key);
    return found;
}

static pmix_status_t on_pull(const pmix_proc_t procs[], size_t n, const pmix_info_t directives[], size_t ndirs,
                             pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    CHECK(n == 1 && procs[0].rank == PMIX_RANK_WILDCARD && channels & (PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL));
    CHECK(has(directives, ndirs, PMIX_USERID) == 1 && has(directives, ndirs, PMIX_GRPID) == 1);
    set(has(directives, ndirs, PMIX_IOF_STOP) ? &stops : &pulls);
    return answered(cbfunc, cbdata);
}

static pmix_status_t on_push(const pmix_proc_t *source, const pmix_proc_t targets[], size_t n, const pmix_info_t directives[],
                             size_t ndirs, const pmix_byte_object_t *bytes, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    CHECK(source->rank == 0 && n == 1 && PMIx_Check_nspace(targets[0].nspace, job));
    CHECK(has(directives, ndirs, PMIX_USERID) == 1 && taken + bytes->size <= sizeof input);
    memcpy(input + taken, bytes->bytes, bytes->size);
    taken += bytes->size;
    set(bytes->size ? &pushes : &ended);
    return answered(cbfunc, cbdata);
}

static pmix_status_t on_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[],
                              size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)info, (void)ninfo, (void)apps, (void)napps;
    cbfunc(PMIX_SUCCESS, (char *)job, cbdata);
    return PMIX_SUCCESS;
}

static pid_t start(char *program, char *kind, int in, int out) {
    char server[16], byte;
    int ready[2];
    CHECK(pipe(ready) == 0);
    snprintf(server, sizeof server, "%d", getpid());
    pid_t child = fork();
    if (child == 0) {
        dup2(in, 0);
        dup2(out, 1);
        dup2(ready[1], 2);
        for (int fd = 3; fd < 100; fd++)
            close(fd);
        execl(program, program, kind, server, NULL);
        _exit(127);
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    if (byte != '+') {
        char words[500] = {byte};
        CHECK(read(ready[0], words + 1, sizeof words - 2) >= 0);
        fprintf(stderr, "the tool %s says: %s\n", kind, words);
        exit(1);
    }
    close(ready[0]);
    return child;
}

static int end_of(pid_t child, int signal) {
    int how;
    CHECK((!signal || kill(child, signal) == 0) && waitpid(child, &how, 0) == child);
    return how;
}

static void say(pmix_rank_t rank, pmix_iof_channel_t channel, char *text) {
    pmix_proc_t source;
    pmix_byte_object_t bytes = {text, strlen(text)};
    PMIx_Proc_load(&source, job, rank);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_IOF_deliver(&source, channel, &bytes, NULL, 0, NULL, NULL));
}

static void nobody_is_told(pmix_status_t status, void *cbdata) {
    (void)status, (void)cbdata;
    abort();
}

/* A host that wants output of processes written to its own, as their job asks for it, and stops pushing what it never pushed. */
static int writes(void) {
    pmix_server_module_t module = {.iof_pull = on_pull, .push_stdin = on_push};
    pmix_info_t info;
    attribute(&info, PMIX_IOF_LOCAL_OUTPUT, NULL, PMIX_BOOL);
    info.flags = PMIX_INFO_REQD;
    OK(PMIx_server_init(&module, &info, 1));
    attribute(&info, PMIX_IOF_RANK_OUTPUT, NULL, PMIX_BOOL);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job, 0, &info, 1, NULL, NULL));
    say(3, PMIX_FWD_STDOUT_CHANNEL, "as the job");
    say(4, PMIX_FWD_STDOUT_CHANNEL, "asks\n");
    say(3, PMIX_FWD_STDOUT_CHANNEL, "\nwants\n");
    CHECK(write(2, "+", 1) == 1);
    attribute(&info, PMIX_IOF_COMPLETE, NULL, PMIX_BOOL);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_IOF_push(NULL, 0, NULL, &info, 1, nobody_is_told, NULL));
    return PMIx_server_finalize();
}

int main(int argc, char **argv) {
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    PMIx_Proc_load(&all, job, PMIX_RANK_WILDCARD);
    if (argc > 2)
        return strcmp(argv[1], "writes") ? tool(argv[1], atoi(argv[2])) : writes();
    pmix_server_module_t module = {.iof_pull = on_pull, .push_stdin = on_push, .spawn = on_spawn};
    pmix_info_t info[2];
    attribute(&info[0], PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    attribute(&info[1], PMIX_SERVER_NSPACE, "streams", PMIX_STRING);
    OK(PMIx_server_init(&module, info, 2));
    PMIX_INFO_DESTRUCT(&info[1]);

    /* A host's own output. All of it is there when it has ended. */
    int in[2], out[2], how;
    char printed[100];
    static const char own[] = "[3]<stdout>: as the job[4]<stdout>: asks\n\n[3]<stdout>: wants\n";
    CHECK(pipe(out) == 0);
    CHECK(end_of(start(argv[0], "writes", 0, out[1]), 0) == 0);
    CHECK(read(out[0], printed, sizeof printed) == sizeof own - 1 && !memcmp(printed, own, sizeof own - 1));

    /* Earlier output is kept, and later output is printed as it was asked for. */
    ssize_t n = 0;
    static const char expected[] = "[1,3]<stdout>: early\n[1,0]<stdout>: late\n";
    say(3, PMIX_FWD_STDOUT_CHANNEL, "early\n");
    say(3, PMIX_FWD_STDDIAG_CHANNEL, "elsewhere\n");
    pid_t printer = start(argv[0], "prints", 0, out[1]);
    say(0, PMIX_FWD_STDOUT_CHANNEL, "late\n");
    while (n < (ssize_t)sizeof expected - 1) {
        ssize_t got = read(out[0], printed + n, sizeof printed - n);
        CHECK(got > 0);
        n += got;
    }
    CHECK(n == sizeof expected - 1 && !memcmp(printed, expected, n));
    CHECK(end_of(printer, SIGUSR1) == 0);
    until(&stops, 1);

    /* A job that a tool has started prints where the tool does. */
    pid_t starter = start(argv[0], "starts", 0, out[1]);
    say(2, PMIX_FWD_STDDIAG_CHANNEL, "unwanted\n");
    say(2, PMIX_FWD_STDOUT_CHANNEL, "wanted\n");
    CHECK(read(out[0], printed, sizeof printed) == 7 && !memcmp(printed, "wanted\n", 7));
    CHECK(end_of(starter, SIGUSR1) == 0);
    until(&stops, 2);

    /* It is enough that it has the output forwarded. An older name of a form does as well. */
    static const char tagged[] = "[1,5]<stdout>: this\n";
    pid_t forwarder = start(argv[0], "forwards", 0, out[1]);
    say(5, PMIX_FWD_STDDIAG_CHANNEL, "not this\n");
    say(5, PMIX_FWD_STDOUT_CHANNEL, "this\n");
    CHECK(read(out[0], printed, sizeof printed) == sizeof tagged - 1 && !memcmp(printed, tagged, sizeof tagged - 1));
    CHECK(end_of(forwarder, SIGUSR1) == 0);
    until(&stops, 3);

    /* Input that a tool reads is pushed, in order and to the end. */
    static char words[50000];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = 'a' + i % 23;
    CHECK(pipe(in) == 0);
    pid_t pusher = start(argv[0], "pushes", in[0], out[1]);
    close(in[0]);
    CHECK(write(in[1], words, sizeof words) == sizeof words);
    close(in[1]);
    until(&ended, 1);
    CHECK(taken == sizeof words && !memcmp(input, words, taken) && pushes > 1);
    CHECK(end_of(pusher, SIGUSR1) == 0);

    /* Tools that are killed: in the middle of their input, and by what they hear. */
    CHECK(pipe(in) == 0);
    pusher = start(argv[0], "pushes", in[0], out[1]);
    close(in[0]);
    taken = 0;
    int before = pushes;
    CHECK(write(in[1], words, sizeof words) == sizeof words);
    until(&pushes, before + 1);
    how = end_of(pusher, SIGKILL);
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    close(in[1]);
    pid_t victim = start(argv[0], "killed", 0, out[1]);
    say(3, PMIX_FWD_STDERR_CHANNEL, "again\n");
    how = end_of(victim, 0);
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    until(&stops, 4);
    say(3, PMIX_FWD_STDERR_CHANNEL, "to nobody\n");
    CHECK(pulls == 4 && ended == 1);
    OK(PMIx_server_finalize());
    return 0;
}
