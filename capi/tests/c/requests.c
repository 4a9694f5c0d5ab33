/* Requests of clients to a host, and the clients' answers: each request as its host sees it, and each answer,
 * on lines that are the same on our library and on others. Attributes that the library adds to a request by the Standard are left out, because others
 * forget them here and there: who asks, and that it is a client. */
#define _GNU_SOURCE
#include "wait.h"
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "job@1";
static pmix_proc_t peer, everyone;

/* Two processes write, in turn. */
static void say(const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[n++] = '\n';
    if (write(STDOUT_FILENO, line, n) != n) exit(1);
}

static const char *value_text(const pmix_value_t *value, char *text, size_t size) {
    switch (value->type) {
    case PMIX_STRING: snprintf(text, size, "'%s'", value->data.string); break;
    case PMIX_BOOL: snprintf(text, size, "%d", value->data.flag); break;
    case PMIX_INT: snprintf(text, size, "%d", value->data.integer); break;
    case PMIX_UINT64: case PMIX_SIZE: snprintf(text, size, "%zu", value->data.size); break;
    case PMIX_PROC_RANK: snprintf(text, size, "rank %u", value->data.rank); break;
    case PMIX_PROC: snprintf(text, size, "%s:%u", value->data.proc->nspace, value->data.proc->rank); break;
    case PMIX_ENVAR:
        snprintf(text, size, "%s %s %d", value->data.envar.envar, value->data.envar.value, value->data.envar.separator);
        break;
    default: snprintf(text, size, "of type %d", value->type);
    }
    return text;
}

static const char *infos(const pmix_info_t *info, size_t n) {
    static const char *const added[] = {PMIX_USERID, PMIX_GRPID, PMIX_SPAWNED, PMIX_PARENT_ID, PMIX_REQUESTOR_IS_CLIENT};
    static char texts[2][2048];
    static int turn;
    char value[256], *text = texts[turn ^= 1];
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        bool shown = true;
        for (size_t k = 0; k < sizeof added / sizeof *added; k++)
            shown = shown && strcmp(info[i].key, added[k]);
        if (shown)
            at += snprintf(text + at, sizeof texts[0] - at, " %s=%s%s", info[i].key,
                           value_text(&info[i].value, value, sizeof value), info[i].flags & PMIX_INFO_REQD ? "!" : "");
    }
    return text;
}

static const char *words(char **list) {
    static char texts[2][1024];
    static int turn;
    char *text = texts[turn ^= 1];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; list && list[i]; i++)
        at += snprintf(text + at, sizeof texts[0] - at, " %s", list[i]);
    return text;
}

/* The host: it answers with another thread, as some libraries want it. */

static bool refuses;
/* True in threads that answer for the host. */
static _Thread_local bool is_answering;
static int given, taken;
static pmix_info_t news;

/* A function of whatever kind. */
typedef void (*any_t)(void);

struct answer {
    enum { OP, INFO, SPAWN, CREDENTIAL, VALIDATION } kind;
    any_t function;
    void *data;
};

static void *answers(void *argument) {
    struct answer *to = argument;
    pmix_status_t status = refuses ? PMIX_ERR_RESOURCE_BUSY : PMIX_SUCCESS;
    pmix_info_t *info = refuses ? NULL : &news;
    pmix_byte_object_t papers = {"papers", 6};
    is_answering = true;
    switch (to->kind) {
    case OP: ((pmix_op_cbfunc_t)to->function)(status, to->data); break;
    case INFO: ((pmix_info_cbfunc_t)to->function)(status, info, !refuses, to->data, NULL, NULL); break;
    case SPAWN: ((pmix_spawn_cbfunc_t)to->function)(status, refuses ? NULL : "child", to->data); break;
    case CREDENTIAL: ((pmix_credential_cbfunc_t)to->function)(status, refuses ? NULL : &papers, NULL, 0, to->data); break;
    case VALIDATION: ((pmix_validation_cbfunc_t)to->function)(status, info, !refuses, to->data); break;
    }
    free(to);
    set(&given);
    return NULL;
}

static pmix_status_t later(int kind, any_t function, void *data) {
    struct answer *to = malloc(sizeof *to);
    pthread_t thread;
    *to = (struct answer){kind, function, data};
    set(&taken);
    if (pthread_create(&thread, NULL, answers, to)) exit(1);
    pthread_detach(thread);
    return PMIX_SUCCESS;
}

