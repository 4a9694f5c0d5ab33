/* Values of the Standard, as C has them: each type is put as it is and comes back the same, from a process's data, from job
 * information and from a column; what cannot be taken is refused. */
#include "check.h"

static instanton_job_t *job;

static instanton_value_t whole(const pmix_value_t *value)
{
    instanton_value_t whole = INSTANTON_VALUE_INIT;
    whole.form = INSTANTON_PMIX_VALUE;
    whole.bytes = value;
    return whole;
}

static int put(const char *key, const pmix_value_t *value)
{
    instanton_value_t given = whole(value);
    int rc = instanton_job_put(job, 1, INSTANTON_SCOPE_GLOBAL, key, &given);
    return INSTANTON_SUCCESS == rc ? instanton_job_commit(job, 1) : rc;
}

/* Puts a value that lies behind a pointer, and gets it. */
static pmix_value_t *through(const char *key, pmix_data_type_t type, void *thing)
{
    pmix_value_t value = { .type = type }, *found = NULL;
    value.data.ptr = thing;
    DONE(put(key, &value));
    DONE(instanton_job_get(job, 1, key, &found));
    CHECK(found->type == type);
    return found;
}

static void records(void)
{
    pmix_value_t value = { .type = PMIX_ENVAR }, *found = NULL;
    pmix_proc_t proc = { .nspace = "other", .rank = 7 };
    pmix_proc_info_t of_proc = { .proc = proc, .hostname = "alpha", .executable_name = "a.out", .pid = 11,
                                 .exit_code = -3, .state = 4 };
    char *keys[] = { "one", "two", NULL };
    uint32_t places[] = { 3, 4, 5 };
    pmix_coord_t coord = { .view = 1, .coord = places, .dims = 3 };
    pmix_geometry_t geometry = { .fabric = 8, .osname = "ib0", .coordinates = &coord, .ncoords = 1 };
    pmix_endpoint_t endpoint = { .uuid = "u", .endpt = { .bytes = "a\0b", .size = 3 } };
    pmix_device_distance_t distance = { .uuid = "u", .osname = "o", .type = 4, .mindist = 1, .maxdist = 9 };
    pmix_regattr_t attribute = { .name = "PMIX_X", .string = "pmix.x", .type = PMIX_UINT32, .description = keys };

    value.data.envar.envar = "PATH";
    value.data.envar.value = "/bin";
    value.data.envar.separator = ':';
    DONE(put("envar", &value));
    DONE(instanton_job_get(job, 1, "envar", &found));
    CHECK(found->type == PMIX_ENVAR && 0 == strcmp(found->data.envar.envar, "PATH"));
    CHECK(0 == strcmp(found->data.envar.value, "/bin") && ':' == found->data.envar.separator);
    free(found);

    found = through("proc", PMIX_PROC, &proc);
    CHECK(0 == strcmp(found->data.proc->nspace, "other") && 7 == found->data.proc->rank);
    free(found);
    found = through("proc info", PMIX_PROC_INFO, &of_proc);
    CHECK(7 == found->data.pinfo->proc.rank && 0 == strcmp(found->data.pinfo->hostname, "alpha"));
    CHECK(0 == strcmp(found->data.pinfo->executable_name, "a.out") && 11 == found->data.pinfo->pid);
    CHECK(-3 == found->data.pinfo->exit_code && 4 == found->data.pinfo->state);
    free(found);
    found = through("coord", PMIX_COORD, &coord);
    CHECK(3 == found->data.coord->dims && 0 == memcmp(found->data.coord->coord, places, sizeof places));
    free(found);
    found = through("geometry", PMIX_GEOMETRY, &geometry);
    CHECK(8 == found->data.geometry->fabric && NULL == found->data.geometry->uuid);
    CHECK(1 == found->data.geometry->ncoords && 5 == found->data.geometry->coordinates->coord[2]);
    free(found);
    found = through("endpoint", PMIX_ENDPOINT, &endpoint);
    CHECK(3 == found->data.endpoint->endpt.size && 0 == memcmp(found->data.endpoint->endpt.bytes, "a\0b", 3));
    free(found);
    found = through("distance", PMIX_DEVICE_DIST, &distance);
    CHECK(4 == found->data.devdist->type && 1 == found->data.devdist->mindist && 9 == found->data.devdist->maxdist);
    free(found);
    found = through("attribute", PMIX_REGATTR, &attribute);
    pmix_regattr_t *same = found->data.ptr;
    CHECK(0 == strcmp(same->string, "pmix.x") && PMIX_UINT32 == same->type && NULL == same->description[2]);
    CHECK(0 == strcmp(same->description[1], "two"));
    free(found);
}

