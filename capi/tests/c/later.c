/* Helper functions that came with releases after 4.2.2, and what they are to do. macros.c has those that macros stand for. */
#include "check.h"

static void values(void) {
    pmix_value_t value, *made = PMIx_Value_create(2);
    CHECK(made[1].type == PMIX_UNDEF);
    PMIx_Value_free(made, 2);
    PMIx_Value_construct(&value);
    CHECK(PMIx_Value_true(&value) == PMIX_BOOL_TRUE && PMIx_Value_true(NULL) == PMIX_NON_BOOL);

    struct {
        const char *text;
        pmix_boolean_t truth;
    } words[] = {{"true", PMIX_BOOL_TRUE}, {"yes", PMIX_BOOL_TRUE}, {"1", PMIX_BOOL_TRUE}, {"", PMIX_BOOL_TRUE},
                 {"false", PMIX_BOOL_FALSE}, {"no", PMIX_BOOL_FALSE}, {"0", PMIX_BOOL_FALSE}, {"maybe", PMIX_NON_BOOL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        OK(PMIx_Value_load(&value, words[i].text, PMIX_STRING));
        CHECK(PMIx_Value_true(&value) == words[i].truth);
        PMIx_Value_destruct(&value);
    }
    /* Only what can be meant as one is looked at. */
    value = (pmix_value_t){.type = PMIX_PROC, .data.ptr = (void *)1};
    CHECK(PMIx_Value_true(&value) == PMIX_NON_BOOL);

    int32_t number = -7;
    union {
        int64_t wide;
        uint64_t size;
        double real;
        uint8_t byte;
    } out;
    OK(PMIx_Value_load(&value, &number, PMIX_INT32));
    OK(PMIx_Value_get_number(&value, &out, PMIX_INT64));
    CHECK(out.wide == -7);
    OK(PMIx_Value_get_number(&value, &out, PMIX_DOUBLE));
    CHECK(out.real == -7.0);
    IS(PMIX_ERR_CHANGE_SIGN, PMIx_Value_get_number(&value, &out, PMIX_SIZE));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_get_number(&value, &out, PMIX_STRING));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_get_number(&value, NULL, PMIX_INT));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_get_number(NULL, &out, PMIX_INT));
    number = 300;
    OK(PMIx_Value_load(&value, &number, PMIX_INT32));
    IS(PMIX_ERR_LOST_PRECISION, PMIx_Value_get_number(&value, &out, PMIX_UINT8));
    OK(PMIx_Value_load(&value, "5", PMIX_STRING));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_get_number(&value, &out, PMIX_INT));
    PMIx_Value_destruct(&value);

    size_t size;
    OK(PMIx_Value_load(&value, "five", PMIX_STRING));
    OK(PMIx_Value_get_size(&value, &size));
    CHECK(size == sizeof value + 5);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_get_size(&value, NULL));
    PMIx_Value_destruct(&value);
}

#define WIDTHS 14

static struct {
    pmix_data_type_t type;
    size_t size;
    bool is_signed, means_something;
} widths[WIDTHS] = {{PMIX_SIZE, 8, false, false},  {PMIX_INT, 4, true, false},    {PMIX_INT8, 1, true, false},
                    {PMIX_INT16, 2, true, false},  {PMIX_INT32, 4, true, false},  {PMIX_INT64, 8, true, false},
                    {PMIX_UINT, 4, false, false},  {PMIX_UINT8, 1, false, false}, {PMIX_UINT16, 2, false, false},
                    {PMIX_UINT32, 4, false, false}, {PMIX_UINT64, 8, false, false}, {PMIX_PID, 4, true, true},
                    {PMIX_STATUS, 4, true, true},  {PMIX_PROC_RANK, 4, false, true}};

/* Contents of a place; half of it is enough to tell numbers from each other. */
static long double number_at(const void *place, int width) {
    uint64_t bits = 0;
    memcpy(&bits, place, widths[width].size);
    unsigned unused = 64 - 8 * (unsigned)widths[width].size;
    return widths[width].is_signed ? (long double)((int64_t)(bits << unused) >> unused) : (long double)bits;
}

