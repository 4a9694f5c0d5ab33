/* Every type packed, unpacked and packed again. Without an argument it prints `type number bytes` for each; with one it
 * reads such lines, which another library may have written, and must come to the same bytes. */
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[1 << 16];

static void fail(const char *what, int type, int status) {
    fprintf(stderr, "type %d: %s: %d\n", type, what, status);
    exit(1);
}

static void print(int type, int n, const pmix_data_buffer_t *buffer) {
    size_t i;
    printf("%d %d ", type, n);
    for (i = 0; i < buffer->bytes_used; i++) {
        printf("%02x", (unsigned char)buffer->base_ptr[i]);
    }
    printf("\n");
}

static void pack(int type, int n, void *src) {
    pmix_data_buffer_t buffer;
    pmix_status_t rc;
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    rc = PMIx_Data_pack(NULL, &buffer, src, n, (pmix_data_type_t)type);
    if (PMIX_SUCCESS != rc) {
        fail("not packed", type, rc);
    }
    print(type, n, &buffer);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

/* A printed element, unpacked and printed again. */
static void again(void) {
    int type, n, used;
    while (NULL != fgets(line, sizeof(line), stdin) && 2 == sscanf(line, "%d %d %n", &type, &n, &used)) {
        pmix_data_buffer_t in;
        pmix_byte_object_t bytes;
        pmix_status_t rc;
        int32_t number = n;
        size_t i, length = strcspn(line + used, "\n") / 2;
        void *place = calloc(n, 1024);
        bytes.bytes = malloc(length);
        bytes.size = length;
        for (i = 0; i < length; i++) {
            unsigned byte;
            sscanf(line + used + 2 * i, "%2x", &byte);
            bytes.bytes[i] = (char)byte;
        }
        PMIX_DATA_BUFFER_CONSTRUCT(&in);
        rc = PMIx_Data_load(&in, &bytes);
        if (PMIX_SUCCESS != rc) {
            fail("not loaded", type, rc);
        }
        rc = PMIx_Data_unpack(NULL, &in, place, &number, (pmix_data_type_t)type);
        if (PMIX_SUCCESS != rc || number != n) {
            fail("not unpacked", type, rc);
        }
        if (in.unpack_ptr != in.base_ptr + length) {
            fail("not wholly unpacked", type, (int)(in.unpack_ptr - in.base_ptr));
        }
        PMIX_DATA_BUFFER_DESTRUCT(&in);
        pack(type, n, place);
        {   /* An unpacked value is freed as an array of such elements is. */
            pmix_data_array_t *owner = calloc(1, sizeof(*owner));
            pmix_value_t value;
            owner->type = (pmix_data_type_t)type;
            owner->size = (size_t)n;
            owner->array = place;
            value.type = PMIX_DATA_ARRAY;
            value.data.darray = owner;
            if (PMIX_REGEX == type) {
                for (i = 0; i < (size_t)n; i++) {
                    free(((char **)place)[i]);
                }
                free(place);
                free(owner);
            } else {
                PMIX_VALUE_DESTRUCT(&value);
            }
        }
    }
}

int main(int argc, char **argv) {
    bool flags[3] = {true, false, true};
    unsigned char bytes[3] = {0, 1, 255};
    char *texts[4] = {"hello", NULL, "", "x"};
    size_t sizes[8] = {0, 1, 127, 128, 16383, 16384, (size_t)-1, 1ul << 56};
    pid_t pids[2] = {1234, -1};
    int32_t numbers[8] = {0, 1, -1, 63, 64, -64, -65, 0x7fffffff};
    int16_t shorts[5] = {-1, 0, 127, 128, -32768};
    int64_t longs[6] = {-1, 0, 127, 128, 1l << 62, (int64_t)(1ul << 63)};
    float floats[5] = {1.5f, -2.25e10f, 1e-9f, 0, 16777217.f};
    double doubles[5] = {1.5, -2.25e10, 1e-9, 1e300, 0.0000005};
    struct timeval time = {1, 2};
    time_t seconds = 1234567;
    pmix_value_t values[3], of_array;
    pmix_proc_t me, procs[2];
    pmix_info_t info;
    pmix_app_t app;
    pmix_pdata_t pdata;
    pmix_byte_object_t objects[2] = {{"ab\0c", 4}, {NULL, 0}};
    char *maps[2] = {"pmix[n[2:1-3]]", "raw:x"};
    void *addresses[2] = {&me, NULL};
    pmix_proc_info_t pinfo;
    pmix_data_array_t array, nothing, arrays;
    pmix_query_t query;
    pmix_envar_t envar = {"N", "V", ':'};
    uint32_t places[2] = {3, 400};
    pmix_coord_t coord;
    pmix_regattr_t regattr;
    pmix_geometry_t geometry;
    pmix_device_distance_t distance;
    pmix_endpoint_t endpoint;
    uint64_t bits[2] = {4, 1ul << 40};
    pmix_nspace_t names[2];
    pmix_data_buffer_t buffer;
    char *keys[2] = {"k1", NULL}, *args[3] = {"a", "b", NULL}, *env[2] = {"E=1", NULL};
    int seven = 7;
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    if (PMIX_SUCCESS != rc && PMIX_ERR_UNREACH != rc) {
        fail("no init", 0, rc);
    }
    if (1 < argc && 0 == strcmp(argv[1], "again")) {
        again();
        PMIx_Finalize(NULL, 0);
        return 0;
    }

    pack(PMIX_BOOL, 3, flags);
    pack(PMIX_BYTE, 3, bytes);
    pack(PMIX_INT8, 3, bytes);
    pack(PMIX_UINT8, 3, bytes);
    pack(PMIX_STRING, 4, texts);
    pack(PMIX_SIZE, 8, sizes);
    pack(PMIX_PID, 2, pids);
    pack(PMIX_INT, 8, numbers);
    pack(PMIX_INT32, 8, numbers);
    pack(PMIX_UINT, 8, numbers);
    pack(PMIX_UINT32, 8, numbers);
    pack(PMIX_INT16, 5, shorts);
    pack(PMIX_UINT16, 5, shorts);
    pack(PMIX_INT64, 6, longs);
    pack(PMIX_UINT64, 6, longs);
    pack(PMIX_FLOAT, 5, floats);
    pack(PMIX_DOUBLE, 5, doubles);
    pack(PMIX_TIMEVAL, 1, &time);
    pack(PMIX_TIME, 1, &seconds);
    pack(PMIX_STATUS, 3, numbers);
    pack(PMIX_PERSIST, 3, bytes);
    pack(PMIX_SCOPE, 3, bytes);
    pack(PMIX_DATA_RANGE, 3, bytes);
    pack(PMIX_COMMAND, 3, bytes);
    pack(PMIX_PROC_STATE, 3, bytes);
    pack(PMIX_JOB_STATE, 3, bytes);
    pack(PMIX_LINK_STATE, 3, bytes);
    pack(PMIX_ALLOC_DIRECTIVE, 3, bytes);
    pack(PMIX_POINTER, 1, addresses);
    pack(PMIX_INFO_DIRECTIVES, 3, numbers);
    pack(PMIX_DATA_TYPE, 3, shorts);
    pack(PMIX_PROC_RANK, 3, numbers);
    pack(PMIX_IOF_CHANNEL, 3, shorts);
    pack(PMIX_DEVTYPE, 2, bits);
    pack(PMIX_LOCTYPE, 3, shorts);
    pack(PMIX_STOR_MEDIUM, 2, bits);
    pack(PMIX_STOR_ACCESS, 2, bits);
    pack(PMIX_STOR_PERSIST, 2, bits);
    pack(PMIX_STOR_ACCESS_TYPE, 3, shorts);
    pack(PMIX_BYTE_OBJECT, 2, objects);
    pack(PMIX_COMPRESSED_STRING, 2, objects);
    pack(PMIX_COMPRESSED_BYTE_OBJECT, 2, objects);
    pack(PMIX_REGEX, 1, &maps[0]);
    pack(PMIX_REGEX, 1, &maps[1]);
    pack(PMIX_ENVAR, 1, &envar);

    PMIX_LOAD_PROCID(&procs[0], "ns", 3);
    PMIX_LOAD_PROCID(&procs[1], "", PMIX_RANK_WILDCARD);
    pack(PMIX_PROC, 2, procs);
    PMIX_LOAD_NSPACE(names[0], "nsp");
    PMIX_LOAD_NSPACE(names[1], "b");
    pack(PMIX_PROC_NSPACE, 2, names);

    PMIX_VALUE_LOAD(&values[0], &seven, PMIX_INT);
    PMIX_VALUE_LOAD(&values[1], "text", PMIX_STRING);
    PMIX_VALUE_LOAD(&values[2], &procs[0], PMIX_PROC);
    pack(PMIX_VALUE, 3, values);
    PMIX_INFO_LOAD(&info, "k", &seven, PMIX_INT);
    PMIX_INFO_REQUIRED(&info);
    pack(PMIX_INFO, 1, &info);
    PMIX_PDATA_CONSTRUCT(&pdata);
    pdata.proc = procs[0];
    strcpy(pdata.key, "key");
    PMIX_VALUE_LOAD(&pdata.value, &seven, PMIX_INT);
    pack(PMIX_PDATA, 1, &pdata);

    memset(&app, 0, sizeof(app));
    app.cmd = "cmd";
    app.argv = args;
    app.cwd = "/";
    app.maxprocs = 4;
    pack(PMIX_APP, 1, &app);
    app.env = env;
    app.info = &info;
    app.ninfo = 1;
    pack(PMIX_APP, 1, &app);

    memset(&query, 0, sizeof(query));
    pack(PMIX_QUERY, 1, &query);
    query.keys = keys;
    query.qualifiers = &info;
    query.nqual = 1;
    pack(PMIX_QUERY, 1, &query);

    PMIX_PROC_INFO_CONSTRUCT(&pinfo);
    pinfo.proc = procs[0];
    pinfo.hostname = "host";
    pinfo.executable_name = "program";
    pinfo.pid = 77;
    pinfo.state = PMIX_PROC_STATE_RUNNING;
    pack(PMIX_PROC_INFO, 1, &pinfo);

    array.type = PMIX_INT32;
    array.size = 2;
    array.array = numbers + 4;
    pack(PMIX_DATA_ARRAY, 1, &array);
    nothing.type = PMIX_STRING;
    nothing.size = 0;
    nothing.array = NULL;
    pack(PMIX_DATA_ARRAY, 1, &nothing);
    arrays.type = PMIX_VALUE;
    arrays.size = 3;
    arrays.array = values;
    pack(PMIX_DATA_ARRAY, 1, &arrays);
    of_array.type = PMIX_DATA_ARRAY;
    of_array.data.darray = &arrays;
    pack(PMIX_VALUE, 1, &of_array);
    arrays.type = PMIX_INFO;
    arrays.size = 1;
    arrays.array = &info;
    pack(PMIX_VALUE, 1, &of_array);

    coord.view = PMIX_COORD_LOGICAL_VIEW;
    coord.coord = places;
    coord.dims = 2;
    pack(PMIX_COORD, 1, &coord);
    memset(&geometry, 0, sizeof(geometry));
    geometry.fabric = 3;
    geometry.uuid = "u";
    geometry.osname = "o";
    geometry.coordinates = &coord;
    geometry.ncoords = 1;
    pack(PMIX_GEOMETRY, 1, &geometry);
    memset(&distance, 0, sizeof(distance));
    distance.uuid = "u";
    distance.type = PMIX_DEVTYPE_GPU;
    distance.mindist = 1;
    distance.maxdist = 300;
    pack(PMIX_DEVICE_DIST, 1, &distance);
    memset(&endpoint, 0, sizeof(endpoint));
    endpoint.osname = "o";
    endpoint.endpt = objects[0];
    pack(PMIX_ENDPOINT, 1, &endpoint);

    memset(&regattr, 0, sizeof(regattr));
    pack(PMIX_REGATTR, 1, &regattr);
    regattr.name = "NAME";
    PMIX_LOAD_KEY(regattr.string, "key");
    regattr.type = PMIX_INT;
    regattr.description = args;
    pack(PMIX_REGATTR, 1, &regattr);

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    rc = PMIx_Data_pack(NULL, &buffer, texts, 2, PMIX_STRING);
    if (PMIX_SUCCESS != rc) {
        fail("not packed", PMIX_STRING, rc);
    }
    pack(PMIX_DATA_BUFFER, 1, &buffer);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);

    PMIX_VALUE_DESTRUCT(&values[1]);
    PMIX_VALUE_DESTRUCT(&values[2]);
    PMIX_PDATA_DESTRUCT(&pdata);
    PMIx_Finalize(NULL, 0);
    return 0;
}
