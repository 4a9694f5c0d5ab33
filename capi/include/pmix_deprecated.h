/* pmix_deprecated.h: helpers for the types, functions and macros.
 * Written from tables by a generator: change those, not this file. */
#ifndef PMIx_DEPRECATED_H
#define PMIx_DEPRECATED_H

#include "pmix_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an application empty, whatever it held before. */
PMIX_EXPORT void PMIx_App_construct(pmix_app_t *p);

/* Allocates applications and makes them empty; NULL for none. */
PMIX_EXPORT pmix_app_t *PMIx_App_create(size_t n);

/* Frees what an application holds, but not its own memory. */
PMIX_EXPORT void PMIx_App_destruct(pmix_app_t *p);

/* Frees applications: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_App_free(pmix_app_t *p, size_t n);

/* Gives an application an array of so many infos. */
PMIX_EXPORT void PMIx_App_info_create(pmix_app_t *p, size_t n);

/* Frees an application: what it holds and its own memory. */
PMIX_EXPORT void PMIx_App_release(pmix_app_t *p);

/* Adds a copy of a string at the end of an array of strings. */
PMIX_EXPORT pmix_status_t PMIx_Argv_append_nosize(char ***argv, const char *arg);

/* Adds a copy of a string at the end of an array of strings, unless it is in there. */
PMIX_EXPORT pmix_status_t PMIx_Argv_append_unique_nosize(char ***argv, const char *arg);

/* Copies an array of strings. */
PMIX_EXPORT char **PMIx_Argv_copy(char **argv);

/* Returns the number of strings in an array. */
PMIX_EXPORT int PMIx_Argv_count(char **a);

/* Frees an array of strings. */
PMIX_EXPORT void PMIx_Argv_free(char **argv);

/* One string of all those of an array, with a delimiter between them. */
PMIX_EXPORT char *PMIx_Argv_join(char **argv, int delimiter);

/* Adds a copy of a string at the start of an array of strings. */
PMIX_EXPORT pmix_status_t PMIx_Argv_prepend_nosize(char ***argv, const char *arg);

/* Cuts a string at every delimiter, and leaves empty pieces out. */
PMIX_EXPORT char **PMIx_Argv_split(const char *src_string, int delimiter);

/* Cuts a string at every delimiter, and leaves empty pieces out or not. */
PMIX_EXPORT char **PMIx_Argv_split_inter(const char *src_string, int delimiter, bool include_empty);

/* Cuts a string at every delimiter, and keeps empty pieces. */
PMIX_EXPORT char **PMIx_Argv_split_with_empty(const char *src_string, int delimiter);

/* Makes a byte object empty, whatever it held before. */
PMIX_EXPORT void PMIx_Byte_object_construct(pmix_byte_object_t *b);

/* Allocates byte objects and makes them empty; NULL for none. */
PMIX_EXPORT pmix_byte_object_t *PMIx_Byte_object_create(size_t n);

/* Frees what a byte object holds, but not its own memory. */
PMIX_EXPORT void PMIx_Byte_object_destruct(pmix_byte_object_t *g);

/* Frees byte objects: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Byte_object_free(pmix_byte_object_t *g, size_t n);

/* Hands bytes over to a byte object. */
PMIX_EXPORT void PMIx_Byte_object_load(pmix_byte_object_t *b, char *d, size_t sz);

/* Returns whether two keys are equal. */
PMIX_EXPORT bool PMIx_Check_key(const char *key, const char *str);

/* Returns whether two namespaces are equal; an empty one equals any. */
PMIX_EXPORT bool PMIx_Check_nspace(const char *key1, const char *key2);

/* Returns whether two namespaces are equal; an empty one equals none. */
PMIX_EXPORT bool PMIx_Check_nspace_strict(const char *key1, const char *key2);

/* Returns whether two process identifiers are equal, wildcards considered. */
PMIX_EXPORT bool PMIx_Check_procid(const pmix_proc_t *a, const pmix_proc_t *b);

/* Returns whether two process identifiers are equal; a wildcard equals itself alone. */
PMIX_EXPORT bool PMIx_Check_procid_strict(const pmix_proc_t *a, const pmix_proc_t *b);

/* Returns whether two ranks are equal, wildcards considered. */
PMIX_EXPORT bool PMIx_Check_rank(pmix_rank_t a, pmix_rank_t b);

/* Returns whether a key is one of those that are reserved for the Standard. */
PMIX_EXPORT bool PMIx_Check_reserved_key(const char *key);

/* Makes a coordinate empty, whatever it held before. */
PMIX_EXPORT void PMIx_Coord_construct(pmix_coord_t *m);

/* Allocates coordinates of so many dimensions and makes them empty; NULL for none. */
PMIX_EXPORT pmix_coord_t *PMIx_Coord_create(size_t dims, size_t number);

/* Frees what a coordinate holds, but not its own memory. */
PMIX_EXPORT void PMIx_Coord_destruct(pmix_coord_t *m);

/* Frees coordinates of so many dimensions: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Coord_free(pmix_coord_t *m, size_t number);

/* Makes a cpuset empty, whatever it held before. */
PMIX_EXPORT void PMIx_Cpuset_construct(pmix_cpuset_t *cpuset);

/* Allocates cpusets and makes them empty; NULL for none. */
PMIX_EXPORT pmix_cpuset_t *PMIx_Cpuset_create(size_t n);

/* Frees what a cpuset holds, but not its own memory. */
PMIX_EXPORT void PMIx_Cpuset_destruct(pmix_cpuset_t *cpuset);

/* Frees cpusets: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Cpuset_free(pmix_cpuset_t *c, size_t n);

/* Gives a data array memory for so many elements of a type. */
PMIX_EXPORT void PMIx_Data_array_construct(pmix_data_array_t *p, size_t num, pmix_data_type_t type);

/* Allocates a data array with memory for so many elements of a type. */
PMIX_EXPORT pmix_data_array_t *PMIx_Data_array_create(size_t n, pmix_data_type_t type);

/* Frees what a data array holds, but not its own memory. */
PMIX_EXPORT void PMIx_Data_array_destruct(pmix_data_array_t *d);

/* Frees a data array: its elements and its own memory. */
PMIX_EXPORT void PMIx_Data_array_free(pmix_data_array_t *p);

/* Makes a data array of a type, without elements. */
PMIX_EXPORT void PMIx_Data_array_init(pmix_data_array_t *p, pmix_data_type_t type);

