/* Asks the library under a launcher for whatever a program may ask, and writes down each answer on a line of its own, so
 * that two libraries can be compared line by line. Nothing of it depends on the run (no process numbers, ports or times)
 * or on the release (no names of statuses).
 *   survey           all of it
 *   survey cycles N  N times Init and Finalize; memory and descriptors must not grow  */
#include <dirent.h>
#include <pmix.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me, everyone;

static void say(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  printf("%u: %s\n", me.rank, line);
}

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

static void say_value(const char *what, pmix_status_t status, const pmix_value_t *value) {
  if (status != PMIX_SUCCESS) {
    say("%s: status %d", what, status);
    return;
  }
  const char *type = PMIx_Data_type_string(value->type);
  switch (value->type) {
    case PMIX_STRING: say("%s: %s \"%s\"", what, type, value->data.string ? value->data.string : "(nil)"); break;
    case PMIX_BOOL: say("%s: %s %d", what, type, value->data.flag); break;
    case PMIX_INT: say("%s: %s %d", what, type, value->data.integer); break;
    case PMIX_UINT16: say("%s: %s %u", what, type, value->data.uint16); break;
    case PMIX_UINT32: say("%s: %s %u", what, type, value->data.uint32); break;
    case PMIX_UINT64: say("%s: %s %llu", what, type, (unsigned long long)value->data.uint64); break;
    case PMIX_PROC_RANK: say("%s: %s %u", what, type, value->data.rank); break;
    case PMIX_DOUBLE: say("%s: %s %g", what, type, value->data.dval); break;
    case PMIX_BYTE_OBJECT: say("%s: %s of %zu", what, type, value->data.bo.size); break;
    case PMIX_PROC: say("%s: %s %u", what, type, value->data.proc->rank); break;
    case PMIX_DATA_ARRAY: say("%s: %s of %zu", what, type, value->data.darray->size); break;
    default: say("%s: %s", what, type);
  }
}

static void get(pmix_rank_t rank, const char *key, const char *directive) {
  pmix_proc_t proc;
  pmix_value_t *value = NULL;
  pmix_info_t info;
  char what[256];
  PMIX_PROC_LOAD(&proc, me.nspace, rank);
  if (directive) PMIX_INFO_LOAD(&info, directive, NULL, PMIX_BOOL);
  pmix_status_t status = PMIx_Get(&proc, key, directive ? &info : NULL, directive ? 1 : 0, &value);
  snprintf(what, sizeof what, "get %s of %d%s", key, (int)rank, directive ? " optional" : "");
  say_value(what, status, value);
  if (status == PMIX_SUCCESS) PMIX_VALUE_RELEASE(value);
  if (directive) PMIX_INFO_DESTRUCT(&info);
}

static void fence(int collect) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  must(PMIx_Fence(&everyone, 1, collect ? &info : NULL, collect), "fence");
  PMIX_INFO_DESTRUCT(&info);
}

static void look_up_what_the_launcher_said(uint32_t size) {
  static const char *const of_job[] = {PMIX_JOB_SIZE, PMIX_UNIV_SIZE, PMIX_MAX_PROCS, PMIX_NUM_NODES, PMIX_LOCAL_SIZE,
                                       PMIX_LOCAL_PEERS, PMIX_NODE_SIZE};
  static const char *const of_rank[] = {PMIX_LOCAL_RANK, PMIX_NODE_RANK, PMIX_GLOBAL_RANK, PMIX_HOSTNAME};
  for (size_t i = 0; i < sizeof of_job / sizeof *of_job; i++) get(PMIX_RANK_WILDCARD, of_job[i], NULL);
  for (size_t i = 0; i < sizeof of_rank / sizeof *of_rank; i++) get(me.rank, of_rank[i], NULL);
  for (uint32_t rank = 0; rank < size; rank++) get(rank, PMIX_HOSTNAME, NULL);
  get(me.rank, PMIX_APPNUM, PMIX_OPTIONAL);
  get(me.rank, "no.such.key", PMIX_OPTIONAL);
  get(PMIX_RANK_WILDCARD, "no.such.key", PMIX_OPTIONAL);
  get(PMIX_RANK_WILDCARD, "pmix.no.such.key", NULL);
}

static void resolve(void) {
  pmix_proc_t *procs = NULL;
  size_t n = 0;
  char *nodes = NULL;
  pmix_status_t status = PMIx_Resolve_peers(NULL, me.nspace, &procs, &n);
  say("peers: status %d, %zu, from %d", status, n, n ? (int)procs[0].rank : -1);
  free(procs);
  status = PMIx_Resolve_nodes(me.nspace, &nodes);
  say("nodes: status %d, %s", status, nodes ? nodes : "(nil)");
  free(nodes);
}

