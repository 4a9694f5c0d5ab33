/* Checks of test programs, with a message when one does not hold. */
#ifndef CHECK_H
#define CHECK_H
#include <pmix.h>
#include <pmix_server.h>
/* Says where a program failed, and ends it. */
#define CHECK(what)                                                                     \
    do {                                                                                \
        if (!(what)) {                                                                  \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what);    \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)
#define IS(status, call)                                                                                      \
    do {                                                                                                      \
        pmix_status_t is_ = (call);                                                                           \
        if (is_ != (status)) {                                                                                \
            fprintf(stderr, "%s:%d: %s gives %d (%s), not %d\n", __FILE__, __LINE__, #call, is_,              \
                    PMIx_Error_string(is_), (int)(status));                                                   \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)
#define OK(call) IS(PMIX_SUCCESS, call)
#endif
