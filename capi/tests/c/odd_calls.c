/* Calls that are odd: before Init and after Finalize, with arguments that say nothing, and of a process that nobody launched. Compiled with
 * our headers it prints the same on our library and on others. */
#define _GNU_SOURCE
#include "wait.h"
#include <pmix.h>
#include <pmix_server.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pmix_value_t seven = {.type = PMIX_UINT32, .data = {.uint32 = 7}};

static pmix_proc_t named(const char *nspace, pmix_rank_t rank) {
    pmix_proc_t proc = PMIX_PROC_STATIC_INIT;
    strncpy(proc.nspace, nspace, PMIX_MAX_NSLEN);
    proc.rank = rank;
    return proc;
}

static void show(const char *what, pmix_status_t status) {
    printf("%s: %d\n", what, status);
}

/* Without an Init, nothing else counts. */
static void uninitialized(void) {
    pmix_proc_t me = named("nobody", 0);
    pmix_value_t *value;
    pmix_info_t info = PMIX_INFO_STATIC_INIT;
    pmix_pdata_t pdata;
    char *text, nspace[PMIX_MAX_NSLEN + 1];
    memset(&pdata, 0, sizeof pdata);
    show("put without a key", PMIx_Put(PMIX_GLOBAL, NULL, &seven));
    show("put of nothing", PMIx_Put(PMIX_GLOBAL, "k", NULL));
    show("get without a place", PMIx_Get(NULL, NULL, NULL, 0, NULL));
    show("get for nobody", PMIx_Get_nb(NULL, PMIX_RANK, NULL, 0, NULL, NULL));
    show("get", PMIx_Get(&me, "k", NULL, 0, &value));
    show("fence for nobody", PMIx_Fence_nb(&me, 1, NULL, 0, NULL, NULL));
    show("publish nothing", PMIx_Publish(NULL, 1));
    show("look nothing up", PMIx_Lookup(NULL, 0, NULL, 0));
    show("look none up", PMIx_Lookup(&pdata, 0, NULL, 0));
    show("spawn nothing", PMIx_Spawn(NULL, 0, NULL, 1, nspace));
    show("log nothing", PMIx_Log(NULL, 1, NULL, 0));
    show("watch nothing", PMIx_Process_monitor_nb(NULL, 0, NULL, 0, NULL, NULL));
    show("destroy no group", PMIx_Group_destruct(NULL, NULL, 0));
    show("keep nothing", PMIx_Store_internal(&me, NULL, NULL));
    show("no handler", PMIx_Register_event_handler(NULL, 0, &info, 0, NULL, NULL, NULL));
    show("names", PMIx_generate_regex("a,b", &text));
    show("ranks", PMIx_generate_ppn("0;1", &text));
    show("no environment", PMIx_server_setup_fork(&me, NULL));
    show("environment for nobody", PMIx_server_setup_fork(NULL, NULL));
}

static void got(const char *what, const pmix_proc_t *proc, const char *key, const pmix_info_t *info, size_t ninfo) {
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(proc, key, info, ninfo, &value);
    printf("%s: %d", what, rc);
    if (rc == PMIX_SUCCESS && value->type == PMIX_STRING)
        printf(", %s", value->data.string);
    else if (rc == PMIX_SUCCESS && value->type == PMIX_UINT16)
        printf(", %u", (unsigned)value->data.uint16);
    else if (rc == PMIX_SUCCESS && value->type != PMIX_DATA_ARRAY)
        printf(", %u", (unsigned)value->data.uint32);
    printf("\n");
    if (rc == PMIX_SUCCESS) {
        PMIX_VALUE_DESTRUCT(value);
        free(value);
    }
}

