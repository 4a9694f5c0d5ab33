/* Few packed bytes that claim much: refused, the buffer as it was, and never more memory than a multiple of the bytes. */
#include "check.h"
#include <sys/resource.h>

#define LARGE (1 << 20)

static unsigned char bytes[LARGE];
static size_t used;

static void add(size_t n, const unsigned char *more) {
    CHECK(used + n <= sizeof(bytes));
    memcpy(bytes + used, more, n);
    used += n;
}
#define ADD(...) add(sizeof((unsigned char[]){__VA_ARGS__}), (unsigned char[]){__VA_ARGS__})
/* An integer of five bytes. */
#define NUMBER(n) 0x80 | ((n)&127), 0x80 | ((n) >> 7 & 127), 0x80 | ((n) >> 14 & 127), 0x80 | ((n) >> 21 & 127), (n) >> 28

static void refused(pmix_status_t status) {
    pmix_data_buffer_t buffer;
    pmix_data_array_t array = {0, 0, NULL};
    pmix_byte_object_t object = {malloc(used), used};
    int32_t n = 1;
    memcpy(object.bytes, bytes, used);
    PMIx_Data_buffer_construct(&buffer);
    OK(PMIx_Data_load(&buffer, &object));
    IS(status, PMIx_Data_unpack(NULL, &buffer, &array, &n, PMIX_DATA_ARRAY));
    CHECK(0 == n && NULL == array.array && buffer.unpack_ptr == buffer.base_ptr);
    PMIx_Data_buffer_destruct(&buffer);
    used = 0;
}

/* Addresses take no bytes. */
static void addresses(unsigned arrays) {
    ADD(2, PMIX_DATA_ARRAY, NUMBER(arrays));
    while (0 < arrays--) {
        ADD(PMIX_POINTER, 0x80, 0x80, 4, 1);
    }
    refused(PMIX_ERR_UNPACK_FAILURE);
}

int main(void) {
    pmix_proc_t me;
    struct rusage usage;
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    CHECK(PMIX_SUCCESS == rc || PMIX_ERR_UNREACH == rc);
    addresses(1000);
    addresses(8000);
    /* Each level claims all the bytes that are left for attributes of its own, of 552 bytes each in C. */
    struct rlimit limit = {1l << 30, 1l << 30};
    CHECK(0 == setrlimit(RLIMIT_AS, &limit));
    ADD(2, PMIX_INFO, NUMBER(LARGE / 4));
    for (int level = 1; level < 14; level++) {
        ADD(0, 0, PMIX_DATA_ARRAY, PMIX_INFO, NUMBER(LARGE / 4));
    }
    used = LARGE;
    refused(PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    CHECK(0 == getrusage(RUSAGE_SELF, &usage));
    if (64 * 1024 < usage.ru_maxrss) {
        fprintf(stderr, "%ld kB\n", usage.ru_maxrss);
        return 1;
    }
    PMIx_Finalize(NULL, 0);
    return 0;
}
