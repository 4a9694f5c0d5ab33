/* A host that takes completions, and answers in every way there is: never for once, or too late for whoever asked. The program is
 * the host, for each of these ways anew, and starts itself again as the rank and as the tool that ask for everything. */
#include "everything.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum how { LACKS, REFUSES, DONE, INSIDE, ELSEWHERE, SUCCEEDED, TWICE, AT_LAST, NEVER, KILLED, ENDS, COMING, GOING, HOWS };
static const char *const names[HOWS] = {"has none", "refuses", "has done it",
                                        "answers inside the call", "answers elsewhere", "says that it succeeded", "answers twice",
                                        "answers at last", "never answers", "has clients that are killed",
                                        "ends", "has a client that is killed as it comes",
                                        "has a client that is killed as it goes"};
static const pmix_nspace_t job = "job@1";

/* A process that asks is told on its input to go on. */
static void wait_for_word(void) {
    char word;
    CHECK(read(STDIN_FILENO, &word, 1) == 1);
}

/* The rank. */

static void begins_all(void) {
    for (int i = 0; i < CALLS; i++) {
        pmix_status_t status = calls[i].begin();
        if (status < 0) {
            fprintf(stderr, "%s: %s\n", calls[i].name, PMIx_Error_string(status));
            exit(1);
        }
    }
}

static int rank(enum how how) {
    pmix_status_t code = OTHER_CODE;
    OK(PMIx_Init(&me, NULL, 0));
    if (how >= COMING) {
        OK(PMIx_Finalize(NULL, 0));
        return 0;
    }
    /* Something to disconnect from, and to stop listening to. */
    OK(PMIx_Connect(&me, 1, NULL, 0));
    handler = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    CHECK(handler >= 0);
    OK(PMIx_Info_load(&thing, "svc", "port", PMIX_STRING));
    if (how < AT_LAST) {
        for (int i = 0; i < CALLS; i++) {
            int before = answers;
            pmix_status_t status = calls[i].begin();
            if (status >= 0) {
                until(&answers, before + 1);
                status = answer;
            } else if (status == PMIX_OPERATION_SUCCEEDED)
                status = PMIX_SUCCESS;
            pmix_status_t expected = how == LACKS     ? calls[i].lacking
                                     : how == REFUSES ? calls[i].refused
                                     : how == DONE    ? calls[i].done
                                                      : calls[i].answered;
            if (status != expected) {
                fprintf(stderr, "%s, %s: %s\n", names[how], calls[i].name, PMIx_Error_string(status));
                return 1;
            }
        }
    } else {
        begins_all();
        if (how == KILLED && fork() == 0) {
            /* A helper that keeps the socket open. */
            char word;
            (void)!read(STDIN_FILENO, &word, 1);
            _exit(0);
        }
        if (how == AT_LAST || how == ENDS)
            until(&answers, CALLS);
        else
            wait_for_word();
    }
    PMIx_Info_destruct(&thing);
    pmix_status_t status = PMIx_Finalize(NULL, 0);
    CHECK(status == PMIX_SUCCESS || how == ENDS);
    return 0;
}

static int tool(enum how how) {
    pmix_info_t info;
    pid_t server = getppid();
    OK(PMIx_Info_load(&info, PMIX_SERVER_PIDINFO, &server, PMIX_PID));
    pmix_status_t status = PMIx_tool_init(&me, &info, 1);
    CHECK(status == (how == REFUSES ? PMIX_ERR_NO_PERMISSIONS : PMIX_SUCCESS));
    if (status == PMIX_SUCCESS) {
        CHECK(how == LACKS || how == DONE || !strcmp(me.nspace, "tool"));
        OK(PMIx_tool_finalize());
    }
    return 0;
}

/* The host. Data that it is shown is its to look at until it answers. */

enum kind { OP, MODEX, INFO, LOOKUP, SPAWN, TOOL, CREDENTIAL, VALIDATION };

struct request {
    enum kind kind;
    void *cbfunc, *cbdata;
    const char *shown;
    char *was;
    bool answered;
};

static enum how way;
static struct request requests[64];
static int asked, given, released, lost, begun, ended;
/* The server's presence, and what it has lent its host with it. */
static bool runs;

static void release(void *gift) {
    free(gift);
    set(&released);
}

static void free_info(void *gift) {
    PMIx_Info_free(gift, 1);
    set(&released);
}