/* Makes a data buffer empty, whatever it held before. */
PMIX_EXPORT void PMIx_Data_buffer_construct(pmix_data_buffer_t *b);

/* Allocates an empty data buffer. */
PMIX_EXPORT pmix_data_buffer_t *PMIx_Data_buffer_create(void);

/* Frees what a data buffer holds, but not its own memory. */
PMIX_EXPORT void PMIx_Data_buffer_destruct(pmix_data_buffer_t *b);

/* Hands bytes over to a data buffer, to be unpacked. */
PMIX_EXPORT void PMIx_Data_buffer_load(pmix_data_buffer_t *b, char *bytes, size_t sz);

/* Frees a data buffer: what it holds and its own memory. */
PMIX_EXPORT void PMIx_Data_buffer_release(pmix_data_buffer_t *b);

/* Takes the bytes out of a data buffer. */
PMIX_EXPORT void PMIx_Data_buffer_unload(pmix_data_buffer_t *b, char **bytes, size_t *sz);

/* Makes a device empty, whatever it held before. */
PMIX_EXPORT void PMIx_Device_construct(pmix_device_t *d);

/* Allocates devices and makes them empty; NULL for none. */
PMIX_EXPORT pmix_device_t *PMIx_Device_create(size_t n);

/* Frees what a device holds, but not its own memory. */
PMIX_EXPORT void PMIx_Device_destruct(pmix_device_t *d);

/* Makes a device distance empty, whatever it held before. */
PMIX_EXPORT void PMIx_Device_distance_construct(pmix_device_distance_t *d);

/* Allocates device distances and makes them empty; NULL for none. */
PMIX_EXPORT pmix_device_distance_t *PMIx_Device_distance_create(size_t n);

/* Frees what a device distance holds, but not its own memory. */
PMIX_EXPORT void PMIx_Device_distance_destruct(pmix_device_distance_t *d);

/* Frees device distances: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Device_distance_free(pmix_device_distance_t *d, size_t n);

/* Frees devices: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Device_free(pmix_device_t *d, size_t n);

/* Makes disk statistics empty, whatever it held before. */
PMIX_EXPORT void PMIx_Disk_stats_construct(pmix_disk_stats_t *p);

/* Allocates disk statistics and makes them empty; NULL for none. */
PMIX_EXPORT pmix_disk_stats_t *PMIx_Disk_stats_create(size_t n);

/* Frees what disk statistics holds, but not its own memory. */
PMIX_EXPORT void PMIx_Disk_stats_destruct(pmix_disk_stats_t *p);

/* Frees disk statistics: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Disk_stats_free(pmix_disk_stats_t *p, size_t n);

/* Makes an endpoint empty, whatever it held before. */
PMIX_EXPORT void PMIx_Endpoint_construct(pmix_endpoint_t *e);

/* Allocates endpoints and makes them empty; NULL for none. */
PMIX_EXPORT pmix_endpoint_t *PMIx_Endpoint_create(size_t n);

/* Frees what an endpoint holds, but not its own memory. */
PMIX_EXPORT void PMIx_Endpoint_destruct(pmix_endpoint_t *e);

/* Frees endpoints: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Endpoint_free(pmix_endpoint_t *e, size_t n);

/* Makes an environment variable empty, whatever it held before. */
PMIX_EXPORT void PMIx_Envar_construct(pmix_envar_t *e);

/* Allocates environment variables and makes them empty; NULL for none. */
PMIX_EXPORT pmix_envar_t *PMIx_Envar_create(size_t n);

/* Frees what an environment variable holds, but not its own memory. */
PMIX_EXPORT void PMIx_Envar_destruct(pmix_envar_t *e);

/* Frees environment variables: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Envar_free(pmix_envar_t *e, size_t n);

/* Fills an environment variable with copies of a name and a value. */
PMIX_EXPORT void PMIx_Envar_load(pmix_envar_t *e, char *var, char *value, char separator);

/* Makes a fabric empty, whatever it held before. */
PMIX_EXPORT void PMIx_Fabric_construct(pmix_fabric_t *p);

/* Makes a geometry empty, whatever it held before. */
PMIX_EXPORT void PMIx_Geometry_construct(pmix_geometry_t *g);

/* Allocates geometries and makes them empty; NULL for none. */
PMIX_EXPORT pmix_geometry_t *PMIx_Geometry_create(size_t n);

/* Frees what a geometry holds, but not its own memory. */
PMIX_EXPORT void PMIx_Geometry_destruct(pmix_geometry_t *g);

/* Frees geometries: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Geometry_free(pmix_geometry_t *g, size_t n);

/* Makes an info empty, whatever it held before. */
PMIX_EXPORT void PMIx_Info_construct(pmix_info_t *p);

/* Allocates infos and makes them empty; NULL for none. */
PMIX_EXPORT pmix_info_t *PMIx_Info_create(size_t n);

/* Frees what an info holds, but not its own memory. */
PMIX_EXPORT void PMIx_Info_destruct(pmix_info_t *p);

/* Frees infos: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Info_free(pmix_info_t *p, size_t n);

/* Returns whether an info is marked as the last of its array. */
PMIX_EXPORT bool PMIx_Info_is_end(const pmix_info_t *p);

/* Returns whether an info may be ignored. */
PMIX_EXPORT bool PMIx_Info_is_optional(const pmix_info_t *p);

/* Returns whether an info's value is not its own to free. */
PMIX_EXPORT bool PMIx_Info_is_persistent(const pmix_info_t *p);

/* Returns whether an info qualifies the key that it goes with. */
PMIX_EXPORT bool PMIx_Info_is_qualifier(const pmix_info_t *p);

/* Returns whether an info must be honoured. */
PMIX_EXPORT bool PMIx_Info_is_required(const pmix_info_t *p);

/* Adds an info at the end of a list. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_add(void *ptr, const char *key, const void *value,
    pmix_data_type_t type);

/* Adds an info to a list, or replaces (or keeps) the one with the same key. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_add_unique(void *ptr, const char *key, const void *value,
    pmix_data_type_t type, bool overwrite);

/* Adds an info with a copy of a value at the end of a list. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_add_value(void *ptr, const char *key, const pmix_value_t *value);

/* Adds an info with a copy of a value to a list, or replaces (or keeps) the one with the same key. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_add_value_unique(void *ptr, const char *key,
    const pmix_value_t *value, bool overwrite);

/* Makes a data array of the infos of a list. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_convert(void *ptr, pmix_data_array_t *par);

/* The info of a list behind another one (the first for NULL), and a handle for the next call. */
PMIX_EXPORT pmix_info_t *PMIx_Info_list_get_info(void *ptr, void *prev, void **next);

