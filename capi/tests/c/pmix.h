/* What the test programs need of the public headers: written for them from the tables of structures and functions, so
 * that they test the binary interface and not somebody's macros. */
#ifndef INSTANTON_TEST_PMIX_H
#define INSTANTON_TEST_PMIX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>

typedef int pmix_status_t;
typedef char pmix_nspace_t[256];
typedef char pmix_key_t[512];
typedef uint32_t pmix_rank_t;
typedef uint16_t pmix_data_type_t;

typedef struct { pmix_nspace_t nspace; pmix_rank_t rank; } pmix_proc_t;
typedef struct { char *bytes; size_t size; } pmix_byte_object_t;
typedef struct { pmix_data_type_t type; size_t size; void *array; } pmix_data_array_t;
typedef struct { char *envar, *value; char separator; } pmix_envar_t;
typedef struct { uint8_t view; uint32_t *coord; size_t dims; } pmix_coord_t;
typedef struct { size_t fabric; char *uuid, *osname; pmix_coord_t *coordinates; size_t ncoords; } pmix_geometry_t;
typedef struct {
    pmix_data_type_t type;
    union {
        bool flag;
        uint8_t byte;
        char *string;
        size_t size;
        int integer;
        uint16_t uint16;
        int32_t int32;
        int64_t int64;
        uint32_t uint32;
        uint64_t uint64;
        float fval;
        double dval;
        struct timeval tv;
        pmix_status_t status;
        pmix_rank_t rank;
        pmix_proc_t *proc;
        pmix_nspace_t *nspace;
        pmix_byte_object_t bo;
        pmix_data_array_t *darray;
        pmix_envar_t envar;
        pmix_geometry_t *geometry;
        void *ptr;
    } data;
} pmix_value_t;
typedef struct { pmix_key_t key; uint32_t flags; pmix_value_t value; } pmix_info_t;
typedef struct { char *cmd, **argv, **env, *cwd; int maxprocs; pmix_info_t *info; size_t ninfo; } pmix_app_t;
typedef struct { char *base_ptr, *pack_ptr, *unpack_ptr; size_t bytes_allocated, bytes_used; } pmix_data_buffer_t;

enum {
    PMIX_UNDEF = 0, PMIX_BOOL = 1, PMIX_BYTE = 2, PMIX_STRING = 3, PMIX_SIZE = 4, PMIX_INT = 6, PMIX_INT32 = 9,
    PMIX_UINT16 = 13, PMIX_UINT32 = 14, PMIX_UINT64 = 15, PMIX_DOUBLE = 17, PMIX_TIMEVAL = 18, PMIX_VALUE = 21,
    PMIX_PROC = 22, PMIX_APP = 23, PMIX_INFO = 24, PMIX_BYTE_OBJECT = 27, PMIX_POINTER = 31, PMIX_DATA_ARRAY = 39,
    PMIX_PROC_RANK = 40, PMIX_ENVAR = 46, PMIX_REGEX = 49, PMIX_GEOMETRY = 53, PMIX_PROC_NSPACE = 60,
};
enum {
    PMIX_SUCCESS = 0, PMIX_ERR_UNKNOWN_DATA_TYPE = -16, PMIX_ERR_UNREACH = -25, PMIX_ERR_BAD_PARAM = -27,
    PMIX_ERR_INIT = -31, PMIX_ERR_NOT_FOUND = -46, PMIX_ERR_NOT_SUPPORTED = -47, PMIX_OPERATION_SUCCEEDED = -157, PMIX_ERR_LOST_CONNECTION = -61, PMIX_ERR_EMPTY = -60,
    PMIX_ERR_EXISTS = -11, PMIX_EVENT_ACTION_COMPLETE = -334, PMIX_MODEL_DECLARED = -147,
};
enum { PMIX_LOCAL = 1, PMIX_REMOTE = 2, PMIX_GLOBAL = 3, PMIX_INTERNAL = 4 };
enum { PMIX_RANGE_PROC_LOCAL = 7 };
#define PMIX_RANK_UNDEF UINT32_MAX
#define PMIX_RANK_WILDCARD (UINT32_MAX - 1)

typedef void (*pmix_op_cbfunc_t)(pmix_status_t, void *);
typedef void (*pmix_release_cbfunc_t)(void *);
typedef void (*pmix_info_cbfunc_t)(pmix_status_t, pmix_info_t *, size_t, void *, pmix_release_cbfunc_t, void *);
typedef void (*pmix_value_cbfunc_t)(pmix_status_t, pmix_value_t *, void *);
typedef void (*pmix_hdlr_reg_cbfunc_t)(pmix_status_t, size_t, void *);
typedef void (*pmix_event_notification_cbfunc_fn_t)(pmix_status_t, pmix_info_t *, size_t, pmix_op_cbfunc_t, void *,
                                                    void *);
typedef void (*pmix_notification_fn_t)(size_t, pmix_status_t, const pmix_proc_t *, pmix_info_t *, size_t, pmix_info_t *,
                                       size_t, pmix_event_notification_cbfunc_fn_t, void *);

