/* instanton_store.h: the store of Instanton, for servers and readers in C.
 * Written from a table by a generator: change that, not this file.
 *
 * A job belongs to one writer (instanton_job_), which describes it, publishes what its processes post, and hands
 * over the memory. A view (instanton_view_) reads that memory in another process. Every function that returns an
 * int returns INSTANTON_SUCCESS or one of the errors below; what a function gives is untouched when it fails.
 * Statuses, types of values and struct pmix_value are those of the PMIx Standard (pmix_common.h), which need not
 * be included. Every structure begins with its size, which its INSTANTON_..._INIT sets. */
#ifndef INSTANTON_STORE_H
#define INSTANTON_STORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pmix_value;
typedef struct instanton_job_t instanton_job_t;
typedef struct instanton_view_t instanton_view_t;
typedef struct instanton_guard_t instanton_guard_t;

/* The version of this header: the library refuses what it does not know. */
#define INSTANTON_STORE_VERSION 0x00010003
/* It is done. */
#define INSTANTON_SUCCESS 0
/* The value is being replaced, or cannot be held in place any more: ask again, or copy it. */
#define INSTANTON_ERR_WOULD_BLOCK (-15)
/* Bytes that are not what they should be. */
#define INSTANTON_ERR_UNPACK_FAILURE (-20)
/* The writer refuses, or what is there belongs to somebody who is not trusted, or not said to be. */
#define INSTANTON_ERR_NO_PERMISSIONS (-23)
/* The time is over. */
#define INSTANTON_ERR_TIMEOUT (-24)
/* An argument makes no sense: instanton_store_message() says which and why. */
#define INSTANTON_ERR_BAD_PARAM (-27)
/* A writer that lives has the name. */
#define INSTANTON_ERR_RESOURCE_BUSY (-28)
/* There is no memory for it, shared or own, or the limit is reached. Nothing has changed. */
#define INSTANTON_ERR_OUT_OF_RESOURCE (-29)
/* Nothing has been published yet. */
#define INSTANTON_ERR_INIT (-31)
/* Nobody has stored it. */
#define INSTANTON_ERR_NOT_FOUND (-46)
/* This library cannot do it: another version of the header, or a type of value. */
#define INSTANTON_ERR_NOT_SUPPORTED (-47)
/* The writer is gone, or was never there. */
#define INSTANTON_ERR_LOST_CONNECTION (-61)
/* The value may be in a segment that is not mapped yet: add it, and ask again. */
#define INSTANTON_ERR_UNMAPPED (-3001)
/* Something else is wrong: a damaged segment, a bug of this library. */
#define INSTANTON_ERROR (-1)
/* The job itself, where a rank is asked for. */
#define INSTANTON_RANK_WILDCARD 0xfffffffeu
/* Seen by processes of the same node. */
#define INSTANTON_SCOPE_LOCAL 1
/* Seen by processes of other nodes. */
#define INSTANTON_SCOPE_REMOTE 2
/* Seen by all. */
#define INSTANTON_SCOPE_GLOBAL 3
/* Form of a value: `bits` has it, zero-extended, as a number of its type (up to 8 bytes). */
#define INSTANTON_SCALAR 1
/* Form of a value: `bytes` is a text, `length` its bytes without the NUL, or SIZE_MAX where a NUL ends it.
 * NULL is one, too. */
#define INSTANTON_TEXT 2
/* Form of a value: `bytes` and `length`, of PMIX_BYTE_OBJECT, PMIX_REGEX and the compressed types. */
#define INSTANTON_BYTES 3
/* Form of a value that is only given out: in no form that C can read in place; instanton_view_get copies
 * it. */
#define INSTANTON_ARCHIVE 4
/* Form of a value that is only taken: `bytes` leads to a struct pmix_value of any type but
 * PMIX_PROC_CPUSET and PMIX_TOPO, which are objects of hwloc; it is copied with all that it points to.
 * `type`, `bits` and `length` are not looked at. */
