/* Costs of helper functions in a program that nobody launched.
 *     helpers SAMPLES [ROW]       of all rows, or of one */
#include "bench.h"
#include <pmix.h>
#include <pmix_server.h>

enum { NUMBERS = 64, ARGUMENTS = 20 };

/* A sample takes so long at least: a thousand times what reading the clock does, which is part of it. */
static const double SAMPLE_US = 20;

/* Stock libraries up to 4.2.2 do not have these: their headers expand them in the program. */
#define EVERYWHERE PMIx_Init
#pragma weak PMIx_Argv_append_nosize
#pragma weak PMIx_Argv_free
#pragma weak PMIx_Argv_join
#pragma weak PMIx_Argv_split
#pragma weak PMIx_Check_nspace
#pragma weak PMIx_Info_create
#pragma weak PMIx_Info_free
#pragma weak PMIx_Info_true
#pragma weak PMIx_Load_key
#pragma weak PMIx_Proc_create
#pragma weak PMIx_Proc_free
#pragma weak PMIx_Setenv
#pragma weak PMIx_Value_get_number

static pmix_proc_t proc;
static pmix_info_t infos[8];
static pmix_value_t text, array, number, texts;
static pmix_data_array_t numbers, strings;
static int32_t elements[NUMBERS];
static char *bytes, *arguments[ARGUMENTS + 1], hosts[4000], long_hosts[10000], ranks[8000];
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
static void xfer_strings(void) { xfer(&texts); }

static void xfer_info(void) {
  pmix_info_t copy;
  must(PMIx_Info_xfer(&copy, &infos[1]), "PMIx_Info_xfer");
  PMIx_Value_destruct(&copy.value);
}

static void unload(pmix_value_t *from) {
  void *data = NULL;
  size_t size;
  must(PMIx_Value_unload(from, &data, &size), "PMIx_Value_unload");
  free(data);
}

static void unload_string(void) { unload(&text); }

static void unload_number(void) {
  int32_t place;
  void *data = &place;
  size_t size;
  must(PMIx_Value_unload(&number, &data, &size), "PMIx_Value_unload");
}

static void load_proc(void) {
  pmix_value_t value;
  must(PMIx_Value_load(&value, &proc, PMIX_PROC), "PMIx_Value_load");
  PMIx_Value_destruct(&value);
}

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

static void list_copies(void) {
  void *list = PMIx_Info_list_start();
  pmix_data_array_t all;
  for (int i = 0; i < 8; i++) must(PMIx_Info_list_xfer(list, &infos[i]), "PMIx_Info_list_xfer");
  must(PMIx_Info_list_convert(list, &all), "PMIx_Info_list_convert");
  PMIx_Info_list_release(list);
  PMIx_Data_array_destruct(&all);
}

static void print(void) {
  char *printed = PMIx_Info_string(&infos[1]);
  free(printed);
}

static void print_value(void) {
  char *printed = PMIx_Value_string(&text);
  free(printed);
}

static void print_as(void *element, pmix_data_type_t type) {
  char *printed;
  must(PMIx_Data_print(&printed, NULL, element, type), "PMIx_Data_print");
  free(printed);
}

static void print_number(void) { print_as(elements, PMIX_INT32); }
static void print_wide(void) { print_as(&(uint64_t){123456789012345}, PMIX_UINT64); }
static void print_real(void) { print_as(&(double){1234.5678}, PMIX_DOUBLE); }
static void print_flag(void) { print_as(&(bool){true}, PMIX_BOOL); }
static void print_status(void) { print_as(&(pmix_status_t){PMIX_ERR_TIMEOUT}, PMIX_STATUS); }
static void print_time(void) { print_as(&(struct timeval){5, 70}, PMIX_TIMEVAL); }
static void print_proc(void) { print_as(&proc, PMIX_PROC); }
static void print_string(void) { print_as("a string of a usual length", PMIX_STRING); }
static void print_numbers(void) { print_as(&numbers, PMIX_DATA_ARRAY); }

