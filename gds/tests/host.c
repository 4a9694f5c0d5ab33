/* A library that looks like a release which the plug-in serves, or nearly so: 4.2.2, 5.0.7 with LATER, 5.0.9 with
 * USERS, 5.0.11 with FEWER, 6.1.0 with NAMES, 7.0.0a1 with EARLY, 7.0.0rc1 with LATEST. Sizes and places are those that
 * it expects, unless a macro says otherwise; `ask` calls its query from here, `run` goes through what a server does, `begin`, `exchange` and `end` through fences of a job. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(LATEST) || defined(EARLY)
#ifdef LATEST
#define RELEASE "OpenPMIx 7.0.0rc1 (PMIx Standard: 4.1, Stable ABI: 0.0, Provisional ABI: 0.0)"
enum { RANK_INFO = 504, ALL = 2584, FUNCTIONS = 23, INTERFACE = 2 };
#else
#define RELEASE "OpenPMIx 7.0.0a1 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)"
enum { RANK_INFO = 336, ALL = 2560, FUNCTIONS = 18, INTERFACE = 1 };
#endif
enum { CLASS_AT = 0, ENTRY = 104, KEY_AT = 88, BUFFER = 120, BASE_AT = 80, USED_AT = 112, NAMESPACE = 1400,
       NAME_AT = 88, MODULE_AT = 488 + 24, PEER = 1120, OF_NAMESPACE = 72, OF_RANK = 88, RANK_AT = 96, SELF_AT = 8,
       OWN_PEER = 336, PARTICIPANTS = 504 };
#elif defined(LATER) || defined(USERS) || defined(FEWER) || defined(NAMES)
#if defined(LATER)
#define RELEASE "OpenPMIx 5.0.7a1 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)"
enum { NAMESPACE = 1912, MODULE_AT = 480 + 24, PEER = 1560, RANK_INFO = 192, ALL = 3064, SELF_AT = 4, OWN_PEER = 328 };
#elif defined(USERS)
#define RELEASE "OpenPMIx 5.0.9a1 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)"
enum { NAMESPACE = 1912, MODULE_AT = 480 + 24, PEER = 1560, RANK_INFO = 208, ALL = 3080, SELF_AT = 4, OWN_PEER = 328 };
#elif defined(FEWER)
#define RELEASE "OpenPMIx 5.0.11 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)"
enum { NAMESPACE = 1904, MODULE_AT = 472 + 24, PEER = 1560, RANK_INFO = 208, ALL = 3080, SELF_AT = 4, OWN_PEER = 328 };
#else
#define RELEASE "OpenPMIx 6.1.0 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)"
enum { NAMESPACE = 1904, MODULE_AT = 472 + 24, PEER = 1576, RANK_INFO = 208, ALL = 3088, SELF_AT = 8, OWN_PEER = 336 };
#endif
enum { CLASS_AT = 40, ENTRY = 160, KEY_AT = 144, BUFFER = 168, BASE_AT = 128, USED_AT = 160, NAME_AT = 144,
       OF_NAMESPACE = 120, OF_RANK = 128, RANK_AT = 152, FUNCTIONS = 17, INTERFACE = 1, PARTICIPANTS = 560 };
#else
#define OLDEST
#define RELEASE "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)"
enum { CLASS_AT = 40, ENTRY = 152, KEY_AT = 136, BUFFER = 160, BASE_AT = 120, USED_AT = 152, NAMESPACE = 1808,
       NAME_AT = 136, MODULE_AT = 456 + 24, PEER = 1488, OF_NAMESPACE = 112, OF_RANK = 120, RANK_INFO = 184,
       RANK_AT = 144, ALL = 2944, SELF_AT = 4, OWN_PEER = 328, FUNCTIONS = 15, INTERFACE = 1, PARTICIPANTS = 552 };
#endif
#ifndef VERSION
#define VERSION RELEASE
#endif
#ifndef KVAL
#define KVAL ENTRY
#endif
#ifndef GLOBALS
#define GLOBALS ALL
#endif
#ifndef PEER_AT
#define PEER_AT OWN_PEER
#endif
#ifndef RANK
#define RANK 7
#endif

struct class { uint64_t words[7]; uint64_t size; };
struct class pmix_kval_t_class = {{0}, KVAL}, pmix_buffer_t_class = {{0}, BUFFER},
             pmix_namespace_t_class = {{0}, NAMESPACE}, pmix_peer_t_class = {{0}, PEER},
             pmix_rank_info_t_class = {{0}, RANK_INFO};
char pmix_globals[GLOBALS];

const char *PMIx_Get_version(void) { return VERSION; }

struct buffer { char *base, *pack, *unpack; size_t allocated, used; };
int PMIx_Data_pack(const void *target, struct buffer *buffer, void *value, int32_t count, uint16_t type) {
  (void)target, (void)value, (void)count, (void)type;
#ifdef PACKS
  /* One value, a number of 32 bits: 7. */
  static const char bytes[] = {2, 14, 7};
  buffer->base = malloc(sizeof bytes);
  memcpy(buffer->base, bytes, sizeof bytes);
  buffer->used = sizeof bytes;
  return 0;
