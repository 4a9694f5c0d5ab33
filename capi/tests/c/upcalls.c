/* A host that calls its server from within what it is asked, as launchers do: it registers the job that it is to start, looks at
 * others, and forgets who goes, and answers from the callbacks of those calls. A call that would have to wait for itself is an error. */
#include "check.h"
#include "wait.h"
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "job@1", child = "child@2";
static int ended, posted;

/* The rank. */

static int rank(void) {
    pmix_proc_t me;
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 7};
    pmix_app_t app = {.cmd = "prog", .maxprocs = 1};
    pmix_nspace_t started;
    pmix_info_t *results;
    size_t nresults;
    char *keys[] = {"site.posted", NULL};
    pmix_query_t query = {.keys = keys};
    OK(PMIx_Init(&me, NULL, 0));
    OK(PMIx_Put(PMIX_GLOBAL, "endpoint", &value));
    OK(PMIx_Commit());
    OK(PMIx_Query_info(&query, 1, &results, &nresults));
    CHECK(nresults == 1 && results[0].value.type == PMIX_SIZE && results[0].value.data.size > 0);
    PMIx_Info_free(results, nresults);
    OK(PMIx_Spawn(NULL, 0, &app, 1, started));
    CHECK(PMIx_Check_nspace(started, child));
    /* It was registered before the answer. */
    pmix_proc_t of_child;
    pmix_value_t *size;
    PMIx_Load_procid(&of_child, child, PMIX_RANK_WILDCARD);
    OK(PMIx_Get(&of_child, PMIX_JOB_SIZE, NULL, 0, &size));
    CHECK(size->data.uint32 == 3);
    PMIx_Value_free(size, 1);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

/* The host. */

struct question {
    void *cbfunc, *cbdata;
};

static struct question *question(void *cbfunc, void *cbdata) {
    struct question *question = malloc(sizeof *question);
    *question = (struct question){cbfunc, cbdata};
    return question;
}

static void client_registered(pmix_status_t status, void *data) {
    struct question *asked = data;
    OK(status);
    ((pmix_spawn_cbfunc_t)asked->cbfunc)(PMIX_SUCCESS, (char *)child, asked->cbdata);
    free(asked);
}

static void nspace_registered(pmix_status_t status, void *data) {
    pmix_proc_t proc;
    char **env = NULL;
    OK(status);
    PMIx_Load_procid(&proc, child, 0);
    IS(PMIX_ERR_WOULD_BLOCK, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    OK(PMIx_server_setup_fork(&proc, &env));
    PMIx_Argv_free(env);
    OK(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, client_registered, data));
}

static pmix_status_t on_spawn(const pmix_proc_t *p, const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[], size_t napps,
                              pmix_spawn_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)info, (void)ninfo, (void)apps, (void)napps;
    pmix_info_t size;
    OK(PMIx_Info_load(&size, PMIX_JOB_SIZE, (uint32_t[]){3}, PMIX_UINT32));
    IS(PMIX_ERR_WOULD_BLOCK, PMIx_server_register_nspace(child, 1, &size, 1, NULL, NULL));
    OK(PMIx_server_register_nspace(child, 1, &size, 1, nspace_registered, question(cbfunc, cbdata)));
    PMIx_Info_destruct(&size);
    return PMIX_SUCCESS;
}

static void fetched(pmix_status_t status, char *data, size_t size, void *what) {
    struct question *asked = what;
    pmix_info_t info;
    OK(status);
    CHECK(data != NULL);
    OK(PMIx_Info_load(&info, "site.posted", &size, PMIX_SIZE));
    ((pmix_info_cbfunc_t)asked->cbfunc)(PMIX_SUCCESS, &info, 1, asked->cbdata, NULL, NULL);
    free(asked);
    set(&posted);
}

static pmix_status_t on_query(pmix_proc_t *p, pmix_query_t *queries, size_t n, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)queries, (void)n;
    /* An event of its own is raised without waiting as well. */
    OK(PMIx_Notify_event(-7000, p, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    OK(PMIx_server_dmodex_request(p, fetched, question(cbfunc, cbdata)));
    return PMIX_SUCCESS;
}

static void forgotten(pmix_status_t status, void *data) {
    struct question *asked = data;
    OK(status);
    /* The server cannot end while it waits for this, and goes on. */
    IS(PMIX_ERR_WOULD_BLOCK, PMIx_server_finalize());
    ((pmix_op_cbfunc_t)asked->cbfunc)(PMIX_SUCCESS, asked->cbdata);
    free(asked);
    set(&ended);
}

static pmix_status_t on_finalized(const pmix_proc_t *p, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)object;
    PMIx_server_deregister_client(p, forgotten, question(cbfunc, cbdata));
    return PMIX_SUCCESS;
}

/* The caller holds the lock until the call has returned. */
static void nonsense(pmix_status_t status, void *what) {
    IS(PMIX_ERR_BAD_PARAM, status);
    set(what);
}

int main(int argc, char **argv) {
    (void)argc;
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    if (getenv("PMIX_RANK"))
        return rank();
    pmix_server_module_t module = {.spawn = on_spawn, .query = on_query, .client_finalized = on_finalized};
    pmix_info_t size;
    pmix_proc_t proc;
    extern char **environ;
    OK(PMIx_server_init(&module, NULL, 0));
    OK(PMIx_Info_load(&size, PMIX_JOB_SIZE, (uint32_t[]){1}, PMIX_UINT32));
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job, 1, &size, 1, NULL, NULL));
    PMIx_Info_destruct(&size);
    PMIx_Load_procid(&proc, job, 0);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    char **env = PMIx_Argv_copy(environ);
    OK(PMIx_server_setup_fork(&proc, &env));
    pid_t pid = fork();
    if (pid == 0) {
        execve(argv[0], argv, env);
        _exit(127);
    }
    PMIx_Argv_free(env);
    int how;
    CHECK(waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    until(&ended, 1);
    CHECK(posted == 1);
    /* A callback runs after the call that it is of. */
    pthread_mutex_lock(&lock);
    PMIx_server_deregister_nspace(NULL, nonsense, &ended);
    PMIx_server_deregister_client(NULL, nonsense, &ended);
    pthread_mutex_unlock(&lock);
    until(&ended, 3);
    OK(PMIx_server_finalize());
    CHECK(!PMIx_Initialized());
    return 0;
}