/* Gives an answer, with what goes with it. */
static void say(const struct request *r) {
    pmix_status_t good = way == SUCCEEDED ? PMIX_OPERATION_SUCCEEDED : PMIX_SUCCESS;
    pmix_info_t *info = NULL;
    pmix_byte_object_t papers = {"papers", 6};
    pmix_pdata_t data = {.proc = everybody, .key = "svc", .value = {.type = PMIX_STRING, .data.string = "port"}};
    pmix_proc_t named = {.nspace = "tool", .rank = 0};
    if (r->kind == INFO) {
        info = PMIx_Info_create(1);
        OK(PMIx_Info_load(info, "site.answer", "answer", PMIX_STRING));
    }
    if (r->kind == INFO || r->kind == MODEX)
        set(&given);
    switch (r->kind) {
    case OP:
        ((pmix_op_cbfunc_t)r->cbfunc)(good, r->cbdata);
        break;
    case MODEX:
        ((pmix_modex_cbfunc_t)r->cbfunc)(good, NULL, 0, r->cbdata, release, malloc(1));
        break;
    case INFO:
        ((pmix_info_cbfunc_t)r->cbfunc)(good, info, 1, r->cbdata, free_info, info);
        break;
    case LOOKUP:
        ((pmix_lookup_cbfunc_t)r->cbfunc)(good, &data, 1, r->cbdata);
        break;
    case SPAWN:
        ((pmix_spawn_cbfunc_t)r->cbfunc)(good, "child", r->cbdata);
        break;
    case TOOL:
        ((pmix_tool_connection_cbfunc_t)r->cbfunc)(good, &named, r->cbdata);
        break;
    case CREDENTIAL:
        ((pmix_credential_cbfunc_t)r->cbfunc)(good, &papers, NULL, 0, r->cbdata);
        break;
    case VALIDATION:
        ((pmix_validation_cbfunc_t)r->cbfunc)(good, NULL, 0, r->cbdata);
        break;
    }
}

/* The first answer to a request: until now, or until the server ends, it is all there. Where two threads would give it,
 * one of them does. */
static void say_first(struct request *r) {
    pthread_mutex_lock(&lock);
    bool was_answered = r->answered;
    r->answered = true;
    if (!was_answered && runs && strcmp(r->shown, r->was)) {
        fprintf(stderr, "request %d of kind %d shows '%.64s' and was '%.64s'\n", (int)(r - requests), r->kind, r->shown, r->was);
        exit(1);
    }
    pthread_mutex_unlock(&lock);
    if (was_answered)
        return;
    free(r->was);
    say(r);
}

static void *say_elsewhere(void *request) {
    say_first(request);
    set(&ended);
    return NULL;
}

static void *say_again(void *request) {
    say(request);
    set(&ended);
    return NULL;
}

static void in_a_thread(void *(*what)(void *), struct request *r) {
    pthread_t thread;
    begun++;
    CHECK(!pthread_create(&thread, NULL, what, r) && !pthread_detach(thread));
}

static pmix_status_t takes(enum how how, enum kind kind, void *cbfunc, void *cbdata, const char *shown) {
    if (how == REFUSES)
        return PMIX_ERR_NO_PERMISSIONS;
    if (how == DONE)
        return PMIX_OPERATION_SUCCEEDED;
    CHECK(cbfunc != NULL && asked < (int)(sizeof requests / sizeof *requests));
    pthread_mutex_lock(&lock);
    struct request *r = &requests[asked];
    *r = (struct request){kind, cbfunc, cbdata, shown, strdup(shown), false};
    pthread_mutex_unlock(&lock);
    set(&asked);
    if (how == INSIDE || how == TWICE)
        say_first(r);
    if (how == TWICE) {
        say(r);
        in_a_thread(say_again, r);
    }
    if (how == ELSEWHERE || how == SUCCEEDED)
        in_a_thread(say_elsewhere, r);
    return PMIX_SUCCESS;
}

/* Answers all that has not been, the last one first. */
static void say_all(void) {
    pthread_mutex_lock(&lock);
    int n = asked;
    pthread_mutex_unlock(&lock);
    while (n-- > 0)
        say_first(&requests[n]);
}

/* Clients may come and go where other requests are refused. */
static enum how way_for(enum how kept) { return way == kept ? NEVER : way == REFUSES || way > TWICE ? DONE : way; }

