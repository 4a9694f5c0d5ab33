/* Every function-like macro of the headers, once, in what C and C++ both understand: they compile without a word, what
 * they free is NULL behind them, and nothing is lost. */
#include "check.h"
#include <pmix_tool.h>

/* A type with the four macros that most have: an object of the caller's, and an array of the library's. */
#define FAMILY(NAME, type)             \
    do {                               \
        type one, *some = NULL;        \
        PMIX_##NAME##_CONSTRUCT(&one); \
        PMIX_##NAME##_DESTRUCT(&one);  \
        PMIX_##NAME##_CREATE(some, 3); \
        CHECK(some != NULL);           \
        PMIX_##NAME##_FREE(some, 3);   \
        CHECK(some == NULL);           \
    } while (0)

/* A family as above, with one more macro that frees a single object. */
#define RELEASED(NAME, type)           \
    do {                               \
        type *one = NULL;              \
        FAMILY(NAME, type);            \
        PMIX_##NAME##_CREATE(one, 1);  \
        PMIX_##NAME##_RELEASE(one);    \
        CHECK(one == NULL);            \
    } while (0)

static void families(void) {
    RELEASED(VALUE, pmix_value_t);
    FAMILY(INFO, pmix_info_t);
    RELEASED(PROC, pmix_proc_t);
#if PMIX_VERSION_MAJOR != 6 /* PMIX_PROC_INFO_RELEASE is no C there. */
    FAMILY(PROC_INFO, pmix_proc_info_t);
#else
    RELEASED(PROC_INFO, pmix_proc_info_t);
#endif
    RELEASED(PDATA, pmix_pdata_t);
    RELEASED(APP, pmix_app_t);
    RELEASED(QUERY, pmix_query_t);
    FAMILY(REGATTR, pmix_regattr_t);
    FAMILY(BYTE_OBJECT, pmix_byte_object_t);
    FAMILY(ENVAR, pmix_envar_t);
    FAMILY(GEOMETRY, pmix_geometry_t);
    FAMILY(ENDPOINT, pmix_endpoint_t);
    FAMILY(TOPOLOGY, pmix_topology_t);
    FAMILY(CPUSET, pmix_cpuset_t);
    FAMILY(DEVICE_DIST, pmix_device_distance_t);
#ifdef PMIX_DEVICE_CONSTRUCT
    FAMILY(DEVICE, pmix_device_t);
    FAMILY(RESOURCE_UNIT, pmix_resource_unit_t);
#endif
#ifdef PMIX_PROC_STATS_CONSTRUCT
    RELEASED(PROC_STATS, pmix_proc_stats_t);
    RELEASED(DISK_STATS, pmix_disk_stats_t);
    RELEASED(NET_STATS, pmix_net_stats_t);
    RELEASED(NODE_STATS, pmix_node_stats_t);
#endif

    pmix_coord_t coord, *coords = NULL;
    PMIX_COORD_CONSTRUCT(&coord);
    PMIX_COORD_DESTRUCT(&coord);
    PMIX_COORD_CREATE(coords, 2, 3);
    CHECK(coords != NULL && coords[1].dims == 3 && coords[1].coord != NULL);
    PMIX_COORD_FREE(coords, 2);
    CHECK(coords == NULL);

    pmix_fabric_t fabric;
    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK(fabric.name == NULL && fabric.ninfo == 0);
}

