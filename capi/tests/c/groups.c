/* Groups of processes: all ten functions, in a job of four ranks that a launcher has started. */
#include "check.h"
#include "since.h"
#include "wait.h"
#include <unistd.h>

#define RANKS 4
static pmix_proc_t me, all[RANKS];

/* Counts completions, and keeps what the last of them brought. */
struct answer {
    int count;
    pmix_status_t status;
    size_t members;
};

static size_t members(pmix_info_t *info, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (PMIx_Check_key(info[i].key, PMIX_GROUP_MEMBERSHIP)) {
            CHECK(info[i].value.type == PMIX_DATA_ARRAY && info[i].value.data.darray->type == PMIX_PROC);
            return info[i].value.data.darray->size;
        }
    return 0;
}

static void info_done(pmix_status_t status, pmix_info_t *info, size_t n, void *data, pmix_release_cbfunc_t release,
                      void *what) {
    struct answer *answer = data;
    answer->status = status;
    answer->members = members(info, n);
    if (release)
        release(what);
    set(&answer->count);
}

static void op_done(pmix_status_t status, void *data) {
    struct answer *answer = data;
    answer->status = status;
    set(&answer->count);
}

static void ends(struct answer *answer, pmix_status_t status, size_t size) {
    until(&answer->count, 1);
    IS(status, answer->status);
    CHECK(answer->members == size);
    *answer = (struct answer){0};
}

static void meet(void) { OK(PMIx_Fence(NULL, 0, NULL, 0)); }