/* A number is had as every type that can hold it, and as no other. */
static void numbers(void) {
    uint64_t bits[] = {0, 1, 127, 128, 255, 256, 32767, 32768, 65535, 65536, INT32_MAX, 1ull << 31, UINT32_MAX, 1ull << 32,
                       INT64_MAX, 1ull << 63, UINT64_MAX, -128ull, -129ull, -32768ull, -32769ull, -(1ull << 31),
                       -(1ull << 31) - 1, -(1ull << 32)};
    for (int from = 0; from < WIDTHS; from++) {
        for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
            pmix_value_t value = {.type = widths[from].type};
            memcpy(&value.data, &bits[i], widths[from].size);
            long double exact = number_at(&value.data, from);
            for (int to = 0; to < WIDTHS; to++) {
                unsigned char out[9];
                memset(out, 0xab, sizeof out);
                pmix_status_t rc = PMIx_Value_get_number(&value, out, widths[to].type);
                CHECK(out[widths[to].size] == 0xab);
                if (rc == PMIX_SUCCESS) {
                    CHECK(number_at(out, to) == exact);
                    continue;
                }
                uint64_t kept = (uint64_t)(exact < 0 ? (int64_t)exact : 0);
                kept = exact < 0 ? kept : (uint64_t)exact;
                bool both = from != to && widths[from].means_something && widths[to].means_something;
                CHECK(both ? rc == PMIX_ERR_BAD_PARAM : number_at(&kept, to) != exact);
                CHECK(out[0] == 0xab);
            }
        }
    }
}

/* An array that is not there is copied and packed as an empty one. */
static void absent(void) {
    pmix_value_t none = {.type = PMIX_DATA_ARRAY}, copy;
    pmix_data_buffer_t buffer;
    char *text = "behind", *back = NULL;
    int32_t one = 1;
    OK(PMIx_Value_xfer(&copy, &none));
    CHECK(copy.data.darray != NULL && copy.data.darray->size == 0);
    PMIx_Value_destruct(&copy);
    PMIx_Data_buffer_construct(&buffer);
    OK(PMIx_Data_pack(NULL, &buffer, &none, 1, PMIX_VALUE));
    OK(PMIx_Data_pack(NULL, &buffer, &text, 1, PMIX_STRING));
    OK(PMIx_Data_unpack(NULL, &buffer, &copy, &one, PMIX_VALUE));
    CHECK(copy.type == PMIX_DATA_ARRAY);
    PMIx_Value_destruct(&copy);
    OK(PMIx_Data_unpack(NULL, &buffer, &back, &one, PMIX_STRING));
    CHECK(!strcmp(back, text));
    free(back);
    PMIx_Data_buffer_destruct(&buffer);
}

