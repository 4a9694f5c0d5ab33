/* Attributes, published data, and lists of attributes. */
#include "families.h"

static int five = 5;

static void print(const char *what, const pmix_info_t *info) {
    printf("%s: key of %zu bytes, flags %x, type %d", what, strlen(info->key), info->flags, info->value.type);
    printf(PMIX_INT == info->value.type ? ", %d\n" : "\n", info->value.data.integer);
}

static void loaded(void) {
    static char key[2000];
    size_t lengths[] = {0, 1, 510, 511, 512, 1999};
    pmix_info_t info, copy;
    for (int i = 0; i < 6; i++) {
        memset(key, 'x', sizeof(key));
        key[lengths[i]] = '\0';
        printf("load: %d\n", PMIx_Info_load(&info, key, &five, PMIX_INT));
        print("loaded", &info);
    }
    printf("without a key: %d\n", PMIx_Info_load(&info, NULL, &five, PMIX_INT));

    PMIX_INFO_LOAD(&info, "key", &five, PMIX_INT);
    PMIX_INFO_REQUIRED(&info);
    memset(&copy, 0, sizeof(copy));
    printf("xfer: %d\n", PMIx_Info_xfer(&copy, &info));
    print("copied", &copy);
    printf("required %d, optional %d\n", PMIX_INFO_IS_REQUIRED(&copy), PMIX_INFO_IS_OPTIONAL(&copy));
    info.flags = ~0u;
    PMIX_INFO_XFER(&copy, &info);
    print("all flags", &copy);
    PMIX_INFO_CONSTRUCT(&info);
    printf("xfer of nothing: %d\n", PMIx_Info_xfer(&copy, &info));
    print("copied", &copy);
    printf("xfer from nowhere: %d, to nowhere: %d\n", PMIx_Info_xfer(&copy, NULL), PMIx_Info_xfer(NULL, &info));

    char mine[] = "mine";
    info.value.type = PMIX_STRING;
    info.value.data.string = mine;
    PMIX_INFO_SET_PERSISTENT(&info);
    PMIX_INFO_XFER(&copy, &info);
    printf("persistent: the same %d, still %d\n", mine == copy.value.data.string, !!PMIX_INFO_IS_PERSISTENT(&copy));
}

static void truth(void) {
    char *words[] = {"true", "True", "yes", "YES", "1", "0", "no", "n", "false", "F", "maybe", "", "2", " true", "01"};
    pmix_info_t info;
    bool flags[] = {false, true};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        PMIX_INFO_LOAD(&info, "k", words[i], PMIX_STRING);
        printf("'%s' is %s\n", words[i], PMIX_INFO_TRUE(&info) ? "true" : "not true");
        PMIX_INFO_DESTRUCT(&info);
    }
    for (int i = 0; i < 2; i++) {
        PMIX_INFO_LOAD(&info, "k", &flags[i], PMIX_BOOL);
        printf("%d is %s\n", flags[i], PMIX_INFO_TRUE(&info) ? "true" : "not true");
    }
    for (int type = 0; type < 70; type++) {
        memset(&info, 0, sizeof(info));
        info.value.type = (pmix_data_type_t)type;
        if (PMIX_STRING != type) {
            printf("of type %d: %s\n", type, PMIX_INFO_TRUE(&info) ? "true" : "not true");
        }
    }
}

static void created(void) {
    pmix_info_t *infos, one;
    PMIX_INFO_CREATE(infos, 3);
    print("first", &infos[0]);
    print("second", &infos[1]);
    PMIX_INFO_LOAD(&infos[0], "key", "text", PMIX_STRING);
    PMIX_INFO_FREE(infos, 3);
    printf("freed: %d\n", NULL == infos);
    memset(&one, 1, sizeof(one));
    PMIX_INFO_CONSTRUCT(&one);
    print("constructed", &one);
}

/* Headers of 5.0 have macros for these. */
#pragma weak PMIx_Pdata_load
#pragma weak PMIx_Pdata_xfer

static void published(void) {
    pmix_pdata_t data, copy;
#if PMIX_VERSION_MAJOR > 5
    if (NULL == PMIx_Pdata_load || NULL == PMIx_Pdata_xfer) {
        printf("published: no such functions\n");
        return;
    }
#endif
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_PDATA_CONSTRUCT(&copy);
    PMIX_PDATA_LOAD(&data, &a_proc, "key", "text", PMIX_STRING);
    PMIX_PDATA_XFER(&copy, &data);
    printf("published: %s by %s:%u is %s\n", copy.key, copy.proc.nspace, copy.proc.rank, copy.value.data.string);
    PMIX_PDATA_DESTRUCT(&data);
    PMIX_PDATA_DESTRUCT(&copy);
}

static void lists(void) {
    pmix_data_array_t array;
    pmix_info_t info;
    void *list = PMIx_Info_list_start();
    memset(&array, 1, sizeof(array));
    printf("convert an empty list: %d, to nowhere: %d, of none: %d\n", PMIx_Info_list_convert(list, &array),
           PMIx_Info_list_convert(list, NULL), PMIx_Info_list_convert(NULL, &array));
    printf("%d, %zu elements, %s\n", array.type, array.size, NULL == array.array ? "none" : "some");
    printf("add: %d %d %d\n", PMIx_Info_list_add(list, "number", &five, PMIX_INT),
           PMIx_Info_list_add(list, "text", "text", PMIX_STRING), PMIx_Info_list_add(list, "", NULL, PMIX_BOOL));
    PMIX_INFO_LOAD(&info, "mine", "kept", PMIX_STRING);
    PMIX_INFO_REQUIRED(&info);
    printf("insert: %d, xfer: %d\n", PMIx_Info_list_insert(list, &info), PMIx_Info_list_xfer(list, &info));
    print("inserted", &info);
    printf("convert: %d\n", PMIx_Info_list_convert(list, &array));
    for (size_t i = 0; i < array.size; i++) {
        print(((pmix_info_t *)array.array)[i].key, &((pmix_info_t *)array.array)[i]);
    }
    PMIx_Info_list_release(list);
    PMIx_Data_array_destruct(&array);
    printf("%d, %zu elements, %s\n", array.type, array.size, NULL == array.array ? "none" : "some");
    PMIX_INFO_DESTRUCT(&info);
}

void infos(void) {
    loaded();
    truth();
    created();
    published();
    lists();
}
