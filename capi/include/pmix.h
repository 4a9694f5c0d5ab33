/* pmix.h: what every process may call.
 * Written from tables by a generator: change those, not this file. */
#ifndef PMIx_H
#define PMIx_H

#include "pmix_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Has the host end the given processes (all of the job for none) with a status and a message. */
PMIX_EXPORT pmix_status_t PMIx_Abort(int status, const char msg[], pmix_proc_t procs[], size_t nprocs);

/* The text for an allocation directive. */
PMIX_EXPORT const char *PMIx_Alloc_directive_string(pmix_alloc_directive_t directive);

/* The text for what becomes of an allocation's children. */
PMIX_EXPORT const char *PMIx_Alloc_inheritance_string(pmix_alloc_inheritance_t inheritance);

/* Asks the scheduler for, or gives back, resources, and waits for the answer. */
PMIX_EXPORT pmix_status_t PMIx_Allocation_request(pmix_alloc_directive_t directive, pmix_info_t *info,
    size_t ninfo, pmix_info_t **results, size_t *nresults);

/* Asks the scheduler for, or gives back, resources; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Allocation_request_nb(pmix_alloc_directive_t directive, pmix_info_t *info,
    size_t ninfo, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Shows an application; the caller frees the text. */
PMIX_EXPORT char *PMIx_App_string(const pmix_app_t *app);

/* Hands what was Put to the local server. */
PMIX_EXPORT pmix_status_t PMIx_Commit(void);

/* Computes the distances of a topology's devices from a cpuset. */
PMIX_EXPORT pmix_status_t PMIx_Compute_distances(pmix_topology_t *topo, pmix_cpuset_t *cpuset,
    pmix_info_t info[], size_t ninfo, pmix_device_distance_t *distances[], size_t *ndist);

/* Computes the distances of a topology's devices from a cpuset; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Compute_distances_nb(pmix_topology_t *topo, pmix_cpuset_t *cpuset,
    pmix_info_t info[], size_t ninfo, pmix_device_dist_cbfunc_t cbfunc, void *cbdata);

/* Declares processes connected, and waits until all of them have. */
PMIX_EXPORT pmix_status_t PMIx_Connect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
    size_t ninfo);

/* Declares processes connected; the callback is called once all of them have. */
PMIX_EXPORT pmix_status_t PMIx_Connect_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
    size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Compresses bytes where that makes them fewer; false where it does not. */
PMIX_EXPORT bool PMIx_Data_compress(const uint8_t *inbytes, size_t size, uint8_t **outbytes, size_t *nbytes);

/* Copies one object of a type. */
PMIX_EXPORT pmix_status_t PMIx_Data_copy(void **dest, void *src, pmix_data_type_t type);

/* Adds what is not yet unpacked of one data buffer to another. */
PMIX_EXPORT pmix_status_t PMIx_Data_copy_payload(pmix_data_buffer_t *dest, pmix_data_buffer_t *src);

/* Undoes PMIx_Data_compress. */
PMIX_EXPORT bool PMIx_Data_decompress(const uint8_t *inbytes, size_t size, uint8_t **outbytes, size_t *nbytes);

/* Puts a copy of packed bytes into a data buffer. */
PMIX_EXPORT pmix_status_t PMIx_Data_embed(pmix_data_buffer_t *buffer, const pmix_byte_object_t *payload);

/* Hands packed bytes over to a data buffer. */
PMIX_EXPORT pmix_status_t PMIx_Data_load(pmix_data_buffer_t *buffer, pmix_byte_object_t *payload);

/* Adds values to a data buffer in the encoding that the target understands. */
PMIX_EXPORT pmix_status_t PMIx_Data_pack(const pmix_proc_t *target, pmix_data_buffer_t *buffer, void *src,
    int32_t num_vals, pmix_data_type_t type);

/* Shows one object of a type; the caller frees the text. */
PMIX_EXPORT pmix_status_t PMIx_Data_print(char **output, char *prefix, void *src, pmix_data_type_t type);

