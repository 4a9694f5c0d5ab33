/*
 * A job with an attacker in it:
 *
 *     instanton run --job-memory 128M -n 2 attacks victim DIR : -n 1 attacks KIND DIR
 *
 * Ranks 0 and 1 fence and get for a while, and write to DIR/RANK how often, and how many milliseconds the longest round
 * took. They lie on the last core, where the kernel puts them beside one that burns a processor: on two cores they wake
 * each other a third as fast, and what runs beside them would decide which. "free-victim" lies where the kernel likes.
 *
 * The other ranks make requests of one kind again and again until DIR/0 is there, and write to DIR/burnt-RANK how many
 * processors they have kept busy, and how many requests they have made in a second. Some kinds ask nothing; what victims have beside them is what the other kinds are
 * measured by. "spin1.25" burns so many processors, in as few processes as can, if it is let. Processes that come and
 * go, or wake together, keep others off the processors longer than one that burns as much: "crowd" starts as many as it
 * can, which burn 2 ms each, "programs" starts programs one after the other, "clones1.25" has sixty processes that burn
 * so much together, and "few1.25" has four. "starts12.5" starts so many crowds of programs in a second.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacks.h"

/* Seconds that victims measure, and that the attack has before that. */
#define MEASURED 3.0
#define AHEAD 1.0
/* Requests of an attacker that are under way at once. */
#define UNDER_WAY 20000
/* Processes of an attacker with many. */
#define CLONES 60
/* Processes of a crowd that is started. */
#define CROWD 64
/* Chains of jobs that each start the next. */
#define CHAINS 4

pmix_proc_t me, pair[2], with_victim[2];
char over[4096];
unsigned next;
static volatile int under_way;
/* The server has ended the connection. */
static volatile bool is_cut;

void spawn_self(char *word, char *path, int ranks)
{
    char self[4096] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return;
    char *words[] = {self, word, path, NULL};
    pmix_app_t app = {.cmd = self, .argv = words, .maxprocs = ranks};
    pmix_nspace_t nspace;
    PMIx_Spawn(NULL, 0, &app, 1, nspace);
}

/* Starts a job of those that do something until this is over. */
void spawn_more(char *word, int ranks)
{
    char directory[4096];
    snprintf(directory, sizeof directory, "%s", over);
    *strrchr(directory, '/') = '\0';
    spawn_self(word, directory, ranks);
}

double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void settle(void)
{
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &core);
    if (sched_setaffinity(0, sizeof core, &core) != 0)
        perror("sched_setaffinity");
}

static int victim(const char *directory)
{
    unsigned other = 1 - me.rank, rounds = 0;
    double begin = now(), longest = 0;
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 7}, *found;
    bool is_over = false;
    char key[32];
    for (unsigned round = 0; !is_over; round++) {
        double at = now();
        if (PMIx_Fence(pair, 2, NULL, 0) != PMIX_SUCCESS)
            return 2;
        if (round > 0) {
            if (PMIx_Get(&pair[other], "key0", NULL, 0, &found) != PMIX_SUCCESS)
                return 3;
            PMIX_VALUE_RELEASE(found);
        }
        if (at - begin > AHEAD) {
            double took = now() - at;
            rounds++;
            longest = took > longest ? took : longest;
        }
        if (round % 64 != 0)
            continue;
        /* Both end in the same round: rank 0 says so by a key. */
        snprintf(key, sizeof key, "key%u", round);
        value.data.uint32 = now() - begin > AHEAD + MEASURED;
        if (PMIx_Put(PMIX_GLOBAL, key, &value) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS)
            return 4;
        if (PMIx_Fence(pair, 2, NULL, 0) != PMIX_SUCCESS || PMIx_Get(&pair[0], key, NULL, 0, &found) != PMIX_SUCCESS)
            return 5;
        is_over = found->data.uint32;
        PMIX_VALUE_RELEASE(found);
    }
    /* Rank 0 writes last, and all at once: others end when its file is there, and the launcher then ends the job. */
    if (me.rank == 0 && PMIx_Fence(pair, 2, NULL, 0) != PMIX_SUCCESS)
        return 6;
    char path[4200], draft[4200];
    snprintf(path, sizeof path, "%s/%u", directory, me.rank);
    snprintf(draft, sizeof draft, "%s/draft%u", directory, me.rank);
    FILE *file = fopen(draft, "w");
    if (file == NULL)
        return 7;
    fprintf(file, "%u %.0f\n", rounds, longest * 1e3);
    if (fclose(file) != 0 || rename(draft, path) != 0)
        return 8;
    return me.rank == 0 || PMIx_Fence(pair, 2, NULL, 0) == PMIX_SUCCESS ? 0 : 9;
}

