/* Tools and their servers. The program is a server that accepts tools. It starts itself again as a second server, and as each kind
 * of tool, which finds the server by its process, by its address, in a file, or not at all. */
#define _GNU_SOURCE
#include "check.h"
#include "since.h"
#include "wait.h"
#include <fcntl.h>
#include <pmix_tool.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "job@1";
static char rendezvous[64];
static int finalized, lost, connected, pulled, pushed, logged, stopped_pushing;

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

static pmix_info_t *attribute(pmix_info_t *info, const char *key, const void *value, pmix_data_type_t type) {
    PMIX_INFO_CONSTRUCT(info);
    OK(PMIx_Info_load(info, key, value, type));
    return info;
}

/* The tools. */

static uint32_t job_size(void) {
    pmix_proc_t proc;
    pmix_value_t *value;
    PMIx_Proc_load(&proc, job, PMIX_RANK_WILDCARD);
    OK(PMIx_Get(&proc, PMIX_JOB_SIZE, NULL, 0, &value));
    CHECK(value->type == PMIX_UINT32);
    uint32_t size = value->data.uint32;
    PMIx_Value_free(value, 1);
    return size;
}

/* Asks for one thing and gives the only answer, which is the caller's to free. */
static pmix_info_t *query(char *key, pmix_info_t *qualifier) {
    char *keys[] = {key, NULL};
    pmix_query_t query = {.keys = keys, .qualifiers = qualifier, .nqual = qualifier != NULL};
    pmix_info_t *results = NULL;
    size_t n = 0;
    OK(PMIx_Query_info(&query, 1, &results, &n));
    CHECK(n == 1);
    return results;
}

static void text_is(char *key, const char *expected) {
    pmix_info_t *result = query(key, NULL);
    CHECK(result->value.type == PMIX_STRING && !strcmp(result->value.data.string, expected));
    PMIX_INFO_FREE(result, 1);
}

static void attach(pid_t server) {
    pmix_proc_t me;
    pmix_info_t info;
    OK(PMIx_tool_init(&me, attribute(&info, PMIX_SERVER_PIDINFO, &server, PMIX_PID), 1));
    PMIX_INFO_DESTRUCT(&info);
}

/* A member of a description. */
static const pmix_value_t *member(const pmix_info_t *info, const char *key) {
    const pmix_info_t *all = info->value.data.darray->array;
    for (size_t i = 0; i < info->value.data.darray->size; i++)
        if (!strcmp(all[i].key, key))
            return &all[i].value;
    return NULL;
}

/* A tool that asks for servers is told where this one is, connected or not. */
static void is_listed(pid_t server, const char *uri) {
    char *keys[] = {PMIX_QUERY_AVAIL_SERVERS, NULL};
    pmix_query_t query = {.keys = keys};
    pmix_info_t *servers = NULL;
    size_t n = 0;
    bool found = false;
    OK(PMIx_Query_info(&query, 1, &servers, &n));
    for (size_t i = 0; i < n; i++) {
        CHECK(!strcmp(servers[i].key, PMIX_SERVER_INFO_ARRAY) && servers[i].value.type == PMIX_DATA_ARRAY);
        if (member(&servers[i], PMIX_SERVER_PIDINFO)->data.uint32 != (uint32_t)server)
            continue;
        const pmix_value_t *nspace = member(&servers[i], PMIX_SERVER_NSPACE);
        found = true;
        CHECK(!strncmp(nspace->data.string, uri, strlen(nspace->data.string)));
        CHECK(member(&servers[i], PMIX_SERVER_RANK)->data.rank == 0);
        CHECK(member(&servers[i], PMIX_USERID)->data.uint32 == getuid());
        CHECK(member(&servers[i], PMIX_GRPID)->data.uint32 == getgid());
        CHECK(!strcmp(member(&servers[i], PMIX_SERVER_URI)->data.string, uri));
    }
    CHECK(found);
    PMIX_INFO_FREE(servers, n);
}

