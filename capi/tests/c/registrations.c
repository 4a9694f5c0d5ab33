/* Registrations of known hosts for a job, host by host, and what their servers and their processes find of them: one answer, of the
 * same type, and what follows from it. The jobs have four ranks on two nodes, and this is the server of the first. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

enum level { JOB, PROC, APP, NODE, SESSION };
static const char *const array_of[] = {NULL, PMIX_PROC_DATA, PMIX_APP_INFO_ARRAY, PMIX_NODE_INFO_ARRAY, PMIX_SESSION_INFO_ARRAY};
static const char *const asks_for[] = {NULL, NULL, PMIX_APP_INFO, PMIX_NODE_INFO, PMIX_SESSION_INFO};
static const char *const told_by[] = {NULL, PMIX_RANK, PMIX_APPNUM, PMIX_NODEID, PMIX_SESSION_ID};

#define TEXT(text) text, PMIX_STRING
#define REGEX(text) text, PMIX_REGEX
#define REGEX2(text) (pmix_regex2_t[]){{"pmix", (uint8_t *)text, sizeof text - 1}}, PMIX_REGEX2
#define U16(n) (uint16_t[]){n}, PMIX_UINT16
#define U32(n) (uint32_t[]){n}, PMIX_UINT32
#define INT(n) (int[]){n}, PMIX_INT
#define U64(n) (uint64_t[]){n}, PMIX_UINT64
#define RANK(n) (pmix_rank_t[]){n}, PMIX_PROC_RANK
#define BOOL(b) (bool[]){b}, PMIX_BOOL

/* True if the host says it; otherwise it follows. */
enum whose { SAID, FOLLOWS };