/* Handlers of the events of groups: count, join from within, or give up. */
static int left, invited, declined, joined_inside;
static struct answer inside;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *data) {
    (void)id, (void)results, (void)nresults;
    char *group = NULL;
    for (size_t i = 0; i < ninfo; i++)
        if (PMIx_Check_key(info[i].key, PMIX_GROUP_ID))
            group = info[i].value.data.string;
    CHECK(group != NULL);
    if (status == PMIX_GROUP_INVITED && me.rank == 2) {
        /* Here only the form that does not wait can be used. */
        pmix_info_t *none = NULL;
        size_t n = 0;
        CHECK(PMIx_Group_join(group, source, PMIX_GROUP_ACCEPT, NULL, 0, &none, &n) != PMIX_SUCCESS);
        OK(PMIx_Group_join_nb(group, source, PMIX_GROUP_ACCEPT, NULL, 0, info_done, &inside));
        set(&joined_inside);
    }
    next(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
    set(status == PMIX_GROUP_LEFT ? &left : status == PMIX_GROUP_INVITED ? &invited : &declined);
}

static void registered(pmix_status_t status, size_t id, void *count) {
    (void)id;
    OK(status);
    set(count);
}

/* Makes the group and returns its context id. */
static size_t construct(const char *name, size_t given) {
    pmix_info_t info[2], local, *results = NULL;
    size_t n = 0, context = 0;
    OK(PMIx_Info_load(&local, PMIX_GROUP_LOCAL_CID, &given, PMIX_SIZE));
    pmix_data_array_t array = {PMIX_INFO, 1, &local};
    OK(PMIx_Info_load(&info[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL));
    OK(PMIx_Info_load(&info[1], PMIX_GROUP_INFO, &array, PMIX_DATA_ARRAY));
    OK(PMIx_Group_construct(name, all, RANKS, info, 2, &results, &n));
    CHECK(members(results, n) == RANKS && PMIx_Check_key(results[0].key, PMIX_GROUP_CONTEXT_ID));
    OK(PMIx_Value_get_number(&results[0].value, &context, PMIX_SIZE));
    PMIx_Info_free(results, n);
    PMIx_Info_destruct(&info[1]);
    return context;
}

static void collective(void) {
    size_t contexts[2] = {construct("one", 10 + me.rank), construct("two", 20 + me.rank)};
    CHECK(contexts[0] != contexts[1]);
    for (int group = 0; group < 2; group++)
        for (pmix_rank_t rank = 0; rank < RANKS; rank++) {
            pmix_info_t context;
            pmix_value_t *value;
            OK(PMIx_Info_load(&context, PMIX_GROUP_CONTEXT_ID, &contexts[group], PMIX_SIZE));
            OK(PMIx_Get(&all[rank], PMIX_GROUP_LOCAL_CID, &context, 1, &value));
            CHECK(value->type == PMIX_SIZE && value->data.size == (group + 1) * 10 + rank);
            PMIx_Value_free(value, 1);
        }
    /* The name of a group stands for its members. */
    pmix_proc_t everybody, third;
    pmix_value_t *value;
    PMIx_Proc_load(&everybody, "one", PMIX_RANK_WILDCARD);
    PMIx_Proc_load(&third, "one", 3);
    OK(PMIx_Fence(&everybody, 1, NULL, 0));
    OK(PMIx_Get(&third, PMIX_LOCAL_RANK, NULL, 0, &value));
    CHECK(value->type == PMIX_UINT16 && value->data.uint16 == 3);
    PMIx_Value_free(value, 1);
    IS(PMIX_ERR_EXISTS, PMIx_Group_construct("one", all, RANKS, NULL, 0, NULL, NULL));
    OK(PMIx_Group_destruct("one", NULL, 0));
    struct answer answer = {0};
    OK(PMIx_Group_destruct_nb("two", NULL, 0, op_done, &answer));
    ends(&answer, PMIX_SUCCESS, 0);
    /* No results wanted, and the twin that does not wait. */
    OK(PMIx_Group_construct("one", all, RANKS, NULL, 0, NULL, NULL));
    OK(PMIx_Group_construct_nb("two", all, RANKS, NULL, 0, info_done, &answer));
    ends(&answer, PMIX_SUCCESS, RANKS);
}

static void refusals(void) {
    pmix_info_t *results = (void *)1;
    size_t n = 1;
    char name[PMIX_MAX_NSLEN + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_construct(NULL, all, RANKS, NULL, 0, &results, &n));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_construct("", all, RANKS, NULL, 0, &results, &n));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_construct(name, all, RANKS, NULL, 0, &results, &n));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_construct("g", NULL, RANKS, NULL, 0, &results, &n));
    CHECK(results == NULL && n == 0);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_invite("g", NULL, 0, NULL, 0, &results, &n));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_join("g", NULL, 7, NULL, 0, &results, &n));
    IS(PMIX_ERR_NOT_FOUND, PMIx_Group_join("g", &all[0], PMIX_GROUP_ACCEPT, NULL, 0, &results, &n));
    IS(PMIX_ERR_NOT_FOUND, PMIx_Group_destruct("g", NULL, 0));
    IS(PMIX_ERR_NOT_FOUND, PMIx_Group_leave("g", NULL, 0));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_construct("g", all, 0, NULL, 0, NULL, NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Group_leave(NULL, NULL, 0));
}

/* Ranks 0 and 2 lead, and know only that they are two, or each other; 0 adds 1, and 2 adds 1 and 3. */
static void leaders(const char *name, bool know_each_other, bool waits) {
    pmix_info_t info[2], *results = NULL;
    pmix_proc_t both[] = {all[0], all[2]}, added[] = {all[1], all[3]};
    size_t n = 0, number = 2;
    struct answer answer = {0};
    pmix_data_array_t array = {PMIX_PROC, me.rank == 0 ? 1 : 2, added};
    bool leads = me.rank % 2 == 0;
    OK(PMIx_Info_load(&info[0], PMIX_GROUP_ADD_MEMBERS, &array, PMIX_DATA_ARRAY));
    OK(PMIx_Info_load(&info[1], PMIX_GROUP_BOOTSTRAP, &number, PMIX_SIZE));
    const pmix_proc_t *procs = !leads ? NULL : know_each_other ? both : &me;
    size_t nprocs = !leads ? 0 : know_each_other ? 2 : 1, ninfo = !leads ? 0 : know_each_other ? 1 : 2;
    if (waits) {
        OK(PMIx_Group_construct(name, procs, nprocs, info, ninfo, &results, &n));
        CHECK(members(results, n) == RANKS);
        PMIx_Info_free(results, n);
    } else {
        OK(PMIx_Group_construct_nb(name, procs, nprocs, info, ninfo, info_done, &answer));
        ends(&answer, PMIX_SUCCESS, RANKS);
    }
    PMIx_Info_destruct(&info[0]);
    /* Leaders come first. */
    pmix_proc_t second;
    pmix_value_t *value;
    PMIx_Proc_load(&second, name, 1);
    OK(PMIx_Get(&second, PMIX_LOCAL_RANK, NULL, 0, &value));
    CHECK(value->type == PMIX_UINT16 && value->data.uint16 == 2);
    PMIx_Value_free(value, 1);
    OK(PMIx_Group_destruct(name, NULL, 0));
}