#else
  (void)buffer;
  return -1;
#endif
}

/* Bytes that it has compressed begin with a mark. */
char PMIx_Data_decompress(const uint8_t *bytes, size_t size, uint8_t **found, size_t *len) {
  if (size < 4 || memcmp(bytes, "mark", 4) != 0) return 0;
  *len = size - 4;
  *found = malloc(*len + 1);
  memcpy(*found, bytes + 4, *len);
  return 1;
}

static int passed_on;
#ifndef STATUS
#define STATUS 0
#endif
static int pass_on(void) { passed_on++; return STATUS; }
/* Behind the module something else lies, which is none of its functions. */
struct module { const char *name; uint64_t safe; void *functions[FUNCTIONS], *behind[8]; };
#ifdef FOREIGN
#define LAST (void *)exit
#else
#define LAST pass_on
#endif
static struct module hash = {"hash", 0, {[0 ... FUNCTIONS - 2] = pass_on, [FUNCTIONS - 1] = LAST}, {[0 ... 7] = exit}};
#ifdef LATEST
static int own_answer(void *peer, const void *proc, uint8_t scope, char copy, const char *key, void *info, size_t n,
                      uint32_t realm, char *list);
#endif
static int query(void **module, int *priority) {
#ifdef LATEST
  hash.functions[8] = own_answer;
#endif
  *module = &hash;
  *priority = 10;
  return 0;
}

struct component {
  int mca[3];
  char project[16];
  int project_version[3];
  char framework[32];
  int framework_version[3];
  char name[64];
  int version[3];
  void *open, *close; int (*query)(void **, int *); void *reg; char reserved[32];
#ifdef OLDEST
  uint32_t data[9], unused;
#endif
  char variables[512];
} pmix_mca_gds_hash_component = {{2, 1, 0}, "pmix", {4, 2, 2}, "gds", {INTERFACE}, "hash", {4, 2, 2}, 0, 0, query};

int ask(int (*query)(void **, int *), struct module **module) {
  int priority = -7, status = query((void **)module, &priority);
  /* The code behind the call keeps it from being the last thing, which would not come from here. */
  return status == 0 && priority < 0 ? -2 : status;
}

static void *object(size_t size, struct class *class) {
  char *object = calloc(1, size);
  *(void **)(object + CLASS_AT) = class;
  return object;
}

static void put(void *object, size_t at, const void *value) { memcpy((char *)object + at, &value, 8); }

static char *peer_of(const char *name, const char *other, uint32_t number) {
  char *nspace = object(NAMESPACE, &pmix_namespace_t_class), *rank = object(RANK_INFO, &pmix_rank_info_t_class),
       *peer = object(PEER, &pmix_peer_t_class);
  put(nspace, NAME_AT, name);
  put(nspace, MODULE_AT, &hash);
  put(rank, RANK_AT, other);
  memcpy(rank + RANK_AT + 8, &number, 4);
  put(peer, OF_NAMESPACE, nspace);
  put(peer, OF_RANK, rank);
#ifdef INSTEAD
  /* A module that it has instead of its namespace's, in 7.0. */
  put(peer, 80, &passed_on);
#endif
  return peer;
}