/* Returns the number of infos in a list. */
PMIX_EXPORT size_t PMIx_Info_list_get_size(void *ptr);

/* Adds an info to a list, and leaves what it points to where it is. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_insert(void *ptr, pmix_info_t *info);

/* Adds an info at the start of a list. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_prepend(void *ptr, const char *key, const void *value,
    pmix_data_type_t type);

/* Frees a list. */
PMIX_EXPORT void PMIx_Info_list_release(void *ptr);

/* Begins a list of infos. */
PMIX_EXPORT void *PMIx_Info_list_start(void);

/* Adds a copy of an info at the end of a list. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_xfer(void *ptr, const pmix_info_t *info);

/* Adds a copy of an info to a list, or replaces (or keeps) the one with the same key. */
PMIX_EXPORT pmix_status_t PMIx_Info_list_xfer_unique(void *ptr, const pmix_info_t *info, bool overwrite);

/* Fills an info with a key and a copy of some data. */
PMIX_EXPORT pmix_status_t PMIx_Info_load(pmix_info_t *info, const char *key, const void *data,
    pmix_data_type_t type);

/* Marks an info as one that may be ignored. */
PMIX_EXPORT void PMIx_Info_optional(pmix_info_t *p);

/* Marks an info as one whose value is not its own to free. */
PMIX_EXPORT void PMIx_Info_persistent(pmix_info_t *p);

/* Marks an info as honoured. */
PMIX_EXPORT void PMIx_Info_processed(pmix_info_t *p);

/* Marks an info as one that qualifies a key. */
PMIX_EXPORT void PMIx_Info_qualifier(pmix_info_t *p);

/* Marks an info as one that must be honoured. */
PMIX_EXPORT void PMIx_Info_required(pmix_info_t *p);

/* Marks an info as the last of its array. */
PMIX_EXPORT void PMIx_Info_set_end(pmix_info_t *p);

/* Returns whether the value of an info is true, false, or neither. */
PMIX_EXPORT pmix_boolean_t PMIx_Info_true(const pmix_info_t *p);

/* Returns whether an info is marked as honoured. */
PMIX_EXPORT bool PMIx_Info_was_processed(const pmix_info_t *p);

/* Copies an info. */
PMIX_EXPORT pmix_status_t PMIx_Info_xfer(pmix_info_t *dest, const pmix_info_t *src);

/* Copies a key, cut to its greatest length. */
PMIX_EXPORT void PMIx_Load_key(pmix_key_t key, const char *src);

/* Copies a namespace, cut to its greatest length. */
PMIX_EXPORT void PMIx_Load_nspace(pmix_nspace_t nspace, const char *str);

/* Fills a process identifier. */
PMIX_EXPORT void PMIx_Load_procid(pmix_proc_t *p, const char *ns, pmix_rank_t rk);

/* Makes the namespace of a job on another cluster. */
PMIX_EXPORT void PMIx_Multicluster_nspace_construct(pmix_nspace_t target, pmix_nspace_t cluster,
    pmix_nspace_t nspace);

/* Takes such a namespace apart. */
PMIX_EXPORT void PMIx_Multicluster_nspace_parse(pmix_nspace_t target, pmix_nspace_t cluster,
    pmix_nspace_t nspace);

/* Makes network statistics empty, whatever it held before. */
PMIX_EXPORT void PMIx_Net_stats_construct(pmix_net_stats_t *p);

/* Allocates network statistics and makes them empty; NULL for none. */
PMIX_EXPORT pmix_net_stats_t *PMIx_Net_stats_create(size_t n);

/* Frees what network statistics holds, but not its own memory. */
PMIX_EXPORT void PMIx_Net_stats_destruct(pmix_net_stats_t *p);

/* Frees network statistics: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Net_stats_free(pmix_net_stats_t *p, size_t n);

/* Makes a node and process id empty, whatever it held before. */
PMIX_EXPORT void PMIx_Node_pid_construct(pmix_node_pid_t *d);

/* Allocates node and process ids and makes them empty; NULL for none. */
PMIX_EXPORT pmix_node_pid_t *PMIx_Node_pid_create(size_t n);

/* Frees what a node and process id holds, but not its own memory. */
PMIX_EXPORT void PMIx_Node_pid_destruct(pmix_node_pid_t *d);

/* Frees node and process ids: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Node_pid_free(pmix_node_pid_t *d, size_t n);

/* Makes node statistics empty, whatever it held before. */
PMIX_EXPORT void PMIx_Node_stats_construct(pmix_node_stats_t *p);

/* Allocates node statistics and makes them empty; NULL for none. */
PMIX_EXPORT pmix_node_stats_t *PMIx_Node_stats_create(size_t n);

/* Frees what node statistics holds, but not its own memory. */
PMIX_EXPORT void PMIx_Node_stats_destruct(pmix_node_stats_t *p);

/* Frees node statistics: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Node_stats_free(pmix_node_stats_t *p, size_t n);

/* Returns whether a namespace is empty. */
PMIX_EXPORT bool PMIx_Nspace_invalid(const char *nspace);

/* Makes published data empty, whatever it held before. */
PMIX_EXPORT void PMIx_Pdata_construct(pmix_pdata_t *p);

/* Allocates items of published data and makes them empty; NULL for none. */
PMIX_EXPORT pmix_pdata_t *PMIx_Pdata_create(size_t n);

/* Frees what published data holds, but not its own memory. */
PMIX_EXPORT void PMIx_Pdata_destruct(pmix_pdata_t *p);

/* Frees items of published data: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Pdata_free(pmix_pdata_t *p, size_t n);

/* Fills published data with a process, a key and a copy of some data. */
PMIX_EXPORT void PMIx_Pdata_load(pmix_pdata_t *dest, const pmix_proc_t *p, const char *key, const void *data,
    pmix_data_type_t type);

/* Copies published data. */
PMIX_EXPORT void PMIx_Pdata_xfer(pmix_pdata_t *dest, pmix_pdata_t *src);

/* Makes a process identifier empty, whatever it held before. */
PMIX_EXPORT void PMIx_Proc_construct(pmix_proc_t *p);