static pmix_status_t on_spawn(const pmix_proc_t *p, const pmix_info_t info[], size_t n, const pmix_app_t apps[], size_t napps,
                              pmix_spawn_cbfunc_t f, void *d) {
    (void)p;
    say("  host: spawn%s", infos(info, n));
    for (size_t i = 0; i < napps; i++)
        say("  host: %d of %s in %s:%s, with%s%s", apps[i].maxprocs, apps[i].cmd, apps[i].cwd, words(apps[i].argv),
            words(apps[i].env), infos(apps[i].info, apps[i].ninfo));
    return later(SPAWN, (any_t)f, d);
}
static pmix_status_t on_query(pmix_proc_t *p, pmix_query_t *queries, size_t n, pmix_info_cbfunc_t f, void *d) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        say("  host: query%s for%s", words(queries[i].keys), infos(queries[i].qualifiers, queries[i].nqual));
    return later(INFO, (any_t)f, d);
}
static void on_log(const pmix_proc_t *p, const pmix_info_t data[], size_t n, const pmix_info_t info[], size_t ninfo,
                   pmix_op_cbfunc_t f, void *d) {
    say("  host: log by %u%s, with%s", p->rank, infos(data, n), infos(info, ninfo));
    later(OP, (any_t)f, d);
}
static pmix_status_t on_allocate(const pmix_proc_t *p, pmix_alloc_directive_t directive, const pmix_info_t info[], size_t n,
                                 pmix_info_cbfunc_t f, void *d) {
    say("  host: allocate by %u: %d%s", p->rank, directive, infos(info, n));
    return later(INFO, (any_t)f, d);
}
static pmix_status_t on_control(const pmix_proc_t *p, const pmix_proc_t targets[], size_t ntargets, const pmix_info_t info[],
                                size_t n, pmix_info_cbfunc_t f, void *d) {
    say("  host: control by %u of %zu, %s:%u%s", p->rank, ntargets, ntargets ? targets[0].nspace : "",
        ntargets ? targets[0].rank : 0, infos(info, n));
    return later(INFO, (any_t)f, d);
}
static pmix_status_t on_credential(const pmix_proc_t *p, const pmix_info_t info[], size_t n, pmix_credential_cbfunc_t f, void *d) {
    say("  host: credential for %u%s", p->rank, infos(info, n));
    return later(CREDENTIAL, (any_t)f, d);
}
static pmix_status_t on_validate(const pmix_proc_t *p, const pmix_byte_object_t *papers, const pmix_info_t info[], size_t n,
                                 pmix_validation_cbfunc_t f, void *d) {
    say("  host: validate %zu bytes for %u%s", papers->size, p->rank, infos(info, n));
    return later(VALIDATION, (any_t)f, d);
}
static pmix_status_t on_push(const pmix_proc_t *p, const pmix_proc_t targets[], size_t ntargets, const pmix_info_t info[], size_t n,
                             const pmix_byte_object_t *bytes, pmix_op_cbfunc_t f, void *d) {
    say("  host: push by %u to %zu, the first %u: %zu bytes%s", p->rank, ntargets, targets[0].rank, bytes->size, infos(info, n));
    return later(OP, (any_t)f, d);
}
static pmix_status_t on_fabric(const pmix_proc_t *p, pmix_fabric_operation_t operation, const pmix_info_t info[], size_t n,
                               pmix_info_cbfunc_t f, void *d) {
    say("  host: fabric by %u: %d%s", p->rank, (int)operation, infos(info, n));
    return later(INFO, (any_t)f, d);
}

static pmix_server_module_t module = {
    .spawn = on_spawn, .query = on_query, .log = on_log, .allocate = on_allocate, .job_control = on_control,
    .get_credential = on_credential, .validate_credential = on_validate, .push_stdin = on_push, .fabric = on_fabric,
};

/* The client. */

static pmix_info_t of(const char *key, const void *data, pmix_data_type_t type) {
    pmix_info_t info = PMIX_INFO_STATIC_INIT;
    PMIX_INFO_LOAD(&info, key, data, type);
    return info;
}
static pmix_info_t text(const char *key, const char *value) { return of(key, value, PMIX_STRING); }
static pmix_info_t flag(const char *key) { return of(key, NULL, PMIX_BOOL); }
static pmix_info_t needed(pmix_info_t info) {
    info.flags |= PMIX_INFO_REQD;
    return info;
}

