/* What helper functions cost a program that nobody launched.
 *     helpers SAMPLES [ROW]       of all rows, or of one */
#include "bench.h"
#include <pmix.h>
#include <pmix_server.h>

enum { BATCH = 64, NUMBERS = 64, ARGUMENTS = 20 };

static pmix_proc_t proc;
static pmix_info_t infos[8];
static pmix_value_t text, array, number;
static pmix_data_array_t numbers;
static int32_t elements[NUMBERS];
static char *bytes, *arguments[ARGUMENTS + 1], hosts[4000];
static char large[1 << 20];

static void must(pmix_status_t status, const char *what) {
  if (status != PMIX_SUCCESS) die("%s: %s", what, PMIx_Error_string(status));
}

static void pack(void *source, int32_t n, pmix_data_type_t type, void *destination) {
  pmix_data_buffer_t buffer;
  int32_t room = n;
  memset(&buffer, 0, sizeof buffer);
  must(PMIx_Data_pack(NULL, &buffer, source, n, type), "PMIx_Data_pack");
  must(PMIx_Data_unpack(NULL, &buffer, destination, &room, type), "PMIx_Data_unpack");
  free(buffer.base_ptr);
}

static void pack_number(void) { pack(elements, 1, PMIX_INT32, &(int32_t){0}); }
static void pack_numbers(void) { pack(elements, NUMBERS, PMIX_INT32, (int32_t[NUMBERS]){0}); }
static void pack_wide(void) { pack(large, NUMBERS, PMIX_UINT64, (uint64_t[NUMBERS]){0}); }
static void pack_bytes(void) { pack(large, 64, PMIX_BYTE, (char[64]){0}); }
static void pack_many_bytes(void) { pack(large, sizeof large, PMIX_BYTE, bytes); }
static void pack_proc(void) { pack(&proc, 1, PMIX_PROC, &(pmix_proc_t){.rank = 0}); }

static void pack_object(void) {
  pmix_byte_object_t in = {large, 4096}, out;
  pack(&in, 1, PMIX_BYTE_OBJECT, &out);
  free(out.bytes);
}

static void pack_string(void) {
  char *in = "a string of a usual length", *out;
  pack(&in, 1, PMIX_STRING, &out);
  free(out);
}

static void pack_strings(void) {
  char *out[ARGUMENTS];
  pack(arguments, ARGUMENTS, PMIX_STRING, out);
  for (int i = 0; i < ARGUMENTS; i++) free(out[i]);
}

static void pack_value(void) {
  pmix_value_t out;
  pack(&text, 1, PMIX_VALUE, &out);
  free(out.data.string);
}

static void pack_array(void) {
  pmix_value_t out;
  pack(&array, 1, PMIX_VALUE, &out);
  PMIx_Value_destruct(&out);
}

static void pack_infos(void) {
  static pmix_info_t out[8];
  pack(infos, 8, PMIX_INFO, out);
  for (int i = 0; i < 8; i++) PMIx_Value_destruct(&out[i].value);
}

static void load_info(void) {
  pmix_info_t info;
  must(PMIx_Info_load(&info, PMIX_JOB_SIZE, &elements[1], PMIX_INT32), "PMIx_Info_load");
}

static void load_string(void) {
  pmix_info_t info;
  must(PMIx_Info_load(&info, PMIX_HOSTNAME, "a host's name", PMIX_STRING), "PMIx_Info_load");
  free(info.value.data.string);
}

static void xfer(pmix_value_t *from) {
  pmix_value_t copy;
  must(PMIx_Value_xfer(&copy, from), "PMIx_Value_xfer");
  PMIx_Value_destruct(&copy);
}

static void xfer_number(void) { xfer(&number); }
static void xfer_string(void) { xfer(&text); }
static void xfer_array(void) { xfer(&array); }

static void compare(void) {
  if (PMIx_Value_compare(&number, &number) != PMIX_EQUAL || PMIx_Value_compare(&text, &text) != PMIX_EQUAL)
    die("a value is not its own equal");
}

static void list(void) {
  void *list = PMIx_Info_list_start();
  pmix_data_array_t all;
  for (int i = 0; i < 8; i++) must(PMIx_Info_list_add(list, "pmix.job.size", &elements[i], PMIX_INT32), "add");
  must(PMIx_Info_list_convert(list, &all), "PMIx_Info_list_convert");
  PMIx_Info_list_release(list);
  PMIx_Data_array_destruct(&all);
}

static void print(void) {
  char *printed = PMIx_Info_string(&infos[1]);
  free(printed);
}

static void print_number(void) {
  char *printed;
  must(PMIx_Data_print(&printed, NULL, elements, PMIX_INT32), "PMIx_Data_print");
  free(printed);
}

static void copy(void) {
  void *copied;
  must(PMIx_Data_copy(&copied, &proc, PMIX_PROC), "PMIx_Data_copy");
  free(copied);
}

static const void *volatile found;

