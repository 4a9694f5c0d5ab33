/* A post-mortem reader: `post_mortem PATH [RANK]` prints what a writer that was killed has left under a name. Without
 * arguments it makes such a job itself: starts a writer, reads beside it, kills it, and reads what it has left. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

static int print(const char *key, uint32_t scope, const struct pmix_value *value, void *arg)
{
    (void) scope, (void) arg;
    switch (value->type) {
    case PMIX_STRING:
        printf("  %s = \"%s\"\n", key, NULL == value->data.string ? "" : value->data.string);
        break;
    case PMIX_UINT32:
        printf("  %s = %u\n", key, value->data.uint32);
        break;
    case PMIX_BYTE_OBJECT:
        printf("  %s: %zu bytes\n", key, value->data.bo.size);
        break;
    default:
        printf("  %s, of type %u\n", key, value->type);
    }
    return 0;
}

/* Prints all that is known of a process, or of the job. */
static int show(const char *path, uint32_t rank)
{
    instanton_view_t *view = NULL;

    if (INSTANTON_SUCCESS != instanton_view_post_mortem(path, INSTANTON_OWNER_SELF, &view) ||
        INSTANTON_SUCCESS != instanton_view_each(view, rank, print, NULL)) {
        fprintf(stderr, "%s\n", instanton_store_message());
        instanton_view_free(view);
        return 1;
    }
    instanton_view_free(view);
    return 0;
}

/* The writer: says when it has written, and goes on until it is killed. So does a child of its own, which keeps nothing
 * of it. */
static void writer(const char *path, int written, int orders)
{
    instanton_job_t *job = job_on("alpha", 4);
    char *large = calloc(1, LARGE);
    instanton_entry_t entries[] = { entry("card", words("of rank 1")), entry("large", bytes(large, LARGE)) };
    char order;

    DONE(instanton_job_link(job, path, INSTANTON_READERS_USER));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_link(job, path, INSTANTON_READERS_USER));
    DONE(instanton_job_publish(job));
    DONE(instanton_job_post(job, 1, entries, 2));
    CHECK(1 == write(written, "w", 1));
    CHECK(1 == read(orders, &order, 1));
    entries[0] = entry("late", words("but there"));
    DONE(instanton_job_post(job, 2, entries, 1));
    DONE(instanton_job_wake(job));
    if (0 == fork()) {
        /* It ends with the test, which has the other end of the pipe. */
        while (read(orders, &order, 1) > 0) {
        }
        _exit(0);
    }
    CHECK(1 == write(written, "w", 1));
    pause();
}

static void cut(const char *path, const char *name)
{
    char file[256];
    instanton_view_t *view = NULL;
    struct stat whole;

    snprintf(file, sizeof(file), "%s/%s", path, name);
    CHECK(0 == stat(file, &whole) && 0 == truncate(file, whole.st_size / 2 & ~7));
    CHECK(INSTANTON_ERROR == instanton_view_post_mortem(path, INSTANTON_OWNER_SELF, &view) && NULL == view);
    CHECK(NULL != strstr(instanton_store_message(), name));
}

/* A job with a name that ends: readers keep what they have mapped, and the rest is gone with the writer. */
static void freed(const char *path)
{
    instanton_job_t *job = job_on("alpha", 4);
    instanton_view_spec_t spec = INSTANTON_VIEW_SPEC_INIT;
    instanton_view_t *view = NULL;
    char *large = calloc(1, LARGE);
    instanton_entry_t entries[] = { entry("card", words("of rank 1")), entry("large", bytes(large, LARGE)) };
    pmix_value_t *value = NULL;
    int descriptors[4];

    DONE(instanton_job_link(job, path, INSTANTON_READERS_USER));
    DONE(instanton_job_publish(job));
    DONE(instanton_job_post(job, 1, entries, 1));
    DONE(instanton_job_export(job, NULL, 0, descriptors, 4, &spec.ndescriptors));
    spec.descriptors = descriptors;
    CHECK(INSTANTON_ERR_NO_PERMISSIONS == instanton_view_import(&spec, &view));
    spec.trust_owner = 1;
    DONE(instanton_view_import(&spec, &view));
    instanton_view_free(view);
    for (size_t i = 0; i < spec.ndescriptors; i++) {
        close(descriptors[i]);
    }
    DONE(instanton_view_map(path, INSTANTON_OWNER_SELF, &view));
    DONE(instanton_job_post(job, 1, entries + 1, 1));
    instanton_job_free(job);
    CHECK(INSTANTON_ERR_LOST_CONNECTION == instanton_view_get(view, 1, "large", &value));
    instanton_view_free(view);
    free(large);
}