static const struct line {
    const char *host;
    enum whose whose;
    enum level level;
    uint32_t index;
    const char *key;
    const void *value;
    pmix_data_type_t type;
} lines[] = {
    {"slurm", SAID, JOB, 0, PMIX_SPAWNED, BOOL(false)},
    {"slurm", SAID, JOB, 0, PMIX_TMPDIR, TEXT("/tmp/step")},
    {"slurm", SAID, JOB, 0, PMIX_NSDIR, TEXT("/tmp/step/job")},
    {"slurm", SAID, JOB, 0, PMIX_TDIR_RMCLEAN, BOOL(true)},
    {"slurm", SAID, JOB, 0, PMIX_JOBID, TEXT("slurm.pmix.7.0")},
    {"slurm", SAID, JOB, 0, PMIX_APPLDR, RANK(0)},
    {"slurm", SAID, JOB, 0, PMIX_APP_ARGV, TEXT("program")},
    {"slurm", SAID, JOB, 0, PMIX_APP_MAP_TYPE, TEXT("ranked")},
    {"slurm", SAID, JOB, 0, PMIX_UNIV_SIZE, U32(8)},
    {"slurm", SAID, JOB, 0, PMIX_JOB_SIZE, U32(4)},
    {"slurm", SAID, JOB, 0, PMIX_LOCAL_SIZE, U32(2)},
    {"slurm", SAID, JOB, 0, PMIX_NODE_SIZE, U32(2)},
    {"slurm", SAID, JOB, 0, PMIX_APP_SIZE, U32(4)},
    {"slurm", SAID, JOB, 0, PMIX_MAX_PROCS, U32(4)},
    {"slurm", SAID, JOB, 0, PMIX_USERID, U32(1000)},
    {"slurm", SAID, JOB, 0, PMIX_NODE_MAP, REGEX("node0,node1")},
    {"slurm", SAID, JOB, 0, PMIX_PROC_MAP, REGEX("0,1;2,3")},
    {"slurm", SAID, JOB, 0, PMIX_ANL_MAP, TEXT("(vector,(0,2,2))")},
    {"slurm", SAID, JOB, 0, PMIX_LOCAL_PEERS, TEXT("0,1")},
    {"slurm", SAID, JOB, 0, PMIX_LOCALLDR, U32(0)},
    {"slurm", SAID, PROC, 0, PMIX_RANK, RANK(0)},
    {"slurm", SAID, PROC, 0, PMIX_APPNUM, INT(0)},
    {"slurm", SAID, PROC, 0, PMIX_GLOBAL_RANK, U32(0)},
    {"slurm", SAID, PROC, 0, PMIX_LOCAL_RANK, U16(0)},
    {"slurm", SAID, PROC, 0, PMIX_APP_RANK, U32(0)},
    {"slurm", SAID, PROC, 0, PMIX_NODE_RANK, U16(0)},
    {"slurm", SAID, PROC, 0, PMIX_HOSTNAME, TEXT("node0")},
    {"slurm", SAID, PROC, 0, PMIX_NODEID, U32(0)},
    {"slurm", SAID, PROC, 3, PMIX_RANK, RANK(3)},
    {"slurm", SAID, PROC, 3, PMIX_APPNUM, INT(0)},
    {"slurm", SAID, PROC, 3, PMIX_GLOBAL_RANK, U32(3)},
    {"slurm", SAID, PROC, 3, PMIX_LOCAL_RANK, U16(1)},
    {"slurm", SAID, PROC, 3, PMIX_APP_RANK, U32(3)},
    {"slurm", SAID, PROC, 3, PMIX_NODE_RANK, U16(1)},
    {"slurm", SAID, PROC, 3, PMIX_HOSTNAME, TEXT("node1")},
    {"slurm", SAID, PROC, 3, PMIX_NODEID, U32(1)},
    {"slurm", FOLLOWS, JOB, 0, PMIX_NUM_NODES, U32(2)},
    {"slurm", FOLLOWS, JOB, 0, PMIX_NODE_LIST, TEXT("node0,node1")},
    {"slurm", FOLLOWS, PROC, 2, PMIX_HOSTNAME, TEXT("node1")},
    {"slurm", FOLLOWS, PROC, 2, PMIX_LOCAL_RANK, U16(0)},

    {"flux", SAID, JOB, 0, PMIX_JOBID, TEXT("ƒabc")},
    {"flux", SAID, JOB, 0, PMIX_LOCAL_PEERS, TEXT("0,1")},
    {"flux", SAID, JOB, 0, PMIX_NODE_MAP, TEXT("node0,node1")},
    {"flux", SAID, JOB, 0, PMIX_PROC_MAP, TEXT("0,1;2,3")},
    {"flux", SAID, JOB, 0, PMIX_TDIR_RMCLEAN, BOOL(true)},
    {"flux", SAID, JOB, 0, PMIX_JOB_NUM_APPS, U32(1)},
    {"flux", SAID, JOB, 0, PMIX_TMPDIR, TEXT("/tmp/flux")},
    {"flux", SAID, JOB, 0, PMIX_LOCAL_SIZE, U32(2)},
    {"flux", SAID, JOB, 0, PMIX_UNIV_SIZE, U32(4)},
    {"flux", SAID, JOB, 0, PMIX_JOB_SIZE, U32(4)},
    {"flux", SAID, JOB, 0, PMIX_APPNUM, U32(0)},
    {"flux", SAID, PROC, 1, PMIX_RANK, RANK(1)},
    {"flux", SAID, PROC, 1, PMIX_NODEID, U32(0)},
    {"flux", SAID, PROC, 1, PMIX_LOCAL_RANK, U16(1)},
    {"flux", SAID, PROC, 1, PMIX_NODE_RANK, U16(1)},
    {"flux", FOLLOWS, PROC, 1, PMIX_APPNUM, U32(0)},
    {"flux", FOLLOWS, PROC, 3, PMIX_NODEID, U32(1)},
    {"flux", FOLLOWS, PROC, 3, PMIX_LOCAL_RANK, U16(1)},
    {"flux", FOLLOWS, JOB, 0, PMIX_MAX_PROCS, U32(4)},

    {"orte", SAID, JOB, 0, PMIX_JOBID, TEXT("4711")},
    {"orte", SAID, JOB, 0, PMIX_NODE_MAP, REGEX("node0,node1")},
    {"orte", SAID, JOB, 0, PMIX_PROC_MAP, REGEX("0,1;2,3")},
    {"orte", SAID, JOB, 0, PMIX_NPROC_OFFSET, RANK(0)},
    {"orte", SAID, JOB, 0, PMIX_NODE_SIZE, U32(2)},
    {"orte", SAID, JOB, 0, PMIX_NUM_NODES, U32(2)},
    {"orte", SAID, JOB, 0, PMIX_UNIV_SIZE, U32(4)},
    {"orte", SAID, JOB, 0, PMIX_JOB_SIZE, U32(4)},
    {"orte", SAID, JOB, 0, PMIX_JOB_NUM_APPS, U32(1)},
    {"orte", SAID, JOB, 0, PMIX_LOCAL_SIZE, U32(2)},
    {"orte", SAID, JOB, 0, PMIX_LOCALLDR, RANK(0)},
    {"orte", SAID, JOB, 0, PMIX_LOCAL_PEERS, TEXT("0,1")},
    {"orte", SAID, JOB, 0, PMIX_LOCAL_CPUSETS, TEXT("0-1:2-3")},
    {"orte", SAID, JOB, 0, PMIX_MAX_PROCS, U32(4)},
    {"orte", SAID, JOB, 0, PMIX_MAPBY, TEXT("BYCORE")},
    {"orte", SAID, JOB, 0, PMIX_RANKBY, TEXT("CORE")},
    {"orte", SAID, JOB, 0, PMIX_BINDTO, TEXT("CORE")},
    {"orte", SAID, JOB, 0, PMIX_AVAIL_PHYS_MEMORY, U64(1ull << 34)},
    {"orte", SAID, PROC, 0, PMIX_RANK, RANK(0)},
    {"orte", SAID, PROC, 0, PMIX_LOCALITY_STRING, TEXT("NM0:SK0:L30:L20:L10:CR0:HT0")},
    {"orte", SAID, PROC, 0, PMIX_APPLDR, RANK(0)},
    {"orte", SAID, PROC, 0, PMIX_APPNUM, U32(0)},
    {"orte", SAID, PROC, 0, PMIX_APP_RANK, RANK(0)},
    {"orte", SAID, PROC, 0, PMIX_GLOBAL_RANK, RANK(0)},
    {"orte", SAID, PROC, 0, PMIX_APP_SIZE, U32(4)},
    {"orte", SAID, PROC, 0, PMIX_LOCAL_RANK, U16(0)},
    {"orte", SAID, PROC, 0, PMIX_NODE_RANK, U16(0)},
    {"orte", SAID, PROC, 0, PMIX_NODEID, U32(0)},
    {"orte", SAID, PROC, 0, PMIX_HOSTNAME, TEXT("node0")},
    {"orte", SAID, PROC, 2, PMIX_RANK, RANK(2)},
    {"orte", SAID, PROC, 2, PMIX_NODEID, U32(1)},
    {"orte", SAID, PROC, 2, PMIX_HOSTNAME, TEXT("node1")},
    {"orte", FOLLOWS, PROC, 2, PMIX_LOCAL_RANK, U16(0)},

    {"prrte", SAID, JOB, 0, PMIX_JOBID, TEXT("prterun-here-4711@1")},
    {"prrte", SAID, JOB, 0, PMIX_NODE_MAP, REGEX("node0,node1")},
    {"prrte", SAID, JOB, 0, PMIX_PROC_MAP, REGEX("0,1;2,3")},
    {"prrte", SAID, JOB, 0, PMIX_JOB_SIZE, U32(4)},
    {"prrte", SAID, JOB, 0, PMIX_MAX_PROCS, U32(4)},
    {"prrte", SAID, JOB, 0, PMIX_JOB_NUM_APPS, U32(2)},
    {"prrte", SAID, JOB, 0, PMIX_LOCAL_SIZE, U32(2)},
    {"prrte", SAID, JOB, 0, PMIX_LOCAL_PEERS, TEXT("0,1")},
    {"prrte", SAID, JOB, 0, PMIX_HWLOC_XML_V2, TEXT("<topology/>")},
    {"prrte", SAID, JOB, 0, PMIX_SERVER_NSPACE, TEXT("prterun-here-4711@0")},
    {"prrte", SAID, JOB, 0, PMIX_SERVER_RANK, RANK(0)},
    {"prrte", SAID, SESSION, 7, PMIX_SESSION_ID, U32(7)},
    {"prrte", SAID, SESSION, 7, PMIX_UNIV_SIZE, U32(16)},
    {"prrte", SAID, SESSION, 7, PMIX_NUM_NODES, U32(3)},
    {"prrte", SAID, APP, 0, PMIX_APPNUM, U32(0)},
    {"prrte", SAID, APP, 0, PMIX_APP_SIZE, U32(3)},
    {"prrte", SAID, APP, 0, PMIX_APPLDR, RANK(0)},
    {"prrte", SAID, APP, 0, PMIX_WDIR, TEXT("/home/user")},
    {"prrte", SAID, APP, 0, PMIX_PSET_NAME, TEXT("ocean")},
    {"prrte", SAID, APP, 1, PMIX_APPNUM, U32(1)},
    {"prrte", SAID, APP, 1, PMIX_APP_SIZE, U32(1)},
    {"prrte", SAID, APP, 1, PMIX_APPLDR, RANK(3)},
    {"prrte", SAID, NODE, 0, PMIX_NODEID, U32(0)},
    {"prrte", SAID, NODE, 0, PMIX_HOSTNAME, TEXT("node0")},
    {"prrte", SAID, NODE, 0, PMIX_NUM_SLOTS, U32(8)},
    {"prrte", SAID, NODE, 0, PMIX_NODE_SIZE, U32(2)},
    {"prrte", SAID, NODE, 1, PMIX_NODEID, U32(1)},
    {"prrte", SAID, NODE, 1, PMIX_HOSTNAME, TEXT("node1")},
    {"prrte", SAID, NODE, 1, PMIX_NUM_SLOTS, U32(4)},
    {"prrte", SAID, PROC, 1, PMIX_RANK, RANK(1)},
    {"prrte", SAID, PROC, 1, PMIX_CPUSET, TEXT("2-3")},
    {"prrte", SAID, PROC, 1, PMIX_LOCALITY_STRING, TEXT("NM0:SK0:L30:L21:L11:CR1:HT1")},
    {"prrte", SAID, PROC, 1, PMIX_APPNUM, U32(0)},
    {"prrte", SAID, PROC, 1, PMIX_LOCAL_RANK, U16(1)},
    {"prrte", SAID, PROC, 1, PMIX_NODE_RANK, U16(1)},
    {"prrte", SAID, PROC, 1, PMIX_REINCARNATION, U32(0)},
    {"prrte", SAID, PROC, 3, PMIX_RANK, RANK(3)},
    {"prrte", SAID, PROC, 3, PMIX_APPNUM, U32(1)},
    {"prrte", FOLLOWS, PROC, 3, PMIX_HOSTNAME, TEXT("node1")},
    {"prrte", FOLLOWS, NODE, 1, PMIX_LOCAL_PEERS, TEXT("2,3")},
    {"prrte", FOLLOWS, NODE, 1, PMIX_LOCAL_SIZE, U32(2)},
    {"prrte", FOLLOWS, PROC, 3, PMIX_APP_RANK, RANK(0)},

    {"prrte5", SAID, JOB, 0, PMIX_NODE_MAP, REGEX2("pmix[node[1:0-1]]")},
    {"prrte5", SAID, JOB, 0, PMIX_PROC_MAP, REGEX2("pmix[0-1;2-3]")},
    {"prrte5", SAID, JOB, 0, PMIX_JOB_SIZE, U32(4)},
    {"prrte5", FOLLOWS, PROC, 3, PMIX_HOSTNAME, TEXT("node1")},
    {"prrte5", FOLLOWS, NODE, 1, PMIX_LOCAL_PEERS, TEXT("2,3")},
};
enum { LINES = sizeof lines / sizeof *lines };