/* The number of variables that a process is started with. */
static int started(struct module *module, const void *proc) {
  char **environment = calloc(2, sizeof *environment);
  int variables = 0;
  environment[0] = strdup("PMIX_SERVER_URI41=server.7;tcp4://127.0.0.1:1");
  ((int (*)(const void *, char ***))module->functions[9])(proc, &environment);
  while (environment[variables]) variables++;
  return variables;
}

/* A server's life with the module; says how often something was passed on, and how many variables a process has that
 * starts first, or, with a STATUS, last. */
int run(struct module *module, int *variables) {
  struct { char nspace[256]; uint32_t rank; } proc = {"job", 0};
  char *name = "server";
  uint32_t rank = RANK;
  void **f = module->functions;
  memcpy(pmix_globals + SELF_AT, "server", 7);
  memcpy(pmix_globals + SELF_AT + 256, &rank, 4);
#ifdef NO_CLASS
  *(void **)(pmix_globals + PEER_AT) = calloc(1, PEER);
#elif defined(WILD)
  memset(pmix_globals + PEER_AT, 0x5a, 8);
#else
  *(void **)(pmix_globals + PEER_AT) = peer_of(name, name, 7);
#endif
  ((int (*)(void *, size_t))f[0])(NULL, 0);
  ((int (*)(const char *, uint32_t, void *, size_t))f[10])("job", 1, NULL, 0);
  *variables = started(module, &proc);

  /* Entries and peers that are none, or damaged ones. */
  char *entry = object(ENTRY, &pmix_kval_t_class), *reply = object(BUFFER, &pmix_buffer_t_class);
  void *wild[] = {NULL, (void *)8, (void *)0x5a5a5a5a5a5a5a5a, calloc(1, 2048), entry, reply,
                  peer_of("job", "other", 0), peer_of((char *)9, (char *)9, 0), peer_of("job", "job", 0)};
  for (size_t at = 0; at < sizeof wild / sizeof *wild; at++) {
    ((int (*)(void *, uint8_t, void *))f[6])(&proc, 1, wild[at]);
    ((int (*)(void *, uint8_t, void *))f[6])(wild[at], 1, entry);
#if defined(EARLY) || defined(LATEST)
    /* A key that is deleted. */
    ((int (*)(void *, uint8_t, void *))f[6])(&proc, 5 + at % 4, wild[at]);
    ((int (*)(void *, void *))f[12])(wild[at], "key");
    ((int (*)(void *, void *))f[12])(&proc, wild[at]);
    passed_on--;
#endif
#ifdef LATEST
    /* More of a job. */
    ((int (*)(void *, void *, size_t))f[22])(wild[at], NULL, 0);
#endif
    ((int (*)(void *, void *))f[4])(wild[at], reply);
    ((int (*)(void *, void *))f[4])(peer_of("job", "job", 0), wild[at]);
    /* Bytes that are not there. */
    put(reply, BASE_AT, wild[at]);
    put(reply, USED_AT, (void *)(at % 2 ? (size_t)1 << 60 : 4096));
    put(entry, KEY_AT, "key");
    put(entry, KEY_AT + 8, wild[at]);
  }
  if (STATUS != 0) *variables = started(module, &proc);
#ifdef LATEST
  /* A function that is called in all modules is not passed on a second time. */
  if (f[18] || f[19]) exit(2);
#endif
  ((int (*)(const char *))f[11])("job");
  ((int (*)(const char *))f[11])((char *)7);
  ((void (*)(void))f[1])();
  return passed_on;
}

struct participant { char nspace[256]; uint32_t rank; };

/* A job of two processes, of which one runs here, and has asked about the job; returns the variable with the address of
 * its segments. */