static void copy(void) {
  void *copied;
  must(PMIx_Data_copy(&copied, &proc, PMIX_PROC), "PMIx_Data_copy");
  free(copied);
}

static void copy_string(void) {
  void *copied;
  must(PMIx_Data_copy(&copied, "a string of a usual length", PMIX_STRING), "PMIx_Data_copy");
  free(copied);
}

static void copy_info(void) {
  pmix_info_t *copied;
  must(PMIx_Data_copy((void **)&copied, &infos[1], PMIX_INFO), "PMIx_Data_copy");
  PMIx_Value_destruct(&copied->value);
  free(copied);
}

static void copy_value(void) {
  pmix_value_t *copied;
  must(PMIx_Data_copy((void **)&copied, &text, PMIX_VALUE), "PMIx_Data_copy");
  PMIx_Value_destruct(copied);
  free(copied);
}

static const void *volatile found;

static void error_string(void) { found = PMIx_Error_string(PMIX_ERR_NOT_FOUND); }
static void last_error_string(void) { found = PMIx_Error_string(PMIX_ERR_JOB_ABORTED); }
static void type_string(void) { found = PMIx_Data_type_string(PMIX_DATA_ARRAY); }
static void state_string(void) { found = PMIx_Proc_state_string(PMIX_PROC_STATE_TERMINATED); }
static void scope_string(void) { found = PMIx_Scope_string(PMIX_GLOBAL); }
static void range_string(void) { found = PMIx_Data_range_string(PMIX_RANGE_NAMESPACE); }
static void channel_string(void) { found = PMIx_IOF_channel_string(PMIX_FWD_STDOUT_CHANNEL); }
static void device_string(void) { found = PMIx_Device_type_string(PMIX_DEVTYPE_GPU); }
static void initialized(void) { found = (void *)(size_t)PMIx_Initialized(); }

static void directives(void) {
  char *printed = PMIx_Info_directives_string(PMIX_INFO_REQD);
  free(printed);
}

static void attribute_name(void) { found = PMIx_Get_attribute_name(PMIX_JOB_SIZE); }
static void attribute_string(void) { found = PMIx_Get_attribute_string("PMIX_JOB_SIZE"); }

static void shorten(char *list) {
  char *short_;
  must(PMIx_generate_regex(list, &short_), "PMIx_generate_regex");
  free(short_);
}

static void regex(void) { shorten(hosts); }
static void long_regex(void) { shorten(long_hosts); }
static void odd_regex(void) { shorten("login,alpha,beta,gamma,delta,storage,gateway,epsilon"); }

static void shorten_ranks(char *list) {
  char *short_;
  must(PMIx_generate_ppn(list, &short_), "PMIx_generate_ppn");
  free(short_);
}

static void ppn(void) { shorten_ranks("0,1,2,3,4,5,6,7;8,9,10,11,12,13,14,15;16,17,18,19"); }
static void many_ppn(void) { shorten_ranks(ranks); }

static void argv_split(void) {
  char **argv = PMIx_Argv_split("one,two,three,four,five,six,seven,eight", ',');
  PMIx_Argv_free(argv);
}

static void argv_append(void) {
  char **argv = NULL;
  for (int i = 0; i < 4; i++) must(PMIx_Argv_append_nosize(&argv, arguments[i]), "PMIx_Argv_append_nosize");
  PMIx_Argv_free(argv);
}

static void argv_join(void) {
  char *joined = PMIx_Argv_join(arguments, ' ');
  free(joined);
}

static void set_env(void) {
  char **env = NULL;
  must(PMIx_Setenv("NAME", "value", true, &env), "PMIx_Setenv");
  must(PMIx_Setenv("OTHER", "value", true, &env), "PMIx_Setenv");
  must(PMIx_Setenv("NAME", "other", true, &env), "PMIx_Setenv");
  PMIx_Argv_free(env);
}

