/* pmix_common.h: types, constants and attributes.
 * Written from tables by a generator: change those, not this file. */
#ifndef PMIx_COMMON_H
#define PMIx_COMMON_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include "pmix_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PMIX_HAVE_VISIBILITY                        1
#if PMIX_HAVE_VISIBILITY
#define PMIX_EXPORT __attribute__((visibility("default")))
#else
#define PMIX_EXPORT
#endif

#define PMIX_MAX_NSLEN                              255
#define PMIX_MAX_KEYLEN                             511

/* The name of a job. */
typedef char pmix_nspace_t[PMIX_MAX_NSLEN+1];

/* The name of a value. */
typedef char pmix_key_t[PMIX_MAX_KEYLEN+1];

/* The number of a process in its job, or one of these. */
typedef uint32_t pmix_rank_t;
#define PMIX_RANK_VALID                             0xffffffcdU
#define PMIX_RANK_LOCAL_PEERS                       0xfffffffbU
#define PMIX_RANK_INVALID                           0xfffffffcU
#define PMIX_RANK_LOCAL_NODE                        0xfffffffdU
#define PMIX_RANK_WILDCARD                          0xfffffffeU
#define PMIX_RANK_UNDEF                             0xffffffffU

/* The result of a function, or the code of an event. */
typedef int pmix_status_t;
#define PMIX_SUCCESS                                0
#define PMIX_ERROR                                  (-1)
#define PMIX_ERR_SILENT                             (-2)
#define PMIX_DEBUGGER_RELEASE                       (-3)
#define PMIX_ERR_DEBUGGER_RELEASE                   (-3)
#define PMIX_ERR_PROC_RESTART                       (-4)
#define PMIX_ERR_PROC_CHECKPOINT                    (-5)
#define PMIX_ERR_PROC_MIGRATE                       (-6)
#define PMIX_ERR_PROC_ABORTED                       (-7)
#define PMIX_ERR_PROC_REQUESTED_ABORT               (-8)
#define PMIX_ERR_PROC_ABORTING                      (-9)
#define PMIX_ERR_SERVER_FAILED_REQUEST              (-10)
#define PMIX_ERR_EXISTS                             (-11)
#define PMIX_EXISTS                                 (-11)
#define PMIX_ERR_INVALID_CRED                       (-12)
#define PMIX_ERR_HANDSHAKE_FAILED                   (-13)
#define PMIX_ERR_READY_FOR_HANDSHAKE                (-14)
#define PMIX_ERR_WOULD_BLOCK                        (-15)
#define PMIX_ERR_UNKNOWN_DATA_TYPE                  (-16)
#define PMIX_ERR_PROC_ENTRY_NOT_FOUND               (-17)
#define PMIX_ERR_TYPE_MISMATCH                      (-18)
#define PMIX_ERR_UNPACK_INADEQUATE_SPACE            (-19)
#define PMIX_ERR_UNPACK_FAILURE                     (-20)
#define PMIX_ERR_PACK_FAILURE                       (-21)
#define PMIX_ERR_PACK_MISMATCH                      (-22)
#define PMIX_ERR_NO_PERMISSIONS                     (-23)
#define PMIX_ERR_TIMEOUT                            (-24)
#define PMIX_ERR_UNREACH                            (-25)
#define PMIX_ERR_IN_ERRNO                           (-26)
#define PMIX_ERR_BAD_PARAM                          (-27)
#define PMIX_ERR_RESOURCE_BUSY                      (-28)
#define PMIX_ERR_OUT_OF_RESOURCE                    (-29)
#define PMIX_ERR_DATA_VALUE_NOT_FOUND               (-30)
#define PMIX_ERR_INIT                               (-31)
#define PMIX_ERR_NOMEM                              (-32)
#define PMIX_ERR_INVALID_ARG                        (-33)
#define PMIX_ERR_INVALID_KEY                        (-34)
#define PMIX_ERR_INVALID_KEY_LENGTH                 (-35)
#define PMIX_ERR_INVALID_VAL                        (-36)
#define PMIX_ERR_INVALID_VAL_LENGTH                 (-37)
#define PMIX_ERR_INVALID_LENGTH                     (-38)
#define PMIX_ERR_INVALID_NUM_ARGS                   (-39)
#define PMIX_ERR_INVALID_ARGS                       (-40)
#define PMIX_ERR_INVALID_NUM_PARSED                 (-41)
#define PMIX_ERR_INVALID_KEYVALP                    (-42)
#define PMIX_ERR_INVALID_SIZE                       (-43)
#define PMIX_ERR_INVALID_NAMESPACE                  (-44)
#define PMIX_ERR_SERVER_NOT_AVAIL                   (-45)
#define PMIX_ERR_NOT_FOUND                          (-46)
#define PMIX_ERR_NOT_SUPPORTED                      (-47)
#define PMIX_ERR_NOT_IMPLEMENTED                    (-48)
#define PMIX_ERR_COMM_FAILURE                       (-49)
#define PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER     (-50)
#define PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES     (-51)
#define PMIX_ERR_PARTIAL_SUCCESS                    (-52)
#define PMIX_ERR_DUPLICATE_KEY                      (-53)
#define PMIX_PROCESS_SET_DEFINE                     (-55)
#define PMIX_PROCESS_SET_DELETE                     (-56)
#define PMIX_DEBUG_WAITING_FOR_NOTIFY               (-58)
#define PMIX_READY_FOR_DEBUG                        (-58)
#define PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED          (-59)
#define PMIX_ERR_EMPTY                              (-60)
#define PMIX_ERR_LOST_CONNECTION                    (-61)
#define PMIX_ERR_EXISTS_OUTSIDE_SCOPE               (-62)
#define PMIX_ERR_FATAL                              (-63)
#define PMIX_ERR_NOT_AVAILABLE                      (-64)
#define PMIX_ERR_VALUE_OUT_OF_BOUNDS                (-65)
#define PMIX_ERR_NOT_A_MEMBER                       (-66)
#define PMIX_ERR_FILE_OPEN_FAILURE                  (-67)
#define PMIX_ERR_FILE_READ_FAILURE                  (-68)
#define PMIX_ERR_FILE_WRITE_FAILURE                 (-69)
#define PMIX_ERR_SYS_LIMITS_PIPES                   (-70)
#define PMIX_ERR_SYS_LIMITS_CHILDREN                (-71)
#define PMIX_ERR_PIPE_SETUP_FAILURE                 (-72)
#define PMIX_ERR_EXE_NOT_ACCESSIBLE                 (-73)
#define PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE            (-74)
#define PMIX_ERR_SYS_LIMITS_FILES                   (-75)
#define PMIX_ERR_LOST_CONNECTION_TO_SERVER          (-101)
#define PMIX_ERR_LOST_PEER_CONNECTION               (-102)
#define PMIX_ERR_LOST_CONNECTION_TO_CLIENT          (-103)
#define PMIX_QUERY_PARTIAL_SUCCESS                  (-104)
#define PMIX_NOTIFY_ALLOC_COMPLETE                  (-105)
#define PMIX_JCTRL_CHECKPOINT                       (-106)
#define PMIX_JCTRL_CHECKPOINT_COMPLETE              (-107)
#define PMIX_JCTRL_PREEMPT_ALERT                    (-108)
#define PMIX_MONITOR_HEARTBEAT_ALERT                (-109)
#define PMIX_MONITOR_FILE_ALERT                     (-110)
#define PMIX_PROC_TERMINATED                        (-111)
#define PMIX_ERR_INVALID_TERMINATION                (-112)
#define PMIX_FABRIC_UPDATE_ENDPOINTS                (-113)
#define PMIX_MONITOR_RESUSAGE_UPDATE                (-114)
#define PMIX_ERR_EVENT_REGISTRATION                 (-144)
#define PMIX_ERR_JOB_TERMINATED                     (-145)
#define PMIX_EVENT_JOB_END                          (-145)
#define PMIX_ERR_UPDATE_ENDPOINTS                   (-146)
#define PMIX_MODEL_DECLARED                         (-147)
#define PMIX_GDS_ACTION_COMPLETE                    (-148)
#define PMIX_PROC_HAS_CONNECTED                     (-149)
#define PMIX_CONNECT_REQUESTED                      (-150)
#define PMIX_MODEL_RESOURCES                        (-151)
#define PMIX_OPENMP_PARALLEL_ENTERED                (-152)
#define PMIX_OPENMP_PARALLEL_EXITED                 (-153)
#define PMIX_LAUNCHER_READY                         (-155)
#define PMIX_OPERATION_IN_PROGRESS                  (-156)
#define PMIX_OPERATION_SUCCEEDED                    (-157)
#define PMIX_ERR_INVALID_OPERATION                  (-158)
#define PMIX_GROUP_INVITED                          (-159)
#define PMIX_GROUP_LEFT                             (-160)
#define PMIX_GROUP_INVITE_ACCEPTED                  (-161)
#define PMIX_GROUP_INVITE_DECLINED                  (-162)
#define PMIX_GROUP_INVITE_FAILED                    (-163)
#define PMIX_GROUP_MEMBERSHIP_UPDATE                (-164)
#define PMIX_GROUP_CONSTRUCT_ABORT                  (-165)
#define PMIX_GROUP_CONSTRUCT_COMPLETE               (-166)
#define PMIX_GROUP_LEADER_SELECTED                  (-167)
#define PMIX_GROUP_LEADER_FAILED                    (-168)
#define PMIX_GROUP_CONTEXT_ID_ASSIGNED              (-169)
#define PMIX_GROUP_MEMBER_FAILED                    (-170)
#define PMIX_ERR_REPEAT_ATTR_REGISTRATION           (-171)
#define PMIX_ERR_IOF_FAILURE                        (-172)
#define PMIX_ERR_IOF_COMPLETE                       (-173)
#define PMIX_LAUNCH_COMPLETE                        (-174)
#define PMIX_FABRIC_UPDATED                         (-175)
#define PMIX_FABRIC_UPDATE_PENDING                  (-176)
#define PMIX_ERR_JOB_APP_NOT_EXECUTABLE             (-177)
#define PMIX_ERR_JOB_NO_EXE_SPECIFIED               (-178)
#define PMIX_ERR_JOB_FAILED_TO_MAP                  (-179)
#define PMIX_ERR_JOB_CANCELED                       (-180)
#define PMIX_ERR_JOB_FAILED_TO_LAUNCH               (-181)
#define PMIX_ERR_JOB_ABORTED                        (-182)
#define PMIX_ERR_JOB_KILLED_BY_CMD                  (-183)
#define PMIX_ERR_JOB_ABORTED_BY_SIG                 (-184)
#define PMIX_ERR_JOB_TERM_WO_SYNC                   (-185)
#define PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED          (-186)
#define PMIX_ERR_JOB_NON_ZERO_TERM                  (-187)
#define PMIX_ERR_JOB_ALLOC_FAILED                   (-188)
#define PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT           (-189)
#define PMIX_ERR_JOB_EXE_NOT_FOUND                  (-190)
#define PMIX_EVENT_JOB_START                        (-191)
#define PMIX_EVENT_SESSION_START                    (-192)
#define PMIX_EVENT_SESSION_END                      (-193)
#define PMIX_ALLOC_TIMEOUT_WARNING                  (-194)
#define PMIX_DVM_IS_READY                           (-195)
#define PMIX_ERR_DVM_MOD                            (-196)
#define PMIX_ERR_PROC_TERM_WO_SYNC                  (-200)
#define PMIX_EVENT_PROC_TERMINATED                  (-201)
#define PMIX_ERR_SYS_BASE                           (-230)
#define PMIX_EVENT_SYS_BASE                         (-230)
#define PMIX_ERR_NODE_DOWN                          (-231)
#define PMIX_EVENT_NODE_DOWN                        (-231)
#define PMIX_ERR_NODE_OFFLINE                       (-232)
#define PMIX_EVENT_NODE_OFFLINE                     (-232)
#define PMIX_ERR_JOB_WDIR_NOT_FOUND                 (-233)
#define PMIX_ERR_JOB_INSUFFICIENT_RESOURCES         (-234)
#define PMIX_ERR_JOB_SYS_OP_FAILED                  (-235)
#define PMIX_ERR_SYS_OTHER                          (-330)
#define PMIX_EVENT_SYS_OTHER                        (-330)
#define PMIX_EVENT_NO_ACTION_TAKEN                  (-331)
#define PMIX_EVENT_PARTIAL_ACTION_TAKEN             (-332)
#define PMIX_EVENT_ACTION_DEFERRED                  (-333)
#define PMIX_EVENT_ACTION_COMPLETE                  (-334)
#define PMIX_ERR_PROC_KILLED_BY_CMD                 (-400)
#define PMIX_ERR_LOST_PRECISION                     (-400)
#define PMIX_ERR_PROC_FAILED_TO_START               (-401)
#define PMIX_ERR_CHANGE_SIGN                        (-401)
#define PMIX_ERR_PROC_ABORTED_BY_SIG                (-402)
#define PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED         (-403)
#define PMIX_ERR_EXIT_NONZERO_TERM                  (-404)
#define PMIX_ERR_IOF_XOFF                           (-405)
#define PMIX_EXTERNAL_ERR_BASE                      (-3000)

/* The type of a value. */
typedef uint16_t pmix_data_type_t;
#define PMIX_UNDEF                                  0
#define PMIX_BOOL                                   1
#define PMIX_BYTE                                   2
#define PMIX_STRING                                 3
#define PMIX_SIZE                                   4
#define PMIX_PID                                    5
#define PMIX_INT                                    6
#define PMIX_INT8                                   7
#define PMIX_INT16                                  8
#define PMIX_INT32                                  9
#define PMIX_INT64                                  10
#define PMIX_UINT                                   11
#define PMIX_UINT8                                  12
#define PMIX_UINT16                                 13
#define PMIX_UINT32                                 14
#define PMIX_UINT64                                 15
#define PMIX_FLOAT                                  16
#define PMIX_DOUBLE                                 17
#define PMIX_TIMEVAL                                18
#define PMIX_TIME                                   19
#define PMIX_STATUS                                 20
#define PMIX_VALUE                                  21
#define PMIX_PROC                                   22
#define PMIX_APP                                    23
#define PMIX_INFO                                   24
#define PMIX_PDATA                                  25
#define PMIX_BUFFER                                 26
#define PMIX_BYTE_OBJECT                            27
#define PMIX_KVAL                                   28
#define PMIX_PERSIST                                30
#define PMIX_POINTER                                31
#define PMIX_SCOPE                                  32
#define PMIX_DATA_RANGE                             33
#define PMIX_COMMAND                                34
#define PMIX_INFO_DIRECTIVES                        35
#define PMIX_DATA_TYPE                              36
#define PMIX_PROC_STATE                             37
#define PMIX_PROC_INFO                              38
#define PMIX_DATA_ARRAY                             39
#define PMIX_PROC_RANK                              40
#define PMIX_QUERY                                  41
#define PMIX_COMPRESSED_STRING                      42
#define PMIX_ALLOC_DIRECTIVE                        43
#define PMIX_IOF_CHANNEL                            45
#define PMIX_ENVAR                                  46
#define PMIX_COORD                                  47
#define PMIX_REGATTR                                48
#define PMIX_REGEX                                  49
#define PMIX_JOB_STATE                              50
#define PMIX_LINK_STATE                             51
#define PMIX_PROC_CPUSET                            52
#define PMIX_GEOMETRY                               53
#define PMIX_DEVICE_DIST                            54
#define PMIX_ENDPOINT                               55
#define PMIX_TOPO                                   56
#define PMIX_DEVTYPE                                57
#define PMIX_LOCTYPE                                58
#define PMIX_COMPRESSED_BYTE_OBJECT                 59
#define PMIX_PROC_NSPACE                            60
#define PMIX_PROC_STATS                             61
#define PMIX_DISK_STATS                             62
#define PMIX_NET_STATS                              63
#define PMIX_NODE_STATS                             64
#define PMIX_DATA_BUFFER                            65
#define PMIX_STOR_MEDIUM                            66
#define PMIX_STOR_ACCESS                            67
#define PMIX_STOR_PERSIST                           68
#define PMIX_STOR_ACCESS_TYPE                       69
#define PMIX_DEVICE                                 70
#define PMIX_RESBLOCK_DIRECTIVE                     71
#define PMIX_RESOURCE_UNIT                          72
#define PMIX_NODE_PID                               73
#define PMIX_REGEX2                                 74
#define PMIX_ALLOC_INHERIT                          75
#define PMIX_DATA_TYPE_MAX                          500

