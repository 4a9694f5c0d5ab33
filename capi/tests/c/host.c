/* A host that implements its whole module, and a client that asks for everything, waiting and not. RELEASE is the release that
 * the host stands for: its module is as long as that release's and lies in front of a page that cannot be read, and the
 * program imports what proves the release. */
#include "check.h"
#include "wait.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef RELEASE
#define RELEASE 42
#endif
enum { SLOTS = RELEASE >= 61 ? 32 : RELEASE == 60 ? 30 : RELEASE == 50 ? 29 : 28 };
_Static_assert(PMIX_VERSION_MAJOR == 6 || sizeof(pmix_server_module_t) == SLOTS * sizeof(void *), "of another release");

static const pmix_nspace_t job = "job@1";

/* The client. */

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

static void found(pmix_status_t status, pmix_pdata_t data[], size_t ndata, void *what) {
    OK(status);
    CHECK(ndata == 1 && !strcmp(data[0].key, "svc") && !strcmp(data[0].value.data.string, "port"));
    set(what);
}

static void started(pmix_status_t status, char nspace[], void *what) {
    OK(status);
    CHECK(!strcmp(nspace, "child"));
    set(what);
}

static void infos(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *what, pmix_release_cbfunc_t release,
                  void *release_data) {
    OK(status);
    CHECK(ninfo == 1 && !strcmp(info[0].value.data.string, "answer"));
    release(release_data);
    set(what);
}

static void credential(pmix_status_t status, pmix_byte_object_t *papers, pmix_info_t info[], size_t ninfo, void *what) {
    (void)info;
    OK(status);
    CHECK(papers->size == 6 && !memcmp(papers->bytes, "papers", 6) && ninfo == 0);
    set(what);
}

static void validated(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *what) {
    OK(status);
    CHECK(ninfo == 1 && !strcmp(info[0].value.data.string, "answer"));
    set(what);
}

static pmix_info_t *results;
static size_t nresults;

/* Result of a call that waited. */
static void answered(pmix_status_t status) {
    OK(status);
    CHECK(nresults == 1 && !strcmp(results[0].value.data.string, "answer"));
    PMIx_Info_free(results, nresults);
}