#define INSTANTON_PMIX_VALUE 5
/* Of the job. */
#define INSTANTON_LEVEL_JOB 0
/* Of a session, by number. */
#define INSTANTON_LEVEL_SESSION 1
/* Of an application, by number. */
#define INSTANTON_LEVEL_APP 2
/* Of a node, by its number, which is its place in the node map. */
#define INSTANTON_LEVEL_NODE 3
/* A name is for the writer's own user and root. */
#define INSTANTON_READERS_USER 0
/* A name is for the group of its files, too: the writer's, or that of a directory which passes its group
 * on. */
#define INSTANTON_READERS_GROUP 1
/* A name is for everybody. */
#define INSTANTON_READERS_ALL 2
/* The own user or root, where it is asked whose files are trusted. */
#define INSTANTON_OWNER_SELF 0xffffffffu
/* Bytes in which a reader says which segments it has. */
#define INSTANTON_HAVE_SIZE 16
/* Room for an address. */
#define INSTANTON_ADDRESS_SIZE 128
/* The environment variable that an address is meant for. */
#define INSTANTON_ADDRESS_VARIABLE "INSTANTON_STORE"

/* A borrowed value. `type` is a number of the Standard (pmix_data_type_t). */
typedef struct instanton_value_t {
    uint32_t size;
    uint16_t type;
    uint16_t form;
    uint64_t bits;
    const void *bytes;
    size_t length;
} instanton_value_t;
#define INSTANTON_VALUE_INIT { sizeof(instanton_value_t), 0, 0, 0, 0, 0 }

/* A key with a value, of a process. */
typedef struct instanton_entry_t {
    uint32_t size;
    uint32_t scope;
    const char *key;
    instanton_value_t value;
} instanton_entry_t;
#define INSTANTON_ENTRY_INIT { sizeof(instanton_entry_t), 0, 0, INSTANTON_VALUE_INIT }

/* A job, as far as its writer is told at once. A member that is NULL or 0 is not said. */
typedef struct instanton_job_spec_t {
    uint32_t size;
    uint32_t version;
    const char *nspace;
    const char *own_host;
    const char *node_map;
    const char *proc_map;
    uint32_t local_procs;
    uint32_t job_size;
    uint64_t memory_limit;
    uint64_t reader_limit;
} instanton_job_spec_t;
#define INSTANTON_JOB_SPEC_INIT { sizeof(instanton_job_spec_t), INSTANTON_STORE_VERSION, 0, 0, 0, 0, 0, 0, 0, 0 }

/* The memory that a job takes. */
typedef struct instanton_stats_t {
    uint32_t size;
    uint32_t readers;
    uint64_t bytes;
    uint64_t segments;
    uint64_t live;
    uint64_t retired;
    uint64_t set_aside;
    uint64_t generation;
    uint64_t contradictions;
} instanton_stats_t;
#define INSTANTON_STATS_INIT { sizeof(instanton_stats_t), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Where a reader finds its segments: an address (NULL: that of the environment), or descriptors. Those of
 * a job with a name are not sealed: trust_owner says that the writer's user is trusted, as in
 * instanton_view_map. */
typedef struct instanton_view_spec_t {
    uint32_t size;
    uint32_t version;
    const char *address;
    const int *descriptors;
    size_t ndescriptors;
    int page;
    uint32_t patience_ms;
    uint32_t trust_owner;
} instanton_view_spec_t;
#define INSTANTON_VIEW_SPEC_INIT { sizeof(instanton_view_spec_t), INSTANTON_STORE_VERSION, 0, 0, 0, -1, 0, 0 }

/* Is given each value; both are there for the time of the call. Anything but 0 ends it. */
typedef int (*instanton_each_fn)(const char *key, uint32_t scope, const struct pmix_value *value, void *arg);

/* Returns the version of the library: that of the newest header that it serves. Thread: any thread at any
 * time. */
