/* A tool: attaches to a server that it looks for, asks for its jobs and their processes, and writes down what it is told.
 *   tool              to any server in reach
 *   tool pid N        to the one that users know by that process
 *   tool uri URI      to the one at that address
 *   tool name NAME R  to any, as that process
 *   tool event        to any, and raises an event for its jobs  */
#include <pmix.h>
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return;
  fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
  exit(1);
}

static pmix_info_t *ask(const char *key, const char *nspace, size_t *count) {
  pmix_query_t query;
  pmix_info_t *results = NULL;
  PMIX_QUERY_CONSTRUCT(&query);
  pmix_status_t appended;
  PMIX_ARGV_APPEND(appended, query.keys, key);
  must(appended, key);
  if (nspace) {
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
  }
  must(PMIx_Query_info(&query, 1, &results, count), key);
  PMIX_QUERY_DESTRUCT(&query);
  return results;
}

static void table(const char *nspace) {
  size_t count;
  pmix_info_t *results = ask(PMIX_QUERY_PROC_TABLE, nspace, &count);
  for (size_t n = 0; n < count; n++) {
    if (results[n].value.type != PMIX_DATA_ARRAY) continue;
    pmix_data_array_t *procs = results[n].value.data.darray;
    pmix_proc_info_t *of = procs->array;
    printf("processes: %zu\n", procs->size);
    for (size_t p = 0; p < procs->size; p++)
      printf("rank %u: %s, pid %s, state %d\n", of[p].proc.rank, of[p].executable_name, of[p].pid > 0 ? "known" : "none",
             of[p].state);
  }
  PMIX_INFO_FREE(results, count);
}

int main(int count, char **words) {
  pmix_proc_t me, everyone;
  pmix_info_t info[2];
  size_t given = 0;
  if (count > 2 && strcmp(words[1], "pid") == 0) {
    pid_t pid = atoi(words[2]);
    PMIX_INFO_LOAD(&info[given++], PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
  } else if (count > 2 && strcmp(words[1], "uri") == 0) {
    PMIX_INFO_LOAD(&info[given++], PMIX_SERVER_URI, words[2], PMIX_STRING);
  } else if (count > 3 && strcmp(words[1], "name") == 0) {
    pmix_rank_t rank = (pmix_rank_t)atoi(words[3]);
    PMIX_INFO_LOAD(&info[given++], PMIX_TOOL_NSPACE, words[2], PMIX_STRING);
    PMIX_INFO_LOAD(&info[given++], PMIX_TOOL_RANK, &rank, PMIX_PROC_RANK);
  }
  must(PMIx_tool_init(&me, given ? info : NULL, given), "tool_init");
  printf("I am %s:%u\n", strstr(me.nspace, ".tool.") ? "named by the server" : me.nspace, me.rank);
  size_t answers;
  pmix_info_t *results = ask(PMIX_QUERY_NAMESPACES, NULL, &answers);
  char *names = strdup(results[0].value.data.string), *rest = names;
  PMIX_INFO_FREE(results, answers);
  for (char *nspace; (nspace = strsep(&rest, ",")) != NULL;) {
    pmix_value_t *value = NULL;
    PMIX_PROC_LOAD(&everyone, nspace, PMIX_RANK_WILDCARD);
    must(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value), "the size of a job");
    printf("job %s of %u\n", strrchr(nspace, '@'), value->data.uint32);
    PMIX_VALUE_RELEASE(value);
    table(nspace);
  }
  free(names);
  if (count > 1 && strcmp(words[1], "event") == 0) {
    must(PMIx_Notify_event(PMIX_EXTERNAL_ERR_BASE - 1, &me, PMIX_RANGE_SESSION, NULL, 0, NULL, NULL), "an event");
    printf("raised\n");
  }
  must(PMIx_tool_finalize(), "tool_finalize");
  return 0;
}