/* Keys that a process knows of a job of its own. */
static void alone(const pmix_proc_t *me) {
    pmix_proc_t job = named(me->nspace, PMIX_RANK_WILDCARD);
    pmix_info_t level[] = {PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT};
    PMIX_INFO_LOAD(&level[0], PMIX_JOB_INFO, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&level[1], PMIX_APP_INFO, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&level[2], PMIX_NODE_INFO, NULL, PMIX_BOOL);
    got("rank", me, PMIX_RANK, NULL, 0);
    got("own rank", NULL, PMIX_RANK, NULL, 0);
    got("local rank", me, PMIX_LOCAL_RANK, NULL, 0);
    got("own local rank", NULL, PMIX_LOCAL_RANK, NULL, 0);
    got("global rank", me, PMIX_GLOBAL_RANK, NULL, 0);
    got("rank in the application", me, PMIX_APP_RANK, NULL, 0);
    got("application", me, PMIX_APPNUM, NULL, 0);
    got("its leader", me, PMIX_APPLDR, NULL, 0);
    got("node", me, PMIX_HOSTNAME, NULL, 0);
    got("job's size", &job, PMIX_JOB_SIZE, NULL, 0);
    got("size of the job", &job, PMIX_JOB_SIZE, &level[0], 1);
    got("local size", &job, PMIX_LOCAL_SIZE, NULL, 0);
    got("node's size", &job, PMIX_NODE_SIZE, &level[2], 1);
    got("peers", &job, PMIX_LOCAL_PEERS, NULL, 0);
    got("leader", &job, PMIX_LOCALLDR, NULL, 0);
    got("nodes", &job, PMIX_NODE_MAP, NULL, 0);
    got("processes", &job, PMIX_PROC_MAP, NULL, 0);
    got("offset", &job, PMIX_NPROC_OFFSET, NULL, 0);
    got("most", &job, PMIX_MAX_PROCS, NULL, 0);
    got("most of the job", &job, PMIX_MAX_PROCS, &level[0], 1);
    got("most of the application", &job, PMIX_MAX_PROCS, &level[1], 1);
    got("most of the node", &job, PMIX_MAX_PROCS, &level[2], 1);
    got("nothing", &job, "pmix.nothing", NULL, 0);
    got("everything of nobody", NULL, NULL, NULL, 0);
    got("everything of all", &job, NULL, NULL, 0);
    got("everything", me, NULL, NULL, 0);
}

static void proved(pmix_status_t status, pmix_byte_object_t *papers, pmix_info_t info[], size_t ninfo, void *data) {
    (void)status, (void)papers, (void)info, (void)ninfo, (void)data;
}

/* Nobody proves who this is. */
static void proofs(void) {
    pmix_byte_object_t papers = {"papers", 6}, place;
    pmix_info_t *results;
    size_t nresults;
    show("credential", PMIx_Get_credential(NULL, 0, &place));
    show("credential without waiting", PMIx_Get_credential_nb(NULL, 0, proved, NULL));
    show("validate", PMIx_Validate_credential(&papers, NULL, 0, &results, &nresults));
}

/* Nothing is put into another library's objects. */
static void foreign(void) {
    pmix_cpuset_t cpuset = {.source = "other"};
    pmix_topology_t topology = {.source = "other"};
    printf("cpuset of another library: %d\n", PMIx_Get_cpuset(&cpuset, PMIX_CPUBIND_PROCESS) == PMIX_SUCCESS);
    printf("topology of another library: %d\n", PMIx_Load_topology(&topology) == PMIX_SUCCESS);
}

/* Calls that need a server, and nothing else. */
static void without_a_server(const pmix_proc_t *me) {
    pmix_info_t info = PMIX_INFO_STATIC_INIT, *results;
    pmix_pdata_t pdata;
    size_t nresults;
    memset(&pdata, 0, sizeof pdata);
    show("publish nothing", PMIx_Publish(NULL, 0));
    show("look none up", PMIx_Lookup(&pdata, 0, NULL, 0));
    show("unpublish", PMIx_Unpublish(NULL, NULL, 0));
    show("connect nobody", PMIx_Connect(NULL, 0, NULL, 0));
    show("fence", PMIx_Fence(NULL, 0, &info, 1));
    show("fence for nobody", PMIx_Fence_nb(me, 1, NULL, 0, NULL, NULL));
    show("group of nobody", PMIx_Group_construct("g", NULL, 0, NULL, 0, &results, &nresults));
}