static void infos(void) {
    pmix_info_t info;
    size_t size;
    int one = 1;
    PMIx_Info_construct(&info);
    CHECK(info.flags == 0 && PMIx_Info_is_optional(&info) && !PMIx_Info_is_required(&info));
    PMIx_Info_required(&info);
    PMIx_Info_processed(&info);
    PMIx_Info_set_end(&info);
    PMIx_Info_qualifier(&info);
    PMIx_Info_persistent(&info);
    CHECK(PMIx_Info_is_required(&info) && PMIx_Info_was_processed(&info) && PMIx_Info_is_end(&info));
    CHECK(PMIx_Info_is_qualifier(&info) && PMIx_Info_is_persistent(&info));
    PMIx_Info_optional(&info);
    CHECK(PMIx_Info_is_optional(&info) && !PMIx_Info_is_optional(NULL));
    OK(PMIx_Info_load(&info, "k", "v", PMIX_STRING));
    OK(PMIx_Info_get_size(&info, &size));
    CHECK(size == sizeof info + 2 + sizeof info.value + 2);
    CHECK(PMIx_Info_true(&info) == PMIX_NON_BOOL && PMIx_Info_true(NULL) == PMIX_NON_BOOL);

    void *list = PMIx_Info_list_start();
    OK(PMIx_Info_list_add_value(list, "a", &info.value));
    OK(PMIx_Info_list_add_value_unique(list, "a", &(pmix_value_t){.type = PMIX_INT, .data.integer = 2}, false));
    OK(PMIx_Info_list_add_value_unique(list, "a", &(pmix_value_t){.type = PMIX_INT, .data.integer = 3}, true));
    OK(PMIx_Info_list_xfer_unique(list, &info, true));
    OK(PMIx_Info_list_xfer_unique(list, &info, true));
    OK(PMIx_Info_list_add_unique(list, "k", &one, PMIX_INT, false));
    CHECK(PMIx_Info_list_get_size(list) == 2);
    void *next;
    pmix_info_t *first = PMIx_Info_list_get_info(list, NULL, &next);
    CHECK(first->value.type == PMIX_INT && first->value.data.integer == 3 && next != NULL);
    CHECK(!strcmp(PMIx_Info_list_get_info(list, next, &next)->value.data.string, "v") && next == NULL);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Info_list_add_value(list, "a", NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Info_list_add_value(NULL, "a", &info.value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Info_list_xfer_unique(list, NULL, true));
    CHECK(PMIx_Info_list_get_size(NULL) == 0 && PMIx_Info_list_get_info(NULL, NULL, &next) == NULL);
    PMIx_Info_list_release(list);
    PMIx_Info_destruct(&info);
}

static void texts(void) {
    pmix_proc_t proc;
    char *text;
    PMIx_Load_procid(&proc, "job", 3);
    text = PMIx_Proc_string(&proc);
    CHECK(!strcmp(text, "[job,3]"));
    free(text);
    pmix_app_t *app = PMIx_App_create(1);
    app->cmd = strdup("a.out");
    app->maxprocs = 4;
    text = PMIx_App_string(app);
    CHECK(!strncmp(text, "CMD: a.out\n", 11) && PMIx_App_string(NULL) == NULL);
    free(text);
    PMIx_App_release(app);
    pmix_resource_unit_t unit = {PMIX_DEVTYPE_GPU, 2};
    text = PMIx_Resource_unit_string(&unit);
    CHECK(!strcmp(text, "TYPE: GPU  COUNT: 2") && PMIx_Resource_unit_string(NULL) == NULL);
    free(text);

    CHECK(PMIx_Error_code("PMIX_ERR_BAD_PARAM") == PMIX_ERR_BAD_PARAM && PMIx_Error_code(NULL) == INT32_MIN);
    for (pmix_status_t code = 0; code > -410; code--) {
        const char *name = PMIx_Error_string(code);
        CHECK(!strcmp(name, "ERROR STRING NOT FOUND") || !strcmp(name, PMIx_Error_string(PMIx_Error_code(name))));
    }
    CHECK(PMIx_Get_attribute_name(NULL) == NULL && PMIx_Get_attribute_string(NULL) == NULL);
    CHECK(!strcmp(PMIx_Group_operation_string(PMIX_GROUP_CONSTRUCT), "CONSTRUCT"));
    CHECK(PMIx_Resource_block_directive_string(PMIX_RESOURCE_BLOCK_DEFINE) != NULL);
    CHECK(PMIx_Rank_valid(0) && !PMIx_Rank_valid(PMIX_RANK_WILDCARD) && !PMIx_Rank_valid(PMIX_RANK_UNDEF));

    char **argv = PMIx_Argv_split_inter("a,,b", ',', true);
    CHECK(PMIx_Argv_count(argv) == 3);
    PMIx_Argv_free(argv);
    argv = PMIx_Argv_split_inter("a,,b", ',', false);
    CHECK(PMIx_Argv_count(argv) == 2);
    PMIx_Argv_free(argv);
}

/* Elements that 4.2.2 does not know, or prints as an address. */
static void printed(void) {
    char zeros[1024] = {0}, *text;
    uint64_t devices = PMIX_DEVTYPE_GPU;
    for (int type = PMIX_DEVICE; type <= 75; type++) {
        text = NULL;
        OK(PMIx_Data_print(&text, "> ", zeros, (pmix_data_type_t)type));
        CHECK(!strncmp(text, "> Data type: PMIX_", 18));
        free(text);
    }
    pmix_device_t device = {NULL, "eth0", PMIX_DEVTYPE_NETWORK};
    OK(PMIx_Data_print(&text, NULL, &device, PMIX_DEVICE));
    CHECK(!strcmp(text, " Data type: PMIX_DEVICE\tValue: UUID: NULL OSName: eth0 Type: NETWORK"));
    free(text);
    pmix_resource_unit_t unit = {PMIX_DEVTYPE_CORE, 4};
    OK(PMIx_Data_print(&text, NULL, &unit, PMIX_RESOURCE_UNIT));
    CHECK(!strcmp(text, " Data type: PMIX_RESOURCE_UNIT\tValue: Type: CORE  Count: 4"));
    free(text);
    OK(PMIx_Data_print(&text, NULL, &devices, PMIX_DEVTYPE));
    CHECK(!strcmp(text, " Data type: PMIX_DEVICE_TYPE\tValue: 0x2"));
    free(text);
    pmix_data_range_t range = PMIX_RANGE_LOCAL;
    OK(PMIx_Data_print(&text, "", &range, PMIX_DATA_RANGE));
    CHECK(!strcmp(text, "Data type: PMIX_DATA_RANGE\tValue: AVAIL ON LOCAL NODE ONLY"));
    free(text);
    text = zeros;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_print(&text, NULL, NULL, PMIX_INT));
    CHECK(text == NULL);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_print(NULL, NULL, zeros, PMIX_INT));
    /* The one call to which the Standard gives this status for a type that is none. */
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_print(&text, NULL, zeros, PMIX_UNDEF));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_print(&text, NULL, zeros, 9999));
}

