/* A whole job of two ranks. The program is its own host: it starts itself again as the ranks, which it tells apart by
 * PMIX_RANK. The module is as long as that of release 4.2, the shortest, at the end of a page: nothing behind it may be
 * touched. */
#include "check.h"
#include "wait.h"
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 2
static const pmix_nspace_t job = "job@1";
static int connected, finalized, fetched, lost, aborted, objects[RANKS + 1];

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

/* The ranks. */

static pmix_value_t *get(pmix_rank_t rank, const char *key, pmix_data_type_t type) {
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    PMIx_Proc_load(&proc, job, rank);
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value->type != type) {
        fprintf(stderr, "%s of %u: %s, type %u\n", key, rank, PMIx_Error_string(status), value ? value->type : 0);
        exit(1);
    }
    return value;
}

static void fenced(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

static int rank(bool dies, bool refused) {
    pmix_proc_t me;
    if (refused) {
        IS(PMIX_ERR_NO_PERMISSIONS, PMIx_Init(&me, NULL, 0));
        CHECK(!PMIx_Initialized());
        return 0;
    }
    OK(PMIx_Init(&me, NULL, 0));
    CHECK(PMIx_Check_nspace(me.nspace, job) && me.rank < RANKS);
    pmix_rank_t peer = 1 - me.rank;
    pmix_value_t *value;

    value = get(PMIX_RANK_WILDCARD, "pmix.job.size", PMIX_UINT32);
    CHECK(value->data.uint32 == RANKS);
    PMIx_Value_free(value, 1);
    value = get(peer, "pmix.lrank", PMIX_UINT16);
    CHECK(value->data.uint16 == peer);
    PMIx_Value_free(value, 1);
    value = get(PMIX_RANK_WILDCARD, "pmix.lpeers", PMIX_STRING);
    CHECK(!strcmp(value->data.string, "0,1"));
    PMIx_Value_free(value, 1);
    value = get(PMIX_RANK_WILDCARD, "site.null", PMIX_STRING);
    CHECK(value->data.string == NULL);
    PMIx_Value_free(value, 1);

    pmix_proc_t *peers;
    size_t npeers;
    OK(PMIx_Resolve_peers(NULL, job, &peers, &npeers));
    CHECK(npeers == RANKS && peers[1].rank == 1);
    free(peers);
    /* An empty namespace is none: whoever is here has a name. */
    pmix_nspace_t none = "";
    OK(PMIx_Resolve_peers(NULL, none, &peers, &npeers));
    CHECK(npeers == RANKS && peers[1].rank == 1 && !strcmp(peers[1].nspace, job));
    free(peers);
    char *of_all, *of_one;
    OK(PMIx_Resolve_nodes(none, &of_all));
    OK(PMIx_Resolve_nodes(job, &of_one));
    CHECK(*of_one && !strcmp(of_all, of_one));
    free(of_all);
    free(of_one);

    char blob[5000];
    memset(blob, 'a' + me.rank, sizeof blob);
    pmix_value_t put = {.type = PMIX_BYTE_OBJECT, .data.bo = {blob, sizeof blob}};
    OK(PMIx_Put(PMIX_GLOBAL, "blob", &put));
    pmix_info_t inner[2] = {0};
    OK(PMIx_Info_load(&inner[0], "a", "text", PMIX_STRING));
    OK(PMIx_Info_load(&inner[1], "b", &me, PMIX_PROC));
    pmix_data_array_t array = {PMIX_INFO, 2, inner};
    pmix_value_t nested = {.type = PMIX_DATA_ARRAY, .data.darray = &array};
    OK(PMIx_Put(PMIX_GLOBAL, "nested", &nested));
    PMIx_Info_destruct(&inner[0]);
    PMIx_Info_destruct(&inner[1]);
    OK(PMIx_Commit());

    pmix_info_t collect;
    OK(PMIx_Info_load(&collect, "pmix.collect", NULL, PMIX_BOOL));
    int met = 0;
    CHECK(PMIx_Fence_nb(NULL, 0, NULL, 0, NULL, NULL) == PMIX_ERR_BAD_PARAM);
    OK(PMIx_Fence_nb(NULL, 0, &collect, 1, fenced, &met));
    until(&met, 1);

    value = get(peer, "blob", PMIX_BYTE_OBJECT);
    CHECK(value->data.bo.size == sizeof blob && value->data.bo.bytes[4999] == (char)('a' + peer));
    PMIx_Value_free(value, 1);
    value = get(peer, "nested", PMIX_DATA_ARRAY);
    pmix_info_t *info = value->data.darray->array;
    CHECK(value->data.darray->size == 2 && !strcmp(info[0].value.data.string, "text"));
    CHECK(info[1].value.type == PMIX_PROC && info[1].value.data.proc->rank == peer);
    PMIx_Value_free(value, 1);
    pmix_proc_t other;
    PMIx_Proc_load(&other, job, peer);
    OK(PMIx_Get(&other, NULL, NULL, 0, &value));
    CHECK(value->type == PMIX_DATA_ARRAY && value->data.darray->size > 2);
    PMIx_Value_free(value, 1);

    /* A child of the process finds itself uninitialised, and packs as its parent would. */
    pid_t child = fork();
    if (child == 0) {
        pmix_data_buffer_t buffer;
        int32_t packed = 7, unpacked = 0, n = 1;
        PMIx_Data_buffer_construct(&buffer);
        OK(PMIx_Data_pack(NULL, &buffer, &packed, 1, PMIX_INT32));
        OK(PMIx_Data_unpack(NULL, &buffer, &unpacked, &n, PMIX_INT32));
        CHECK(n == 1 && unpacked == packed);
        PMIx_Data_buffer_destruct(&buffer);
        _exit(PMIx_Initialized() || PMIx_Get(&other, "blob", NULL, 0, &value) != PMIX_ERR_INIT);
    }
    int how;
    CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0);

    OK(PMIx_Fence(NULL, 0, NULL, 0));
    if (dies && me.rank == 1) {
        OK(PMIx_Abort(7, "enough", NULL, 0));
        _exit(0);
    }
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

/* The host. */

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)cbfunc, (void)cbdata;
    CHECK(proc->rank < RANKS && object == &objects[proc->rank + 1]);
    set(&connected);
    return PMIX_SUCCESS;
}