/* The text for a range. */
PMIX_EXPORT const char *PMIx_Data_range_string(pmix_data_range_t range);

/* The text for a data type. */
PMIX_EXPORT const char *PMIx_Data_type_string(pmix_data_type_t type);

/* Takes the packed bytes out of a data buffer. */
PMIX_EXPORT pmix_status_t PMIx_Data_unload(pmix_data_buffer_t *buffer, pmix_byte_object_t *payload);

/* Takes values out of a data buffer that the source packed. */
PMIX_EXPORT pmix_status_t PMIx_Data_unpack(const pmix_proc_t *source, pmix_data_buffer_t *buffer, void *dest,
    int32_t *max_num_values, pmix_data_type_t type);

/* Removes an event handler. */
PMIX_EXPORT pmix_status_t PMIx_Deregister_event_handler(size_t evhdlr_ref, pmix_op_cbfunc_t cbfunc,
    void *cbdata);

/* The text for a type of device. */
PMIX_EXPORT const char *PMIx_Device_type_string(pmix_device_type_t type);

/* Ends a connection of processes, and waits until all of them have. */
PMIX_EXPORT pmix_status_t PMIx_Disconnect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
    size_t ninfo);

/* Ends a connection of processes; the callback is called once all of them have. */
PMIX_EXPORT pmix_status_t PMIx_Disconnect_nb(const pmix_proc_t ranges[], size_t nprocs,
    const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* The status code that a name stands for. */
PMIX_EXPORT pmix_status_t PMIx_Error_code(const char *errname);

/* The text for a status code. */
PMIX_EXPORT const char *PMIx_Error_string(pmix_status_t status);

/* Forgets a fabric that was registered. */
PMIX_EXPORT pmix_status_t PMIx_Fabric_deregister(pmix_fabric_t *fabric);

/* Forgets a fabric that was registered; the callback is called when it is done. */
PMIX_EXPORT pmix_status_t PMIx_Fabric_deregister_nb(pmix_fabric_t *fabric, pmix_op_cbfunc_t cbfunc,
    void *cbdata);

/* Asks for access to information about a fabric. */
PMIX_EXPORT pmix_status_t PMIx_Fabric_register(pmix_fabric_t *fabric, const pmix_info_t directives[],
    size_t ndirs);

/* Asks for access to information about a fabric; the callback is called when it is there. */
PMIX_EXPORT pmix_status_t PMIx_Fabric_register_nb(pmix_fabric_t *fabric, const pmix_info_t directives[],
    size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Brings the information about a fabric up to date. */
PMIX_EXPORT pmix_status_t PMIx_Fabric_update(pmix_fabric_t *fabric);

/* Brings the information about a fabric up to date; the callback is called when it is done. */
PMIX_EXPORT pmix_status_t PMIx_Fabric_update_nb(pmix_fabric_t *fabric, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Waits until all the given processes (the whole job for none) have come here. */
PMIX_EXPORT pmix_status_t PMIx_Fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
    size_t ninfo);

/* Calls the callback once all the given processes (the whole job for none) have come here. */
PMIX_EXPORT pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
    size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Leaves the server; the last of as many calls as there were to PMIx_Init does it. */
PMIX_EXPORT pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo);

/* The value that a process has under a key; the caller frees it. */
PMIX_EXPORT pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
    size_t ninfo, pmix_value_t **val);

/* The name, as in PMIX_RANK, of the attribute with a key. */
PMIX_EXPORT const char *PMIx_Get_attribute_name(const char *attrstring);

/* The key of the attribute with a name, as in PMIX_RANK. */
PMIX_EXPORT const char *PMIx_Get_attribute_string(const char *attribute);

/* The processing units that the calling process or thread is bound to. */
PMIX_EXPORT pmix_status_t PMIx_Get_cpuset(pmix_cpuset_t *cpuset, pmix_bind_envelope_t ref);