static void put(const char *key, const void *data, pmix_data_type_t type) {
  pmix_value_t value;
  PMIX_VALUE_LOAD(&value, data, type);
  must(PMIx_Put(PMIX_GLOBAL, key, &value), key);
  PMIX_VALUE_DESTRUCT(&value);
}

static void exchange(uint32_t size) {
  static const char *const keys[] = {"s.text", "s.number", "s.double", "s.bytes", "s.proc"};
  static char bytes[5000];
  char text[32];
  double fraction = me.rank + 0.5;
  pmix_byte_object_t object = {bytes, sizeof bytes};
  snprintf(text, sizeof text, "text of %u", me.rank);
  put("s.text", text, PMIX_STRING);
  put("s.number", &me.rank, PMIX_UINT32);
  put("s.double", &fraction, PMIX_DOUBLE);
  put("s.bytes", &object, PMIX_BYTE_OBJECT);
  put("s.proc", &me, PMIX_PROC);
  must(PMIx_Commit(), "commit");
  fence(1);
  for (uint32_t rank = 0; rank < size; rank++)
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) get(rank, keys[i], NULL);
  fence(0);
  /* A key that was put can be put again. */
  snprintf(text, sizeof text, "more of %u", me.rank);
  put("s.text", text, PMIX_STRING);
  must(PMIx_Commit(), "commit");
  fence(1);
  get((me.rank + 1) % size, "s.text", NULL);
  get((me.rank + 1) % size, "s.number", NULL);
  fence(0);
}

static void publish(uint32_t size) {
  pmix_info_t info;
  pmix_pdata_t found;
  char key[64], text[64], *keys[] = {key, NULL};
  snprintf(key, sizeof key, "survey-%u", me.rank);
  snprintf(text, sizeof text, "published by %u", me.rank);
  PMIX_INFO_LOAD(&info, key, text, PMIX_STRING);
  pmix_status_t status = PMIx_Publish(&info, 1);
  say("publish: status %d", status);
  PMIX_INFO_DESTRUCT(&info);
  fence(0);
  PMIX_PDATA_CONSTRUCT(&found);
  snprintf(found.key, sizeof found.key, "survey-%u", (me.rank + 1) % size);
  status = PMIx_Lookup(&found, 1, NULL, 0);
  say_value("lookup", status, &found.value);
  if (status == PMIX_SUCCESS) say("lookup: from %u", found.proc.rank);
  PMIX_PDATA_DESTRUCT(&found);
  fence(0);
  say("unpublish: status %d", PMIx_Unpublish(keys, NULL, 0));
  fence(0);
  PMIX_PDATA_CONSTRUCT(&found);
  snprintf(found.key, sizeof found.key, "survey-%u", me.rank);
  say("lookup again: status %d", PMIx_Lookup(&found, 1, NULL, 0));
  PMIX_PDATA_DESTRUCT(&found);
}

static void store(void) {
  pmix_value_t value;
  PMIX_VALUE_LOAD(&value, "kept", PMIX_STRING);
  say("store: status %d", PMIx_Store_internal(&me, "s.own", &value));
  PMIX_VALUE_DESTRUCT(&value);
  get(me.rank, "s.own", PMIX_OPTIONAL);
}

static int descriptors(void) {
  int n = 0;
  DIR *open_files = opendir("/proc/self/fd");
  while (open_files && readdir(open_files)) n++;
  if (open_files) closedir(open_files);
  return n;
}

static long resident_kib(void) {
  long pages = 0, ignored;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (statm && fscanf(statm, "%ld %ld", &ignored, &pages) != 2) pages = 0;
  if (statm) fclose(statm);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int cycles(int n) {
  int open_files = 0;
  long memory = 0;
  for (int i = 0; i < n; i++) {
    must(PMIx_Init(&me, NULL, 0), "init");
    must(PMIx_Finalize(NULL, 0), "finalize");
    /* The first tenth fills what is kept for the next time. */
    if (i == n / 10) open_files = descriptors(), memory = resident_kib();
  }
  long grown = resident_kib() - memory;
  int leaked = descriptors() - open_files, wrong = leaked != 0 || grown > 256;
  printf("%u: %d cycles: %d descriptors more, %s\n", me.rank, n, leaked, grown > 256 ? "memory GROWS" : "memory flat");
  if (wrong) fprintf(stderr, "rank %u: %ld KiB more\n", me.rank, grown);
  return wrong;
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "cycles")) return cycles(atoi(argv[2]));
  pmix_value_t *value;
  must(PMIx_Init(&me, NULL, 0), "init");
  PMIX_PROC_LOAD(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value), "job size");
  uint32_t size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  look_up_what_the_launcher_said(size);
  resolve();
  store();
  exchange(size);
  publish(size);
  fence(0);
  must(PMIx_Finalize(NULL, 0), "finalize");
  return 0;
}
