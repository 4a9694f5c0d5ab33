/* A host that starts its server with everything that hosts are known to say to it, once for each of them, and then clients of other users
 * under it, as a resource manager that is root has them. One upcall is never answered. Without being root there is one user. */
#define _GNU_SOURCE
#include "check.h"
#include "since.h"
#include "wait.h"
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "job@1";
static uid_t user;

/* The clients: the program again, of the user it was started as. */

static int client(bool is_refused) {
    pmix_proc_t me;
    pmix_value_t *value;
    pmix_info_t info;
    if (is_refused) {
        CHECK(PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS && !PMIx_Initialized());
        return 0;
    }
    OK(PMIx_Init(&me, NULL, 0));
    OK(PMIx_Get(&me, PMIX_LOCAL_RANK, NULL, 0, &value));
    CHECK(value->type == PMIX_UINT16 && value->data.uint16 == me.rank);
    PMIx_Value_free(value, 1);
    pmix_value_t mine = {.type = PMIX_UINT32, .data.uint32 = getuid()};
    OK(PMIx_Put(PMIX_GLOBAL, "user", &mine));
    OK(PMIx_Commit());
    bool collect = true;
    OK(PMIx_Info_load(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL));
    OK(PMIx_Fence(NULL, 0, &info, 1));
    pmix_proc_t other = me;
    other.rank = !me.rank;
    OK(PMIx_Get(&other, "user", NULL, 0, &value));
    CHECK(value->data.uint32 == user);
    PMIx_Value_free(value, 1);
    if (me.rank == 1) {
        /* The host never answers: who waits can be killed, and nobody else is kept. */
        OK(PMIx_Finalize(NULL, 0));
        return 0;
    }
    OK(PMIx_Info_load(&info, "key", "value", PMIX_STRING));
    PMIx_Publish(&info, 1);
    return 1;
}

/* The host. */

