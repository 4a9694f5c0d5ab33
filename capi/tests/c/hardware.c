/* Topologies, cpusets, places and distances. Without libhwloc all of them answer NOT_SUPPORTED. */
#include "check.h"
#include "since.h"
#include <unistd.h>

static int seen;

static void measured(pmix_status_t status, pmix_device_distance_t *dist, size_t ndist, void *cbdata,
                     pmix_release_cbfunc_t release_fn, void *release_cbdata) {
    CHECK(PMIX_SUCCESS == status && cbdata == &seen);
    CHECK(0 == ndist || NULL != dist);
    if (NULL != release_fn) {
        release_fn(release_cbdata);
    }
    __atomic_store_n(&seen, 1, __ATOMIC_RELEASE);
}

int main(void) {
    pmix_proc_t me;
    pmix_topology_t topology, other, *copy = NULL;
    pmix_cpuset_t bound, one = PMIX_CPUSET_STATIC_INIT, *same = NULL, back;
    pmix_device_distance_t *distances = NULL;
    pmix_data_buffer_t buffer;
    pmix_locality_t shared = 77;
    pmix_value_t value, *found = NULL;
    size_t n = 77;
    int32_t number;
    char *all = NULL, *first = NULL, *text = NULL;
    pmix_status_t rc;

    memset(&topology, 0, sizeof(topology));
    memset(&bound, 0, sizeof(bound));
    IS(PMIX_ERR_INIT, PMIx_Load_topology(&topology));
    IS(PMIX_ERR_INIT, PMIx_Get_cpuset(&bound, PMIX_CPUBIND_PROCESS));
    IS(PMIX_ERR_INIT, PMIx_Parse_cpuset_string("hwloc:0", &bound));
    IS(PMIX_ERR_INIT, PMIx_Get_relative_locality("SK0", "SK0", &shared));
    CHECK(0 == shared);
    IS(PMIX_ERR_INIT, PMIx_Compute_distances(&topology, &bound, NULL, 0, &distances, &n));
    CHECK(0 == n && NULL == distances);
    IS(PMIX_ERR_INIT, PMIx_server_generate_locality_string(&bound, &text));

    rc = PMIx_Init(&me, NULL, 0);
    CHECK(PMIX_SUCCESS == rc || PMIX_ERR_UNREACH == rc);

    /* Text alone. */
    OK(PMIx_Get_relative_locality("hwloc:SK0:L30:CR0", "SK0:L30:CR1", &shared));
    CHECK((PMIX_LOCALITY_SHARE_NODE | PMIX_LOCALITY_SHARE_PACKAGE | PMIX_LOCALITY_SHARE_L3CACHE) == shared);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get_relative_locality("other:SK0", "SK0", &shared));
    CHECK(0 == shared);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get_relative_locality(NULL, "SK0", &shared));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get_relative_locality("SK0", "SK0", NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Parse_cpuset_string("0-3", &bound));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Parse_cpuset_string(NULL, &bound));
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Parse_cpuset_string("other:0", &bound));
    memset(&other, 0, sizeof(other));
    other.source = "other";
    IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Load_topology(&other));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Load_topology(NULL));

    rc = PMIx_Load_topology(&topology);
    if (PMIX_ERR_NOT_SUPPORTED == rc) {
        fprintf(stderr, "no libhwloc: nothing more to check\n");
        IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Get_cpuset(&bound, PMIX_CPUBIND_PROCESS));
        IS(PMIX_ERR_NOT_SUPPORTED, PMIx_Parse_cpuset_string("hwloc:0", &bound));
        PMIx_Finalize(NULL, 0);
        return 0;
    }
    OK(rc);
    CHECK(0 == strncmp(topology.source, "hwloc:", 6) && NULL != topology.topology);
    /* Nobody has given it to the program, which finds it all the same; what it stores itself counts. */
    OK(PMIx_Get(&me, PMIX_TOPOLOGY2, NULL, 0, &found));
    CHECK(PMIX_TOPO == found->type && NULL != found->data.topo->topology);
    CHECK(0 == strncmp(found->data.topo->source, "hwloc", 5));
    OK(PMIx_Compute_distances(found->data.topo, NULL, NULL, 0, &distances, &n));
    PMIx_Device_distance_free(distances, n);
    PMIx_Value_free(found, 1);
    value.type = PMIX_STRING;
    value.data.string = "drawn by hand";
    OK(PMIx_Store_internal(&me, PMIX_TOPOLOGY2, &value));
    OK(PMIx_Get(&me, PMIX_TOPOLOGY2, NULL, 0, &found));
    CHECK(PMIX_STRING == found->type);
    PMIx_Value_free(found, 1);

    OK(PMIx_Get_cpuset(&bound, PMIX_CPUBIND_PROCESS));
    CHECK(0 == strcmp(bound.source, "hwloc"));
    OK(PMIx_server_generate_cpuset_string(&bound, &text));
    CHECK(0 == strncmp(text, "hwloc:", 6));
    free(text);
    OK(PMIx_Get_cpuset(&one, PMIX_CPUBIND_THREAD));
    PMIx_Cpuset_destruct(&one);
    CHECK(NULL == one.bitmap && NULL == one.source);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Get_cpuset(&one, 9));
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_generate_cpuset_string(&one, &text));
    CHECK(NULL == text);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Parse_cpuset_string("hwloc:x", &one));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Parse_cpuset_string("hwloc:99999999999", &one));
    IS(PMIX_ERR_BAD_PARAM, PMIx_server_generate_cpuset("hwloc:0,4294967294", &one));
    CHECK(NULL == one.bitmap);
    OK(PMIx_Parse_cpuset_string("hwloc:0", &one));
    OK(PMIx_server_generate_locality_string(&bound, &all));
    OK(PMIx_server_generate_locality_string(&one, &first));
    OK(PMIx_Get_relative_locality(all, first, &shared));
    CHECK(0 != (shared & PMIX_LOCALITY_SHARE_NODE));
    free(all);
    free(first);

    OK(PMIx_Compute_distances(&topology, &bound, NULL, 0, &distances, &n));
    PMIx_Device_distance_free(distances, n);
    OK(PMIx_Compute_distances_nb(NULL, NULL, NULL, 0, measured, &seen));
    while (0 == __atomic_load_n(&seen, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }

    /* Copies, values and packs. */
    OK(PMIx_Data_copy((void **)&same, &one, PMIX_PROC_CPUSET));
    OK(PMIx_server_generate_cpuset_string(same, &text));
    CHECK(0 == strcmp("hwloc:0", text));
    free(text);
    PMIx_Cpuset_free(same, 1);
    OK(PMIx_Data_copy((void **)&copy, &topology, PMIX_TOPO));
    CHECK(copy->topology != topology.topology);
    OK(PMIx_Data_print(&text, NULL, copy, PMIX_TOPO));
    CHECK(text == strstr(text, " Data type: PMIX_TOPO\tValue: Type: Machine Number of child objects: "));
    CHECK(strstr(text, "\n\tBind CPU proc:   TRUE\n") && strstr(text, "\n\tType: Package ") && strstr(text, "\tType: PU Number of child objects: 0\n"));
    free(text);
    PMIx_Topology_free(copy, 1);
    OK(PMIx_Value_load(&value, &one, PMIX_PROC_CPUSET));
    PMIx_Value_destruct(&value);
    PMIx_Data_buffer_construct(&buffer);
    OK(PMIx_Data_pack(NULL, &buffer, &one, 1, PMIX_PROC_CPUSET));
    OK(PMIx_Data_pack(NULL, &buffer, &topology, 1, PMIX_TOPO));
    number = 1;
    OK(PMIx_Data_unpack(NULL, &buffer, &back, &number, PMIX_PROC_CPUSET));
    OK(PMIx_server_generate_cpuset_string(&back, &text));
    CHECK(0 == strcmp("hwloc:0", text));
    free(text);
    PMIx_Cpuset_destruct(&back);
    OK(PMIx_Data_unpack(NULL, &buffer, &other, &number, PMIX_TOPO));
    OK(PMIx_Compute_distances(&other, &one, NULL, 0, &distances, &n));
    PMIx_Device_distance_free(distances, n);
    PMIx_Topology_destruct(&other);
    PMIx_Data_buffer_destruct(&buffer);
    PMIx_Cpuset_destruct(&one);
    PMIx_Cpuset_destruct(&bound);
    PMIx_Topology_destruct(&topology);
    PMIx_Finalize(NULL, 0);
    return 0;
}