bool is_over(void)
{
    return access(over, F_OK) == 0;
}

void begin_one(void)
{
    __atomic_add_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
}

static void end_one(void)
{
    __atomic_sub_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
}

void done(pmix_status_t status, void *data)
{
    (void)data;
    is_cut |= status == PMIX_ERR_LOST_CONNECTION || status == PMIX_ERR_UNREACH;
    end_one();
}

void got(pmix_status_t status, pmix_value_t *value, void *data)
{
    (void)value;
    done(status, data);
}

void found(pmix_status_t status, pmix_pdata_t data[], size_t ndata, void *cbdata)
{
    (void)status, (void)data, (void)ndata, (void)cbdata;
    end_one();
}

void told(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *data, pmix_release_cbfunc_t release,
          void *release_data)
{
    (void)status, (void)info, (void)ninfo, (void)data;
    if (release != NULL)
        release(release_data);
    end_one();
}

static void spawned(pmix_status_t status, char nspace[], void *data)
{
    (void)status, (void)nspace, (void)data;
    end_one();
}

static void credential(pmix_status_t status, pmix_byte_object_t *bytes, pmix_info_t info[], size_t ninfo, void *data)
{
    (void)status, (void)bytes, (void)info, (void)ninfo, (void)data;
    end_one();
}

static void pulled(pmix_status_t status, size_t number, void *data)
{
    (void)status, (void)number, (void)data;
    end_one();
}

void printed(size_t number, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
             pmix_info_t info[], size_t ninfo)
{
    (void)number, (void)channel, (void)source, (void)bytes, (void)info, (void)ninfo;
}

