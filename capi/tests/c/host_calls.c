/* A host that makes the calls of a client itself: each is handed to its own module, or served where it is made. */
#include "check.h"
#include "since.h"
#include "wait.h"
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *called = "";

static bool was(const char *slot) {
    bool is = !strcmp(called, slot);
    if (!is) fprintf(stderr, "the host was asked for \"%s\"\n", called);
    called = "";
    return is;
}

static bool is_signed(const pmix_info_t *info, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(info[i].key, PMIX_USERID)) return true;
    return false;
}

/* The module. Each slot answers in a way of its own. */

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    called = "publish";
    CHECK(!strcmp(proc->nspace, "server") && proc->rank == 3 && is_signed(info, n) && !strcmp(info[0].key, "key"));
    cbfunc(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t n,
                            pmix_lookup_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)info, (void)n;
    called = "lookup";
    pmix_pdata_t data = {.proc = *proc, .value = {.type = PMIX_STRING, .data.string = "value"}};
    strcpy(data.key, keys[0]);
    cbfunc(PMIX_SUCCESS, &data, 1, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t n,
                               pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)keys, (void)info, (void)n, (void)cbfunc, (void)cbdata;
    called = "unpublish";
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t job[], size_t n, const pmix_app_t apps[],
                           size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)job, (void)n;
    called = "spawn";
    CHECK(napps == 1 && !strcmp(apps[0].cmd, "prog"));
    cbfunc(PMIX_SUCCESS, "child", cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t connect_all(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t n,
                                 pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)info, (void)n, (void)cbfunc, (void)cbdata;
    called = "connect";
    CHECK(nprocs == 1 && !strcmp(procs[0].nspace, "job"));
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t n, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)queries, (void)n;
    pmix_info_t info;
    called = "query";
    /* A host's request to itself while it is asked would never be answered. */
    pmix_info_t *results;
    size_t nresults;
    IS(PMIX_ERR_WOULD_BLOCK, PMIx_Query_info(queries, n, &results, &nresults));
    OK(PMIx_Info_load(&info, "site.answer", "answer", PMIX_STRING));
    cbfunc(PMIX_SUCCESS, &info, 1, cbdata, NULL, NULL);
    PMIx_Info_destruct(&info);
    return PMIX_SUCCESS;
}

static void log_data(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                     size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)client, (void)data, (void)ndata, (void)directives, (void)ndirs;
    called = "log";
    cbfunc(PMIX_SUCCESS, cbdata);
}

static pmix_status_t job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[], size_t ntargets,
                                 const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)requestor, (void)targets, (void)ntargets, (void)directives, (void)ndirs, (void)cbfunc, (void)cbdata;
    called = "job_control";
    return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range, pmix_info_t info[],
                            size_t n, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)code, (void)source, (void)range, (void)info, (void)n;
    called = "notify";
    cbfunc(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t iof_pull(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                              pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)procs, (void)nprocs, (void)directives, (void)ndirs, (void)channels, (void)cbfunc, (void)cbdata;
    called = "iof_pull";
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_server_module_t module = {
    .publish = publish, .lookup = lookup, .unpublish = unpublish, .spawn = spawn, .connect = connect_all, .disconnect = connect_all,
    .query = query, .log = log_data, .job_control = job_control, .notify_event = notify, .iof_pull = iof_pull,
};

/* Events that the host gets as a client does. */

static int heard, printed, ready;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata) {
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    CHECK(status == -5000);
    cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    set(&heard);
}

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                      pmix_info_t info[], size_t ninfo) {
    (void)id, (void)source, (void)info, (void)ninfo;
    CHECK(channel == PMIX_FWD_STDOUT_CHANNEL && payload->size == 4 && !memcmp(payload->bytes, "said", 4));
    set(&printed);
}

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

/* Logs for the terminal appear there, where nobody else could show them. */
static void shows(const char *channel, int stream) {
    int ends[2], kept = dup(stream), logged = 0;
    char text[64];
    pmix_info_t data[2];
    OK(PMIx_Info_load(&data[0], channel, "shown\n", PMIX_STRING));
    OK(PMIx_Info_load(&data[1], "site.log", "not shown", PMIX_STRING));
    CHECK(kept >= 0 && !pipe(ends) && dup2(ends[1], stream) == stream);
    OK(PMIx_Log(data, 1, NULL, 0));
    OK(PMIx_Log_nb(data, 1, NULL, 0, done, &logged));
    until(&logged, 1);
    CHECK(was(""));
    OK(PMIx_Log(data, 2, NULL, 0));
    CHECK(was("log"));
    CHECK(dup2(kept, stream) == stream && !close(ends[1]) && !close(kept));
    ssize_t n = read(ends[0], text, sizeof text);
    CHECK(n == 18 && !memcmp(text, "shown\nshown\nshown\n", 18) && !close(ends[0]));
    PMIx_Info_destruct(&data[0]);
    PMIx_Info_destruct(&data[1]);
}

