/* Data that a writer has left that was killed: `post_mortem PATH [RANK]` prints the values of the job, or of a process
 * of it, under the name that the writer took (instanton_job_link).
 *
 *   cc post_mortem.c $(pkg-config --cflags --libs instanton_store) -o post_mortem */
#include <instanton_store.h>
#include <pmix_common.h>
#include <stdio.h>
#include <stdlib.h>

static int print(const char *key, uint32_t scope, const struct pmix_value *value, void *arg)
{
    (void) scope, (void) arg;
    switch (value->type) {
    case PMIX_STRING:
        printf("%s = \"%s\"\n", key, value->data.string ? value->data.string : "");
        break;
    case PMIX_UINT32:
        printf("%s = %u\n", key, value->data.uint32);
        break;
    default:
        printf("%s, of type %u\n", key, value->type);
    }
    return 0;
}

int main(int argc, char **argv)
{
    instanton_view_t *view;
    uint32_t rank = argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 10) : INSTANTON_RANK_WILDCARD;

    if (argc < 2) {
        fprintf(stderr, "post_mortem PATH [RANK]\n");
        return 2;
    }
    if (instanton_view_post_mortem(argv[1], INSTANTON_OWNER_SELF, &view) != INSTANTON_SUCCESS) {
        fprintf(stderr, "%s: %s\n", argv[1], instanton_store_message());
        return 1;
    }
    int status = instanton_view_each(view, rank, print, NULL);
    if (status != INSTANTON_SUCCESS) {
        fprintf(stderr, "%s: %s\n", argv[1], instanton_store_message());
    }
    instanton_view_free(view);
    return status != INSTANTON_SUCCESS;
}
