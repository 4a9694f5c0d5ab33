/* NULL-terminated arrays of strings, and environments. */
#include "families.h"

extern char **environ;

static void print(const char *what, char **argv) {
    int count;
    PMIX_ARGV_COUNT(count, argv);
    printf("%s: %s %d", what, NULL == argv ? "none" : "some", count);
    for (int i = 0; i < count; i++) {
        printf(" '%s'", argv[i]);
    }
    printf("\n");
}

static void lists(void) {
    char **argv = NULL, **copy, *joined;
    pmix_status_t rc;
    PMIX_ARGV_APPEND(rc, argv, "b");
    printf("append: %d\n", rc);
    PMIX_ARGV_PREPEND(rc, argv, "a");
    printf("prepend: %d\n", rc);
    PMIX_ARGV_APPEND_UNIQUE(rc, &argv, "b");
    printf("append again: %d\n", rc);
    PMIX_ARGV_APPEND_UNIQUE(rc, &argv, "");
    printf("append nothing: %d\n", rc);
    print("list", argv);
    PMIX_ARGV_COPY(copy, argv);
    print("copy", copy);
    PMIX_ARGV_JOIN(joined, copy, ';');
    show("joined", joined);
    free(joined);
    PMIX_ARGV_FREE(copy);
    PMIX_ARGV_FREE(argv);
    argv = NULL;
    PMIX_ARGV_JOIN(joined, argv, ';');
    show("joined", joined);
    free(joined);
    PMIX_ARGV_COPY(copy, argv);
    print("copy of none", copy);
}

static void parts(void) {
    char *texts[] = {"a,b", "", ",", ",,a", ",a,", "a,,b", "a", ",,", "a,b,,"}, *joined, **argv;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        PMIX_ARGV_SPLIT(argv, texts[i], ',');
        show("split", texts[i]);
        print("parts", argv);
        PMIX_ARGV_JOIN(joined, argv, '-');
        show("joined", joined);
        free(joined);
        pmix_argv_free(argv);
        argv = pmix_argv_split_with_empty(texts[i], ',');
        print("and empty ones", argv);
        pmix_argv_free(argv);
    }
}

static void variables(void) {
    char **env = NULL;
    pmix_status_t rc;
    const char *values[] = {"1", "2", NULL, "3=4", ""}, *names[] = {"A", "A", "B", "AB", "B"};
    for (int i = 0; i < 5; i++) {
        PMIX_SETENV(rc, names[i], values[i], &env);
        printf("set %s: %d\n", names[i], rc);
    }
    print("environment", env);
    pmix_argv_free(env);
    PMIX_SETENV(rc, "INSTANTON_TEST", "set", &environ);
    printf("own: %d %s\n", rc, getenv("INSTANTON_TEST"));
    PMIX_SETENV(rc, "INSTANTON_TEST", NULL, &environ);
    printf("unset: %d %s\n", rc, NULL == getenv("INSTANTON_TEST") ? "gone" : "there");
}

void arguments(void) {
    lists();
    parts();
    variables();
}
