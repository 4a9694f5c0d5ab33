/* Loaded before a PMIx library that loads no plug-ins: puts that of INSTANTON_TEST_PLUGIN into its list of stores that
 * it is built with, in the place of the first that is not `hash`. Does nothing in other programs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((constructor)) static void put(void) {
  void **list = dlsym(RTLD_DEFAULT, "pmix_mca_gds_base_static_components");
  const char *file = getenv("INSTANTON_TEST_PLUGIN");
  if (!list || !file) return;
  void *plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void *component = plugin ? dlsym(plugin, "pmix_mca_gds_instanton_component") : NULL;
  void *hash = dlsym(RTLD_DEFAULT, "pmix_mca_gds_hash_component");
  if (!component || !hash) {
    fprintf(stderr, "builtin: %s\n", plugin ? "no component" : dlerror());
    exit(1);
  }
  while (*list == hash) list++;
  if (!*list) return;
  uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)list & ~(size - 1);
  if (mprotect((void *)page, size, PROT_READ | PROT_WRITE) != 0) {
    perror("builtin: mprotect");
    exit(1);
  }
  *list = component;
}