/* The processes that may get a value that is Put. */
typedef uint8_t pmix_scope_t;
#define PMIX_SCOPE_UNDEF                            0
#define PMIX_LOCAL                                  1
#define PMIX_REMOTE                                 2
#define PMIX_GLOBAL                                 3
#define PMIX_INTERNAL                               4
#define PMIX_DEL_LOCAL                              5
#define PMIX_DEL_REMOTE                             6
#define PMIX_DEL_GLOBAL                             7
#define PMIX_DEL_INTERNAL                           8

/* The processes that may look published data up, or get an event. */
typedef uint8_t pmix_data_range_t;
#define PMIX_RANGE_UNDEF                            0
#define PMIX_RANGE_RM                               1
#define PMIX_RANGE_LOCAL                            2
#define PMIX_RANGE_NAMESPACE                        3
#define PMIX_RANGE_SESSION                          4
#define PMIX_RANGE_GLOBAL                           5
#define PMIX_RANGE_CUSTOM                           6
#define PMIX_RANGE_PROC_LOCAL                       7
#define PMIX_RANGE_INVALID                          255

/* The time that published data lasts. */
typedef uint8_t pmix_persistence_t;
#define PMIX_PERSIST_INDEF                          0
#define PMIX_PERSIST_FIRST_READ                     1
#define PMIX_PERSIST_PROC                           2
#define PMIX_PERSIST_APP                            3
#define PMIX_PERSIST_SESSION                        4
#define PMIX_PERSIST_INVALID                        255

/* The flags of an info. */
typedef uint32_t pmix_info_directives_t;
#define PMIX_INFO_REQD                              1
#define PMIX_INFO_ARRAY_END                         2
#define PMIX_INFO_REQD_PROCESSED                    4
#define PMIX_INFO_QUALIFIER                         8
#define PMIX_INFO_PERSISTENT                        16
#define PMIX_INFO_DIR_RESERVED                      0xffff0000U

/* The state of a process. */
typedef uint8_t pmix_proc_state_t;
#define PMIX_PROC_STATE_UNDEF                       0
#define PMIX_PROC_STATE_PREPPED                     1
#define PMIX_PROC_STATE_LAUNCH_UNDERWAY             2
#define PMIX_PROC_STATE_RESTART                     3
#define PMIX_PROC_STATE_TERMINATE                   4
#define PMIX_PROC_STATE_RUNNING                     5
#define PMIX_PROC_STATE_CONNECTED                   6
#define PMIX_PROC_STATE_UNTERMINATED                15
#define PMIX_PROC_STATE_TERMINATED                  20
#define PMIX_PROC_STATE_ERROR                       50
#define PMIX_PROC_STATE_KILLED_BY_CMD               51
#define PMIX_PROC_STATE_ABORTED                     52
#define PMIX_PROC_STATE_FAILED_TO_START             53
#define PMIX_PROC_STATE_ABORTED_BY_SIG              54
#define PMIX_PROC_STATE_TERM_WO_SYNC                55
#define PMIX_PROC_STATE_COMM_FAILED                 56
#define PMIX_PROC_STATE_SENSOR_BOUND_EXCEEDED       57
#define PMIX_PROC_STATE_CALLED_ABORT                58
#define PMIX_PROC_STATE_HEARTBEAT_FAILED            59
#define PMIX_PROC_STATE_MIGRATING                   60
#define PMIX_PROC_STATE_CANNOT_RESTART              61
#define PMIX_PROC_STATE_TERM_NON_ZERO               62
#define PMIX_PROC_STATE_FAILED_TO_LAUNCH            63

/* The state of a job. */
typedef uint8_t pmix_job_state_t;
#define PMIX_JOB_STATE_UNDEF                        0
#define PMIX_JOB_STATE_AWAITING_ALLOC               1
#define PMIX_JOB_STATE_PREPPED                      1
#define PMIX_JOB_STATE_LAUNCH_UNDERWAY              2
#define PMIX_JOB_STATE_RUNNING                      3
#define PMIX_JOB_STATE_SUSPENDED                    4
#define PMIX_JOB_STATE_CONNECTED                    5
#define PMIX_JOB_STATE_UNTERMINATED                 15
#define PMIX_JOB_STATE_TERMINATED                   20
#define PMIX_JOB_STATE_TERMINATED_WITH_ERROR        50

/* The request about an allocation. */
typedef uint8_t pmix_alloc_directive_t;
#define PMIX_ALLOC_NEW                              1
#define PMIX_ALLOC_EXTEND                           2
#define PMIX_ALLOC_RELEASE                          3
#define PMIX_ALLOC_REAQUIRE                         4
#define PMIX_ALLOC_REQ_CANCEL                       5
#define PMIX_ALLOC_EXTERNAL                         128

/* The inheritance of a job's allocation by its children. */
typedef uint8_t pmix_alloc_inheritance_t;
#define PMIX_ALLOC_INHERIT_NONE                     1
#define PMIX_ALLOC_INHERIT_CHILD                    2
#define PMIX_ALLOC_INHERIT_DEFAULT                  3
#define PMIX_ALLOC_INHERIT_CHILD_DEFAULT            4

/* The request about a block of resources. */
typedef uint8_t pmix_resource_block_directive_t;
#define PMIX_RESOURCE_BLOCK_DEFINE                  1
#define PMIX_RESOURCE_BLOCK_EXTEND                  2
#define PMIX_RESOURCE_BLOCK_REMOVE                  3
#define PMIX_RESOURCE_BLOCK_DELETE                  4
#define PMIX_RESOURCE_BLOCK_EXTERNAL                128

/* Channels of input and output, as bits. */
typedef uint16_t pmix_iof_channel_t;
#define PMIX_FWD_NO_CHANNELS                        0
#define PMIX_FWD_STDIN_CHANNEL                      1
#define PMIX_FWD_STDOUT_CHANNEL                     2
#define PMIX_FWD_STDERR_CHANNEL                     4
#define PMIX_FWD_STDDIAG_CHANNEL                    8
#define PMIX_FWD_ALL_CHANNELS                       255

/* The view of coordinates. */
typedef uint8_t pmix_coord_view_t;
#define PMIX_COORD_VIEW_UNDEF                       0
#define PMIX_COORD_LOGICAL_VIEW                     1
#define PMIX_COORD_PHYSICAL_VIEW                    2

/* The state of a link. */
typedef uint8_t pmix_link_state_t;
#define PMIX_LINK_STATE_UNKNOWN                     0
#define PMIX_LINK_DOWN                              1
#define PMIX_LINK_UP                                2

/* The threads whose binding is meant: all of the process, or one. */
typedef uint8_t pmix_bind_envelope_t;
#define PMIX_CPUBIND_PROCESS                        0
#define PMIX_CPUBIND_THREAD                         1

/* The places that two processes share, as bits. */
typedef uint16_t pmix_locality_t;
#define PMIX_LOCALITY_UNKNOWN                       0
#define PMIX_LOCALITY_SHARE_HWTHREAD                1
#define PMIX_LOCALITY_SHARE_CORE                    2
#define PMIX_LOCALITY_SHARE_L1CACHE                 4
#define PMIX_LOCALITY_SHARE_L2CACHE                 8
#define PMIX_LOCALITY_SHARE_L3CACHE                 16
#define PMIX_LOCALITY_SHARE_PACKAGE                 32
#define PMIX_LOCALITY_SHARE_NUMA                    64
#define PMIX_LOCALITY_SHARE_NODE                    16384
#define PMIX_LOCALITY_NONLOCAL                      32768

/* Types of devices, as bits. */
typedef uint64_t pmix_device_type_t;
#define PMIX_DEVTYPE_UNKNOWN                        0
#define PMIX_DEVTYPE_BLOCK                          1
#define PMIX_DEVTYPE_GPU                            2
#define PMIX_DEVTYPE_NETWORK                        4
#define PMIX_DEVTYPE_OPENFABRICS                    8
#define PMIX_DEVTYPE_DMA                            16
#define PMIX_DEVTYPE_COPROC                         32
#define PMIX_DEVTYPE_MEMORY                         64
#define PMIX_DEVTYPE_CORE                           128
#define PMIX_DEVTYPE_HWT                            256
#define PMIX_DEVTYPE_CPU                            512
#define PMIX_DEVTYPE_NODE                           1024

/* The medium of storage, as bits. */
typedef uint64_t pmix_storage_medium_t;
#define PMIX_STORAGE_MEDIUM_UNKNOWN                 1
#define PMIX_STORAGE_MEDIUM_TAPE                    2
#define PMIX_STORAGE_MEDIUM_HDD                     4
#define PMIX_STORAGE_MEDIUM_SSD                     8
#define PMIX_STORAGE_MEDIUM_NVME                    16
#define PMIX_STORAGE_MEDIUM_PMEM                    32
#define PMIX_STORAGE_MEDIUM_RAM                     64

/* The reach of storage, as bits. */
typedef uint64_t pmix_storage_accessibility_t;
#define PMIX_STORAGE_ACCESSIBILITY_NODE             1
#define PMIX_STORAGE_ACCESSIBILITY_SESSION          2
#define PMIX_STORAGE_ACCESSIBILITY_JOB              4
#define PMIX_STORAGE_ACCESSIBILITY_RACK             8
#define PMIX_STORAGE_ACCESSIBILITY_CLUSTER          16
#define PMIX_STORAGE_ACCESSIBILITY_REMOTE           32

/* The persistence of storage, as bits. */
typedef uint64_t pmix_storage_persistence_t;
#define PMIX_STORAGE_PERSISTENCE_TEMPORARY          1
#define PMIX_STORAGE_PERSISTENCE_NODE               2
#define PMIX_STORAGE_PERSISTENCE_SESSION            4
#define PMIX_STORAGE_PERSISTENCE_JOB                8
#define PMIX_STORAGE_PERSISTENCE_SCRATCH            16
#define PMIX_STORAGE_PERSISTENCE_PROJECT            32
#define PMIX_STORAGE_PERSISTENCE_ARCHIVE            64

/* The access that storage allows, as bits. */
typedef uint16_t pmix_storage_access_type_t;
#define PMIX_STORAGE_ACCESS_RD                      1
#define PMIX_STORAGE_ACCESS_WR                      2
#define PMIX_STORAGE_ACCESS_RDWR                    3

/* A truth value: true, false, or none. */
typedef enum {
    PMIX_BOOL_TRUE = 0,
    PMIX_BOOL_FALSE = 1,
    PMIX_NON_BOOL = 2
} pmix_boolean_t;

/* The outcome of a comparison. */
typedef enum {
    PMIX_EQUAL = 0,
    PMIX_VALUE1_GREATER = 1,
    PMIX_VALUE2_GREATER = 2,
    PMIX_VALUE_TYPE_DIFFERENT = 3,
    PMIX_VALUE_INCOMPATIBLE_OBJECTS = 4,
    PMIX_VALUE_COMPARISON_NOT_AVAIL = 5
} pmix_value_cmp_t;

/* The answer to an invitation into a group. */
typedef enum {
    PMIX_GROUP_DECLINE = 0,
    PMIX_GROUP_ACCEPT = 1
} pmix_group_opt_t;

/* The request about a group. */
typedef enum {
    PMIX_GROUP_CONSTRUCT = 0,
    PMIX_GROUP_DESTRUCT = 1,
    PMIX_GROUP_NONE = 2,
    PMIX_GROUP_CANCEL = 3
} pmix_group_operation_t;

/* The request about a fabric. */
typedef enum {
    PMIX_FABRIC_REQUEST_INFO = 0,
    PMIX_FABRIC_UPDATE_INFO = 1
} pmix_fabric_operation_t;

/* Every application of a job. */
#define PMIX_APP_WILDCARD                           0xffffffffU