static void create_infos(void) {
  pmix_info_t *new = PMIx_Info_create(4);
  PMIx_Info_free(new, 4);
}

static void create_procs(void) {
  pmix_proc_t *new = PMIx_Proc_create(4);
  PMIx_Proc_free(new, 4);
}

static void check_nspace(void) { found = (void *)(size_t)PMIx_Check_nspace(proc.nspace, "slurm.pmix.1234.0"); }
static void load_key(void) { PMIx_Load_key(infos[2].key, "pmix.some.key"); }
static void info_true(void) { found = (void *)(size_t)PMIx_Info_true(&infos[0]); }

static void get_number(void) {
  uint64_t wide;
  must(PMIx_Value_get_number(&number, &wide, PMIX_UINT64), "PMIx_Value_get_number");
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
  /* A function that this needs and not every library has. */
  void *needs;
} rows[] = {
    {"pack 1 INT32", pack_number, EVERYWHERE},
    {"pack 64 INT32", pack_numbers, EVERYWHERE},
    {"pack 64 UINT64", pack_wide, EVERYWHERE},
    {"pack 64 BYTE", pack_bytes, EVERYWHERE},
    {"pack 1 MiB BYTE", pack_many_bytes, EVERYWHERE},
    {"pack BYTE_OBJECT of 4 KiB", pack_object, EVERYWHERE},
    {"pack STRING", pack_string, EVERYWHERE},
    {"pack 20 STRING", pack_strings, EVERYWHERE},
    {"pack PROC", pack_proc, EVERYWHERE},
    {"pack VALUE of a string", pack_value, EVERYWHERE},
    {"pack VALUE of 64 INT32", pack_array, EVERYWHERE},
    {"pack 8 INFO", pack_infos, EVERYWHERE},
    {"embed and copy 4 KiB", payload, EVERYWHERE},
    {"load an INFO, a number", load_info, EVERYWHERE},
    {"load an INFO, a string", load_string, EVERYWHERE},
    {"xfer VALUE, a number", xfer_number, EVERYWHERE},
    {"xfer VALUE, a string", xfer_string, EVERYWHERE},
    {"xfer VALUE, 64 INT32", xfer_array, EVERYWHERE},
    {"xfer VALUE, 20 STRING", xfer_strings, EVERYWHERE},
    {"xfer INFO, a string", xfer_info, EVERYWHERE},
    {"unload VALUE, a number", unload_number, EVERYWHERE},
    {"unload VALUE, a string", unload_string, EVERYWHERE},
    {"load and destruct a VALUE, PROC", load_proc, EVERYWHERE},
    {"compare two VALUEs", compare, EVERYWHERE},
    {"list of 8 INFO", list, EVERYWHERE},
    {"list of 8 copied INFO", list_copies, EVERYWHERE},
    {"copy PROC", copy, EVERYWHERE},
    {"copy STRING", copy_string, EVERYWHERE},
    {"copy VALUE of a string", copy_value, EVERYWHERE},
    {"copy INFO", copy_info, EVERYWHERE},
    {"print INFO", print, EVERYWHERE},
    {"print INT32", print_number, EVERYWHERE},
    {"print VALUE of a string", print_value, EVERYWHERE},
    {"print UINT64", print_wide, EVERYWHERE},
    {"print DOUBLE", print_real, EVERYWHERE},
    {"print BOOL", print_flag, EVERYWHERE},
    {"print STATUS", print_status, EVERYWHERE},
    {"print TIMEVAL", print_time, EVERYWHERE},
    {"print PROC", print_proc, EVERYWHERE},
    {"print STRING", print_string, EVERYWHERE},
    {"print 64 INT32", print_numbers, EVERYWHERE},
    {"Error_string", error_string, EVERYWHERE},
    {"Error_string, a late one", last_error_string, EVERYWHERE},
    {"Data_type_string", type_string, EVERYWHERE},
    {"Proc_state_string", state_string, EVERYWHERE},
    {"Scope_string", scope_string, EVERYWHERE},
    {"Data_range_string", range_string, EVERYWHERE},
    {"IOF_channel_string", channel_string, EVERYWHERE},
    {"Device_type_string", device_string, EVERYWHERE},
    {"Info_directives_string", directives, EVERYWHERE},
    {"Initialized", initialized, EVERYWHERE},
    {"Get_attribute_name", attribute_name, EVERYWHERE},
    {"Get_attribute_string", attribute_string, EVERYWHERE},
    {"generate_regex of 200 hosts", regex, EVERYWHERE},
    {"generate_regex of 200 long names", long_regex, EVERYWHERE},
    {"generate_regex of 8 words", odd_regex, EVERYWHERE},
    {"generate_ppn", ppn, EVERYWHERE},
    {"generate_ppn of 64 nodes", many_ppn, EVERYWHERE},
    {"Argv_split, 8 words", argv_split, PMIx_Argv_split},
    {"Argv_append, 4 words", argv_append, PMIx_Argv_append_nosize},
    {"Argv_join, 20 words", argv_join, PMIx_Argv_join},
    {"Setenv, 2 names", set_env, PMIx_Setenv},
    {"create and free 4 INFO", create_infos, PMIx_Info_create},
    {"create and free 4 PROC", create_procs, PMIx_Proc_create},
    {"Check_nspace", check_nspace, PMIx_Check_nspace},
    {"Load_key", load_key, PMIx_Load_key},
    {"Info_true", info_true, PMIx_Info_true},
    {"Value_get_number", get_number, PMIx_Value_get_number},
};