uint32_t instanton_store_version(void);

/* Returns what was wrong in the last call of this thread that failed; an empty text if none has. It is
 * there until the thread's next call. Thread: any thread at any time; each has its own. */
const char *instanton_store_message(void);

/* Begins a job, of which nothing is in shared memory before instanton_job_publish. Where own_host is NULL,
 * the system says it. Thread: any thread. */
int instanton_job_create(const instanton_job_spec_t *spec, instanton_job_t **job);

/* Says an attribute of the job, or of the session, application or node with that number. It is seen from
 * the next publish on. Thread: one thread at a time for each job. */
int instanton_job_info(
    instanton_job_t *job,
    int level,
    uint32_t number,
    const char *key,
    const instanton_value_t *value);

/* Says attributes of a process. Scopes are not looked at. They are seen from the next publish on. Thread:
 * one thread at a time for each job. */
int instanton_job_proc(
    instanton_job_t *job,
    uint32_t rank,
    const instanton_entry_t *entries,
    size_t nentries);

/* Says one attribute of many processes, from rank first on: a value each. Thread: one thread at a time for
 * each job. */
int instanton_job_column(
    instanton_job_t *job,
    const char *key,
    uint32_t first,
    const instanton_value_t *values,
    size_t nvalues);

/* Writes what was said of the job to a segment and lets readers see it. Called again, it replaces all of
 * it by what was said since; maps and sizes are those of the spec. When it fails, what readers see is as
 * before, and it is all to be said anew. Thread: one thread at a time for each job. */
int instanton_job_publish(instanton_job_t *job);

/* Copies a value of a process, to be published with its next commit. Thread: one thread at a time for each
 * job. */
int instanton_job_put(
    instanton_job_t *job,
    uint32_t rank,
    uint32_t scope,
    const char *key,
    const instanton_value_t *value);

/* Publishes what was put for a process since its last commit. When it fails, all of that is dropped and
 * what readers see is as before. Thread: one thread at a time for each job. */
int instanton_job_commit(instanton_job_t *job, uint32_t rank);

/* Puts and commits at once, from where the values lie. Thread: one thread at a time for each job. */
int instanton_job_post(
    instanton_job_t *job,
    uint32_t rank,
    const instanton_entry_t *entries,
    size_t nentries);

/* Takes back what a process has posted under a key, on this node. A key that it has not posted changes
 * nothing. Thread: one thread at a time for each job. */
int instanton_job_delete(instanton_job_t *job, uint32_t rank, const char *key);

/* Collects what these processes have posted for other nodes since it was last collected: this node's part
 * of a fence. Blobs of several nodes may be put one behind the other in any order. free() releases it.
 * Thread: one thread at a time for each job. */
int instanton_job_outbound(
    instanton_job_t *job,
    const uint32_t *ranks,
    size_t nranks,
    void **blob,
    size_t *length);

/* Takes in the blobs of other nodes, this node's own among them or not. Data of processes of this node or
 * of another job is left aside. When it fails for want of memory, the data of some processes may be taken
 * in already; the same blobs can be given again. Thread: one thread at a time for each job. */
int instanton_job_inbound(instanton_job_t *job, const void *blobs, size_t length);

/* Wakes all readers that wait, so that they look again: after a commit that somebody may wait for, and at
 * the end of a fence. Thread: one thread at a time for each job. */
int instanton_job_wake(instanton_job_t *job);

/* Reads as a reader on this node would; see instanton_view_get. Thread: one thread at a time for each job. */
int instanton_job_get(instanton_job_t *job, uint32_t rank, const char *key, struct pmix_value **value);

/* Says how much memory the job takes, how many readers are connected, and how many things were said of it
 * that cannot all be true (INSTANTON_TRACE=stderr shows each). Thread: one thread at a time for each job. */
int instanton_job_stats(instanton_job_t *job, instanton_stats_t *stats);