/* Allocates process identifiers and makes them empty; NULL for none. */
PMIX_EXPORT pmix_proc_t *PMIx_Proc_create(size_t n);

/* Frees what a process identifier holds, but not its own memory. */
PMIX_EXPORT void PMIx_Proc_destruct(pmix_proc_t *p);

/* Frees process identifiers: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Proc_free(pmix_proc_t *p, size_t n);

/* Makes process information empty, whatever it held before. */
PMIX_EXPORT void PMIx_Proc_info_construct(pmix_proc_info_t *p);

/* Allocates process informations and makes them empty; NULL for none. */
PMIX_EXPORT pmix_proc_info_t *PMIx_Proc_info_create(size_t n);

/* Frees what process information holds, but not its own memory. */
PMIX_EXPORT void PMIx_Proc_info_destruct(pmix_proc_info_t *p);

/* Frees process informations: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Proc_info_free(pmix_proc_info_t *p, size_t n);

/* Fills a process identifier. */
PMIX_EXPORT void PMIx_Proc_load(pmix_proc_t *p, const char *nspace, pmix_rank_t rank);

/* Makes process statistics empty, whatever it held before. */
PMIX_EXPORT void PMIx_Proc_stats_construct(pmix_proc_stats_t *p);

/* Allocates process statistics and makes them empty; NULL for none. */
PMIX_EXPORT pmix_proc_stats_t *PMIx_Proc_stats_create(size_t n);

/* Frees what process statistics holds, but not its own memory. */
PMIX_EXPORT void PMIx_Proc_stats_destruct(pmix_proc_stats_t *p);

/* Frees process statistics: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Proc_stats_free(pmix_proc_stats_t *p, size_t n);

/* Returns whether a process identifier has no namespace or an invalid rank. */
PMIX_EXPORT bool PMIx_Procid_invalid(const pmix_proc_t *p);

/* Makes a query empty, whatever it held before. */
PMIX_EXPORT void PMIx_Query_construct(pmix_query_t *p);

/* Allocates queries and makes them empty; NULL for none. */
PMIX_EXPORT pmix_query_t *PMIx_Query_create(size_t n);

/* Frees what a query holds, but not its own memory. */
PMIX_EXPORT void PMIx_Query_destruct(pmix_query_t *p);

/* Frees queries: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Query_free(pmix_query_t *p, size_t n);

/* Gives a query an array of so many qualifiers. */
PMIX_EXPORT void PMIx_Query_qualifiers_create(pmix_query_t *p, size_t n);

/* Frees a query: what it holds and its own memory. */
PMIX_EXPORT void PMIx_Query_release(pmix_query_t *p);

/* Returns whether a rank is that of a process and no special value. */
PMIX_EXPORT bool PMIx_Rank_valid(pmix_rank_t a);

/* Makes an attribute description empty, whatever it held before. */
PMIX_EXPORT void PMIx_Regattr_construct(pmix_regattr_t *p);

/* Allocates attribute descriptions and makes them empty; NULL for none. */
PMIX_EXPORT pmix_regattr_t *PMIx_Regattr_create(size_t n);

/* Frees what an attribute description holds, but not its own memory. */
PMIX_EXPORT void PMIx_Regattr_destruct(pmix_regattr_t *p);

/* Frees attribute descriptions: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Regattr_free(pmix_regattr_t *p, size_t n);

/* Fills an attribute description. */
PMIX_EXPORT void PMIx_Regattr_load(pmix_regattr_t *info, const char *name, const char *key,
    pmix_data_type_t type, const char *description);

/* Copies an attribute description. */
PMIX_EXPORT void PMIx_Regattr_xfer(pmix_regattr_t *dest, const pmix_regattr_t *src);

/* Makes a map expression empty, whatever it held before. */
PMIX_EXPORT void PMIx_Regex2_construct(pmix_regex2_t *d);

/* Allocates map expressions and makes them empty; NULL for none. */
PMIX_EXPORT pmix_regex2_t *PMIx_Regex2_create(size_t n);

/* Frees what a map expression holds, but not its own memory. */
PMIX_EXPORT void PMIx_Regex2_destruct(pmix_regex2_t *d);

/* Frees map expressions: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Regex2_free(pmix_regex2_t *d, size_t n);

/* Makes a resource unit empty, whatever it held before. */
PMIX_EXPORT void PMIx_Resource_unit_construct(pmix_resource_unit_t *d);

/* Allocates resource units and makes them empty; NULL for none. */
PMIX_EXPORT pmix_resource_unit_t *PMIx_Resource_unit_create(size_t n);

/* Frees what a resource unit holds, but not its own memory. */
PMIX_EXPORT void PMIx_Resource_unit_destruct(pmix_resource_unit_t *d);

/* Frees resource units: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Resource_unit_free(pmix_resource_unit_t *d, size_t n);

/* Sets a variable in an environment (that of the process for NULL). */
PMIX_EXPORT pmix_status_t PMIx_Setenv(const char *name, const char *value, bool overwrite, char ***env);

/* Makes a topology empty, whatever it held before. */
PMIX_EXPORT void PMIx_Topology_construct(pmix_topology_t *t);

/* Allocates topologies and makes them empty; NULL for none. */
PMIX_EXPORT pmix_topology_t *PMIx_Topology_create(size_t n);

/* Frees what a topology holds, but not its own memory. */
PMIX_EXPORT void PMIx_Topology_destruct(pmix_topology_t *topo);

/* Frees topologies: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Topology_free(pmix_topology_t *t, size_t n);

/* Returns the order of two values. */
PMIX_EXPORT pmix_value_cmp_t PMIx_Value_compare(pmix_value_t *v1, pmix_value_t *v2);

/* Makes a value empty, whatever it held before. */
PMIX_EXPORT void PMIx_Value_construct(pmix_value_t *val);

/* Allocates values and makes them empty; NULL for none. */
PMIX_EXPORT pmix_value_t *PMIx_Value_create(size_t n);

/* Frees what a value holds, but not its own memory. */
PMIX_EXPORT void PMIx_Value_destruct(pmix_value_t *val);

/* Frees values: what they hold and the array they stand in. */
PMIX_EXPORT void PMIx_Value_free(pmix_value_t *v, size_t n);

/* The number that a value holds, in the type that is asked for. */
PMIX_EXPORT pmix_status_t PMIx_Value_get_number(const pmix_value_t *value, void *dest, pmix_data_type_t type);

