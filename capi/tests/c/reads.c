/* Values that come back from a Get: in fresh memory, in the caller's place, to be looked at only, and to a server's own
 * program. The program is its own host and starts itself again as the one rank. Built with COUNT, it counts what a Get
 * allocates. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const pmix_nspace_t job = "reads@1";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void done(pmix_status_t status, void *what) {
    OK(status);
    pthread_mutex_lock(&lock);
    ++*(int *)what;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void until(int *what) {
    pthread_mutex_lock(&lock);
    while (!*what)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

#ifdef COUNT
/* Everything in the process allocates here, the library included. */
static __thread size_t calls, bytes;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
static size_t counted(size_t size) {
    ++calls;
    bytes += size;
    return size;
}
void *malloc(size_t size) { return __libc_malloc(counted(size)); }
void *calloc(size_t n, size_t size) { return __libc_calloc(n, counted(n * size) / n); }
void *realloc(void *old, size_t size) { return __libc_realloc(old, counted(size)); }
int posix_memalign(void **place, size_t align, size_t size) {
    *place = __libc_memalign(align, counted(size));
    return *place ? 0 : 12;
}
void *aligned_alloc(size_t align, size_t size) { return __libc_memalign(align, counted(size)); }
#define COSTS(ncalls, nbytes, call)                                                                  \
    do {                                                                                             \
        calls = bytes = 0;                                                                           \
        OK(call);                                                                                    \
        if (calls != (ncalls) || bytes != (nbytes)) {                                                \
            fprintf(stderr, "%s:%d: %s: %zu allocations of %zu bytes\n", __FILE__, __LINE__, #call,  \
                    calls, bytes);                                                                   \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)
#else
#define COSTS(ncalls, nbytes, call) OK(call)
#endif

static pmix_proc_t me, everybody;
static pmix_info_t is_static, is_pointer, optional, immediate;

static pmix_status_t get(const pmix_proc_t *proc, const char *key, const pmix_info_t *how, pmix_value_t **value) {
    return PMIx_Get(proc, key, how, how ? 1 : 0, value);
}

static pmix_status_t missing(const char *key, const pmix_info_t *how) {
    pmix_value_t *value;
    pmix_status_t status = get(&everybody, key, how, &value);
    return status == PMIX_ERR_NOT_FOUND ? PMIX_SUCCESS : PMIX_ERROR;
}

/* One exact allocation for the value, and one for what it holds beside it. */
static void fresh(void) {
    pmix_value_t *value;
    COSTS(1, sizeof *value, get(&everybody, "pmix.job.size", NULL, &value));
    CHECK(value->type == PMIX_UINT32 && value->data.uint32 == 1);
    PMIx_Value_free(value, 1);
    COSTS(1, sizeof *value, get(&me, "pmix.lrank", NULL, &value));
    CHECK(value->type == PMIX_UINT16 && value->data.uint16 == 0);
    PMIx_Value_free(value, 1);
    COSTS(2, sizeof *value + 6, get(&everybody, "site.text", NULL, &value));
    CHECK(value->type == PMIX_STRING && !strcmp(value->data.string, "hello"));
    PMIx_Value_free(value, 1);
    COSTS(1, sizeof *value, get(&everybody, "site.null", NULL, &value));
    CHECK(value->type == PMIX_STRING && value->data.string == NULL);
    PMIx_Value_free(value, 1);
    COSTS(2, sizeof *value + 100, get(&everybody, "site.blob", NULL, &value));
    CHECK(value->type == PMIX_BYTE_OBJECT && value->data.bo.size == 100 && value->data.bo.bytes[99] == 'b');
    PMIx_Value_free(value, 1);
    COSTS(0, 0, missing("no.such", &optional));
    COSTS(0, 0, missing("no.such", &immediate));
    COSTS(0, 0, missing("pmix.no.such", NULL));
}

/* The caller brings the room for the value. */
static void in_place(void) {
    pmix_value_t room, *place = &room;
    memset(&room, 0xee, sizeof room);
    COSTS(0, 0, get(&everybody, "pmix.job.size", &is_static, &place));
    CHECK(place == &room && room.type == PMIX_UINT32 && room.data.uint32 == 1);
    COSTS(1, 6, get(&everybody, "site.text", &is_static, &place));
    CHECK(place == &room && room.type == PMIX_STRING && !strcmp(room.data.string, "hello"));
    IS(PMIX_ERR_NOT_FOUND, get(&everybody, "pmix.no.such", &is_static, &place));
    CHECK(room.type == PMIX_STRING && !strcmp(room.data.string, "hello"));
    PMIx_Value_destruct(&room);
    OK(get(&everybody, "site.array", &is_static, &place));
    CHECK(room.type == PMIX_DATA_ARRAY && room.data.darray->size == 2);
    CHECK(!strcmp(((char **)room.data.darray->array)[1], "two"));
    PMIx_Value_destruct(&room);
    place = NULL;
    IS(PMIX_ERR_BAD_PARAM, get(&everybody, "pmix.job.size", &is_static, &place));
}

/* A value that is only looked at stays the library's, and as it was seen, until the last Finalize. */
static void looked_at(void) {
    static const char *keys[] = {"pmix.job.size", "site.text", "site.null", "site.blob", "site.array", "mine"};
    enum { N = sizeof keys / sizeof *keys };
    pmix_value_t *seen[N], *again;
    pmix_value_t mine = {.type = PMIX_STRING, .data.string = "first"};
    OK(PMIx_Put(PMIX_GLOBAL, "mine", &mine));
    for (int i = 0; i < N; i++)
        OK(get(i == N - 1 ? &me : &everybody, keys[i], &is_pointer, &seen[i]));
    for (int i = 0; i < N - 2; i++) {
        COSTS(0, 0, get(&everybody, keys[i], &is_pointer, &again));
        CHECK(again == seen[i]);
    }
    OK(get(&everybody, "site.array", &is_pointer, &again));
    CHECK(again == seen[4]);
    /* A new value is another one; the old one is still there. */
    mine.data.string = "second";
    OK(PMIx_Put(PMIX_GLOBAL, "mine", &mine));
    OK(get(&me, "mine", &is_pointer, &again));
    CHECK(again != seen[5] && !strcmp(again->data.string, "second") && !strcmp(seen[5]->data.string, "first"));
    /* However often values alternate, each is kept once. */
    for (int round = 0; round < 10; round++) {
        mine.data.string = round % 2 ? "second" : "first";
        OK(PMIx_Put(PMIX_GLOBAL, "mine", &mine));
        pmix_value_t *now;
        OK(get(&me, "mine", &is_pointer, &now));
        CHECK(now == (round % 2 ? again : seen[5]));
    }
    CHECK(seen[0]->data.uint32 == 1 && !strcmp(seen[1]->data.string, "hello") && seen[2]->data.string == NULL);
    CHECK(seen[3]->data.bo.size == 100 && seen[4]->data.darray->size == 2);
}

static void got(pmix_status_t status, pmix_value_t *value, void *what) {
    CHECK(value->type == PMIX_UINT32);
    done(status, what);
}

static int rank(void) {
    OK(PMIx_Init(&me, NULL, 0));
    /* A second Init and its Finalize change nothing. */
    OK(PMIx_Init(&me, NULL, 0));
    PMIx_Proc_load(&everybody, job, PMIX_RANK_WILDCARD);
    OK(PMIx_Info_load(&is_static, PMIX_GET_STATIC_VALUES, NULL, PMIX_BOOL));
    OK(PMIx_Info_load(&is_pointer, PMIX_GET_POINTER_VALUES, NULL, PMIX_BOOL));
    OK(PMIx_Info_load(&optional, PMIX_OPTIONAL, NULL, PMIX_BOOL));
    OK(PMIx_Info_load(&immediate, PMIX_IMMEDIATE, NULL, PMIX_BOOL));
    /* The first Get of a thread makes its notes. */
    pmix_value_t *value;
    OK(get(&everybody, "pmix.job.size", NULL, &value));
    PMIx_Value_free(value, 1);
    /* A value that is at hand comes by the callback nevertheless. */
    int answered = 0;
    IS(PMIX_SUCCESS, PMIx_Get_nb(&everybody, "pmix.job.size", NULL, 0, got, &answered));
    until(&answered);
    fresh();
    in_place();
    looked_at();
    OK(get(&everybody, "site.text", &is_pointer, &value));
    OK(PMIx_Finalize(NULL, 0));
    CHECK(!strcmp(value->data.string, "hello"));
    OK(PMIx_Finalize(NULL, 0));
    IS(PMIX_ERR_INIT, get(&everybody, "site.text", &is_pointer, &value));
    return 0;
}

/* The server's program reads what its server has. */
static void from_the_server(void) {
    pmix_value_t *value;
    pmix_info_t quickly;
    OK(PMIx_Info_load(&quickly, PMIX_OPTIONAL, NULL, PMIX_BOOL));
    PMIx_Proc_load(&everybody, job, PMIX_RANK_WILDCARD);
    PMIx_Proc_load(&me, job, 0);
    OK(get(&everybody, "pmix.job.size", NULL, &value));
    CHECK(value->type == PMIX_UINT32 && value->data.uint32 == 1);
    PMIx_Value_free(value, 1);
    OK(get(&me, "pmix.lrank", NULL, &value));
    CHECK(value->type == PMIX_UINT16);
    PMIx_Value_free(value, 1);
    OK(get(&everybody, "site.text", NULL, &value));
    CHECK(!strcmp(value->data.string, "hello"));
    PMIx_Value_free(value, 1);
    IS(PMIX_ERR_NOT_FOUND, get(&everybody, "pmix.no.such", NULL, &value));
    IS(PMIX_ERR_NOT_FOUND, get(&me, "no.such", &quickly, &value));
}

int main(int argc, char **argv) {
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    (void)argc;
    if (getenv("PMIX_RANK"))
        return rank();
    pmix_server_module_t module = {0};
    OK(PMIx_server_init(&module, NULL, 0));
    char host[256], *nodes, *ranks, blob[100];
    CHECK(!gethostname(host, sizeof host));
    OK(PMIx_generate_regex(host, &nodes));
    OK(PMIx_generate_ppn("0", &ranks));
    uint32_t size = 1;
    memset(blob, 'b', sizeof blob);
    pmix_byte_object_t object = {blob, sizeof blob};
    char *texts[2] = {"one", "two"};
    pmix_data_array_t array = {PMIX_STRING, 2, texts};
    pmix_info_t *info = PMIx_Info_create(7);
    OK(PMIx_Info_load(&info[0], PMIX_NODE_MAP, nodes, PMIX_REGEX));
    OK(PMIx_Info_load(&info[1], PMIX_PROC_MAP, ranks, PMIX_REGEX));
    OK(PMIx_Info_load(&info[2], PMIX_JOB_SIZE, &size, PMIX_UINT32));
    OK(PMIx_Info_load(&info[3], "site.text", "hello", PMIX_STRING));
    OK(PMIx_Info_load(&info[4], "site.null", NULL, PMIX_STRING));
    OK(PMIx_Info_load(&info[5], "site.blob", &object, PMIX_BYTE_OBJECT));
    OK(PMIx_Info_load(&info[6], "site.array", &array, PMIX_DATA_ARRAY));
    free(nodes);
    free(ranks);
    int registered = 0;
    OK(PMIx_server_register_nspace(job, 1, info, 7, done, &registered));
    PMIx_Info_free(info, 7);
    until(&registered);
    pmix_proc_t proc;
    PMIx_Proc_load(&proc, job, 0);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    from_the_server();

    char **env = NULL, *path = getenv("LD_LIBRARY_PATH");
    if (path)
        OK(PMIx_Setenv("LD_LIBRARY_PATH", path, true, &env));
    pid_t child = fork();
    if (child == 0) {
        OK(PMIx_server_setup_fork(&proc, &env));
        execve(argv[0], argv, env);
        _exit(127);
    }
    PMIx_Argv_free(env);
    int how;
    CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    OK(PMIx_server_finalize());
    return 0;
}
