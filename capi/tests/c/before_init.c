/* Answers of the interface to a program that has not called Init, and to one that nobody launched. */
#include "check.h"

/* A call that fails leaves nothing behind that a caller could free. */
#define BRINGS_NOTHING(call)                              \
    do {                                                  \
        answers = (pmix_info_t *)&me, nanswers = 77;      \
        CHECK((call) != PMIX_SUCCESS);                    \
        CHECK(answers == NULL && nanswers == 0);          \
    } while (0)

/* Arrays that are not there. */
static void nothing_is_left(void) {
    pmix_proc_t me;
    pmix_info_t *answers;
    size_t nanswers;
    char *text = (char *)&me;
    PMIx_Proc_load(&me, "nobody", 0);
    BRINGS_NOTHING(PMIx_Query_info(NULL, 1, &answers, &nanswers));
    BRINGS_NOTHING(PMIx_Job_control(NULL, 1, NULL, 0, &answers, &nanswers));
    BRINGS_NOTHING(PMIx_Validate_credential(NULL, NULL, 0, &answers, &nanswers));
    BRINGS_NOTHING(PMIx_Allocation_request(PMIX_ALLOC_NEW, NULL, 1, &answers, &nanswers));
    BRINGS_NOTHING(PMIx_Process_monitor(NULL, PMIX_ERROR, NULL, 0, &answers, &nanswers));
    BRINGS_NOTHING(PMIx_Group_construct(NULL, &me, 1, NULL, 0, &answers, &nanswers));
    BRINGS_NOTHING(PMIx_Group_invite(NULL, &me, 1, NULL, 0, &answers, &nanswers));
    BRINGS_NOTHING(PMIx_Group_join(NULL, &me, PMIX_GROUP_ACCEPT, NULL, 0, &answers, &nanswers));
    CHECK(PMIx_generate_regex(NULL, &text) != PMIX_SUCCESS && text == NULL);
    text = (char *)&me;
    CHECK(PMIx_generate_ppn(NULL, &text) != PMIX_SUCCESS && text == NULL);
}

