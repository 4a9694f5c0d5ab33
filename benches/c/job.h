/* A job in blocks, or with ranks at random: its maps, and what a resource manager says of it and of each of its ranks. */
#ifndef JOB_H
#define JOB_H
#include "bench.h"
#include <pmix_server.h>

struct job {
  uint32_t ranks, per_node;
  uint32_t node;              /* whose host this is */
  int clients;
  bool keys;                  /* eleven of each rank besides the maps */
  char *node_map, *proc_map;  /* as the library writes them */
  uint32_t *listed;           /* the ranks of one node after the other, where they are not in blocks */
};

struct infos {
  pmix_info_t *list;
  size_t length;
};

static inline uint32_t nodes_of(const struct job *job) {
  return (job->ranks + job->per_node - 1) / job->per_node;
}

static inline uint32_t on_node(const struct job *job, uint32_t node) {
  uint32_t left = job->ranks - node * job->per_node;
  return left < job->per_node ? left : job->per_node;
}

/* The i-th rank of a node. */
static inline uint32_t rank_at(const struct job *job, uint32_t node, uint32_t i) {
  uint32_t at = node * job->per_node + i;
  return job->listed ? job->listed[at] : at;
}

static inline int by_number(const void *a, const void *b) {
  uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
  return (first > second) - (first < second);
}

/* As many ranks on each node as with blocks, but which ones is chance; on each node in the order of their numbers, or in none. */
static inline void place_at_random(struct job *job, bool in_order) {
  uint32_t *ranks = malloc(job->ranks * sizeof *ranks);
  seed_random();
  for (uint32_t i = 0; i < job->ranks; i++) ranks[i] = i;
  for (uint32_t i = job->ranks; i > 1; i--) {
    uint32_t other = random_below(i), rank = ranks[i - 1];
    ranks[i - 1] = ranks[other];
    ranks[other] = rank;
  }
  for (uint32_t node = 0; in_order && node < nodes_of(job); node++)
    qsort(ranks + node * job->per_node, on_node(job, node), sizeof *ranks, by_number);
  job->listed = ranks;
}

/* The ranks of a node with commas between them, written at TEXT. */
static inline char *write_ranks(const struct job *job, uint32_t node, char *text) {
  for (uint32_t i = 0; i < on_node(job, node); i++)
    text += sprintf(text, "%s%u", i ? "," : "", rank_at(job, node, i));
  return text;
}

/* This machine is node 0, under its own name. */
static inline void node_name(uint32_t node, char name[256]) {
  if (node == 0) gethostname(name, 256);
  else snprintf(name, 256, "node%05u", node);
}

static inline void make_maps(struct job *job) {
  char *text = malloc((size_t)job->ranks * 11 + (size_t)nodes_of(job) * 16 + 256), *end = text, name[256];
  for (uint32_t node = 0; node < nodes_of(job); node++) {
    node_name(node, name);
    end += sprintf(end, "%s%s", node ? "," : "", name);
  }
  if (PMIx_generate_regex(text, &job->node_map) != PMIX_SUCCESS) die("host: no node map");
  end = text;
  for (uint32_t node = 0; node < nodes_of(job); node++) {
    if (node) *end++ = ';';
    end = write_ranks(job, node, end);
  }
  if (PMIx_generate_ppn(text, &job->proc_map) != PMIX_SUCCESS) die("host: no process map");
  free(text);
}

static inline pmix_info_t named(const char *key, pmix_data_type_t type) {
  pmix_info_t info;
  memset(&info, 0, sizeof info);
  strncpy(info.key, key, PMIX_MAX_KEYLEN);
  info.value.type = type;
  return info;
}

static inline pmix_info_t number(const char *key, uint32_t value) {
  pmix_info_t info = named(key, PMIX_UINT32);
  info.value.data.uint32 = value;
  return info;
}

static inline pmix_info_t small(const char *key, uint16_t value) {
  pmix_info_t info = named(key, PMIX_UINT16);
  info.value.data.uint16 = value;
  return info;
}

static inline pmix_info_t text(const char *key, const char *value) {
  pmix_info_t info = named(key, PMIX_STRING);
  info.value.data.string = strdup(value);
  return info;
}

