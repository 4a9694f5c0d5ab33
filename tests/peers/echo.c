/* Asks what a file says and posts each answer again, so that whoever wrote the file can compare.
 *   echo QUESTIONS
 * A question is, in the byte order of the machine: rank, level (0 none, 1 session, 2 job, 3 application, 4 node),
 * number at that level, bytes of the key (each 32 bits), the key.  The n-th answer is posted as "seen.n": the
 * value, or the status with which the Get failed.  */
#include <pmix.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
  exit(1);
}

struct question {
  uint32_t rank, level, number, length;
};

static size_t directives(const struct question *question, pmix_info_t *info) {
  static const char *const levels[] = {PMIX_SESSION_INFO, PMIX_JOB_INFO, PMIX_APP_INFO, PMIX_NODE_INFO};
  static const char *const numbers[] = {PMIX_SESSION_ID, NULL, PMIX_APPNUM, PMIX_NODEID};
  bool yes = true;
  if (question->level == 0) { /* nobody will post it: there is nothing to wait for */
    PMIX_INFO_LOAD(&info[0], PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    return 1;
  }
  PMIX_INFO_LOAD(&info[0], levels[question->level - 1], &yes, PMIX_BOOL);
  if (numbers[question->level - 1] == NULL) return 1;
  PMIX_INFO_LOAD(&info[1], numbers[question->level - 1], &question->number, PMIX_UINT32);
  return 2;
}

int main(int argc, char **argv) {
  pmix_proc_t me, proc;
  struct question question;
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 2;
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  for (unsigned n = 0; fread(&question, sizeof question, 1, file) == 1; n++) {
    char key[PMIX_MAX_KEYLEN + 1] = "", seen[32];
    pmix_info_t info[2];
    pmix_value_t *value, failure;
    if (question.length > PMIX_MAX_KEYLEN || fread(key, 1, question.length, file) != question.length) return 2;
    snprintf(seen, sizeof seen, "seen.%u", n);
    PMIX_PROC_LOAD(&proc, me.nspace, question.rank);
    pmix_status_t status = PMIx_Get(&proc, key, info, directives(&question, info), &value);
    if (status == PMIX_SUCCESS) {
      must(PMIx_Put(PMIX_GLOBAL, seen, value), seen);
      PMIX_VALUE_RELEASE(value);
    } else {
      PMIX_VALUE_LOAD(&failure, &status, PMIX_STATUS);
      must(PMIx_Put(PMIX_GLOBAL, seen, &failure), seen);
    }
  }
  fclose(file);
  must(PMIx_Commit(), "PMIx_Commit");
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
