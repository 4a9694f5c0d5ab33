/* Texts for numbers, keys and names of attributes, comparisons of names. */
#include "families.h"

static void numbers(void) {
    for (int i = 0; i < 256; i++) {
        printf("%d: %s; %s; %s; %s; %s", i, PMIx_Proc_state_string((pmix_proc_state_t)i),
               PMIx_Job_state_string((pmix_job_state_t)i), PMIx_Data_range_string((pmix_data_range_t)i),
               PMIx_Persistence_string((pmix_persistence_t)i), PMIx_Link_state_string((pmix_link_state_t)i));
        /* Later releases have more of these. */
        if (i < 5 || 8 < i) {
            printf("; %s; %s", PMIx_Scope_string((pmix_scope_t)i), PMIx_Alloc_directive_string((pmix_alloc_directive_t)i));
        }
        printf("; %s\n", PMIx_IOF_channel_string((pmix_iof_channel_t)i));
    }
    for (int i = 0; i < 16; i++) {
        char *directives = PMIx_Info_directives_string((pmix_info_directives_t)i);
        printf("%d: %s; %s\n", i, directives, PMIx_Value_comparison_string((pmix_value_cmp_t)i));
        free(directives);
    }
    for (pmix_device_type_t bit = 1; bit < 64; bit <<= 1) {
        printf("%lx: %s\n", (unsigned long)bit, PMIx_Device_type_string(bit));
    }
    for (int type = 1; type < 70; type++) {
        if (29 != type && 44 != type) {
            printf("%d: %s\n", type, PMIx_Data_type_string((pmix_data_type_t)type));
        }
    }
    printf("%s; %s; %s\n", PMIx_Data_type_string(9999), PMIx_Data_type_string(PMIX_UNDEF), PMIx_Error_string(12345));
}

static void attributes(void) {
    char *names[] = {PMIX_RANK, PMIX_JOB_SIZE, PMIX_HOSTNAME, PMIX_TIMEOUT, PMIX_COLLECT_DATA, PMIX_LOCAL_PEERS,
                     "PMIX_RANK", "PMIX_JOB_SIZE", "PMIX_NONE", "pmix.none", "own", "", "pmix_Rank", "pmix.RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        printf("'%s': %s; %s\n", names[i], PMIx_Get_attribute_name(names[i]), PMIx_Get_attribute_string(names[i]));
    }
}

static void keys(void) {
    pmix_info_t info;
    pmix_nspace_t job, none = "", whole, cluster, part;
    char *wholes[] = {"c:job", ":job", "c:", "alone", "a:b:c", ""};
    PMIX_INFO_LOAD(&info, "abc", NULL, PMIX_BOOL);
    printf("keys: %d %d; reserved: %d %d %d\n", PMIX_CHECK_KEY(&info, "abc"), PMIX_CHECK_KEY(&info, "abcd"),
           PMIX_CHECK_RESERVED_KEY("pmix.x"), PMIX_CHECK_RESERVED_KEY("pmi"), PMIX_CHECK_RESERVED_KEY("PMIX.x"));
    PMIX_LOAD_NSPACE(job, "job");
    printf("namespaces: %d %d %d %d; invalid: %d %d\n", PMIX_CHECK_NSPACE(job, "job"), PMIX_CHECK_NSPACE(job, "jobs"),
           PMIX_CHECK_NSPACE(job, none), PMIX_CHECK_NSPACE(none, job), PMIX_NSPACE_INVALID(job), PMIX_NSPACE_INVALID(none));
    PMIX_LOAD_NSPACE(job, NULL);
    printf("of nothing: %d\n", PMIX_NSPACE_INVALID(job));
    PMIX_LOAD_NSPACE(job, "job");
    PMIX_LOAD_NSPACE(cluster, "c");
    PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(whole, cluster, job);
    show("of a cluster", whole);
    PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(whole, none, job);
    show("of no cluster", whole);
    for (int i = 0; i < 6; i++) {
        PMIX_LOAD_NSPACE(whole, wholes[i]);
        memset(cluster, 0, sizeof(cluster));
        memset(part, 0, sizeof(part));
        PMIX_MULTICLUSTER_NSPACE_PARSE(whole, cluster, part);
        printf("'%s': '%s' '%s'\n", wholes[i], cluster, part);
    }
}

static void processes(void) {
    pmix_rank_t ranks[] = {0, 1, PMIX_RANK_WILDCARD, PMIX_RANK_UNDEF, PMIX_RANK_INVALID, PMIX_RANK_LOCAL_NODE};
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            pmix_proc_t a, b;
            PMIX_LOAD_PROCID(&a, "job", ranks[i]);
            PMIX_PROC_LOAD(&b, "job", ranks[j]);
            printf("%d %d: %d %d %d\n", i, j, PMIX_CHECK_RANK(ranks[i], ranks[j]), PMIX_CHECK_PROCID(&a, &b),
                   PMIX_PROCID_INVALID(&a));
            b.nspace[0] = '\0';
            printf("of any job: %d %d\n", PMIX_CHECK_PROCID(&a, &b), PMIX_PROCID_INVALID(&b));
            b.nspace[0] = 'h';
            printf("of another: %d\n", PMIX_CHECK_PROCID(&a, &b));
        }
    }
}

void names(void) {
    numbers();
    attributes();
    keys();
    processes();
}
