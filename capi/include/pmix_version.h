/* pmix_version.h: the release of the public headers that these agree with.
 * Written from tables by a generator: change those, not this file. */
#ifndef PMIx_VERSION_H
#define PMIx_VERSION_H

#define PMIX_VERSION_MAJOR                          6L
#define PMIX_VERSION_MINOR                          1L
#define PMIX_VERSION_RELEASE                        0L
#define PMIX_NUMERIC_VERSION                        0x00060100

/* Capabilities of that release, for programs that ask. */
#define PMIX_CAPABILITIES                           3
#define PMIX_CAP_BASE                               0
#define PMIX_CAP_LTO                                1
#define PMIX_CAP_INMEMHELP                          2
#define PMIX_CAP_UPCALLS2                           3
#define PMIX_CAP_STOP_PRGTHRD                       4
#define PMIX_CAP_GET_NUMBER_FN                      5
#define PMIX_CAP_REGEX2                             6

#endif