/* Returns whether a line begins another array than the one before. */
static bool begins(const struct line *line) {
    return line == lines || line->host != line[-1].host || line->level != line[-1].level || line->index != line[-1].index;
}

static void add(void *list, const struct line *line) {
    OK(PMIx_Info_list_add(list, line->key, line->value, line->type));
}

/* The job of a host, as it says it. */
static void register_job(const pmix_nspace_t job, const struct line *first) {
    void *all = PMIx_Info_list_start();
    for (const struct line *line = first; line < lines + LINES && line->host == first->host && line->whose == SAID;) {
        if (line->level == JOB) {
            add(all, line++);
            continue;
        }
        void *some = PMIx_Info_list_start();
        pmix_data_array_t array;
        const char *name = array_of[line->level];
        do
            add(some, line++);
        while (line < lines + LINES && line->whose == SAID && !begins(line));
        OK(PMIx_Info_list_convert(some, &array));
        OK(PMIx_Info_list_add(all, name, &array, PMIX_DATA_ARRAY));
        PMIx_Data_array_destruct(&array);
        PMIx_Info_list_release(some);
    }
    pmix_data_array_t array;
    OK(PMIx_Info_list_convert(all, &array));
    PMIx_Info_list_release(all);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job, 2, array.array, array.size, NULL, NULL));
    PMIx_Data_array_destruct(&array);
}