static void arrays(void)
{
    pmix_info_t within[2] = { { .key = "number" }, { .key = "texts" } };
    char *texts[] = { "first", "second" };
    pmix_data_array_t of_texts = { .type = PMIX_STRING, .size = 2, .array = texts };
    pmix_data_array_t of_infos = { .type = PMIX_INFO, .size = 2, .array = within };
    bool flags[] = { true, false };
    pmix_data_array_t of_flags = { .type = PMIX_BOOL, .size = 2, .array = flags };
    pmix_value_t *found, *inner;

    within[0].value.type = PMIX_INT16;
    within[0].value.data.int16 = -5;
    within[1].value.type = PMIX_DATA_ARRAY;
    within[1].value.data.darray = &of_texts;
    found = through("infos", PMIX_DATA_ARRAY, &of_infos);
    CHECK(PMIX_INFO == found->data.darray->type && 2 == found->data.darray->size);
    pmix_info_t *infos = found->data.darray->array;
    CHECK(0 == strcmp(infos[0].key, "number") && -5 == infos[0].value.data.int16);
    inner = &infos[1].value;
    CHECK(2 == inner->data.darray->size && 0 == strcmp(((char **) inner->data.darray->array)[1], "second"));
    free(found);
    found = through("flags", PMIX_DATA_ARRAY, &of_flags);
    CHECK(((bool *) found->data.darray->array)[0] && !((bool *) found->data.darray->array)[1]);
    free(found);
}

/* Values that can be said in other forms, too. */
static void plain(void)
{
    pmix_value_t value = { .type = PMIX_STRING }, *found = NULL;

    value.data.string = "words";
    DONE(put("text", &value));
    DONE(instanton_job_get(job, 1, "text", &found));
    CHECK(PMIX_STRING == found->type && 0 == strcmp(found->data.string, "words"));
    free(found);
    value.type = PMIX_REGEX;
    value.data.bo.bytes = "pmix[a]";
    value.data.bo.size = 8;
    DONE(put("map", &value));
    DONE(instanton_job_get(job, 1, "map", &found));
    CHECK(PMIX_REGEX == found->type && 8 == found->data.bo.size && 0 == strcmp(found->data.bo.bytes, "pmix[a]"));
    free(found);
    value.type = PMIX_UINT64;
    value.data.uint64 = UINT64_MAX;
    DONE(put("number", &value));
    DONE(instanton_job_get(job, 1, "number", &found));
    CHECK(PMIX_UINT64 == found->type && UINT64_MAX == found->data.uint64);
    free(found);
}

static void refused(void)
{
    pmix_value_t value = { .type = PMIX_PROC };
    pmix_cpuset_t cpuset = { .source = "hwloc" };
    instanton_value_t nothing = whole(NULL);

    CHECK(INSTANTON_ERR_BAD_PARAM == put("null", &value));
    value.type = PMIX_PROC_CPUSET;
    value.data.ptr = &cpuset;
    CHECK(INSTANTON_ERR_NOT_SUPPORTED == put("cpuset", &value));
    value.type = 9999;
    CHECK(INSTANTON_ERR_NOT_SUPPORTED == put("unknown", &value));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 1, INSTANTON_SCOPE_GLOBAL, "k", &nothing));

    /* A value that is none of its type is the same mistake in every call. */
    instanton_entry_t odd = entry("odd", number(PMIX_BOOL, 2));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 1, INSTANTON_SCOPE_GLOBAL, "odd", &odd.value));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_post(job, 1, &odd, 1));
    CHECK(0 == strcmp(instanton_store_message(), "the value of odd: 0x2 is no value of type PMIX_BOOL"));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_info(job, INSTANTON_LEVEL_JOB, 0, "odd", &odd.value));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_proc(job, 1, &odd, 1));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_column(job, "odd", 1, &odd.value, 1));
}

int main(void)
{
    pmix_proc_t parent = { .nspace = "parent", .rank = PMIX_RANK_WILDCARD };
    pmix_value_t value = { .type = PMIX_PROC }, *found = NULL;
    instanton_value_t given = whole(&value), column[8];
    instanton_entry_t of_rank = entry("neighbour", whole(&value));

    value.data.proc = &parent;
    job = job_on("alpha", 4);
    DONE(instanton_job_info(job, INSTANTON_LEVEL_JOB, 0, PMIX_PARENT_ID, &given));
    DONE(instanton_job_proc(job, 2, &of_rank, 1));
    for (int i = 0; i < 8; i++) {
        column[i] = whole(&value);
    }
    DONE(instanton_job_column(job, "in a column", 0, column, 8));
    DONE(instanton_job_publish(job));
    DONE(instanton_job_get(job, INSTANTON_RANK_WILDCARD, PMIX_PARENT_ID, &found));
    CHECK(PMIX_PROC == found->type && 0 == strcmp(found->data.proc->nspace, "parent"));
    free(found);
    DONE(instanton_job_get(job, 2, "neighbour", &found));
    CHECK(PMIX_PROC == found->type && PMIX_RANK_WILDCARD == found->data.proc->rank);
    free(found);
    DONE(instanton_job_get(job, 5, "in a column", &found));
    CHECK(PMIX_PROC == found->type && 0 == strcmp(found->data.proc->nspace, "parent"));
    free(found);
    DONE(instanton_job_post(job, 0, &of_rank, 1));
    DONE(instanton_job_get(job, 0, "neighbour", &found));
    CHECK(PMIX_PROC == found->type);
    free(found);
    records();
    arrays();
    plain();
    refused();
    instanton_job_free(job);
    puts("ok");
    return 0;
}