/* Attributes: keys, and the types of their values where there is one. */
#define PMIX_ABORT_NON_ZERO_TERM                    "pmix.abnz" /* PMIX_BOOL */
#define PMIX_ACCESS_GRPIDS                          "pmix.agids" /* PMIX_DATA_ARRAY */
#define PMIX_ACCESS_PERMISSIONS                     "pmix.aperms" /* PMIX_DATA_ARRAY */
#define PMIX_ACCESS_USERIDS                         "pmix.auids" /* PMIX_DATA_ARRAY */
#define PMIX_ADD_ENVAR                              "pmix.envar.add" /* PMIX_ENVAR */
#define PMIX_ADD_HOST                               "pmix.addhost" /* PMIX_STRING */
#define PMIX_ADD_HOSTFILE                           "pmix.addhostfile" /* PMIX_STRING */
#define PMIX_AGGREGATE_HELP                         "pmix.agg.help" /* PMIX_BOOL */
#define PMIX_ALLOCATED_NODELIST                     "pmix.alist" /* PMIX_STRING */
#define PMIX_ALLOC_BANDWIDTH                        "pmix.alloc.bw" /* PMIX_FLOAT */
#define PMIX_ALLOC_BEGIN                            "pmix.alloc.begin" /* PMIX_STRING */
#define PMIX_ALLOC_CHILD_SEP                        "pmix.alloc.sep" /* PMIX_BOOL */
#define PMIX_ALLOC_CPU_LIST                         "pmix.alloc.cpulist" /* PMIX_STRING */
#define PMIX_ALLOC_DEPENDENCY                       "pmix.alloc.depend" /* PMIX_STRING */
#define PMIX_ALLOC_EXCLUDE                          "pmix.alloc.exclude" /* PMIX_STRING */
#define PMIX_ALLOC_FABRIC                           "pmix.alloc.net" /* PMIX_DATA_ARRAY */
#define PMIX_ALLOC_FABRIC_ENDPTS                    "pmix.alloc.endpts" /* PMIX_SIZE */
#define PMIX_ALLOC_FABRIC_ENDPTS_NODE               "pmix.alloc.endpts.nd" /* PMIX_SIZE */
#define PMIX_ALLOC_FABRIC_ID                        "pmix.alloc.netid" /* PMIX_STRING */
#define PMIX_ALLOC_FABRIC_PLANE                     "pmix.alloc.netplane" /* PMIX_STRING */
#define PMIX_ALLOC_FABRIC_QOS                       "pmix.alloc.netqos" /* PMIX_STRING */
#define PMIX_ALLOC_FABRIC_SEC_KEY                   "pmix.alloc.nsec" /* PMIX_BYTE_OBJECT */
#define PMIX_ALLOC_FABRIC_TYPE                      "pmix.alloc.nettype" /* PMIX_STRING */
#define PMIX_ALLOC_ID                               "pmix.alloc.id" /* PMIX_STRING */
#define PMIX_ALLOC_IMAGE                            "pmix.alloc.image" /* PMIX_STRING */
#define PMIX_ALLOC_INHERITANCE                      "pmix.alloc.inhrt" /* PMIX_ALLOC_INHERIT */
#define PMIX_ALLOC_LEND                             "pmix.alloc.lend" /* PMIX_STRING */
#define PMIX_ALLOC_MAU                              "pmix.alloc.mau" /* PMIX_DATA_ARRAY */
#define PMIX_ALLOC_MEM_SIZE                         "pmix.alloc.msize" /* PMIX_FLOAT */
#define PMIX_ALLOC_NETWORK                          "pmix.alloc.net" /* PMIX_DATA_ARRAY */
#define PMIX_ALLOC_NETWORK_ENDPTS                   "pmix.alloc.endpts" /* PMIX_SIZE */
#define PMIX_ALLOC_NETWORK_ENDPTS_NODE              "pmix.alloc.endpts.nd" /* PMIX_SIZE */
#define PMIX_ALLOC_NETWORK_ID                       "pmix.alloc.netid" /* PMIX_STRING */
#define PMIX_ALLOC_NETWORK_PLANE                    "pmix.alloc.netplane" /* PMIX_STRING */
#define PMIX_ALLOC_NETWORK_QOS                      "pmix.alloc.netqos" /* PMIX_STRING */
#define PMIX_ALLOC_NETWORK_SEC_KEY                  "pmix.alloc.nsec" /* PMIX_BYTE_OBJECT */
#define PMIX_ALLOC_NETWORK_TYPE                     "pmix.alloc.nettype" /* PMIX_STRING */
#define PMIX_ALLOC_NODE_LIST                        "pmix.alloc.nlist" /* PMIX_STRING */
#define PMIX_ALLOC_NOSHELL                          "pmix.alloc.noshell" /* PMIX_BOOL */
#define PMIX_ALLOC_NOT_WAITING                      "pmix.alloc.notwait" /* PMIX_BOOL */
#define PMIX_ALLOC_NUM_BLOCKS                       "pmix.alloc.nblks" /* PMIX_UINT64 */
#define PMIX_ALLOC_NUM_CPUS                         "pmix.alloc.ncpus" /* PMIX_UINT64 */
#define PMIX_ALLOC_NUM_CPU_LIST                     "pmix.alloc.ncpulist" /* PMIX_STRING */
#define PMIX_ALLOC_NUM_NODES                        "pmix.alloc.nnodes" /* PMIX_UINT64 */
#define PMIX_ALLOC_PREEMPTIBLE                      "pmix.alloc.preempt" /* PMIX_BOOL */
#define PMIX_ALLOC_PROPERTY                         "pmix.alloc.property" /* PMIX_STRING */
#define PMIX_ALLOC_QUEUE                            "pmix.alloc.queue" /* PMIX_STRING */
#define PMIX_ALLOC_RELEASABLE                       "pmix.alloc.releasable" /* PMIX_BOOL */
#define PMIX_ALLOC_REQ_ID                           "pmix.alloc.reqid" /* PMIX_STRING */
#define PMIX_ALLOC_RES_BLOCK                        "pmix.alloc.blk" /* PMIX_STRING */
#define PMIX_ALLOC_SHARE                            "pmix.alloc.share" /* PMIX_BOOL */
#define PMIX_ALLOC_STATUS                           "pmix.alloc.status" /* PMIX_STATUS */
#define PMIX_ALLOC_TARGET                           "pmix.alloc.tgt" /* PMIX_STRING */
#define PMIX_ALLOC_TIME                             "pmix.alloc.time" /* PMIX_STRING */
#define PMIX_ALLOC_WAIT_ALL_NODES                   "pmix.alloc.waitall" /* PMIX_BOOL */
#define PMIX_ALLOC_WARN_TIMEOUT                     "pmix.alloc.wtmo" /* PMIX_UINT32 */
#define PMIX_ALLOW_CLIENT_CLONES                    "pmix.allow.clones" /* PMIX_BOOL */
#define PMIX_ALL_CLONES_PARTICIPATE                 "pmix.clone.part" /* PMIX_BOOL */
#define PMIX_ANL_MAP                                "pmix.anlmap" /* PMIX_STRING */
#define PMIX_APPEND_ENVAR                           "pmix.envar.appnd" /* PMIX_ENVAR */
#define PMIX_APPLDR                                 "pmix.aldr" /* PMIX_PROC_RANK */
#define PMIX_APPNUM                                 "pmix.appnum" /* PMIX_UINT32 */
#define PMIX_APP_ARGV                               "pmix.app.argv" /* PMIX_STRING */
#define PMIX_APP_INFO                               "pmix.app.info" /* PMIX_BOOL */
#define PMIX_APP_INFO_ARRAY                         "pmix.app.arr" /* PMIX_DATA_ARRAY */
#define PMIX_APP_MAP_REGEX                          "pmix.apmap.regex" /* PMIX_STRING */
#define PMIX_APP_MAP_TYPE                           "pmix.apmap.type" /* PMIX_STRING */
#define PMIX_APP_RANK                               "pmix.apprank" /* PMIX_PROC_RANK */
#define PMIX_APP_SIZE                               "pmix.app.size" /* PMIX_UINT32 */
#define PMIX_ARCH                                   "pmix.arch" /* PMIX_UINT32 */
#define PMIX_ATTR_UNDEF                             "pmix.undef"
#define PMIX_AVAIL_PHYS_MEMORY                      "pmix.pmem" /* PMIX_UINT64 */
#define PMIX_BFROPS_MODULE                          "pmix.bfrops.mod" /* PMIX_STRING */
#define PMIX_BINDTO                                 "pmix.bindto" /* PMIX_STRING */
#define PMIX_BIND_PROGRESS_THREAD                   "pmix.bind.pt" /* PMIX_STRING */
#define PMIX_BIND_REQUIRED                          "pmix.bind.reqd" /* PMIX_BOOL */
#define PMIX_BREAKPOINT                             "pmix.brkpnt" /* PMIX_STRING */
#define PMIX_CLEANUP_EMPTY                          "pmix.clnup.empty" /* PMIX_BOOL */
#define PMIX_CLEANUP_IGNORE                         "pmix.clnup.ignore" /* PMIX_STRING */
#define PMIX_CLEANUP_LEAVE_TOPDIR                   "pmix.clnup.lvtop" /* PMIX_BOOL */
#define PMIX_CLEANUP_RECURSIVE                      "pmix.clnup.recurse" /* PMIX_BOOL */
#define PMIX_CLIENT_ATTRIBUTES                      "pmix.client.attrs" /* PMIX_STRING */
#define PMIX_CLIENT_AVG_MEMORY                      "pmix.cl.mem.avg" /* PMIX_FLOAT */
#define PMIX_CLIENT_FUNCTIONS                       "pmix.client.fns" /* PMIX_STRING */
#define PMIX_CLUSTER_ID                             "pmix.clid" /* PMIX_STRING */
#define PMIX_CMD_LINE                               "pmix.cmd.line" /* PMIX_STRING */
#define PMIX_COLLECTIVE_ALGO                        "pmix.calgo" /* PMIX_STRING */
#define PMIX_COLLECTIVE_ALGO_REQD                   "pmix.calreqd" /* PMIX_BOOL */
#define PMIX_COLLECT_DATA                           "pmix.collect" /* PMIX_BOOL */
#define PMIX_COLLECT_GENERATED_JOB_INFO             "pmix.collect.gen" /* PMIX_BOOL */
#define PMIX_COLOCATE_NPERNODE                      "pmix.colnum.node" /* PMIX_UINT16 */
#define PMIX_COLOCATE_NPERPROC                      "pmix.colnum.proc" /* PMIX_UINT16 */
#define PMIX_COLOCATE_PROCS                         "pmix.colproc" /* PMIX_DATA_ARRAY */
#define PMIX_CONNECTION_ORDER                       "pmix.cnct.ord" /* PMIX_STRING */
#define PMIX_CONNECT_MAX_RETRIES                    "pmix.tool.mretries" /* PMIX_UINT32 */
#define PMIX_CONNECT_RETRY_DELAY                    "pmix.tool.retry" /* PMIX_UINT32 */
#define PMIX_CONNECT_SYSTEM_FIRST                   "pmix.cnct.sys.first" /* PMIX_BOOL */
#define PMIX_CONNECT_TO_SCHEDULER                   "pmix.cnct.sched" /* PMIX_BOOL */
#define PMIX_CONNECT_TO_SYSTEM                      "pmix.cnct.sys" /* PMIX_BOOL */
#define PMIX_CONNECT_TO_SYS_CONTROLLER              "pmix.cnct.ctrlr" /* PMIX_BOOL */
#define PMIX_COSPAWN_APP                            "pmix.cospawn" /* PMIX_BOOL */
#define PMIX_CPUSET                                 "pmix.cpuset" /* PMIX_STRING */
#define PMIX_CPUSET_BITMAP                          "pmix.bitmap" /* PMIX_PROC_CPUSET */
#define PMIX_CPUS_PER_PROC                          "pmix.cpuperproc" /* PMIX_UINT32 */
#define PMIX_CPU_LIST                               "pmix.cpulist" /* PMIX_STRING */
#define PMIX_CREDENTIAL                             "pmix.cred" /* PMIX_STRING */
#define PMIX_CRED_TYPE                              "pmix.sec.ctype" /* PMIX_STRING */
#define PMIX_CRYPTO_KEY                             "pmix.sec.key" /* PMIX_BYTE_OBJECT */
#define PMIX_DAEMON_MEMORY                          "pmix.dmn.mem" /* PMIX_FLOAT */
#define PMIX_DATA_SCOPE                             "pmix.scope" /* PMIX_SCOPE */
#define PMIX_DEBUGGER_DAEMONS                       "pmix.debugger" /* PMIX_BOOL */
#define PMIX_DEBUG_APP_DIRECTIVES                   "pmix.dbg.adirs" /* PMIX_DATA_ARRAY */
#define PMIX_DEBUG_DAEMONS_PER_NODE                 "pmix.dbg.dpnd" /* PMIX_UINT16 */
#define PMIX_DEBUG_DAEMONS_PER_PROC                 "pmix.dbg.dpproc" /* PMIX_UINT16 */
#define PMIX_DEBUG_JOB                              "pmix.dbg.job" /* PMIX_STRING */
#define PMIX_DEBUG_JOB_DIRECTIVES                   "pmix.dbg.jdirs" /* PMIX_DATA_ARRAY */
#define PMIX_DEBUG_STOP_IN_APP                      "pmix.dbg.notify"
#define PMIX_DEBUG_STOP_IN_INIT                     "pmix.dbg.init"
#define PMIX_DEBUG_STOP_ON_EXEC                     "pmix.dbg.exec"
#define PMIX_DEBUG_TARGET                           "pmix.dbg.tgt" /* PMIX_PROC */
#define PMIX_DEVICE_DISTANCES                       "pmix.dev.dist" /* PMIX_DATA_ARRAY */
#define PMIX_DEVICE_ID                              "pmix.dev.id" /* PMIX_STRING */
#define PMIX_DEVICE_TYPE                            "pmix.dev.type" /* PMIX_DEVTYPE */
#define PMIX_DISK_ID                                "pmix.disk.id" /* PMIX_STRING */
#define PMIX_DISK_IO_IN_PROGRESS                    "pmix.disk.ios" /* PMIX_UINT64 */
#define PMIX_DISK_IO_MILLISEC                       "pmix.disk.ioms" /* PMIX_UINT64 */
#define PMIX_DISK_IO_WEIGHTED                       "pmix.disk.iowght" /* PMIX_UINT64 */
#define PMIX_DISK_READ_COMPLETED                    "pmix.disk.rdscomp" /* PMIX_UINT64 */
#define PMIX_DISK_READ_MERGED                       "pmix.disk.rdsmrgd" /* PMIX_UINT64 */
#define PMIX_DISK_READ_MILLISEC                     "pmix.disk.rdms" /* PMIX_UINT64 */
#define PMIX_DISK_READ_SECTORS                      "pmix.disk.rdsct" /* PMIX_UINT64 */
#define PMIX_DISK_RESOURCE_USAGE                    "pmix.disk.res" /* PMIX_DATA_ARRAY */
#define PMIX_DISK_SAMPLE_TIME                       "pmix.disk.samptime" /* PMIX_TIME */
#define PMIX_DISK_WRITE_COMPLETED                   "pmix.disk.wtscomp" /* PMIX_UINT64 */
#define PMIX_DISK_WRITE_MERGED                      "pmix.disk.wtsmrgd" /* PMIX_UINT64 */
#define PMIX_DISK_WRITE_MILLISEC                    "pmix.disk.wtms" /* PMIX_UINT64 */
#define PMIX_DISK_WRITE_SECTORS                     "pmix.disk.wtsct" /* PMIX_UINT64 */
#define PMIX_DISPLAY_ALLOCATION                     "pmix.dispalloc" /* PMIX_BOOL */
#define PMIX_DISPLAY_MAP                            "pmix.dispmap" /* PMIX_BOOL */
#define PMIX_DISPLAY_MAP_DETAILED                   "pmix.dispmapdet" /* PMIX_BOOL */
#define PMIX_DISPLAY_PARSEABLE_OUTPUT               "pmix.dispparse" /* PMIX_BOOL */
#define PMIX_DISPLAY_PROCESSORS                     "pmix.dispcpus" /* PMIX_STRING */
#define PMIX_DISPLAY_TOPOLOGY                       "pmix.disptopo" /* PMIX_STRING */
#define PMIX_DO_NOT_LAUNCH                          "pmix.dnl" /* PMIX_BOOL */
#define PMIX_DSTPATH                                "pmix.dstpath" /* PMIX_STRING */
#define PMIX_EMBED_BARRIER                          "pmix.embed.barrier" /* PMIX_BOOL */
#define PMIX_ENUM_VALUE                             "pmix.descr.enum" /* PMIX_STRING */
#define PMIX_ENVARS_HARVESTED                       "pmix.evar.hvstd" /* PMIX_BOOL */
#define PMIX_EVENT_ACTION_TIMEOUT                   "pmix.evtimeout" /* PMIX_INT */
#define PMIX_EVENT_AFFECTED_PROC                    "pmix.evproc" /* PMIX_PROC */
#define PMIX_EVENT_AFFECTED_PROCS                   "pmix.evaffected" /* PMIX_DATA_ARRAY */
#define PMIX_EVENT_BASE                             "pmix.evbase" /* PMIX_POINTER */
#define PMIX_EVENT_CUSTOM_RANGE                     "pmix.evrange" /* PMIX_DATA_ARRAY */
#define PMIX_EVENT_DO_NOT_CACHE                     "pmix.evnocache" /* PMIX_BOOL */
#define PMIX_EVENT_HDLR_AFTER                       "pmix.evafter" /* PMIX_STRING */
#define PMIX_EVENT_HDLR_APPEND                      "pmix.evappend" /* PMIX_BOOL */
#define PMIX_EVENT_HDLR_BEFORE                      "pmix.evbefore" /* PMIX_STRING */
#define PMIX_EVENT_HDLR_FIRST                       "pmix.evfirst" /* PMIX_BOOL */
#define PMIX_EVENT_HDLR_FIRST_IN_CATEGORY           "pmix.evfirstcat" /* PMIX_BOOL */
#define PMIX_EVENT_HDLR_LAST                        "pmix.evlast" /* PMIX_BOOL */
#define PMIX_EVENT_HDLR_LAST_IN_CATEGORY            "pmix.evlastcat" /* PMIX_BOOL */
#define PMIX_EVENT_HDLR_NAME                        "pmix.evname" /* PMIX_STRING */
#define PMIX_EVENT_HDLR_PREPEND                     "pmix.evprepend" /* PMIX_BOOL */
#define PMIX_EVENT_NON_DEFAULT                      "pmix.evnondef" /* PMIX_BOOL */
#define PMIX_EVENT_NO_TERMINATION                   "pmix.evnoterm" /* PMIX_BOOL */
#define PMIX_EVENT_ONESHOT                          "pmix.evone" /* PMIX_BOOL */
#define PMIX_EVENT_PROXY                            "pmix.evproxy" /* PMIX_PROC */
#define PMIX_EVENT_RETURN_OBJECT                    "pmix.evobject" /* PMIX_POINTER */
#define PMIX_EVENT_SILENT_TERMINATION               "pmix.evsilentterm" /* PMIX_BOOL */
#define PMIX_EVENT_STAYS_LOCAL                      "pmix.evlocal" /* PMIX_BOOL */
#define PMIX_EVENT_TERMINATE_JOB                    "pmix.evterm.job" /* PMIX_BOOL */
#define PMIX_EVENT_TERMINATE_NODE                   "pmix.evterm.node" /* PMIX_BOOL */
#define PMIX_EVENT_TERMINATE_PROC                   "pmix.evterm.proc" /* PMIX_BOOL */
#define PMIX_EVENT_TERMINATE_SESSION                "pmix.evterm.sess" /* PMIX_BOOL */
#define PMIX_EVENT_TEXT_MESSAGE                     "pmix.evtext" /* PMIX_STRING */
#define PMIX_EVENT_TIMESTAMP                        "pmix.evtstamp" /* PMIX_TIME */
#define PMIX_EVENT_WANT_TERMINATION                 "pmix.evterm" /* PMIX_BOOL */
#define PMIX_EXEC_AGENT                             "pmix.exec.agnt" /* PMIX_STRING */
#define PMIX_EXIT_CODE                              "pmix.exit.code" /* PMIX_INT */
#define PMIX_EXTERNAL_AUX_EVENT_BASE                "pmix.evaux" /* PMIX_POINTER */
#define PMIX_EXTERNAL_PROGRESS                      "pmix.evext" /* PMIX_BOOL */
#define PMIX_FABRIC_COORDINATES                     "pmix.fab.coord" /* PMIX_DATA_ARRAY */
#define PMIX_FABRIC_COST_MATRIX                     "pmix.fab.cm" /* PMIX_POINTER */
#define PMIX_FABRIC_DEVICE                          "pmix.fabdev" /* PMIX_DATA_ARRAY */
#define PMIX_FABRIC_DEVICES                         "pmix.fab.devs" /* PMIX_DATA_ARRAY */
#define PMIX_FABRIC_DEVICE_ADDRESS                  "pmix.fabdev.addr" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_BUS_TYPE                 "pmix.fabdev.btyp" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_COORDINATES              "pmix.fab.coord" /* PMIX_GEOMETRY */
#define PMIX_FABRIC_DEVICE_DRIVER                   "pmix.fabdev.driver" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_FIRMWARE                 "pmix.fabdev.fmwr" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_INDEX                    "pmix.fabdev.idx" /* PMIX_UINT32 */
#define PMIX_FABRIC_DEVICE_MTU                      "pmix.fabdev.mtu" /* PMIX_SIZE */
#define PMIX_FABRIC_DEVICE_NAME                     "pmix.fabdev.nm" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_PCI_DEVID                "pmix.fabdev.pcidevid" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_SPEED                    "pmix.fabdev.speed" /* PMIX_SIZE */
#define PMIX_FABRIC_DEVICE_STATE                    "pmix.fabdev.state" /* PMIX_LINK_STATE */
#define PMIX_FABRIC_DEVICE_TYPE                     "pmix.fabdev.type" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_VENDOR                   "pmix.fabdev.vndr" /* PMIX_STRING */
#define PMIX_FABRIC_DEVICE_VENDORID                 "pmix.fabdev.vendid" /* PMIX_STRING */
#define PMIX_FABRIC_DIMS                            "pmix.fab.dims" /* PMIX_UINT32 */
#define PMIX_FABRIC_ENDPT                           "pmix.fab.endpt" /* PMIX_DATA_ARRAY */
#define PMIX_FABRIC_GROUPS                          "pmix.fab.grps" /* PMIX_STRING */
#define PMIX_FABRIC_IDENTIFIER                      "pmix.fab.id" /* PMIX_STRING */
#define PMIX_FABRIC_INDEX                           "pmix.fab.idx" /* PMIX_SIZE */
#define PMIX_FABRIC_NUM_DEVICES                     "pmix.fab.nverts" /* PMIX_SIZE */
#define PMIX_FABRIC_PLANE                           "pmix.fab.plane" /* PMIX_STRING */
#define PMIX_FABRIC_SHAPE                           "pmix.fab.shape" /* PMIX_DATA_ARRAY */
#define PMIX_FABRIC_SHAPE_STRING                    "pmix.fab.shapestr" /* PMIX_STRING */
#define PMIX_FABRIC_SWITCH                          "pmix.fab.switch" /* PMIX_STRING */
#define PMIX_FABRIC_VENDOR                          "pmix.fab.vndr" /* PMIX_STRING */
#define PMIX_FIRST_ENVAR                            "pmix.envar.first" /* PMIX_ENVAR */
#define PMIX_FORKEXEC_AGENT                         "pmix.fe.agnt" /* PMIX_STRING */
#define PMIX_FWD_ENVIRONMENT                        "pmix.fwdenv" /* PMIX_BOOL */
#define PMIX_FWD_STDDIAG                            "pmix.fwd.stddiag" /* PMIX_BOOL */
#define PMIX_FWD_STDERR                             "pmix.fwd.stderr" /* PMIX_BOOL */
#define PMIX_FWD_STDIN                              "pmix.fwd.stdin" /* PMIX_BOOL */
#define PMIX_FWD_STDOUT                             "pmix.fwd.stdout" /* PMIX_BOOL */
#define PMIX_GDS_MODULE                             "pmix.gds.mod" /* PMIX_STRING */
#define PMIX_GET_POINTER_VALUES                     "pmix.get.pntrs" /* PMIX_BOOL */
#define PMIX_GET_REFRESH_CACHE                      "pmix.get.refresh" /* PMIX_BOOL */
#define PMIX_GET_STATIC_VALUES                      "pmix.get.static" /* PMIX_BOOL */
#define PMIX_GLOBAL_RANK                            "pmix.grank" /* PMIX_PROC_RANK */
#define PMIX_GPU_SUPPORT                            "pmix.gpu.support" /* PMIX_BOOL */
#define PMIX_GROUP_ADD_MEMBERS                      "pmix.grp.add" /* PMIX_DATA_ARRAY */
#define PMIX_GROUP_ASSIGN_CONTEXT_ID                "pmix.grp.actxid" /* PMIX_BOOL */
#define PMIX_GROUP_BOOTSTRAP                        "pmix.grp.btstrp" /* PMIX_SIZE */
#define PMIX_GROUP_CONTEXT_ID                       "pmix.grp.ctxid" /* PMIX_SIZE */
#define PMIX_GROUP_ENDPT_DATA                       "pmix.grp.endpt" /* PMIX_DATA_ARRAY */
#define PMIX_GROUP_FINAL_MEMBERSHIP_ORDER           "pmix.grp.finord" /* PMIX_DATA_ARRAY */
#define PMIX_GROUP_FT_COLLECTIVE                    "pmix.grp.ftcoll" /* PMIX_BOOL */
#define PMIX_GROUP_ID                               "pmix.grp.id" /* PMIX_STRING */
#define PMIX_GROUP_INFO                             "pmix.grp.info" /* PMIX_DATA_ARRAY */
#define PMIX_GROUP_INFO_ARRAY                       "pmix.grp.infoarray" /* PMIX_DATA_ARRAY */
#define PMIX_GROUP_JOB_INFO                         "pmix.grp.jinfo" /* PMIX_BYTE_OBJECT */
#define PMIX_GROUP_LEADER                           "pmix.grp.ldr" /* PMIX_BOOL */
#define PMIX_GROUP_LOCAL_CID                        "pmix.grp.lclid" /* PMIX_SIZE */
#define PMIX_GROUP_LOCAL_ONLY                       "pmix.grp.lcl" /* PMIX_BOOL */
#define PMIX_GROUP_MEMBERSHIP                       "pmix.grp.mbrs" /* PMIX_DATA_ARRAY */
#define PMIX_GROUP_NAMES                            "pmix.pgrp.nm" /* PMIX_DATA_ARRAY */
#define PMIX_GROUP_NOTIFY_TERMINATION               "pmix.grp.notterm" /* PMIX_BOOL */
#define PMIX_GROUP_OPTIONAL                         "pmix.grp.opt" /* PMIX_BOOL */
#define PMIX_GRPID                                  "pmix.egid" /* PMIX_UINT32 */
#define PMIX_HOMOGENEOUS_SYSTEM                     "pmix.homo" /* PMIX_BOOL */
#define PMIX_HOST                                   "pmix.host" /* PMIX_STRING */
#define PMIX_HOSTFILE                               "pmix.hostfile" /* PMIX_STRING */
#define PMIX_HOSTNAME                               "pmix.hname" /* PMIX_STRING */
#define PMIX_HOSTNAME_ALIASES                       "pmix.alias" /* PMIX_STRING */
#define PMIX_HOSTNAME_KEEP_FQDN                     "pmix.fqdn" /* PMIX_BOOL */
#define PMIX_HOST_ATTRIBUTES                        "pmix.host.attrs" /* PMIX_STRING */
#define PMIX_HOST_FUNCTIONS                         "pmix.host.fns" /* PMIX_STRING */
#define PMIX_HWLOC_HOLE_KIND                        "pmix.hwlocholek" /* PMIX_STRING */
#define PMIX_HWLOC_SHARE_TOPO                       "pmix.hwlocsh" /* PMIX_BOOL */
#define PMIX_HWLOC_SHMEM_ADDR                       "pmix.hwlocaddr" /* PMIX_SIZE */
#define PMIX_HWLOC_SHMEM_FILE                       "pmix.hwlocfile" /* PMIX_STRING */
#define PMIX_HWLOC_SHMEM_SIZE                       "pmix.hwlocsize" /* PMIX_SIZE */
#define PMIX_HWLOC_XML_V1                           "pmix.hwlocxml1" /* PMIX_STRING */
#define PMIX_HWLOC_XML_V2                           "pmix.hwlocxml2" /* PMIX_STRING */
#define PMIX_IMMEDIATE                              "pmix.immediate" /* PMIX_BOOL */
#define PMIX_INDEX_ARGV                             "pmix.indxargv" /* PMIX_BOOL */
#define PMIX_IOF_BUFFERING_SIZE                     "pmix.iof.bsize" /* PMIX_UINT32 */
#define PMIX_IOF_BUFFERING_TIME                     "pmix.iof.btime" /* PMIX_UINT32 */
#define PMIX_IOF_CACHE_SIZE                         "pmix.iof.csize" /* PMIX_UINT32 */
#define PMIX_IOF_COMPLETE                           "pmix.iof.cmp" /* PMIX_BOOL */
#define PMIX_IOF_COPY                               "pmix.iof.cpy" /* PMIX_BOOL */
#define PMIX_IOF_DROP_NEWEST                        "pmix.iof.new" /* PMIX_BOOL */
#define PMIX_IOF_DROP_OLDEST                        "pmix.iof.old" /* PMIX_BOOL */
#define PMIX_IOF_FILE_ONLY                          "pmix.iof.fonly" /* PMIX_BOOL */
#define PMIX_IOF_FILE_PATTERN                       "pmix.iof.fpt" /* PMIX_BOOL */
#define PMIX_IOF_INHERIT                            "pmix.iof.inhrt" /* PMIX_BOOL */
#define PMIX_IOF_LOCAL_OUTPUT                       "pmix.iof.local" /* PMIX_BOOL */
#define PMIX_IOF_MERGE_STDERR_STDOUT                "pmix.iof.mrg" /* PMIX_BOOL */
#define PMIX_IOF_OUTPUT_RAW                         "pmix.iof.raw" /* PMIX_BOOL */
#define PMIX_IOF_OUTPUT_TO_DIRECTORY                "pmix.iof.dir" /* PMIX_STRING */
#define PMIX_IOF_OUTPUT_TO_FILE                     "pmix.iof.file" /* PMIX_STRING */
#define PMIX_IOF_PUSH_STDIN                         "pmix.iof.stdin" /* PMIX_BOOL */
#define PMIX_IOF_RANK_OUTPUT                        "pmix.iof.rank" /* PMIX_BOOL */
#define PMIX_IOF_REDIRECT                           "pmix.iof.redir" /* PMIX_BOOL */
#define PMIX_IOF_STOP                               "pmix.iof.stop" /* PMIX_BOOL */
#define PMIX_IOF_TAG_DETAILED_OUTPUT                "pmix.iof.tagdet" /* PMIX_BOOL */
#define PMIX_IOF_TAG_FULLNAME_OUTPUT                "pmix.iof.tagfull" /* PMIX_BOOL */
#define PMIX_IOF_TAG_OUTPUT                         "pmix.iof.tag" /* PMIX_BOOL */
#define PMIX_IOF_TIMESTAMP_OUTPUT                   "pmix.iof.ts" /* PMIX_BOOL */
#define PMIX_IOF_XML_OUTPUT                         "pmix.iof.xml" /* PMIX_BOOL */
#define PMIX_JOBID                                  "pmix.jobid" /* PMIX_STRING */
#define PMIX_JOB_CONTINUOUS                         "pmix.continuous" /* PMIX_BOOL */
#define PMIX_JOB_CTRL_CANCEL                        "pmix.jctrl.cancel" /* PMIX_STRING */
#define PMIX_JOB_CTRL_CHECKPOINT                    "pmix.jctrl.ckpt" /* PMIX_STRING */
#define PMIX_JOB_CTRL_CHECKPOINT_EVENT              "pmix.jctrl.ckptev" /* PMIX_BOOL */
#define PMIX_JOB_CTRL_CHECKPOINT_METHOD             "pmix.jctrl.ckmethod" /* PMIX_DATA_ARRAY */
#define PMIX_JOB_CTRL_CHECKPOINT_SIGNAL             "pmix.jctrl.ckptsig" /* PMIX_INT */
#define PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT            "pmix.jctrl.ckptsig" /* PMIX_INT */
#define PMIX_JOB_CTRL_DEFINE_PSET                   "pmix.jctrl.defpset" /* PMIX_STRING */
#define PMIX_JOB_CTRL_ID                            "pmix.jctrl.id" /* PMIX_STRING */
#define PMIX_JOB_CTRL_KILL                          "pmix.jctrl.kill" /* PMIX_BOOL */
#define PMIX_JOB_CTRL_PAUSE                         "pmix.jctrl.pause" /* PMIX_BOOL */
#define PMIX_JOB_CTRL_PREEMPTIBLE                   "pmix.jctrl.preempt" /* PMIX_BOOL */
#define PMIX_JOB_CTRL_PROVISION                     "pmix.jctrl.pvn" /* PMIX_STRING */
#define PMIX_JOB_CTRL_PROVISION_IMAGE               "pmix.jctrl.pvnimg" /* PMIX_STRING */
#define PMIX_JOB_CTRL_RESTART                       "pmix.jctrl.restart" /* PMIX_STRING */
#define PMIX_JOB_CTRL_RESUME                        "pmix.jctrl.resume" /* PMIX_BOOL */
#define PMIX_JOB_CTRL_SEP                           "pmix.jctrl.sep" /* PMIX_BOOL */
#define PMIX_JOB_CTRL_SIGNAL                        "pmix.jctrl.sig" /* PMIX_INT */
#define PMIX_JOB_CTRL_TERMINATE                     "pmix.jctrl.term" /* PMIX_BOOL */
#define PMIX_JOB_INFO                               "pmix.job.info" /* PMIX_BOOL */
#define PMIX_JOB_INFO_ARRAY                         "pmix.job.arr" /* PMIX_DATA_ARRAY */
#define PMIX_JOB_NUM_APPS                           "pmix.job.napps" /* PMIX_UINT32 */
#define PMIX_JOB_RECOVERABLE                        "pmix.recover" /* PMIX_BOOL */
#define PMIX_JOB_SIZE                               "pmix.job.size" /* PMIX_UINT32 */
#define PMIX_JOB_TERM_STATUS                        "pmix.job.term.status" /* PMIX_STATUS */
#define PMIX_JOB_TIMEOUT                            "pmix.job.time" /* PMIX_INT */
#define PMIX_LAUNCHER                               "pmix.tool.launcher" /* PMIX_BOOL */
#define PMIX_LAUNCHER_DAEMON                        "pmix.lnch.dmn" /* PMIX_STRING */
#define PMIX_LAUNCHER_RENDEZVOUS_FILE               "pmix.tool.lncrnd" /* PMIX_STRING */
#define PMIX_LAUNCH_DIRECTIVES                      "pmix.lnch.dirs" /* PMIX_DATA_ARRAY */
#define PMIX_LOCALITY                               "pmix.loc" /* PMIX_UINT16 */
#define PMIX_LOCALITY_STRING                        "pmix.locstr" /* PMIX_STRING */
#define PMIX_LOCALLDR                               "pmix.lldr" /* PMIX_PROC_RANK */
#define PMIX_LOCAL_COLLECTIVE_STATUS                "pmix.loc.col.st" /* PMIX_STATUS */
#define PMIX_LOCAL_CPUSETS                          "pmix.lcpus" /* PMIX_STRING */
#define PMIX_LOCAL_PARTICIPANTS                     "pmix.lcl.part" /* PMIX_DATA_ARRAY */
#define PMIX_LOCAL_PEERS                            "pmix.lpeers" /* PMIX_STRING */
#define PMIX_LOCAL_PROCS                            "pmix.lprocs" /* PMIX_DATA_ARRAY */
#define PMIX_LOCAL_RANK                             "pmix.lrank" /* PMIX_UINT16 */
#define PMIX_LOCAL_SIZE                             "pmix.local.size" /* PMIX_UINT32 */
#define PMIX_LOCAL_TOPO                             "pmix.ltopo" /* PMIX_STRING */
#define PMIX_LOG_AGG                                "pmix.log.agg" /* PMIX_BOOL */
#define PMIX_LOG_COMPLETION                         "pmix.logcomp" /* PMIX_BOOL */
#define PMIX_LOG_EMAIL                              "pmix.log.email" /* PMIX_DATA_ARRAY */
#define PMIX_LOG_EMAIL_ADDR                         "pmix.log.emaddr" /* PMIX_STRING */
#define PMIX_LOG_EMAIL_MSG                          "pmix.log.emmsg" /* PMIX_STRING */
#define PMIX_LOG_EMAIL_SENDER_ADDR                  "pmix.log.emfaddr" /* PMIX_STRING */
#define PMIX_LOG_EMAIL_SERVER                       "pmix.log.esrvr" /* PMIX_STRING */
#define PMIX_LOG_EMAIL_SRVR_PORT                    "pmix.log.esrvrprt" /* PMIX_INT32 */
#define PMIX_LOG_EMAIL_SUBJECT                      "pmix.log.emsub" /* PMIX_STRING */
#define PMIX_LOG_GENERATE_TIMESTAMP                 "pmix.log.gtstmp" /* PMIX_BOOL */
#define PMIX_LOG_GLOBAL_DATASTORE                   "pmix.log.gstore" /* PMIX_BOOL */
#define PMIX_LOG_GLOBAL_SYSLOG                      "pmix.log.gsys" /* PMIX_STRING */
#define PMIX_LOG_JOB_EVENTS                         "pmix.log.jev" /* PMIX_BOOL */
#define PMIX_LOG_JOB_RECORD                         "pmix.log.jrec" /* PMIX_BOOL */
#define PMIX_LOG_KEY                                "pmix.log.key" /* PMIX_STRING */
#define PMIX_LOG_LOCAL_SYSLOG                       "pmix.log.lsys" /* PMIX_STRING */
#define PMIX_LOG_MSG                                "pmix.log.msg" /* PMIX_BYTE_OBJECT */
#define PMIX_LOG_ONCE                               "pmix.log.once" /* PMIX_BOOL */
#define PMIX_LOG_PROC_ABNORMAL_TERMINATION          "pmix.logabproc" /* PMIX_BOOL */
#define PMIX_LOG_PROC_TERMINATION                   "pmix.logproc" /* PMIX_BOOL */
#define PMIX_LOG_SOURCE                             "pmix.log.source" /* PMIX_PROC */
#define PMIX_LOG_STDERR                             "pmix.log.stderr" /* PMIX_STRING */
#define PMIX_LOG_STDOUT                             "pmix.log.stdout" /* PMIX_STRING */
#define PMIX_LOG_SYSLOG                             "pmix.log.syslog" /* PMIX_STRING */
#define PMIX_LOG_SYSLOG_PRI                         "pmix.log.syspri" /* PMIX_INT */
#define PMIX_LOG_TAG_OUTPUT                         "pmix.log.tag" /* PMIX_BOOL */
#define PMIX_LOG_TIMESTAMP                          "pmix.log.tstmp" /* PMIX_TIME */
#define PMIX_LOG_TIMESTAMP_OUTPUT                   "pmix.log.tsout" /* PMIX_BOOL */
#define PMIX_LOG_VAL                                "pmix.log.val" /* PMIX_STRING */
#define PMIX_LOG_XML_OUTPUT                         "pmix.log.xml" /* PMIX_BOOL */
#define PMIX_MAPBY                                  "pmix.mapby" /* PMIX_STRING */
#define PMIX_MAPPER                                 "pmix.mapper" /* PMIX_STRING */
#define PMIX_MAP_BLOB                               "pmix.mblob" /* PMIX_BYTE_OBJECT */
#define PMIX_MAX_PROCS                              "pmix.max.size" /* PMIX_UINT32 */
#define PMIX_MAX_RESTARTS                           "pmix.maxrestarts" /* PMIX_UINT32 */
#define PMIX_MAX_VALUE                              "pmix.descr.maxval"
#define PMIX_MEM_ALLOC_KIND                         "pmix.alloc.mkind" /* PMIX_STRING */
#define PMIX_MERGE_STDERR_STDOUT                    "pmix.mergeerrout" /* PMIX_BOOL */
#define PMIX_MIN_VALUE                              "pmix.descr.minval"
#define PMIX_MODEL_AFFINITY_POLICY                  "pmix.mdl.tap" /* PMIX_STRING */
#define PMIX_MODEL_CPU_TYPE                         "pmix.mdl.cputype" /* PMIX_STRING */
#define PMIX_MODEL_LIBRARY_NAME                     "pmix.mdl.name" /* PMIX_STRING */
#define PMIX_MODEL_LIBRARY_VERSION                  "pmix.mld.vrs" /* PMIX_STRING */
#define PMIX_MODEL_NUM_CPUS                         "pmix.mdl.ncpu" /* PMIX_UINT64 */
#define PMIX_MODEL_NUM_THREADS                      "pmix.mdl.nthrds" /* PMIX_UINT64 */
#define PMIX_MODEL_PHASE_NAME                       "pmix.mdl.phase" /* PMIX_STRING */
#define PMIX_MODEL_PHASE_TYPE                       "pmix.mdl.ptype" /* PMIX_STRING */
#define PMIX_MONITOR_APP_CONTROL                    "pmix.monitor.appctrl" /* PMIX_BOOL */
#define PMIX_MONITOR_CANCEL                         "pmix.monitor.cancel" /* PMIX_STRING */
#define PMIX_MONITOR_DISK_RESOURCE_USAGE            "pmix.monitor.dkresuse" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_FILE                           "pmix.monitor.fmon" /* PMIX_STRING */
#define PMIX_MONITOR_FILE_ACCESS                    "pmix.monitor.faccess" /* PMIX_STRING */
#define PMIX_MONITOR_FILE_CHECK_TIME                "pmix.monitor.ftime" /* PMIX_UINT32 */
#define PMIX_MONITOR_FILE_DROPS                     "pmix.monitor.fdrop" /* PMIX_UINT32 */
#define PMIX_MONITOR_FILE_MODIFY                    "pmix.monitor.fmod" /* PMIX_STRING */
#define PMIX_MONITOR_FILE_SIZE                      "pmix.monitor.fsize" /* PMIX_BOOL */
#define PMIX_MONITOR_HEARTBEAT                      "pmix.monitor.mbeat" /* PMIX_BOOL */
#define PMIX_MONITOR_HEARTBEAT_DROPS                "pmix.monitor.bdrop" /* PMIX_UINT32 */
#define PMIX_MONITOR_HEARTBEAT_TIME                 "pmix.monitor.btime" /* PMIX_UINT32 */
#define PMIX_MONITOR_ID                             "pmix.monitor.id" /* PMIX_STRING */
#define PMIX_MONITOR_LOCAL_ONLY                     "pmix.monitor.local" /* PMIX_BOOL */
#define PMIX_MONITOR_NET_RESOURCE_USAGE             "pmix.monitor.netresuse" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_NODE_RESOURCE_USAGE            "pmix.monitor.ndresuse" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_PROC_RESOURCE_USAGE            "pmix.monitor.presuse" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_PROXY                          "pmix.monitor.proxy" /* PMIX_PROC */
#define PMIX_MONITOR_RESOURCE_RATE                  "pmix.monitor.resrate" /* PMIX_UINT32 */
#define PMIX_MONITOR_TARGET_DISKS                   "pmix.monitor.tgtdks" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_TARGET_NETS                    "pmix.monitor.tgtnets" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_TARGET_NODEIDS                 "pmix.monitor.tgtndids" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_TARGET_NODES                   "pmix.monitor.tgtnode" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_TARGET_PIDS                    "pmix.monitor.tgtpid" /* PMIX_DATA_ARRAY */
#define PMIX_MONITOR_TARGET_PROCS                   "pmix.monitor.tgtproc" /* PMIX_DATA_ARRAY */
#define PMIX_MYSERVER_URI                           "pmix.mysrvr.uri" /* PMIX_STRING */
#define PMIX_NETWORK_ID                             "pmix.net.id" /* PMIX_STRING */
#define PMIX_NETWORK_RESOURCE_USAGE                 "pmix.net.res" /* PMIX_DATA_ARRAY */
#define PMIX_NET_RECVD_BYTES                        "pmix.net.rcb" /* PMIX_UINT64 */
#define PMIX_NET_RECVD_ERRS                         "pmix.net.rcerr" /* PMIX_UINT64 */
#define PMIX_NET_RECVD_PCKTS                        "pmix.net.rcp" /* PMIX_UINT64 */
#define PMIX_NET_SAMPLE_TIME                        "pmix.net.samptime" /* PMIX_TIME */
#define PMIX_NET_SENT_BYTES                         "pmix.net.sntb" /* PMIX_UINT64 */
#define PMIX_NET_SENT_ERRS                          "pmix.net.snterr" /* PMIX_UINT64 */
#define PMIX_NET_SENT_PCKTS                         "pmix.net.sntp" /* PMIX_UINT64 */
#define PMIX_NODEID                                 "pmix.nodeid" /* PMIX_UINT32 */
#define PMIX_NODE_INFO                              "pmix.node.info" /* PMIX_BOOL */
#define PMIX_NODE_INFO_ARRAY                        "pmix.node.arr" /* PMIX_DATA_ARRAY */
#define PMIX_NODE_LIST                              "pmix.nlist" /* PMIX_STRING */
#define PMIX_NODE_LOAD_AVG                          "pmix.node.la" /* PMIX_FLOAT */
#define PMIX_NODE_LOAD_AVG15                        "pmix.node.la15" /* PMIX_FLOAT */
#define PMIX_NODE_LOAD_AVG5                         "pmix.node.la5" /* PMIX_FLOAT */
#define PMIX_NODE_MAP                               "pmix.nmap" /* PMIX_STRING */
#define PMIX_NODE_MAP_RAW                           "pmix.nmap.raw" /* PMIX_STRING */
#define PMIX_NODE_MEM_BUFFERS                       "pmix.node.mbuf" /* PMIX_FLOAT */
#define PMIX_NODE_MEM_CACHED                        "pmix.node.mcache" /* PMIX_FLOAT */
#define PMIX_NODE_MEM_FREE                          "pmix.node.mfree" /* PMIX_FLOAT */
#define PMIX_NODE_MEM_MAPPED                        "pmix.node.mmap" /* PMIX_FLOAT */
#define PMIX_NODE_MEM_SWAP_CACHED                   "pmix.node.mswpc" /* PMIX_FLOAT */
#define PMIX_NODE_MEM_SWAP_FREE                     "pmix.node.mswpfree" /* PMIX_FLOAT */
#define PMIX_NODE_MEM_TOTAL                         "pmix.node.mtot" /* PMIX_FLOAT */
#define PMIX_NODE_OVERSUBSCRIBED                    "pmix.ndosub" /* PMIX_BOOL */
#define PMIX_NODE_RANK                              "pmix.nrank" /* PMIX_UINT16 */
#define PMIX_NODE_RESOURCE_USAGE                    "pmix.node.res" /* PMIX_DATA_ARRAY */
#define PMIX_NODE_SAMPLE_TIME                       "pmix.node.samptime" /* PMIX_TIME */
#define PMIX_NODE_SIZE                              "pmix.node.size" /* PMIX_UINT32 */
#define PMIX_NODE_SWAP_TOTAL                        "pmix.node.mswpt" /* PMIX_FLOAT */
#define PMIX_NOHUP                                  "pmix.nohup" /* PMIX_BOOL */
#define PMIX_NON_PMI                                "pmix.nonpmi" /* PMIX_BOOL */
#define PMIX_NOTIFY_COMPLETION                      "pmix.notecomp" /* PMIX_BOOL */
#define PMIX_NOTIFY_JOB_EVENTS                      "pmix.note.jev" /* PMIX_BOOL */
#define PMIX_NOTIFY_LAUNCH                          "pmix.note.lnch" /* PMIX_BOOL */
#define PMIX_NOTIFY_PROC_ABNORMAL_TERMINATION       "pmix.noteabproc" /* PMIX_BOOL */
#define PMIX_NOTIFY_PROC_TERMINATION                "pmix.noteproc" /* PMIX_BOOL */
#define PMIX_NO_OVERSUBSCRIBE                       "pmix.noover" /* PMIX_BOOL */
#define PMIX_NO_PROCS_ON_HEAD                       "pmix.nolocal" /* PMIX_BOOL */
#define PMIX_NPROC_OFFSET                           "pmix.offset" /* PMIX_PROC_RANK */
#define PMIX_NSDIR                                  "pmix.nsdir" /* PMIX_STRING */
#define PMIX_NSPACE                                 "pmix.nspace" /* PMIX_STRING */
#define PMIX_NUM_ALLOCATED_NODES                    "pmix.num.anodes" /* PMIX_UINT32 */
#define PMIX_NUM_NODES                              "pmix.num.nodes" /* PMIX_UINT32 */
#define PMIX_NUM_SLOTS                              "pmix.num.slots" /* PMIX_UINT32 */
#define PMIX_OPTIONAL                               "pmix.optional" /* PMIX_BOOL */
#define PMIX_OUTPUT_NOCOPY                          "pmix.nocopy" /* PMIX_BOOL */
#define PMIX_OUTPUT_TO_DIRECTORY                    "pmix.outdir" /* PMIX_STRING */
#define PMIX_OUTPUT_TO_FILE                         "pmix.outfile" /* PMIX_STRING */
#define PMIX_PACKAGE_RANK                           "pmix.pkgrank" /* PMIX_UINT16 */
#define PMIX_PARENT_ID                              "pmix.parent" /* PMIX_PROC */
#define PMIX_PERSISTENCE                            "pmix.persist" /* PMIX_PERSIST */
#define PMIX_PERSONALITY                            "pmix.pers" /* PMIX_STRING */
#define PMIX_PNET_SETUP_APP                         "pmix.pnet.setapp" /* PMIX_BYTE_OBJECT */
#define PMIX_PPR                                    "pmix.ppr" /* PMIX_STRING */
#define PMIX_PREFIX                                 "pmix.prefix" /* PMIX_STRING */
#define PMIX_PRELOAD_BIN                            "pmix.preloadbin" /* PMIX_BOOL */
#define PMIX_PRELOAD_FILES                          "pmix.preloadfiles" /* PMIX_STRING */
#define PMIX_PREPEND_ENVAR                          "pmix.envar.prepnd" /* PMIX_ENVAR */
#define PMIX_PRIMARY_SERVER                         "pmix.pri.srvr" /* PMIX_BOOL */
#define PMIX_PROCDIR                                "pmix.pdir" /* PMIX_STRING */
#define PMIX_PROCID                                 "pmix.procid" /* PMIX_PROC */
#define PMIX_PROC_BLOB                              "pmix.pblob" /* PMIX_BYTE_OBJECT */
#define PMIX_PROC_CPU                               "pmix.proc.cpu" /* PMIX_UINT16 */
#define PMIX_PROC_DATA                              "pmix.pdata" /* PMIX_DATA_ARRAY */
#define PMIX_PROC_INFO_ARRAY                        "pmix.pdata" /* PMIX_DATA_ARRAY */
#define PMIX_PROC_MAP                               "pmix.pmap" /* PMIX_STRING */
#define PMIX_PROC_MAP_RAW                           "pmix.pmap.raw" /* PMIX_STRING */
#define PMIX_PROC_NUM_THREADS                       "pmix.proc.nthr" /* PMIX_UINT16 */
#define PMIX_PROC_OS_STATE                          "pmix.proc.osstate" /* PMIX_STRING */
#define PMIX_PROC_PEAK_VSIZE                        "pmix.proc.pkvsize" /* PMIX_FLOAT */
#define PMIX_PROC_PERCENT_CPU                       "pmix.proc.pcpu" /* PMIX_FLOAT */
#define PMIX_PROC_PID                               "pmix.ppid" /* PMIX_PID */
#define PMIX_PROC_PRIORITY                          "pmix.proc.pri" /* PMIX_INT32 */
#define PMIX_PROC_PSS                               "pmix.proc.pss" /* PMIX_FLOAT */
#define PMIX_PROC_RESOURCE_USAGE                    "pmix.proc.res" /* PMIX_DATA_ARRAY */
#define PMIX_PROC_RSS                               "pmix.proc.rss" /* PMIX_FLOAT */
#define PMIX_PROC_SAMPLE_TIME                       "pmix.proc.samptime" /* PMIX_TIME */
#define PMIX_PROC_STATE_STATUS                      "pmix.proc.state" /* PMIX_PROC_STATE */
#define PMIX_PROC_TERM_STATUS                       "pmix.proc.term.status" /* PMIX_STATUS */
#define PMIX_PROC_TIME                              "pmix.proc.time" /* PMIX_TIMEVAL */
#define PMIX_PROC_URI                               "pmix.puri" /* PMIX_STRING */
#define PMIX_PROC_VSIZE                             "pmix.proc.vsize" /* PMIX_FLOAT */
#define PMIX_PROGRAMMING_MODEL                      "pmix.pgm.model" /* PMIX_STRING */
#define PMIX_PROGRESS_THREAD_FLUSH                  "pmix.evflush" /* PMIX_BOOL */
#define PMIX_PROGRESS_THREAD_NAME                   "pmix.evname" /* PMIX_STRING */
#define PMIX_PSET_MEMBERS                           "pmix.pset.mems" /* PMIX_DATA_ARRAY */
#define PMIX_PSET_NAME                              "pmix.pset.nm" /* PMIX_STRING */
#define PMIX_PSET_NAMES                             "pmix.pset.nms" /* PMIX_DATA_ARRAY */
#define PMIX_PTY_TERMIO                             "pmix.pty.termio" /* PMIX_BYTE_OBJECT */
#define PMIX_PTY_WSIZE                              "pmix.pty.wsize" /* PMIX_BYTE_OBJECT */
#define PMIX_QUALIFIED_VALUE                        "pmix.qual.val" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_ALLOCATION                       "pmix.query.allc" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_ALLOC_IDS                        "pmix.query.alloc.ids" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_ALLOC_PROPERTIES                 "pmix.query.alloc.prop" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_ALLOC_STATUS                     "pmix.query.alloc" /* PMIX_STRING */
#define PMIX_QUERY_ATTRIBUTE_SUPPORT                "pmix.qry.attrs" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_AUTHORIZATIONS                   "pmix.qry.auths" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_AVAILABLE_SLOTS                  "pmix.qry.aslots" /* PMIX_UINT32 */
#define PMIX_QUERY_AVAIL_SERVERS                    "pmix.qry.asrvrs" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_DEBUG_SUPPORT                    "pmix.qry.debug" /* PMIX_STRING */
#define PMIX_QUERY_DEVICES                          "pmix.qry.dev" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_GROUP_MEMBERSHIP                 "pmix.qry.pgrpmems" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_GROUP_NAMES                      "pmix.qry.pgrp" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_JOB_STATUS                       "pmix.qry.jst" /* PMIX_STATUS */
#define PMIX_QUERY_LOCAL_ONLY                       "pmix.qry.local" /* PMIX_BOOL */
#define PMIX_QUERY_LOCAL_PROC_TABLE                 "pmix.qry.lptable" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_MEMORY_USAGE                     "pmix.qry.mem" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_MIN_ALLOC_UNIT                   "pmix.qry.minau" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_NAMESPACES                       "pmix.qry.ns" /* PMIX_STRING */
#define PMIX_QUERY_NAMESPACE_INFO                   "pmix.qry.nsinfo" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_NODE_RESOURCE_USAGE              "pmix.qry.nres" /* PMIX_STRING */
#define PMIX_QUERY_NUM_GROUPS                       "pmix.qry.pgrpnum" /* PMIX_SIZE */
#define PMIX_QUERY_NUM_PSETS                        "pmix.qry.psetnum" /* PMIX_SIZE */
#define PMIX_QUERY_PROC_RESOURCE_USAGE              "pmix.qry.pres" /* PMIX_PROC */
#define PMIX_QUERY_PROC_TABLE                       "pmix.qry.ptable" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_PROVISIONAL_ABI_VERSION          "pmix.qry.prabiver" /* PMIX_STRING */
#define PMIX_QUERY_PSET_MEMBERSHIP                  "pmix.qry.pmems" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_PSET_NAMES                       "pmix.qry.psets" /* PMIX_STRING */
#define PMIX_QUERY_QUALIFIERS                       "pmix.qry.quals" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_QUEUE_LIST                       "pmix.qry.qlst" /* PMIX_STRING */
#define PMIX_QUERY_QUEUE_STATUS                     "pmix.qry.qst" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_REFRESH_CACHE                    "pmix.qry.rfsh" /* PMIX_BOOL */
#define PMIX_QUERY_REPORT_AVG                       "pmix.qry.avg" /* PMIX_BOOL */
#define PMIX_QUERY_REPORT_MINMAX                    "pmix.qry.minmax" /* PMIX_BOOL */
#define PMIX_QUERY_RESOLVE_NODE                     "pmix.qry.node" /* PMIX_STRING */
#define PMIX_QUERY_RESOLVE_PEERS                    "pmix.qry.peers" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_RESULTS                          "pmix.qry.res" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_RES_BLOCKS                       "pmix.qry.resblks" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_RES_BLOCK_DEF                    "pmix.qry.resdef" /* PMIX_DATA_ARRAY */
#define PMIX_QUERY_SPAWN_SUPPORT                    "pmix.qry.spawn" /* PMIX_STRING */
#define PMIX_QUERY_STABLE_ABI_VERSION               "pmix.qry.stabiver" /* PMIX_STRING */
#define PMIX_QUERY_STORAGE_LIST                     "pmix.strg.list" /* PMIX_STRING */
#define PMIX_QUERY_SUPPORTED_KEYS                   "pmix.qry.keys" /* PMIX_STRING */
#define PMIX_QUERY_SUPPORTED_QUALIFIERS             "pmix.qry.quals" /* PMIX_BOOL */
#define PMIX_RANGE                                  "pmix.range" /* PMIX_DATA_RANGE */
#define PMIX_RANK                                   "pmix.rank" /* PMIX_PROC_RANK */
#define PMIX_RANKBY                                 "pmix.rankby" /* PMIX_STRING */
#define PMIX_REALGID                                "pmix.rgid" /* PMIX_UINT32 */
#define PMIX_REALUID                                "pmix.ruid" /* PMIX_UINT32 */
#define PMIX_RECONNECT_SERVER                       "pmix.cnct.recon" /* PMIX_BOOL */
#define PMIX_REGISTER_CLEANUP                       "pmix.reg.cleanup" /* PMIX_STRING */
#define PMIX_REGISTER_CLEANUP_DIR                   "pmix.reg.cleanupdir" /* PMIX_STRING */
#define PMIX_REGISTER_NODATA                        "pmix.reg.nodata" /* PMIX_BOOL */
#define PMIX_REINCARNATION                          "pmix.reinc" /* PMIX_UINT32 */
#define PMIX_REPORT_BINDINGS                        "pmix.repbind" /* PMIX_BOOL */
#define PMIX_REPORT_CHILD_SEP                       "pmix.rptchildsep" /* PMIX_BOOL */
#define PMIX_REPORT_PHYSICAL_CPUS                   "pmix.repphys.cpus" /* PMIX_BOOL */
#define PMIX_REQUESTOR                              "pmix.requestor" /* PMIX_PROC */
#define PMIX_REQUESTOR_IS_CLIENT                    "pmix.req.client" /* PMIX_BOOL */
#define PMIX_REQUESTOR_IS_TOOL                      "pmix.req.tool" /* PMIX_BOOL */
#define PMIX_REQUIRED_KEY                           "pmix.req.key" /* PMIX_STRING */
#define PMIX_RESOURCE_BLOCK_NAME                    "pmix.resblkname" /* PMIX_STRING */
#define PMIX_RM_NAME                                "pmix.rm.name" /* PMIX_STRING */
#define PMIX_RM_VERSION                             "pmix.rm.version" /* PMIX_STRING */
#define PMIX_RUNTIME_OPTIONS                        "pmix.runopt" /* PMIX_STRING */
#define PMIX_SEND_HEARTBEAT                         "pmix.monitor.beat" /* PMIX_BOOL */
#define PMIX_SERVER_ALLOW_FOREIGN_TOOLS             "pmix.srvr.ftools" /* PMIX_BOOL */
#define PMIX_SERVER_ATTRIBUTES                      "pmix.srvr.attrs" /* PMIX_STRING */
#define PMIX_SERVER_ENABLE_MONITORING               "pmix.srv.monitor" /* PMIX_BOOL */
#define PMIX_SERVER_FUNCTIONS                       "pmix.srvr.fns" /* PMIX_STRING */
#define PMIX_SERVER_GATEWAY                         "pmix.srv.gway" /* PMIX_BOOL */
#define PMIX_SERVER_HOSTNAME                        "pmix.srvr.host" /* PMIX_STRING */
#define PMIX_SERVER_INFO_ARRAY                      "pmix.srv.arr" /* PMIX_DATA_ARRAY */
#define PMIX_SERVER_NSPACE                          "pmix.srv.nspace" /* PMIX_STRING */
#define PMIX_SERVER_PIDINFO                         "pmix.srvr.pidinfo" /* PMIX_PID */
#define PMIX_SERVER_RANK                            "pmix.srv.rank" /* PMIX_PROC_RANK */
#define PMIX_SERVER_REMOTE_CONNECTIONS              "pmix.srvr.remote" /* PMIX_BOOL */
#define PMIX_SERVER_SCHEDULER                       "pmix.srv.sched" /* PMIX_BOOL */
#define PMIX_SERVER_SESSION_SUPPORT                 "pmix.srvr.sess" /* PMIX_BOOL */
#define PMIX_SERVER_SHARE_TOPOLOGY                  "pmix.srvr.share" /* PMIX_BOOL */
#define PMIX_SERVER_START_TIME                      "pmix.srv.strtime" /* PMIX_STRING */
#define PMIX_SERVER_SYSTEM_SUPPORT                  "pmix.srvr.sys" /* PMIX_BOOL */
#define PMIX_SERVER_SYS_CONTROLLER                  "pmix.srv.ctrlr" /* PMIX_BOOL */
#define PMIX_SERVER_TMPDIR                          "pmix.srvr.tmpdir" /* PMIX_STRING */
#define PMIX_SERVER_TOOL_SUPPORT                    "pmix.srvr.tool" /* PMIX_BOOL */
#define PMIX_SERVER_URI                             "pmix.srvr.uri" /* PMIX_STRING */
#define PMIX_SESSION_APP                            "pmix.ssn.app" /* PMIX_DATA_ARRAY */
#define PMIX_SESSION_COMPLETE                       "pmix.ssn.complete" /* PMIX_BOOL */
#define PMIX_SESSION_CTRL_ID                        "pmix.ssnctrl.id" /* PMIX_STRING */
#define PMIX_SESSION_EXTEND                         "pmix.ssn.xtend" /* PMIX_BOOL */
#define PMIX_SESSION_ID                             "pmix.session.id" /* PMIX_UINT32 */
#define PMIX_SESSION_INFO                           "pmix.ssn.info" /* PMIX_BOOL */
#define PMIX_SESSION_INFO_ARRAY                     "pmix.ssn.arr" /* PMIX_DATA_ARRAY */
#define PMIX_SESSION_INSTANTIATE                    "pmix.ssn.inst" /* PMIX_BOOL */
#define PMIX_SESSION_JOB                            "pmix.ssn.job" /* PMIX_DATA_ARRAY */
#define PMIX_SESSION_PAUSE                          "pmix.ssn.pause" /* PMIX_BOOL */
#define PMIX_SESSION_PREEMPT                        "pmix.ssn.preempt" /* PMIX_BOOL */
#define PMIX_SESSION_PROVISION                      "pmix.ssn.pvn" /* PMIX_DATA_ARRAY */
#define PMIX_SESSION_PROVISION_IMAGE                "pmix.ssn.pvnimg" /* PMIX_STRING */
#define PMIX_SESSION_PROVISION_NODES                "pmix.ssn.pvnnds" /* PMIX_STRING */
#define PMIX_SESSION_RESOURCES                      "pmix.ssn.res" /* PMIX_DATA_ARRAY */
#define PMIX_SESSION_RESTORE                        "pmix.ssn.restore" /* PMIX_BOOL */
#define PMIX_SESSION_RESUME                         "pmix.ssn.resume" /* PMIX_BOOL */
#define PMIX_SESSION_SEP                            "pmix.ssn.sep" /* PMIX_BOOL */
#define PMIX_SESSION_SIGNAL                         "pmix.ssn.sig" /* PMIX_INT */
#define PMIX_SESSION_TERMINATE                      "pmix.ssn.terminate" /* PMIX_BOOL */
#define PMIX_SETUP_APP_ALL                          "pmix.setup.all" /* PMIX_BOOL */
#define PMIX_SETUP_APP_ENVARS                       "pmix.setup.env" /* PMIX_BOOL */
#define PMIX_SETUP_APP_NONENVARS                    "pmix.setup.nenv" /* PMIX_BOOL */
#define PMIX_SET_ENVAR                              "pmix.envar.set" /* PMIX_ENVAR */
#define PMIX_SET_SESSION_CWD                        "pmix.ssncwd" /* PMIX_BOOL */
#define PMIX_SHOW_LAUNCH_PROGRESS                   "pmix.showprog" /* PMIX_BOOL */
#define PMIX_SINGLETON                              "pmix.singleton" /* PMIX_STRING */
#define PMIX_SINGLE_LISTENER                        "pmix.sing.listnr" /* PMIX_BOOL */
#define PMIX_SOCKET_MODE                            "pmix.sockmode" /* PMIX_UINT32 */
#define PMIX_SORTED_PROC_ARRAY                      "pmix.sorted.parr" /* PMIX_BOOL */
#define PMIX_SPAWNED                                "pmix.spawned" /* PMIX_BOOL */
#define PMIX_SPAWN_CHILD_SEP                        "pmix.spchildsep" /* PMIX_BOOL */
#define PMIX_SPAWN_PTY                              "pmix.spawn.pty" /* PMIX_BOOL */
#define PMIX_SPAWN_TARGET                           "pmix.spwn.tgt"
#define PMIX_SPAWN_TIMEOUT                          "pmix.sp.time" /* PMIX_INT */
#define PMIX_SPAWN_TOOL                             "pmix.spwn.tool" /* PMIX_BOOL */
#define PMIX_SPAWN_TREE_ACTIVE                      "pmix.spwn.actv" /* PMIX_UINT32 */
#define PMIX_SPAWN_TREE_ROOT                        "pmix.spwn.root" /* PMIX_STRING */
#define PMIX_STDIN_TGT                              "pmix.stdin" /* PMIX_PROC */
#define PMIX_STORAGE_ACCESSIBILITY                  "pmix.strg.access" /* PMIX_STOR_ACCESS */
#define PMIX_STORAGE_ACCESS_TYPE                    "pmix.strg.atype" /* PMIX_STOR_ACCESS_TYPE */
#define PMIX_STORAGE_BW_CUR                         "pmix.strg.bwcur" /* PMIX_DOUBLE */
#define PMIX_STORAGE_BW_MAX                         "pmix.strg.bwmax" /* PMIX_DOUBLE */
#define PMIX_STORAGE_CAPACITY_LIMIT                 "pmix.strg.cap" /* PMIX_UINT64 */
#define PMIX_STORAGE_CAPACITY_USED                  "pmix.strg.capuse" /* PMIX_DOUBLE */
#define PMIX_STORAGE_ID                             "pmix.strg.id" /* PMIX_STRING */
#define PMIX_STORAGE_IOPS_CUR                       "pmix.strg.iopscur" /* PMIX_DOUBLE */
#define PMIX_STORAGE_IOPS_MAX                       "pmix.strg.iopsmax" /* PMIX_DOUBLE */
#define PMIX_STORAGE_MEDIUM                         "pmix.strg.medium" /* PMIX_STOR_MEDIUM */
#define PMIX_STORAGE_MINIMAL_XFER_SIZE              "pmix.strg.minxfer" /* PMIX_DOUBLE */
#define PMIX_STORAGE_OBJECTS_USED                   "pmix.strg.objuse" /* PMIX_UINT64 */
#define PMIX_STORAGE_OBJECT_LIMIT                   "pmix.strg.obj" /* PMIX_UINT64 */
#define PMIX_STORAGE_PATH                           "pmix.strg.path" /* PMIX_STRING */
#define PMIX_STORAGE_PERSISTENCE                    "pmix.strg.persist" /* PMIX_STOR_PERSIST */
#define PMIX_STORAGE_SUGGESTED_XFER_SIZE            "pmix.strg.sxfer" /* PMIX_DOUBLE */
#define PMIX_STORAGE_TYPE                           "pmix.strg.type" /* PMIX_STRING */
#define PMIX_STORAGE_VERSION                        "pmix.strg.ver" /* PMIX_STRING */
#define PMIX_SWITCH_PEERS                           "pmix.speers" /* PMIX_DATA_ARRAY */
#define PMIX_SYSTEM_TMPDIR                          "pmix.sys.tmpdir" /* PMIX_STRING */
#define PMIX_TAG_OUTPUT                             "pmix.tagout" /* PMIX_BOOL */
#define PMIX_TCP_DISABLE_IPV4                       "pmix.tcp.disipv4" /* PMIX_BOOL */
#define PMIX_TCP_DISABLE_IPV6                       "pmix.tcp.disipv6" /* PMIX_BOOL */
#define PMIX_TCP_IF_EXCLUDE                         "pmix.tcp.ifexclude" /* PMIX_STRING */
#define PMIX_TCP_IF_INCLUDE                         "pmix.tcp.ifinclude" /* PMIX_STRING */
#define PMIX_TCP_IPV4_PORT                          "pmix.tcp.ipv4" /* PMIX_INT */
#define PMIX_TCP_IPV6_PORT                          "pmix.tcp.ipv6" /* PMIX_INT */
#define PMIX_TCP_REPORT_URI                         "pmix.tcp.repuri" /* PMIX_STRING */
#define PMIX_TCP_URI                                "pmix.tcp.uri" /* PMIX_STRING */
#define PMIX_TDIR_RMCLEAN                           "pmix.tdir.rmclean" /* PMIX_BOOL */
#define PMIX_THREADING_MODEL                        "pmix.threads" /* PMIX_STRING */
#define PMIX_TIMEOUT                                "pmix.timeout" /* PMIX_INT */
#define PMIX_TIMEOUT_REPORT_STATE                   "pmix.tim.state" /* PMIX_BOOL */
#define PMIX_TIMEOUT_STACKTRACES                    "pmix.tim.stack" /* PMIX_BOOL */
#define PMIX_TIMESTAMP_OUTPUT                       "pmix.tsout" /* PMIX_BOOL */
#define PMIX_TIME_REMAINING                         "pmix.time.remaining" /* PMIX_UINT32 */
#define PMIX_TMPDIR                                 "pmix.tmpdir" /* PMIX_STRING */
#define PMIX_TOOL_ATTACHMENT_FILE                   "pmix.tool.attach" /* PMIX_STRING */
#define PMIX_TOOL_ATTRIBUTES                        "pmix.tool.attrs" /* PMIX_STRING */
#define PMIX_TOOL_CONNECT_OPTIONAL                  "pmix.tool.conopt" /* PMIX_BOOL */
#define PMIX_TOOL_DO_NOT_CONNECT                    "pmix.tool.nocon" /* PMIX_BOOL */
#define PMIX_TOOL_FUNCTIONS                         "pmix.tool.fns" /* PMIX_STRING */
#define PMIX_TOOL_NSPACE                            "pmix.tool.nspace" /* PMIX_STRING */
#define PMIX_TOOL_RANK                              "pmix.tool.rank" /* PMIX_UINT32 */
#define PMIX_TOPOLOGY                               "pmix.topo" /* PMIX_POINTER */
#define PMIX_TOPOLOGY2                              "pmix.topo2" /* PMIX_TOPO */
#define PMIX_TOPOLOGY_FILE                          "pmix.topo.file" /* PMIX_STRING */
#define PMIX_TOPOLOGY_INDEX                         "pmix.topo.index" /* PMIX_INT */
#define PMIX_TOPOLOGY_SIGNATURE                     "pmix.toposig" /* PMIX_STRING */
#define PMIX_TOPOLOGY_XML                           "pmix.topo.xml" /* PMIX_STRING */
#define PMIX_UNIV_SIZE                              "pmix.univ.size" /* PMIX_UINT32 */
#define PMIX_UNSET_ENVAR                            "pmix.envar.unset" /* PMIX_STRING */
#define PMIX_USERID                                 "pmix.euid" /* PMIX_UINT32 */
#define PMIX_USOCK_DISABLE                          "pmix.usock.disable" /* PMIX_BOOL */
#define PMIX_VERSION_INFO                           "pmix.version" /* PMIX_STRING */
#define PMIX_VERSION_NUMERIC                        "pmix.vers.num" /* PMIX_UINT32 */
#define PMIX_WAIT                                   "pmix.wait" /* PMIX_INT */
#define PMIX_WAIT_FOR_CONNECTION                    "pmix.wait.conn" /* PMIX_BOOL */
#define PMIX_WDIR                                   "pmix.wdir" /* PMIX_STRING */
#define PMIX_WDIR_USER_SPECIFIED                    "pmix.wdir.user" /* PMIX_BOOL */