/* Fills a value with a copy of some data. */
PMIX_EXPORT pmix_status_t PMIx_Value_load(pmix_value_t *val, const void *data, pmix_data_type_t type);

/* Returns whether a value is true, false, or neither. */
PMIX_EXPORT pmix_boolean_t PMIx_Value_true(const pmix_value_t *v);

/* Takes the data out of a value. */
PMIX_EXPORT pmix_status_t PMIx_Value_unload(pmix_value_t *val, void **data, size_t *sz);

/* Copies a value. */
PMIX_EXPORT pmix_status_t PMIx_Value_xfer(pmix_value_t *dest, const pmix_value_t *src);

/* Copies a process identifier. */
PMIX_EXPORT void PMIx_Xfer_procid(pmix_proc_t *dst, const pmix_proc_t *src);

/* The ranks of every node as one string, for PMIX_PROC_MAP. */
PMIX_EXPORT pmix_status_t PMIx_generate_ppn(const char *input, char **ppn);

/* The names of the nodes as one string, for PMIX_NODE_MAP. */
PMIX_EXPORT pmix_status_t PMIx_generate_regex(const char *input, char **regex);

/* Connects a tool to another server, in place of the one it has. */
PMIX_EXPORT pmix_status_t PMIx_tool_connect_to_server(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);

/* Macros that stand for the functions above. What they free they set to NULL. */
#define PMIX_VALUE_CONSTRUCT(v) PMIx_Value_construct((v))
#define PMIX_VALUE_DESTRUCT(v) PMIx_Value_destruct((v))
#define PMIX_VALUE_CREATE(v, n) (v) = PMIx_Value_create((n))
#define PMIX_VALUE_FREE(v, n) \
    do { \
        PMIx_Value_free((v), (n)); \
        (v) = NULL; \
    } while (0)
#define PMIX_VALUE_RELEASE(v) \
    do { \
        PMIx_Value_free((v), 1); \
        (v) = NULL; \
    } while (0)
#define PMIX_VALUE_LOAD(v, data, type) PMIx_Value_load((v), (data), (type))
#define PMIX_VALUE_UNLOAD(rc, v, data, size) (rc) = PMIx_Value_unload((v), (data), (size))
#define PMIX_VALUE_XFER(rc, to, from) \
    do { \
        if (NULL == (to)) { \
            (to) = (pmix_value_t *)calloc(1, sizeof(pmix_value_t)); \
        } \
        (rc) = NULL == (to) ? PMIX_ERR_NOMEM : PMIx_Value_xfer((to), (from)); \
    } while (0)
#define PMIX_VALUE_XFER_DIRECT(rc, to, from) (rc) = PMIx_Value_xfer((to), (from))
#define PMIX_VALUE_GET_NUMBER(rc, v, number, type_of_number) \
    do { \
        (rc) = PMIX_SUCCESS; \
        switch ((v)->type) { \
        case PMIX_SIZE: (number) = (type_of_number)(v)->data.size; break; \
        case PMIX_PID: (number) = (type_of_number)(v)->data.pid; break; \
        case PMIX_INT: (number) = (type_of_number)(v)->data.integer; break; \
        case PMIX_INT8: (number) = (type_of_number)(v)->data.int8; break; \
        case PMIX_INT16: (number) = (type_of_number)(v)->data.int16; break; \
        case PMIX_INT32: (number) = (type_of_number)(v)->data.int32; break; \
        case PMIX_INT64: (number) = (type_of_number)(v)->data.int64; break; \
        case PMIX_UINT: (number) = (type_of_number)(v)->data.uint; break; \
        case PMIX_UINT8: (number) = (type_of_number)(v)->data.uint8; break; \
        case PMIX_UINT16: (number) = (type_of_number)(v)->data.uint16; break; \
        case PMIX_UINT32: (number) = (type_of_number)(v)->data.uint32; break; \
        case PMIX_UINT64: (number) = (type_of_number)(v)->data.uint64; break; \
        case PMIX_FLOAT: (number) = (type_of_number)(v)->data.fval; break; \
        case PMIX_DOUBLE: (number) = (type_of_number)(v)->data.dval; break; \
        case PMIX_PROC_RANK: (number) = (type_of_number)(v)->data.rank; break; \
        default: (rc) = PMIX_ERR_BAD_PARAM; \
        } \
    } while (0)
#define PMIX_CHECK_TRUE(v) (PMIX_BOOL_TRUE == PMIx_Value_true((v)))
#define PMIX_CHECK_BOOL(v) (PMIX_NON_BOOL != PMIx_Value_true((v)))
#define PMIX_INFO_CONSTRUCT(i) PMIx_Info_construct((i))
#define PMIX_INFO_DESTRUCT(i) PMIx_Info_destruct((i))
#define PMIX_INFO_CREATE(i, n) (i) = PMIx_Info_create((n))
#define PMIX_INFO_FREE(i, n) \
    do { \
        PMIx_Info_free((i), (n)); \
        (i) = NULL; \
    } while (0)
#define PMIX_INFO_LOAD(i, key, data, type) (void)PMIx_Info_load((i), (key), (data), (type))
#define PMIX_INFO_XFER(to, from) (void)PMIx_Info_xfer((to), (from))
#define PMIX_INFO_REQUIRED(i) PMIx_Info_required((i))
#define PMIX_INFO_OPTIONAL(i) PMIx_Info_optional((i))
#define PMIX_INFO_IS_REQUIRED(i) PMIx_Info_is_required((i))
#define PMIX_INFO_IS_OPTIONAL(i) PMIx_Info_is_optional((i))
#define PMIX_INFO_PROCESSED(i) PMIx_Info_processed((i))
#define PMIX_INFO_WAS_PROCESSED(i) PMIx_Info_was_processed((i))
#define PMIX_INFO_SET_END(i) PMIx_Info_set_end((i))
#define PMIX_INFO_IS_END(i) PMIx_Info_is_end((i))
#define PMIX_INFO_SET_QUALIFIER(i) PMIx_Info_qualifier((i))
#define PMIX_INFO_IS_QUALIFIER(i) PMIx_Info_is_qualifier((i))
#define PMIX_INFO_SET_PERSISTENT(i) PMIx_Info_persistent((i))
#define PMIX_INFO_IS_PERSISTENT(i) PMIx_Info_is_persistent((i))
#define PMIX_INFO_TRUE(i) (PMIX_BOOL_TRUE == PMIx_Info_true((i)))
#define PMIX_INFO_LIST_START(list) (list) = PMIx_Info_list_start()
#define PMIX_INFO_LIST_ADD(rc, list, key, data, type) (rc) = PMIx_Info_list_add((list), (key), (data), (type))
#define PMIX_INFO_LIST_PREPEND(rc, list, key, data, type) \
    (rc) = PMIx_Info_list_prepend((list), (key), (data), (type))