/* Takes a name for the job, for readers that have no way to this process, or come when it is dead; nothing
 * of the job may have been published before. The name is the path of a directory, which is made in one
 * that is there (/dev/shm, or one that other containers have too). From the first publish on the segments
 * are files in it, instead of anonymous memory, which cannot be sealed: readers by address or descriptors
 * have to say trust_owner as well. Files that a dead writer of the same user has left there are removed;
 * INSTANTON_ERR_RESOURCE_BUSY when the writer lives. instanton_job_free removes it all. Thread: one thread
 * at a time for each job. */
int instanton_job_link(instanton_job_t *job, const char *path, int readers);

/* Gives the segments that a reader with that `have` (instanton_view_have; NULL for a new one) lacks, as
 * many as there is room for: copies of read-only descriptors, close-on-exec, for the caller to close. To
 * be passed with SCM_RIGHTS, or inherited. Thread: one thread at a time for each job. */
int instanton_job_export(
    instanton_job_t *job,
    const void *have,
    size_t length,
    int *descriptors,
    size_t room,
    size_t *ndescriptors);

/* Makes the page that a reader needs for guards (instanton_view_pin). The descriptor is the caller's to
 * pass on and to close. Thread: one thread at a time for each job. */
int instanton_job_reader(instanton_job_t *job, int *descriptor, uint64_t *reader);

/* Forgets a reader whose process has ended or has freed its view; until then what its guards held stays. A
 * reader of another job changes nothing. Thread: one thread at a time for each job. */
int instanton_job_reader_gone(instanton_job_t *job, uint64_t reader);

/* Opens an abstract Unix socket, and says the address for instanton_view_open: to be put into the
 * environment of those who may read, and shown to nobody else. They must be of the same user, or root, or
 * of a user whom instanton_job_allow names. Thread: one thread at a time for each job. */
int instanton_job_listen(instanton_job_t *job, char *address, size_t room);

/* Lets processes of another user read by the address, which they must know as well: a server of root's has
 * processes of its users. All others are INSTANTON_ERR_NO_PERMISSIONS when they open it. After
 * instanton_job_listen. Thread: one thread at a time for each job. */
int instanton_job_allow(instanton_job_t *job, uint32_t user);

/* Gives the descriptor that is readable when readers have asked something. It is the job's. Thread: one
 * thread at a time for each job. */
int instanton_job_descriptor(instanton_job_t *job, int *descriptor);

/* Answers the readers that have asked by now, and frees what they hold no more. It never blocks. Thread:
 * one thread at a time for each job. */
int instanton_job_serve(instanton_job_t *job);

/* Ends a job. Segments that readers have mapped stay there for them; the rest is
 * INSTANTON_ERR_LOST_CONNECTION. Not in a forked child, which has no job: it leaves the pointer alone.
 * Thread: when no other thread uses the job. */
void instanton_job_free(instanton_job_t *job);

/* Opens the store at the address of the spec, or at that of the environment; it asks for what is added
 * later by itself. A spec of NULL is one that says nothing. Thread: any thread but one that has to serve
 * the job itself. */
int instanton_view_open(const instanton_view_spec_t *spec, instanton_view_t **view);

/* Reads the segments whose descriptors are in the spec, with the page of its own if that is not negative.
 * The descriptors can be closed afterwards. Thread: any thread. */
int instanton_view_import(const instanton_view_spec_t *spec, instanton_view_t **view);

/* Maps the segments of a writer that lives by the name that it has taken (instanton_job_link), and finds
 * what is added later by itself. The files must belong to that user (INSTANTON_OWNER_SELF), who is
 * trusted: shortening them would end this process with SIGBUS. There are no guards (instanton_view_pin).
 * INSTANTON_ERR_LOST_CONNECTION when the writer is gone. Thread: any thread. */
int instanton_view_map(const char *path, uint32_t owner, instanton_view_t **view);

