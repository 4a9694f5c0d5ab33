/* Helpers on damaged input: lines of a corpus, changed at random. Nothing may crash, read what is not there, or lose
 * memory (run it under valgrind).
 *     fuzz SEED ROUNDS PACKS TEXTS */
#include "check.h"

static uint64_t state;

static uint32_t any(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

typedef struct {
    int type;
    size_t length;
    unsigned char *bytes;
} sample_t;

static sample_t packs[256], texts[256];
static uint32_t npacks, ntexts;

static void read_corpus(const char *packed, const char *written) {
    static char line[1 << 16];
    FILE *file = fopen(packed, "r");
    int n, used;
    CHECK(NULL != file);
    while (npacks < 256 && NULL != fgets(line, sizeof(line), file)) {
        sample_t *sample = &packs[npacks++];
        CHECK(2 == sscanf(line, "%d %d %n", &sample->type, &n, &used));
        sample->length = strcspn(line + used, "\n") / 2;
        sample->bytes = malloc(sample->length + 1);
        for (size_t i = 0; i < sample->length; i++) {
            unsigned byte = 0;
            sscanf(line + used + 2 * i, "%2x", &byte);
            sample->bytes[i] = (unsigned char)byte;
        }
    }
    fclose(file);
    file = fopen(written, "r");
    CHECK(NULL != file);
    while (ntexts < 256 && NULL != fgets(line, sizeof(line), file)) {
        sample_t *sample = &texts[ntexts++];
        sample->length = strcspn(line, "\n");
        sample->bytes = malloc(sample->length + 1);
        memcpy(sample->bytes, line, sample->length);
    }
    fclose(file);
}

/* A copy with a few bytes changed, taken out, put in, or cut off, and a NUL behind it. */
static sample_t damaged(const sample_t *from) {
    static const unsigned char odd[] = {0, 1, 0x7f, 0x80, 0xff, '[', ']', ',', ':', ';', '-', '9', 'x', '(', ')', '='};
    sample_t to = *from;
    to.bytes = malloc(2 * from->length + 16);
    memcpy(to.bytes, from->bytes, from->length);
    for (uint32_t changes = any(4); 0 < changes && 0 < to.length; changes--) {
        size_t at = any((uint32_t)to.length), more = 1 + any(3);
        switch (any(5)) {
        case 0: to.bytes[at] ^= (unsigned char)(1 << any(8)); break;
        case 1: to.bytes[at] = odd[any(sizeof(odd))]; break;
        case 2: to.length = at; break;
        case 3:
            memmove(to.bytes + at, to.bytes + at + 1, to.length - at - 1);
            to.length--;
            break;
        default:
            if (to.length + more < 2 * from->length + 8) {
                memmove(to.bytes + at + more, to.bytes + at, to.length - at);
                memset(to.bytes + at, odd[any(sizeof(odd))], more);
                to.length += more;
            }
        }
    }
    to.bytes[to.length] = 0;
    return to;
}

/* Unpacks and, where that goes well, prints, copies, packs again, and frees. */
static void unpack(const sample_t *sample, int type) {
    pmix_data_buffer_t in, out;
    pmix_byte_object_t bytes = {malloc(sample->length + 1), sample->length};
    int32_t room = 1 + (int32_t)any(6), n = room;
    memcpy(bytes.bytes, sample->bytes, sample->length);
    PMIx_Data_buffer_construct(&in);
    PMIx_Data_buffer_construct(&out);
    OK(PMIx_Data_load(&in, &bytes));
    char *place = calloc((size_t)room, 1024), *text = NULL;
    pmix_status_t rc = PMIx_Data_unpack(NULL, &in, place, &n, (pmix_data_type_t)type);
    CHECK(0 <= n && n <= room);
    if (PMIX_SUCCESS == rc || PMIX_ERR_UNPACK_INADEQUATE_SPACE == rc) {
        CHECK(in.unpack_ptr <= in.base_ptr + in.bytes_used);
        OK(PMIx_Data_pack(NULL, &out, place, n, (pmix_data_type_t)type));
        if (PMIX_REGEX == type) {
            for (int32_t i = 0; i < n; i++) {
                free(((char **)place)[i]);
            }
            free(place);
        } else {
            if (0 < n && PMIX_STRING != type && PMIX_POINTER != type) {
                void *copy = NULL;
                if (PMIX_SUCCESS == PMIx_Data_print(&text, "", place, (pmix_data_type_t)type)) {
                    free(text);
                }
                if (PMIX_VALUE == type) {
                    OK(PMIx_Data_copy(&copy, place, PMIX_VALUE));
                    (void)PMIx_Value_compare(copy, (pmix_value_t *)place);
                    PMIx_Value_free(copy, 1);
                }
            }
            pmix_data_array_t owner = {(pmix_data_type_t)type, (size_t)n, place};
            PMIx_Data_array_destruct(&owner);
        }
    } else {
        CHECK(0 == n && in.unpack_ptr == in.base_ptr);
        free(place);
    }
    PMIx_Data_buffer_destruct(&in);
    PMIx_Data_buffer_destruct(&out);
}

static void decompress(const sample_t *sample) {
    uint8_t *bytes = (uint8_t *)1;
    size_t n = 77;
    if (PMIx_Data_decompress(sample->bytes, sample->length, &bytes, &n)) {
        free(bytes);
    } else {
        CHECK(NULL == bytes && 0 == n);
    }
}

static void read_text(const char *text, const char *other) {
    char *made = NULL, **argv, **env = NULL;
    pmix_cpuset_t cpuset;
    pmix_regex2_t regex;
    pmix_locality_t shared;
    pmix_key_t key;
    pmix_nspace_t name, first, second;
    if (PMIX_SUCCESS == PMIx_generate_regex(text, &made)) {
        free(made);
    }
    if (PMIX_SUCCESS == PMIx_generate_ppn(text, &made)) {
        free(made);
    }
    if (PMIX_SUCCESS == PMIx_generate_regex2(text, NULL, 0, &regex)) {
        if (PMIX_SUCCESS == PMIx_parse_regex2(&regex, NULL, 0, &made)) {
            free(made);
        }
        PMIx_Regex2_destruct(&regex);
    }
    if (PMIX_SUCCESS == PMIx_Parse_cpuset_string(text, &cpuset)) {
        PMIx_Cpuset_destruct(&cpuset);
    }
    (void)PMIx_Get_relative_locality(text, other, &shared);
    CHECK(NULL != PMIx_Error_string(PMIx_Error_code(text)));
    CHECK(NULL != PMIx_Get_attribute_name(text) && NULL != PMIx_Get_attribute_string(text));
    argv = PMIx_Argv_split_with_empty(text, ",:;="[any(4)]);
    (void)PMIx_Argv_append_unique_nosize(&argv, other);
    (void)PMIx_Argv_prepend_nosize(&argv, text);
    CHECK(2 <= PMIx_Argv_count(argv));
    free(PMIx_Argv_join(argv, ','));
    char **copy = PMIx_Argv_copy(argv);
    CHECK(PMIx_Argv_count(copy) == PMIx_Argv_count(argv));
    PMIx_Argv_free(copy);
    PMIx_Argv_free(argv);
    (void)PMIx_Setenv(text, other, true, &env);
    (void)PMIx_Setenv(other, text, false, &env);
    PMIx_Argv_free(env);
    PMIx_Load_key(key, text);
    PMIx_Load_nspace(name, text);
    CHECK(PMIx_Check_nspace(name, name));
    (void)PMIx_Check_reserved_key(key);
    PMIx_Multicluster_nspace_parse(name, first, second);
    PMIx_Multicluster_nspace_construct(name, first, second);
}

int main(int argc, char **argv) {
    pmix_proc_t me;
    CHECK(5 == argc);
    state = strtoull(argv[1], NULL, 10);
    unsigned long rounds = strtoul(argv[2], NULL, 10);
    read_corpus(argv[3], argv[4]);
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    CHECK(PMIX_SUCCESS == rc || PMIX_ERR_UNREACH == rc);
    while (0 < rounds--) {
        sample_t pack = damaged(&packs[any(npacks)]);
        sample_t one = damaged(&texts[any(ntexts)]), other = damaged(&texts[any(ntexts)]);
        unpack(&pack, 0 == any(8) ? (int)any(80) : pack.type);
        decompress(&pack);
        read_text((char *)one.bytes, (char *)other.bytes);
        free(pack.bytes);
        free(one.bytes);
        free(other.bytes);
    }
    for (uint32_t i = 0; i < npacks; i++) {
        free(packs[i].bytes);
    }
    for (uint32_t i = 0; i < ntexts; i++) {
        free(texts[i].bytes);
    }
    PMIx_Finalize(NULL, 0);
    return 0;
}