static pmix_status_t on_connected(const pmix_proc_t *p, void *object, pmix_info_t *info, size_t n, pmix_op_cbfunc_t f, void *d) {
    (void)object, (void)info, (void)n;
    return takes(way_for(COMING), OP, f, d, p->nspace);
}
static pmix_status_t on_finalized(const pmix_proc_t *p, void *object, pmix_op_cbfunc_t f, void *d) {
    (void)object;
    return takes(way == NEVER ? NEVER : way_for(GOING), OP, f, d, p->nspace);
}
static pmix_status_t on_abort(const pmix_proc_t *p, void *object, int status, const char message[], pmix_proc_t procs[], size_t n,
                              pmix_op_cbfunc_t f, void *d) {
    (void)p, (void)object, (void)procs;
    CHECK(status == 7 && n == 0);
    return takes(way, OP, f, d, message);
}
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, char *data, size_t size,
                              pmix_modex_cbfunc_t f, void *d) {
    (void)n, (void)info, (void)ninfo, (void)size;
    free(data);
    return takes(way, MODEX, f, d, procs[0].nspace);
}
static pmix_status_t on_fetch(const pmix_proc_t *p, const pmix_info_t info[], size_t n, pmix_modex_cbfunc_t f, void *d) {
    (void)p;
    CHECK(n == 1 && info[0].value.type == PMIX_STRING);
    return takes(way, MODEX, f, d, info[0].value.data.string);
}
static pmix_status_t on_publish(const pmix_proc_t *p, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t f, void *d) {
    (void)p, (void)n;
    return takes(way, OP, f, d, info[0].value.data.string);
}
static pmix_status_t on_lookup(const pmix_proc_t *p, char **wanted, const pmix_info_t info[], size_t n, pmix_lookup_cbfunc_t f,
                               void *d) {
    (void)p, (void)info, (void)n;
    return takes(way, LOOKUP, f, d, wanted[0]);
}
static pmix_status_t on_unpublish(const pmix_proc_t *p, char **wanted, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t f,
                                  void *d) {
    (void)p, (void)info, (void)n;
    return takes(way, OP, f, d, wanted[0]);
}
static pmix_status_t on_spawn(const pmix_proc_t *p, const pmix_info_t info[], size_t n, const pmix_app_t apps[], size_t napps,
                              pmix_spawn_cbfunc_t f, void *d) {
    (void)p, (void)info, (void)n, (void)napps;
    return takes(way, SPAWN, f, d, apps[0].cmd);
}
static pmix_status_t on_connect(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t f,
                                void *d) {
    (void)n, (void)info, (void)ninfo;
    return takes(procs[0].rank == 0 ? DONE : way, OP, f, d, procs[0].nspace);
}
static pmix_status_t on_disconnect(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t f,
                                   void *d) {
    (void)n, (void)info, (void)ninfo;
    return takes(way, OP, f, d, procs[0].nspace);
}
static pmix_status_t on_listen(pmix_status_t *codes, size_t n, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t f, void *d) {
    (void)info, (void)ninfo;
    CHECK(n == 1 && (codes[0] == SOME_CODE || codes[0] == OTHER_CODE));
    return takes(way, OP, f, d, (char *)codes);
}
static pmix_status_t on_stop(pmix_status_t *codes, size_t n, pmix_op_cbfunc_t f, void *d) {
    CHECK(n > 0);
    return takes(way, OP, f, d, (char *)codes);
}
static pmix_status_t on_notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range, pmix_info_t info[], size_t n,
                               pmix_op_cbfunc_t f, void *d) {
    (void)code, (void)range, (void)info, (void)n;
    return takes(way, OP, f, d, source->nspace);
}
static pmix_status_t on_query(pmix_proc_t *p, pmix_query_t *queries, size_t n, pmix_info_cbfunc_t f, void *d) {
    (void)p, (void)n;
    return takes(way, INFO, f, d, queries[0].keys[0]);
}
static pmix_status_t on_tool(pmix_info_t *info, size_t n, pmix_tool_connection_cbfunc_t f, void *d) {
    CHECK(n > 0);
    return takes(way, TOOL, f, d, info[n - 1].key);
}
static pmix_status_t on_log(const pmix_proc_t *p, const pmix_info_t data[], size_t n, const pmix_info_t info[], size_t ninfo,
                            pmix_op_cbfunc_t f, void *d) {
    (void)p, (void)n, (void)info, (void)ninfo;
    return takes(way, OP, f, d, data[0].value.data.string);
}
static pmix_status_t on_allocate(const pmix_proc_t *p, pmix_alloc_directive_t directive, const pmix_info_t data[], size_t n,
                                 pmix_info_cbfunc_t f, void *d) {
    (void)p, (void)directive, (void)n;
    return takes(way, INFO, f, d, data[0].value.data.string);
}
static pmix_status_t on_control(const pmix_proc_t *p, const pmix_proc_t targets[], size_t n, const pmix_info_t info[], size_t ninfo,
                                pmix_info_cbfunc_t f, void *d) {
    (void)p, (void)targets, (void)n, (void)ninfo;
    return takes(way, INFO, f, d, info[0].value.data.string);
}
static pmix_status_t on_monitor(const pmix_proc_t *p, const pmix_info_t *monitor, pmix_status_t error, const pmix_info_t info[],
                                size_t n, pmix_info_cbfunc_t f, void *d) {
    (void)p, (void)error, (void)info, (void)n;
    return takes(way, INFO, f, d, monitor->value.data.string);
}
/* Requests say whose they are. */
static bool is_signed(const pmix_info_t *info, size_t n) {
    int found = 0;
    for (size_t i = 0; i < n; i++)
        found += (PMIx_Check_key(info[i].key, PMIX_USERID) && info[i].value.data.uint32 == getuid()) ||
                 (PMIx_Check_key(info[i].key, PMIX_GRPID) && info[i].value.data.uint32 == getgid());
    return found == 2;
}
static pmix_status_t on_credential(const pmix_proc_t *p, const pmix_info_t info[], size_t n, pmix_credential_cbfunc_t f, void *d) {
    CHECK(is_signed(info, n));
    return takes(way, CREDENTIAL, f, d, p->nspace);
}
static pmix_status_t on_validate(const pmix_proc_t *p, const pmix_byte_object_t *papers, const pmix_info_t info[], size_t n,
                                 pmix_validation_cbfunc_t f, void *d) {
    CHECK(papers->size == 6 && is_signed(info, n));
    return takes(way, VALIDATION, f, d, p->nspace);
}
static pmix_status_t on_pull(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, pmix_iof_channel_t channels,
                             pmix_op_cbfunc_t f, void *d) {
    (void)n, (void)info, (void)ninfo, (void)channels;
    return takes(way, OP, f, d, procs[0].nspace);
}
static pmix_status_t on_push(const pmix_proc_t *source, const pmix_proc_t targets[], size_t n, const pmix_info_t info[], size_t ninfo,
                             const pmix_byte_object_t *bytes, pmix_op_cbfunc_t f, void *d) {
    (void)source, (void)n, (void)info, (void)ninfo;
    CHECK(bytes->size == 5 && !memcmp(bytes->bytes, "input", 5));
    return takes(way, OP, f, d, targets[0].nspace);
}
static pmix_status_t on_group(pmix_group_operation_t operation, char group[], const pmix_proc_t procs[], size_t n,
                              const pmix_info_t info[], size_t ninfo, pmix_info_cbfunc_t f, void *d) {
    (void)operation, (void)procs, (void)n, (void)info, (void)ninfo;
    return takes(way, INFO, f, d, group);
}
static pmix_status_t on_fabric(const pmix_proc_t *p, pmix_fabric_operation_t operation, const pmix_info_t info[], size_t n,
                               pmix_info_cbfunc_t f, void *d) {
    (void)operation, (void)info, (void)n;
    return takes(way, INFO, f, d, p->nspace);
}
static pmix_status_t on_session(const pmix_proc_t *p, uint32_t session, const pmix_info_t info[], size_t n, pmix_info_cbfunc_t f,
                                void *d) {
    (void)info, (void)n;
    CHECK(session == 7);
    return takes(way, INFO, f, d, p->nspace);
}
static pmix_status_t on_block(const pmix_proc_t *p, pmix_resource_block_directive_t directive, const char *block,
                              const pmix_resource_unit_t *units, size_t nunits, const pmix_info_t *info, size_t n, pmix_op_cbfunc_t f,
                              void *d) {
    (void)p, (void)directive, (void)units, (void)info, (void)n;
    CHECK(nunits == 1);
    return takes(way, OP, f, d, block);
}

