/* Every call of a client that a host has a slot for, each begun without waiting. */
#ifndef EVERYTHING_H
#define EVERYTHING_H
#include "check.h"
#include "wait.h"
#include <pmix_tool.h>

/* The caller, and the processes that it names: all of its job, and a process of another node. */
static pmix_proc_t me, everybody, other;
/* Parameters of the calls: data, a code to hear of, and a handler that hears of another one. */
static pmix_info_t thing;
static char *keys[] = {"svc", NULL};
enum { SOME_CODE = 5000, OTHER_CODE };
static int handler;

/* Number of calls that have ended, and the status of the last one. */
static int answers;
static pmix_status_t answer;

static void finished(pmix_status_t status) {
    pthread_mutex_lock(&lock);
    answer = status;
    pthread_mutex_unlock(&lock);
    set(&answers);
}

static void on_op(pmix_status_t status, void *data) {
    (void)data;
    finished(status);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *data) {
    (void)value, (void)data;
    finished(status);
}

static void on_found(pmix_status_t status, pmix_pdata_t found[], size_t n, void *data) {
    (void)data;
    CHECK(n == 0 || !strcmp(found[0].value.data.string, "port"));
    finished(status);
}

static void on_started(pmix_status_t status, char nspace[], void *data) {
    (void)data;
    CHECK(status != PMIX_SUCCESS || !strcmp(nspace, "child"));
    finished(status);
}

static void on_infos(pmix_status_t status, pmix_info_t *info, size_t n, void *data, pmix_release_cbfunc_t release, void *given) {
    (void)info, (void)n, (void)data;
    if (release)
        release(given);
    finished(status);
}

static void on_papers(pmix_status_t status, pmix_byte_object_t *papers, pmix_info_t info[], size_t n, void *data) {
    (void)papers, (void)info, (void)n, (void)data;
    finished(status);
}

static void on_verdict(pmix_status_t status, pmix_info_t info[], size_t n, void *data) {
    (void)info, (void)n, (void)data;
    finished(status);
}

static void on_handler(pmix_status_t status, size_t id, void *data) {
    (void)id, (void)data;
    finished(status);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                      pmix_info_t info[], size_t ninfo) {
    (void)id, (void)channel, (void)source, (void)payload, (void)info, (void)ninfo;
}

/* The one call that has to wait. */
static void *abort_all(void *unused) {
    (void)unused;
    finished(PMIx_Abort(7, "enough", NULL, 0));
    return NULL;
}

static pmix_status_t aborts(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, abort_all, NULL) && !pthread_detach(thread));
    return PMIX_SUCCESS;
}
static pmix_status_t fences(void) { return PMIx_Fence_nb(NULL, 0, NULL, 0, on_op, NULL); }
static pmix_status_t fetches(void) { return PMIx_Get_nb(&other, "modex", NULL, 0, on_value, NULL); }
static pmix_status_t publishes(void) { return PMIx_Publish_nb(&thing, 1, on_op, NULL); }
static pmix_status_t looks_up(void) { return PMIx_Lookup_nb(keys, NULL, 0, on_found, NULL); }
static pmix_status_t unpublishes(void) { return PMIx_Unpublish_nb(keys, NULL, 0, on_op, NULL); }
static pmix_status_t spawns(void) {
    pmix_app_t app = {.cmd = "prog", .maxprocs = 1};
    return PMIx_Spawn_nb(NULL, 0, &app, 1, on_started, NULL);
}
static pmix_status_t connects(void) { return PMIx_Connect_nb(&everybody, 1, NULL, 0, on_op, NULL); }
static pmix_status_t disconnects(void) { return PMIx_Disconnect_nb(&me, 1, NULL, 0, on_op, NULL); }
static pmix_status_t listens(void) {
    pmix_status_t code = SOME_CODE;
    return PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_handler, NULL);
}
static pmix_status_t stops_listening(void) { return PMIx_Deregister_event_handler(handler, on_op, NULL); }
static pmix_status_t notifies(void) { return PMIx_Notify_event(-7000, &me, PMIX_RANGE_SESSION, NULL, 0, on_op, NULL); }
static pmix_status_t asks(void) {
    pmix_query_t query = {.keys = keys};
    return PMIx_Query_info_nb(&query, 1, on_infos, NULL);
}
static pmix_status_t logs(void) { return PMIx_Log_nb(&thing, 1, NULL, 0, on_op, NULL); }
static pmix_status_t allocates(void) { return PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, &thing, 1, on_infos, NULL); }
static pmix_status_t controls(void) { return PMIx_Job_control_nb(NULL, 0, &thing, 1, on_infos, NULL); }
static pmix_status_t monitors(void) {
    return PMIx_Process_monitor_nb(&thing, PMIX_MONITOR_FILE_ALERT, NULL, 0, on_infos, NULL);
}
static pmix_status_t gets_papers(void) { return PMIx_Get_credential_nb(NULL, 0, on_papers, NULL); }
static pmix_status_t shows_papers(void) {
    pmix_byte_object_t papers = {"papers", 6};
    return PMIx_Validate_credential_nb(&papers, NULL, 0, on_verdict, NULL);
}
static pmix_status_t pulls(void) {
    return PMIx_IOF_pull(&everybody, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, on_handler, NULL);
}
static pmix_status_t pushes(void) {
    pmix_byte_object_t bytes = {"input", 5};
    return PMIx_IOF_push(&other, 1, &bytes, NULL, 0, on_op, NULL);
}
static pmix_status_t constructs(void) { return PMIx_Group_construct_nb("group", &everybody, 1, NULL, 0, on_infos, NULL); }
static pmix_fabric_t fabric;
static pmix_status_t looks_at_fabric(void) { return PMIx_Fabric_register_nb(&fabric, NULL, 0, on_op, NULL); }
static pmix_status_t controls_session(void) { return PMIx_Session_control(7, NULL, 0, on_infos, NULL); }
static pmix_status_t defines_block(void) {
    pmix_resource_unit_t unit = {.count = 1};
    return PMIx_Resource_block_nb(PMIX_RESOURCE_BLOCK_DEFINE, "block", &unit, 1, NULL, 0, on_op, NULL);
}