/* NULL where stock libraries crash. */
static void refused(void) {
    pmix_value_t value = {.type = PMIX_INT}, copy;
    pmix_info_t info;
    pmix_data_buffer_t buffer;
    pmix_byte_object_t bytes = {NULL, 3};
    pmix_data_array_t array = {PMIX_INT, 3, NULL};
    void *out = &value;
    uint8_t *packed = (uint8_t *)1;
    size_t size = 7;
    char *text;
    int32_t n = 1, five = 5;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_xfer(NULL, &value));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_unload(NULL, &out, &size));
    CHECK(PMIx_Value_compare(NULL, &value) == PMIX_VALUE_COMPARISON_NOT_AVAIL);
    PMIx_Value_destruct(NULL);
    PMIx_Data_array_destruct(NULL);
    PMIx_Topology_destruct(NULL);
    PMIx_Cpuset_destruct(NULL);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Info_load(NULL, "k", &five, PMIX_INT));
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Info_load(&info, "k", &five, 9999));
    CHECK(info.value.type == PMIX_UNDEF);
    for (int type = PMIX_VALUE; type <= PMIX_REGEX2; type++) {
        /* Structures that are not there. */
        if (PMIX_SUCCESS == PMIx_Value_load(&value, NULL, (pmix_data_type_t)type)) {
            OK(PMIx_Value_xfer(&copy, &value));
            free(PMIx_Value_string(&copy));
            (void)PMIx_Value_compare(&value, &copy);
            PMIx_Value_destruct(&copy);
        }
        PMIx_Value_destruct(&value);
    }
    PMIx_Data_buffer_construct(&buffer);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, NULL, &five, 1, PMIX_INT));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, &buffer, &five, -1, PMIX_INT));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, &buffer, &bytes, 1, PMIX_BYTE_OBJECT));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, &buffer, &array, 1, PMIX_DATA_ARRAY));
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Data_pack(NULL, &buffer, &five, 1, 9999));
    CHECK(buffer.bytes_used == 0);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_unpack(NULL, NULL, &five, &n, PMIX_INT));
    CHECK(n == 0);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_unpack(NULL, &buffer, &five, NULL, PMIX_INT));
    n = -1;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_unpack(NULL, &buffer, &five, &n, PMIX_INT));
    CHECK(n == 0);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_copy_payload(NULL, &buffer));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_copy_payload(&buffer, NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Data_copy(NULL, &five, PMIX_INT));
    CHECK(!PMIx_Data_compress(NULL, 12, &packed, &size) && packed == NULL && size == 0);
    CHECK(!PMIx_Data_decompress(NULL, 12, &packed, &size) && !PMIx_Data_compress((uint8_t *)&five, 4, NULL, NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_generate_regex(NULL, &text));
    IS(PMIX_ERR_BAD_PARAM, PMIx_generate_regex("a", NULL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_generate_ppn(NULL, &text));
    IS(PMIX_ERR_BAD_PARAM, PMIx_generate_ppn("a", &text));
    IS(PMIX_ERR_BAD_PARAM, PMIx_generate_regex("a,,b", &text));
    PMIx_Data_buffer_destruct(&buffer);
}

/* Nested, cut and absurd packs: an error, and the buffer as it was. */
static void damaged(void) {
    struct {
        const char *bytes;
        size_t size;
        int type;
        pmix_status_t status;
    } packs[] = {
#define PACK(bytes, type, status) {bytes, sizeof(bytes) - 1, type, status}
        PACK("\x06\x0a", PMIX_INT, PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER),
        PACK("\x02\xff", PMIX_INT, PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER),
        PACK("\x01\x0a", PMIX_INT, PMIX_ERR_UNPACK_FAILURE),
        PACK("\x02\x05" "abc", PMIX_STRING, PMIX_ERR_UNPACK_FAILURE),
        PACK("\x02\x06xy", PMIX_FLOAT, PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER),
        PACK("\x02\x06xy\0", PMIX_FLOAT, PMIX_ERR_UNPACK_FAILURE),
        PACK("\x02\x09\xff\xff\xff\xff\xff\x7f\x05", PMIX_DATA_ARRAY, PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER),
        PACK("\x02\xe7\x07\x02\x05", PMIX_DATA_ARRAY, PMIX_ERR_UNKNOWN_DATA_TYPE),
        PACK("\xfe\xff\xff\xff\x0f\x07", PMIX_INT, PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER),
        PACK("\x02\x04k\0\0\xe7\x07", PMIX_INFO, PMIX_ERR_UNKNOWN_DATA_TYPE),
        PACK("\x02\x06\x05", PMIX_PID, PMIX_ERR_UNPACK_FAILURE),
    };
    for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) {
        char room[4096];
        int32_t n = 4;
        pmix_data_buffer_t buffer;
        PMIx_Data_buffer_construct(&buffer);
        OK(PMIx_Data_embed(&buffer, &(pmix_byte_object_t){(char *)packs[i].bytes, packs[i].size}));
        IS(packs[i].status, PMIx_Data_unpack(NULL, &buffer, room, &n, (pmix_data_type_t)packs[i].type));
        CHECK(n == 0 && buffer.unpack_ptr == buffer.base_ptr && buffer.bytes_used == packs[i].size);
        PMIx_Data_buffer_destruct(&buffer);
    }
}

