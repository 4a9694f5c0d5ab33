/* Descriptors that are passed by hand, values of every form that C is given, and everything that is refused. */
#include "check.h"
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static instanton_view_t *import(instanton_job_t *job, uint64_t *reader)
{
    instanton_view_spec_t spec = INSTANTON_VIEW_SPEC_INIT;
    instanton_view_t *view = NULL;
    int fds[8], page = -1;
    size_t n = 0;

    DONE(instanton_job_export(job, NULL, 0, fds, 8, &n));
    CHECK(n >= 2);
    if (NULL != reader) {
        DONE(instanton_job_reader(job, &page, reader));
    }
    spec.descriptors = fds;
    spec.ndescriptors = n;
    spec.page = page;
    /* As a program of the first header says it. */
    spec.size = offsetof(instanton_view_spec_t, trust_owner);
    spec.version = 0x00010000;
    DONE(instanton_view_import(&spec, &view));
    while (n > 0) {
        close(fds[--n]);
    }
    if (page >= 0) {
        close(page);
    }
    return view;
}

static void catch_up(instanton_job_t *job, instanton_view_t *view)
{
    char have[INSTANTON_HAVE_SIZE];
    int fds[8];
    size_t n = 0;

    DONE(instanton_view_have(view, have, sizeof(have)));
    DONE(instanton_job_export(job, have, sizeof(have), fds, 8, &n));
    DONE(instanton_view_add(view, fds, n));
    while (n > 0) {
        close(fds[--n]);
    }
}

static void *unpin(void *guard)
{
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_unpin(guard));
    return NULL;
}

static void refused(instanton_job_t *job)
{
    instanton_job_spec_t spec = INSTANTON_JOB_SPEC_INIT;
    instanton_view_spec_t where = INSTANTON_VIEW_SPEC_INIT;
    instanton_job_t *none = NULL;
    instanton_view_t *view = NULL;
    instanton_value_t value = number(PMIX_UINT32, 1);
    pmix_value_t *found = NULL;
    char small[8];
    int other = 0;

    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_create(&spec, &none) && NULL == none);
    CHECK(NULL != strstr(instanton_store_message(), "namespace"));
    spec.nspace = "other";
    spec.version = INSTANTON_STORE_VERSION + 0x10000;
    CHECK(INSTANTON_ERR_NOT_SUPPORTED == instanton_job_create(&spec, &none));
    spec.version = INSTANTON_STORE_VERSION + 1;
    CHECK(INSTANTON_ERR_NOT_SUPPORTED == instanton_job_create(&spec, &none));
    spec.version = INSTANTON_STORE_VERSION;
    spec.size -= 8;
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_create(&spec, &none));
    spec.size += 8;
    spec.proc_map = "0-x";
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_create(&spec, &none));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_create(NULL, &none));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 0, 9, "k", &value));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 0, INSTANTON_SCOPE_GLOBAL, NULL, &value));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 0, INSTANTON_SCOPE_GLOBAL, "k", NULL));
    value.type = PMIX_BYTE_OBJECT;
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 0, INSTANTON_SCOPE_GLOBAL, "k", &value));
    value.form = 77;
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 0, INSTANTON_SCOPE_GLOBAL, "k", &value));
    /* Lengths that no memory has, and that none of it may be asked for. */
    for (size_t length = SIZE_MAX; length > UINT32_MAX; length /= 2) {
        value = bytes("x", length);
        CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 0, INSTANTON_SCOPE_GLOBAL, "k", &value));
    }
    value = number(PMIX_UINT32, 1);
    /* More than there can be, and one that says another size than the first. */
    {
        instanton_entry_t two[] = { entry("a", value), entry("b", value) };
        instanton_value_t values[] = { value, value };
        for (size_t n = SIZE_MAX; n > SIZE_MAX / sizeof(value); n -= n / 4) {
            CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_post(job, 0, two, n));
            CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_proc(job, 0, two, n));
            CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_column(job, "c", 0, values, n));
        }
        two[1].size = 8;
        CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_post(job, 0, two, 2));
        values[1].size *= 2;
        CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_column(job, "c", 0, values, 2));
        CHECK(0 == strcmp(instanton_store_message(), "instanton_value_t 1 says another size than the first"));
    }
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_put(job, 0, INSTANTON_SCOPE_GLOBAL, "", &value));
    instanton_entry_t post = entry("k", value);
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_post(job, 4711, &post, 1));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_info(job, 9, 0, "k", &value));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_listen(job, small, sizeof(small)));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_get(NULL, 0, "k", &found));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_get(NULL, 0, "k", &found));
    where.address = "nowhere";
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_open(&where, &view));
    where.address = "instanton-store:1:nobody:00112233445566778899aabbccddeeff";
    CHECK(INSTANTON_ERR_LOST_CONNECTION == instanton_view_open(&where, &view));
    where.address = NULL;
    CHECK(INSTANTON_ERROR == instanton_view_import(&where, &view));
    where.descriptors = &other;
    where.ndescriptors = 1;
    CHECK(INSTANTON_ERROR == instanton_view_import(&where, &view));
    other = -1;
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_import(&where, &view) && NULL == view);
    /* One that is not open. */
    other = 1 << 20;
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_import(&where, &view) && NULL == view);
    where.size = 32;
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_import(&where, &view) && NULL == view);
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_link(job, "late", INSTANTON_READERS_USER));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_post_mortem(NULL, INSTANTON_OWNER_SELF, &view));
    CHECK(INSTANTON_ERR_LOST_CONNECTION == instanton_view_map("nowhere", INSTANTON_OWNER_SELF, &view));
    instanton_job_free(NULL);
    instanton_view_free(NULL);
}