/* Names of environment variables. */
#define PMIX_KEEPALIVE_PIPE                         "PMIX_KEEPALIVE_PIPE"
#define PMIX_LAUNCHER_RNDZ_FILE                     "PMIX_LAUNCHER_RNDZ_FILE"
#define PMIX_LAUNCHER_RNDZ_URI                      "PMIX_LAUNCHER_RNDZ_URI"

typedef struct pmix_byte_object pmix_byte_object_t;
typedef struct pmix_envar pmix_envar_t;
typedef struct pmix_data_array pmix_data_array_t;
typedef struct pmix_data_buffer pmix_data_buffer_t;
typedef struct pmix_proc pmix_proc_t;
typedef struct pmix_value pmix_value_t;
typedef struct pmix_info pmix_info_t;
typedef struct pmix_app pmix_app_t;
typedef struct pmix_coord pmix_coord_t;
typedef struct pmix_cpuset pmix_cpuset_t;
typedef struct pmix_device_distance pmix_device_distance_t;
typedef struct pmix_device pmix_device_t;
typedef struct pmix_disk_stats pmix_disk_stats_t;
typedef struct pmix_endpoint pmix_endpoint_t;
typedef struct pmix_fabric_s pmix_fabric_t;
typedef struct pmix_geometry pmix_geometry_t;
typedef struct pmix_net_stats pmix_net_stats_t;
typedef struct pmix_node_pid pmix_node_pid_t;
typedef struct pmix_node_stats pmix_node_stats_t;
typedef struct pmix_pdata pmix_pdata_t;
typedef struct pmix_proc_info pmix_proc_info_t;
typedef struct pmix_proc_stats pmix_proc_stats_t;
typedef struct pmix_query pmix_query_t;
typedef struct pmix_regattr_t pmix_regattr_t;
typedef struct pmix_regex2 pmix_regex2_t;
typedef struct pmix_resource_unit pmix_resource_unit_t;
typedef struct pmix_topology pmix_topology_t;