/* As many as there is room for, and an error that says that there are more; nothing is gone from the buffer by being read. */
static void too_many(void) {
    int packed[] = {1, 2, 3}, unpacked[3];
    char *texts[] = {"one", "two"}, *copies[2] = {NULL, NULL};
    pmix_data_buffer_t buffer;
    int32_t n = 2;
    PMIx_Data_buffer_construct(&buffer);
    OK(PMIx_Data_pack(NULL, &buffer, packed, 3, PMIX_INT));
    IS(PMIX_ERR_UNPACK_INADEQUATE_SPACE, PMIx_Data_unpack(NULL, &buffer, unpacked, &n, PMIX_INT));
    CHECK(n == 2 && !memcmp(packed, unpacked, 2 * sizeof *packed));
    for (int round = 0; round < 2; round++) {
        buffer.unpack_ptr = buffer.base_ptr;
        n = 3;
        OK(PMIx_Data_unpack(NULL, &buffer, unpacked, &n, PMIX_INT));
        CHECK(n == 3 && !memcmp(packed, unpacked, sizeof packed));
    }
    OK(PMIx_Data_pack(NULL, &buffer, texts, 2, PMIX_STRING));
    n = 1;
    IS(PMIX_ERR_UNPACK_INADEQUATE_SPACE, PMIx_Data_unpack(NULL, &buffer, copies, &n, PMIX_STRING));
    CHECK(n == 1 && !strcmp(copies[0], "one") && copies[1] == NULL);
    free(copies[0]);
    PMIx_Data_buffer_destruct(&buffer);
}

static void compressed(void) {
    static uint8_t many[100000];
    uint8_t *small, *large;
    size_t n, m;
    CHECK(PMIx_Data_compress(many, sizeof many, &small, &n) && n < sizeof many / 100);
    CHECK(PMIx_Data_decompress(small, n, &large, &m) && m == sizeof many && !memcmp(many, large, m));
    free(large);
    CHECK(!PMIx_Data_decompress(small, n - 1, &large, &m) && large == NULL && m == 0);
    free(small);
}

/* The older checks take missing names, and wildcards, for everything. */
static void strictly(void) {
    CHECK(PMIx_Check_nspace_strict("a", "a") && !PMIx_Check_nspace_strict("a", "b"));
    CHECK(!PMIx_Check_nspace_strict("a", NULL) && !PMIx_Check_nspace_strict("", "") && !PMIx_Check_nspace_strict(NULL, NULL));
    pmix_proc_t one, all, nobody;
    PMIx_Load_procid(&one, "a", 1);
    PMIx_Load_procid(&all, "a", PMIX_RANK_WILDCARD);
    PMIx_Load_procid(&nobody, "", 1);
    CHECK(PMIx_Check_procid_strict(&one, &one) && PMIx_Check_procid_strict(&all, &all));
    CHECK(PMIx_Check_procid(&one, &all) && !PMIx_Check_procid_strict(&one, &all));
    CHECK(PMIx_Check_procid(&one, &nobody) && !PMIx_Check_procid_strict(&one, &nobody));
    CHECK(!PMIx_Check_procid_strict(&nobody, &nobody) && !PMIx_Check_procid_strict(&one, NULL));
}

int main(void) {
    pmix_proc_t me;
    IS(PMIX_ERR_UNREACH, PMIx_Init(&me, NULL, 0));
    values();
    numbers();
    absent();
    infos();
    texts();
    printed();
    refused();
    damaged();
    too_many();
    compressed();
    strictly();
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}