static int connected, finalized, asked;
static void *never;

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)cbfunc, (void)cbdata;
    CHECK(PMIx_Check_nspace(proc->nspace, job) && object == (char *)&asked + proc->rank);
    set(&connected);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)cbfunc, (void)cbdata;
    CHECK(object == (char *)&asked + proc->rank);
    set(&finalized);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
                                void *cbdata) {
    (void)proc, (void)cbfunc;
    size_t found = 0;
    for (size_t i = 0; i < ninfo; i++)
        found += PMIx_Check_key(info[i].key, PMIX_USERID) && info[i].value.data.uint32 == user;
    CHECK(found == 1);
    never = cbdata;
    set(&asked);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {.client_connected = on_connected, .client_finalized = on_finalized, .publish = on_publish};

static pid_t start(char *program, pmix_rank_t rank, uid_t as, char *what) {
    pmix_proc_t proc;
    char **env = NULL, uid[16];
    extern char **environ;
    PMIx_Load_procid(&proc, job, rank);
    env = PMIx_Argv_copy(environ);
    OK(PMIx_server_setup_fork(&proc, &env));
    snprintf(uid, sizeof uid, "%u", user);
    pid_t child = fork();
    if (child == 0) {
        if (getuid() == 0 && (setgroups(0, NULL) || setresgid(as, as, as) || setresuid(as, as, as)))
            _exit(126);
        execle(program, program, what, uid, NULL, env);
        _exit(127);
    }
    PMIx_Argv_free(env);
    return child;
}

static int end_of(pid_t child) {
    int how;
    CHECK(waitpid(child, &how, 0) == child);
    return how;
}

/* Attributes that hosts give to PMIx_server_init, host by host. */
static void starts(void) {
    static int event_base;
    uint32_t number = 1;
    pmix_rank_t rank = 2;
    bool truth = true, lie = false;
    struct {
        const char *host, *key;
        const void *value;
        pmix_data_type_t type;
    } said[] = {
        {"slurm", PMIX_USERID, &number, PMIX_UINT32},
        {"slurm", PMIX_SERVER_TMPDIR, "/tmp", PMIX_STRING},
        {"slurm", PMIX_SERVER_SHARE_TOPOLOGY, &truth, PMIX_BOOL},
        {"flux", PMIX_SERVER_TMPDIR, "/tmp", PMIX_STRING},
        {"flux", PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK},
        {"orte", PMIX_SERVER_TMPDIR, "/tmp", PMIX_STRING},
        {"orte", PMIX_SINGLE_LISTENER, &truth, PMIX_BOOL},
        {"orte", PMIX_SERVER_ENABLE_MONITORING, &truth, PMIX_BOOL},
        {"orte", PMIX_SERVER_TOOL_SUPPORT, &truth, PMIX_BOOL},
        {"orte", PMIX_SERVER_SYSTEM_SUPPORT, &lie, PMIX_BOOL},
        {"orte", PMIX_SERVER_NSPACE, "4711.0", PMIX_STRING},
        {"orte", PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK},
        {"prrte", PMIX_HOSTNAME, "here", PMIX_STRING},
        {"prrte", PMIX_HOSTNAME_ALIASES, "here,there", PMIX_STRING},
        {"prrte", PMIX_HOSTNAME_KEEP_FQDN, &truth, PMIX_BOOL},
        {"prrte", PMIX_EXTERNAL_AUX_EVENT_BASE, &event_base, PMIX_POINTER},
        {"prrte", PMIX_SERVER_SHARE_TOPOLOGY, &truth, PMIX_BOOL},
        {"prrte", PMIX_SERVER_TMPDIR, "/tmp", PMIX_STRING},
        {"prrte", PMIX_SERVER_ENABLE_MONITORING, &truth, PMIX_BOOL},
        {"prrte", PMIX_SERVER_TOOL_SUPPORT, &truth, PMIX_BOOL},
        {"prrte", PMIX_SERVER_SESSION_SUPPORT, &truth, PMIX_BOOL},
        {"prrte", PMIX_SERVER_SYSTEM_SUPPORT, &lie, PMIX_BOOL},
        {"prrte", PMIX_SERVER_GATEWAY, &truth, PMIX_BOOL},
        {"prrte", PMIX_SERVER_SYS_CONTROLLER, &truth, PMIX_BOOL},
        {"prrte", PMIX_CONNECT_TO_SYSTEM, &lie, PMIX_BOOL},
        {"prrte", PMIX_TOOL_CONNECT_OPTIONAL, &truth, PMIX_BOOL},
        {"prrte", PMIX_SERVER_ALLOW_FOREIGN_TOOLS, &lie, PMIX_BOOL},
        {"prrte", PMIX_IOF_LOCAL_OUTPUT, &lie, PMIX_BOOL},
        {"prrte", PMIX_IOF_XML_OUTPUT, &lie, PMIX_BOOL},
        {"prrte", PMIX_TCP_REPORT_URI, "-", PMIX_STRING},
        {"prrte", PMIX_SINGLETON, "alone.0", PMIX_STRING},
        {"prrte", PMIX_BIND_PROGRESS_THREAD, "0", PMIX_STRING},
        {"prrte", PMIX_SERVER_REMOTE_CONNECTIONS, &lie, PMIX_BOOL},
        {"prrte", PMIX_EVENT_SILENT_TERMINATION, &truth, PMIX_BOOL},
        {"prrte", PMIX_SERVER_NSPACE, "prterun-here-4711@0", PMIX_STRING},
        {"prrte", PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK},
    };
    const size_t n = sizeof said / sizeof *said;
    for (size_t first = 0, next; first < n; first = next) {
        pmix_info_t info[sizeof said / sizeof *said];
        for (next = first; next < n && said[next].host == said[first].host; next++) {
            PMIX_INFO_CONSTRUCT(&info[next]);
            OK(PMIx_Info_load(&info[next], said[next].key, said[next].value, said[next].type));
        }
        OK(PMIx_server_init(&module, info + first, next - first));
        OK(PMIx_server_finalize());
        for (size_t i = first; i < next; i++)
            PMIX_INFO_DESTRUCT(&info[i]);
    }
    /* A required attribute that cannot be kept is refused; one that can is not. */
    pmix_info_t info;
    OK(PMIx_Info_load(&info, PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK));
    PMIX_INFO_REQUIRED(&info);
    OK(PMIx_server_init(&module, &info, 1));
    OK(PMIx_server_finalize());
    OK(PMIx_Info_load(&info, "site.unknown", "value", PMIX_STRING));
    OK(PMIx_server_init(&module, &info, 1));
    OK(PMIx_server_finalize());
    PMIX_INFO_REQUIRED(&info);
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_server_init(&module, &info, 1));
    CHECK(!PMIx_Initialized());
    PMIX_INFO_DESTRUCT(&info);
    /* Peers of other machines come in on interfaces of a list, all of which must be there. */
    static const char *const lists[] = {PMIX_TCP_IF_INCLUDE, PMIX_TCP_IF_EXCLUDE};
    for (size_t i = 0; i < 2; i++) {
        pmix_info_t remote[2];
        OK(PMIx_Info_load(&remote[0], PMIX_SERVER_REMOTE_CONNECTIONS, &truth, PMIX_BOOL));
        OK(PMIx_Info_load(&remote[1], lists[i], "lo", PMIX_STRING));
        PMIX_INFO_REQUIRED(&remote[0]);
        PMIX_INFO_REQUIRED(&remote[1]);
        OK(PMIx_server_init(&module, remote, 2));
        OK(PMIx_server_finalize());
        PMIX_INFO_DESTRUCT(&remote[1]);
        OK(PMIx_Info_load(&remote[1], lists[i], "lo,nowhere0", PMIX_STRING));
        IS(PMIX_ERR_INIT, PMIx_server_init(&module, remote, 2));
        CHECK(!PMIx_Initialized());
        PMIX_INFO_DESTRUCT(&remote[1]);
        PMIX_INFO_DESTRUCT(&remote[0]);
    }
}

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

