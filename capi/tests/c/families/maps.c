/* Expressions for lists of nodes and of ranks. */
#include "families.h"

/* 4.2.2 forgets the order of names of which some have numbers and others none, finds no number behind anything but letters, and
 * overflows at ten digits; others read what we write of such names. */
static void nodes(void) {
    char *lists[] = {"a", "a1", "a,b", "n1,n2,n3", "n9,n10", "n1,n3,n5", "n5,n4,n3", "node001,node002,node010", "n01,n1",
                     "node0,node1,node2,node3", "n1,n2,m1,m2,n3", "n10,n11,n9", "x99y,x100y", "NODE1,node2", "n0,n00",
                     "a1b2,a2b2", "c01n1", "1,2,3", "host", "nid00001,nid00002,nid00004,nid00005", "a,b,"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        char *text = NULL;
        printf("%s: %d\n", lists[i], PMIx_generate_regex(lists[i], &text));
        show("nodes", text);
        free(text);
    }
}

static void ranks(void) {
    char *lists[] = {"0", "0,1", "0,1;2,3", "0,2;1,3", "0-3", "0-3;4-7", "0,1,2,4;5;6,8", "0;1;2;3", "0,1,2;3,4,5",
                     "0,1,2,3;4,5,6,7", "0,1,2,3,4;5;6;7", "0,1,2;3,4,5;6,7,8", "0,4,8,12;1,5,9,13", "0,1,2,3,7,8,9",
                     "10,11,12,13;14,15,16,17", "5,4,3,2,1,0"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        char *text = NULL;
        printf("%s: %d\n", lists[i], PMIx_generate_ppn(lists[i], &text));
        show("ranks", text);
        free(text);
    }
}

void maps(void) {
    nodes();
    ranks();
}