static int by_pid(pid_t server) {
    pmix_proc_t me, again;
    pmix_info_t info;
    CHECK(!PMIx_tool_is_connected());
    OK(PMIx_tool_finalize());
    IS(PMIX_ERR_INIT, PMIx_tool_attach_to_server(NULL, NULL, NULL, 0));
    OK(PMIx_tool_init(&me, attribute(&info, PMIX_SERVER_PIDINFO, &server, PMIX_PID), 1));
    PMIX_INFO_DESTRUCT(&info);
    CHECK(PMIx_tool_is_connected() && me.rank == 0 && me.nspace[0] != '\0');
    text_is(PMIX_QUERY_NAMESPACES, job);
    CHECK(job_size() == 4);
    OK(PMIx_tool_init(&again, NULL, 0));
    CHECK(PMIx_Check_procid(&me, &again));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_init(NULL, attribute(&info, PMIX_TOOL_NSPACE, "another", PMIX_STRING), 1));
    PMIX_INFO_DESTRUCT(&info);
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_init(NULL, attribute(&info, PMIX_TOOL_RANK, &(pmix_rank_t){17}, PMIX_PROC_RANK), 1));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_init(NULL, attribute(&info, PMIX_SERVER_PIDINFO, &(pid_t){1}, PMIX_PID), 1));
    attribute(&info, "site.wish", NULL, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_tool_init(NULL, &info, 1));
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Finalize(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    OK(PMIx_tool_init(NULL, attribute(&info, PMIX_SERVER_PIDINFO, &server, PMIX_PID), 1));
    OK(PMIx_tool_finalize());
    OK(PMIx_tool_finalize());
    CHECK(PMIx_tool_is_connected());
    OK(PMIx_tool_finalize());
    CHECK(!PMIx_tool_is_connected());
    OK(PMIx_tool_finalize());
    /* And again. */
    attach(server);
    CHECK(job_size() == 4);
    return PMIx_tool_finalize();
}

static int by_uri(pid_t server) {
    char file[] = "tool-uri-XXXXXX";
    char named[32];
    pmix_proc_t me;
    pmix_info_t info[3];
    attach(server);
    pmix_info_t *uri = query(PMIX_SERVER_URI, NULL);
    CHECK(uri->value.type == PMIX_STRING);
    is_listed(server, uri->value.data.string);
    OK(PMIx_tool_finalize());
    OK(PMIx_tool_init(&me, attribute(&info[0], PMIX_TOOL_DO_NOT_CONNECT, NULL, PMIX_BOOL), 1));
    is_listed(server, uri->value.data.string);
    OK(PMIx_tool_finalize());
    int fd = mkstemp(file);
    CHECK(fd >= 0 && write(fd, uri->value.data.string, strlen(uri->value.data.string)) > 0 && close(fd) == 0);
    snprintf(named, sizeof named, "file:%s", file);
    const char *found[][2] = {{PMIX_SERVER_URI, uri->value.data.string}, {PMIX_SERVER_URI, named},
                              {PMIX_TOOL_ATTACHMENT_FILE, file}};
    for (int i = 0; i < 3; i++) {
        uint32_t rank = 3;
        attribute(&info[0], found[i][0], found[i][1], PMIX_STRING);
        attribute(&info[1], PMIX_TOOL_NSPACE, "my-tool", PMIX_STRING);
        attribute(&info[2], PMIX_TOOL_RANK, &rank, PMIX_UINT32);
        OK(PMIx_tool_init(&me, info, 3));
        CHECK(me.rank == 3 && !strcmp(me.nspace, "my-tool") && job_size() == 4);
        OK(PMIx_tool_finalize());
        IS(PMIX_ERR_BAD_PARAM, PMIx_tool_init(&me, info, 2));
        for (int j = 0; j < 3; j++)
            PMIX_INFO_DESTRUCT(&info[j]);
    }
    unlink(file);
    IS(PMIX_ERR_UNREACH, PMIx_tool_init(&me, attribute(&info[0], PMIX_SERVER_URI, named, PMIX_STRING), 1));
    PMIX_INFO_DESTRUCT(&info[0]);
    attribute(&info[0], PMIX_SERVER_URI, uri->value.data.string, PMIX_STRING);
    attribute(&info[1], PMIX_TCP_URI, uri->value.data.string, PMIX_STRING);
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_init(&me, info, 2));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    PMIX_INFO_FREE(uri, 1);
    return 0;
}