char *begin(struct module *module) {
  static char told[] = "\2\10job\0\2\34pmix.job.size\0\16\2";
  struct participant proc = {"job", 0};
  char *name = "server", **environment = calloc(2, sizeof *environment), *reply = object(BUFFER, &pmix_buffer_t_class);
  uint32_t seven = 7;
  void **f = module->functions;
  memcpy(pmix_globals + SELF_AT, "server", 7);
  memcpy(pmix_globals + SELF_AT + 256, &seven, 4);
  put(pmix_globals, PEER_AT, peer_of(name, name, 7));
  ((int (*)(const char *, uint32_t, void *, size_t))f[10])("job", 1, NULL, 0);
  environment[0] = strdup("PMIX_SERVER_URI41=server.7;tcp4://127.0.0.1:1");
  ((int (*)(const void *, char ***))f[9])(&proc, &environment);
  put(reply, BASE_AT, told);
  put(reply, USED_AT, (void *)(sizeof told - 1));
  ((int (*)(void *, void *))f[4])(peer_of("job", "job", 0), reply);
  return environment[1];
}

enum how { WELL, OTHER_JOB, NOBODY, TOO_MANY, WILD_ARRAY, WILD_TRACKER, WILD_BUFFER };

/* A fence has brought these bytes. */
int exchange(struct module *module, char *bytes, size_t len, enum how how) {
  static struct participant all[2] = {{"job", -2}, {"other", -2}}, *array = all;
  char *buffer = object(BUFFER, &pmix_buffer_t_class), *tracker = calloc(1, 2048), *nspace;
  void *wild = (void *)0x5a5a5a5a5a5a5a5a;
  size_t count = how == OTHER_JOB ? 2 : how == NOBODY ? 0 : how == TOO_MANY ? (size_t)1 << 60 : 1;
  put(buffer, BASE_AT, how == WILD_BUFFER ? wild : bytes);
  put(buffer, USED_AT, (void *)len);
  put(tracker, PARTICIPANTS, how == WILD_ARRAY ? wild : array);
  put(tracker, PARTICIPANTS + 8, (void *)count);
  if (how == WILD_TRACKER) tracker = wild;
  memcpy(&nspace, peer_of("job", "job", 0) + OF_NAMESPACE, sizeof nspace);
#if defined(EARLY) || defined(LATEST)
  return ((int (*)(void *, const char *, void *))module->functions[7])(buffer, "job", tracker);
#elif defined(NAMES)
  return ((int (*)(void *, void *))module->functions[7])(buffer, tracker);
#else
  return ((int (*)(void *, void *, void *))module->functions[7])(nspace, buffer, tracker);
#endif
}

void end(struct module *module) { ((void (*)(void))module->functions[1])(); }

#ifdef LATEST
#include <pthread.h>

#ifndef MAKES
#define MAKES make_list
#endif
static void make_list(char *list);
static void *making[] = {MAKES, NULL}, *unmaking[] = {NULL};
struct class pmix_list_t_class = {{0, 0, 0, 0, 0, 0, 0}, 168};

enum { HEAD = 72, PREVIOUS = 80, COUNT_AT = 160, UINT32 = 14, OWN_ANSWER = 77 };
#ifndef OWNERS
#define OWNERS 1
#endif

typedef int fetch(void *, const void *, uint8_t, char, const char *, void *, size_t, uint32_t, char *);

static void *at(const void *object, size_t at) { return *(void **)((char *)object + at); }

static void make_list(char *list) {
  put(list, 2 * HEAD, list + HEAD);
  put(list, HEAD + PREVIOUS, list + HEAD);
}

/* The library's own answer, to any question: a number, with what makes an entry of a list. */
static int own_answer(void *peer, const void *proc, uint8_t scope, char copy, const char *key, void *info, size_t n,
                      uint32_t realm, char *list) {
  (void)peer, (void)proc, (void)scope, (void)copy, (void)info, (void)n, (void)realm;
  uint32_t *value = calloc(1, 32);
  char *entry = object(ENTRY, &pmix_kval_t_class);
  value[0] = UINT32, value[2] = OWN_ANSWER;
  entry[8] = OWNERS;
  put(entry, KEY_AT, key);
  put(entry, KEY_AT + 8, value);
  put(entry, HEAD, list + HEAD);
  put(entry, PREVIOUS, list + HEAD);
  put(list, 2 * HEAD, entry);
  put(list, HEAD + PREVIOUS, entry);
  put(list, COUNT_AT, (void *)1);
  return 0;
}