/* Finds everything of a host's job, or ends the program. */
static void look(const pmix_nspace_t job, const char *who, const struct line *first) {
    for (const struct line *line = first; line < lines + LINES && line->host == first->host; line++) {
        bool is_map = !strcmp(line->key, PMIX_NODE_MAP) || !strcmp(line->key, PMIX_PROC_MAP);
        pmix_proc_t proc;
        pmix_info_t how[2];
        size_t nhow = 0;
        pmix_value_t *value = NULL, expected;
        PMIx_Load_procid(&proc, job, line->level == PROC ? line->index : PMIX_RANK_WILDCARD);
        if (asks_for[line->level]) {
            OK(PMIx_Info_load(&how[nhow++], asks_for[line->level], NULL, PMIX_BOOL));
            OK(PMIx_Info_load(&how[nhow++], told_by[line->level], &line->index, PMIX_UINT32));
        }
        pmix_status_t status = PMIx_Get(&proc, line->key, how, nhow, &value);
        PMIx_Value_construct(&expected);
        OK(PMIx_Value_load(&expected, line->value, line->type));
        if (status != PMIX_SUCCESS ||
            (!is_map && (value->type != line->type || PMIx_Value_compare(value, &expected) != PMIX_EQUAL))) {
            char *text = value ? PMIx_Value_string(value) : NULL;
            fprintf(stderr, "%s of %s: %s of %u at level %d: %s, %s\n", who, line->host, line->key, line->index, line->level,
                    PMIx_Error_string(status), text ? text : "");
            exit(1);
        }
        PMIx_Value_destruct(&expected);
        PMIx_Value_free(value, 1);
    }
}