void handled(size_t number, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
             pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t then, void *data)
{
    (void)number, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    then(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

char *text(size_t bytes)
{
    static char *all;
    static size_t last;
    if (all == NULL) {
        all = malloc((64 << 20) + 1);
        memset(all, 'x', 64 << 20);
    }
    all[last] = 'x';
    all[bytes] = '\0';
    last = bytes;
    return all;
}

pmix_info_t of_text(const char *key, char *string)
{
    pmix_info_t info = {0};
    PMIX_LOAD_KEY(info.key, key);
    info.value = (pmix_value_t){.type = PMIX_STRING, .data.string = string};
    return info;
}

pmix_info_t of_number(const char *key, int number)
{
    pmix_info_t info = {0};
    PMIX_LOAD_KEY(info.key, key);
    info.value = (pmix_value_t){.type = PMIX_INT, .data.integer = number};
    return info;
}

pmix_info_t of_truth(const char *key)
{
    pmix_info_t info = {0};
    PMIX_LOAD_KEY(info.key, key);
    info.value = (pmix_value_t){.type = PMIX_BOOL, .data.flag = true};
    return info;
}

pmix_info_t of_array(const char *key, pmix_data_array_t *array)
{
    pmix_info_t info = {0};
    PMIX_LOAD_KEY(info.key, key);
    info.value = (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = array};
    return info;
}

pmix_status_t put(unsigned keys, size_t bytes)
{
    pmix_value_t value = {.type = PMIX_STRING, .data.string = text(bytes)};
    char key[32];
    for (unsigned at = 0; at < keys; at++) {
        snprintf(key, sizeof key, "k%u", (next + at) % (keys > 8 ? keys : 8));
        PMIx_Put(PMIX_GLOBAL, key, &value);
    }
    return PMIx_Commit();
}

static void burn(void)
{
    for (volatile unsigned at = 0; at < 1000000; at++)
        ;
}

/* Has this process have burnt this part of a processor since it first asked for that, however long it waits for one. */
static void catch_up(double part)
{
    static double begin, burnt;
    if (begin == 0)
        begin = now(), burnt = (double)clock() / CLOCKS_PER_SEC;
    while ((double)clock() / CLOCKS_PER_SEC - burnt < part * (now() - begin) && !is_over())
        for (volatile unsigned at = 0; at < 100000; at++)
            ;
}

/* Burns what it lacks every 10 ms. */
static void burn_part(double part)
{
    catch_up(part);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* The same at the moments, 10 ms apart, at which all clones wake. */
static void wake_and_burn(double part)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    nanosleep(&(struct timespec){.tv_nsec = 10000000 - at.tv_nsec % 10000000}, NULL);
    catch_up(part);
}

/* Makes one request; returns success where an answer comes to a callback. */
static pmix_status_t request(const char *kind)
{
    static char *names[8193];
    char name[64];
    pmix_info_t info[2];
    size_t bytes;
    snprintf(name, sizeof name, "name%u", ++next);
    pmix_status_t status;
    if (odd_request(kind, &status) || mixed_request(kind, &status))
        return status;
    if (raw_request(kind))
        return PMIX_ERROR;
    if (strncmp(kind, "spin", 4) == 0) {
        static double part;
        if (next > 1)
            return burn_part(part), PMIX_ERROR;
        part = atof(kind + 4);
        int processes = part > 1 ? (int)(part + 0.999) : 1;
        part /= processes;
        for (int one = 1; one < processes; one++)
            if (fork() == 0) {
                while (!is_over())
                    burn_part(part);
                _exit(0);
            }
        return PMIX_ERROR;
    }
    if (IS("output")) {
        if (fwrite(text(4000), 1, 4000, stdout) != 4000)
            return PMIX_ERROR;
        putchar('\n');
        return PMIX_ERROR;
    }
    if (IS("puts"))
        return put(1, 100 << 10), PMIX_ERROR;
    if (IS("small-puts"))
        return put(1, 32), PMIX_ERROR;
    if (IS("large-puts"))
        return put(1, 8 << 20), PMIX_ERROR;
    if (IS("many-keys"))
        return put(1000, 50), PMIX_ERROR;
    /* Keys that are new each time, so that what is kept grows. */
    if (IS("new-keys") || IS("new-values")) {
        unsigned keys = IS("new-keys") ? 1000 : 1;
        pmix_value_t value = {.type = PMIX_STRING, .data.string = text(IS("new-keys") ? 50 : 500 << 10)};
        for (unsigned at = 0; at < keys; at++) {
            snprintf(name, sizeof name, "k%u.%u", next, at);
            PMIx_Put(PMIX_GLOBAL, name, &value);
        }
        return PMIx_Commit(), PMIX_ERROR;
    }
    /* Much that stays, and little that changes beside it. */
    if (IS("much-and-little")) {
        pmix_value_t value = {.type = PMIX_STRING, .data.string = text(next < 90 ? 500 << 10 : 20 << 10)};
        snprintf(name, sizeof name, "k%u", next < 90 ? next : 90 + next % 50);
        PMIx_Put(PMIX_GLOBAL, name, &value);
        return PMIx_Commit(), PMIX_ERROR;
    }
    if (IS("huge-puts"))
        return put(1, 50 << 20), PMIX_ERROR;
    if (IS("look-up")) {
        if (next == 1) {
            info[0] = of_text("large", text(8 << 20));
            PMIx_Publish(info, 1);
        }
        for (int at = 0; at < 8192; at++)
            names[at] = "large";
        return PMIx_Lookup_nb(names, NULL, 0, found, NULL);
    }
    if (IS("waits")) {
        char *one[2] = {name, NULL};
        info[0] = of_number(PMIX_WAIT, 0);
        return PMIx_Lookup_nb(one, info, 1, found, NULL);
    }
    if (IS("gets"))
        return PMIx_Get_nb(&pair[next % 2], name, NULL, 0, got, NULL);
    if (IS("all"))
        return PMIx_Get_nb(&pair[next % 2], NULL, NULL, 0, got, NULL);
    if (IS("fences")) {
        info[0] = of_number(PMIX_TIMEOUT, 1);
        info[1] = of_text("attribute", text(1900 << 10));
        return PMIx_Fence_nb(with_victim, 2, info, 2, done, NULL);
    }
    if (IS("small-fences")) {
        info[0] = of_number(PMIX_TIMEOUT, 1);
        return PMIx_Fence_nb(with_victim, 2, info, 1, done, NULL);
    }
    if (IS("own-fences"))
        return PMIx_Fence_nb(&me, 1, NULL, 0, done, NULL);
    if (IS("large-fences")) {
        info[0] = of_truth(PMIX_COLLECT_DATA);
        put(1, 2 << 20);
        return PMIx_Fence_nb(&me, 1, info, 1, done, NULL);
    }
    if (IS("clean-ups")) {
        char *path = text(1 << 20);
        memcpy(path, "/", 1);
        snprintf(path + 1, 32, "%u", next);
        path[strlen(path)] = 'x';
        info[0] = of_text(PMIX_REGISTER_CLEANUP, path);
        return PMIx_Job_control_nb(NULL, 0, info, 1, told, NULL);
    }
    if (IS("queries") || IS("hosts") || IS("tables")) {
        bool is_of_hosts = IS("hosts");
        unsigned keys = IS("queries") ? 8192 : is_of_hosts ? 1 : 500;
        pmix_query_t query = {0};
        for (unsigned at = 0; at < keys; at++)
            names[at] = IS("queries") ? PMIX_QUERY_NAMESPACES : PMIX_QUERY_PROC_TABLE;
        names[keys] = NULL;
        query.keys = names;
        static char *hosts;
        if (hosts == NULL) {
            hosts = malloc(1 << 20);
            size_t length = 0;
            for (int host = 0; host < 100000; host++)
                length += (size_t)sprintf(hosts + length, "%sh%d", host == 0 ? "" : ",", host);
        }
        info[0] = of_text(PMIX_HOSTNAME, hosts);
        info[1] = of_text(PMIX_NSPACE, me.nspace);
        query.qualifiers = is_of_hosts ? info : info + 1;
        query.nqual = 1;
        return PMIx_Query_info_nb(&query, 1, told, NULL);
    }
    if (IS("invitations"))
        return PMIx_Group_invite_nb(name, with_victim, 2, NULL, 0, told, NULL);
    if (IS("constructs"))
        return PMIx_Group_construct_nb(name, with_victim, 2, NULL, 0, told, NULL);
    if (IS("groups")) {
        pmix_info_t *results;
        if (PMIx_Group_construct(name, &me, 1, NULL, 0, &results, &bytes) == PMIX_SUCCESS)
            PMIx_Group_destruct(name, NULL, 0);
        return PMIX_ERROR;
    }
    if (IS("kept-groups"))
        return PMIx_Group_construct_nb(name, &me, 1, NULL, 0, told, NULL);
    if (IS("spawns")) {
        char *words[2] = {"true", NULL};
        pmix_app_t app = {.cmd = "true", .argv = words, .maxprocs = 1};
        return PMIx_Spawn_nb(NULL, 0, &app, 1, spawned, NULL);
    }
    if (IS("publications")) {
        info[0] = of_number(name, 1);
        return PMIx_Publish_nb(info, 1, done, NULL);
    }
    if (IS("large-publications")) {
        info[0] = of_text(name, text(4 << 20));
        return PMIx_Publish_nb(info, 1, done, NULL);
    }
    if (IS("logs")) {
        info[0] = of_text(PMIX_LOG_STDERR, text(64 << 10));
        return PMIx_Log_nb(info, 1, NULL, 0, done, NULL);
    }
    /* Each line becomes an element of XML that is many times as long. */
    if (IS("large-logs")) {
        static char *lines;
        if (lines == NULL) {
            lines = malloc((20 << 20) + 1);
            memset(lines, '\n', 20 << 20);
            lines[20 << 20] = '\0';
        }
        info[0] = of_text(PMIX_LOG_STDOUT, lines);
        info[1] = of_truth(PMIX_LOG_XML_OUTPUT);
        return PMIx_Log_nb(info, 1, info + 1, 1, done, NULL);
    }
    if (IS("monitors")) {
        info[0] = of_number(PMIX_MONITOR_HEARTBEAT_TIME, 1);
        info[0].value.type = PMIX_UINT32;
        pmix_info_t monitor = of_truth(PMIX_MONITOR_HEARTBEAT);
        return PMIx_Process_monitor_nb(&monitor, -5001, info, 1, told, NULL);
    }
    if (IS("files")) {
        pmix_info_t monitor = of_text(PMIX_MONITOR_FILE, "/etc/passwd");
        info[0] = of_number(PMIX_MONITOR_FILE_CHECK_TIME, 1);
        info[0].value.type = PMIX_UINT32;
        info[1] = of_truth(PMIX_MONITOR_FILE_SIZE);
        return PMIx_Process_monitor_nb(&monitor, -5002, info, 2, told, NULL);
    }
    if (IS("heartbeats")) {
        pmix_info_t beat = of_truth(PMIX_SEND_HEARTBEAT);
        return PMIx_Process_monitor_nb(&beat, PMIX_SUCCESS, NULL, 0, told, NULL);
    }
    if (IS("pushes"))  {
        pmix_byte_object_t bytes = {.bytes = text(60 << 10), .size = 60 << 10};
        return PMIx_IOF_push(pair, 2, &bytes, NULL, 0, done, NULL);
    }
    /* It asks nothing: what starting processes takes from the victims is the system's. */
    if (IS("programs")) {
        if (fork() == 0) {
            execl("/proc/self/exe", "attacks", "program", over, NULL);
            _exit(1);
        }
        return wait(NULL), PMIX_ERROR;
    }
    if (IS("tools")) {
        if (fork() == 0) {
            pmix_proc_t tool;
            execl("/proc/self/exe", "attacks", "tool", over, NULL);
            _exit(PMIx_tool_init(&tool, NULL, 0));
        }
        return wait(NULL), PMIX_ERROR;
    }
    if (IS("crowds-of-spawned")) {
        char *words[2] = {"true", NULL};
        pmix_app_t app = {.cmd = "true", .argv = words, .maxprocs = CROWD};
        pmix_nspace_t nspace;
        return PMIx_Spawn(NULL, 0, &app, 1, nspace), PMIX_ERROR;
    }
    /* As many programs, by itself. */
    if (strncmp(kind, "starts", 6) == 0) {
        static double begin;
        if (next == 1)
            begin = now();
        while (now() - begin < next / atof(kind + 6))
            usleep(1000);
        for (int one = 0; one < CROWD; one++)
            if (fork() == 0) {
                execlp("true", "true", NULL);
                _exit(1);
            }
        while (wait(NULL) > 0)
            ;
        return PMIX_ERROR;
    }
    if (IS("chains-of-spawned")) {
        if (next <= CHAINS)
            return spawn_more("link", 1), PMIX_ERROR;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        return PMIX_ERROR;
    }
    if (IS("republications")) {
        char *one[2] = {"name", NULL};
        info[0] = of_text("name", text(60 << 10));
        PMIx_Publish_nb(info, 1, done, NULL);
        begin_one();
        return PMIx_Unpublish_nb(one, NULL, 0, done, NULL);
    }
    if (IS("finds")) {
        if (next == 1) {
            info[0] = of_text("large", text(1 << 20));
            PMIx_Publish(info, 1);
        }
        char *one[2] = {"large", NULL};
        return PMIx_Lookup_nb(one, NULL, 0, found, NULL);
    }
    if (IS("group-data")) {
        pmix_info_t *results;
        info[0] = of_text(PMIX_GROUP_INFO, "");
        pmix_info_t given = of_text("given", text(1 << 20));
        pmix_data_array_t array = {.type = PMIX_INFO, .size = 1, .array = &given};
        info[0].value = (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = &array};
        if (PMIx_Group_construct(name, &me, 1, info, 1, &results, &bytes) == PMIX_SUCCESS)
            PMIx_Group_destruct(name, NULL, 0);
        return PMIX_ERROR;
    }
    if (IS("global-events")) {
        info[0] = of_text("text", text(16));
        return PMIx_Notify_event(-5000, &me, PMIX_RANGE_GLOBAL, info, 1, done, NULL);
    }
    if (IS("kept-events")) {
        info[0] = of_text("text", text(900 << 10));
        return PMIx_Notify_event(-5000, &me, PMIX_RANGE_NAMESPACE, info, 1, done, NULL);
    }
    if (IS("gets-of-large")) {
        if (next == 1)
            put(1, 8 << 20);
        info[0] = of_truth(PMIX_GET_REFRESH_CACHE);
        return PMIx_Get_nb(&me, "k1", info, 1, got, NULL);
    }
    /* Values that its server has to copy: it maps nothing. */
    if (IS("gets-by-message")) {
        if (next == 1)
            put(1, 30 << 20);
        return PMIx_Get_nb(&me, "k1", NULL, 0, got, NULL);
    }
    if (IS("finds-of-large")) {
        if (next == 1) {
            info[0] = of_text("large", text(25 << 20));
            PMIx_Publish(info, 1);
        }
        char *one[2] = {"large", NULL};
        return PMIx_Lookup_nb(one, NULL, 0, found, NULL);
    }
    if (IS("large-spawns")) {
        char *words[2] = {"true", NULL}, *environment[2] = {text(20 << 20), NULL};
        memcpy(environment[0], "NAME=", 5);
        pmix_app_t app = {.cmd = "true", .argv = words, .env = environment, .maxprocs = 1};
        pmix_nspace_t nspace;
        PMIx_Spawn(NULL, 0, &app, 1, nspace);
        memset(environment[0], 'x', 5);
        return PMIX_ERROR;
    }
    /* Lines without an end, from many. */
    if (IS("unfinished-lines")) {
        if (next <= 2)
            spawn_self("mumble", over, 8);
        usleep(10000);
        return PMIX_ERROR;
    }
    /* Children have the segments mapped that their parent had, for as long as they live. */
    if (IS("kept-segments")) {
        pmix_value_t value = {.type = PMIX_STRING}, *read;
        for (unsigned at = 0; at < 200; at++) {
            snprintf(name, sizeof name, "k%u", at % 100);
            value.data.string = text(at < 100 ? 100 << 10 : 10);
            PMIx_Put(PMIX_GLOBAL, name, &value);
            PMIx_Commit();
            if (at != 99)
                continue;
            PMIx_Fence(&me, 1, NULL, 0);
            if (PMIx_Get(&me, "k7", NULL, 0, &read) == PMIX_SUCCESS)
                PMIX_VALUE_RELEASE(read);
            if (fork() == 0) {
                while (!is_over())
                    usleep(100000);
                _exit(0);
            }
        }
        return PMIX_ERROR;
    }
    if (IS("pulls"))
        return PMIx_IOF_pull(&me, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, printed, pulled, NULL);
    if (IS("events") || IS("small-events") || IS("mid-events")) {
        if (next == 1) {
            /* Clones of this process hear them. */
            for (int clone = 0; clone < CLONES; clone++)
                if (fork() == 0) {
                    pmix_status_t code = -5000;
                    PMIx_Init(NULL, NULL, 0);
                    PMIx_Register_event_handler(&code, 1, NULL, 0, handled, NULL, NULL);
                    while (!is_over())
                        usleep(100000);
                    _exit(0);
                }
            usleep(500000);
        }
        info[0] = of_text("large", text(IS("events") ? 900 << 10 : IS("mid-events") ? 50 << 10 : 16));
        return PMIx_Notify_event(-5000, &me, PMIX_RANGE_LOCAL, info, 1, done, NULL);
    }
    if (IS("codes")) {
        static pmix_status_t codes[8000];
        for (int code = 0; code < 8000; code++)
            codes[code] = -10000 - code;
        int handler = PMIx_Register_event_handler(codes, 8000, NULL, 0, handled, NULL, NULL);
        if (handler >= 0)
            PMIx_Deregister_event_handler((size_t)handler, NULL, NULL);
        return PMIX_ERROR;
    }
    if (IS("crowd")) {
        if (fork() == 0) {
            for (double until = now() + 2e-3; now() < until;)
                ;
            _exit(0);
        }
        return PMIX_ERROR;
    }
    if (strncmp(kind, "clones", 6) == 0) {
        for (int clone = 0; next == 1 && clone < CLONES; clone++)
            if (fork() == 0) {
                while (!is_over())
                    wake_and_burn(atof(kind + 6) / CLONES);
                _exit(0);
            }
        usleep(10000);
        return PMIX_ERROR;
    }
    if (strncmp(kind, "few", 3) == 0) {
        for (int one = 0; next == 1 && one < TOOLS; one++)
            if (fork() == 0) {
                while (!is_over())
                    burn_part(atof(kind + 3) / TOOLS);
                _exit(0);
            }
        usleep(10000);
        return PMIX_ERROR;
    }
    if (IS("connections")) {
        if (fork() == 0) {
            _exit(PMIx_Init(NULL, NULL, 0) == PMIX_SUCCESS ? 0 : 1);
        }
        return PMIX_ERROR;
    }
    if (IS("credentials"))
        return PMIx_Get_credential_nb(NULL, 0, credential, NULL);
    if (IS("connects"))  {
        info[0] = of_number(PMIX_TIMEOUT, 1);
        return PMIx_Connect_nb(with_victim, 2, info, 1, done, NULL);
    }
    /* What processes take of the machine, of the same ones again and again. */
    if (IS("measures")) {
        static pmix_proc_t *all;
        enum { NAMED = 100000 };
        if (all == NULL) {
            all = malloc(NAMED * sizeof *all);
            for (unsigned at = 0; at < NAMED; at++)
                PMIX_LOAD_PROCID(&all[at], me.nspace, PMIX_RANK_WILDCARD);
        }
        pmix_data_array_t named = {.type = PMIX_PROC, .size = next % 2 ? NAMED : 8000, .array = all};
        pmix_info_t monitor = of_truth(PMIX_MONITOR_PROC_RESOURCE_USAGE);
        PMIX_LOAD_KEY(info[0].key, PMIX_MONITOR_TARGET_PROCS);
        info[0].flags = 0;
        info[0].value = (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = &named};
        return PMIx_Process_monitor_nb(&monitor, PMIX_SUCCESS, info, 1, told, NULL);
    }
    if (IS("looks")) {
        pmix_info_t monitor = of_truth(PMIX_MONITOR_PROC_RESOURCE_USAGE);
        return PMIx_Process_monitor_nb(&monitor, PMIX_SUCCESS, NULL, 0, told, NULL);
    }
    if (IS("usages")) {
        static pmix_query_t all[4000];
        char *one[2] = {PMIX_QUERY_MEMORY_USAGE, NULL};
        info[0] = of_text(PMIX_NSPACE, me.nspace);
        for (unsigned at = 0; at < 4000; at++)
            all[at] = (pmix_query_t){.keys = one, .qualifiers = info, .nqual = 1};
        return PMIx_Query_info_nb(all, 4000, told, NULL);
    }
    /* Nobody listens, and each is told of each. */
    if (IS("checkpoints")) {
        static pmix_proc_t all[8000];
        for (unsigned at = 0; at < 8000; at++)
            all[at] = me;
        info[0] = of_text(PMIX_JOB_CTRL_CHECKPOINT, text(1 << 20));
        info[1] = of_truth(PMIX_JOB_CTRL_CHECKPOINT_EVENT);
        return PMIx_Job_control_nb(all, 8000, info, 2, told, NULL);
    }
    /* Ends that are asked for under long names, of a process that takes no notice. */
    if (IS("named-ends")) {
        if (next == 1)
            signal(SIGTERM, SIG_IGN);
        info[0] = of_truth(PMIX_JOB_CTRL_TERMINATE);
        info[1] = of_text(PMIX_JOB_CTRL_ID, text(8 << 20));
        PMIx_Job_control(&me, 1, info, 2, NULL, NULL);
        if (next % 64 == 0) {
            info[0] = of_text(PMIX_JOB_CTRL_CANCEL, NULL);
            PMIx_Job_control(&me, 1, info, 1, NULL, NULL);
        }
        return PMIX_ERROR;
    }
    if (IS("aborts")) {
        pmix_proc_t nobody;
        PMIX_LOAD_PROCID(&nobody, me.nspace, 4000);
        PMIx_Abort(1, text(30 << 20), &nobody, 1);
        return PMIX_ERROR;
    }
    /* Each of many keys with each of many qualifiers. */
    if (IS("qualified-queries")) {
        static pmix_info_t many[8000];
        static char words[8000][16];
        pmix_query_t query = {0};
        for (int at = 0; at < 8000; at++) {
            many[at] = of_number("unknown", at);
            snprintf(words[at], 16, "pmix.k%d", at);
            names[at] = words[at];
        }
        names[8000] = NULL;
        query = (pmix_query_t){.keys = names, .qualifiers = many, .nqual = 8000};
        return PMIx_Query_info_nb(&query, 1, told, NULL);
    }
    /* Reports of who waits and of the server's load, thousands at a time. */
    if (IS("reports")) {
        static pmix_query_t all[4000];
        static char *one[] = {"instanton.waiting", NULL}, *other[] = {"instanton.load", NULL};
        if (next < 5000)
            return PMIx_Get_nb(&pair[next % 2], name, NULL, 0, got, NULL);
        for (unsigned at = 0; at < 4000; at++)
            all[at] = (pmix_query_t){.keys = at % 2 ? one : other};
        return PMIx_Query_info_nb(all, 4000, told, NULL);
    }
    if (IS("allocations")) {
        info[0] = of_number(PMIX_ALLOC_NUM_NODES, 1);
        info[0].value.type = PMIX_UINT64;
        return PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, info, 1, told, NULL);
    }
    fprintf(stderr, "there is no kind %s\n", kind);
    exit(2);
}

static double seconds(const struct rusage *of)
{
    return (double)(of->ru_utime.tv_sec + of->ru_stime.tv_sec) +
           (double)(of->ru_utime.tv_usec + of->ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "program") == 0)
        return 0;
    if (argc == 3 && strcmp(argv[1], "mumble") == 0) {
        for (int at = 0; at < 15 << 4; at++) {
            fwrite(text(64 << 10), 1, 64 << 10, stdout);
            fwrite(text(64 << 10), 1, 64 << 10, stderr);
        }
        fflush(stdout);
        while (access(argv[2], F_OK) != 0)
            usleep(100000);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "gets-by-message") == 0)
        setenv("INSTANTON_SHM", "off", 1);
    if (argc == 3 && strcmp(argv[1], "tool") == 0) {
        unsetenv("PMIX_NAMESPACE");
        unsetenv("PMIX_RANK");
        return PMIx_tool_init(&me, NULL, 0) == PMIX_SUCCESS ? PMIx_tool_finalize() : 1;
    }
    if (argc == 4 && strcmp(argv[3], "tool") == 0) {
        snprintf(over, sizeof over, "%s", argv[2]);
        return tool_floods(argv[1]);
    }
    if (argc != 3) {
        fprintf(stderr, "usage: attacks victim|KIND DIR\n");
        return 2;
    }
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    for (int rank = 0; rank < 2; rank++)
        PMIX_LOAD_PROCID(&pair[rank], me.nspace, (pmix_rank_t)rank);
    with_victim[0] = pair[0];
    with_victim[1] = me;
    if (strcmp(argv[1], "victim") == 0 || strcmp(argv[1], "free-victim") == 0) {
        if (strcmp(argv[1], "victim") == 0)
            settle();
        int status = victim(argv[2]);
        if (status != 0)
            fprintf(stderr, "a victim fails at step %d\n", status);
        PMIx_Finalize(NULL, 0);
        return status;
    }
    snprintf(over, sizeof over, "%s/0", argv[2]);
    if (strcmp(argv[1], "link") == 0) {
        if (access(over, F_OK) != 0)
            spawn_more("link", 1);
        return PMIx_Finalize(NULL, 0);
    }
    double begin = now();
    while (!is_over()) {
        if (under_way > UNDER_WAY) {
            burn();
            continue;
        }
        begin_one();
        pmix_status_t status = request(argv[1]);
        if (status != PMIX_SUCCESS)
            end_one();
        /* Who is cut off asks nothing any more, and so burns nothing. */
        if (is_cut)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    struct rusage self, children;
    /* Clones see the file as well; they are counted once they have ended. */
    while (wait(NULL) > 0)
        ;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    snprintf(over, sizeof over, "%s/burnt-%u", argv[2], me.rank);
    FILE *file = fopen(over, "w");
    if (file != NULL) {
        double took = now() - begin;
        fprintf(file, "%.2f %.2f\n", (seconds(&self) + seconds(&children)) / took, next / took);
        fclose(file);
    }
    /* Whatever waits is left to the server. */
    _exit(0);
}
