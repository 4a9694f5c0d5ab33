/* PMIx_Data_print, PMIx_Value_string and PMIx_Info_string. */
#include "families.h"

static char what[64];

static void print(pmix_data_type_t type, void *element) {
    char *prefixes[] = {NULL, "> "}, *text = NULL;
    for (int i = 0; i < 2; i++) {
        pmix_status_t rc = PMIx_Data_print(&text, prefixes[i], element, type);
        snprintf(what, sizeof(what), "print %d gives %d", type, rc);
        show(what, PMIX_SUCCESS == rc ? text : NULL);
        if (PMIX_SUCCESS == rc) {
            free(text);
        }
    }
}

static void inside(pmix_data_type_t type, void *element) {
    pmix_value_t value;
    pmix_info_t info;
    char *text;
    PMIX_VALUE_LOAD(&value, element, type);
    snprintf(what, sizeof(what), "value %d", type);
    show(what, text = PMIx_Value_string(&value));
    free(text);
    PMIX_INFO_LOAD(&info, "the.key", element, type);
    snprintf(what, sizeof(what), "info %d", type);
    text = PMIx_Info_string(&info);
    /* Releases since 6 end it with the end of a line. */
    if (text && text[0] && text[strlen(text) - 1] == '\n')
        text[strlen(text) - 1] = 0;
    show(what, text);
    free(text);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_VALUE_DESTRUCT(&value);
}

static void both(pmix_data_type_t type, void *element, size_t size) {
    (void)size;
    /* An address is different each time, and without it a pointer prints nothing. */
    if (PMIX_POINTER != type) {
        print(type, element);
        inside(type, element);
    }
}

/* Types that are only printed by themselves. */
static void alone(void) {
    pmix_info_t infos[2];
    int number = -5;
    PMIX_INFO_LOAD(&infos[0], "k1", &number, PMIX_INT);
    PMIX_INFO_LOAD(&infos[1], "k2", "text", PMIX_STRING);
    PMIX_INFO_REQUIRED(&infos[1]);
    print(PMIX_INFO, &infos[1]);
    print(PMIX_VALUE, &infos[0].value);
    pmix_pdata_t data;
    memset(&data, 0, sizeof(data));
    data.proc = a_proc;
    strcpy(data.key, "published");
    data.value = infos[0].value;
    print(PMIX_PDATA, &data);
    pmix_query_t query = {NULL, NULL, 0};
    print(PMIX_QUERY, &query);
    query = (pmix_query_t){a_list, infos, 2};
    print(PMIX_QUERY, &query);
    pmix_data_buffer_t buffer;
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    print(PMIX_DATA_BUFFER, &buffer);
    for (int i = 0; i < 64; i++) {
        uint8_t byte = (uint8_t)i;
        uint16_t half = (uint16_t)i;
        uint32_t word = (uint32_t)i;
        print(PMIX_COMMAND, &byte);
        print(PMIX_PROC_STATE, &byte);
        print(PMIX_JOB_STATE, &byte);
        print(PMIX_LINK_STATE, &byte);
        print(PMIX_IOF_CHANNEL, &half);
        /* The flag behind the fourth came after 4.2.2. */
        print(PMIX_INFO_DIRECTIVES, i < 16 ? &word : &(uint32_t){0});
    }
    for (uint32_t rank = UINT32_MAX - 6; rank != 2; rank++) {
        pmix_proc_t proc = a_proc;
        proc.rank = rank;
        print(PMIX_PROC, &proc);
        print(PMIX_PROC_RANK, &rank);
    }
    uint16_t types[] = {PMIX_INT, PMIX_STRING, 9999};
    for (int i = 0; i < 3; i++) {
        print(PMIX_DATA_TYPE, &types[i]);
    }
    /* Of the bit for a package 4.2.2 says CORE. */
    uint16_t localities[] = {0, 1, 2, 4, 8, 16, 64, 0x4000, 0x8000, 0x401f};
    for (int i = 0; i < 10; i++) {
        print(PMIX_LOCTYPE, &localities[i]);
    }
    for (uint64_t bit = 0; bit < 1 << 9; bit = 0 == bit ? 1 : bit << 1) {
        print(PMIX_STOR_MEDIUM, &bit);
        print(PMIX_STOR_ACCESS, &bit);
        print(PMIX_STOR_PERSIST, &bit);
    }
    PMIX_INFO_DESTRUCT(&infos[1]);
}

static void statistics(void) {
    pmix_disk_stats_t disk = {"sda", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    pmix_net_stats_t net = {"eth0", 1, 2, 3, 4, 5, 60};
    pmix_proc_stats_t proc;
    memset(&proc, 0, sizeof(proc));
    print(PMIX_PROC_STATS, &proc);
    proc = (pmix_proc_stats_t){"node", a_proc, 9, "program", 'R', {4, 5}, 1.5f, -20, 3, 1.25f, 2.5f, 3.5f, 4.5f, 1, {6, 7}};
    proc.proc.rank = PMIX_RANK_WILDCARD;
    print(PMIX_PROC_STATS, &proc);
    print(PMIX_DISK_STATS, &disk);
    print(PMIX_NET_STATS, &net);
    disk.disk = net.net_interface = NULL;
    print(PMIX_DISK_STATS, &disk);
    print(PMIX_NET_STATS, &net);
    pmix_node_stats_t node = {"node", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, {12, 13}, &disk, 1, &net, 1};
    print(PMIX_NODE_STATS, &node);
}

/* Structures of nothing. */
static void empty(void) {
    static char zeros[1024];
    pmix_data_type_t types[] = {PMIX_PROC, PMIX_INFO, PMIX_PROC_INFO, PMIX_ENVAR, PMIX_COORD, PMIX_REGATTR,
                                PMIX_GEOMETRY, PMIX_DEVICE_DIST, PMIX_ENDPOINT, PMIX_BYTE_OBJECT, PMIX_PROC_CPUSET,
                                PMIX_TOPO, PMIX_QUERY, PMIX_VALUE, PMIX_UNDEF, 200, 9999};
    pmix_value_t value;
    char *text;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        print(types[i], zeros);
    }
    for (int type = 1; type < 70; type++) {
        print((pmix_data_type_t)type, NULL);
    }
    memset(&value, 0, sizeof(value));
    show("value of nothing", text = PMIx_Value_string(&value));
    free(text);
    value.type = 9999;
    show("value of no type", text = PMIx_Value_string(&value));
    free(text);
}

/* Arrays of every type, of zeros; those of what is only printed alone have a line of their own kind for each element. */
static void arrays(void) {
    static char zeros[4096];
    for (int type = 1; type < 70; type++) {
        switch (type) {
        /* Numbers that no type has any more; addresses, which differ; arrays and objects of nothing, which are errors. */
        case 29: case 44: case PMIX_STATUS: case PMIX_DEVTYPE: case PMIX_DATA_ARRAY: case PMIX_PROC_CPUSET: case PMIX_TOPO:
            continue;
        default: break;
        }
        pmix_data_array_t array = {(pmix_data_type_t)type, 2, zeros};
        print(PMIX_DATA_ARRAY, &array);
    }
}

void texts(void) {
    setenv("TZ", "UTC", 1);
    every_type(both);
    alone();
    statistics();
    empty();
    arrays();
}
