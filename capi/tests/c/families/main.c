#include "families.h"

pmix_proc_t a_proc;
char *a_list[3] = {"one", "two", NULL};

static void show_byte(unsigned char byte) {
    switch (byte) {
    case '\n': printf("\\n"); break;
    case '\t': printf("\\t"); break;
    default: printf(byte < ' ' || '~' < byte ? "\\x%02x" : "%c", byte);
    }
}

void show(const char *what, const char *text) {
    printf("%s: %s", what, NULL == text ? "NULL" : "'");
    for (; NULL != text && '\0' != *text; text++) {
        show_byte((unsigned char)*text);
    }
    printf("%s\n", NULL == text ? "" : "'");
}

void show_bytes(const char *what, const void *bytes, size_t n) {
    printf("%s:", what);
    for (size_t i = 0; i < n; i++) {
        printf(" %02x", ((const unsigned char *)bytes)[i]);
    }
    printf("\n");
}

void every_type(void (*each)(pmix_data_type_t type, void *element, size_t size)) {
    static bool flag = true;
    static uint8_t byte = 3;
    static uint16_t half = 60001;
    static int32_t number = -5;
    static int64_t wide = -64000000000;
    static float real = 1.5f;
    static double precise = -2.25e10;
    static struct timeval time = {5, 70};
    static time_t seconds = 86400;
    static char address;
    static pmix_nspace_t nspace = "nsp";
    static pmix_byte_object_t bytes = {"ab\0c", 4};
    static int32_t numbers[3] = {1, -2, 3};
    static char *words[3] = {"one", NULL, "three"};
    static uint32_t places[2] = {3, 400};
    static pmix_info_t list[2];
    PMIX_INFO_LOAD(&list[0], "k1", &number, PMIX_INT);
    PMIX_INFO_LOAD(&list[1], "k2", "text", PMIX_STRING);
    PMIX_INFO_REQUIRED(&list[1]);
    pmix_data_array_t array = {PMIX_INT32, 3, numbers}, strings = {PMIX_STRING, 3, words}, infos = {PMIX_INFO, 2, list};
    pmix_proc_info_t info = {.proc = a_proc, .hostname = "host", .executable_name = "program", .pid = 99, .exit_code = 4};
    pmix_envar_t envar = {"NAME", "value", ':'};
    pmix_coord_t coord = {PMIX_COORD_LOGICAL_VIEW, places, 2}, coords[2] = {coord, coord};
    pmix_regattr_t attribute = {.name = "NAME", .string = "key", .type = PMIX_INT, .description = a_list};
    pmix_geometry_t geometry = {3, "uuid", "name", coords, 2};
    pmix_device_distance_t distance = {"uuid", "name", PMIX_DEVTYPE_GPU, 1, 300};
    pmix_endpoint_t endpoint = {"uuid", "name", bytes};
    pmix_data_type_t of_bytes[] = {PMIX_BYTE, PMIX_INT8, PMIX_UINT8, PMIX_PERSIST, PMIX_SCOPE, PMIX_PROC_STATE,
                                   PMIX_JOB_STATE, PMIX_LINK_STATE, PMIX_ALLOC_DIRECTIVE};
    pmix_data_type_t of_halves[] = {PMIX_INT16, PMIX_UINT16, PMIX_LOCTYPE, PMIX_STOR_ACCESS_TYPE};
    pmix_data_type_t of_numbers[] = {PMIX_INT, PMIX_INT32, PMIX_UINT, PMIX_UINT32, PMIX_PID, PMIX_PROC_RANK};
    pmix_data_type_t of_wides[] = {PMIX_SIZE, PMIX_INT64, PMIX_UINT64, PMIX_STOR_MEDIUM, PMIX_STOR_ACCESS,
                                   PMIX_STOR_PERSIST};
    size_t i;

    each(PMIX_BOOL, &flag, sizeof(flag));
    for (i = 0; i < sizeof(of_bytes) / sizeof(*of_bytes); i++) {
        each(of_bytes[i], &byte, sizeof(byte));
    }
    for (i = 0; i < sizeof(of_halves) / sizeof(*of_halves); i++) {
        half = PMIX_LOCTYPE == of_halves[i] ? 0x401f : PMIX_STOR_ACCESS_TYPE == of_halves[i] ? 3 : 60001;
        each(of_halves[i], &half, sizeof(half));
    }
    for (i = 0; i < sizeof(of_numbers) / sizeof(*of_numbers); i++) {
        each(of_numbers[i], &number, sizeof(number));
    }
    for (i = 0; i < sizeof(of_wides) / sizeof(*of_wides); i++) {
        wide = 2 < i ? 0x14 : -64000000000;
        each(of_wides[i], &wide, sizeof(wide));
    }
    each(PMIX_FLOAT, &real, sizeof(real));
    each(PMIX_DOUBLE, &precise, sizeof(precise));
    each(PMIX_TIMEVAL, &time, sizeof(time));
    each(PMIX_TIME, &seconds, sizeof(seconds));
    each(PMIX_STRING, "text", 0);
    each(PMIX_STRING, "", 0);
    each(PMIX_REGEX, "pmix[a]", 0);
    each(PMIX_POINTER, &address, 0);
    each(PMIX_PROC, &a_proc, sizeof(a_proc));
    each(PMIX_PROC_NSPACE, nspace, 0);
    each(PMIX_BYTE_OBJECT, &bytes, 4);
    each(PMIX_COMPRESSED_STRING, &bytes, 4);
    each(PMIX_COMPRESSED_BYTE_OBJECT, &bytes, 4);
    each(PMIX_PROC_INFO, &info, 0);
    each(PMIX_DATA_ARRAY, &array, 0);
    each(PMIX_DATA_ARRAY, &strings, 0);
    each(PMIX_DATA_ARRAY, &infos, 0);
    each(PMIX_ENVAR, &envar, 0);
    each(PMIX_COORD, &coord, 0);
    each(PMIX_REGATTR, &attribute, 0);
    each(PMIX_GEOMETRY, &geometry, 0);
    each(PMIX_DEVICE_DIST, &distance, 0);
    each(PMIX_ENDPOINT, &endpoint, 0);
    PMIX_INFO_DESTRUCT(&list[1]);
}

int main(int argc, char **argv) {
    pmix_proc_t me;
    printf("%s\n", PMIx_Data_type_string(9999));
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    if (PMIX_SUCCESS != rc && PMIX_ERR_UNREACH != rc) {
        fprintf(stderr, "no Init: %d\n", rc);
        return 1;
    }
    PMIX_LOAD_PROCID(&a_proc, "job@1", 3);
    if (1 < argc && 0 == strcmp(argv[1], "newer")) {
        newer();
    } else {
        texts();
        values();
        infos();
        names();
        arguments();
        buffers();
        maps();
    }
    PMIx_Finalize(NULL, 0);
    return 0;
}