/* Bytes and how many they are. */
struct pmix_byte_object {
    char *bytes;
    size_t size;
};

/* An environment variable, and what stands between the parts of its value. */
struct pmix_envar {
    char *envar;
    char *value;
    char separator;
};

/* Elements of one type. */
struct pmix_data_array {
    pmix_data_type_t type;
    size_t size;
    void *array;
};

/* A buffer for packed values. */
struct pmix_data_buffer {
    char *base_ptr;
    char *pack_ptr;
    char *unpack_ptr;
    size_t bytes_allocated;
    size_t bytes_used;
};

/* A process: the namespace of its job, and its rank in there. */
struct pmix_proc {
    pmix_nspace_t nspace;
    pmix_rank_t rank;
};

/* A value: its type says which member of the union counts. */
struct pmix_value {
    pmix_data_type_t type;
    union {
        bool flag;
        uint8_t byte;
        char *string;
        size_t size;
        pid_t pid;
        int integer;
        int8_t int8;
        int16_t int16;
        int32_t int32;
        int64_t int64;
        unsigned uint;
        uint8_t uint8;
        uint16_t uint16;
        uint32_t uint32;
        uint64_t uint64;
        float fval;
        double dval;
        struct timeval tv;
        time_t time;
        pmix_status_t status;
        pmix_rank_t rank;
        pmix_nspace_t *nspace;
        pmix_proc_t *proc;
        pmix_byte_object_t bo;
        pmix_persistence_t persist;
        pmix_scope_t scope;
        pmix_data_range_t range;
        pmix_proc_state_t state;
        pmix_proc_info_t *pinfo;
        pmix_data_array_t *darray;
        void *ptr;
        pmix_alloc_directive_t adir;
        pmix_resource_block_directive_t rbdir;
        pmix_alloc_inheritance_t inheritance;
        pmix_envar_t envar;
        pmix_coord_t *coord;
        pmix_link_state_t linkstate;
        pmix_job_state_t jstate;
        pmix_topology_t *topo;
        pmix_cpuset_t *cpuset;
        pmix_locality_t locality;
        pmix_geometry_t *geometry;
        pmix_device_type_t devtype;
        pmix_device_t *device;
        pmix_device_distance_t *devdist;
        pmix_endpoint_t *endpoint;
        pmix_data_buffer_t *dbuf;
        pmix_resource_unit_t *resunit;
        pmix_node_pid_t *nodepid;
        pmix_regex2_t *regex2;
        pmix_proc_stats_t *pstats;
        pmix_disk_stats_t *dkstats;
        pmix_net_stats_t *netstats;
        pmix_node_stats_t *ndstats;
    } data;
};

