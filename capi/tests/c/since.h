/* Names that the headers of 5.0.7 lack and programs use: libraries may have it, whatever headers a program was built against. */
#ifndef SINCE_H
#define SINCE_H
#include <pmix.h>
#include <pmix_server.h>
#if PMIX_NUMERIC_VERSION < 0x00050009
pmix_status_t PMIx_Info_list_add_value(void *list, const char *key, const pmix_value_t *value);
pmix_status_t PMIx_Info_list_add_unique(void *list, const char *key, const void *value, pmix_data_type_t type, bool over);
pmix_status_t PMIx_Info_list_add_value_unique(void *list, const char *key, const pmix_value_t *value, bool over);
pmix_status_t PMIx_Info_list_xfer_unique(void *list, const pmix_info_t *info, bool over);
#endif
#if PMIX_VERSION_MAJOR < 6
#define PMIX_ERR_IOF_XOFF -405
#define PMIX_ERR_NOT_A_MEMBER -66
#define PMIX_GROUP_BOOTSTRAP "pmix.grp.btstrp"
#define PMIX_SERVER_ALLOW_FOREIGN_TOOLS "pmix.srvr.ftools"
size_t PMIx_Info_list_get_size(void *list);
pmix_status_t PMIx_Value_get_number(const pmix_value_t *value, void *dest, pmix_data_type_t type);
pmix_status_t PMIx_server_register_session(uint32_t session, pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
                                           void *cbdata);
void PMIx_server_deregister_session(uint32_t session, pmix_op_cbfunc_t cbfunc, void *cbdata);
pmix_status_t PMIx_server_generate_cpuset(const char *cpuset_string, pmix_cpuset_t *cpuset);
pmix_status_t PMIx_server_collect_job_info(pmix_proc_t *procs, size_t nprocs, pmix_data_buffer_t *buffer);
pmix_status_t PMIx_server_IOF_flow_control(const pmix_proc_t *source, pmix_iof_channel_t channel, bool stop,
                                           const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);
#endif
#endif