#define PMIX_INFO_LIST_INSERT(rc, list, i) (rc) = PMIx_Info_list_insert((list), (i))
#define PMIX_INFO_LIST_XFER(rc, list, i) (rc) = PMIx_Info_list_xfer((list), (i))
#define PMIX_INFO_LIST_CONVERT(rc, list, array) (rc) = PMIx_Info_list_convert((list), (array))
#define PMIX_INFO_LIST_RELEASE(list) PMIx_Info_list_release((list))
#define PMIX_LOAD_KEY(key, from) PMIx_Load_key((key), (from))
#define PMIX_CHECK_KEY(i, k) PMIx_Check_key((i)->key, (k))
#define PMIX_CHECK_RESERVED_KEY(key) PMIx_Check_reserved_key((key))
#define PMIX_LOAD_NSPACE(nspace, from) PMIx_Load_nspace((nspace), (from))
#define PMIX_CHECK_NSPACE(a, b) PMIx_Check_nspace((a), (b))
#define PMIX_CHECK_NSPACE_STRICT(a, b) PMIx_Check_nspace_strict((a), (b))
#define PMIX_NSPACE_INVALID(nspace) PMIx_Nspace_invalid((nspace))
#define PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(to, cluster, nspace) \
    PMIx_Multicluster_nspace_construct((to), (cluster), (nspace))
#define PMIX_MULTICLUSTER_NSPACE_PARSE(from, cluster, nspace) \
    PMIx_Multicluster_nspace_parse((from), (cluster), (nspace))
#define PMIX_CHECK_RANK(a, b) PMIx_Check_rank((a), (b))
#define PMIX_RANK_IS_VALID(rank) ((rank) < PMIX_RANK_VALID)
#define PMIX_LOAD_PROCID(p, nspace, rank) PMIx_Load_procid((p), (nspace), (rank))
#define PMIX_XFER_PROCID(to, from) PMIx_Xfer_procid((to), (from))
#define PMIX_PROCID_XFER(to, from) PMIx_Xfer_procid((to), (from))
#define PMIX_PROCID_INVALID(p) PMIx_Procid_invalid((p))
#define PMIX_CHECK_PROCID(a, b) PMIx_Check_procid((a), (b))
#define PMIX_CHECK_PROCID_STRICT(a, b) PMIx_Check_procid_strict((a), (b))
#define PMIX_PROC_CONSTRUCT(p) PMIx_Proc_construct((p))
#define PMIX_PROC_DESTRUCT(p) PMIx_Proc_destruct((p))
#define PMIX_PROC_CREATE(p, n) (p) = PMIx_Proc_create((n))
#define PMIX_PROC_FREE(p, n) \
    do { \
        PMIx_Proc_free((p), (n)); \
        (p) = NULL; \
    } while (0)
#define PMIX_PROC_RELEASE(p) \
    do { \
        PMIx_Proc_free((p), 1); \
        (p) = NULL; \
    } while (0)
#define PMIX_PROC_LOAD(p, nspace, rank) PMIx_Proc_load((p), (nspace), (rank))
#define PMIX_SYSTEM_EVENT(code) ((code) <= PMIX_EVENT_SYS_BASE && PMIX_EVENT_SYS_OTHER <= (code))
#define PMIX_PROC_INFO_CONSTRUCT(p) PMIx_Proc_info_construct((p))
#define PMIX_PROC_INFO_DESTRUCT(p) PMIx_Proc_info_destruct((p))
#define PMIX_PROC_INFO_CREATE(p, n) (p) = PMIx_Proc_info_create((n))
#define PMIX_PROC_INFO_FREE(p, n) \
    do { \
        PMIx_Proc_info_free((p), (n)); \
        (p) = NULL; \
    } while (0)
#define PMIX_PROC_INFO_RELEASE(p) \
    do { \
        PMIx_Proc_info_free((p), 1); \
        (p) = NULL; \
    } while (0)
#define PMIX_PDATA_CONSTRUCT(d) PMIx_Pdata_construct((d))
#define PMIX_PDATA_DESTRUCT(d) PMIx_Pdata_destruct((d))
#define PMIX_PDATA_CREATE(d, n) (d) = PMIx_Pdata_create((n))
#define PMIX_PDATA_FREE(d, n) \
    do { \
        PMIx_Pdata_free((d), (n)); \
        (d) = NULL; \
    } while (0)
#define PMIX_PDATA_RELEASE(d) \
    do { \
        PMIx_Pdata_free((d), 1); \
        (d) = NULL; \
    } while (0)
#define PMIX_PDATA_LOAD(d, p, key, data, type) PMIx_Pdata_load((d), (p), (key), (data), (type))
#define PMIX_PDATA_XFER(to, from) PMIx_Pdata_xfer((to), (from))
#define PMIX_APP_CONSTRUCT(a) PMIx_App_construct((a))
#define PMIX_APP_DESTRUCT(a) PMIx_App_destruct((a))
#define PMIX_APP_CREATE(a, n) (a) = PMIx_App_create((n))
#define PMIX_APP_FREE(a, n) \
    do { \
        PMIx_App_free((a), (n)); \
        (a) = NULL; \
    } while (0)
#define PMIX_APP_RELEASE(a) \
    do { \
        PMIx_App_free((a), 1); \
        (a) = NULL; \
    } while (0)
#define PMIX_APP_INFO_CREATE(a, n) PMIx_App_info_create((a), (n))
#define PMIX_QUERY_CONSTRUCT(q) PMIx_Query_construct((q))
#define PMIX_QUERY_DESTRUCT(q) PMIx_Query_destruct((q))
#define PMIX_QUERY_CREATE(q, n) (q) = PMIx_Query_create((n))
#define PMIX_QUERY_FREE(q, n) \
    do { \
        PMIx_Query_free((q), (n)); \
        (q) = NULL; \
    } while (0)
#define PMIX_QUERY_RELEASE(q) \
    do { \
        PMIx_Query_release((q)); \
        (q) = NULL; \
    } while (0)