static int heard, expected;
static char told[2048];
static void hears(pmix_status_t status, const char *what) {
    snprintf(told, sizeof told, "%d%s", status, what);
    set(&heard);
}
static void done(pmix_status_t status, void *data) { (void)data, hears(status, ""); }
static void found(pmix_status_t status, pmix_info_t *info, size_t n, void *data, pmix_release_cbfunc_t release, void *released) {
    (void)data;
    hears(status, infos(info, n));
    if (release) release(released);
}
static void started(pmix_status_t status, char nspace[], void *data) { (void)data, hears(status, nspace); }
static void proved(pmix_status_t status, pmix_byte_object_t *papers, pmix_info_t info[], size_t n, void *data) {
    (void)data, (void)info, (void)n;
    hears(status, !papers ? " nothing" : papers->size == 6 ? " papers" : !papers->size && !papers->bytes ? " none" : " some");
}
static void judged(pmix_status_t status, pmix_info_t info[], size_t n, void *data) { (void)data, hears(status, infos(info, n)); }

/* Result of a call without waiting, and of its callback. */
static void says(const char *what, pmix_status_t status) {
    if (status == PMIX_SUCCESS) until(&heard, ++expected);
    say("%s: %d, told %s", what, status, status == PMIX_SUCCESS ? told : "nothing");
}
/* Result of a waiting call. */
#define BRINGS(what, call)                                                 \
    do {                                                                   \
        pmix_info_t *results = NULL;                                       \
        size_t nresults = 0;                                               \
        pmix_status_t brings_ = (call);                                    \
        say("%s: %d%s", what, brings_, infos(results, nresults));          \
    } while (0)

/* Libraries write into what they are given. */
static void spawn(const char *what, const char *cmd, const char *first, const char *second, pmix_info_t *info, size_t n,
                  pmix_info_t *of_app, size_t nof_app) {
    pmix_nspace_t nspace = "";
    pmix_app_t *app = calloc(1, sizeof *app);
    app->cmd = strdup(cmd);
    app->maxprocs = 2;
    app->info = of_app, app->ninfo = nof_app;
    app->argv = first ? calloc(3, sizeof *app->argv) : NULL;
    if (first) app->argv[0] = strdup(first);
    if (second) app->argv[1] = strdup(second);
    pmix_status_t status = PMIx_Spawn(info, n, app, 1, nspace);
    say("%s: %d '%s'", what, status, nspace);
}

static void spawns(void) {
    pmix_rank_t rank = 1;
    int seconds = 5;
    pmix_envar_t envar = {"NAME", "value", ':'};
    pmix_info_t all[] = {
        text(PMIX_MAPBY, "slot"), text(PMIX_RANKBY, "node"), text(PMIX_BINDTO, "core"), text(PMIX_PREFIX, "/usr"),
        text(PMIX_HOST, "a,b"), text(PMIX_ADD_HOST, "c"), of(PMIX_SET_ENVAR, &envar, PMIX_ENVAR),
        of(PMIX_ADD_ENVAR, &envar, PMIX_ENVAR), text(PMIX_UNSET_ENVAR, "NAME"), of(PMIX_PREPEND_ENVAR, &envar, PMIX_ENVAR),
        of(PMIX_APPEND_ENVAR, &envar, PMIX_ENVAR), of(PMIX_STDIN_TGT, &rank, PMIX_PROC_RANK), flag(PMIX_FWD_STDIN),
        flag(PMIX_TAG_OUTPUT), flag(PMIX_TIMESTAMP_OUTPUT), text(PMIX_OUTPUT_TO_FILE, "/tmp/name"), flag(PMIX_MERGE_STDERR_STDOUT),
        flag(PMIX_NOTIFY_COMPLETION), flag(PMIX_NOTIFY_JOB_EVENTS), of(PMIX_SPAWN_TIMEOUT, &seconds, PMIX_INT),
        of(PMIX_TIMEOUT, &seconds, PMIX_INT), flag(PMIX_INDEX_ARGV), flag(PMIX_NON_PMI), flag(PMIX_COSPAWN_APP), text(PMIX_PPR, "2:node"),
        needed(text(PMIX_PERSONALITY, "some")), needed(text("site.unknown", "x")), flag(PMIX_FWD_STDOUT), flag(PMIX_FWD_STDERR),
    };
    size_t n = sizeof all / sizeof *all;
    spawn("no words", "prog", NULL, NULL, NULL, 0, NULL, 0);
    spawn("no words of a path", "/some/prog", NULL, NULL, NULL, 0, NULL, 0);
    spawn("words", "/some/prog", "/some/prog", "x", NULL, 0, NULL, 0);
    spawn("words without the folder", "/some/prog", "prog", "x", NULL, 0, NULL, 0);
    spawn("words without a name", "/some/prog", "x", "y", NULL, 0, NULL, 0);
    spawn("attributes", "prog", NULL, NULL, all, n, NULL, 0);
    spawn("attributes of a program", "prog", NULL, NULL, NULL, 0, all, n);
    char *env[] = {"A=1", NULL};
    pmix_app_t *apps = calloc(2, sizeof *apps);
    for (int i = 0; i < 2; i++) {
        apps[i].cmd = strdup(i ? "second" : "first");
        apps[i].cwd = strdup("/somewhere");
        apps[i].maxprocs = i - 1;
        apps[i].env = env;
    }
    pmix_nspace_t nspace;
    say("two: %d", PMIx_Spawn(NULL, 0, apps, 2, nspace));
    say("two without a place: %d", PMIx_Spawn(NULL, 0, apps, 2, NULL));
    says("two without waiting", PMIx_Spawn_nb(NULL, 0, apps, 2, started, NULL));
}