/* An attribute: a key, flags and a value. */
struct pmix_info {
    pmix_key_t key;
    pmix_info_directives_t flags;
    pmix_value_t value;
};

/* An application to be started. */
struct pmix_app {
    char *cmd;
    char **argv;
    char **env;
    char *cwd;
    int maxprocs;
    pmix_info_t *info;
    size_t ninfo;
};

/* A position in a fabric. */
struct pmix_coord {
    pmix_coord_view_t view;
    uint32_t *coord;
    size_t dims;
};

/* A set of processing units, as an object of the library that source names. */
struct pmix_cpuset {
    char *source;
    void *bitmap;
};

/* The least and the greatest distance of a device. */
struct pmix_device_distance {
    char *uuid;
    char *osname;
    pmix_device_type_t type;
    uint16_t mindist;
    uint16_t maxdist;
};

/* A device. */
struct pmix_device {
    char *uuid;
    char *osname;
    pmix_device_type_t type;
};

/* The statistics of a disk. */
struct pmix_disk_stats {
    char *disk;
    uint64_t num_reads_completed;
    uint64_t num_reads_merged;
    uint64_t num_sectors_read;
    uint64_t milliseconds_reading;
    uint64_t num_writes_completed;
    uint64_t num_writes_merged;
    uint64_t num_sectors_written;
    uint64_t milliseconds_writing;
    uint64_t num_ios_in_progress;
    uint64_t milliseconds_io;
    uint64_t weighted_milliseconds_io;
};

