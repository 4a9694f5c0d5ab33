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

void end_one(void)
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

/* Makes one request; returns success where an answer comes to a callback. */
static pmix_status_t request(const char *kind)
{
    pmix_status_t status = PMIX_ERROR;
    next++;
    if (data_request(kind, &status) || asked_request(kind, &status) || odd_request(kind, &status) ||
        mixed_request(kind, &status) || multiplied_request(kind, &status))
        return status;
    if (raw_request(kind) || pmi_request(kind) || silent_request(kind))
        return PMIX_ERROR;
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
    if (strcmp(argv[1], "leaver") == 0)
        return leaves_behind();
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
        /* A process that is cut off asks nothing any more, and so burns nothing. */
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
    /* Requests that wait are left to the server. */
    _exit(0);
}
