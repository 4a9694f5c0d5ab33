/* Event handlers within one process: registered blocking and not, called in a chain, completed later and twice. */
#include "check.h"
#include "wait.h"

static int called, notified, registered, gone, inside_call;
static size_t number = 99;

static void done(pmix_status_t status, void *what) {
    OK(status);
    CHECK(!inside_call);
    set(what);
}

static void known(pmix_status_t status, size_t id, void *what) {
    OK(status);
    CHECK(!inside_call);
    number = id;
    set(what);
}

static void first(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                  pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)results;
    CHECK(status == PMIX_MODEL_DECLARED && source->rank == 0 && nresults == 0);
    bool found = false;
    for (size_t i = 0; i < ninfo; i++)
        found |= !strcmp(info[i].key, "pmix.pgm.model") && !strcmp(info[i].value.data.string, "MPI");
    CHECK(found);
    CHECK(PMIx_Initialized());
    pmix_info_t answer;
    OK(PMIx_Info_load(&answer, "answer", "first was here", PMIX_STRING));
    set(&called);
    next(PMIX_SUCCESS, &answer, 1, NULL, NULL, data);
    next(PMIX_SUCCESS, &answer, 1, NULL, NULL, data);
    PMIx_Info_destruct(&answer);
}

static void *later_data;
static pmix_event_notification_cbfunc_fn_t later_next;
static pmix_info_t *later_results;
static size_t later_nresults;

static void later(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                  pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)status, (void)source, (void)info, (void)ninfo;
    later_next = next;
    later_data = data;
    later_results = results;
    later_nresults = nresults;
    set(&called);
}

