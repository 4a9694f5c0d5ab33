/* PMIx_Value_load, xfer, unload, compare, destruct. */
#include "families.h"

static char what[64];

static void compare(pmix_data_type_t type, pmix_value_t *first, pmix_value_t *second) {
    switch (type) {
    /* 4.2.2 reads the address, knows no order of descriptions, and takes no copy of an array to be its equal. */
    case PMIX_POINTER: case PMIX_REGATTR: case PMIX_DATA_ARRAY: break;
    default:
        printf("compare %d: %s\n", type, PMIx_Value_comparison_string(PMIx_Value_compare(first, second)));
    }
}

static char room[1024];

static void trip(pmix_data_type_t type, void *element, size_t size) {
    pmix_value_t value, copy;
    void *out = NULL;
    size_t n = 0;
    pmix_status_t rc;
    memset(&copy, 0, sizeof(copy));
    rc = PMIx_Value_load(&value, element, type);
    printf("load %d: %d, type %d\n", type, rc, value.type);
    rc = PMIx_Value_xfer(&copy, &value);
    printf("xfer %d: %d, type %d\n", type, rc, copy.type);
    compare(type, &value, &copy);

    /* Without a place, only texts and bytes get one. 4.2.2 gives away and keeps as well what is no number. */
    if (PMIX_BYTE_OBJECT != type) {
        rc = PMIx_Value_unload(&value, &out, &n);
        printf("unload %d: %d, %s\n", type, rc, NULL == out ? "nothing" : "something");
        if (PMIX_SUCCESS == rc) {
            show_bytes("unloaded", out, n);
            free(out);
        }
    }
    if (0 < size && value.data.bo.size != size) {
        out = room;
        rc = PMIx_Value_unload(&value, &out, &n);
        printf("unload %d to a place: %d, %zu bytes, %s\n", type, rc, n, out == room ? "there" : "elsewhere");
        show_bytes("unloaded", out, n);
    }
    PMIX_VALUE_DESTRUCT(&copy);
    printf("destruct %d: type %d\n", type, copy.type);
    PMIX_VALUE_DESTRUCT(&value);
}

/* Without data. Structures behind pointers make 4.2.2 crash later. */
static void nothing(void) {
    for (int type = 1; type < PMIX_STATUS; type++) {
        pmix_value_t value;
        char *text;
        pmix_status_t rc = PMIx_Value_load(&value, NULL, (pmix_data_type_t)type);
        snprintf(what, sizeof(what), "load nothing as %d: %d, type %d", type, rc, value.type);
        show(what, text = PMIx_Value_string(&value));
        free(text);
        PMIX_VALUE_DESTRUCT(&value);
    }
}

/* Among numbers below zero the order of 4.2.2 is that of their bits. */
static void order(void) {
    int numbers[] = {0, 1, 70000};
    char *texts[] = {"", "a", "b", "ab"};
    pmix_value_t first, second;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            PMIX_VALUE_LOAD(&first, &numbers[i], PMIX_INT);
            PMIX_VALUE_LOAD(&second, &numbers[j], PMIX_INT);
            printf("%d and %d: %d\n", numbers[i], numbers[j], PMIx_Value_compare(&first, &second));
        }
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            PMIX_VALUE_LOAD(&first, texts[i], PMIX_STRING);
            PMIX_VALUE_LOAD(&second, texts[j], PMIX_STRING);
            printf("'%s' and '%s': %d\n", texts[i], texts[j], PMIx_Value_compare(&first, &second));
            PMIX_VALUE_DESTRUCT(&first);
            PMIX_VALUE_DESTRUCT(&second);
        }
    }
    PMIX_VALUE_LOAD(&first, &numbers[0], PMIX_INT);
    PMIX_VALUE_LOAD(&second, &numbers[0], PMIX_INT32);
    printf("different types: %d\n", PMIx_Value_compare(&first, &second));
}

void values(void) {
    pmix_value_t value;
    size_t n;
    every_type(trip);
    nothing();
    order();
    PMIX_VALUE_CONSTRUCT(&value);
    printf("unload to nowhere: %d\n", PMIx_Value_unload(&value, NULL, &n));
}