/* The address of a device in a fabric. */
struct pmix_endpoint {
    char *uuid;
    char *osname;
    pmix_byte_object_t endpt;
};

/* A fabric that was registered. */
struct pmix_fabric_s {
    char *name;
    size_t index;
    pmix_info_t *info;
    size_t ninfo;
    void *module;
};

/* The place of a device in a fabric. */
struct pmix_geometry {
    size_t fabric;
    char *uuid;
    char *osname;
    pmix_coord_t *coordinates;
    size_t ncoords;
};

/* The statistics of a network interface. */
struct pmix_net_stats {
    char *net_interface;
    uint64_t num_bytes_recvd;
    uint64_t num_packets_recvd;
    uint64_t num_recv_errs;
    uint64_t num_bytes_sent;
    uint64_t num_packets_sent;
    uint64_t num_send_errs;
};

/* A process id and the node that it belongs to. */
struct pmix_node_pid {
    char *hostname;
    uint32_t nodeid;
    pid_t pid;
};

/* The resources that a node uses. */
struct pmix_node_stats {
    char *node;
    float la;
    float la5;
    float la15;
    float total_mem;
    float free_mem;
    float buffers;
    float cached;
    float swap_cached;
    float swap_total;
    float swap_free;
    float mapped;
    struct timeval sample_time;
    pmix_disk_stats_t *diskstats;
    size_t ndiskstats;
    pmix_net_stats_t *netstats;
    size_t nnetstats;
};