#define PMIX_QUERY_QUALIFIERS_CREATE(q, n) PMIx_Query_qualifiers_create((q), (n))
#define PMIX_REGATTR_CONSTRUCT(a) PMIx_Regattr_construct((a))
#define PMIX_REGATTR_DESTRUCT(a) PMIx_Regattr_destruct((a))
#define PMIX_REGATTR_CREATE(a, n) (a) = PMIx_Regattr_create((n))
#define PMIX_REGATTR_FREE(a, n) \
    do { \
        PMIx_Regattr_free((a), (n)); \
        (a) = NULL; \
    } while (0)
#define PMIX_REGATTR_LOAD(a, name, key, type, words) PMIx_Regattr_load((a), (name), (key), (type), (words))
#define PMIX_REGATTR_XFER(to, from) PMIx_Regattr_xfer((to), (from))
#define PMIX_DATA_ARRAY_INIT(a, type) PMIx_Data_array_init((a), (type))
#define PMIX_DATA_ARRAY_CONSTRUCT(a, n, type) PMIx_Data_array_construct((a), (n), (type))
#define PMIX_DATA_ARRAY_DESTRUCT(a) PMIx_Data_array_destruct((a))
#define PMIX_DATA_ARRAY_CREATE(a, n, type) (a) = PMIx_Data_array_create((n), (type))
#define PMIX_DATA_ARRAY_FREE(a) \
    do { \
        PMIx_Data_array_free((a)); \
        (a) = NULL; \
    } while (0)
#define PMIX_DATA_BUFFER_CONSTRUCT(b) PMIx_Data_buffer_construct((b))
#define PMIX_DATA_BUFFER_DESTRUCT(b) PMIx_Data_buffer_destruct((b))
#define PMIX_DATA_BUFFER_CREATE(b) (b) = PMIx_Data_buffer_create()
#define PMIX_DATA_BUFFER_RELEASE(b) \
    do { \
        PMIx_Data_buffer_release((b)); \
        (b) = NULL; \
    } while (0)
#define PMIX_DATA_BUFFER_LOAD(b, data, size) PMIx_Data_buffer_load((b), (data), (size))
#define PMIX_DATA_BUFFER_UNLOAD(b, data, size) PMIx_Data_buffer_unload((b), &(data), &(size))
#define PMIX_BYTE_OBJECT_CONSTRUCT(b) PMIx_Byte_object_construct((b))
#define PMIX_BYTE_OBJECT_DESTRUCT(b) PMIx_Byte_object_destruct((b))
#define PMIX_BYTE_OBJECT_CREATE(b, n) (b) = PMIx_Byte_object_create((n))
#define PMIX_BYTE_OBJECT_FREE(b, n) \
    do { \
        PMIx_Byte_object_free((b), (n)); \
        (b) = NULL; \
    } while (0)
#define PMIX_BYTE_OBJECT_LOAD(b, data, size) \
    do { \
        PMIx_Byte_object_load((b), (data), (size)); \
        (data) = NULL; \
        (size) = 0; \
    } while (0)
#define PMIX_ENVAR_CONSTRUCT(e) PMIx_Envar_construct((e))
#define PMIX_ENVAR_DESTRUCT(e) PMIx_Envar_destruct((e))
#define PMIX_ENVAR_CREATE(e, n) (e) = PMIx_Envar_create((n))
#define PMIX_ENVAR_FREE(e, n) \
    do { \
        PMIx_Envar_free((e), (n)); \
        (e) = NULL; \
    } while (0)
#define PMIX_ENVAR_LOAD(e, name, value, separator) PMIx_Envar_load((e), (name), (value), (separator))
#define PMIX_COORD_CONSTRUCT(c) PMIx_Coord_construct((c))
#define PMIX_COORD_DESTRUCT(c) PMIx_Coord_destruct((c))
#define PMIX_COORD_FREE(c, n) \
    do { \
        PMIx_Coord_free((c), (n)); \
        (c) = NULL; \
    } while (0)
#define PMIX_COORD_CREATE(c, n, dims) (c) = PMIx_Coord_create((dims), (n))
#define PMIX_GEOMETRY_CONSTRUCT(g) PMIx_Geometry_construct((g))
#define PMIX_GEOMETRY_DESTRUCT(g) PMIx_Geometry_destruct((g))
#define PMIX_GEOMETRY_CREATE(g, n) (g) = PMIx_Geometry_create((n))
#define PMIX_GEOMETRY_FREE(g, n) \
    do { \
        PMIx_Geometry_free((g), (n)); \
        (g) = NULL; \
    } while (0)
#define PMIX_ENDPOINT_CONSTRUCT(e) PMIx_Endpoint_construct((e))
#define PMIX_ENDPOINT_DESTRUCT(e) PMIx_Endpoint_destruct((e))
#define PMIX_ENDPOINT_CREATE(e, n) (e) = PMIx_Endpoint_create((n))
#define PMIX_ENDPOINT_FREE(e, n) \
    do { \
        PMIx_Endpoint_free((e), (n)); \
        (e) = NULL; \
    } while (0)
#define PMIX_TOPOLOGY_CONSTRUCT(t) PMIx_Topology_construct((t))
#define PMIX_TOPOLOGY_DESTRUCT(t) PMIx_Topology_destruct((t))
#define PMIX_TOPOLOGY_CREATE(t, n) (t) = PMIx_Topology_create((n))
#define PMIX_TOPOLOGY_FREE(t, n) \
    do { \
        PMIx_Topology_free((t), (n)); \
        (t) = NULL; \
    } while (0)
#define PMIX_CPUSET_CONSTRUCT(c) PMIx_Cpuset_construct((c))
#define PMIX_CPUSET_DESTRUCT(c) PMIx_Cpuset_destruct((c))
#define PMIX_CPUSET_CREATE(c, n) (c) = PMIx_Cpuset_create((n))
#define PMIX_CPUSET_FREE(c, n) \
    do { \
        PMIx_Cpuset_free((c), (n)); \
        (c) = NULL; \
    } while (0)
#define PMIX_DEVICE_CONSTRUCT(d) PMIx_Device_construct((d))
#define PMIX_DEVICE_DESTRUCT(d) PMIx_Device_destruct((d))
#define PMIX_DEVICE_CREATE(d, n) (d) = PMIx_Device_create((n))
#define PMIX_DEVICE_FREE(d, n) \
    do { \
        PMIx_Device_free((d), (n)); \
        (d) = NULL; \
    } while (0)