/* Result of a Get of a key: a number, or a status. */
static int get(struct module *module, uint32_t rank, const char *key) {
  struct { char nspace[256]; uint32_t rank; } proc = {"job", rank};
  char *list = object(168, &pmix_list_t_class);
  make_list(list);
  int status = ((fetch *)module->functions[8])(NULL, &proc, 0, 0, key, NULL, 0, 1, list);
  if (status != 0) return at(list, COUNT_AT) ? -1 : status;
  char *entry = at(list, 2 * HEAD);
  uint32_t *value = at(entry, KEY_AT + 8);
  int is_alone = at(list, COUNT_AT) == (void *)1 && at(list, HEAD + PREVIOUS) == entry && at(entry, HEAD) == list + HEAD
                 && at(entry, PREVIOUS) == list + HEAD && at(entry, 0) == &pmix_kval_t_class;
  return is_alone && strcmp(at(entry, KEY_AT), key) == 0 && (uint16_t)value[0] == UINT32 ? (int)value[2] : -2;
}

struct elsewhere { struct module *module; int known, unknown; };

static void *get_elsewhere(void *argument) {
  struct elsewhere *it = argument;
  it->known = get(it->module, -2, "site");
  it->unknown = get(it->module, -2, "none");
  return NULL;
}

/* A process of a job, in the process that is its server as well. Fills in what it finds of a key that the segments
 * have, the first and the second time, on another thread, and of another key there. */
int gets(struct module *module, int found[4]) {
  static char told[] = "\2\10job\0\2\34pmix.job.size\0\16\1\2\12site\0\16\5";
  struct { char nspace[256]; uint32_t rank; } proc = {"job", 0};
  struct { char key[512]; uint64_t flags; uint64_t type; const char *names; void *rest[2]; } names = {
      "pmix.gds.mod", 0, 3, "shmem3,hash,instanton", {0}};
  char *name = "server", **environment = calloc(2, sizeof *environment), *reply = object(BUFFER, &pmix_buffer_t_class);
  uint32_t seven = 7;
  int priority = 0;
  void **f = module->functions;
  if (sizeof names != 552) return 1;
  pmix_list_t_class.words[5] = (uint64_t)making;
  pmix_kval_t_class.words[6] = (uint64_t)unmaking;
  memcpy(pmix_globals + SELF_AT, "server", 7);
  memcpy(pmix_globals + SELF_AT + 256, &seven, 4);
  put(pmix_globals, PEER_AT, peer_of(name, name, 7));
  ((int (*)(const char *, uint32_t, void *, size_t))f[10])("job", 1, NULL, 0);

  if (((int (*)(void *, size_t, int *))f[2])(&names, 1, &priority) == 0) return 2;
  setenv("PMIX_NAMESPACE", "job", 1);
  setenv("PMIX_RANK", "0", 1);
  setenv("PMIX_GDS_MODULE", names.names, 1);
  setenv("PMIX_SERVER_URI41", "server.7;tcp4://127.0.0.1:1", 1);
  environment[0] = strdup("PMIX_SERVER_URI41=server.7;tcp4://127.0.0.1:1");
  ((int (*)(const void *, char ***))f[9])(&proc, &environment);
  if (!environment[1] || putenv(environment[0]) || putenv(environment[1])) return 3;
  if (((int (*)(void *, size_t, int *))f[2])(&names, 1, &priority) != 0 || priority <= 100) return 4;

  put(reply, BASE_AT, told);
  put(reply, USED_AT, (void *)(sizeof told - 1));
  if (((int (*)(void *, void *))f[4])(peer_of("job", "job", 0), reply) != 0) return 5;
  if (((int (*)(const char *, void *))f[5])("job", reply) != 0) return 6;
  found[0] = get(module, -2, "site");
  found[1] = get(module, -2, "site");
  struct elsewhere elsewhere = {module, 0, 0};
  pthread_t thread;
  pthread_create(&thread, NULL, get_elsewhere, &elsewhere);
  pthread_join(thread, NULL);
  found[2] = elsewhere.known;
  found[3] = elsewhere.unknown;
  if (get(module, 0, "posted") != OWN_ANSWER) return 7;
  ((void (*)(void))f[1])();
  /* Without segments here: another module has to do it. */
  return ((int (*)(const char *, void *))f[5])("job", reply) == -1366 ? 0 : 8;
}
#endif
