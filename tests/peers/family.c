/* Asks about nodes, peers and processes that it has started: two libraries under one server are told the same.
 *   family           asks, and starts two children of itself
 *   family child     is one of them  */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

static void ask_for_peers(const char *node, const char *name, const char *nspace) {
  pmix_proc_t *peers = NULL;
  size_t count = 0;
  pmix_status_t status = PMIx_Resolve_peers(node, nspace, &peers, &count);
  printf("%u: peers on %s of %s: status %d, %zu:", me.rank, name, nspace == me.nspace ? "us" : "them", status, count);
  for (size_t i = 0; i < count; i++) printf(" %u", peers[i].rank);
  puts("");
  PMIX_PROC_FREE(peers, count);
}

static void ask_for_nodes(const char *nspace, const char *name) {
  char *nodes = NULL;
  pmix_status_t status = PMIx_Resolve_nodes(nspace, &nodes);
  printf("%u: nodes of %s: status %d, %s\n", me.rank, name, status, nodes ? nodes : "none");
  free(nodes);
}

static void ask_for(const pmix_proc_t *proc, const char *key) {
  pmix_value_t *value = NULL;
  pmix_status_t status = PMIx_Get(proc, key, NULL, 0, &value);
  printf("%u: %s of child %u: status %d", me.rank, key, proc->rank, status);
  if (status == PMIX_SUCCESS) {
    if (value->type == PMIX_STRING) printf(", %s", value->data.string);
    if (value->type == PMIX_UINT16) printf(", %u", value->data.uint16);
    if (value->type == PMIX_UINT32) printf(", %u", value->data.uint32);
    PMIX_VALUE_RELEASE(value);
  }
  puts("");
}

/* Meets the other generation. */
static void meet(const char *nspace) {
  pmix_proc_t all[2];
  PMIX_PROC_LOAD(&all[0], me.nspace, PMIX_RANK_WILDCARD);
  PMIX_PROC_LOAD(&all[1], nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Fence(all, 2, NULL, 0), "fence");
}

int main(int argc, char **argv) {
  must(PMIx_Init(&me, NULL, 0), "init");
  pmix_value_t *value = NULL;
  if (argc > 1) {
    must(PMIx_Get(&me, PMIX_PARENT_ID, NULL, 0, &value), "parent");
    meet(value->data.proc->nspace);
    PMIX_VALUE_RELEASE(value);
    must(PMIx_Finalize(NULL, 0), "finalize");
    return 0;
  }
  must(PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &value), "own node");
  ask_for_peers(NULL, "our node", me.nspace);
  ask_for_peers(value->data.string, "it by name", me.nspace);
  ask_for_peers("nowhere", "no node", me.nspace);
  ask_for_peers(value->data.string, "it by name", "nobody");
  PMIX_VALUE_RELEASE(value);
  ask_for_nodes(me.nspace, "us");
  ask_for_nodes("nobody", "nobody");

  pmix_app_t app;
  pmix_nspace_t children;
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = strdup(argv[0]);
  app.argv = calloc(3, sizeof *app.argv);
  app.argv[0] = strdup(argv[0]);
  app.argv[1] = strdup("child");
  app.maxprocs = 2;
  must(PMIx_Spawn(NULL, 0, &app, 1, children), "spawn");
  PMIX_APP_DESTRUCT(&app);
  for (pmix_rank_t rank = 0; rank < 2; rank++) {
    static const char *const keys[] = {PMIX_LOCAL_RANK, PMIX_NODE_RANK, PMIX_APPNUM, PMIX_HOSTNAME};
    pmix_proc_t child;
    PMIX_PROC_LOAD(&child, children, rank);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) ask_for(&child, keys[i]);
  }
  ask_for_peers(NULL, "our node", children);
  meet(children);
  must(PMIx_Finalize(NULL, 0), "finalize");
  return 0;
}