static void start(char *program, const pmix_nspace_t job, const char *host) {
    extern char **environ;
    pmix_proc_t proc;
    PMIx_Load_procid(&proc, job, 1);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    char **env = PMIx_Argv_copy(environ);
    OK(PMIx_server_setup_fork(&proc, &env));
    pid_t child = fork();
    if (child == 0) {
        execle(program, program, host, NULL, env);
        _exit(127);
    }
    PMIx_Argv_free(env);
    int how;
    CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

int main(int argc, char **argv) {
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    pmix_info_t info[2];
    pmix_proc_t me;
    pmix_value_t *value;
    if (argc == 2) {
        OK(PMIx_Init(&me, NULL, 0));
        for (const struct line *line = lines; line < lines + LINES; line++)
            if (!strcmp(line->host, argv[1])) {
                look(me.nspace, "a rank", line);
                break;
            }
        OK(PMIx_Finalize(NULL, 0));
        return 0;
    }
    OK(PMIx_Info_load(&info[0], PMIX_HOSTNAME, "node0", PMIX_STRING));
    OK(PMIx_server_init(NULL, info, 1));
    PMIx_Info_destruct(&info[0]);
    for (const struct line *line = lines; line < lines + LINES; line++) {
        if (line > lines && line->host == line[-1].host)
            continue;
        pmix_nspace_t job = {0};
        snprintf(job, sizeof job, "%s-job@1", line->host);
        register_job(job, line);
        look(job, "the server", line);
        start(argv[0], job, line->host);
    }
    /* A list need not show whether it is one of ranks or of names. */
    pmix_regex2_t regex;
    char *list;
    OK(PMIx_generate_regex2("0,1", NULL, 0, &regex));
    CHECK(regex.len == 3 && !memcmp(regex.bytes, "0,1", 3));
    OK(PMIx_parse_regex2(&regex, NULL, 0, &list));
    CHECK(!strcmp(list, "0,1"));
    free(list);
    PMIx_Regex2_destruct(&regex);
    /* ORTE tells of its own processes, and of nothing about them. */
    const char *unknown[] = {PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_UNIV_SIZE, PMIX_MAX_PROCS, PMIX_NUM_NODES, PMIX_NODE_LIST,
                             PMIX_LOCAL_PEERS};
    OK(PMIx_Info_load(&info[0], PMIX_REGISTER_NODATA, NULL, PMIX_BOOL));
    OK(PMIx_Info_load(&info[1], PMIX_UNIV_SIZE, (uint32_t[]){7}, PMIX_UINT32));
    PMIx_Load_procid(&me, "daemons@0", PMIX_RANK_WILDCARD);
    for (int local = 0; local < 2; local++) {
        IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(me.nspace, local, info, 2, NULL, NULL));
        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
            IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&me, unknown[i], NULL, 0, &value));
    }
    OK(PMIx_server_finalize());
    return 0;
}