static void error_string(void) { found = PMIx_Error_string(PMIX_ERR_NOT_FOUND); }
static void last_error_string(void) { found = PMIx_Error_string(PMIX_ERR_JOB_ABORTED); }
static void type_string(void) { found = PMIx_Data_type_string(PMIX_DATA_ARRAY); }
static void state_string(void) { found = PMIx_Proc_state_string(PMIX_PROC_STATE_TERMINATED); }
static void attribute_name(void) { found = PMIx_Get_attribute_name(PMIX_JOB_SIZE); }
static void attribute_string(void) { found = PMIx_Get_attribute_string("PMIX_JOB_SIZE"); }

static void regex(void) {
  char *short_;
  must(PMIx_generate_regex(hosts, &short_), "PMIx_generate_regex");
  free(short_);
}

static void ppn(void) {
  char *short_;
  must(PMIx_generate_ppn("0,1,2,3,4,5,6,7;8,9,10,11,12,13,14,15;16,17,18,19", &short_), "PMIx_generate_ppn");
  free(short_);
}

static void payload(void) {
  pmix_data_buffer_t first, second;
  memset(&first, 0, sizeof first);
  memset(&second, 0, sizeof second);
  pmix_byte_object_t payload = {large, 4096};
  must(PMIx_Data_embed(&first, &payload), "PMIx_Data_embed");
  must(PMIx_Data_copy_payload(&second, &first), "PMIx_Data_copy_payload");
  free(first.base_ptr);
  free(second.base_ptr);
}

static const struct {
  const char *row;
  void (*run)(void);
} rows[] = {
    {"pack 1 INT32", pack_number},
    {"pack 64 INT32", pack_numbers},
    {"pack 64 UINT64", pack_wide},
    {"pack 64 BYTE", pack_bytes},
    {"pack 1 MiB BYTE", pack_many_bytes},
    {"pack BYTE_OBJECT of 4 KiB", pack_object},
    {"pack STRING", pack_string},
    {"pack 20 STRING", pack_strings},
    {"pack PROC", pack_proc},
    {"pack VALUE of a string", pack_value},
    {"pack VALUE of 64 INT32", pack_array},
    {"pack 8 INFO", pack_infos},
    {"embed and copy 4 KiB", payload},
    {"load an INFO, a number", load_info},
    {"load an INFO, a string", load_string},
    {"xfer VALUE, a number", xfer_number},
    {"xfer VALUE, a string", xfer_string},
    {"xfer VALUE, 64 INT32", xfer_array},
    {"compare two VALUEs", compare},
    {"list of 8 INFO", list},
    {"copy PROC", copy},
    {"print INFO", print},
    {"print INT32", print_number},
    {"Error_string", error_string},
    {"Error_string, a late one", last_error_string},
    {"Data_type_string", type_string},
    {"Proc_state_string", state_string},
    {"Get_attribute_name", attribute_name},
    {"Get_attribute_string", attribute_string},
    {"generate_regex of 200 hosts", regex},
    {"generate_ppn", ppn},
};

static void prepare(void) {
  char *at = hosts;
  for (int i = 0; i < 200; i++) at += sprintf(at, "%snode%03d", i ? "," : "", i + i / 50);
  strcpy(proc.nspace, "slurm.pmix.1234.0");
  proc.rank = 17;
  for (int i = 0; i < NUMBERS; i++) elements[i] = i * 77;
  for (size_t i = 0; i < sizeof large; i++) large[i] = (char)i;
  for (int i = 0; i < ARGUMENTS; i++) arguments[i] = "--an=argument";
  bytes = malloc(sizeof large);
  numbers.type = PMIX_INT32;
  numbers.size = NUMBERS;
  numbers.array = elements;
  must(PMIx_Value_load(&number, &elements[3], PMIX_INT32), "PMIx_Value_load");
  must(PMIx_Value_load(&text, "a string of a usual length", PMIX_STRING), "PMIx_Value_load");
  must(PMIx_Value_load(&array, &numbers, PMIX_DATA_ARRAY), "PMIx_Value_load");
  for (int i = 0; i < 8; i++)
    must(PMIx_Info_load(&infos[i], "pmix.some.key", i % 2 ? (void *)"value" : &elements[i], i % 2 ? PMIX_STRING : PMIX_INT32),
         "PMIx_Info_load");
}

int main(int argc, char **argv) {
  int samples = argc > 1 ? atoi(argv[1]) : 100;
  pmix_proc_t me;
  pmix_status_t status = PMIx_Init(&me, NULL, 0);
  if (status != PMIX_SUCCESS && status != PMIX_ERR_UNREACH) die("PMIx_Init: %d", status);
  prepare();
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    if (argc > 2 && strcmp(argv[2], rows[row].row) != 0) continue;
    rows[row].run();
    for (int i = 0; i < samples; i++) {
      double start = now_us();
      for (int call = 0; call < BATCH; call++) rows[row].run();
      sample(rows[row].row, (now_us() - start) / BATCH, 0);
    }
  }
  PMIx_Finalize(NULL, 0);
  flush_samples();
  return 0;
}