static int client(void) {
    pmix_proc_t me;
    pmix_info_t info;
    pmix_pdata_t data[2];
    pmix_app_t app = {.cmd = "prog", .maxprocs = 1};
    pmix_nspace_t child;
    int ready = 0, want = 0;
    char *keys[] = {"svc", NULL};

    OK(PMIx_Init(&me, NULL, 0));
    OK(PMIx_Info_load(&info, "svc", "port", PMIX_STRING));
    OK(PMIx_Publish(&info, 1));
    OK(PMIx_Publish_nb(&info, 1, done, &ready));
    until(&ready, ++want);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Publish_nb(&info, 1, NULL, NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Publish(NULL, 1));
    memset(data, 'x', sizeof data);
    strcpy(data[0].key, "none");
    strcpy(data[1].key, "svc");
    IS(PMIX_ERR_PARTIAL_SUCCESS, PMIx_Lookup(data, 2, NULL, 0));
    CHECK(data[0].value.type == PMIX_UNDEF && data[1].value.type == PMIX_STRING);
    CHECK(PMIx_Check_procid(&data[1].proc, &me) && !strcmp(data[1].value.data.string, "port"));
    PMIx_Value_destruct(&data[1].value);
    OK(PMIx_Lookup_nb(keys, NULL, 0, found, &ready));
    until(&ready, ++want);
    OK(PMIx_Unpublish(keys, NULL, 0));
    OK(PMIx_Unpublish_nb(NULL, NULL, 0, done, &ready));
    until(&ready, ++want);
    data[1].value = (pmix_value_t){.type = PMIX_INT, .data.integer = 5};
    IS(PMIX_ERR_NOT_FOUND, PMIx_Lookup(data + 1, 1, NULL, 0));
    CHECK(data[1].value.type == PMIX_UNDEF);

    OK(PMIx_Spawn(NULL, 0, &app, 1, child));
    CHECK(!strcmp(child, "child"));
    OK(PMIx_Spawn(NULL, 0, &app, 1, NULL));
    OK(PMIx_Spawn_nb(NULL, 0, &app, 1, started, &ready));
    until(&ready, ++want);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Spawn(NULL, 0, NULL, 0, child));
    IS(PMIX_ERR_INVALID_OPERATION, PMIx_Disconnect(&me, 1, NULL, 0));
    OK(PMIx_Connect(&me, 1, NULL, 0));
    OK(PMIx_Disconnect(&me, 1, NULL, 0));
    OK(PMIx_Connect_nb(&me, 1, NULL, 0, done, &ready));
    until(&ready, ++want);
    OK(PMIx_Disconnect_nb(&me, 1, NULL, 0, done, &ready));
    until(&ready, ++want);

    pmix_query_t query = {.keys = keys};
    answered(PMIx_Query_info(&query, 1, &results, &nresults));
    OK(PMIx_Query_info_nb(&query, 1, infos, &ready));
    until(&ready, ++want);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Query_info_nb(&query, 1, NULL, NULL));
    OK(PMIx_Log(&info, 1, NULL, 0));
    OK(PMIx_Log_nb(&info, 1, NULL, 0, done, &ready));
    until(&ready, ++want);
    answered(PMIx_Allocation_request(PMIX_ALLOC_NEW, &info, 1, &results, &nresults));
    OK(PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, &info, 1, infos, &ready));
    until(&ready, ++want);
    answered(PMIx_Job_control(NULL, 0, &info, 1, &results, &nresults));
    OK(PMIx_Job_control_nb(NULL, 0, &info, 1, infos, &ready));
    until(&ready, ++want);
    answered(PMIx_Process_monitor(&info, PMIX_MONITOR_FILE_ALERT, NULL, 0, &results, &nresults));
    OK(PMIx_Process_monitor_nb(&info, PMIX_MONITOR_FILE_ALERT, NULL, 0, infos, &ready));
    until(&ready, ++want);
    /* The host is asked for monitors, and sees no signs of life: headers before 6.1 have a macro for one. */
    pmix_info_t beat;
    OK(PMIx_Info_load(&beat, PMIX_SEND_HEARTBEAT, NULL, PMIX_POINTER));
    OK(PMIx_Process_monitor(&beat, PMIX_SUCCESS, NULL, 0, &results, &nresults));
    CHECK(nresults == 0);
    OK(PMIx_Process_monitor_nb(&beat, PMIX_SUCCESS, NULL, 0, NULL, NULL));
#ifdef PMIx_Heartbeat
    PMIx_Heartbeat();
#endif
    pmix_byte_object_t papers;
    OK(PMIx_Get_credential(NULL, 0, &papers));
    OK(PMIx_Get_credential_nb(NULL, 0, credential, &ready));
    until(&ready, ++want);
    answered(PMIx_Validate_credential(&papers, NULL, 0, &results, &nresults));
    OK(PMIx_Validate_credential_nb(&papers, NULL, 0, validated, &ready));
    until(&ready, ++want);
    free(papers.bytes);
    pmix_fabric_t fabric = {0};
    OK(PMIx_Fabric_register(&fabric, NULL, 0));
    CHECK(fabric.ninfo == 1 && !strcmp(fabric.info[0].value.data.string, "answer"));
    OK(PMIx_Fabric_update_nb(&fabric, done, &ready));
    until(&ready, ++want);
    OK(PMIx_Fabric_deregister(&fabric));

    pmix_status_t session = RELEASE >= 50 ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
    IS(session, PMIx_Session_control(7, NULL, 0, NULL, NULL));
#if RELEASE >= 60
    pmix_resource_unit_t unit = {.count = 1};
    OK(PMIx_Resource_block(PMIX_RESOURCE_BLOCK_DEFINE, "block", &unit, 1, NULL, 0));
#endif
    PMIx_Info_destruct(&info);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

/* The host. It answers from a thread of its own, inside the call, or at once, in turn. */

struct answer {
    pmix_op_cbfunc_t cbfunc;
    void *cbdata;
};