int main(void)
{
    instanton_job_t *job = job_on("alpha", 4);
    instanton_view_t *view, *bare;
    instanton_guard_t *guard = NULL;
    instanton_value_t value, seen = INSTANTON_VALUE_INIT;
    instanton_entry_t two[2];
    instanton_stats_t stats = INSTANTON_STATS_INIT;
    pmix_value_t *found = NULL;
    uint64_t reader = 0;
    char *much = calloc(1, 1 << 20);
    pthread_t thread;

    DONE(instanton_job_publish(job));
    view = import(job, &reader);
    bare = import(job, NULL);
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_view_pin(bare, &guard));
    instanton_view_free(bare);

    two[0] = entry("null", words(NULL));
    two[1] = entry("double", number(PMIX_DOUBLE, 0x4000000000000000));
    DONE(instanton_job_post(job, 1, two, 2));
    CHECK(INSTANTON_ERR_UNMAPPED == instanton_view_get(view, 1, "null", &found) && NULL == found);
    catch_up(job, view);
    DONE(instanton_view_get(view, 1, "null", &found));
    CHECK(found->type == PMIX_STRING && NULL == found->data.string);
    free(found);
    DONE(instanton_view_get(view, 1, "double", &found));
    CHECK(found->type == PMIX_DOUBLE && 2.0 == found->data.dval);
    free(found);

    /* A guard keeps what was replaced. */
    DONE(instanton_view_pin(view, &guard));
    DONE(instanton_view_peek(guard, 1, "null", &seen));
    CHECK(INSTANTON_TEXT == seen.form && NULL == seen.bytes);
    two[0] = entry("card", words("one"));
    DONE(instanton_job_post(job, 1, two, 1));
    DONE(instanton_view_peek(guard, 1, "card", &seen));
    two[0] = entry("card", words("two"));
    for (int i = 0; i < 100; i++) {
        DONE(instanton_job_post(job, 1, two, 1));
    }
    CHECK(0 == strcmp(seen.bytes, "one"));
    CHECK(0 == pthread_create(&thread, NULL, unpin, guard) && 0 == pthread_join(thread, NULL));
    DONE(instanton_view_unpin(guard));
    DONE(instanton_view_get(view, 1, "card", &found));
    CHECK(0 == strcmp(found->data.string, "two"));
    free(found);

    /* Replaced job information; what was said before is gone. */
    value = words("new");
    DONE(instanton_job_info(job, INSTANTON_LEVEL_NODE, 1, "rack", &value));
    two[0] = entry("slot", number(PMIX_INT32, (uint32_t) -3));
    DONE(instanton_job_proc(job, 5, two, 1));
    DONE(instanton_job_publish(job));
    catch_up(job, view);
    DONE(instanton_view_get_at(view, INSTANTON_LEVEL_NODE, 1, "rack", &found));
    CHECK(0 == strcmp(found->data.string, "new"));
    free(found);
    DONE(instanton_view_get(view, 5, "slot", &found));
    CHECK(PMIX_INT32 == found->type && -3 == found->data.int32);
    free(found);
    two[0] = entry("much", bytes(much, 1 << 20));
    DONE(instanton_job_post(job, 2, two, 1));
    CHECK(INSTANTON_ERR_UNMAPPED == instanton_view_get(view, 2, "much", &found));
    DONE(instanton_job_stats(job, &stats));
    CHECK(2 == stats.generation);

    refused(job);
    DONE(instanton_job_reader_gone(job, reader));
    instanton_job_free(job);
    /* As long as it is mapped. */
    DONE(instanton_view_get(view, 1, "double", &found));
    free(found);
    instanton_view_free(view);
    free(much);
    puts("ok");
    return 0;
}