int main(void) {
    pmix_info_t info[3], *results;
    pmix_rank_t rank = 3;
    size_t nresults;
    pmix_proc_t me, job, other;
    OK(PMIx_Info_load(&info[0], PMIX_SERVER_NSPACE, "server", PMIX_STRING));
    OK(PMIx_Info_load(&info[1], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK));
    OK(PMIx_Info_load(&info[2], PMIX_SERVER_GATEWAY, NULL, PMIX_BOOL));
    OK(PMIx_server_init(&module, info, 3));
    PMIx_Info_destruct(&info[0]);
    PMIx_Proc_load(&me, "server", 3);
    PMIx_Proc_load(&job, "job", PMIX_RANK_WILDCARD);
    PMIx_Proc_load(&other, "job", 0);

    OK(PMIx_Info_load(&info[0], "key", "value", PMIX_STRING));
    OK(PMIx_Publish(info, 1));
    CHECK(was("publish"));
    OK(PMIx_Publish_nb(info, 1, done, &ready));
    until(&ready, 1);
    CHECK(was("publish"));
    pmix_pdata_t data = {0};
    strcpy(data.key, "key");
    OK(PMIx_Lookup(&data, 1, NULL, 0));
    CHECK(was("lookup") && data.value.type == PMIX_STRING && !strcmp(data.value.data.string, "value"));
    PMIx_Value_destruct(&data.value);
    // NULL means all, and a list without keys does not.
    char *none[] = {NULL};
    IS(PMIX_ERR_BAD_PARAM, PMIx_Unpublish(none, NULL, 0));
    CHECK(was(""));
    OK(PMIx_Unpublish(NULL, NULL, 0));
    CHECK(was("unpublish"));
    pmix_app_t app = {.cmd = "prog", .maxprocs = 1};
    pmix_nspace_t child;
    OK(PMIx_Spawn(NULL, 0, &app, 1, child));
    CHECK(was("spawn") && !strcmp(child, "child"));
    OK(PMIx_Connect(&job, 1, NULL, 0));
    CHECK(was("connect"));
    OK(PMIx_Disconnect(&job, 1, NULL, 0));
    CHECK(was("connect"));
    char *keys[] = {"site.answer", NULL};
    pmix_query_t query = {.keys = keys};
    OK(PMIx_Query_info(&query, 1, &results, &nresults));
    CHECK(was("query") && nresults == 1 && !strcmp(results[0].value.data.string, "answer"));
    PMIx_Info_free(results, nresults);
    OK(PMIx_Log(info, 1, NULL, 0));
    CHECK(was("log"));
    shows(PMIX_LOG_STDERR, STDERR_FILENO);
    shows(PMIX_LOG_STDOUT, STDOUT_FILENO);
    IS(PMIX_ERR_NOT_FOUND, PMIx_Job_control(&job, 1, info, 1, &results, &nresults));
    CHECK(was("job_control"));
    /* No slot for these. */
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Allocation_request(PMIX_ALLOC_NEW, info, 1, &results, &nresults));
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Abort(1, NULL, &job, 1));
    IS(PMIX_ERR_UNREACH, PMIx_Fence(&job, 1, NULL, 0));
    PMIx_Info_destruct(&info[0]);

    /* Events: those that were raised before anybody listened, by itself and for itself alone, and those passed on. */
    OK(PMIx_Notify_event(-5000, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    CHECK(was(""));
    int code = -5000;
    int handler = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    CHECK(handler >= 0);
    until(&heard, 1);
    OK(PMIx_Notify_event(-5000, &me, PMIX_RANGE_SESSION, NULL, 0, NULL, NULL));
    CHECK(was("notify"));
    until(&heard, 2);
    OK(PMIx_Notify_event(-5000, &other, PMIX_RANGE_SESSION, NULL, 0, done, &ready));
    until(&ready, 2);
    until(&heard, 3);
    CHECK(was(""));
    OK(PMIx_Notify_event(-5000, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    until(&heard, 4);
    OK(PMIx_Deregister_event_handler(handler, NULL, NULL));

    /* Sessions, of which later jobs know what was said before. */
    uint32_t session = 7, slots = 64;
    pmix_value_t *value;
    OK(PMIx_Info_load(&info[0], PMIX_SESSION_ID, &session, PMIX_UINT32));
    OK(PMIx_Info_load(&info[1], PMIX_UNIV_SIZE, &slots, PMIX_UINT32));
    OK(PMIx_server_register_session(session, &info[1], 1, NULL, NULL));
    OK(PMIx_server_register_session(session, NULL, 0, done, &ready));
    until(&ready, 3);
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_register_session(UINT32_MAX, NULL, 0, NULL, NULL));
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job.nspace, 0, info, 1, NULL, NULL));
    OK(PMIx_Get(&job, PMIX_UNIV_SIZE, NULL, 0, &value));
    CHECK(value->type == PMIX_UINT32 && value->data.uint32 == slots);
    PMIx_Value_free(value, 1);
    PMIx_server_deregister_session(session, NULL, NULL);
    PMIx_server_deregister_session(session, done, &ready);
    until(&ready, 4);
    PMIx_server_deregister_nspace(job.nspace, NULL, NULL);

    /* Output that it delivers comes back to it as well. */
    int pull = PMIx_IOF_pull(&job, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, NULL, NULL);
    CHECK(pull >= 0 && was("iof_pull"));
    pmix_byte_object_t bytes = {"said", 4};
    OK(PMIx_server_IOF_deliver(&other, PMIX_FWD_STDOUT_CHANNEL, &bytes, NULL, 0, done, &ready));
    until(&printed, 1);
    /* A log of another process is output of that process. */
    OK(PMIx_Info_load(&info[0], PMIX_LOG_STDOUT, "said", PMIX_STRING));
    OK(PMIx_Info_load(&info[1], PMIX_LOG_SOURCE, &other, PMIX_PROC));
    OK(PMIx_Log(info, 1, &info[1], 1));
    CHECK(was(""));
    PMIx_Info_destruct(&info[0]);
    PMIx_Info_destruct(&info[1]);
    until(&printed, 2);
    OK(PMIx_IOF_deregister(pull, NULL, 0, NULL, NULL));

    OK(PMIx_server_finalize());
    IS(PMIX_ERR_INIT, PMIx_Publish(info, 1));
    return 0;
}