static void *answer_later(void *arg) {
    struct answer *answer = arg;
    answer->cbfunc(PMIX_SUCCESS, answer->cbdata);
    free(answer);
    return NULL;
}

static pmix_status_t op(pmix_op_cbfunc_t cbfunc, void *cbdata) {
    static unsigned turn;
    switch (turn++ % 3) {
    case 0:
        return PMIX_OPERATION_SUCCEEDED;
    case 1:
        cbfunc(PMIX_SUCCESS, cbdata);
        return PMIX_SUCCESS;
    default:;
        struct answer *answer = malloc(sizeof *answer);
        *answer = (struct answer){cbfunc, cbdata};
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, answer_later, answer) && !pthread_detach(thread));
        return PMIX_SUCCESS;
    }
}

static int infos_shown, infos_released;

static void free_info(void *info) {
    PMIx_Info_free(info, 1);
    set(&infos_released);
}

static pmix_status_t with_info(pmix_info_cbfunc_t cbfunc, void *cbdata) {
    pmix_info_t *info = PMIx_Info_create(1);
    OK(PMIx_Info_load(info, "site.answer", "answer", PMIX_STRING));
    set(&infos_shown);
    cbfunc(PMIX_SUCCESS, info, 1, cbdata, free_info, info);
    return PMIX_SUCCESS;
}

static pmix_status_t on_connected(const pmix_proc_t *p, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)object, (void)cbfunc, (void)cbdata;
    return PMIX_SUCCESS;
}

static pmix_proc_t publisher;
static char published[16];

static bool has(const pmix_info_t *info, size_t ninfo, const char *key) {
    for (size_t i = 0; i < ninfo; i++)
        if (!strcmp(info[i].key, key))
            return true;
    return false;
}

static pmix_status_t on_publish(const pmix_proc_t *p, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
                                void *cbdata) {
    CHECK(ninfo == 3 && !strcmp(info[0].key, "svc") && has(info, ninfo, "pmix.euid") && has(info, ninfo, "pmix.egid"));
    publisher = *p;
    strcpy(published, info[0].value.data.string);
    return op(cbfunc, cbdata);
}

static pmix_status_t on_lookup(const pmix_proc_t *p, char **keys, const pmix_info_t info[], size_t ninfo,
                               pmix_lookup_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)info, (void)ninfo;
    pmix_pdata_t data = {.proc = publisher, .key = "svc"};
    if (!*published) {
        cbfunc(PMIX_ERR_NOT_FOUND, NULL, 0, cbdata);
        return PMIX_SUCCESS;
    }
    OK(PMIx_Value_load(&data.value, published, PMIX_STRING));
    cbfunc(keys[1] ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_SUCCESS, &data, 1, cbdata);
    PMIx_Value_destruct(&data.value);
    return PMIX_SUCCESS;
}

static pmix_status_t on_unpublish(const pmix_proc_t *p, char **keys, const pmix_info_t info[], size_t ninfo,
                                  pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)info, (void)ninfo;
    CHECK(!keys || !strcmp(keys[0], "svc"));
    *published = 0;
    return op(cbfunc, cbdata);
}

static pmix_status_t on_spawn(const pmix_proc_t *p, const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[],
                              size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata) {
    (void)p;
    CHECK(has(info, ninfo, PMIX_PARENT_ID) && has(info, ninfo, PMIX_SPAWNED));
    CHECK(napps == 1 && !strcmp(apps[0].cmd, "prog") && apps[0].cwd[0] == '/');
    cbfunc(PMIX_SUCCESS, "child", cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t on_connect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)info, (void)ninfo;
    CHECK(nprocs == 1 && procs[0].rank == 0);
    return op(cbfunc, cbdata);
}

static pmix_status_t on_query(pmix_proc_t *p, pmix_query_t *queries, size_t n, pmix_info_cbfunc_t cbfunc,
                              void *cbdata) {
    (void)p;
    CHECK(n == 1 && !strcmp(queries[0].keys[0], "svc"));
    return with_info(cbfunc, cbdata);
}

static int logged, logged2;