static int nowhere(void) {
    pmix_proc_t me;
    pmix_info_t info[2];
    pid_t nobody = 1 << 30;
    attribute(&info[0], PMIX_SERVER_PIDINFO, &nobody, PMIX_PID);
    attribute(&info[1], PMIX_TOOL_CONNECT_OPTIONAL, NULL, PMIX_BOOL);
    IS(PMIX_ERR_UNREACH, PMIx_tool_init(&me, info, 1));
    CHECK(!PMIx_Initialized());
    OK(PMIx_tool_init(&me, info, 2));
    CHECK(PMIx_Initialized() && !PMIx_tool_is_connected() && me.nspace[0] && me.rank == 0);
    OK(PMIx_tool_finalize());
    PMIX_INFO_DESTRUCT(&info[1]);
    OK(PMIx_tool_init(&me, attribute(&info[1], PMIX_TOOL_DO_NOT_CONNECT, NULL, PMIX_BOOL), 1));
    /* Calls that need no other process. */
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 5}, *got;
    OK(PMIx_Store_internal(&me, "mine", &value));
    OK(PMIx_Get(&me, "mine", NULL, 0, &got));
    CHECK(got->data.uint32 == 5);
    PMIx_Value_free(got, 1);
    OK(PMIx_Fence(NULL, 0, NULL, 0));
    pmix_proc_t *servers = &me;
    size_t n = 7;
    OK(PMIx_tool_get_servers(&servers, &n));
    CHECK(servers == NULL && n == 0);
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_get_servers(NULL, &n));
    IS(PMIX_ERR_UNREACH, PMIx_tool_set_server(&me, NULL, 0));
    IS(PMIX_ERR_NOT_FOUND, PMIx_tool_disconnect(&me));
    IS(PMIX_ERR_BAD_PARAM, PMIx_tool_attach_to_server(NULL, NULL, NULL, 0));
    OK(PMIx_tool_finalize());
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    return 0;
}

