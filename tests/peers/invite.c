/* Groups by invitation: rank 0 invites all, the others accept in their handlers.
 *   invite            the leader waits in PMIx_Group_invite
 *   invite announce   it calls PMIx_Group_invite_nb, and says itself that the group is complete
 *   invite meet       the first, and all meet in the group afterwards, by its name
 * A process prints all that it hears in one piece, so that jobs can be compared line by line. */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me, all;
static uint32_t size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int complete, invited, answered;

static void say(const char *what, int number) {
    char line[100];
    int length = snprintf(line, sizeof line, "%u: %s %d\n", me.rank, what, number);
    if (write(1, line, (size_t)length) != length) _exit(3);
}

static void count(int *what) {
    pthread_mutex_lock(&lock);
    ++*what;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await(int *what, int least) {
    pthread_mutex_lock(&lock);
    while (*what < least) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void joined(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *data, pmix_release_cbfunc_t release,
                   void *with) {
    (void)info, (void)ninfo, (void)data;
    if (status != PMIX_SUCCESS) say("join ended with", status);
    if (release) release(with);
}

static void hear(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *with) {
    (void)id, (void)results, (void)nresults;
    const char *group = "none";
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_GROUP_ID)) group = info[i].value.data.string;
    if (status == PMIX_GROUP_INVITED && me.rank != 0) {
        say(strcmp(group, "guests") ? "invited to another group by" : "invited by", (int)source->rank);
        pmix_status_t asked = PMIx_Group_join_nb(group, source, PMIX_GROUP_ACCEPT, NULL, 0, joined, NULL);
        if (asked != PMIX_SUCCESS) say("join", asked);
        count(&invited);
    }
    if (status == PMIX_GROUP_CONSTRUCT_COMPLETE && me.rank != 0) {
        say("complete, says", (int)source->rank);
        count(&complete);
    }
    done(PMIX_SUCCESS, NULL, 0, NULL, NULL, with);
}

/* For the leader that announces the group: its own library takes what comes from PMIx_Group_invite_nb. */
static void gathered(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *data, pmix_release_cbfunc_t release,
                     void *with) {
    (void)info, (void)ninfo, (void)data, (void)release, (void)with;
    say("gathered", status);
    count(&answered);
}

static void announce(void) {
    pmix_info_t info[3];
    pmix_data_array_t range = {PMIX_PROC, size, NULL};
    pmix_proc_t procs[size];
    bool yes = true;
    for (uint32_t rank = 0; rank < size; rank++) PMIX_LOAD_PROCID(&procs[rank], me.nspace, rank);
    range.array = procs;
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &range, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_GROUP_ID, "guests", PMIX_STRING);
    say("announced", PMIx_Notify_event(PMIX_GROUP_CONSTRUCT_COMPLETE, &me, PMIX_RANGE_CUSTOM, info, 3, NULL, NULL));
}

static void registered(pmix_status_t status, size_t id, void *data) {
    (void)id, (void)data;
    if (status != PMIX_SUCCESS) say("register", status);
    count(&answered);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    alarm(300);
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 1;
    pmix_value_t *value;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS) return 1;
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    pmix_status_t codes[] = {PMIX_GROUP_INVITED, PMIX_GROUP_CONSTRUCT_COMPLETE};
    PMIx_Register_event_handler(codes, 2, NULL, 0, hear, registered, NULL);
    await(&answered, 1);
    if (PMIx_Fence(&all, 1, NULL, 0) != PMIX_SUCCESS) return 1;
    if (me.rank == 0) {
        pmix_info_t *results = NULL;
        size_t nresults = 0;
        pmix_proc_t procs[size];
        for (uint32_t rank = 0; rank < size; rank++) PMIX_LOAD_PROCID(&procs[rank], me.nspace, rank);
        if (!strcmp(how, "announce")) {
            pmix_status_t asked = PMIx_Group_invite_nb("guests", procs, size, NULL, 0, gathered, NULL);
            say("invite", asked);
            if (asked == PMIX_SUCCESS) {
                await(&answered, 2);
                announce();
            }
        } else {
            say("invite", PMIx_Group_invite("guests", procs, size, NULL, 0, &results, &nresults));
        }
    } else {
        await(&invited, 1);
        await(&complete, 1);
    }
    if (!strcmp(how, "meet")) {
        pmix_proc_t group;
        PMIX_LOAD_PROCID(&group, "guests", PMIX_RANK_WILDCARD);
        say("fence of the group", PMIx_Fence(&group, 1, NULL, 0));
    }
    if (PMIx_Fence(&all, 1, NULL, 0) != PMIX_SUCCESS) return 1;
    say("end", PMIx_Finalize(NULL, 0));
    return 0;
}