static void queries(void) {
    pmix_rank_t rank = 1;
    pmix_info_t one[] = {text(PMIX_NSPACE, job), of(PMIX_RANK, &rank, PMIX_PROC_RANK)};
    pmix_info_t other = of(PMIX_PROCID, &peer, PMIX_PROC);
    static char *asked[] = {PMIX_QUERY_JOB_STATUS, PMIX_QUERY_QUEUE_LIST, PMIX_QUERY_SPAWN_SUPPORT, PMIX_TIME_REMAINING,
                            PMIX_QUERY_NUM_PSETS, PMIX_QUERY_PSET_NAMES, PMIX_QUERY_PSET_MEMBERSHIP, PMIX_QUERY_GROUP_NAMES,
                            PMIX_QUERY_GROUP_MEMBERSHIP, "site.key"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char *keys[] = {asked[i], NULL};
        pmix_query_t query = {.keys = keys};
        BRINGS(asked[i], PMIx_Query_info(&query, 1, &results, &nresults));
    }
    char *two[] = {PMIX_JOB_SIZE, "site.key", NULL};
    pmix_query_t query = {.keys = two, .qualifiers = one, .nqual = 2};
    BRINGS("of a process", PMIx_Query_info(&query, 1, &results, &nresults));
    query.qualifiers = &other, query.nqual = 1;
    BRINGS("of a process in one", PMIx_Query_info(&query, 1, &results, &nresults));
    says("without waiting", PMIx_Query_info_nb(&query, 1, found, NULL));
    BRINGS("of nothing", PMIx_Query_info(NULL, 0, &results, &nresults));
    says("of nothing without waiting", PMIx_Query_info_nb(NULL, 0, found, NULL));
}

static void logs(void) {
    static const char *const channels[] = {PMIX_LOG_STDERR, PMIX_LOG_STDOUT, PMIX_LOG_SYSLOG, PMIX_LOG_LOCAL_SYSLOG,
                                           PMIX_LOG_GLOBAL_SYSLOG, PMIX_LOG_MSG, PMIX_LOG_EMAIL, PMIX_LOG_GLOBAL_DATASTORE,
                                           PMIX_LOG_JOB_RECORD, "site.log"};
    pmix_info_t data, directives[] = {flag(PMIX_LOG_GENERATE_TIMESTAMP), flag(PMIX_LOG_TAG_OUTPUT), flag(PMIX_LOG_XML_OUTPUT)};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        data = text(channels[i], "text");
        say("log: %d", PMIx_Log(&data, 1, NULL, 0));
    }
    say("log with directives: %d", PMIx_Log(&data, 1, directives, 3));
    says("log without waiting", PMIx_Log_nb(&data, 1, NULL, 0, done, NULL));
    say("log nothing: %d", PMIx_Log(NULL, 0, NULL, 0));
}

