/* Declarations that the parts of the attacks (attacks*.c) have in common. */
#ifndef ATTACKS_H
#define ATTACKS_H

#include <stdbool.h>

#include <pmix_tool.h>

#define IS(word) (strcmp(kind, word) == 0)

/* This process, both victims, and the first of them with this process. */
extern pmix_proc_t me, pair[2], with_victim[2];
/* The file that is there when the victims are done; the attack's files lie beside it. */
extern char over[4096];
/* Tools that ask at a time. */
#define TOOLS 4
/* Processes of an attacker with many, and of a crowd that is started. */
#define CLONES 60
#define CROWD 64
/* Number of the request. */
extern unsigned next;

double now(void);
bool is_over(void);
/* Text of so many bytes, 64 MiB at most, the same for all callers. */
char *text(size_t bytes);
pmix_info_t of_text(const char *key, char *string);
pmix_info_t of_number(const char *key, int number);
pmix_info_t of_truth(const char *key);
pmix_info_t of_array(const char *key, pmix_data_array_t *array);
pmix_status_t put(unsigned keys, size_t bytes);
/* Starts a job of so many ranks of this program, with these words. */
void spawn_self(char *word, char *path, int ranks);
void spawn_more(char *word, int ranks);
/* One request more is under way, and one less. */
void begin_one(void);
void end_one(void);

/* Callbacks at the end of a request. */
void done(pmix_status_t status, void *data);
void got(pmix_status_t status, pmix_value_t *value, void *data);
void found(pmix_status_t status, pmix_pdata_t data[], size_t ndata, void *cbdata);
void told(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *data, pmix_release_cbfunc_t release,
          void *release_data);
void handled(size_t number, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
             pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t then, void *data);
void printed(size_t number, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
             pmix_info_t info[], size_t ninfo);

/* Make one request, where it is of a kind that they know; success where an answer comes to a callback. */
bool data_request(const char *kind, pmix_status_t *status);
bool asked_request(const char *kind, pmix_status_t *status);
bool odd_request(const char *kind, pmix_status_t *status);
bool mixed_request(const char *kind, pmix_status_t *status);
bool multiplied_request(const char *kind, pmix_status_t *status);
/* The same, for those that have no answer. */
bool raw_request(const char *kind);
bool pmi_request(const char *kind);
bool silent_request(const char *kind);
/* Leaves a process behind that goes on when this one and its job are over. */
int leaves_behind(void);
/* Floods as a tool, until the victims are done. */
int tool_floods(const char *word);

#endif
