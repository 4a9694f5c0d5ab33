/* Helpers that the macros of 3.x headers call, by the names that programs built with those still import. */
#include "check.h"
#undef pmix_argv_append_nosize
#undef pmix_argv_append_unique_nosize
#undef pmix_argv_prepend_nosize
#undef pmix_argv_free
#undef pmix_argv_split
#undef pmix_argv_join
#undef pmix_argv_count
#undef pmix_argv_copy
#undef pmix_setenv

pmix_status_t pmix_argv_append_nosize(char ***argv, const char *arg);
pmix_status_t pmix_argv_append_unique_nosize(char ***argv, const char *arg, bool overwrite);
pmix_status_t pmix_argv_prepend_nosize(char ***argv, const char *arg);
char **pmix_argv_copy(char **argv);
int pmix_argv_count(char **argv);
void pmix_argv_free(char **argv);
char *pmix_argv_join(char **argv, int delimiter);
char **pmix_argv_split(const char *text, int delimiter);
pmix_status_t pmix_setenv(const char *name, const char *value, bool overwrite, char ***env);
void pmix_value_load(pmix_value_t *value, const void *data, pmix_data_type_t type);
pmix_status_t pmix_value_unload(pmix_value_t *value, void **data, size_t *size);
pmix_status_t pmix_value_xfer(pmix_value_t *dest, const pmix_value_t *src);

int main(void) {
    pmix_value_t value, copy;
    uint32_t number = 7, out = 0;
    void *place = &out;
    size_t size = 0;
    pmix_value_load(&value, &number, PMIX_UINT32);
    OK(pmix_value_unload(&value, &place, &size));
    CHECK(out == 7 && size == sizeof out);
    pmix_value_load(&value, "text", PMIX_STRING);
    OK(pmix_value_xfer(&copy, &value));
    CHECK(copy.type == PMIX_STRING && copy.data.string != value.data.string && !strcmp(copy.data.string, "text"));
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_VALUE_DESTRUCT(&copy);
    IS(PMIX_ERR_BAD_PARAM, pmix_value_xfer(&copy, NULL));

    char **words = pmix_argv_split("b,,c", ',');
    OK(pmix_argv_append_nosize(&words, "d"));
    OK(pmix_argv_append_unique_nosize(&words, "d", true));
    OK(pmix_argv_prepend_nosize(&words, "a"));
    CHECK(pmix_argv_count(words) == 4);
    char **again = pmix_argv_copy(words);
    pmix_argv_free(words);
    char *all = pmix_argv_join(again, '-');
    CHECK(!strcmp(all, "a-b-c-d"));
    free(all);
    OK(pmix_setenv("a", "1", true, &again));
    CHECK(pmix_argv_count(again) == 5 && !strcmp(again[4], "a=1"));
    pmix_argv_free(again);
    return 0;
}