/* From the second server to the first one and back. */
static int between(pid_t first) {
    pmix_proc_t me, named, one, *servers;
    pmix_info_t info[2];
    size_t n;
    OK(PMIx_tool_init(&me, attribute(&info[0], PMIX_TOOL_ATTACHMENT_FILE, rendezvous, PMIX_STRING), 1));
    PMIX_INFO_DESTRUCT(&info[0]);
    text_is(PMIX_QUERY_NAMESPACES, "second@1");
    attribute(&info[0], PMIX_SERVER_PIDINFO, &first, PMIX_PID);
    attribute(&info[1], PMIX_PRIMARY_SERVER, NULL, PMIX_BOOL);
    OK(PMIx_tool_attach_to_server(&named, &one, info, 1));
    CHECK(PMIx_Check_procid(&me, &named));
    text_is(PMIX_QUERY_NAMESPACES, "second@1");
    OK(PMIx_tool_get_servers(&servers, &n));
    CHECK(n == 2 && PMIx_Check_procid(&servers[1], &one));
    pmix_proc_t other = servers[0];
    PMIx_Proc_free(servers, n);
    OK(PMIx_tool_set_server(&one, NULL, 0));
    text_is(PMIX_QUERY_NAMESPACES, job);
    CHECK(job_size() == 4);
    OK(PMIx_tool_disconnect(&one));
    CHECK(!PMIx_tool_is_connected());
    IS(PMIX_ERR_NOT_FOUND, PMIx_tool_disconnect(&one));
    OK(PMIx_tool_set_server(&other, NULL, 0));
    text_is(PMIX_QUERY_NAMESPACES, "second@1");
    OK(PMIx_tool_attach_to_server(NULL, NULL, info, 2));
    text_is(PMIX_QUERY_NAMESPACES, job);
    OK(PMIx_tool_disconnect(&one));
    OK(PMIx_tool_connect_to_server(NULL, info, 1));
    text_is(PMIX_QUERY_NAMESPACES, job);
    /* It becomes a server itself, once. */
    pmix_server_module_t module = {0};
    OK(PMIx_tool_set_server_module(&module));
    IS(PMIX_ERR_INIT, PMIx_tool_set_server_module(&module));
    pmix_nspace_t name = "third@1";
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(name, 0, info, 1, NULL, NULL));
    OK(PMIx_tool_finalize());
    IS(PMIX_ERR_INIT, PMIx_server_register_nspace(name, 0, info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    return 0;
}

static int heard;

static void output(size_t number, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                   pmix_info_t *info, size_t ninfo) {
    (void)number, (void)info, (void)ninfo;
    CHECK(channel == PMIX_FWD_STDOUT_CHANNEL && source->rank == 2 && PMIx_Check_nspace(source->nspace, job));
    CHECK(bytes->size == 5 && !memcmp(bytes->bytes, "hello", 5));
    set(&heard);
}

static int with_output(pid_t server) {
    pmix_proc_t all;
    attach(server);
    PMIx_Proc_load(&all, job, PMIX_RANK_WILDCARD);
    int number = PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, output, NULL, NULL);
    CHECK(number >= 0);
    until(&heard, 1);
    OK(PMIx_IOF_deregister(number, NULL, 0, NULL, NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_IOF_deregister(number, NULL, 0, NULL, NULL));

    /* The host takes the first piece and wants no more until it is told to go on. */
    pmix_byte_object_t bytes = {"first", 5};
    OK(PMIx_IOF_push(&all, 1, &bytes, NULL, 0, NULL, NULL));
    bytes = (pmix_byte_object_t){"second", 6};
    OK(PMIx_IOF_push(&all, 1, &bytes, NULL, 0, done, &stopped_pushing));
    text_is(PMIX_QUERY_NAMESPACES, job);
    CHECK(stopped_pushing == 0);
    pmix_info_t say;
    attribute(&say, PMIX_LOG_STDOUT, "go on", PMIX_STRING);
    OK(PMIx_Log(&say, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&say);
    until(&stopped_pushing, 1);

    /* Attributes that its host supports, by the names of the functions that users call. */
    pmix_info_t level;
    pmix_info_t *result = query(PMIX_QUERY_ATTRIBUTE_SUPPORT, attribute(&level, PMIX_HOST_ATTRIBUTES, "all", PMIX_STRING));
    pmix_data_array_t *functions = result->value.data.darray;
    CHECK(result->value.type == PMIX_DATA_ARRAY && functions->type == PMIX_INFO && functions->size == 1);
    pmix_info_t *function = functions->array;
    CHECK(!strcmp(function->key, "PMIx_Lookup") && function->value.data.darray->type == PMIX_REGATTR);
    pmix_regattr_t *attr = function->value.data.darray->array;
    CHECK(function->value.data.darray->size == 2 && !strcmp(attr[0].name, "PMIX_TIMEOUT"));
    CHECK(!strcmp(attr[0].string, PMIX_TIMEOUT) && attr[0].type == PMIX_INT && !strcmp(attr[1].name, "SITE_HINT"));
    PMIX_INFO_FREE(result, 1);
    PMIX_INFO_DESTRUCT(&level);
    result = query(PMIX_QUERY_ATTRIBUTE_SUPPORT, attribute(&level, PMIX_TOOL_FUNCTIONS, NULL, PMIX_BOOL));
    CHECK(result->value.type == PMIX_STRING && strstr(result->value.data.string, "PMIx_tool_init"));
    PMIX_INFO_FREE(result, 1);
    PMIX_INFO_DESTRUCT(&level);
    return PMIx_tool_finalize();
}

static int killed(pid_t server) {
    attach(server);
    return raise(SIGKILL);
}

/* The servers. */

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)cbfunc, (void)cbdata;
    CHECK(object == NULL);
    set(&finalized);
    return PMIX_OPERATION_SUCCEEDED;
}

/* Names the tools of some, and leaves others with the name they have. */
static void on_tool(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t cbfunc, void *cbdata) {
    pmix_proc_t name, same;
    bool user = false;
    PMIx_Proc_load(&name, "", 0);
    PMIx_Proc_load(&same, "", 0);
    for (size_t i = 0; i < ninfo; i++) {
        user |= PMIx_Check_key(info[i].key, PMIX_USERID) && info[i].value.data.uint32 == geteuid();
        if (PMIx_Check_key(info[i].key, PMIX_NSPACE))
            PMIx_Load_nspace(name.nspace, info[i].value.data.string);
        if (PMIx_Check_key(info[i].key, PMIX_RANK))
            name.rank = info[i].value.data.rank;
        /* The same by the Standard's own keys. */
        if (PMIx_Check_key(info[i].key, PMIX_TOOL_NSPACE))
            PMIx_Load_nspace(same.nspace, info[i].value.data.string);
        if (PMIx_Check_key(info[i].key, PMIX_TOOL_RANK))
            same.rank = info[i].value.data.rank;
    }
    CHECK(user && !strcmp(name.nspace, same.nspace) && name.rank == same.rank);
    set(&connected);
    cbfunc(PMIX_SUCCESS, &name, cbdata);
}