int main(int argc, char **argv)
{
    char folder[] = "/dev/shm/instanton-post-mortem-XXXXXX", path[64], link[64], byte;
    int written[2], orders[2], status;
    instanton_view_t *view = NULL;
    instanton_guard_t *guard = NULL;
    instanton_job_t *second;
    pmix_value_t *value = NULL;
    uint32_t seen;
    pid_t pid;

    if (argc > 1) {
        return show(argv[1], argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 10) : INSTANTON_RANK_WILDCARD);
    }
    CHECK(NULL != mkdtemp(folder) && 0 == pipe(written) && 0 == pipe(orders));
    snprintf(path, sizeof(path), "%s/job@1", folder);
    snprintf(link, sizeof(link), "%s/link", folder);
    CHECK((pid = fork()) >= 0);
    if (0 == pid) {
        close(orders[1]);
        writer(path, written[1], orders[0]);
    }
    CHECK(1 == read(written[0], &byte, 1));

    /* While the writer lives, its memory is mapped. */
    CHECK(INSTANTON_ERR_RESOURCE_BUSY == instanton_view_post_mortem(path, INSTANTON_OWNER_SELF, &view));
    DONE(instanton_view_map(path, INSTANTON_OWNER_SELF, &view));
    CHECK(INSTANTON_ERR_OUT_OF_RESOURCE == instanton_view_pin(view, &guard));
    DONE(instanton_view_get(view, 1, "card", &value));
    CHECK(0 == strcmp(value->data.string, "of rank 1"));
    free(value);
    seen = instanton_view_releases(view);
    CHECK(INSTANTON_ERR_NOT_FOUND == instanton_view_get(view, 2, "late", &value));
    CHECK(1 == write(orders[1], "o", 1));
    DONE(instanton_view_wait(view, seen, 60000));
    DONE(instanton_view_get(view, 2, "late", &value));
    free(value);
    CHECK(1 == read(written[0], &byte, 1));
    second = job_on("alpha", 4);
    CHECK(INSTANTON_ERR_RESOURCE_BUSY == instanton_job_link(second, path, INSTANTON_READERS_USER));

    /* Killed: it has left all that it had written, although a child of its own lives. */
    CHECK(0 == kill(pid, SIGKILL) && pid == waitpid(pid, &status, 0));
    CHECK(INSTANTON_ERR_LOST_CONNECTION == instanton_view_wait(view, instanton_view_releases(view), 60000));
    instanton_view_free(view);
    view = NULL;
    CHECK(INSTANTON_ERR_LOST_CONNECTION == instanton_view_map(path, INSTANTON_OWNER_SELF, &view));
    CHECK(INSTANTON_ERR_NO_PERMISSIONS == instanton_view_post_mortem(path, getuid() + 1, &view) && NULL == view);
    CHECK(0 == symlink(path, link));
    CHECK(INSTANTON_ERR_NO_PERMISSIONS == instanton_view_post_mortem(link, INSTANTON_OWNER_SELF, &view));
    CHECK(INSTANTON_ERR_NO_PERMISSIONS == instanton_job_link(second, link, INSTANTON_READERS_USER));
    DONE(instanton_view_post_mortem(path, INSTANTON_OWNER_SELF, &view));
    DONE(instanton_view_get(view, 1, "large", &value));
    CHECK(PMIX_BYTE_OBJECT == value->type && LARGE == value->data.bo.size);
    free(value);
    DONE(instanton_view_get(view, 2, "late", &value));
    CHECK(0 == strcmp(value->data.string, "but there"));
    free(value);
    DONE(instanton_view_get(view, 5, PMIX_HOSTNAME, &value));
    CHECK(0 == strcmp(value->data.string, "beta"));
    free(value);
    CHECK(INSTANTON_ERR_NOT_FOUND == instanton_view_get(view, 3, "card", &value));
    CHECK(INSTANTON_ERR_LOST_CONNECTION == instanton_view_wait(view, instanton_view_releases(view), -1));
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_view_add(view, NULL, 0));

    /* A file that is cut is an error and no signal; what was read before is there. */
    cut(path, "modex.1");
    cut(path, "info.1");
    cut(path, "job");
    DONE(instanton_view_get(view, 1, "card", &value));
    free(value);
    instanton_view_free(view);

    /* The next writer takes the name over. */
    DONE(instanton_job_link(second, path, INSTANTON_READERS_ALL));
    DONE(instanton_job_publish(second));
    CHECK(INSTANTON_ERR_RESOURCE_BUSY == instanton_view_post_mortem(path, INSTANTON_OWNER_SELF, &view));
    instanton_job_free(second);
    freed(path);
    second = job_on("alpha", 4);
    CHECK(INSTANTON_ERR_BAD_PARAM == instanton_job_link(second, "no/such/folder", INSTANTON_READERS_USER));
    instanton_job_free(second);
    CHECK(0 == unlink(link) && 0 == rmdir(folder));
    puts("ok");
    return 0;
}
