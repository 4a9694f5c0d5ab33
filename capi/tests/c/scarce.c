/* A host that the system refuses one thread after the other, and one descriptor after the other: when its server does not start, all is
 * as if it had not been asked for. */
#define _GNU_SOURCE
#include "check.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

/* Number of threads that may still be started. */
static atomic_int threads;

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Stands before the system's for the library. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    create_fn *next = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
    return atomic_fetch_sub(&threads, 1) > 0 ? next(thread, attributes, body, argument) : EAGAIN;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* Returns whether a server starts where so many threads, and descriptors of so high a number, may be had. */
static bool starts(int may_start, rlim_t may_open) {
    struct rlimit limit;
    int before = open_descriptors();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct rlimit low = {.rlim_cur = may_open, .rlim_max = limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    atomic_store(&threads, may_start);
    pmix_status_t status = PMIx_server_init(NULL, NULL, 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(PMIx_Initialized() == (status == PMIX_SUCCESS));
    if (status == PMIX_SUCCESS)
        OK(PMIx_server_finalize());
    CHECK(open_descriptors() == before);
    IS(PMIX_ERR_INIT, PMIx_server_finalize());
    return status == PMIX_SUCCESS;
}

int main(void) {
    int refused = 0;
    while (!starts(refused, 1000))
        refused++;
    /* Its own thread, and that of the program's calls. */
    CHECK(refused >= 2);
    refused = 0;
    while (!starts(1000, refused))
        refused++;
    CHECK(refused > 3);
    return 0;
}
