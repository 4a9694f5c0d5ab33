/* Buffers of packed data, and what comes of unpacking too little, too much and nonsense. That every type is packed to the same
 * bytes is packing.c's to show. A pack or an unpack that fails leaves a buffer of ours as it was, and one of 4.2.2's in the
 * middle: where it stands is told only after what went well. */
#include "families.h"

static int five = 5;

static void print(const char *what, const pmix_data_buffer_t *buffer) {
    size_t done = NULL == buffer->base_ptr ? 0 : (size_t)(buffer->unpack_ptr - buffer->base_ptr);
    printf("%s: %zu bytes, %zu unpacked", what, buffer->bytes_used, done);
    show_bytes("", buffer->base_ptr, buffer->bytes_used);
}

static void pack(const char *what, void *elements, int n, int type) {
    pmix_data_buffer_t buffer;
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    pmix_status_t rc = PMIx_Data_pack(NULL, &buffer, elements, n, (pmix_data_type_t)type);
    printf("pack %s: %d\n", what, rc);
    if (PMIX_SUCCESS == rc) {
        print("packed", &buffer);
    }
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

static void packs(void) {
    static char zeros[1024];
    static int types[] = {0, 29, 44, 200, 500, 9999, 65535};
    pmix_info_t info;
    pmix_pdata_t data;
    pmix_value_t value;
    pmix_regattr_t attribute;
    pmix_data_array_t nothing = {PMIX_UNDEF, 0, NULL}, unnamed = {PMIX_INFO, 1, &info};
    pack("a number", &five, 1, PMIX_INT);
    pack("no number", &five, 0, PMIX_INT);
    pack("nothing", NULL, 1, PMIX_INT);
    pack("nothing at all", NULL, 0, PMIX_INT);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        pack("of an unknown type", zeros, 1, types[i]);
    }
    memset(&info, 0, sizeof(info));
    memset(&data, 0, sizeof(data));
    memset(&value, 0, sizeof(value));
    memset(&attribute, 0, sizeof(attribute));
    info.value.type = data.value.type = PMIX_INT;
    pack("an attribute without a key", &info, 1, PMIX_INFO);
    pack("published data without a key", &data, 1, PMIX_PDATA);
    pack("an empty attribute", &(pmix_info_t){.key = "k"}, 1, PMIX_INFO);
    pack("an empty value", &value, 1, PMIX_VALUE);
    pack("an empty description", &attribute, 1, PMIX_REGATTR);
    pack("an array of nothing", &nothing, 1, PMIX_DATA_ARRAY);
    printf("load: %d\n", PMIx_Value_load(&value, &unnamed, PMIX_DATA_ARRAY));
    pack("an array of an attribute without a key", &value, 1, PMIX_VALUE);
    PMIX_VALUE_DESTRUCT(&value);
}