static void values(void) {
    pmix_value_t value, *copy = NULL;
    pmix_status_t rc;
    uint32_t seven = 7, back = 0;
    void *where = &back;
    size_t size = 0;
    double number = 0;

    PMIX_VALUE_LOAD(&value, &seven, PMIX_UINT32);
    PMIX_VALUE_XFER(rc, copy, &value);
    CHECK(rc == PMIX_SUCCESS && copy->data.uint32 == 7);
    PMIX_VALUE_UNLOAD(rc, copy, &where, &size);
    CHECK(rc == PMIX_SUCCESS && back == 7 && size == sizeof(back));
    PMIX_VALUE_XFER_DIRECT(rc, copy, &value);
    PMIX_VALUE_GET_NUMBER(rc, copy, number, double);
    CHECK(rc == PMIX_SUCCESS && number > 6.5 && number < 7.5);
    PMIX_VALUE_RELEASE(copy);

    bool yes = true;
    PMIX_VALUE_LOAD(&value, &yes, PMIX_BOOL);
    CHECK(PMIX_CHECK_TRUE(&value) && PMIX_CHECK_BOOL(&value));
    PMIX_VALUE_GET_NUMBER(rc, &value, number, double);
    CHECK(rc == PMIX_ERR_BAD_PARAM);
    PMIX_VALUE_DESTRUCT(&value);

    pmix_value_t still = PMIX_VALUE_STATIC_INIT;
    pmix_info_t empty = PMIX_INFO_STATIC_INIT;
    pmix_proc_t nobody = PMIX_PROC_STATIC_INIT;
#if PMIX_VERSION_MAJOR == 6 /* 5.0 lacks a comma in there, 7.0 has no such types. */
    pmix_proc_stats_t unused = PMIX_PROC_STATS_STATIC_INIT;
    pmix_node_stats_t idle = PMIX_NODE_STATS_STATIC_INIT;
    CHECK(unused.node == NULL && idle.nnetstats == 0);
#endif
    pmix_pdata_t unpublished = PMIX_LOOKUP_STATIC_INIT;
    pmix_device_distance_t near = PMIX_DEVICE_DIST_STATIC_INIT;
    CHECK(still.type == PMIX_UNDEF && still.data.ptr == NULL && empty.value.type == PMIX_UNDEF);
    CHECK(nobody.rank == PMIX_RANK_UNDEF);
    CHECK(unpublished.proc.rank == PMIX_RANK_UNDEF && near.uuid == NULL);
}

static void infos(void) {
    pmix_info_t info, copy, *array = NULL;
    pmix_status_t rc;
    uint32_t count = 3;
    void *list;
    pmix_data_array_t converted = PMIX_DATA_ARRAY_STATIC_INIT;

    PMIX_INFO_LOAD(&info, PMIX_JOB_SIZE, &count, PMIX_UINT32);
    PMIX_INFO_XFER(&copy, &info);
    CHECK(PMIX_CHECK_KEY(&copy, PMIX_JOB_SIZE) && !PMIX_INFO_TRUE(&copy));
    PMIX_INFO_REQUIRED(&copy);
    CHECK(PMIX_INFO_IS_REQUIRED(&copy));
    PMIX_INFO_OPTIONAL(&copy);
    CHECK(PMIX_INFO_IS_OPTIONAL(&copy));
    PMIX_INFO_PROCESSED(&copy);
    CHECK(PMIX_INFO_WAS_PROCESSED(&copy));
    PMIX_INFO_SET_END(&copy);
    CHECK(PMIX_INFO_IS_END(&copy));
    PMIX_INFO_SET_QUALIFIER(&copy);
    CHECK(PMIX_INFO_IS_QUALIFIER(&copy));
    PMIX_INFO_SET_PERSISTENT(&copy);
    CHECK(PMIX_INFO_IS_PERSISTENT(&copy));

    PMIX_INFO_LIST_START(list);
    PMIX_INFO_LIST_ADD(rc, list, PMIX_RANK, &count, PMIX_PROC_RANK);
    CHECK(rc == PMIX_SUCCESS);
    PMIX_INFO_LIST_PREPEND(rc, list, PMIX_HOSTNAME, "here", PMIX_STRING);
    CHECK(rc == PMIX_SUCCESS);
    PMIX_INFO_LIST_XFER(rc, list, &info);
    CHECK(rc == PMIX_SUCCESS);
    PMIX_INFO_LIST_INSERT(rc, list, &copy);
    CHECK(rc == PMIX_SUCCESS);
    PMIX_INFO_LIST_CONVERT(rc, list, &converted);
    PMIX_INFO_LIST_RELEASE(list);
    CHECK(rc == PMIX_SUCCESS && converted.size == 4);
    array = (pmix_info_t *)converted.array;
    CHECK(PMIX_CHECK_KEY(&array[0], PMIX_HOSTNAME));
    PMIX_DATA_ARRAY_DESTRUCT(&converted);
    PMIX_INFO_DESTRUCT(&info);
}

