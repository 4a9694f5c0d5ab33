/* Much coming and going. The program's holdings stay what they were after a short time: its descriptors, its mappings
 * of shared memory, and what it has from malloc. The allocator must keep nothing for its threads, or that counts as
 * held (GLIBC_TUNABLES=glibc.malloc.tcache_count=0).
 *   churn namespaces COUNT   a server whose namespaces come and go
 *   churn servers COUNT      a program whose server comes and goes, with a question that the host never answers
 *   churn fences COUNT       a server, and two ranks that commit and meet  */
#include "check.h"
#include "wait.h"
#include <dirent.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 2
#define LOOKS 20
/* Looks before what is held has to stay. */
#define WARM_UP 4
/* Replaced objects are freed by bags of 64, when no thread can be reading it any more: one of them more or less waits at each
 * look. In 100,000 rounds this finds a sixth of a byte a round. */
#define SLACK (16 << 10)

static int done_calls;

static void done(pmix_status_t status, void *what) {
    OK(status);
    set(what);
}

static int descriptors(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int shared_mappings(void) {
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        n += strstr(line, "memfd:") != NULL;
    fclose(maps);
    return n;
}

/* After `n` of `all` rounds. */
static void look(const char *who, int n, int all) {
    static size_t most;
    static int looks, files, mappings;
    if (n % (all / LOOKS) != 0)
        return;
    int files_now = descriptors(), mappings_now = shared_mappings();
    struct mallinfo2 heap = mallinfo2();
    size_t held = heap.uordblks + heap.hblkhd;
    printf("%s after %d: %zu bytes of malloc, %d descriptors, %d mappings of shared memory\n", who, n, held, files_now,
           mappings_now);
    fflush(stdout);
    if (++looks <= WARM_UP) {
        most = held > most ? held : most;
        files = files_now;
        mappings = mappings_now;
        return;
    }
    CHECK(held <= most + SLACK);
    CHECK(files_now == files && mappings_now == mappings);
}

static void register_job(const pmix_nspace_t job) {
    char host[256];
    uint32_t size = RANKS;
    pmix_info_t info[4];
    CHECK(!gethostname(host, sizeof host));
    OK(PMIx_Info_load(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32));
    OK(PMIx_Info_load(&info[1], PMIX_NODE_MAP, host, PMIX_STRING));
    OK(PMIx_Info_load(&info[2], PMIX_PROC_MAP, "0,1", PMIX_STRING));
    OK(PMIx_Info_load(&info[3], PMIX_LOCAL_PEERS, "0,1", PMIX_STRING));
    done_calls = 0;
    OK(PMIx_server_register_nspace(job, RANKS, info, 4, done, &done_calls));
    until(&done_calls, 1);
    for (int i = 0; i < 4; i++)
        PMIx_Info_destruct(&info[i]);
    for (int i = 0; i < RANKS; i++) {
        pmix_proc_t proc;
        PMIx_Proc_load(&proc, job, i);
        IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, NULL, NULL));
    }
}

static void deregister_job(const pmix_nspace_t job) {
    done_calls = 0;
    PMIx_server_deregister_nspace(job, done, &done_calls);
    until(&done_calls, 1);
}

static int namespaces(int count) {
    OK(PMIx_server_init(NULL, NULL, 0));
    for (int n = 1; n <= count; n++) {
        pmix_nspace_t job = {0};
        snprintf(job, sizeof job, "brief@%d", n);
        register_job(job);
        deregister_job(job);
        look("a server of namespaces", n, count);
    }
    OK(PMIx_server_finalize());
    return 0;
}

static pmix_status_t never_answers(pmix_proc_t *proc, pmix_query_t *queries, size_t n, pmix_info_cbfunc_t cbfunc, void *cbdata) {
    (void)proc, (void)queries, (void)n, (void)cbfunc, (void)cbdata;
    return PMIX_SUCCESS;
}

static void not_answered(pmix_status_t status, pmix_info_t *info, size_t n, void *what, pmix_release_cbfunc_t release,
                         void *release_data) {
    CHECK(status != PMIX_SUCCESS && info == NULL && n == 0);
    if (release)
        release(release_data);
    set(what);
}

static int servers(int count) {
    static const pmix_nspace_t job = "left@1";
    char *keys[] = {"site.key", NULL};
    pmix_query_t query = {.keys = keys};
    pmix_server_module_t module = {.query = never_answers};
    for (int n = 1; n <= count; n++) {
        int ended = 0;
        OK(PMIx_server_init(&module, NULL, 0));
        register_job(job);
        OK(PMIx_Query_info_nb(&query, 1, not_answered, &ended));
        OK(PMIx_server_finalize());
        until(&ended, 1);
        look("a program of servers", n, count);
    }
    return 0;
}

static int rank(int count) {
    pmix_proc_t me, peer;
    pmix_info_t collect;
    static char bytes[100];
    OK(PMIx_Init(&me, NULL, 0));
    OK(PMIx_Info_load(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL));
    PMIx_Proc_load(&peer, me.nspace, 1 - me.rank);
    for (int n = 1; n <= count; n++) {
        pmix_value_t *found, value = {.type = PMIX_BYTE_OBJECT, .data.bo = {bytes, n % sizeof bytes}};
        memset(bytes, n, sizeof bytes);
        OK(PMIx_Put(PMIX_GLOBAL, "endpoint", &value));
        OK(PMIx_Commit());
        OK(PMIx_Fence(NULL, 0, &collect, 1));
        OK(PMIx_Get(&peer, "endpoint", NULL, 0, &found));
        CHECK(found->data.bo.size == value.data.bo.size && !memcmp(found->data.bo.bytes, bytes, value.data.bo.size));
        PMIx_Value_free(found, 1);
        OK(PMIx_Fence(NULL, 0, NULL, 0));
        look(me.rank ? "rank 1" : "rank 0", n, count);
    }
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

static int fences(char **argv) {
    static const pmix_nspace_t job = "meeting@1";
    extern char **environ;
    pid_t pids[RANKS];
    OK(PMIx_server_init(NULL, NULL, 0));
    register_job(job);
    for (int i = 0; i < RANKS; i++) {
        pmix_proc_t proc;
        PMIx_Proc_load(&proc, job, i);
        char **env = NULL;
        for (char **setting = environ; *setting; setting++)
            OK(PMIx_Argv_append_nosize(&env, *setting));
        OK(PMIx_server_setup_fork(&proc, &env));
        pids[i] = fork();
        if (pids[i] == 0) {
            execve(argv[0], argv, env);
            _exit(127);
        }
        PMIx_Argv_free(env);
    }
    for (int i = 0; i < RANKS; i++) {
        int how;
        CHECK(waitpid(pids[i], &how, 0) == pids[i] && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    deregister_job(job);
    OK(PMIx_server_finalize());
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int count = atoi(argv[2]);
    CHECK(count >= LOOKS);
    /* A program that hangs is killed: a round takes a fraction of a millisecond. */
    alarm(1000 + count / 50);
    if (getenv("PMIX_RANK"))
        return rank(count);
    if (!strcmp(argv[1], "namespaces"))
        return namespaces(count);
    return !strcmp(argv[1], "servers") ? servers(count) : fences(argv);
}