static pmix_status_t on_pull(const pmix_proc_t procs[], size_t n, const pmix_info_t directives[], size_t ndirs,
                             pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)directives, (void)ndirs;
    CHECK(n == 1 && procs[0].rank == PMIX_RANK_WILDCARD && channels == PMIX_FWD_STDOUT_CHANNEL);
    cbfunc(PMIX_SUCCESS, cbdata);
    set(&pulled);
    return PMIX_SUCCESS;
}

static pmix_status_t on_push(const pmix_proc_t *source, const pmix_proc_t targets[], size_t n,
                             const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bytes,
                             pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)source, (void)targets, (void)n, (void)directives, (void)ndirs;
    if (bytes->size == 5) {
        cbfunc(PMIX_ERR_IOF_XOFF, cbdata);
        return PMIX_SUCCESS;
    }
    CHECK(bytes->size == 6 && logged == 1);
    set(&pushed);
    return PMIX_OPERATION_SUCCEEDED;
}

static void on_log(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                   size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)client, (void)data, (void)ndata, (void)directives, (void)ndirs;
    set(&logged);
    cbfunc(PMIX_SUCCESS, cbdata);
}

static void on_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata) {
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    CHECK(status == PMIX_ERR_LOST_CONNECTION);
    set(&lost);
    cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* The job's information as it goes to other servers: in a byte object, its name first. */
static void collect(void) {
    pmix_proc_t procs[3];
    pmix_data_buffer_t all, inner;
    pmix_byte_object_t object;
    char *name;
    int32_t one = 1;
    PMIx_Proc_load(&procs[0], job, PMIX_RANK_WILDCARD);
    PMIx_Proc_load(&procs[1], job, 2);
    PMIx_Proc_load(&procs[2], "unknown", 0);
    PMIX_DATA_BUFFER_CONSTRUCT(&all);
    PMIX_DATA_BUFFER_CONSTRUCT(&inner);
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_collect_job_info(NULL, 0, &all));
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_collect_job_info(procs, 1, NULL));
    IS(PMIX_ERR_NOT_FOUND, PMIx_server_collect_job_info(&procs[2], 1, &all));
    OK(PMIx_server_collect_job_info(procs, 3, &all));
    OK(PMIx_Data_unpack(NULL, &all, &object, &one, PMIX_BYTE_OBJECT));
    OK(PMIx_Data_load(&inner, &object));
    OK(PMIx_Data_unpack(NULL, &inner, &name, &one, PMIX_STRING));
    CHECK(!strcmp(name, job) && inner.bytes_used > strlen(job) + 8);
    free(name);
    IS(PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER, PMIx_Data_unpack(NULL, &all, &object, &one, PMIX_BYTE_OBJECT));
    PMIX_DATA_BUFFER_DESTRUCT(&inner);
    PMIX_DATA_BUFFER_DESTRUCT(&all);
}