static void controls(void) {
    int signal = 10;
    uint64_t nodes = 2;
    pmix_info_t info[] = {of(PMIX_JOB_CTRL_SIGNAL, &signal, PMIX_INT), text(PMIX_JOB_CTRL_ID, "id"), needed(text("site.x", "y"))};
    pmix_info_t size[] = {of(PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64), text(PMIX_ALLOC_ID, "id")};
    BRINGS("control", PMIx_Job_control(&peer, 1, info, 3, &results, &nresults));
    BRINGS("control all", PMIx_Job_control(&everyone, 1, info, 2, &results, &nresults));
    BRINGS("control the own", PMIx_Job_control(NULL, 0, info, 1, &results, &nresults));
    says("control without waiting", PMIx_Job_control_nb(&peer, 1, info, 1, found, NULL));
    for (int directive = PMIX_ALLOC_NEW; directive <= PMIX_ALLOC_REAQUIRE; directive++)
        BRINGS("allocate", PMIx_Allocation_request(directive, size, 2, &results, &nresults));
    says("allocate without waiting", PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, size, 2, found, NULL));
}

static void proofs(void) {
    pmix_byte_object_t papers = {NULL, 0};
    pmix_info_t info[] = {text(PMIX_CRED_TYPE, "some"), needed(text("site.x", "y"))};
    pmix_status_t status = PMIx_Get_credential(info, 2, &papers);
    say("credential: %d, %zu bytes", status, papers.size);
    says("credential without waiting", PMIx_Get_credential_nb(NULL, 0, proved, NULL));
    papers = (pmix_byte_object_t){"papers", 6};
    BRINGS("validate", PMIx_Validate_credential(&papers, info, 2, &results, &nresults));
    says("validate without waiting", PMIx_Validate_credential_nb(&papers, NULL, 0, judged, NULL));
}

/* Others wait for ever now and then where they are to wait. */
static void pushes(void) {
    pmix_byte_object_t bytes = {"bytes", 5}, none = {NULL, 0};
    pmix_info_t info[] = {flag(PMIX_IOF_COMPLETE), text("site.x", "y")};
    says("push", PMIx_IOF_push(&peer, 1, &bytes, info + 1, 1, done, NULL));
    says("push to all", PMIx_IOF_push(&everyone, 1, &bytes, NULL, 0, done, NULL));
    says("push the end", PMIx_IOF_push(&peer, 1, &none, info, 1, done, NULL));
    says("push no bytes", PMIx_IOF_push(&peer, 1, &none, NULL, 0, done, NULL));
    says("push nothing", PMIx_IOF_push(&peer, 1, NULL, NULL, 0, done, NULL));
}

static void fabrics(void) {
    pmix_fabric_t fabric = {.index = 3}, other = {0};
    say("fabric: %d", PMIx_Fabric_register(&fabric, NULL, 0));
    say("update: %d", PMIx_Fabric_update(&fabric));
    say("forget: %d", PMIx_Fabric_deregister(&fabric));
    says("fabric without waiting", PMIx_Fabric_register_nb(&other, NULL, 0, done, NULL));
    says("update without waiting", PMIx_Fabric_update_nb(&other, done, NULL));
}

/* Nobody is told, and the host is asked. The call that waits behind it shows that it was. */
static void to_nobody(void) {
    pmix_byte_object_t papers = {"papers", 6};
    pmix_info_t *results;
    size_t nresults;
    pmix_app_t *app = calloc(1, sizeof *app);
    app->cmd = strdup("prog");
    app->maxprocs = 1;
    pmix_status_t said[] = {PMIx_Spawn_nb(NULL, 0, app, 1, NULL, NULL), PMIx_Get_credential_nb(NULL, 0, NULL, NULL),
                            PMIx_Validate_credential_nb(&papers, NULL, 0, NULL, NULL)};
    PMIx_Job_control(&peer, 1, NULL, 0, &results, &nresults);
    say("for nobody: %d %d %d", said[0], said[1], said[2]);
}

static int client(const char *host) {
    pmix_proc_t me;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 1;
    spawns(), queries(), logs(), controls(), proofs(), pushes();
    /* Others take a refusal for a fabric, and say nothing to nobody. */
    if (strcmp(host, "refuses")) fabrics(), to_nobody();
    return PMIx_Finalize(NULL, 0);
}

/* A process that nobody launched asks nobody. */
static int alone(void) {
    pmix_proc_t me;
    pmix_app_t app = {.cmd = "prog", .maxprocs = 1};
    pmix_nspace_t nspace = "untouched";
    PMIx_Init(&me, NULL, 0);
    say("alone, spawn: %d '%s'", PMIx_Spawn(NULL, 0, &app, 1, nspace), nspace);
    say("alone, spawn nothing: %d '%s'", PMIx_Spawn(NULL, 0, NULL, 0, nspace), nspace);
    say("alone, spawn for nobody: %d", PMIx_Spawn_nb(NULL, 0, &app, 1, NULL, NULL));
    say("alone, end a pull: %d", PMIx_IOF_deregister(7, NULL, 0, NULL, NULL));
    say("alone, push nothing: %d", PMIx_IOF_push(&me, 1, NULL, NULL, 0, NULL, NULL));
    return PMIx_Finalize(NULL, 0);
}