static void names(void) {
    pmix_key_t key;
    pmix_nspace_t job, cluster, other;
    pmix_proc_t a, b;

    PMIX_LOAD_KEY(key, PMIX_RANK);
    CHECK(PMIX_CHECK_RESERVED_KEY(key) && !PMIX_CHECK_RESERVED_KEY("mine"));
    PMIX_LOAD_NSPACE(job, "job");
    CHECK(PMIX_CHECK_NSPACE(job, "job") && !PMIX_NSPACE_INVALID(job));
    PMIX_LOAD_NSPACE(cluster, "here");
    PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(other, cluster, job);
    memset(job, 0, sizeof(job));
    PMIX_MULTICLUSTER_NSPACE_PARSE(other, cluster, job);
    CHECK(PMIX_CHECK_NSPACE(job, "job"));

    PMIX_LOAD_PROCID(&a, "job", 1);
    PMIX_XFER_PROCID(&b, &a);
    CHECK(PMIX_CHECK_PROCID(&a, &b) && !PMIX_PROCID_INVALID(&b));
    PMIX_PROC_LOAD(&a, "job", PMIX_RANK_WILDCARD);
    PMIX_PROCID_XFER(&b, &a);
    CHECK(PMIX_CHECK_RANK(b.rank, 5) && PMIX_RANK_IS_VALID(5) && !PMIX_RANK_IS_VALID(b.rank));
#ifdef PMIX_CHECK_PROCID_STRICT
    CHECK(PMIX_CHECK_NSPACE_STRICT(job, "job") && !PMIX_CHECK_NSPACE_STRICT(job, ""));
    CHECK(PMIX_CHECK_PROCID_STRICT(&a, &b));
#endif
    CHECK(PMIX_SYSTEM_EVENT(PMIX_EVENT_NODE_DOWN) && !PMIX_SYSTEM_EVENT(PMIX_ERR_INIT));
}

static void records(void) {
    pmix_proc_t me;
    pmix_pdata_t data, same;
    pmix_app_t app;
    pmix_query_t query;
    pmix_regattr_t attribute, copy;
    pmix_envar_t variable;
    int seven = 7;

    PMIX_PROC_LOAD(&me, "job", 0);
    PMIX_PDATA_CONSTRUCT(&same);
    PMIX_PDATA_LOAD(&data, &me, "key", &seven, PMIX_INT);
    PMIX_PDATA_XFER(&same, &data);
    CHECK(same.value.data.integer == 7 && PMIX_CHECK_PROCID(&same.proc, &me));
    PMIX_APP_CONSTRUCT(&app);
    PMIX_APP_INFO_CREATE(&app, 2);
    CHECK(app.ninfo == 2);
    PMIX_APP_DESTRUCT(&app);
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 2);
    CHECK(query.nqual == 2);
    PMIX_QUERY_DESTRUCT(&query);
    PMIX_REGATTR_CONSTRUCT(&attribute);
    PMIX_REGATTR_CONSTRUCT(&copy);
    PMIX_REGATTR_LOAD(&attribute, "PMIX_RANK", PMIX_RANK, PMIX_PROC_RANK, "which process");
    PMIX_REGATTR_XFER(&copy, &attribute);
    CHECK(PMIx_Check_key(copy.string, PMIX_RANK));
    PMIX_REGATTR_DESTRUCT(&attribute);
    PMIX_REGATTR_DESTRUCT(&copy);
    char name[] = "PATH", value[] = "/bin";
    PMIX_ENVAR_CONSTRUCT(&variable);
    PMIX_ENVAR_LOAD(&variable, name, value, ':');
    CHECK(variable.separator == ':');
    PMIX_ENVAR_DESTRUCT(&variable);
}

static void containers(void) {
    pmix_data_array_t array, *numbers = NULL;
    PMIX_DATA_ARRAY_INIT(&array, PMIX_INT);
    PMIX_DATA_ARRAY_CONSTRUCT(&array, 4, PMIX_INT);
    CHECK(array.size == 4 && array.array != NULL);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    PMIX_DATA_ARRAY_CREATE(numbers, 4, PMIX_INT);
    PMIX_DATA_ARRAY_FREE(numbers);
    CHECK(numbers == NULL);

    pmix_data_buffer_t buffer, *allocated = NULL;
    char *bytes = (char *)calloc(1, 8);
    size_t size = 8;
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    PMIX_DATA_BUFFER_LOAD(&buffer, bytes, size);
    bytes = NULL;
    PMIX_DATA_BUFFER_UNLOAD(&buffer, bytes, size);
    CHECK(bytes != NULL && size == 8);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    PMIX_DATA_BUFFER_CREATE(allocated);
    PMIX_DATA_BUFFER_RELEASE(allocated);
    CHECK(allocated == NULL);

    pmix_byte_object_t object;
    PMIX_BYTE_OBJECT_LOAD(&object, bytes, size);
    CHECK(bytes == NULL && size == 0 && object.size == 8);
    PMIX_BYTE_OBJECT_DESTRUCT(&object);
}