/* A host that needs a while to find out that it does not want somebody. */

struct answer {
    pmix_op_cbfunc_t cbfunc;
    void *cbdata;
};

static void *refuse(void *arg) {
    struct answer answer = *(struct answer *)arg;
    free(arg);
    answer.cbfunc(PMIX_ERR_NO_PERMISSIONS, answer.cbdata);
    return NULL;
}

static pmix_status_t on_connected2(const pmix_proc_t *proc, void *object, pmix_info_t *info, size_t ninfo,
                                   pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)info, (void)ninfo;
    CHECK(proc->rank < RANKS && object == &objects[proc->rank + 1] && cbfunc != NULL);
    struct answer *answer = malloc(sizeof *answer);
    *answer = (struct answer){cbfunc, cbdata};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, refuse, answer) && !pthread_detach(thread));
    set(&connected);
    return PMIX_SUCCESS;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    CHECK(object == &objects[proc->rank + 1]);
    cbfunc(PMIX_SUCCESS, cbdata);
    set(&finalized);
    return PMIX_SUCCESS;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char *message,
                              pmix_proc_t *procs, size_t nprocs, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)object, (void)procs, (void)cbfunc, (void)cbdata;
    CHECK(status == 7 && !strcmp(message, "enough") && nprocs == 0);
    set(&aborted);
    return PMIX_OPERATION_SUCCEEDED;
}

static void on_data(pmix_status_t status, char *data, size_t size, void *what) {
    OK(status);
    CHECK(data != NULL && size > 5000);
    set(what);
}

static void on_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)info, (void)ninfo, (void)results, (void)nresults;
    CHECK(status == PMIX_ERR_LOST_CONNECTION && source->rank == 1);
    next(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
    set(&lost);
}

