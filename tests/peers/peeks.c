/* Gets of peers' keys that nobody has asked for before, of keys that are put again, and what may go wrong meanwhile.
 *   peeks [ROUNDS]      marks for a system call tracer around the Gets of each round
 *   peeks kill TIMES    each rank starts processes that Get without end, and kills them
 *   peeks loop          such a process
 *   peeks scribble      rank 0 writes to the files that its server has made for it, and cuts them off
 *   peeks wait          says that it is up, and waits  */
#include <fcntl.h>
#include <pmix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pmix_proc_t me, everyone;
static pmix_rank_t size;

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

/* A write to no file: it fails, and the trace has its text. */
static void mark(const char *text) {
  if (write(-1, text, strlen(text)) >= 0) exit(1);
}

static void init(void) {
  pmix_value_t *value;
  must(PMIx_Init(&me, NULL, 0), "init");
  PMIX_PROC_LOAD(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value), "job size");
  size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
}

/* Two keys, of which the second grows. */
static void put(int round) {
  char text[512];
  pmix_value_t number = {.type = PMIX_UINT32}, string = {.type = PMIX_STRING};
  number.data.uint32 = 1000 * me.rank + round;
  must(PMIx_Put(PMIX_GLOBAL, "number", &number), "put");
  memset(text, 'a' + round % 26, sizeof text);
  text[1 + round % 500] = 0;
  string.data.string = text;
  must(PMIx_Put(PMIX_LOCAL, "text", &string), "put");
  must(PMIx_Commit(), "commit");
}

static void fence(void) {
  pmix_info_t collect;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  must(PMIx_Fence(&everyone, 1, &collect, 1), "fence");
}

static void get(pmix_rank_t rank, int round) {
  pmix_proc_t peer;
  pmix_value_t *value;
  PMIX_PROC_LOAD(&peer, me.nspace, rank);
  must(PMIx_Get(&peer, "number", NULL, 0, &value), "number");
  if (round >= 0 && value->data.uint32 != 1000 * rank + round) {
    fprintf(stderr, "rank %u: %u has %u in round %d\n", me.rank, rank, value->data.uint32, round);
    exit(1);
  }
  PMIX_VALUE_RELEASE(value);
  must(PMIx_Get(&peer, "text", NULL, 0, &value), "text");
  int len = strlen(value->data.string);
  if (value->data.string[0] != 'a' + (len - 1) % 26 || (round >= 0 && len != 1 + round)) {
    fprintf(stderr, "rank %u: %u has a text of %d in round %d\n", me.rank, rank, len, round);
    exit(1);
  }
  PMIX_VALUE_RELEASE(value);
}

static void rounds(int count) {
  for (int round = 0; round < count; round++) {
    put(round);
    fence();
    mark("gets begin");
    for (pmix_rank_t rank = 0; rank < size; rank++) get(rank, round);
    mark("gets end");
    fence();
  }
}

static void loop(void) {
  if (write(3, "up", 1) != 1) exit(1);
  close(3);
  for (;;)
    for (pmix_rank_t rank = 0; rank < size; rank++) get(rank, -1);
}

static void kill_some(int times, char *self) {
  put(0);
  fence();
  for (int time = 0; time < times; time++) {
    int pipes[2];
    char byte;
    if (pipe(pipes)) exit(1);
    pid_t child = fork();
    if (child == 0) {
      dup2(pipes[1], 3);
      if (pipes[1] != 3) close(pipes[1]);
      execl(self, self, "loop", NULL);
      _exit(1);
    }
    close(pipes[1]);
    if (read(pipes[0], &byte, 1) != 1) exit(1);
    close(pipes[0]);
    for (int round = 0; round < 5; round++) put(round);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    put(time);
    fence();
    for (pmix_rank_t rank = 0; rank < size; rank++) get(rank, time);
    fence();
  }
}

static void scribble(void) {
  const char *folder = getenv("PMIX_DSTORE_21_BASE_PATH");
  const char *names[] = {"initial-pmix_shared-segment-0", "smseg-%s-0", "smdataseg-%s-0", "smlockseg-%s"};
  for (int file = 0; file < 4 && folder; file++) {
    char name[600], path[2000], noise[4096];
    snprintf(name, sizeof name, names[file], me.nspace);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int opened = open(path, O_RDWR);
    if (opened < 0) exit(1);
    memset(noise, 0xa5, sizeof noise);
    if (pwrite(opened, noise, sizeof noise, 0) < 0 || ftruncate(opened, 0)) exit(1);
    close(opened);
  }
  for (int round = 1; round < 20; round++) put(round);
}

int main(int count, char **words) {
  const char *how = count > 1 ? words[1] : "3";
  init();
  if (!strcmp(how, "loop")) loop();
  if (!strcmp(how, "kill")) {
    kill_some(atoi(words[2]), words[0]);
  } else if (!strcmp(how, "scribble")) {
    rounds(1);
    if (me.rank == 0) scribble();
    fence();
  } else if (!strcmp(how, "wait")) {
    rounds(1);
    printf("up\n");
    fflush(stdout);
    pause();
  } else {
    rounds(atoi(how));
  }
  printf("rank %u: right\n", me.rank);
  return PMIx_Finalize(NULL, 0);
}
