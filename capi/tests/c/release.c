/* A host that keeps the data of a fence, which are its own, and answers with a lock held that the function that releases
 * them takes as well: once inside the upcall and once from a thread of its own. The job has two nodes; the program is the
 * server of one, and its only rank. */
#include "check.h"
#include "wait.h"
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "job@1";
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static int registered, released, fences;

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

struct answer {
    char *data;
    size_t size;
    pmix_modex_cbfunc_t cbfunc;
    void *cbdata;
};

static void release(void *arg) {
    struct answer *answer = arg;
    pthread_mutex_lock(&held);
    free(answer->data);
    free(answer);
    pthread_mutex_unlock(&held);
    set(&released);
}

static void *give(void *arg) {
    struct answer *answer = arg;
    pthread_mutex_lock(&held);
    answer->cbfunc(PMIX_SUCCESS, answer->data, answer->size, answer->cbdata, release, answer);
    pthread_mutex_unlock(&held);
    return NULL;
}

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                              char *data, size_t size, pmix_modex_cbfunc_t cbfunc, void *cbdata) {
    (void)procs, (void)nprocs, (void)info, (void)ninfo;
    struct answer *answer = malloc(sizeof *answer);
    *answer = (struct answer){data, size, cbfunc, cbdata};
    if (fences++ == 0) {
        give(answer);
        return PMIX_SUCCESS;
    }
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, give, answer) && !pthread_detach(thread));
    return PMIX_SUCCESS;
}

/* Data that this host is asked to fetch never comes. */
static pmix_status_t on_fetch(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                              pmix_modex_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)info, (void)ninfo, (void)cbfunc, (void)cbdata;
    return PMIX_SUCCESS;
}

static int rank(void) {
    pmix_proc_t me;
    pmix_info_t collect;
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 7};
    OK(PMIx_Init(&me, NULL, 0));
    OK(PMIx_Info_load(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL));
    for (int i = 0; i < 2; i++) {
        OK(PMIx_Put(PMIX_GLOBAL, i ? "one" : "two", &value));
        OK(PMIx_Commit());
        OK(PMIx_Fence(NULL, 0, &collect, 1));
    }
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

int main(int argc, char **argv) {
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    (void)argc;
    if (getenv("PMIX_RANK"))
        return rank();
    pmix_server_module_t module = {.fence_nb = on_fence, .direct_modex = on_fetch};
    OK(PMIx_server_init(&module, NULL, 0));
    pmix_info_t info[4];
    uint32_t size = 2;
    OK(PMIx_Info_load(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32));
    OK(PMIx_Info_load(&info[1], PMIX_NODE_MAP, "here,there", PMIX_STRING));
    OK(PMIx_Info_load(&info[2], PMIX_PROC_MAP, "0;1", PMIX_STRING));
    OK(PMIx_Info_load(&info[3], PMIX_LOCAL_PEERS, "0", PMIX_STRING));
    OK(PMIx_server_register_nspace(job, 1, info, 4, done, &registered));
    until(&registered, 1);
    for (int i = 0; i < 4; i++)
        PMIx_Info_destruct(&info[i]);
    pmix_proc_t proc;
    PMIx_Proc_load(&proc, job, 0);
    OK(PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, done, &registered));
    until(&registered, 2);
    /* The host itself is not kept waiting for what it would have to bring. */
    pmix_proc_t other;
    pmix_value_t *value;
    PMIx_Proc_load(&other, job, 1);
    IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&other, "modex", NULL, 0, &value));
    pid_t child = fork();
    if (child == 0) {
        extern char **environ;
        char **env = NULL;
        for (char **setting = environ; *setting; setting++)
            PMIx_Argv_append_nosize(&env, *setting);
        OK(PMIx_server_setup_fork(&proc, &env));
        execve(argv[0], argv, env);
        _exit(1);
    }
    int how;
    CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    until(&released, 2);
    OK(PMIx_server_finalize());
    return 0;
}