/* Status of each call where the host has no such slot, refuses it, has done it at once, and answers. */
static const struct {
    const char *name;
    pmix_status_t (*begin)(void);
    pmix_status_t lacking, refused, done, answered;
} calls[] = {
#define SAYS PMIX_ERR_NOT_SUPPORTED, PMIX_ERR_NO_PERMISSIONS, PMIX_SUCCESS, PMIX_SUCCESS
    {"fence", fences, SAYS},
    {"fetch", fetches, PMIX_ERR_NOT_FOUND, PMIX_ERR_NO_PERMISSIONS, PMIX_ERR_NOT_FOUND, PMIX_ERR_NOT_FOUND},
    {"publish", publishes, SAYS},
    /* A host that has done it and brings nothing has found nothing. */
    {"lookup", looks_up, PMIX_ERR_NOT_SUPPORTED, PMIX_ERR_NO_PERMISSIONS, PMIX_ERR_NOT_FOUND, PMIX_SUCCESS},
    {"unpublish", unpublishes, SAYS},
    {"spawn", spawns, PMIX_ERR_NOT_SUPPORTED, PMIX_ERR_NO_PERMISSIONS, PMIX_ERR_INVALID_NAMESPACE, PMIX_SUCCESS},
    {"connect", connects, SAYS},
    /* Processes of one node need no host for it. */
    {"disconnect", disconnects, PMIX_SUCCESS, PMIX_ERR_NO_PERMISSIONS, PMIX_SUCCESS, PMIX_SUCCESS},
    /* There may be such events even where the host does not know of them. */
    {"listen", listens, 0, 0, 0, 0},
    {"stop listening", stops_listening, 0, 0, 0, 0},
    /* The host's own program has heard it. */
    {"notify", notifies, PMIX_SUCCESS, PMIX_ERR_NO_PERMISSIONS, PMIX_SUCCESS, PMIX_SUCCESS},
    {"query", asks, PMIX_ERR_NOT_SUPPORTED, PMIX_ERR_NO_PERMISSIONS, PMIX_ERR_NOT_FOUND, PMIX_SUCCESS},
    {"log", logs, SAYS},
    {"allocate", allocates, SAYS},
    {"control", controls, SAYS},
    {"monitor", monitors, SAYS},
    {"get credential", gets_papers, SAYS},
    {"validate", shows_papers, SAYS},
    {"pull", pulls, SAYS},
    {"push", pushes, SAYS},
    {"group", constructs, SAYS},
    {"fabric", looks_at_fabric, SAYS},
    {"session", controls_session, SAYS},
    {"block", defines_block, SAYS},
    {"abort", aborts, SAYS},
};
enum { CALLS = sizeof calls / sizeof *calls };
#endif