int main(void) {
    pmix_proc_t me, again;
    pmix_value_t *value = NULL, seven = {.type = PMIX_INT, .data.integer = 7};
    PMIx_Proc_load(&me, "nobody", 0);
    CHECK(!PMIx_Initialized());
    IS(PMIX_ERR_INIT, PMIx_Get(&me, "k", NULL, 0, &value));
    IS(PMIX_ERR_INIT, PMIx_Put(PMIX_GLOBAL, "k", &seven));
    IS(PMIX_ERR_INIT, PMIx_Commit());
    IS(PMIX_ERR_INIT, PMIx_Fence(NULL, 0, NULL, 0));
    OK(PMIx_Finalize(NULL, 0));
    IS(PMIX_ERR_INIT, PMIx_Spawn(NULL, 0, NULL, 0, me.nspace));
    char *version[] = {PMIX_QUERY_STABLE_ABI_VERSION, PMIX_QUERY_PROVISIONAL_ABI_VERSION, NULL}, *names[] = {PMIX_QUERY_NAMESPACES, NULL};
    pmix_query_t query = {.keys = version};
    pmix_info_t *answers;
    size_t nanswers;
    OK(PMIx_Query_info(&query, 1, &answers, &nanswers));
    char abi[64];
    CHECK(nanswers == 2);
    snprintf(abi, sizeof abi, "Stable ABI: %s, Provisional ABI: %s)", answers[0].value.data.string,
             answers[1].value.data.string);
    CHECK(strstr(PMIx_Get_version(), abi));
    PMIx_Info_free(answers, nanswers);
    query.keys = names;
    IS(PMIX_ERR_INIT, PMIx_Query_info(&query, 1, &answers, &nanswers));
    CHECK(answers == NULL && nanswers == 0);

    /* A required unknown attribute is refused, by the first Init and by every other one. */
    pmix_info_t wish;
    OK(PMIx_Info_load(&wish, "site.wish", NULL, PMIX_BOOL));
    wish.flags |= PMIX_INFO_REQD;
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Init(&me, &wish, 1));
    CHECK(!PMIx_Initialized());
    nothing_is_left();
    for (int round = 0; round < 2; round++) {
        IS(PMIX_ERR_UNREACH, PMIx_Init(&me, NULL, 0));
        IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Init(&again, &wish, 1));
        IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Fence(NULL, 0, &wish, 1));
        CHECK(PMIx_Initialized() && !strncmp(me.nspace, "singleton.", 10) && me.rank == 0);
        IS(PMIX_ERR_UNREACH, PMIx_Init(&again, NULL, 0));
        CHECK(PMIx_Check_procid(&me, &again));
        IS(PMIX_ERR_UNREACH, PMIx_Init(NULL, NULL, 0));
        OK(PMIx_Finalize(NULL, 0));
        OK(PMIx_Finalize(NULL, 0));
        CHECK(PMIx_Initialized());

        OK(PMIx_Put(PMIX_GLOBAL, "k", &seven));
        OK(PMIx_Get(&me, "k", NULL, 0, &value));
        CHECK(value->type == PMIX_INT && value->data.integer == 7);
        PMIx_Value_free(value, 1);
        pmix_proc_t other = me;
        other.rank = 5;
        pmix_value_t text = {.type = PMIX_STRING, .data.string = "stored"};
        OK(PMIx_Store_internal(&other, "pmix.loc", &text));
        OK(PMIx_Get(&other, "pmix.loc", NULL, 0, &value));
        CHECK(value->type == PMIX_STRING && !strcmp(value->data.string, "stored"));
        PMIx_Value_free(value, 1);
        pmix_info_t optional;
        OK(PMIx_Info_load(&optional, "pmix.optional", NULL, PMIX_BOOL));
        IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&me, "absent", &optional, 1, &value));
        /* A Get that fails leaves nothing where its value would be, whatever it fails on. */
        char endless[600];
        memset(endless, 'k', sizeof endless - 1);
        endless[sizeof endless - 1] = 0;
        value = &seven;
        IS(PMIX_ERR_BAD_PARAM, PMIx_Get(&me, endless, &optional, 1, &value));
        CHECK(value == NULL);
        memset(&optional.key, 'x', sizeof optional.key);
        value = &seven;
        IS(PMIX_ERR_BAD_PARAM, PMIx_Get(&me, "k", &optional, 1, &value));
        CHECK(value == NULL);
        /* But the room that he brings stays his. */
        pmix_value_t room, *brought = &room;
        pmix_info_t both[2];
        both[0] = optional;
        OK(PMIx_Info_load(&both[1], PMIX_GET_STATIC_VALUES, NULL, PMIX_BOOL));
        IS(PMIX_ERR_BAD_PARAM, PMIx_Get(&me, "k", both, 2, &brought));
        IS(PMIX_ERR_BAD_PARAM, PMIx_Get(&me, endless, &both[1], 1, &brought));
        CHECK(brought == &room);
        IS(PMIX_ERR_NOT_FOUND, PMIx_Get(&me, "", NULL, 0, &value));
        IS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, NULL, &seven));
        IS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "k", NULL));
#ifdef PMIX_DEL_GLOBAL
        IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Put(PMIX_DEL_GLOBAL, "k", NULL));
#endif

        pmix_info_t how;
        pmix_value_t place, *filled = &place, *looked, *again_looked;
        OK(PMIx_Info_load(&how, "pmix.get.static", NULL, PMIX_BOOL));
        OK(PMIx_Get(&other, "pmix.loc", &how, 1, &filled));
        CHECK(filled == &place && !strcmp(place.data.string, "stored"));
        PMIx_Value_destruct(&place);
        OK(PMIx_Info_load(&how, "pmix.get.pntrs", NULL, PMIX_BOOL));
        OK(PMIx_Get(&other, "pmix.loc", &how, 1, &looked));
        OK(PMIx_Get(&other, "pmix.loc", &how, 1, &again_looked));
        CHECK(looked == again_looked && !strcmp(looked->data.string, "stored"));
        OK(PMIx_Store_internal(&other, "pmix.loc", &seven));
        OK(PMIx_Get(&other, "pmix.loc", &how, 1, &again_looked));
        CHECK(again_looked->data.integer == 7 && !strcmp(looked->data.string, "stored"));
        OK(PMIx_Fence(NULL, 0, NULL, 0));
        nothing_is_left();
        OK(PMIx_Finalize(NULL, 0));
        CHECK(!PMIx_Initialized());
        IS(PMIX_ERR_INIT, PMIx_Get(&me, "k", NULL, 0, &value));
    }
    return 0;
}
