/* Tools and their servers. The program is a server that accepts tools, and starts itself again as each kind of tool; the tools find it
 * by its process, by its name, by its address, as the system's server, and not at all. */
#include "check.h"
#include "wait.h"
#include <pmix_tool.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "job@1";
static int finalized, lost, asked;

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

/* Asks for the namespaces, which the server answers itself. */
static void query(void) {
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t n = 0;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(*(int[]){0}, query.keys, PMIX_QUERY_NAMESPACES);
    OK(PMIx_Query_info(&query, 1, &results, &n));
    CHECK(n == 1 && results[0].value.type == PMIX_STRING && !strcmp(results[0].value.data.string, job));
    PMIX_INFO_FREE(results, n);
    PMIX_QUERY_DESTRUCT(&query);
}

static int by_pid(pid_t server) {
    pmix_proc_t me, again;
    pmix_info_t info;
    CHECK(!PMIx_tool_is_connected());
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &server, PMIX_PID);
    OK(PMIx_tool_init(&me, &info, 1));
    CHECK(PMIx_tool_is_connected() && me.rank == 0 && me.nspace[0] != '\0');
    query();
    CHECK(job_size() == 4);
    OK(PMIx_tool_init(&again, NULL, 0));
    CHECK(PMIx_Check_procid(&me, &again));
    OK(PMIx_tool_finalize());
    CHECK(PMIx_tool_is_connected());
    OK(PMIx_tool_finalize());
    CHECK(!PMIx_tool_is_connected());
    IS(PMIX_ERR_INIT, PMIx_tool_finalize());
    PMIX_INFO_DESTRUCT(&info);
    return 0;
}

/* The server. */

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)cbfunc, (void)cbdata;
    CHECK(object == NULL);
    set(&finalized);
    return PMIX_OPERATION_SUCCEEDED;
}

static int run(char *program, char *kind) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", getpid());
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, kind, pid, NULL);
        _exit(127);
    }
    int how;
    CHECK(waitpid(child, &how, 0) == child);
    return how;
}

static void ran(char *program, char *kind) {
    int how = run(program, kind);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        fprintf(stderr, "the tool %s ends with %x\n", kind, how);
        exit(1);
    }
}

int main(int argc, char **argv) {
    (void)lost, (void)asked;
    if (argc > 2) {
        pid_t server = atoi(argv[2]);
        return by_pid(server);
    }
    pmix_server_module_t module = {.client_finalized = on_finalized};
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    OK(PMIx_server_init(&module, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    uint32_t size = 4;
    PMIX_INFO_LOAD(&info, PMIX_JOB_SIZE, &size, PMIX_UINT32);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job, 0, &info, 1, NULL, NULL));
    ran(argv[0], "pid");
    until(&finalized, 1);
    OK(PMIx_server_finalize());
    return 0;
}