static void arguments(void) {
    char **argv = NULL, **copy, *text, **environment = NULL;
    pmix_status_t rc;
    int count;

    PMIX_ARGV_APPEND(rc, argv, "b");
    CHECK(rc == PMIX_SUCCESS);
    PMIX_ARGV_PREPEND(rc, argv, "a");
    CHECK(rc == PMIX_SUCCESS);
    PMIX_ARGV_APPEND_UNIQUE(rc, &argv, "a");
    CHECK(rc == PMIX_SUCCESS);
    PMIX_ARGV_COUNT(count, argv);
    PMIX_ARGV_COPY(copy, argv);
    PMIX_ARGV_JOIN(text, copy, ',');
    CHECK(count == 2 && !strcmp(text, "a,b"));
    PMIX_ARGV_FREE(argv);
    PMIX_ARGV_FREE(copy);
    CHECK(argv == NULL);
    PMIX_ARGV_SPLIT(argv, text, ',');
    CHECK(!strcmp(argv[1], "b"));
    PMIX_ARGV_FREE(argv);
    free(text);
    PMIX_SETENV(rc, "NAME", "value", &environment);
    CHECK(rc == PMIX_SUCCESS && !strcmp(environment[0], "NAME=value"));
    CHECK(pmix_setenv("NAME", "other", true, &environment) == PMIX_SUCCESS);
    pmix_argv_free(environment);

    argv = pmix_argv_split("a,,b", ',');
    CHECK(pmix_argv_count(argv) == 2);
    pmix_argv_free(argv);
#ifdef pmix_argv_split_inter
    argv = pmix_argv_split_inter("a,,b", ',', false);
    CHECK(pmix_argv_count(argv) == 2);
    pmix_argv_free(argv);
#endif
    argv = pmix_argv_split_with_empty("a,,b", ',');
    CHECK(pmix_argv_count(argv) == 3);
    CHECK(pmix_argv_append_nosize(&argv, "c") == PMIX_SUCCESS);
    CHECK(pmix_argv_append_unique_nosize(&argv, "c") == PMIX_SUCCESS);
    CHECK(pmix_argv_prepend_nosize(&argv, "z") == PMIX_SUCCESS);
    copy = pmix_argv_copy(argv);
    text = pmix_argv_join(copy, ' ');
    CHECK(!strcmp(text, "z a  b c"));
    free(text);
    pmix_argv_free(copy);
    pmix_argv_free(argv);
}

/* Functions that headers of other releases define themselves. */
static void inlines(void) {
    pmix_value_t value = {PMIX_BOOL, {true}};
    pmix_key_t key;
    char *place = (char *)pmix_calloc(2, 4), many[PMIX_MAX_KEYLEN + 9];
    CHECK(place[7] == 0);
    pmix_strncpy(place, "a text that is too long", 7);
    CHECK(!strcmp(place, "a text "));
    pmix_strncpy(place, "a", 7);
    CHECK(!strcmp(place, "a"));
    pmix_free(place);
    place = (char *)pmix_malloc(1);
    CHECK(place != NULL);
    pmix_free(place);
    memset(many, 'x', sizeof many);
    CHECK(pmix_keylen(many) == PMIX_MAX_KEYLEN + 1 && pmix_nslen(many) == PMIX_MAX_NSLEN + 1);
    pmix_strncpy(key, "key", PMIX_MAX_KEYLEN);
    CHECK(pmix_keylen(key) == 3 && pmix_nslen(key) == 3 && pmix_keylen(NULL) == 0 && pmix_nslen(NULL) == 0);
#ifdef pmix_check_true
    CHECK(pmix_check_true(&value) == PMIX_BOOL_TRUE);
#else
    CHECK(PMIX_CHECK_TRUE(&value));
#endif
}

int main(void) {
    families();
    values();
    infos();
    names();
    records();
    containers();
    arguments();
    inlines();
    return 0;
}