static void unpack(const char *what, const char *packed, size_t n, int type, int32_t most) {
    static char room[16 * 1024];
    pmix_data_buffer_t buffer;
    pmix_byte_object_t bytes = {malloc(n + 1), n};
    memcpy(bytes.bytes, packed, n);
    memset(room, 0, sizeof(room));
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    PMIx_Data_load(&buffer, &bytes);
    pmix_status_t rc = PMIx_Data_unpack(NULL, &buffer, room, &most, (pmix_data_type_t)type);
    printf("unpack %s: %d, %d elements\n", what, rc, most);
    if (PMIX_SUCCESS == rc) {
        pmix_data_array_t *array = calloc(1, sizeof(*array));
        pmix_value_t owner;
        print("unpacked", &buffer);
        array->type = (pmix_data_type_t)type;
        array->size = (size_t)most;
        array->array = malloc(sizeof(room));
        memcpy(array->array, room, sizeof(room));
        owner.type = PMIX_DATA_ARRAY;
        owner.data.darray = array;
        PMIX_VALUE_DESTRUCT(&owner);
    }
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

#define UNPACK(what, packed, type, most) unpack(what, packed, sizeof(packed) - 1, type, most)

/* 4.2.2 takes less care with some: what ends in the middle of a number, a negative number of elements, a text that is no
 * number, and the codes for what ends too early or is nonsense differ by type. */
static void unpacks(void) {
    UNPACK("from nothing", "", PMIX_INT, 1);
    UNPACK("a number", "\x02\x0a", PMIX_INT, 1);
    UNPACK("to no place", "\x02\x0a", PMIX_INT, 0);
    UNPACK("two of three", "\x06\x0a\x0a\x0a", PMIX_INT, 2);
    UNPACK("two of three bytes", "\x06\x0a\x0a\x0a", PMIX_BYTE, 2);
    UNPACK("three", "\x06\x0a\x0a\x0a", PMIX_INT, 5);
    UNPACK("bytes that are not there", "\x06\x0a", PMIX_BYTE, 5);
    UNPACK("no elements", "\0\x0a", PMIX_INT, 5);
    UNPACK("text", "\x02\x08" "abc", PMIX_STRING, 1);
    UNPACK("more text than there is", "\x02\x0a" "abc", PMIX_STRING, 1);
    UNPACK("very much text", "\x02\xfe\xff\xff\xff\x0f" "abc", PMIX_STRING, 1);
    UNPACK("very many bytes", "\x02\xff\xff\xff\xff\x7f" "abc", PMIX_BYTE_OBJECT, 1);
    UNPACK("an unknown value", "\x02\xe7\x07\x00", PMIX_VALUE, 1);
    UNPACK("an empty value", "\x02\0", PMIX_VALUE, 1);
    UNPACK("an unknown type", "\x02\x0a", 999, 1);
    UNPACK("no type", "\x02\x0a", PMIX_UNDEF, 1);
    UNPACK("what was a type once", "\x02\x0a", 44, 1);
    UNPACK("a number that is too large", "\x02\xff\xff\xff\x7f", PMIX_INT16, 1);
    UNPACK("one without a sign", "\x02\xff\xff\xff\x7f", PMIX_UINT16, 1);
    UNPACK("an array", "\x02\x09\x02\x0a\x0b", PMIX_DATA_ARRAY, 1);
    UNPACK("an array of nothing", "\x02\0\0", PMIX_DATA_ARRAY, 1);
    UNPACK("an attribute", "\x02\x04k\0\0\x06\x0e", PMIX_INFO, 1);
    UNPACK("an attribute without a key", "\x02\x02\0\0\x06\x0e", PMIX_INFO, 1);
    UNPACK("a process", "\x02\x04j\0\x03", PMIX_PROC, 1);
    UNPACK("a process without a rank", "\x02\x04j\0", PMIX_PROC, 1);
    UNPACK("a process id", "\x02\x0e\x05", PMIX_PID, 1);
    UNPACK("a truth", "\x02\x07", PMIX_BOOL, 1);
}

static void payloads(void) {
    pmix_data_buffer_t buffer, other;
    pmix_byte_object_t bytes = {NULL, 0}, packed = {"\x02\x0a", 2};
    int number;
    int32_t one = 1;
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    PMIX_DATA_BUFFER_CONSTRUCT(&other);
    printf("load to nowhere: %d, nothing: %d, of nothing: %d\n", PMIx_Data_load(NULL, &bytes), PMIx_Data_load(&buffer, NULL),
           PMIx_Data_load(&buffer, &bytes));
    printf("unload from nowhere: %d, to nowhere: %d, nothing: %d\n", PMIx_Data_unload(NULL, &bytes),
           PMIx_Data_unload(&buffer, NULL), PMIx_Data_unload(&buffer, &bytes));
    printf("embed in nothing: %d, nothing: %d\n", PMIx_Data_embed(NULL, &packed), PMIx_Data_embed(&buffer, NULL));
    printf("embed: %d\n", PMIx_Data_embed(&buffer, &packed));
    print("embedded", &buffer);
    printf("copy: %d\n", PMIx_Data_copy_payload(&other, &buffer));
    print("copied", &other);
    PMIx_Data_pack(NULL, &buffer, &five, 1, PMIX_INT);
    printf("unpack: %d\n", PMIx_Data_unpack(NULL, &buffer, &number, &one, PMIX_INT));
    printf("copy the rest: %d\n", PMIx_Data_copy_payload(&other, &buffer));
    print("copied", &other);
    printf("unload the rest: %d\n", PMIx_Data_unload(&buffer, &bytes));
    show_bytes("unloaded", bytes.bytes, bytes.size);
    print("left", &buffer);
    printf("load: %d\n", PMIx_Data_load(&buffer, &bytes));
    print("loaded", &buffer);
    printf("bytes left: %zu\n", bytes.size);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    PMIX_DATA_BUFFER_DESTRUCT(&other);
}

/* A copy of nothing is refused, whatever its type is. */
static void copies(void) {
    for (int type = 0; type < 70; type++) {
        void *copy;
        printf("copy nothing of type %d: %d\n", type, PMIx_Data_copy(&copy, NULL, (pmix_data_type_t)type));
    }
    void *copy;
    printf("copy: %d", PMIx_Data_copy(&copy, &five, PMIX_INT));
    printf(" %d\n", *(int *)copy);
    free(copy);
    printf("copy: %d", PMIx_Data_copy(&copy, "text", PMIX_STRING));
    printf(" %s\n", (char *)copy);
    free(copy);
    printf("copy: %d", PMIx_Data_copy(&copy, &a_proc, PMIX_PROC));
    printf(" %s\n", ((pmix_proc_t *)copy)->nspace);
    free(copy);
}

/* 4.2.2 compresses nothing at all: it wants the result to be shorter than the longest it might become. */
static void compressed(void) {
    uint8_t *bytes = NULL, few[4000];
    size_t n = 0;
    memset(few, 'a', sizeof(few));
    printf("compress: %d\n", PMIx_Data_compress(few, sizeof(few), &bytes, &n));
}

void buffers(void) {
    packs();
    unpacks();
    payloads();
    copies();
    compressed();
}