pmix_status_t PMIx_Init(pmix_proc_t *, pmix_info_t *, size_t);
pmix_status_t PMIx_Finalize(const pmix_info_t *, size_t);
int PMIx_Initialized(void);
const char *PMIx_Get_version(void);
pmix_status_t PMIx_Put(uint8_t, const char *, pmix_value_t *);
pmix_status_t PMIx_Commit(void);
pmix_status_t PMIx_Get(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **);
pmix_status_t PMIx_Get_nb(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_cbfunc_t, void *);
pmix_status_t PMIx_Store_internal(const pmix_proc_t *, const char *, pmix_value_t *);
pmix_status_t PMIx_Fence(const pmix_proc_t *, size_t, const pmix_info_t *, size_t);
pmix_status_t PMIx_Fence_nb(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, pmix_op_cbfunc_t, void *);
pmix_status_t PMIx_Register_event_handler(pmix_status_t *, size_t, pmix_info_t *, size_t, pmix_notification_fn_t,
                                          pmix_hdlr_reg_cbfunc_t, void *);
pmix_status_t PMIx_Deregister_event_handler(size_t, pmix_op_cbfunc_t, void *);
pmix_status_t PMIx_Notify_event(pmix_status_t, const pmix_proc_t *, uint8_t, const pmix_info_t *, size_t,
                                pmix_op_cbfunc_t, void *);
pmix_status_t PMIx_Spawn(const pmix_info_t *, size_t, const pmix_app_t *, size_t, pmix_nspace_t);
pmix_status_t PMIx_Job_control_nb(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, pmix_info_cbfunc_t, void *);

typedef void (*pmix_modex_cbfunc_t)(pmix_status_t, const char *, size_t, void *, pmix_release_cbfunc_t, void *);
typedef void (*pmix_dmodex_response_fn_t)(pmix_status_t, char *, size_t, void *);
/* The 28 slots of every release; those that no test fills are left without their arguments. */
typedef struct {
    pmix_status_t (*client_connected)(const pmix_proc_t *, void *, pmix_op_cbfunc_t, void *);
    pmix_status_t (*client_finalized)(const pmix_proc_t *, void *, pmix_op_cbfunc_t, void *);
    pmix_status_t (*abort)(const pmix_proc_t *, void *, int, const char *, pmix_proc_t *, size_t, pmix_op_cbfunc_t,
                           void *);
    pmix_status_t (*fence_nb)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, char *, size_t,
                              pmix_modex_cbfunc_t, void *);
    void *rest[24];
} pmix_server_module_t;

pmix_status_t PMIx_server_init(pmix_server_module_t *, pmix_info_t *, size_t);
pmix_status_t PMIx_server_finalize(void);
pmix_status_t PMIx_server_register_nspace(const pmix_nspace_t, int, pmix_info_t *, size_t, pmix_op_cbfunc_t, void *);
void PMIx_server_deregister_nspace(const pmix_nspace_t, pmix_op_cbfunc_t, void *);
pmix_status_t PMIx_server_register_client(const pmix_proc_t *, uid_t, gid_t, void *, pmix_op_cbfunc_t, void *);
pmix_status_t PMIx_server_setup_fork(const pmix_proc_t *, char ***);
pmix_status_t PMIx_server_dmodex_request(const pmix_proc_t *, pmix_dmodex_response_fn_t, void *);
pmix_status_t PMIx_generate_regex(const char *, char **);
pmix_status_t PMIx_generate_ppn(const char *, char **);
pmix_status_t PMIx_Abort(int, const char *, pmix_proc_t *, size_t);
pmix_status_t PMIx_Resolve_peers(const char *, const pmix_nspace_t, pmix_proc_t **, size_t *);
pmix_status_t PMIx_Resolve_nodes(const pmix_nspace_t, char **);

pmix_status_t PMIx_Value_load(pmix_value_t *, const void *, pmix_data_type_t);
pmix_status_t PMIx_Value_unload(pmix_value_t *, void **, size_t *);
pmix_status_t PMIx_Value_xfer(pmix_value_t *, const pmix_value_t *);
unsigned PMIx_Value_compare(pmix_value_t *, pmix_value_t *);
unsigned PMIx_Value_true(const pmix_value_t *);
pmix_status_t PMIx_Value_get_number(const pmix_value_t *, void *, pmix_data_type_t);
pmix_status_t PMIx_Value_get_size(const pmix_value_t *, size_t *);
char *PMIx_Value_string(const pmix_value_t *);
void PMIx_Value_destruct(pmix_value_t *);
void PMIx_Value_free(pmix_value_t *, size_t);
pmix_value_t *PMIx_Value_create(size_t);
pmix_status_t PMIx_Data_copy(void **, void *, pmix_data_type_t);
pmix_status_t PMIx_Data_print(char **, char *, void *, pmix_data_type_t);