static void serve(pmix_server_module_t *module, const pmix_nspace_t name) {
    pmix_info_t info[3];
    uint32_t size = 4;
    if (module->log)
        attribute(&info[0], PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    else
        attribute(&info[0], PMIX_LAUNCHER_RENDEZVOUS_FILE, rendezvous, PMIX_STRING);
    attribute(&info[1], PMIX_SERVER_NSPACE, module->log ? "first" : "second", PMIX_STRING);
    attribute(&info[2], PMIX_TCP_REPORT_URI, "-", PMIX_STRING);
    OK(PMIx_server_init(module, info, module->log ? 2 : 3));
    for (int i = 0; i < 3; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    attribute(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(name, 0, info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info[0]);
}

/* Says that it is there, and stays until its input ends. */
static int second(void) {
    static const pmix_nspace_t name = "second@1";
    pmix_server_module_t module = {0};
    char byte;
    serve(&module, name);
    CHECK(write(1, "x", 1) == 1 && read(0, &byte, 1) == 0);
    return PMIx_server_finalize();
}

static pid_t start(char *program, char *kind, int in, int out) {
    char server[16];
    snprintf(server, sizeof server, "%d", getpid());
    pid_t child = fork();
    if (child == 0) {
        dup2(in, 0);
        dup2(out, 1);
        execl(program, program, kind, server, NULL);
        _exit(127);
    }
    return child;
}

static int end_of(pid_t child) {
    int how;
    CHECK(waitpid(child, &how, 0) == child);
    return how;
}

static void ran(char *program, char *kind) {
    int how = end_of(start(program, kind, 0, 1));
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        fprintf(stderr, "the tool %s ends with %x\n", kind, how);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc > 2) {
        const char *kind = argv[1];
        pid_t server = atoi(argv[2]);
        snprintf(rendezvous, sizeof rendezvous, "tool-rendezvous-%d", server);
        if (!strcmp(kind, "second"))
            return second();
        if (!strcmp(kind, "between"))
            return between(server);
        return !strcmp(kind, "pid")       ? by_pid(server)
               : !strcmp(kind, "uri")     ? by_uri(server)
               : !strcmp(kind, "nowhere") ? nowhere()
               : !strcmp(kind, "output")  ? with_output(server)
                                          : killed(server);
    }
    pmix_server_module_t module = {.client_finalized = on_finalized, .tool_connected = on_tool, .iof_pull = on_pull,
                                   .push_stdin = on_push, .log = on_log};
    IS(PMIX_ERR_INIT, PMIx_server_collect_job_info(NULL, 0, NULL));
    IS(PMIX_ERR_INIT, PMIx_server_IOF_flow_control(NULL, PMIX_FWD_STDIN_CHANNEL, true, NULL, 0, NULL, NULL));
    char *supported[] = {"PMIX_TIMEOUT", "SITE_HINT", NULL};
    IS(PMIX_ERR_INIT, PMIx_Register_attributes("lookup", supported));
    serve(&module, job);
    snprintf(rendezvous, sizeof rendezvous, "tool-rendezvous-%d", getpid());
    OK(PMIx_Register_attributes("lookup", supported));
    IS(PMIX_ERR_REPEAT_ATTR_REGISTRATION, PMIx_Register_attributes("lookup", supported));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Register_attributes(NULL, supported));
    collect();
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    CHECK(PMIx_Register_event_handler(&code, 1, NULL, 0, on_lost, NULL, NULL) >= 0);

    ran(argv[0], "pid");
    CHECK(finalized == 2 && connected == 2);
    ran(argv[0], "uri");
    CHECK(finalized == 6 && connected == 6);
    ran(argv[0], "nowhere");

    int in[2], out[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    char word[200] = "";
    pid_t another = start(argv[0], "second", in[0], out[1]);
    /* Its address, which it was to say, and that it is there. */
    for (size_t n = 0; n < sizeof word - 1 && strchr(word, 'x') == NULL; n++)
        CHECK(read(out[0], word + n, 1) == 1);
    CHECK(!strncmp(word, "second.0;instanton:", 19) && strstr(word, "\nx"));
    ran(argv[0], "between");
    close(in[1]);
    close(in[0]);
    CHECK(end_of(another) == 0);
    CHECK(access(rendezvous, F_OK) != 0);

    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_server_IOF_flow_control(NULL, PMIX_FWD_STDOUT_CHANNEL, true, NULL, 0, NULL, NULL));
    pid_t talker = start(argv[0], "output", 0, 1);
    until(&pulled, 1);
    pmix_proc_t source;
    PMIx_Proc_load(&source, job, 2);
    pmix_byte_object_t hello = {"hello", 5};
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_IOF_deliver(&source, PMIX_FWD_STDERR_CHANNEL, &hello, NULL, 0, NULL, NULL));
    int delivered = 0;
    OK(PMIx_server_IOF_deliver(&source, PMIX_FWD_STDOUT_CHANNEL, &hello, NULL, 0, done, &delivered));
    until(&delivered, 1);
    until(&logged, 1);
    CHECK(pushed == 0);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_IOF_flow_control(NULL, PMIX_FWD_STDIN_CHANNEL, false, NULL, 0, NULL, NULL));
    CHECK(end_of(talker) == 0);
    CHECK(pushed == 1);

    int how = end_of(start(argv[0], "killed", 0, 1));
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    until(&lost, 1);
    OK(PMIx_server_finalize());
    return 0;
}