int main(int argc, char **argv) {
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    bool dies = argc > 1 && !strcmp(argv[1], "dies"), refused = argc > 1 && !strcmp(argv[1], "refused");
    if (getenv("PMIX_RANK"))
        return rank(dies, refused);

    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_NONE));
    /* Slots behind the last one that all releases have differ between releases. */
    size_t shortest = offsetof(pmix_server_module_t, client_connected2) + sizeof(pmix_server_client_connected2_fn_t);
    pmix_server_module_t *module = (void *)(pages + page - shortest);
    CHECK(shortest == 224);
    module->client_connected = on_connected;
    if (refused)
        module->client_connected2 = on_connected2;
    module->client_finalized = on_finalized;
    module->abort = on_abort;
    IS(PMIX_ERR_INIT, PMIx_server_register_nspace(job, 1, NULL, 0, NULL, NULL));
    OK(PMIx_server_init(module, NULL, 0));
    CHECK(PMIx_Initialized());
    CHECK(PMIx_Register_event_handler(NULL, 0, NULL, 0, on_lost, NULL, NULL) >= 0);

    char host[256], *nodes, *ranks;
    CHECK(!gethostname(host, sizeof host));
    OK(PMIx_generate_regex(host, &nodes));
    OK(PMIx_generate_ppn("0,1", &ranks));
    pmix_info_t *info = PMIx_Info_create(6);
    uint32_t size = RANKS;
    OK(PMIx_Info_load(&info[0], "pmix.nmap", nodes, PMIX_REGEX));
    OK(PMIx_Info_load(&info[1], "pmix.pmap", ranks, PMIX_REGEX));
    OK(PMIx_Info_load(&info[2], "pmix.job.size", &size, PMIX_UINT32));
    OK(PMIx_Info_load(&info[3], "pmix.lpeers", "0,1", PMIX_STRING));
    OK(PMIx_Info_load(&info[4], "site.null", NULL, PMIX_STRING));
    OK(PMIx_Info_load(&info[5], "pmix.max.size", &size, PMIX_UINT32));
    free(nodes);
    free(ranks);
    int registered = 0;
    OK(PMIx_server_register_nspace(job, RANKS, info, 6, done, &registered));
    PMIx_Info_free(info, 6);
    until(&registered, 1);

    pmix_proc_t proc;
    pid_t pids[RANKS];
    for (int i = 0; i < RANKS; i++) {
        PMIx_Proc_load(&proc, job, i);
        IS(PMIX_OPERATION_SUCCEEDED,
           PMIx_server_register_client(&proc, getuid(), getgid(), &objects[i + 1], NULL, NULL));
    }
    for (int i = 0; i < RANKS; i++) {
        PMIx_Proc_load(&proc, job, i);
        char **env = NULL, *path = getenv("LD_LIBRARY_PATH");
        /* An outer launcher's, which would lead elsewhere. */
        const char *left[] = {"PMIX_SERVER_URI2=left", "PMIX_SERVER_URI41=left", "PMIX_SERVER_URI51=left", "PMIX_SERVER_URI61=left",
                              "PMIX_DSTORE_ESH_BASE_PATH=left", "PMIX_DSTORE_21_BASE_PATH=left", "PMIX_KEEPALIVE_PIPE=left",
                              "INSTANTON_SERVER=left", "INSTANTON_OTHER=left", "PMIX_NAMESPACE=left", "PMIX_RANK=left"};
        for (size_t n = 0; n < sizeof left / sizeof *left; n++)
            OK(PMIx_Argv_append_nosize(&env, left[n]));
        OK(PMIx_Argv_append_nosize(&env, "KEPT=1"));
        if (path)
            OK(PMIx_Setenv("LD_LIBRARY_PATH", path, true, &env));
        pids[i] = fork();
        if (pids[i] == 0) {
            OK(PMIx_server_setup_fork(&proc, &env));
            bool kept = false;
            for (char **setting = env; *setting; setting++) {
                CHECK(strcmp(strchr(*setting, '=') + 1, "left"));
                kept |= !strcmp(*setting, "KEPT=1");
            }
            CHECK(kept);
            execve(argv[0], argv, env);
            _exit(127);
        }
        PMIx_Argv_free(env);
    }
    PMIx_Proc_load(&proc, job, 0);
    if (!refused) {
        OK(PMIx_server_dmodex_request(&proc, on_data, &fetched));
        until(&fetched, 1);
    }
    for (int i = 0; i < RANKS; i++) {
        int how;
        CHECK(waitpid(pids[i], &how, 0) == pids[i] && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    until(&connected, RANKS);
    until(&finalized, refused ? 0 : dies ? RANKS - 1 : RANKS);
    if (dies) {
        until(&aborted, 1);
        until(&lost, 1);
    }
    int gone = 0;
    PMIx_server_deregister_nspace(job, done, &gone);
    until(&gone, 1);
    OK(PMIx_server_finalize());
    IS(PMIX_ERR_INIT, PMIx_server_finalize());
    CHECK(!PMIx_Initialized());
    return 0;
}
