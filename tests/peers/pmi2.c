/* A client of PMI-2 that knows no MPI, on Slurm's libpmi2.
 *   pmi2          says who it is, and uses every call that is answered
 *   pmi2 spawn    starts two more of itself, which find what was put for them
 *   pmi2 abort N  the last rank aborts with a message; the others wait for it  */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong;
static char job[PMI2_MAX_VALLEN];

#define CHECK(what) \
  do { \
    if (!(what)) { \
      wrong++; \
      fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #what); \
    } \
  } while (0)

/* The value of a key is this text, in that job. */
static void expect(const char *of, const char *key, const char *expected) {
  char value[PMI2_MAX_VALLEN] = "";
  int len = 0;
  CHECK(PMI2_KVS_Get(of, PMI2_ID_NULL, key, value, sizeof value, &len) == PMI2_SUCCESS);
  if (strcmp(value, expected)) {
    wrong++;
    fprintf(stderr, "rank %d: %s is \"%s\", not \"%s\"\n", rank, key, value, expected);
  }
}

static void puts_and_gets(void) {
  char key[64], value[PMI2_MAX_VALLEN], longest[PMI2_MAX_VALLEN];
  int len, found;
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  for (int round = 0; round < 3; round++) {
    snprintf(key, sizeof key, "key-%d-%d", round, rank);
    snprintf(value, sizeof value, "a=%d b, c:%d", round, rank);
    CHECK(PMI2_KVS_Put(key, value) == PMI2_SUCCESS);
    if (rank == size - 1) {
      snprintf(key, sizeof key, "long-%d", round);
      CHECK(PMI2_KVS_Put(key, longest) == PMI2_SUCCESS);
    }
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    for (int of = 0; of < size; of++) {
      snprintf(key, sizeof key, "key-%d-%d", round, of);
      snprintf(value, sizeof value, "a=%d b, c:%d", round, of);
      expect(of % 2 ? job : NULL, key, value);
    }
    snprintf(key, sizeof key, "long-%d", round);
    expect(NULL, key, longest);
  }
  CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, "no such key", value, sizeof value, &len) != PMI2_SUCCESS || len <= 0);
  CHECK(PMI2_Info_GetJobAttr("no such attribute", value, sizeof value, &found) == PMI2_SUCCESS && !found);
}

static void attributes_and_names(void) {
  char value[PMI2_MAX_VALLEN];
  int found = 0, universe = 0, length = 0;
  CHECK(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found) == PMI2_SUCCESS && found);
  if (rank == 0) printf("mapping: %s\n", value);
  CHECK(PMI2_Info_GetJobAttrIntArray("universeSize", &universe, 1, &length, &found) == PMI2_SUCCESS && found);
  CHECK(universe > 0);
  CHECK(PMI2_Info_GetSize(&universe) == PMI2_SUCCESS && universe > 0);
  /* A process that waits for an attribute of the node hears of it when it is put: by the first rank, of whichever
     node. */
  if (rank == 0) CHECK(PMI2_Info_PutNodeAttr("of-node", "here") == PMI2_SUCCESS);
  if (getenv("PMI2_ONE_NODE")) {
    CHECK(PMI2_Info_GetNodeAttr("of-node", value, sizeof value, &found, 1) == PMI2_SUCCESS && found);
    CHECK(!strcmp(value, "here"));
  }
  CHECK(PMI2_Info_GetNodeAttr("of-nobody", value, sizeof value, &found, 0) == PMI2_SUCCESS && !found);
  if (rank == size - 1) CHECK(PMI2_Nameserv_publish("service", NULL, "port=1 tag#2$") == PMI2_SUCCESS);
  CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
  CHECK(PMI2_Nameserv_lookup("service", NULL, value, sizeof value) == PMI2_SUCCESS);
  CHECK(!strcmp(value, "port=1 tag#2$"));
  CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
  if (rank == size - 1) CHECK(PMI2_Nameserv_unpublish("service", NULL) == PMI2_SUCCESS);
  CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
  CHECK(PMI2_Nameserv_lookup("service", NULL, value, sizeof value) != PMI2_SUCCESS);
}

static void start(const char *program) {
  const char *commands[] = {program, program}, *first[] = {"child", "one two"}, *second[] = {"child", "other"};
  const char **arguments[] = {first, second};
  int counts[] = {2, 2}, each[] = {1, 1}, none[] = {0, 0}, errors[2] = {-1, -1};
  const MPID_Info *infos[] = {NULL, NULL};
  MPID_Info given = {.key = "for-children", .value = "from parent"};
  const MPID_Info *preput[] = {&given};
  char children[PMI2_MAX_VALLEN] = "";
  CHECK(PMI2_Job_Spawn(2, commands, counts, arguments, each, none, infos, 1, preput, children, sizeof children,
                       errors) == PMI2_SUCCESS);
  CHECK(children[0] && strcmp(children, job));
  expect(children, "for-children", "from parent");
}

int main(int argc, char **argv) {
  int spawned, appnum;
  const char *how = argc > 1 ? argv[1] : "";
  if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS) return 70;
  CHECK(PMI2_Initialized());
  CHECK(PMI2_Job_GetId(job, sizeof job) == PMI2_SUCCESS && job[0]);
  CHECK(spawned == !strcmp(how, "child"));
  if (!strcmp(how, "child")) {
    expect(NULL, "for-children", "from parent");
    printf("child %d of %d, application %d, \"%s\"\n", rank, size, appnum, argc > 2 ? argv[2] : "");
  } else if (!strcmp(how, "abort")) {
    if (rank == size - 1) PMI2_Abort(1, "the end");
    PMI2_KVS_Fence();
  } else {
    printf("rank %d of %d, application %d\n", rank, size, appnum);
    puts_and_gets();
    attributes_and_names();
    if (!strcmp(how, "spawn") && rank == 0) start(argv[0]);
  }
  fflush(stdout);
  CHECK(PMI2_Finalize() == PMI2_SUCCESS);
  return wrong != 0;
}