pmix_info_t *PMIx_Info_create(size_t);
void PMIx_Info_free(pmix_info_t *, size_t);
void PMIx_Info_destruct(pmix_info_t *);
pmix_status_t PMIx_Info_load(pmix_info_t *, const char *, const void *, pmix_data_type_t);
pmix_status_t PMIx_Info_xfer(pmix_info_t *, const pmix_info_t *);
void PMIx_Info_required(pmix_info_t *);
bool PMIx_Info_is_required(const pmix_info_t *);
void PMIx_Info_persistent(pmix_info_t *);
unsigned PMIx_Info_true(const pmix_info_t *);
char *PMIx_Info_string(const pmix_info_t *);
void *PMIx_Info_list_start(void);
pmix_status_t PMIx_Info_list_add(void *, const char *, const void *, pmix_data_type_t);
pmix_status_t PMIx_Info_list_add_unique(void *, const char *, const void *, pmix_data_type_t, bool);
pmix_status_t PMIx_Info_list_prepend(void *, const char *, const void *, pmix_data_type_t);
pmix_status_t PMIx_Info_list_insert(void *, pmix_info_t *);
pmix_status_t PMIx_Info_list_xfer(void *, const pmix_info_t *);
pmix_status_t PMIx_Info_list_convert(void *, pmix_data_array_t *);
pmix_info_t *PMIx_Info_list_get_info(void *, void *, void **);
size_t PMIx_Info_list_get_size(void *);
void PMIx_Info_list_release(void *);

bool PMIx_Check_key(const char *, const char *);
bool PMIx_Check_nspace(const char *, const char *);
bool PMIx_Check_procid(const pmix_proc_t *, const pmix_proc_t *);
bool PMIx_Check_reserved_key(const char *);
void PMIx_Load_key(pmix_key_t, const char *);
void PMIx_Load_nspace(pmix_nspace_t, const char *);
void PMIx_Proc_load(pmix_proc_t *, const char *, pmix_rank_t);
void PMIx_Proc_construct(pmix_proc_t *);
char *PMIx_Proc_string(const pmix_proc_t *);
void PMIx_Multicluster_nspace_construct(pmix_nspace_t, pmix_nspace_t, pmix_nspace_t);
void PMIx_Multicluster_nspace_parse(pmix_nspace_t, pmix_nspace_t, pmix_nspace_t);

pmix_status_t PMIx_Argv_append_nosize(char ***, const char *);
pmix_status_t PMIx_Argv_prepend_nosize(char ***, const char *);
pmix_status_t PMIx_Argv_append_unique_nosize(char ***, const char *);
char **PMIx_Argv_split(const char *, int);
char **PMIx_Argv_split_with_empty(const char *, int);
char *PMIx_Argv_join(char **, int);
char **PMIx_Argv_copy(char **);
int PMIx_Argv_count(char **);
void PMIx_Argv_free(char **);
pmix_status_t PMIx_Setenv(const char *, const char *, bool, char ***);

pmix_data_array_t *PMIx_Data_array_create(size_t, pmix_data_type_t);
void PMIx_Data_array_free(pmix_data_array_t *);
void PMIx_Data_array_destruct(pmix_data_array_t *);
pmix_app_t *PMIx_App_create(size_t);
void PMIx_App_free(pmix_app_t *, size_t);
void PMIx_App_info_create(pmix_app_t *, size_t);
void PMIx_Geometry_construct(pmix_geometry_t *);
void PMIx_Geometry_destruct(pmix_geometry_t *);
pmix_coord_t *PMIx_Coord_create(size_t, size_t);
pmix_data_buffer_t *PMIx_Data_buffer_create(void);
void PMIx_Data_buffer_release(pmix_data_buffer_t *);
pmix_status_t PMIx_Data_load(pmix_data_buffer_t *, pmix_byte_object_t *);
pmix_status_t PMIx_Data_unload(pmix_data_buffer_t *, pmix_byte_object_t *);
pmix_status_t PMIx_Data_copy_payload(pmix_data_buffer_t *, pmix_data_buffer_t *);

const char *PMIx_Error_string(pmix_status_t);
pmix_status_t PMIx_Error_code(const char *);
const char *PMIx_Data_type_string(pmix_data_type_t);
const char *PMIx_Scope_string(uint8_t);
char *PMIx_Info_directives_string(uint32_t);
const char *PMIx_Get_attribute_name(const char *);
const char *PMIx_Get_attribute_string(const char *);
pmix_status_t PMIx_Get_relative_locality(const char *, const char *, uint16_t *);

/* Says where a program failed, and ends it. */
#define CHECK(what)                                                                     \
    do {                                                                                \
        if (!(what)) {                                                                  \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what);    \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)
#define IS(status, call)                                                                                      \
    do {                                                                                                      \
        pmix_status_t is_ = (call);                                                                           \
        if (is_ != (status)) {                                                                                \
            fprintf(stderr, "%s:%d: %s gives %d (%s), not %d\n", __FILE__, __LINE__, #call, is_,              \
                    PMIx_Error_string(is_), (int)(status));                                                   \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)
#define OK(call) IS(PMIX_SUCCESS, call)
#endif
