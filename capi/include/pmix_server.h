/* pmix_server.h: what hosts call, and what they are called for.
 * Written from tables by a generator: change those, not this file. */
#ifndef PMIx_SERVER_API_H
#define PMIx_SERVER_API_H

#include "pmix_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Somebody has connected to a socket. */
typedef void (*pmix_connection_cbfunc_t)(int incoming_sd, void *cbdata);

/* The answer of PMIx_server_dmodex_request. */
typedef void (*pmix_dmodex_response_fn_t)(pmix_status_t status, char *data, size_t sz, void *cbdata);

/* The answer of PMIx_server_setup_application. */
typedef void (*pmix_setup_application_cbfunc_t)(pmix_status_t status, pmix_info_t info[], size_t ninfo,
    void *provided_cbdata, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* The host's answer to a tool: the identifier it gets. */
typedef void (*pmix_tool_connection_cbfunc_t)(pmix_status_t status, pmix_proc_t *proc, void *cbdata);

/* A process asks to end processes. */
typedef pmix_status_t (*pmix_server_abort_fn_t)(const pmix_proc_t *proc, void *server_object, int status,
    const char msg[], pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process asks for resources. */
typedef pmix_status_t (*pmix_server_alloc_fn_t)(const pmix_proc_t *client, pmix_alloc_directive_t directive,
    const pmix_info_t data[], size_t ndata, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* A process has connected, and said some things about itself. */
typedef pmix_status_t (*pmix_server_client_connected2_fn_t)(const pmix_proc_t *proc, void *server_object,
    pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process has connected. */
typedef pmix_status_t (*pmix_server_client_connected_fn_t)(const pmix_proc_t *proc, void *server_object,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process has finalized. */
typedef pmix_status_t (*pmix_server_client_finalized_fn_t)(const pmix_proc_t *proc, void *server_object,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* All local processes among those given want to be connected. */
typedef pmix_status_t (*pmix_server_connect_fn_t)(const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Events are no longer wanted. */
typedef pmix_status_t (*pmix_server_deregister_events_fn_t)(pmix_status_t *codes, size_t ncodes,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* All local processes among those given want to be disconnected. */
typedef pmix_status_t (*pmix_server_disconnect_fn_t)(const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process wants what a process of another node has committed. */
typedef pmix_status_t (*pmix_server_dmodex_req_fn_t)(const pmix_proc_t *proc, const pmix_info_t info[],
    size_t ninfo, pmix_modex_cbfunc_t cbfunc, void *cbdata);

/* A process asks about a fabric. */
typedef pmix_status_t (*pmix_server_fabric_fn_t)(const pmix_proc_t *requestor, pmix_fabric_operation_t op,
    const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* All local processes among those given have come to a fence, with this data. */
typedef pmix_status_t (*pmix_server_fencenb_fn_t)(const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t info[], size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t cbfunc,
    void *cbdata);

/* A process wants a credential. */
typedef pmix_status_t (*pmix_server_get_cred_fn_t)(const pmix_proc_t *proc, const pmix_info_t directives[],
    size_t ndirs, pmix_credential_cbfunc_t cbfunc, void *cbdata);

/* All local processes among those given want an operation on a group. */
typedef pmix_status_t (*pmix_server_grp_fn_t)(pmix_group_operation_t op, char grp[],
    const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[], size_t ndirs,
    pmix_info_cbfunc_t cbfunc, void *cbdata);

/* A process wants the output of others, or wants it no longer. */
typedef pmix_status_t (*pmix_server_iof_fn_t)(const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t directives[], size_t ndirs, pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc,
    void *cbdata);

/* A process wants to control others. */
typedef pmix_status_t (*pmix_server_job_control_fn_t)(const pmix_proc_t *requestor,
    const pmix_proc_t targets[], size_t ntargets, const pmix_info_t directives[], size_t ndirs,
    pmix_info_cbfunc_t cbfunc, void *cbdata);

/* The host is to watch a socket for connections. */
typedef pmix_status_t (*pmix_server_listener_fn_t)(int listening_sd, pmix_connection_cbfunc_t cbfunc,
    void *cbdata);

/* A process wants something logged, and the answer says whether it will be. */
typedef pmix_status_t (*pmix_server_log2_fn_t)(const pmix_proc_t *client, const pmix_info_t data[],
    size_t ndata, const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process wants something logged. */
typedef void (*pmix_server_log_fn_t)(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata,
    const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process wants published data. */
typedef pmix_status_t (*pmix_server_lookup_fn_t)(const pmix_proc_t *proc, char **keys,
    const pmix_info_t info[], size_t ninfo, pmix_lookup_cbfunc_t cbfunc, void *cbdata);

/* A process wants to be watched over. */
typedef pmix_status_t (*pmix_server_monitor_fn_t)(const pmix_proc_t *requestor, const pmix_info_t *monitor,
    pmix_status_t error, const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc,
    void *cbdata);

/* A process tells others about an event. */
typedef pmix_status_t (*pmix_server_notify_event_fn_t)(pmix_status_t code, const pmix_proc_t *source,
    pmix_data_range_t range, pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process publishes data. */
typedef pmix_status_t (*pmix_server_publish_fn_t)(const pmix_proc_t *proc, const pmix_info_t info[],
    size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process asks about the system. */
typedef pmix_status_t (*pmix_server_query_fn_t)(pmix_proc_t *proct, pmix_query_t *queries, size_t nqueries,
    pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Events are wanted. */
typedef pmix_status_t (*pmix_server_register_events_fn_t)(pmix_status_t *codes, size_t ncodes,
    const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process defines, changes or deletes a block of resources. */
typedef pmix_status_t (*pmix_server_resource_block_fn_t)(const pmix_proc_t *requestor,
    pmix_resource_block_directive_t directive, const char *block, const pmix_resource_unit_t *units,
    size_t nunit, const pmix_info_t *info, size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process wants to control a session. */
typedef pmix_status_t (*pmix_server_session_control_fn_t)(const pmix_proc_t *requestor, uint32_t sessionID,
    const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* A process starts a job. */
typedef pmix_status_t (*pmix_server_spawn_fn_t)(const pmix_proc_t *proc, const pmix_info_t job_info[],
    size_t ninfo, const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata);

/* A process sends input to others. */
typedef pmix_status_t (*pmix_server_stdin_fn_t)(const pmix_proc_t *source, const pmix_proc_t targets[],
    size_t ntargets, const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A tool wants to connect, and the answer says whether it may. */
typedef pmix_status_t (*pmix_server_tool_connection2_fn_t)(pmix_info_t *info, size_t ninfo,
    pmix_tool_connection_cbfunc_t cbfunc, void *cbdata);

/* A tool wants to connect. */
typedef void (*pmix_server_tool_connection_fn_t)(pmix_info_t *info, size_t ninfo,
    pmix_tool_connection_cbfunc_t cbfunc, void *cbdata);

/* A process takes back what it has published. */
typedef pmix_status_t (*pmix_server_unpublish_fn_t)(const pmix_proc_t *proc, char **keys,
    const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* A process wants a credential checked. */
typedef pmix_status_t (*pmix_server_validate_cred_fn_t)(const pmix_proc_t *proc,
    const pmix_byte_object_t *cred, const pmix_info_t directives[], size_t ndirs,
    pmix_validation_cbfunc_t cbfunc, void *cbdata);

/* The functions of a host that the server library calls, NULL where the host has none. Zero all of it first. */
struct pmix_server_module_4_0_0_t {
    pmix_server_client_connected_fn_t client_connected;
    pmix_server_client_finalized_fn_t client_finalized;
    pmix_server_abort_fn_t abort;
    pmix_server_fencenb_fn_t fence_nb;
    pmix_server_dmodex_req_fn_t direct_modex;
    pmix_server_publish_fn_t publish;
    pmix_server_lookup_fn_t lookup;
    pmix_server_unpublish_fn_t unpublish;
    pmix_server_spawn_fn_t spawn;
    pmix_server_connect_fn_t connect;
    pmix_server_disconnect_fn_t disconnect;
    pmix_server_register_events_fn_t register_events;
    pmix_server_deregister_events_fn_t deregister_events;
    pmix_server_listener_fn_t listener;
    pmix_server_notify_event_fn_t notify_event;
    pmix_server_query_fn_t query;
    pmix_server_tool_connection_fn_t tool_connected;
    pmix_server_log_fn_t log;
    pmix_server_alloc_fn_t allocate;
    pmix_server_job_control_fn_t job_control;
    pmix_server_monitor_fn_t monitor;
    pmix_server_get_cred_fn_t get_credential;
    pmix_server_validate_cred_fn_t validate_credential;
    pmix_server_iof_fn_t iof_pull;
    pmix_server_stdin_fn_t push_stdin;
    pmix_server_grp_fn_t group;
    pmix_server_fabric_fn_t fabric;
    pmix_server_client_connected2_fn_t client_connected2;
    pmix_server_tool_connection2_fn_t tool_connected2;
    pmix_server_log2_fn_t log2;
    pmix_server_session_control_fn_t session_control;
    pmix_server_resource_block_fn_t resource_block;
};
typedef struct pmix_server_module_4_0_0_t pmix_server_module_t;

/* Says which attributes the host supports for a function. */
PMIX_EXPORT pmix_status_t PMIx_Register_attributes(char *function, char *attrs[]);

/* A map expression for a list. */
PMIX_EXPORT pmix_status_t PMIx_generate_regex2(const char *input, pmix_info_t info[], size_t ninfo,
    pmix_regex2_t *regex);

/* The list that a map expression stands for. */
PMIX_EXPORT pmix_status_t PMIx_parse_regex2(const pmix_regex2_t *regex, pmix_info_t info[], size_t ninfo,
    char **output);

/* Hands output of a process to those who asked for it. */
PMIX_EXPORT pmix_status_t PMIx_server_IOF_deliver(const pmix_proc_t *source, pmix_iof_channel_t channel,
    const pmix_byte_object_t *bo, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
    void *cbdata);

/* Has those who send to a channel pause or go on. */
PMIX_EXPORT pmix_status_t PMIx_server_IOF_flow_control(const pmix_proc_t *source, pmix_iof_channel_t channel,
    bool xoff, const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Finds the hardware of the node; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_server_collect_inventory(pmix_info_t directives[], size_t ndirs,
    pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Packs what is known about the jobs of some processes. */
PMIX_EXPORT pmix_status_t PMIx_server_collect_job_info(pmix_proc_t *procs, size_t nprocs,
    pmix_data_buffer_t *dbuf);

/* Gives a set of processes a name. */
PMIX_EXPORT pmix_status_t PMIx_server_define_process_set(const pmix_proc_t *members, size_t nmembers,
    const char *pset_name);

/* Forgets a set of processes. */
PMIX_EXPORT pmix_status_t PMIx_server_delete_process_set(char *pset_name);

/* Hands over what hardware other nodes have. */
PMIX_EXPORT pmix_status_t PMIx_server_deliver_inventory(pmix_info_t info[], size_t ninfo,
    pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Forgets a local process. */
PMIX_EXPORT void PMIx_server_deregister_client(const pmix_proc_t *proc, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Forgets a job and everything about it. */
PMIX_EXPORT void PMIx_server_deregister_nspace(const pmix_nspace_t nspace, pmix_op_cbfunc_t cbfunc,
    void *cbdata);

/* Forgets information that was registered for all jobs. */
PMIX_EXPORT pmix_status_t PMIx_server_deregister_resources(pmix_info_t info[], size_t ninfo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Forgets a session; jobs that are registered keep what they have of it. */
PMIX_EXPORT void PMIx_server_deregister_session(uint32_t sessionID, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Fetches the data that a local process has committed, for another server; it comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_server_dmodex_request(const pmix_proc_t *proc,
    pmix_dmodex_response_fn_t cbfunc, void *cbdata);

/* Ends the server. */
PMIX_EXPORT pmix_status_t PMIx_server_finalize(void);

/* The cpuset that a string describes. */
PMIX_EXPORT pmix_status_t PMIx_server_generate_cpuset(const char *cpuset_string, pmix_cpuset_t *cpuset);

/* The string that describes a cpuset; the caller frees it. */
PMIX_EXPORT pmix_status_t PMIx_server_generate_cpuset_string(const pmix_cpuset_t *cpuset,
    char **cpuset_string);

/* The string that describes where a cpuset is; the caller frees it. */
PMIX_EXPORT pmix_status_t PMIx_server_generate_locality_string(const pmix_cpuset_t *cpuset, char **locality);

/* Makes the process a server; the module holds the functions that it calls. */
PMIX_EXPORT pmix_status_t PMIx_server_init(pmix_server_module_t *module, pmix_info_t info[], size_t ninfo);

/* Announces a local process, before it is started. */
PMIX_EXPORT pmix_status_t PMIx_server_register_client(const pmix_proc_t *proc, uid_t uid, gid_t gid,
    void *server_object, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Announces a job and what its processes may get to know about it. */
PMIX_EXPORT pmix_status_t PMIx_server_register_nspace(const pmix_nspace_t nspace, int nlocalprocs,
    pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Registers information for all jobs. */
PMIX_EXPORT pmix_status_t PMIx_server_register_resources(pmix_info_t info[], size_t ninfo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Announces a session, for the jobs that will be registered as part of it. */
PMIX_EXPORT pmix_status_t PMIx_server_register_session(uint32_t sessionID, pmix_info_t info[], size_t ninfo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Collects the data that the other nodes need before a job starts there; it comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_server_setup_application(const pmix_nspace_t nspace, pmix_info_t info[],
    size_t ninfo, pmix_setup_application_cbfunc_t cbfunc, void *cbdata);

/* Adds to an environment what a local process needs to find the server. */
PMIX_EXPORT pmix_status_t PMIx_server_setup_fork(const pmix_proc_t *proc, char ***env);

/* Prepares the node for a job. */
PMIX_EXPORT pmix_status_t PMIx_server_setup_local_support(const pmix_nspace_t nspace, pmix_info_t info[],
    size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

#ifdef __cplusplus
}
#endif

#endif