/* Reads what a writer that was killed has left under its name, as a whole. The files must belong to that
 * user (INSTANTON_OWNER_SELF). Nothing stays mapped, and a file that is damaged or too short is an error.
 * INSTANTON_ERR_RESOURCE_BUSY while the writer lives. Thread: any thread. */
int instanton_view_post_mortem(const char *path, uint32_t owner, instanton_view_t **view);

/* Says which process of the job reads: what it asks of itself and of the job is found faster from then on.
 * The first word counts. Thread: any thread at any time. */
int instanton_view_process(instanton_view_t *view, uint32_t rank);

/* Maps more segments, of an imported view. The descriptors can be closed afterwards. Thread: any thread at
 * any time. */
int instanton_view_add(instanton_view_t *view, const int *descriptors, size_t ndescriptors);

/* Says which segments are mapped, in INSTANTON_HAVE_SIZE bytes for instanton_job_export. Thread: any
 * thread at any time. */
int instanton_view_have(instanton_view_t *view, void *have, size_t room);

/* Reads a value of a process, or of the job for INSTANTON_RANK_WILDCARD, and copies it. The value and all
 * that it points to are one piece of memory: free() releases it, and no other function of the Standard's.
 * Thread: any thread at any time. In memory that is mapped it takes no lock and makes no system call. */
int instanton_view_get(instanton_view_t *view, uint32_t rank, const char *key, struct pmix_value **value);

/* Reads a value of a level, by number; as instanton_view_get. Thread: any thread at any time. */
int instanton_view_get_at(
    instanton_view_t *view,
    int level,
    uint32_t number,
    const char *key,
    struct pmix_value **value);

/* Takes a guard: what is read under it stays in place. To be held shortly, for what is replaced meanwhile
 * takes up memory. INSTANTON_ERR_WOULD_BLOCK when the guards of this process hold back more than one
 * reader may, from the writer's next look (instanton_job_serve, or a commit that needs memory) until the
 * one behind their end. INSTANTON_ERR_OUT_OF_RESOURCE when too many threads have guards. Thread: any
 * thread; the guard is that thread's alone. */
int instanton_view_pin(instanton_view_t *view, instanton_guard_t **guard);

/* Reads a value in place: what `bytes` points to is there until the guard is given back. Arrays and
 * structures are of the form INSTANTON_ARCHIVE. Of an opened view it asks the writer for what is not
 * mapped yet; of an imported one that is INSTANTON_ERR_UNMAPPED, and what is added then is seen under the
 * next guard. Thread: the thread that took the guard. */
int instanton_view_peek(instanton_guard_t *guard, uint32_t rank, const char *key, instanton_value_t *value);

/* Gives a guard back; nothing may point to what was read under it any more. Thread: the thread that took
 * the guard; from another one it is refused, and the guard stays. */
int instanton_view_unpin(instanton_guard_t *guard);

/* Returns how often readers have been woken. To be asked before a look that may have to wait. Thread: any
 * thread at any time. */
uint32_t instanton_view_releases(instanton_view_t *view);

/* Sleeps until readers have been woken more often than `seen`; for ever if the time is negative.
 * INSTANTON_ERR_TIMEOUT, or INSTANTON_ERR_LOST_CONNECTION when an opened view sees that the writer is
 * gone. Thread: any thread at any time. */
int instanton_view_wait(instanton_view_t *view, uint32_t seen, int64_t timeout_ms);

/* Gives all that is known of a process, or of the job, to a function. Values of types that
 * instanton_view_get does not copy are left out. Returns what the function returned if that was not 0.
 * Thread: any thread at any time. */
int instanton_view_each(instanton_view_t *view, uint32_t rank, instanton_each_fn each, void *arg);

/* Ends a view, whose guards must have been given back. Not in a forked child, which leaves the views that
 * it inherited alone: parts of them are not there. Thread: when no other thread uses the view. */
void instanton_view_free(instanton_view_t *view);

#ifdef __cplusplus
}
#endif
#endif