static pmix_server_module_t empty, module = {
    .client_connected2 = on_connected, .client_finalized = on_finalized, .abort = on_abort, .fence_nb = on_fence,
    .direct_modex = on_fetch, .publish = on_publish, .lookup = on_lookup, .unpublish = on_unpublish, .spawn = on_spawn,
    .connect = on_connect, .disconnect = on_disconnect, .register_events = on_listen, .deregister_events = on_stop,
    .notify_event = on_notify, .query = on_query, .tool_connected2 = on_tool, .log2 = on_log, .allocate = on_allocate,
    .job_control = on_control, .monitor = on_monitor, .get_credential = on_credential, .validate_credential = on_validate,
    .iof_pull = on_pull, .push_stdin = on_push, .group = on_group, .fabric = on_fabric, .session_control = on_session,
    .resource_block = on_block,
};

static void on_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    if (status == PMIX_ERR_LOST_CONNECTION)
        set(&lost);
    next(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
}

/* The asking process, and the way to give it the word. */
struct child {
    pid_t pid;
    int word;
};

static struct child start(char *program, char *as) {
    extern char **environ;
    struct child child;
    int ends[2];
    pmix_proc_t proc = {.rank = 0};
    char number[4], **env = PMIx_Argv_copy(environ);
    PMIx_Load_nspace(proc.nspace, job);
    OK(PMIx_server_setup_fork(&proc, &env));
    snprintf(number, sizeof number, "%d", way);
    CHECK(!pipe(ends));
    child.pid = fork();
    if (child.pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execle(program, program, as, number, NULL, env);
        _exit(127);
    }
    PMIx_Argv_free(env);
    close(ends[0]);
    child.word = ends[1];
    return child;
}

