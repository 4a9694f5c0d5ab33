/* pmix_tool.h: what tools call.
 * Written from tables by a generator: change those, not this file. */
#ifndef PMIx_TOOL_API_H
#define PMIx_TOOL_API_H

#include "pmix.h"
#include "pmix_server.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends what PMIx_IOF_pull began. */
PMIX_EXPORT pmix_status_t PMIx_IOF_deregister(size_t iofhdlr, const pmix_info_t directives[], size_t ndirs,
    pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Asks for the output of processes; it comes to the callback. */
PMIX_EXPORT pmix_status_t PMIx_IOF_pull(const pmix_proc_t procs[], size_t nprocs,
    const pmix_info_t directives[], size_t ndirs, pmix_iof_channel_t channel, pmix_iof_cbfunc_t cbfunc,
    pmix_hdlr_reg_cbfunc_t regcbfunc, void *regcbdata);

/* Sends bytes to the standard input of processes. */
PMIX_EXPORT pmix_status_t PMIx_IOF_push(const pmix_proc_t targets[], size_t ntargets, pmix_byte_object_t *bo,
    const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* Connects a tool to one more server. */
PMIX_EXPORT pmix_status_t PMIx_tool_attach_to_server(pmix_proc_t *myproc, pmix_proc_t *server,
    pmix_info_t info[], size_t ninfo);

/* Leaves one of a tool's servers. */
PMIX_EXPORT pmix_status_t PMIx_tool_disconnect(const pmix_proc_t *server);

/* Leaves all of a tool's servers. */
PMIX_EXPORT pmix_status_t PMIx_tool_finalize(void);

/* The servers that a tool is connected to. */
PMIX_EXPORT pmix_status_t PMIx_tool_get_servers(pmix_proc_t *servers[], size_t *nservers);

/* Makes the process a tool, connects it to a server, and says which process it is. */
PMIX_EXPORT pmix_status_t PMIx_tool_init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);

/* Returns whether a tool is connected to a server. */
PMIX_EXPORT bool PMIx_tool_is_connected(void);

/* Makes one of a tool's servers the one that it asks. */
PMIX_EXPORT pmix_status_t PMIx_tool_set_server(const pmix_proc_t *server, pmix_info_t info[], size_t ninfo);

/* Gives a tool that serves others the functions that the library calls. */
PMIX_EXPORT pmix_status_t PMIx_tool_set_server_module(pmix_server_module_t *module);

#ifdef __cplusplus
}
#endif

#endif