/* A map, which need not be a text: some libraries compress it. */
static inline pmix_info_t map(const char *key, const char *value) {
  pmix_info_t info = named(key, PMIX_REGEX);
  if (PMIx_Value_load(&info.value, value, PMIX_REGEX) != PMIX_SUCCESS) die("host: no %s", key);
  return info;
}

static inline pmix_info_t array(const char *key, pmix_info_t *list, size_t length) {
  pmix_info_t info = named(key, PMIX_DATA_ARRAY);
  info.value.data.darray = malloc(sizeof *info.value.data.darray);
  *info.value.data.darray = (pmix_data_array_t){.type = PMIX_INFO, .size = length, .array = list};
  return info;
}

/* Eleven keys of a rank, behind the rank itself. */
static inline pmix_info_t describe_rank(const struct job *job, uint32_t rank) {
  uint32_t node = rank / job->per_node, local = rank % job->per_node;
  char host[256], cpus[32], locality[128];
  node_name(node, host);
  snprintf(cpus, sizeof cpus, "%u-%u", 2 * local, 2 * local + 1);
  snprintf(locality, sizeof locality, "NM%u:SK%u:L3%u:L2%u:L1%u:CR%u:HT%u-%u", local / 16, local / 16, local / 16,
           local, local, local, 2 * local, 2 * local + 1);
  pmix_info_t keys[] = {
      number(PMIX_RANK, rank),         number(PMIX_APPNUM, 0),
      number(PMIX_GLOBAL_RANK, rank),  number(PMIX_APP_RANK, rank),
      small(PMIX_LOCAL_RANK, local),   small(PMIX_NODE_RANK, local),
      number(PMIX_NODEID, node),       text(PMIX_HOSTNAME, host),
      number(PMIX_REINCARNATION, 0),   small(PMIX_PACKAGE_RANK, local % 16),
      text(PMIX_CPUSET, cpus),         text(PMIX_LOCALITY_STRING, locality),
  };
  keys[0].value.type = PMIX_PROC_RANK;
  keys[0].value.data.rank = rank;
  pmix_info_t *list = malloc(sizeof keys);
  memcpy(list, keys, sizeof keys);
  return array(PMIX_PROC_DATA, list, sizeof keys / sizeof *keys);
}

static inline struct infos describe(const struct job *job) {
  uint32_t local = on_node(job, job->node);
  char *peers = malloc(local * 11 + 1);
  *write_ranks(job, job->node, peers) = '\0';
  pmix_info_t apps[] = {number(PMIX_APPNUM, 0), number(PMIX_APP_SIZE, job->ranks)};
  pmix_info_t *app = malloc(sizeof apps);
  memcpy(app, apps, sizeof apps);
  pmix_info_t of_job[] = {
      number(PMIX_JOB_SIZE, job->ranks),      number(PMIX_UNIV_SIZE, job->ranks),
      number(PMIX_MAX_PROCS, job->ranks),     number(PMIX_JOB_NUM_APPS, 1),
      number(PMIX_NUM_NODES, nodes_of(job)),  number(PMIX_LOCAL_SIZE, local),
      number(PMIX_NODE_SIZE, local),          text(PMIX_LOCAL_PEERS, peers),
      map(PMIX_NODE_MAP, job->node_map),      map(PMIX_PROC_MAP, job->proc_map),
      text(PMIX_JOBID, "bench"),              array(PMIX_APP_INFO_ARRAY, app, 2),
  };
  free(peers);
  const size_t fixed = sizeof of_job / sizeof *of_job;
  struct infos infos = {.length = fixed + (job->keys ? job->ranks : 0)};
  infos.list = malloc(infos.length * sizeof *infos.list);
  if (!infos.list) die("host: no memory to describe %u ranks", job->ranks);
  memcpy(infos.list, of_job, sizeof of_job);
  for (size_t i = fixed; i < infos.length; i++) infos.list[i] = describe_rank(job, i - fixed);
  return infos;
}

static inline void forget(struct infos *infos) {
  for (size_t i = 0; i < infos->length; i++) {
    pmix_value_t *value = &infos->list[i].value;
    if (value->type == PMIX_STRING) free(value->data.string);
    if (value->type == PMIX_REGEX) free(value->data.bo.bytes);
    if (value->type != PMIX_DATA_ARRAY) continue;
    struct infos inner = {value->data.darray->array, value->data.darray->size};
    forget(&inner);
    free(value->data.darray);
  }
  free(infos->list);
}
#endif
