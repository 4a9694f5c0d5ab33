/* Helpers that came with releases after 4.2.2: those of 5.0.11 that it neither crashes in nor answers against its own rules. */
#include "families.h"
#include "../since.h"

#if PMIX_VERSION_MAJOR > 4
static char what[64];

static void show_text(const char *name, char *text) {
    show(name, text);
    free(text);
}

/* In memory that was zero before: what lies between members is nobody's. */
#define FAMILY(Name, type)                                                        \
    do {                                                                          \
        type one, *two;                                                           \
        memset(&one, 0, sizeof(one));                                             \
        PMIx_##Name##_construct(&one);                                            \
        show_bytes("constructed " #Name, &one, sizeof(one));                      \
        PMIx_##Name##_destruct(&one);                                             \
        PMIx_##Name##_destruct(&one);                                             \
        two = PMIx_##Name##_create(2);                                            \
        PMIx_##Name##_free(two, 2);                                               \
        PMIx_##Name##_free(NULL, 3);                                              \
        printf("created none: %s\n", PMIx_##Name##_create(0) ? "some" : "none");  \
    } while (0)

static void constructed(void) {
    FAMILY(Value, pmix_value_t);
    FAMILY(Info, pmix_info_t);
    FAMILY(Pdata, pmix_pdata_t);
    FAMILY(App, pmix_app_t);
    FAMILY(Query, pmix_query_t);
    FAMILY(Regattr, pmix_regattr_t);
    FAMILY(Proc, pmix_proc_t);
    FAMILY(Proc_info, pmix_proc_info_t);
    FAMILY(Proc_stats, pmix_proc_stats_t);
    FAMILY(Disk_stats, pmix_disk_stats_t);
    FAMILY(Net_stats, pmix_net_stats_t);
    FAMILY(Node_stats, pmix_node_stats_t);
    FAMILY(Byte_object, pmix_byte_object_t);
    FAMILY(Envar, pmix_envar_t);
    FAMILY(Geometry, pmix_geometry_t);
    FAMILY(Endpoint, pmix_endpoint_t);
    FAMILY(Topology, pmix_topology_t);
    FAMILY(Cpuset, pmix_cpuset_t);
    FAMILY(Device_distance, pmix_device_distance_t);
    for (int dims = 0; dims < 3; dims++) {
        pmix_coord_t *coord = PMIx_Coord_create((size_t)dims, 1);
        printf("coord: %d of %zu, %s\n", coord->view, coord->dims, NULL == coord->coord ? "none" : "some");
        PMIx_Coord_free(coord, 1);
    }
}

static void loaded(void) {
    pmix_envar_t envar = {NULL, NULL, 0};
    pmix_byte_object_t bytes = {NULL, 0};
    pmix_data_buffer_t buffer, *other = PMIx_Data_buffer_create();
    pmix_regattr_t from, to;
    char *text = strdup("abc"), *out = text;
    size_t n = 7;
    PMIx_Envar_load(&envar, "NAME", "value", ':');
    printf("envar: %s %s %c\n", envar.envar, envar.value, envar.separator);
    PMIx_Envar_destruct(&envar);
    printf("empty: %d %d\n", NULL == envar.envar, NULL == envar.value);
    PMIx_Byte_object_load(&bytes, text, 3);
    printf("bytes: %d %zu\n", text == bytes.bytes, bytes.size);
    PMIx_Data_buffer_construct(&buffer);
    PMIx_Data_buffer_load(&buffer, bytes.bytes, bytes.size);
    printf("buffer: %zu %zu %d\n", buffer.bytes_allocated, buffer.bytes_used, text == buffer.base_ptr);
    PMIx_Data_buffer_unload(&buffer, &out, &n);
    printf("unloaded: %d %zu, %zu left\n", text == out, n, buffer.bytes_used);
    free(out);
    PMIx_Data_buffer_unload(NULL, &out, &n);
    printf("unloaded from nowhere: %s %zu\n", NULL == out ? "none" : "some", n);
    PMIx_Data_buffer_unload(other, &out, &n);
    printf("unloaded from an empty one: %s %zu\n", NULL == out ? "none" : "some", n);
    PMIx_Data_buffer_release(other);

    PMIx_Regattr_construct(&from);
    PMIx_Regattr_construct(&to);
    PMIx_Regattr_load(&from, "NAME", "key", PMIX_INT, "words");
    PMIx_Regattr_load(&from, NULL, NULL, PMIX_INT, "and more");
    PMIx_Regattr_xfer(&to, &from);
    printf("attribute: %s %s %d %s %s\n", to.name, to.string, to.type, to.description[0], to.description[1]);
    PMIx_Regattr_destruct(&from);
    PMIx_Regattr_destruct(&to);
}

static void arrays(void) {
    for (int type = 1; type < PMIX_STOR_MEDIUM; type++) {
        switch (type) {
        /* 5.0.11 makes an array without elements of these, and crashes in one of arrays. */
        case PMIX_KVAL: case PMIX_BUFFER: case 29: case 44: case PMIX_COMMAND: case PMIX_DATA_ARRAY: case PMIX_REGEX:
        case PMIX_JOB_STATE: case PMIX_TOPO: case PMIX_DEVTYPE: case PMIX_LOCTYPE: case PMIX_COMPRESSED_BYTE_OBJECT:
        case PMIX_DATA_BUFFER:
            continue;
        default: break;
        }
        pmix_data_array_t one, *two = PMIx_Data_array_create(2, (pmix_data_type_t)type);
        PMIx_Data_array_construct(&one, 2, (pmix_data_type_t)type);
        printf("array %d: %zu %zu %s\n", type, one.size, two->size, NULL == two->array ? "none" : "some");
        PMIx_Data_array_destruct(&one);
        printf("destructed: %d %zu %s\n", one.type, one.size, NULL == one.array ? "none" : "some");
        PMIx_Data_array_free(two);
    }
    PMIx_Data_array_free(NULL);
}

static void named(void) {
    pmix_rank_t ranks[] = {0, 7, PMIX_RANK_VALID, PMIX_RANK_WILDCARD, PMIX_RANK_UNDEF, PMIX_RANK_INVALID,
                           PMIX_RANK_LOCAL_NODE, PMIX_RANK_LOCAL_PEERS};
    char *keys[] = {"", "a", "ab", "pmix", "pmix.", "pmi", "PMIX"};
    static char cluster[200], job[200];
    pmix_nspace_t whole, left, right;
    pmix_proc_t proc, other;
    for (int i = 0; i < 8; i++) {
        PMIx_Load_procid(&proc, "job", ranks[i]);
        show_text("process", PMIx_Proc_string(&proc));
        for (int j = 0; j < 8; j++) {
            PMIx_Proc_load(&other, j % 2 ? "job" : "", ranks[j]);
            printf("%d %d: %d %d %d\n", i, j, PMIx_Check_rank(ranks[i], ranks[j]), PMIx_Check_procid(&proc, &other),
                   PMIx_Procid_invalid(&other));
        }
    }
    show_text("nobody", PMIx_Proc_string(NULL));
    for (int i = 0; i < 7; i++) {
        printf("key %s: %d %d\n", keys[i], PMIx_Check_reserved_key(keys[i]), PMIx_Nspace_invalid(keys[i]));
        for (int j = 0; j < 7; j++) {
            printf("and %s: %d %d\n", keys[j], PMIx_Check_key(keys[i], keys[j]), PMIx_Check_nspace(keys[i], keys[j]));
        }
    }
    memset(left, 0, sizeof(left));
    memset(right, 0, sizeof(right));
    PMIx_Load_nspace(whole, "c:job:x");
    PMIx_Multicluster_nspace_parse(whole, left, right);
    printf("parts: '%s' '%s'\n", left, right);
    /* Too long together. */
    memset(cluster, 'c', sizeof(cluster) - 1);
    memset(job, 'j', sizeof(job) - 1);
    PMIx_Load_nspace(left, cluster);
    PMIx_Load_nspace(right, job);
    memset(whole, 0, sizeof(whole));
    PMIx_Multicluster_nspace_construct(whole, left, right);
    show("too long", whole);
}

static void measured(pmix_data_type_t type, void *element, size_t size) {
    pmix_value_t value;
    pmix_info_t info;
    size_t n = 0;
    (void)size;
    /* 5.0.11 counts a NUL of an expression, forgets that of a namespace, and adds up what is not in an array of structures. */
    if (PMIX_REGEX != type && PMIX_PROC_NSPACE != type && PMIX_COMPRESSED_STRING != type
        && PMIX_COMPRESSED_BYTE_OBJECT != type && PMIX_DATA_ARRAY != type) {
        PMIx_Value_load(&value, element, type);
        snprintf(what, sizeof(what), "value %d", type);
        printf("%s: %d %zu\n", what, PMIx_Value_get_size(&value, &n), n);
        PMIx_Value_destruct(&value);
        PMIx_Info_load(&info, "key", element, type);
        printf("info: %d %zu\n", PMIx_Info_get_size(&info, &n), n);
        printf("true: %d\n", PMIx_Info_true(&info));
        PMIx_Info_destruct(&info);
    }
}

static void valued(void) {
    char *words[] = {"tr", "TRUE", "truely", "ye", "yes!", "fa", "False", " no", "nope", "none", "10", "00", "1x", "0x1",
                     "on", "off", "", "  ", "\t1"};
    pmix_value_t first, second;
    pmix_data_array_t *array;
    void *copy = NULL;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        first.type = PMIX_STRING;
        first.data.string = words[i];
        printf("'%s': %d\n", words[i], PMIx_Value_true(&first));
    }
    every_type(measured);
    first.type = PMIX_UNDEF;
    size_t n = 0;
    printf("size of nothing: %d\n", PMIx_Value_get_size(&first, &n));
    show_text("no value", PMIx_Value_string(NULL));
    for (int i = 0; i < 2; i++) {
        pmix_value_t *value = 0 == i ? &first : &second;
        array = PMIx_Data_array_create(1, 0 == i ? PMIX_INT : PMIX_UINT);
        *(int *)array->array = 1;
        value->type = PMIX_DATA_ARRAY;
        value->data.darray = array;
    }
    printf("arrays of two types: %d\n", PMIx_Value_compare(&first, &second));
    PMIx_Value_destruct(&first);
    PMIx_Value_destruct(&second);
    printf("copy of an expression: %d", PMIx_Data_copy(&copy, "raw:a", PMIX_REGEX));
    printf(" %s\n", (char *)copy);
    free(copy);
}

static void listed(void *list) {
    void *next = NULL;
    pmix_info_t *info;
    pmix_data_array_t array = {PMIX_UNDEF, 0, NULL};
    for (info = PMIx_Info_list_get_info(list, NULL, &next); NULL != info;
         info = NULL == next ? NULL : PMIx_Info_list_get_info(list, next, &next)) {
        printf("- %s: type %d, flags %x\n", info->key, info->value.type, info->flags);
    }
    printf("converted: %d, ", PMIx_Info_list_convert(list, &array));
    printf("%zu of type %d\n", array.size, array.type);
    PMIx_Data_array_destruct(&array);
}

static void lists(void) {
    void *list = PMIx_Info_list_start();
    int five = 5;
    pmix_value_t value = {.type = PMIX_INT, .data.integer = 6};
    pmix_info_t info;
    PMIx_Info_load(&info, "d", "text", PMIX_STRING);
    PMIx_Info_required(&info);
    printf("add: %d\n", PMIx_Info_list_add(list, "b", &five, PMIX_INT));
    printf("prepend: %d\n", PMIx_Info_list_prepend(list, "a", NULL, PMIX_BOOL));
    printf("value: %d\n", PMIx_Info_list_add_value(list, "c", &value));
    printf("xfer: %d\n", PMIx_Info_list_xfer(list, &info));
    listed(list);
    printf("again: %d\n", PMIx_Info_list_add_unique(list, "a", &five, PMIX_INT, false));
    printf("over: %d\n", PMIx_Info_list_add_unique(list, "b", "text", PMIX_STRING, true));
    printf("value again: %d\n", PMIx_Info_list_add_value_unique(list, "d", &value, false));
    printf("value over: %d\n", PMIx_Info_list_add_value_unique(list, "a", &value, true));
    printf("xfer again: %d\n", PMIx_Info_list_xfer_unique(list, &info, true));
    listed(list);
    PMIx_Info_list_release(list);
    PMIx_Info_destruct(&info);
}

static void applications(void) {
    pmix_app_t app;
    char *argv[] = {"program", "two words", NULL}, *env[] = {"A=1", NULL};
    pmix_info_t infos[2];
    PMIx_App_construct(&app);
    show_text("application", PMIx_App_string(&app));
    app.cmd = "program";
    app.argv = argv;
    app.env = env;
    app.cwd = "/tmp";
    app.maxprocs = 3;
    PMIx_Info_load(&infos[0], "k1", "text", PMIX_STRING);
    PMIx_Info_load(&infos[1], "k2", NULL, PMIX_BOOL);
    app.info = infos;
    app.ninfo = 2;
    show_text("application", PMIx_App_string(&app));
    PMIx_Info_destruct(&infos[0]);
}

static void variables(void) {
    extern char **environ;
    PMIx_Setenv("INSTANTON_TEST", "1", true, &environ);
    printf("kept: %d %s\n", PMIx_Setenv("INSTANTON_TEST", "2", false, &environ), getenv("INSTANTON_TEST"));
    printf("unset: %d", PMIx_Setenv("INSTANTON_TEST", NULL, false, &environ));
    printf(" %s\n", NULL == getenv("INSTANTON_TEST") ? "gone" : "there");
}

void newer(void) {
    constructed();
    loaded();
    arrays();
    named();
    valued();
    lists();
    applications();
    variables();
    printf("codes: %d %d\n", PMIx_Error_code("PMIX_ERR_TIMEOUT"), PMIx_Error_code("nonsense"));
}
#else
void newer(void) {
}
#endif
