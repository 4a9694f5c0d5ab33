/* Calls of a process without a launcher, with nothing but what releases since 4.2.0 export: compiled with our headers it
 * prints the same on our library and on others. */
#include <pmix.h>
#include <pmix_server.h>

static void show(const char *what, pmix_status_t status) {
    printf("%s: %d\n", what, status);
}

int main(void) {
    pmix_proc_t me = PMIX_PROC_STATIC_INIT;
    pmix_value_t value = PMIX_VALUE_STATIC_INIT, *got = NULL;
    pmix_info_t info = PMIX_INFO_STATIC_INIT;
    pmix_data_array_t array = PMIX_DATA_ARRAY_STATIC_INIT;
    pmix_status_t rc;
    uint32_t seven = 7, eight = 0;
    void *list, *where = &eight;
    size_t size = 0;

    printf("type %s, scope %s, range %s\n", PMIx_Data_type_string(PMIX_DATA_ARRAY), PMIx_Scope_string(PMIX_REMOTE),
           PMIx_Data_range_string(PMIX_RANGE_NAMESPACE));
    PMIX_INFO_LOAD(&info, PMIX_UNIV_SIZE, &seven, PMIX_UINT32);
    PMIX_INFO_LIST_START(list);
    PMIX_INFO_LIST_XFER(rc, list, &info);
    show("xfer", rc);
    PMIX_INFO_LIST_ADD(rc, list, PMIX_HOSTNAME, "here", PMIX_STRING);
    show("add", rc);
    PMIX_INFO_LIST_CONVERT(rc, list, &array);
    PMIX_INFO_LIST_RELEASE(list);
    pmix_info_t *converted = (pmix_info_t *)array.array;
    printf("convert: %d, %zu infos, %s = %u, %s = %s\n", rc, array.size, converted[0].key,
           (unsigned)converted[0].value.data.uint32, converted[1].key, converted[1].value.data.string);
    PMIX_DATA_ARRAY_DESTRUCT(&array);

    show("before init", PMIx_Commit());
    rc = PMIx_Init(&me, NULL, 0);
    printf("init: %d, rank %u, %d\n", rc, (unsigned)me.rank, PMIx_Initialized());
    PMIX_VALUE_LOAD(&value, &seven, PMIX_UINT32);
    show("put", PMIx_Put(PMIX_GLOBAL, "portable", &value));
    PMIX_VALUE_DESTRUCT(&value);
    show("commit", PMIx_Commit());
    rc = PMIx_Get(&me, "portable", NULL, 0, &got);
    show("get", rc);
    if (rc == PMIX_SUCCESS) {
        PMIX_VALUE_UNLOAD(rc, got, &where, &size);
        printf("value: %d, %u in %zu bytes\n", rc, (unsigned)eight, size);
        free(got);
    }
    show("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