static int heard;
static void done(pmix_status_t status, void *data) {
    (void)data;
    show("done", status);
    set(&heard);
}

/* Keys that a server knows of itself and of a job of its own name. */
static void serves(void) {
    static pmix_server_module_t module;
    uint32_t universe = 7, size = 2;
    pmix_rank_t rank = 0;
    pmix_proc_t me = named("host", 0), job = named("host", PMIX_RANK_WILDCARD);
    pmix_info_t optional = PMIX_INFO_STATIC_INIT, start[] = {PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT};
    pmix_info_t info[] = {PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT,
                          PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT, PMIX_INFO_STATIC_INIT};
    char node[256], *nodes, *ranks;
    PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&start[0], PMIX_SERVER_NSPACE, "host", PMIX_STRING);
    PMIX_INFO_LOAD(&start[1], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&start[2], PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    show("server", PMIx_server_init(&module, start, 3));
    pmix_value_t *value = NULL;
    printf("its address: %d\n", PMIx_Get(&me, PMIX_SERVER_URI, NULL, 0, &value));
    printf("its own address: %d\n", PMIx_Get(&me, PMIX_MYSERVER_URI, NULL, 0, &value));
    got("universe of nobody", NULL, PMIX_UNIV_SIZE, &optional, 1);
    if (gethostname(node, sizeof node) || PMIx_generate_regex(node, &nodes) || PMIx_generate_ppn("0,1", &ranks)) exit(1);
    PMIX_INFO_LOAD(&info[0], PMIX_UNIV_SIZE, &universe, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[2], PMIX_LOCAL_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[3], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[4], PMIX_PROC_MAP, ranks, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[5], PMIX_LOCAL_PEERS, "0,1", PMIX_STRING);
    if (PMIx_server_register_nspace(me.nspace, 2, info, 6, done, NULL) == PMIX_SUCCESS) until(&heard, 1);
    got("universe", &me, PMIX_UNIV_SIZE, &optional, 1);
    got("universe of the job", &job, PMIX_UNIV_SIZE, &optional, 1);
    got("own universe", NULL, PMIX_UNIV_SIZE, &optional, 1);
    got("own local size", NULL, PMIX_LOCAL_SIZE, &optional, 1);
    got("own peers", NULL, PMIX_LOCAL_PEERS, &optional, 1);
    got("own local rank", NULL, PMIX_LOCAL_RANK, &optional, 1);
    pmix_nspace_t nobody = "";
    pmix_status_t asked = PMIx_server_register_nspace(nobody, -1, info, 1, done, NULL);
    /* The order of the two is for the threads to decide. */
    until(&heard, 2);
    show("no namespace", asked);
    show("no namespace, without waiting", PMIx_server_register_nspace(nobody, -1, info, 1, NULL, NULL));
    show("its end", PMIx_server_finalize());
}

int main(void) {
    pmix_proc_t me = PMIX_PROC_STATIC_INIT, again = PMIX_PROC_STATIC_INIT;
    int status;
    pid_t server = fork();
    if (server == 0) {
        serves();
        exit(0);
    }
    if (waitpid(server, &status, 0) != server || status) return 1;
    uninitialized();
    show("init", PMIx_Init(&me, NULL, 0));
    show("init again", PMIx_Init(&again, NULL, 0));
    printf("the same: %d\n", !strcmp(me.nspace, again.nspace) && me.rank == again.rank);
    show("put under no name", PMIx_Put(PMIX_GLOBAL, "", &seven));
    show("commit", PMIx_Commit());
    got("no name", &me, "", NULL, 0);
    show("keep under no name", PMIx_Store_internal(&me, "", &seven));
    alone(&me);
    without_a_server(&me);
    proofs();
    foreign();
    show("finalize", PMIx_Finalize(NULL, 0));
    show("finalize", PMIx_Finalize(NULL, 0));
    uninitialized();
    show("finalize once more", PMIx_Finalize(NULL, 0));
    return 0;
}
