/* Checks of the programs of this folder. */
#ifndef CHECK_H
#define CHECK_H
#include <instanton_store.h>
#include <pmix_common.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,                    \
                    instanton_store_message());                                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define DONE(call) CHECK((call) == INSTANTON_SUCCESS)

static inline instanton_value_t number(uint16_t type, uint64_t bits)
{
    instanton_value_t value = INSTANTON_VALUE_INIT;
    value.type = type;
    value.form = INSTANTON_SCALAR;
    value.bits = bits;
    return value;
}

static inline instanton_value_t words(const char *text)
{
    instanton_value_t value = INSTANTON_VALUE_INIT;
    value.type = PMIX_STRING;
    value.form = INSTANTON_TEXT;
    value.bytes = text;
    value.length = SIZE_MAX;
    return value;
}

static inline instanton_value_t bytes(const void *place, size_t length)
{
    instanton_value_t value = INSTANTON_VALUE_INIT;
    value.type = PMIX_BYTE_OBJECT;
    value.form = INSTANTON_BYTES;
    value.bytes = place;
    value.length = length;
    return value;
}

static inline instanton_entry_t entry(const char *key, instanton_value_t value)
{
    instanton_entry_t entry = INSTANTON_ENTRY_INIT;
    entry.scope = INSTANTON_SCOPE_GLOBAL;
    entry.key = key;
    entry.value = value;
    return entry;
}

static inline instanton_job_t *job_on(const char *host, uint32_t local_procs)
{
    instanton_job_spec_t spec = INSTANTON_JOB_SPEC_INIT;
    instanton_job_t *job = NULL;
    spec.nspace = "job@1";
    spec.own_host = host;
    spec.node_map = "alpha,beta";
    spec.proc_map = "0-3;4-7";
    spec.local_procs = local_procs;
    DONE(instanton_job_create(&spec, &job));
    return job;
}
#endif
