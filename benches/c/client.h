/* Parts that the benchmarks of a client share. They start under the host of this folder, which opens a gate for all of them at
 * once, and under any other launcher, where there is no gate.
 *
 * Only functions and types that every libpmix.so.2 has are used, so that one binary runs on all of them. */
#ifndef CLIENT_H
#define CLIENT_H
#include "bench.h"
#include <pmix.h>
#include "gate.h"

static pmix_proc_t me, everyone;
static pmix_rank_t size;

static inline void must(pmix_status_t status, const char *what) {
  if (status != PMIX_SUCCESS) die("rank %u: %s: %s", me.rank, what, PMIx_Error_string(status));
}

static inline pmix_proc_t process(pmix_rank_t rank) {
  pmix_proc_t proc = me;
  proc.rank = rank;
  return proc;
}

static inline pmix_info_t flag(const char *key) {
  pmix_info_t info;
  memset(&info, 0, sizeof info);
  strncpy(info.key, key, PMIX_MAX_KEYLEN);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

/* Of the types that the benchmarks ask for. */
static inline void release(pmix_value_t *value) {
  if (value->type == PMIX_STRING) free(value->data.string);
  if (value->type == PMIX_BYTE_OBJECT) free(value->data.bo.bytes);
  free(value);
}

static inline uint32_t get_u32(const char *key) {
  pmix_value_t *value;
  must(PMIx_Get(&everyone, key, NULL, 0, &value), key);
  uint32_t number = value->data.uint32;
  release(value);
  return number;
}

static inline void fence(bool collect) {
  static pmix_info_t info;
  if (collect && !*info.key) info = flag(PMIX_COLLECT_DATA);
  must(PMIx_Fence(&everyone, 1, collect ? &info : NULL, collect), "PMIx_Fence");
}

/* Bytes that no two ranks and no two calls share, so that nothing can be shortened. */
static inline void put_bytes(const char *key, size_t length) {
  pmix_value_t value;
  static char bytes[4096];
  for (size_t i = 0; i < length; i++) bytes[i] = (char)random_below(256);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = bytes;
  value.data.bo.size = length;
  must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
}

/* Waits at the gate and joins the job; tells the host when that was done. */
static inline void join_job(void) {
  seed_random();
  wait_at_gate();
  long faults = page_faults();
  double start = now_us();
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  double end = now_us();
  faults = page_faults() - faults;
  tell_host(end);
  sample("init", end - start, faults);
  everyone = process(PMIX_RANK_WILDCARD);
  size = get_u32(PMIX_JOB_SIZE);
  random_state += 2 * (uint64_t)me.rank;
}

static inline void leave_job(void) {
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  flush_samples();
}
#endif