/* A credential that proves who the caller is. */
PMIX_EXPORT pmix_status_t PMIx_Get_credential(const pmix_info_t info[], size_t ninfo,
    pmix_byte_object_t *credential);

/* A credential that proves who the caller is; it comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Get_credential_nb(const pmix_info_t info[], size_t ninfo,
    pmix_credential_cbfunc_t cbfunc, void *cbdata);

/* The value that a process has under a key; it comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
    size_t ninfo, pmix_value_cbfunc_t cbfunc, void *cbdata);

/* Finds the parts of a node that two processes on it share, from their locality strings. */
PMIX_EXPORT pmix_status_t PMIx_Get_relative_locality(const char *locality1, const char *locality2,
    pmix_locality_t *locality);

/* The name and version of the library. */
PMIX_EXPORT const char *PMIx_Get_version(void);

/* Makes a group of processes, and waits until all of them have asked for it. */
PMIX_EXPORT pmix_status_t PMIx_Group_construct(const char grp[], const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t directives[], size_t ndirs, pmix_info_t **results, size_t *nresults);

/* Makes a group of processes; the callback is called once all of them have asked for it. */
PMIX_EXPORT pmix_status_t PMIx_Group_construct_nb(const char grp[], const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t info[], size_t ninfo, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Ends a group, and waits until all its members have asked for it. */
PMIX_EXPORT pmix_status_t PMIx_Group_destruct(const char grp[], const pmix_info_t info[], size_t ninfo);

/* Ends a group; the callback is called once all its members have asked for it. */
PMIX_EXPORT pmix_status_t PMIx_Group_destruct_nb(const char grp[], const pmix_info_t info[], size_t ninfo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Invites processes into a group, and waits for their answers. */
PMIX_EXPORT pmix_status_t PMIx_Group_invite(const char grp[], const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t info[], size_t ninfo, pmix_info_t **results, size_t *nresult);

/* Invites processes into a group; the callback is called once they have answered. */
PMIX_EXPORT pmix_status_t PMIx_Group_invite_nb(const char grp[], const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t info[], size_t ninfo, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Accepts or declines an invitation into a group, and waits for the group. */
PMIX_EXPORT pmix_status_t PMIx_Group_join(const char grp[], const pmix_proc_t *leader, pmix_group_opt_t opt,
    const pmix_info_t info[], size_t ninfo, pmix_info_t **results, size_t *nresult);

/* Accepts or declines an invitation into a group; the callback is called with the group. */
PMIX_EXPORT pmix_status_t PMIx_Group_join_nb(const char grp[], const pmix_proc_t *leader,
    pmix_group_opt_t opt, const pmix_info_t info[], size_t ninfo, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Leaves a group. */
PMIX_EXPORT pmix_status_t PMIx_Group_leave(const char grp[], const pmix_info_t info[], size_t ninfo);

/* Leaves a group; the callback is called when the others have been told. */
PMIX_EXPORT pmix_status_t PMIx_Group_leave_nb(const char grp[], const pmix_info_t info[], size_t ninfo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* The text for an operation on groups. */
PMIX_EXPORT const char *PMIx_Group_operation_string(pmix_group_operation_t op);

/* Tells the server that this process is alive. */
PMIX_EXPORT void PMIx_Heartbeat(void);

/* The text for a set of channels. */
PMIX_EXPORT const char *PMIx_IOF_channel_string(pmix_iof_channel_t channel);

/* Shows the flags of an info; the caller frees the text. */
PMIX_EXPORT char *PMIx_Info_directives_string(pmix_info_directives_t directives);

/* Returns the bytes that an info takes when it is packed. */
PMIX_EXPORT pmix_status_t PMIx_Info_get_size(const pmix_info_t *val, size_t *size);

/* Shows an info; the caller frees the text. */
PMIX_EXPORT char *PMIx_Info_string(const pmix_info_t *info);

/* Connects the process to its server and says which process it is. */
PMIX_EXPORT pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);

/* Returns whether the process is connected to its server. */
PMIX_EXPORT int PMIx_Initialized(void);

/* Asks to pause, signal, end or clean up processes, and waits for the answer. */
PMIX_EXPORT pmix_status_t PMIx_Job_control(const pmix_proc_t targets[], size_t ntargets,
    const pmix_info_t directives[], size_t ndirs, pmix_info_t **results, size_t *nresults);

/* Asks to pause, signal, end or clean up processes; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Job_control_nb(const pmix_proc_t targets[], size_t ntargets,
    const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* The text for a state of a job. */
PMIX_EXPORT const char *PMIx_Job_state_string(pmix_job_state_t state);

/* The text for a state of a link. */
PMIX_EXPORT const char *PMIx_Link_state_string(pmix_link_state_t state);

/* The topology of the node. */
PMIX_EXPORT pmix_status_t PMIx_Load_topology(pmix_topology_t *topo);

/* Has the host log data, and waits until it is done. */
PMIX_EXPORT pmix_status_t PMIx_Log(const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
    size_t ndirs);

/* Has the host log data; the callback is called when it is done. */
PMIX_EXPORT pmix_status_t PMIx_Log_nb(const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
    size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Fills in what others have published under some keys. */
PMIX_EXPORT pmix_status_t PMIx_Lookup(pmix_pdata_t data[], size_t ndata, const pmix_info_t info[],
    size_t ninfo);

/* Looks up data that others have published under some keys; it comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Lookup_nb(char **keys, const pmix_info_t info[], size_t ninfo,
    pmix_lookup_cbfunc_t cbfunc, void *cbdata);

/* Tells others, or the caller's own handlers, about an event. */
PMIX_EXPORT pmix_status_t PMIx_Notify_event(pmix_status_t status, const pmix_proc_t *source,
    pmix_data_range_t range, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* The cpuset that a string describes. */
PMIX_EXPORT pmix_status_t PMIx_Parse_cpuset_string(const char *cpuset_string, pmix_cpuset_t *cpuset);

/* The text for how long published data lasts. */
PMIX_EXPORT const char *PMIx_Persistence_string(pmix_persistence_t persist);

/* The text for a state of a process. */
PMIX_EXPORT const char *PMIx_Proc_state_string(pmix_proc_state_t state);

/* Shows a process identifier; the caller frees the text. */
PMIX_EXPORT char *PMIx_Proc_string(const pmix_proc_t *proc);

/* Has the server watch over the process, and waits for the answer. */
PMIX_EXPORT pmix_status_t PMIx_Process_monitor(const pmix_info_t *monitor, pmix_status_t error,
    const pmix_info_t directives[], size_t ndirs, pmix_info_t **results, size_t *nresults);

/* Has the server watch over the process; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Process_monitor_nb(const pmix_info_t *monitor, pmix_status_t error,
    const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Gives the library time to work, where the program drives it. */
PMIX_EXPORT void PMIx_Progress(void);

/* Stops the threads that work for the library. */
PMIX_EXPORT void PMIx_Progress_thread_stop(const pmix_info_t *info, size_t ninfo);

/* Publishes data for others to look up. */
PMIX_EXPORT pmix_status_t PMIx_Publish(const pmix_info_t info[], size_t ninfo);

/* Publishes data for others to look up; the callback is called when it is done. */
PMIX_EXPORT pmix_status_t PMIx_Publish_nb(const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
    void *cbdata);

/* Sets a value of this process, which others get after a Commit. */
PMIX_EXPORT pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *val);

/* Asks about the system, and waits for the answer. */
PMIX_EXPORT pmix_status_t PMIx_Query_info(pmix_query_t queries[], size_t nqueries, pmix_info_t **results,
    size_t *nresults);

/* Asks about the system; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Query_info_nb(pmix_query_t queries[], size_t nqueries,
    pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Adds a handler for events; it returns its number, or a status below zero, without a callback. */
PMIX_EXPORT pmix_status_t PMIx_Register_event_handler(pmix_status_t codes[], size_t ncodes,
    pmix_info_t info[], size_t ninfo, pmix_notification_fn_t evhdlr, pmix_hdlr_reg_cbfunc_t cbfunc,
    void *cbdata);

/* The nodes, comma by comma, that processes of a namespace are on. */
PMIX_EXPORT pmix_status_t PMIx_Resolve_nodes(const pmix_nspace_t nspace, char **nodelist);

/* The processes of a namespace that are on a node. */
PMIX_EXPORT pmix_status_t PMIx_Resolve_peers(const char *nodename, const pmix_nspace_t nspace,
    pmix_proc_t **procs, size_t *nprocs);

/* Defines, changes or deletes a block of resources, and waits until it is done. */
PMIX_EXPORT pmix_status_t PMIx_Resource_block(pmix_resource_block_directive_t directive, char *block,
    const pmix_resource_unit_t *res, size_t nres, const pmix_info_t *info, size_t ninfo);

/* The text for what is to be done to a block of resources. */
PMIX_EXPORT const char *PMIx_Resource_block_directive_string(pmix_resource_block_directive_t directive);

/* Defines, changes or deletes a block of resources; the callback is called when it is done. */
PMIX_EXPORT pmix_status_t PMIx_Resource_block_nb(pmix_resource_block_directive_t directive, char *block,
    const pmix_resource_unit_t *res, size_t nres, const pmix_info_t *info, size_t ninfo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Shows a resource unit; the caller frees the text. */
PMIX_EXPORT char *PMIx_Resource_unit_string(const pmix_resource_unit_t *unit);

/* The text for a scope. */
PMIX_EXPORT const char *PMIx_Scope_string(pmix_scope_t scope);

/* Controls a session; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Session_control(uint32_t sessionID, const pmix_info_t directives[],
    size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata);

/* Starts a new job, and waits until it runs. */
PMIX_EXPORT pmix_status_t PMIx_Spawn(const pmix_info_t job_info[], size_t ninfo, const pmix_app_t apps[],
    size_t napps, pmix_nspace_t nspace);

/* Starts a new job; the callback is called when it runs. */
PMIX_EXPORT pmix_status_t PMIx_Spawn_nb(const pmix_info_t job_info[], size_t ninfo, const pmix_app_t apps[],
    size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata);

/* Stores a value for this process alone to get. */
PMIX_EXPORT pmix_status_t PMIx_Store_internal(const pmix_proc_t *proc, const char key[], pmix_value_t *val);

/* Takes back what this process has published under some keys. */
PMIX_EXPORT pmix_status_t PMIx_Unpublish(char **keys, const pmix_info_t info[], size_t ninfo);

/* Takes back what this process has published under some keys; the callback is called when it is done. */
PMIX_EXPORT pmix_status_t PMIx_Unpublish_nb(char **keys, const pmix_info_t info[], size_t ninfo,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Asks whether a credential is good, and whose it is. */
PMIX_EXPORT pmix_status_t PMIx_Validate_credential(const pmix_byte_object_t *cred, const pmix_info_t info[],
    size_t ninfo, pmix_info_t **results, size_t *nresults);

/* Asks whether a credential is good, and whose it is; the answer comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_Validate_credential_nb(const pmix_byte_object_t *cred,
    const pmix_info_t info[], size_t ninfo, pmix_validation_cbfunc_t cbfunc, void *cbdata);

/* The text for the outcome of a comparison. */
PMIX_EXPORT const char *PMIx_Value_comparison_string(pmix_value_cmp_t cmp);

/* Returns the bytes that a value takes when it is packed. */
PMIX_EXPORT pmix_status_t PMIx_Value_get_size(const pmix_value_t *val, size_t *size);

/* Shows a value; the caller frees the text. */
PMIX_EXPORT char *PMIx_Value_string(const pmix_value_t *value);

#ifdef __cplusplus
}
#endif

#endif
