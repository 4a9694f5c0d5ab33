/* Parts that the benchmark programs share: a clock, samples, memory and page faults.
 *
 * A program prints what it measured and nothing that is derived from it, one line a sample:
 *   ROW <tab> VALUE <tab> PAGE FAULTS          (times in microseconds, memory in bytes)
 * Medians and the like are the business of the program that reads all lines of all processes. */
#ifndef BENCH_H
#define BENCH_H
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static inline double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* Page faults of the whole process, those of the library's threads included. */
static inline long page_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

static inline void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

/* Lines of many processes meet in one pipe: only whole lines are written, and no more than a pipe takes at once. */
static char sample_lines[4096];
static size_t sample_bytes;

static inline void flush_samples(void) {
  for (size_t done = 0; done < sample_bytes;) {
    ssize_t n = write(STDOUT_FILENO, sample_lines + done, sample_bytes - done);
    if (n < 0) die("cannot write samples");
    done += n;
  }
  sample_bytes = 0;
}

static inline void sample(const char *row, double value, long faults) {
  if (sample_bytes + 128 > sizeof sample_lines) flush_samples();
  sample_bytes += snprintf(sample_lines + sample_bytes, 128, "%s\t%.4f\t%ld\n", row, value, faults);
}

/* Values of one row that are written down only when all are taken: writing one takes as long as a short call. */
struct row {
  const char *name;
  double *values;
  size_t length;
};

static inline struct row row(const char *name, size_t room) {
  double *values = malloc(room * sizeof *values);
  if (!values) die("no memory for %zu samples", room);
  return (struct row){name, values, 0};
}

static inline void keep(struct row *row, double value) { row->values[row->length++] = value; }

static inline void write_down(struct row *row) {
  for (size_t i = 0; i < row->length; i++) sample(row->name, row->values[i], 0);
  free(row->values);
}

/* The sum, in bytes, of the lines of a file in /proc that begin with NAME and count kB. */
static inline double proc_bytes(const char *file, const char *name) {
  char line[256];
  double sum = 0;
  FILE *lines = fopen(file, "r");
  if (!lines) die("cannot read %s", file);
  while (fgets(line, sizeof line, lines))
    if (strncmp(line, name, strlen(name)) == 0) sum += strtod(strchr(line, ':') + 1, NULL) * 1024;
  fclose(lines);
  return sum;
}

/* Exact, unlike the counters of /proc/self/status. */
static inline double resident_bytes(void) { return proc_bytes("/proc/self/smaps_rollup", "Rss"); }
static inline double private_bytes(void) { return proc_bytes("/proc/self/smaps_rollup", "Private_"); }

/* A sequence of pseudo-random numbers, one for each seed (xorshift64*). */
static uint64_t random_state = 1;

static inline void seed_random(void) {
  const char *seed = getenv("BENCH_SEED");
  random_state = seed ? strtoull(seed, NULL, 10) | 1 : 1;
}

static inline uint32_t random_below(uint32_t limit) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (uint32_t)((random_state * 0x2545f4914f6cdd1dULL) >> 32) % limit;
}
#endif