static void started_here(pmix_status_t status, char nspace[], void *data) {
    (void)data;
    char what[300];
    snprintf(what, sizeof what, "%s, %s", nspace ? nspace : "", is_answering ? "where the host answers" : "elsewhere");
    hears(status, what);
}

/* The host's own program asks. It is no process that anything is cleaned up after, and may wait where the host answers. */
static void own(void) {
    static char *no_words[] = {NULL};
    pmix_info_t file = text(PMIX_REGISTER_CLEANUP, "/nowhere/file"), where = text(PMIX_WDIR, "/somewhere");
    pmix_app_t app = {.cmd = strdup("/some/prog"), .cwd = strdup("/elsewhere"), .argv = calloc(3, sizeof *app.argv), .maxprocs = 1};
    app.argv[0] = strdup("prog");
    app.argv[1] = strdup("x");
    app.env = no_words;
    BRINGS("own clean-up", PMIx_Job_control(NULL, 0, &file, 1, &results, &nresults));
    BRINGS("clean-up after others", PMIx_Job_control(&everyone, 1, &file, 1, &results, &nresults));
    says("own spawn without waiting", PMIx_Spawn_nb(&where, 1, &app, 1, started_here, NULL));
}

static int host(char *program, char *how) {
    extern char **environ;
    uint32_t size = 2;
    int status, registered = 0;
    char node[256], *nodes, *ranks, **env = calloc(1, sizeof *env);
    pmix_proc_t proc = everyone;
    refuses = !strcmp(how, "refuses");
    news = text("site.answer", "yes");
    for (int i = 0; environ[i]; i++) {
        env = realloc(env, (i + 2) * sizeof *env);
        env[i] = strdup(environ[i]);
        env[i + 1] = NULL;
    }
    pmix_rank_t seventh = 7;
    pmix_info_t name[] = {text(PMIX_SERVER_NSPACE, "host"), of(PMIX_SERVER_RANK, &seventh, PMIX_PROC_RANK)};
    if (PMIx_server_init(&module, name, 2) != PMIX_SUCCESS) return 1;
    if (gethostname(node, sizeof node) || PMIx_generate_regex(node, &nodes) || PMIx_generate_ppn("0,1", &ranks)) return 1;
    pmix_info_t info[] = {
        of(PMIX_JOB_SIZE, &size, PMIX_UINT32), of(PMIX_LOCAL_SIZE, &size, PMIX_UINT32), of(PMIX_NODE_MAP, nodes, PMIX_REGEX),
        of(PMIX_PROC_MAP, ranks, PMIX_REGEX), text(PMIX_LOCAL_PEERS, "0,1"),
    };
    if (PMIx_server_register_nspace(job, size, info, 5, done, NULL) == PMIX_SUCCESS) until(&heard, ++registered);
    expected = registered;
    own();
    registered = expected;
    proc.rank = 0;
    if (PMIx_server_register_client(&proc, getuid(), getgid(), NULL, done, NULL) == PMIX_SUCCESS) until(&heard, ++registered);
    if (PMIx_server_setup_fork(&proc, &env) != PMIX_SUCCESS) return 1;
    pid_t pid = fork();
    if (pid == 0) {
        execle(program, program, "client", how, NULL, env);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) return 1;
    until(&given, taken);
    return PMIx_server_finalize();
}

/* Each part in a process of its own: it has one library, and that as one thing. */
static void part(char *program, const char *what, const char *how) {
    int status;
    say("%s %s", what, how);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, what, how, NULL);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) exit(1);
}

int main(int argc, char **argv) {
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(500);
    strcpy(everyone.nspace, job);
    strcpy(peer.nspace, job);
    everyone.rank = PMIX_RANK_WILDCARD;
    peer.rank = 1;
    if (argc == 3) return !strcmp(argv[1], "client") ? client(argv[2]) : !strcmp(argv[1], "host") ? host(argv[0], argv[2]) : alone();
    part(argv[0], "host", "answers");
    part(argv[0], "host", "refuses");
    part(argv[0], "alone", "");
    return 0;
}