static void on_log(const pmix_proc_t *p, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                   size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)data, (void)directives, (void)ndirs;
    CHECK(ndata == 1);
    set(&logged);
    cbfunc(PMIX_SUCCESS, cbdata);
}

static pmix_status_t on_log2(const pmix_proc_t *p, const pmix_info_t data[], size_t ndata,
                             const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)data, (void)directives, (void)ndirs;
    CHECK(ndata == 1);
    set(&logged2);
    return op(cbfunc, cbdata);
}

static pmix_status_t on_allocate(const pmix_proc_t *p, pmix_alloc_directive_t directive, const pmix_info_t data[],
                                 size_t ndata, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)data;
    CHECK(directive == PMIX_ALLOC_NEW && ndata == 3);
    return with_info(cbfunc, cbdata);
}

static pmix_status_t on_control(const pmix_proc_t *p, const pmix_proc_t targets[], size_t ntargets,
                                const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)directives, (void)ndirs;
    CHECK(targets == NULL && ntargets == 0);
    return with_info(cbfunc, cbdata);
}

static pmix_status_t on_monitor(const pmix_proc_t *p, const pmix_info_t *monitor, pmix_status_t error,
                                const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)directives, (void)ndirs;
    CHECK(!strcmp(monitor->key, "svc") && error == PMIX_MONITOR_FILE_ALERT);
    return with_info(cbfunc, cbdata);
}

static pmix_status_t on_credential(const pmix_proc_t *p, const pmix_info_t directives[], size_t ndirs,
                                   pmix_credential_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)directives, (void)ndirs;
    pmix_byte_object_t papers = {"papers", 6};
    cbfunc(PMIX_SUCCESS, &papers, NULL, 0, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t on_validate(const pmix_proc_t *p, const pmix_byte_object_t *papers, const pmix_info_t directives[],
                                 size_t ndirs, pmix_validation_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)directives, (void)ndirs;
    CHECK(papers->size == 6);
    pmix_info_t info;
    OK(PMIx_Info_load(&info, "site.answer", "answer", PMIX_STRING));
    cbfunc(PMIX_SUCCESS, &info, 1, cbdata);
    PMIx_Info_destruct(&info);
    return PMIX_SUCCESS;
}

static pmix_status_t on_fabric(const pmix_proc_t *p, pmix_fabric_operation_t operation, const pmix_info_t directives[],
                               size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)operation, (void)directives, (void)ndirs;
    return with_info(cbfunc, cbdata);
}

static pmix_status_t on_session(const pmix_proc_t *p, uint32_t session, const pmix_info_t directives[], size_t ndirs,
                                pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)directives, (void)ndirs;
    CHECK(session == 7);
    return with_info(cbfunc, cbdata);
}

#if RELEASE >= 60
static pmix_status_t on_block(const pmix_proc_t *p, pmix_resource_block_directive_t directive, const char *block,
                              const pmix_resource_unit_t *units, size_t nunits, const pmix_info_t *info, size_t ninfo,
                              pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)p, (void)info, (void)ninfo;
    CHECK(directive == PMIX_RESOURCE_BLOCK_DEFINE && !strcmp(block, "block") && nunits == 1 && units[0].count == 1);
    return op(cbfunc, cbdata);
}
#endif

/* The program's imports prove its release. */
static void prove(void) {
#if RELEASE >= 61 && !defined UNPROVED
    CHECK(PMIx_Rank_valid(0));
#elif RELEASE == 60 || RELEASE == 50
    pmix_proc_t nobody = {.nspace = "x"};
    pmix_disk_stats_t stats;
    PMIx_Disk_stats_construct(&stats);
    free(PMIx_Proc_string(&nobody));
#if RELEASE == 60
    pmix_device_t device;
    PMIx_Device_construct(&device);
#endif
#endif
}

static void collected(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *what, pmix_op_cbfunc_t cbfunc,
                      void *cbdata) {
    OK(status);
    (void)info;
    CHECK(ninfo == 0);
    cbfunc(PMIX_SUCCESS, cbdata);
    set(what);
}

static void inventory(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *what, pmix_release_cbfunc_t release,
                      void *release_data) {
    OK(status);
    CHECK(has(info, ninfo, PMIX_HOSTNAME));
    release(release_data);
    set(what);
}