/* A value that a process has published under a key. */
struct pmix_pdata {
    pmix_proc_t proc;
    pmix_key_t key;
    pmix_value_t value;
};

/* A process and what has become of it. */
struct pmix_proc_info {
    pmix_proc_t proc;
    char *hostname;
    char *executable_name;
    pid_t pid;
    int exit_code;
    pmix_proc_state_t state;
};

/* The resources that a process uses. */
struct pmix_proc_stats {
    char *node;
    pmix_proc_t proc;
    pid_t pid;
    char *cmd;
    char state;
    struct timeval time;
    float percent_cpu;
    int32_t priority;
    uint16_t num_threads;
    float pss;
    float vsize;
    float rss;
    float peak_vsize;
    uint16_t processor;
    struct timeval sample_time;
};

/* Keys to ask for, and what qualifies them. */
struct pmix_query {
    char **keys;
    pmix_info_t *qualifiers;
    size_t nqual;
};

/* An attribute that somebody supports: name, key, type of the value, words about it. */
struct pmix_regattr_t {
    char *name;
    pmix_key_t string;
    pmix_data_type_t type;
    char **description;
};

/* A map expression: the method that made it, and its bytes. */
struct pmix_regex2 {
    char *type;
    uint8_t *bytes;
    size_t len;
};

/* So many devices of a type. */
struct pmix_resource_unit {
    pmix_device_type_t type;
    size_t count;
};

/* The topology of a node, as an object of the library that source names. */
struct pmix_topology {
    char *source;
    void *topology;
};

/* Initialisers: empty objects. */
#ifdef __cplusplus
#define PMIX_VALUE_STATIC_INIT { PMIX_UNDEF, {} }
#else
#define PMIX_VALUE_STATIC_INIT { PMIX_UNDEF, { .envar = PMIX_ENVAR_STATIC_INIT } }
#endif
#define PMIX_BYTE_OBJECT_STATIC_INIT { NULL, 0 }
#define PMIX_ENVAR_STATIC_INIT { NULL, NULL, 0 }
#define PMIX_DATA_ARRAY_STATIC_INIT { 0, 0, NULL }
#define PMIX_DATA_BUFFER_STATIC_INIT { NULL, NULL, NULL, 0, 0 }
#define PMIX_PROC_STATIC_INIT { { 0 }, PMIX_RANK_UNDEF }
#define PMIX_INFO_STATIC_INIT { { 0 }, 0, PMIX_VALUE_STATIC_INIT }
#define PMIX_APP_STATIC_INIT { NULL, NULL, NULL, NULL, 0, NULL, 0 }
#define PMIX_COORD_STATIC_INIT { 0, NULL, 0 }
#define PMIX_CPUSET_STATIC_INIT { NULL, NULL }
#define PMIX_DEVICE_DIST_STATIC_INIT { NULL, NULL, 0, 0, 0 }
#define PMIX_DEVICE_STATIC_INIT { NULL, NULL, 0 }
#define PMIX_DISK_STATS_STATIC_INIT { NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define PMIX_ENDPOINT_STATIC_INIT { NULL, NULL, PMIX_BYTE_OBJECT_STATIC_INIT }
#define PMIX_FABRIC_STATIC_INIT { NULL, 0, NULL, 0, NULL }
#define PMIX_GEOMETRY_STATIC_INIT { 0, NULL, NULL, NULL, 0 }
#define PMIX_NET_STATS_STATIC_INIT { NULL, 0, 0, 0, 0, 0, 0 }
#define PMIX_NODE_PID_STATIC_INIT { NULL, 0, 0 }
#define PMIX_NODE_STATS_STATIC_INIT { NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0, 0 }, NULL, 0, NULL, 0 }
#define PMIX_LOOKUP_STATIC_INIT { PMIX_PROC_STATIC_INIT, { 0 }, PMIX_VALUE_STATIC_INIT }
#define PMIX_PROC_INFO_STATIC_INIT { PMIX_PROC_STATIC_INIT, NULL, NULL, 0, 0, 0 }
#define PMIX_PROC_STATS_STATIC_INIT { NULL, PMIX_PROC_STATIC_INIT, 0, NULL, 0, { 0, 0 }, 0, 0, 0, 0, 0, 0, 0, \
    0, { 0, 0 } }
#define PMIX_QUERY_STATIC_INIT { NULL, NULL, 0 }
#define PMIX_REGATTR_STATIC_INIT { NULL, { 0 }, 0, NULL }
#define PMIX_REGEX2_STATIC_INIT { NULL, NULL, 0 }
#define PMIX_RESOURCE_UNIT_STATIC_INIT { 0, 0 }
#define PMIX_TOPOLOGY_STATIC_INIT { NULL, NULL }

/* Memory of the C library, which this one gives and takes everywhere. */
static inline void *pmix_malloc(size_t size) {
    return malloc(size);
}
static inline void *pmix_calloc(size_t n, size_t size) {
    return calloc(n, size);
}
static inline void pmix_free(void *place) {
    free(place);
}

/* Copies at most so many bytes of a text, and ends it: the place has room for one more. */
static inline void pmix_strncpy(char *to, const char *from, size_t most) {
    size_t n = 0;
    while (n < most && '\0' != from[n]) {
        to[n] = from[n];
        n++;
    }
    to[n] = '\0';
}

/* Bytes of a key and of a namespace, which need not end. */
static inline size_t pmix_keylen(const char *key) {
    size_t n = 0;
    while (NULL != key && n <= PMIX_MAX_KEYLEN && '\0' != key[n]) {
        n++;
    }
    return n;
}
static inline size_t pmix_nslen(const char *nspace) {
    size_t n = 0;
    while (NULL != nspace && n <= PMIX_MAX_NSLEN && '\0' != nspace[n]) {
        n++;
    }
    return n;
}

/* Says that data is no longer needed. */
typedef void (*pmix_release_cbfunc_t)(void *cbdata);

/* Says that an operation is complete. */
typedef void (*pmix_op_cbfunc_t)(pmix_status_t status, void *cbdata);

/* The answer of PMIx_Get_credential_nb. */
typedef void (*pmix_credential_cbfunc_t)(pmix_status_t status, pmix_byte_object_t *credential,
    pmix_info_t info[], size_t ninfo, void *cbdata);

/* The answer of PMIx_Compute_distances_nb. */
typedef void (*pmix_device_dist_cbfunc_t)(pmix_status_t status, pmix_device_distance_t *dist, size_t ndist,
    void *cbdata, pmix_release_cbfunc_t release_fn, void *release_cbdata);

/* The function that an event handler calls when it is done. */
typedef void (*pmix_event_notification_cbfunc_fn_t)(pmix_status_t status, pmix_info_t *results,
    size_t nresults, pmix_op_cbfunc_t cbfunc, void *thiscbdata, void *notification_cbdata);

/* Says that an event handler is registered; the older name. */
typedef void (*pmix_evhdlr_reg_cbfunc_t)(pmix_status_t status, size_t refid, void *cbdata);

/* Says that a handler is registered, and its number. */
typedef void (*pmix_hdlr_reg_cbfunc_t)(pmix_status_t status, size_t refid, void *cbdata);

/* The answer of a function that gives infos; the receiver calls release_fn when it has read them. */
typedef void (*pmix_info_cbfunc_t)(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
    pmix_release_cbfunc_t release_fn, void *release_cbdata);

/* Receives output of a process. */
typedef void (*pmix_iof_cbfunc_t)(size_t iofhdlr, pmix_iof_channel_t channel, pmix_proc_t *source,
    pmix_byte_object_t *payload, pmix_info_t info[], size_t ninfo);

/* The answer of PMIx_Lookup_nb. */
typedef void (*pmix_lookup_cbfunc_t)(pmix_status_t status, pmix_pdata_t data[], size_t ndata, void *cbdata);

/* The answer of a host to a fence or a direct modex. */
typedef void (*pmix_modex_cbfunc_t)(pmix_status_t status, const char *data, size_t ndata, void *cbdata,
    pmix_release_cbfunc_t release_fn, void *release_cbdata);

/* An event handler. */
typedef void (*pmix_notification_fn_t)(size_t evhdlr_registration_id, pmix_status_t status,
    const pmix_proc_t *source, pmix_info_t info[], size_t ninfo, pmix_info_t *results, size_t nresults,
    pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata);

/* The answer of PMIx_Spawn_nb: the namespace of the job. */
typedef void (*pmix_spawn_cbfunc_t)(pmix_status_t status, pmix_nspace_t nspace, void *cbdata);

/* The answer of PMIx_Validate_credential_nb. */
typedef void (*pmix_validation_cbfunc_t)(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *cbdata);

/* The answer of PMIx_Get_nb. */
typedef void (*pmix_value_cbfunc_t)(pmix_status_t status, pmix_value_t *kv, void *cbdata);

#ifdef __cplusplus
}
#endif

#include "pmix_deprecated.h"

#endif