int main(int argc, char **argv) {
    if (argc == 2)
        return 0;
    if (argc > 2) {
        user = (uid_t)atoi(argv[2]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return client(!strcmp(argv[1], "refused"));
    }
    user = getuid();
    if (user == 0) {
        /* Others may not be able to get at this program and its library. */
        pid_t child = fork();
        if (child == 0) {
            if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
                _exit(126);
            execl(argv[0], argv[0], "look", NULL);
            _exit(127);
        }
        user = end_of(child) == 0 ? 65534 : 0;
        if (user == 0)
            fprintf(stderr, "other users cannot run %s: there is one user\n", argv[0]);
    }
    starts();
    pmix_info_t info[4];
    uint32_t size = 2;
    int removed = 0;
    OK(PMIx_server_init(&module, NULL, 0));
    OK(PMIx_Info_load(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32));
    OK(PMIx_Info_load(&info[1], PMIX_LOCAL_PEERS, "0,1", PMIX_STRING));
    OK(PMIx_Info_load(&info[2], PMIX_NODE_MAP, "here", PMIX_STRING));
    OK(PMIx_Info_load(&info[3], PMIX_PROC_MAP, "0,1", PMIX_STRING));
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job, 2, info, 4, NULL, NULL));
    for (int i = 1; i < 4; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    for (pmix_rank_t rank = 0; rank < 2; rank++) {
        pmix_proc_t proc;
        PMIx_Load_procid(&proc, job, rank);
        IS(PMIX_OPERATION_SUCCEEDED,
           PMIx_server_register_client(&proc, user, user == getuid() ? getgid() : user, (char *)&asked + rank, NULL, NULL));
    }
    if (user != getuid()) {
        CHECK(end_of(start(argv[0], 0, 65533, "refused")) == 0);
        CHECK(end_of(start(argv[0], 0, 0, "refused")) == 0);
    }
    CHECK(connected == 0);
    pid_t ranks[2] = {start(argv[0], 0, user, "client"), start(argv[0], 1, user, "client")};
    CHECK(end_of(ranks[1]) == 0);
    until(&asked, 1);
    CHECK(connected == 2 && finalized == 1);
    kill(ranks[0], SIGKILL);
    CHECK(WIFSIGNALED(end_of(ranks[0])));
    PMIx_server_deregister_nspace(job, done, &removed);
    until(&removed, 1);
    OK(PMIx_server_finalize());
    return 0;
}