int main(int argc, char **argv) {
    (void)argc;
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    if (getenv("PMIX_RANK"))
        return client();
    prove();
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_NONE));
    void **slots = (void **)(pages + page) - SLOTS;
    pmix_server_module_t *module = (void *)slots;
    module->client_connected = on_connected;
    module->publish = on_publish;
    module->lookup = on_lookup;
    module->unpublish = on_unpublish;
    module->spawn = on_spawn;
    module->connect = on_connect;
    module->disconnect = on_connect;
    module->query = on_query;
    module->log = on_log;
    module->allocate = on_allocate;
    module->job_control = on_control;
    module->monitor = on_monitor;
    module->get_credential = on_credential;
    module->validate_credential = on_validate;
    module->fabric = on_fabric;
    if (RELEASE == 50 || RELEASE == 60)
        slots[28] = (void *)on_session;
    if (RELEASE >= 61) {
        slots[28] = pages; /* No function: it is left alone. */
        slots[29] = (void *)on_log2;
        slots[30] = (void *)on_session;
    }
#if RELEASE >= 60
    slots[RELEASE == 60 ? 29 : 31] = (void *)on_block;
#endif
    OK(PMIx_server_init(module, NULL, 0));

    int ready = 0, want = 0;
    pmix_info_t info;
    OK(PMIx_Info_load(&info, PMIX_SETUP_APP_ALL, NULL, PMIX_BOOL));
    OK(PMIx_server_setup_application(job, &info, 1, collected, &ready));
    until(&ready, ++want);
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_setup_application(job, &info, 1, NULL, NULL));
    pmix_envar_t envar = {.envar = "SITE", .value = "set", .separator = ':'};
    OK(PMIx_Info_load(&info, PMIX_SET_ENVAR, &envar, PMIX_ENVAR));
    OK(PMIx_server_setup_local_support(job, &info, 1, done, &ready));
    until(&ready, ++want);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_setup_local_support(job, &info, 1, NULL, NULL));
    PMIx_Info_destruct(&info);
    OK(PMIx_server_collect_inventory(NULL, 0, inventory, &ready));
    until(&ready, ++want);
    OK(PMIx_server_deliver_inventory(NULL, 0, NULL, 0, done, &ready));
    until(&ready, ++want);
    OK(PMIx_Info_load(&info, "site.resource", "of all", PMIX_STRING));
    OK(PMIx_server_register_resources(&info, 1, done, &ready));
    until(&ready, ++want);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_deregister_resources(&info, 1, NULL, NULL));
    PMIx_Info_destruct(&info);

    uint32_t one = 1;
    OK(PMIx_Info_load(&info, PMIX_JOB_SIZE, &one, PMIX_UINT32));
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job, 1, &info, 1, NULL, NULL));
    pmix_proc_t proc;
    PMIx_Proc_load(&proc, job, 0);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    OK(PMIx_server_define_process_set(&proc, 1, "set"));
    IS(PMIX_ERR_EXISTS, PMIx_server_define_process_set(&proc, 1, "set"));
    OK(PMIx_server_delete_process_set("set"));
    IS(PMIX_ERR_NOT_FOUND, PMIx_server_delete_process_set("set"));
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_define_process_set(&proc, 1, NULL));

    char **env = NULL, *path = getenv("LD_LIBRARY_PATH");
    if (path)
        OK(PMIx_Setenv("LD_LIBRARY_PATH", path, true, &env));
    OK(PMIx_server_setup_fork(&proc, &env));
    bool environed = false;
    for (char **at = env; *at; at++)
        environed |= !strcmp(*at, "SITE=set");
    CHECK(environed);
    pid_t pid = fork();
    if (pid == 0) {
        execve(argv[0], argv, env);
        _exit(127);
    }
    PMIx_Argv_free(env);
    int how;
    CHECK(waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    until(&infos_released, infos_shown);
    CHECK(logged + logged2 == 2 && logged2 == (RELEASE >= 61 ? 2 : 0));
    OK(PMIx_server_finalize());
    return 0;
}