static void ends_well(struct child child) {
    int how;
    CHECK(waitpid(child.pid, &how, 0) == child.pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    close(child.word);
}

static void kills(struct child child) {
    int how;
    CHECK(!kill(child.pid, SIGKILL) && waitpid(child.pid, &how, 0) == child.pid && WIFSIGNALED(how));
}

/* A tool comes, and is killed where it would wait for ever. */
static void visit(char *program) {
    int before = asked;
    struct child tool = start(program, "tool");
    if (way >= AT_LAST)
        until(&asked, before + 1);
    if (way == AT_LAST)
        say_all();
    if (way <= AT_LAST)
        return ends_well(tool);
    kills(tool);
    close(tool.word);
}

static void host(char *program) {
    pmix_info_t info[4];
    uint32_t size = 2;
    int own = answers;
    asked = given = released = lost = begun = ended = 0;
    runs = true;
    OK(PMIx_Info_load(&info[0], PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL));
    OK(PMIx_server_init(way == LACKS ? &empty : &module, info, 1));
    CHECK(PMIx_Register_event_handler(NULL, 0, NULL, 0, on_lost, NULL, NULL) >= 0);
    OK(PMIx_Info_load(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32));
    OK(PMIx_Info_load(&info[1], PMIX_NODE_MAP, "here,there", PMIX_STRING));
    OK(PMIx_Info_load(&info[2], PMIX_PROC_MAP, "0;1", PMIX_STRING));
    OK(PMIx_Info_load(&info[3], PMIX_LOCAL_PEERS, "0", PMIX_STRING));
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace(job, 1, info, 4, NULL, NULL));
    for (int i = 0; i < 4; i++)
        PMIx_Info_destruct(&info[i]);
    pmix_proc_t proc = {.rank = 0};
    PMIx_Load_nspace(proc.nspace, job);
    IS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));

    struct child rank = start(program, "rank");
    if (way >= COMING) {
        until(&asked, 1);
        kills(rank);
        close(rank.word);
        if (way == COMING) {
            /* It may come again, and is not taken for the one before. */
            rank = start(program, "rank");
            until(&asked, 2);
            say_all();
            ends_well(rank);
        }
    } else {
        if (way >= AT_LAST)
            until(&asked, CALLS + 1);
        if (way == AT_LAST)
            say_all();
        if (way == NEVER)
            CHECK(write(rank.word, "", 1) == 1);
        if (way == KILLED) {
            kills(rank);
            until(&lost, 1);
            say_all();
            close(rank.word);
        } else if (way != ENDS)
            ends_well(rank);
        visit(program);
    }
    if (way == ENDS)
        OK(asks());
    if (way != NEVER && way != ENDS) {
        say_all();
        until(&ended, begun);
        until(&released, given);
        CHECK(released == given);
    }
    pthread_mutex_lock(&lock);
    runs = false;
    pthread_mutex_unlock(&lock);
    OK(PMIx_server_finalize());
    if (way == ENDS) {
        until(&answers, own + 1);
        CHECK(answer != PMIX_SUCCESS);
        ends_well(rank);
    }
    /* Nobody is there to hear it, but what goes with it comes back. */
    say_all();
    until(&released, given);
    CHECK(released == given);
}

int main(int argc, char **argv) {
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    PMIx_Load_procid(&everybody, job, PMIX_RANK_WILDCARD);
    PMIx_Load_procid(&other, job, 1);
    if (argc == 3)
        return (!strcmp(argv[1], "tool") ? tool : rank)(atoi(argv[2]));
    /* Proof that the module is as long as this release's. */
    CHECK(PMIx_Rank_valid(0));
    for (way = LACKS; way < HOWS; way++) {
        fprintf(stderr, "a host that %s\n", names[way]);
        host(argv[0]);
    }
    return 0;
}