#define PMIX_DEVICE_DIST_CONSTRUCT(d) PMIx_Device_distance_construct((d))
#define PMIX_DEVICE_DIST_DESTRUCT(d) PMIx_Device_distance_destruct((d))
#define PMIX_DEVICE_DIST_CREATE(d, n) (d) = PMIx_Device_distance_create((n))
#define PMIX_DEVICE_DIST_FREE(d, n) \
    do { \
        PMIx_Device_distance_free((d), (n)); \
        (d) = NULL; \
    } while (0)
#define PMIX_RESOURCE_UNIT_CONSTRUCT(u) PMIx_Resource_unit_construct((u))
#define PMIX_RESOURCE_UNIT_DESTRUCT(u) PMIx_Resource_unit_destruct((u))
#define PMIX_RESOURCE_UNIT_CREATE(u, n) (u) = PMIx_Resource_unit_create((n))
#define PMIX_RESOURCE_UNIT_FREE(u, n) \
    do { \
        PMIx_Resource_unit_free((u), (n)); \
        (u) = NULL; \
    } while (0)
#define PMIX_PROC_STATS_CONSTRUCT(s) PMIx_Proc_stats_construct((s))
#define PMIX_PROC_STATS_DESTRUCT(s) PMIx_Proc_stats_destruct((s))
#define PMIX_PROC_STATS_CREATE(s, n) (s) = PMIx_Proc_stats_create((n))
#define PMIX_PROC_STATS_FREE(s, n) \
    do { \
        PMIx_Proc_stats_free((s), (n)); \
        (s) = NULL; \
    } while (0)
#define PMIX_PROC_STATS_RELEASE(s) \
    do { \
        PMIx_Proc_stats_free((s), 1); \
        (s) = NULL; \
    } while (0)
#define PMIX_DISK_STATS_CONSTRUCT(s) PMIx_Disk_stats_construct((s))
#define PMIX_DISK_STATS_DESTRUCT(s) PMIx_Disk_stats_destruct((s))
#define PMIX_DISK_STATS_CREATE(s, n) (s) = PMIx_Disk_stats_create((n))
#define PMIX_DISK_STATS_FREE(s, n) \
    do { \
        PMIx_Disk_stats_free((s), (n)); \
        (s) = NULL; \
    } while (0)
#define PMIX_DISK_STATS_RELEASE(s) \
    do { \
        PMIx_Disk_stats_free((s), 1); \
        (s) = NULL; \
    } while (0)
#define PMIX_NET_STATS_CONSTRUCT(s) PMIx_Net_stats_construct((s))
#define PMIX_NET_STATS_DESTRUCT(s) PMIx_Net_stats_destruct((s))
#define PMIX_NET_STATS_CREATE(s, n) (s) = PMIx_Net_stats_create((n))
#define PMIX_NET_STATS_FREE(s, n) \
    do { \
        PMIx_Net_stats_free((s), (n)); \
        (s) = NULL; \
    } while (0)
#define PMIX_NET_STATS_RELEASE(s) \
    do { \
        PMIx_Net_stats_free((s), 1); \
        (s) = NULL; \
    } while (0)
#define PMIX_NODE_STATS_CONSTRUCT(s) PMIx_Node_stats_construct((s))
#define PMIX_NODE_STATS_DESTRUCT(s) PMIx_Node_stats_destruct((s))
#define PMIX_NODE_STATS_CREATE(s, n) (s) = PMIx_Node_stats_create((n))
#define PMIX_NODE_STATS_FREE(s, n) \
    do { \
        PMIx_Node_stats_free((s), (n)); \
        (s) = NULL; \
    } while (0)
#define PMIX_NODE_STATS_RELEASE(s) \
    do { \
        PMIx_Node_stats_free((s), 1); \
        (s) = NULL; \
    } while (0)
#define PMIX_FABRIC_CONSTRUCT(f) memset((f), 0, sizeof(pmix_fabric_t))
#define PMIX_ARGV_APPEND(rc, argv, arg) (rc) = PMIx_Argv_append_nosize(&(argv), (arg))
#define PMIX_ARGV_PREPEND(rc, argv, arg) (rc) = PMIx_Argv_prepend_nosize(&(argv), (arg))
#define PMIX_ARGV_APPEND_UNIQUE(rc, argv_address, arg) \
    (rc) = PMIx_Argv_append_unique_nosize((argv_address), (arg))
#define PMIX_ARGV_FREE(argv) \
    do { \
        PMIx_Argv_free((argv)); \
        (argv) = NULL; \
    } while (0)
#define PMIX_ARGV_SPLIT(argv, text, delimiter) (argv) = PMIx_Argv_split((text), (delimiter))
#define PMIX_ARGV_JOIN(text, argv, delimiter) (text) = PMIx_Argv_join((argv), (delimiter))
#define PMIX_ARGV_COUNT(n, argv) (n) = PMIx_Argv_count((argv))
#define PMIX_ARGV_COPY(to, from) (to) = PMIx_Argv_copy((from))
#define PMIX_SETENV(rc, name, value, env) (rc) = PMIx_Setenv((name), (value), true, (env))
#define pmix_argv_append_nosize(argv, arg) PMIx_Argv_append_nosize((argv), (arg))
#define pmix_argv_append_unique_nosize(argv, arg) PMIx_Argv_append_unique_nosize((argv), (arg))
#define pmix_argv_prepend_nosize(argv, arg) PMIx_Argv_prepend_nosize((argv), (arg))
#define pmix_argv_free(argv) PMIx_Argv_free((argv))
#define pmix_argv_split(text, delimiter) PMIx_Argv_split((text), (delimiter))
#define pmix_argv_split_with_empty(text, delimiter) PMIx_Argv_split_with_empty((text), (delimiter))
#define pmix_argv_join(argv, delimiter) PMIx_Argv_join((argv), (delimiter))
#define pmix_argv_count(argv) PMIx_Argv_count((argv))
#define pmix_argv_copy(argv) PMIx_Argv_copy((argv))
#define pmix_setenv(name, value, overwrite, env) PMIx_Setenv((name), (value), (overwrite), (env))
#define pmix_argv_split_inter(text, delimiter, empty) PMIx_Argv_split_inter((text), (delimiter), (empty))
#define pmix_check_true(v) PMIx_Value_true((v))

#ifdef __cplusplus
}
#endif

#endif