static void prepare(void) {
  char *at = hosts;
  for (int i = 0; i < 200; i++) at += sprintf(at, "%snode%03d", i ? "," : "", i + i / 50);
  at = long_hosts;
  for (int i = 0; i < 200; i++) at += sprintf(at, "%srack%02d-node%04d.cluster.example", i ? "," : "", i / 64, i);
  at = ranks;
  for (int i = 0; i < 64 * 16; i++) at += sprintf(at, "%s%d", !i ? "" : i % 16 ? "," : ";", i);
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
  strings.type = PMIX_STRING;
  strings.size = ARGUMENTS;
  strings.array = arguments;
  must(PMIx_Value_load(&texts, &strings, PMIX_DATA_ARRAY), "PMIx_Value_load");
  must(PMIx_Value_load(&array, &numbers, PMIX_DATA_ARRAY), "PMIx_Value_load");
  for (int i = 0; i < 8; i++)
    must(PMIx_Info_load(&infos[i], "pmix.some.key", i % 2 ? (void *)"value" : &elements[i], i % 2 ? PMIX_STRING : PMIX_INT32),
         "PMIx_Info_load");
}

static double time_of(void (*run)(void), int calls) {
  double start = now_us();
  for (int call = 0; call < calls; call++) run();
  return now_us() - start;
}

int main(int argc, char **argv) {
  int samples = argc > 1 ? atoi(argv[1]) : 100;
  pmix_proc_t me;
  pmix_status_t status = PMIx_Init(&me, NULL, 0);
  if (status != PMIX_SUCCESS && status != PMIX_ERR_UNREACH) die("PMIx_Init: %d", status);
  prepare();
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    if (!rows[row].needs || (argc > 2 && strcmp(argv[2], rows[row].row) != 0)) continue;
    int calls = 64;
    while (time_of(rows[row].run, calls) < SAMPLE_US) calls *= 2;
    for (int i = 0; i < samples; i++) sample(rows[row].row, time_of(rows[row].run, calls) / calls, 0);
  }
  PMIx_Finalize(NULL, 0);
  flush_samples();
  return 0;
}