static void declared(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    static const char *keys[] = {PMIX_PROGRAMMING_MODEL, PMIX_MODEL_LIBRARY_NAME, PMIX_MODEL_LIBRARY_VERSION,
                                 PMIX_THREADING_MODEL, PMIX_EVENT_NON_DEFAULT};
    static const char *texts[] = {"OpenMP", "second", "2.1", "pthreads"};
    (void)id, (void)source, (void)results, (void)nresults;
    CHECK(status == PMIX_MODEL_DECLARED && ninfo == 5);
    for (int i = 0; i < 5; i++)
        CHECK(!strcmp(info[i].key, keys[i]) && (i == 4 || !strcmp(info[i].value.data.string, texts[i])));
    set(&called);
    next(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
}

/* Another library in this process calls Init, and says what it is; in any order, and twice. */
static void another_model(void) {
    pmix_status_t code = PMIX_MODEL_DECLARED;
    int id = PMIx_Register_event_handler(&code, 1, NULL, 0, declared, NULL, NULL);
    CHECK(id >= 0);
    pmix_info_t info[6];
    OK(PMIx_Info_load(&info[0], PMIX_THREADING_MODEL, "pthreads", PMIX_STRING));
    OK(PMIx_Info_load(&info[1], PMIX_MODEL_LIBRARY_NAME, "first", PMIX_STRING));
    OK(PMIx_Info_load(&info[2], PMIX_MODEL_LIBRARY_VERSION, "2.1", PMIX_STRING));
    OK(PMIx_Info_load(&info[3], PMIX_PROGRAMMING_MODEL, "OpenMP", PMIX_STRING));
    OK(PMIx_Info_load(&info[4], PMIX_MODEL_LIBRARY_NAME, "second", PMIX_STRING));
    OK(PMIx_Info_load(&info[5], "site.word", "of no model", PMIX_STRING));
    IS(PMIX_ERR_UNREACH, PMIx_Init(NULL, info, 6));
    until(&called, 1);
    OK(PMIx_Finalize(NULL, 0));
    OK(PMIx_Deregister_event_handler(id, NULL, NULL));
    for (int i = 0; i < 6; i++)
        PMIx_Info_destruct(&info[i]);
    called = 0;
}

static int surprised;

static void unexpected(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    set(&surprised);
    next(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
}

/* The model that the first Init declares goes to the next handler, and once more to one of a library with an Init of
   its own. */
static void first_model(void) {
    pmix_status_t code = PMIX_MODEL_DECLARED;
    pmix_info_t info;
    OK(PMIx_Info_load(&info, PMIX_PROGRAMMING_MODEL, "MPI", PMIX_STRING));
    IS(PMIX_ERR_UNREACH, PMIx_Init(NULL, &info, 1));
    PMIx_Info_destruct(&info);
    int own = PMIx_Register_event_handler(&code, 1, NULL, 0, first, NULL, NULL);
    until(&called, 1);
    int before = PMIx_Register_event_handler(&code, 1, NULL, 0, unexpected, NULL, NULL);
    IS(PMIX_ERR_UNREACH, PMIx_Init(NULL, NULL, 0));
    IS(PMIX_ERR_UNREACH, PMIx_Init(NULL, NULL, 0));
    int id = PMIx_Register_event_handler(&code, 1, NULL, 0, first, NULL, NULL);
    CHECK(own >= 0 && before >= 0 && id >= 0);
    until(&called, 2);
    int late = PMIx_Register_event_handler(&code, 1, NULL, 0, unexpected, NULL, NULL);
    OK(PMIx_Deregister_event_handler(late, NULL, NULL));
    for (int i = 0; i < 3; i++)
        OK(PMIx_Finalize(NULL, 0));
    CHECK(called == 2 && surprised == 0);
    called = 0;
}

enum { OUTER = -4300, INNER = -4301 };
static int within, inner, found_out;

static void on_inner(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    CHECK(status == INNER);
    set(&inner);
    next(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
    OK(PMIx_Deregister_event_handler(id, done, &found_out));
}

/* In a handler nothing can be waited for: calls without a function go out, and nobody is told how they went. */
static void on_outer(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)status, (void)info, (void)ninfo, (void)results, (void)nresults;
    pmix_status_t code = INNER;
    IS(PMIX_SUCCESS, PMIx_Register_event_handler(&code, 1, NULL, 0, on_inner, NULL, NULL));
    OK(PMIx_Notify_event(INNER, source, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    OK(PMIx_Deregister_event_handler(id, NULL, NULL));
    next(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
    set(&within);
}

static void calls_in_a_handler(const pmix_proc_t *me) {
    pmix_status_t code = OUTER;
    int id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_outer, NULL, NULL);
    CHECK(id >= 0);
    OK(PMIx_Notify_event(OUTER, me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    until(&within, 1);
    until(&inner, 1);
    until(&found_out, 1);
    CHECK(PMIx_Deregister_event_handler(id, NULL, NULL) == PMIX_ERR_BAD_PARAM);
    CHECK(within == 1 && inner == 1);
}

int main(void) {
    pmix_proc_t me;
    first_model();
    IS(PMIX_ERR_UNREACH, PMIx_Init(&me, NULL, 0));
    another_model();
    calls_in_a_handler(&me);
    pmix_status_t code = PMIX_MODEL_DECLARED;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Register_event_handler(&code, 1, NULL, 0, NULL, NULL, NULL));
    inside_call = 1;
    int id = PMIx_Register_event_handler(&code, 1, NULL, 0, first, NULL, NULL);
    CHECK(id >= 0);
    inside_call = 0;
    OK(PMIx_Register_event_handler(NULL, 0, NULL, 0, later, known, &registered));
    until(&registered, 1);
    CHECK(number != (size_t)id);

    pmix_info_t info;
    OK(PMIx_Info_load(&info, "pmix.pgm.model", "MPI", PMIX_STRING));
    OK(PMIx_Notify_event(PMIX_MODEL_DECLARED, &me, PMIX_RANGE_PROC_LOCAL, &info, 1, done, &notified));
    until(&notified, 1);
    until(&called, 2);
    bool found = false;
    for (size_t i = 0; i < later_nresults; i++)
        found |= !strcmp(later_results[i].key, "answer");
    CHECK(found);
    later_next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, later_data);
    PMIx_Info_destruct(&info);

    OK(PMIx_Deregister_event_handler(number, done, &gone));
    until(&gone, 1);
    OK(PMIx_Deregister_event_handler(id, NULL, NULL));
    CHECK(PMIx_Deregister_event_handler(id, NULL, NULL) != PMIX_SUCCESS);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}