static void leaving(void) {
    struct answer answer = {0};
    if (me.rank == 3) {
        OK(PMIx_Group_leave("one", NULL, 0));
        /* The others end it when this one has left both. */
        IS(PMIX_ERR_NOT_A_MEMBER, PMIx_Group_leave("one", NULL, 0));
        OK(PMIx_Group_leave_nb("two", NULL, 0, op_done, &answer));
        ends(&answer, PMIX_SUCCESS, 0);
    } else {
        until(&left, 2);
        OK(PMIx_Group_destruct("one", NULL, 0));
        OK(PMIx_Group_destruct("two", NULL, 0));
    }
    meet();
}

/* Rank 0 invites the others: 1 joins, 2 joins from its handler, 3 declines. */
static void invitations(bool waits) {
    pmix_info_t *results = NULL;
    size_t n = 0;
    struct answer answer = {0};
    const char *name = waits ? "three" : "four";
    int before = invited;
    meet();
    switch (me.rank) {
    case 0:
        if (waits) {
            IS(PMIX_ERR_PARTIAL_SUCCESS, PMIx_Group_invite(name, all, RANKS, NULL, 0, &results, &n));
            CHECK(members(results, n) == 3);
            PMIx_Info_free(results, n);
        } else {
            OK(PMIx_Group_invite_nb(name, &all[1], RANKS - 1, NULL, 0, info_done, &answer));
            ends(&answer, PMIX_ERR_PARTIAL_SUCCESS, 3);
        }
        until(&declined, waits ? 1 : 2);
        break;
    case 1:
        until(&invited, before + 1);
        OK(PMIx_Group_join(name, &all[0], PMIX_GROUP_ACCEPT, NULL, 0, &results, &n));
        CHECK(members(results, n) == 3);
        PMIx_Info_free(results, n);
        break;
    case 2:
        until(&joined_inside, waits ? 1 : 2);
        ends(&inside, PMIX_SUCCESS, 3);
        break;
    case 3:
        until(&invited, before + 1);
        OK(PMIx_Group_join(name, &all[0], PMIX_GROUP_DECLINE, NULL, 0, &results, &n));
        CHECK(results == NULL && n == 0);
    }
    if (me.rank != 3)
        OK(PMIx_Group_destruct(name, NULL, 0));
    meet();
}

int main(void) {
    /* Nothing here takes long: whatever hangs is killed. */
    alarm(1000);
    OK(PMIx_Init(&me, NULL, 0));
    for (pmix_rank_t rank = 0; rank < RANKS; rank++)
        PMIx_Proc_load(&all[rank], me.nspace, rank);
    pmix_status_t codes[] = {PMIX_GROUP_LEFT, PMIX_GROUP_INVITED, PMIX_GROUP_INVITE_DECLINED};
    int handlers = 0;
    PMIx_Register_event_handler(codes, 3, NULL, 0, on_event, registered, &handlers);
    until(&handlers, 1);
    meet();
    refusals();
    collective();
    leaving();
    invitations(true);
    invitations(false);
    for (int turn = 0; turn < 4; turn++)
        leaders("led", turn % 2, turn / 2);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}
