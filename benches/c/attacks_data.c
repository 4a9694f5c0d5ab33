/* Attacks by what is carried: values that are put, published, printed, sent in events and read. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacks.h"

static void pulled(pmix_status_t status, size_t number, void *data)
{
    (void)status, (void)number, (void)data;
    end_one();
}

bool data_request(const char *kind, pmix_status_t *status)
{
    static char *names[8193];
    char name[64];
    pmix_info_t info[2];
    size_t bytes;
    *status = PMIX_ERROR;
    snprintf(name, sizeof name, "name%u", next);
    if (IS("output")) {
        if (fwrite(text(4000), 1, 4000, stdout) != 4000)
            return true;
        putchar('\n');
        return true;
    }
    if (IS("puts"))
        return put(1, 100 << 10), true;
    if (IS("small-puts"))
        return put(1, 32), true;
    if (IS("large-puts"))
        return put(1, 8 << 20), true;
    if (IS("many-keys"))
        return put(1000, 50), true;
    /* Keys that are new each time, so that what is kept grows. */
    if (IS("new-keys") || IS("new-values")) {
        unsigned keys = IS("new-keys") ? 1000 : 1;
        pmix_value_t value = {.type = PMIX_STRING, .data.string = text(IS("new-keys") ? 50 : 500 << 10)};
        for (unsigned at = 0; at < keys; at++) {
            snprintf(name, sizeof name, "k%u.%u", next, at);
            PMIx_Put(PMIX_GLOBAL, name, &value);
        }
        return PMIx_Commit(), true;
    }
    /* Much that stays, and little that changes beside it. */
    if (IS("much-and-little")) {
        pmix_value_t value = {.type = PMIX_STRING, .data.string = text(next < 90 ? 500 << 10 : 20 << 10)};
        snprintf(name, sizeof name, "k%u", next < 90 ? next : 90 + next % 50);
        PMIx_Put(PMIX_GLOBAL, name, &value);
        return PMIx_Commit(), true;
    }
    if (IS("huge-puts"))
        return put(1, 50 << 20), true;
    if (IS("look-up")) {
        if (next == 1) {
            info[0] = of_text("large", text(8 << 20));
            PMIx_Publish(info, 1);
        }
        for (int at = 0; at < 8192; at++)
            names[at] = "large";
        return *status = PMIx_Lookup_nb(names, NULL, 0, found, NULL), true;
    }
    if (IS("gets"))
        return *status = PMIx_Get_nb(&pair[next % 2], name, NULL, 0, got, NULL), true;
    if (IS("all"))
        return *status = PMIx_Get_nb(&pair[next % 2], NULL, NULL, 0, got, NULL), true;
    if (IS("large-fences")) {
        info[0] = of_truth(PMIX_COLLECT_DATA);
        put(1, 2 << 20);
        return *status = PMIx_Fence_nb(&me, 1, info, 1, done, NULL), true;
    }
    if (IS("publications")) {
        info[0] = of_number(name, 1);
        return *status = PMIx_Publish_nb(info, 1, done, NULL), true;
    }
    if (IS("large-publications")) {
        info[0] = of_text(name, text(4 << 20));
        return *status = PMIx_Publish_nb(info, 1, done, NULL), true;
    }
    if (IS("logs")) {
        info[0] = of_text(PMIX_LOG_STDERR, text(64 << 10));
        return *status = PMIx_Log_nb(info, 1, NULL, 0, done, NULL), true;
    }
    /* Each line becomes an element of XML that is many times as long. */
    if (IS("large-logs")) {
        static char *lines;
        if (lines == NULL) {
            lines = malloc((20 << 20) + 1);
            memset(lines, '\n', 20 << 20);
            lines[20 << 20] = '\0';
        }
        info[0] = of_text(PMIX_LOG_STDOUT, lines);
        info[1] = of_truth(PMIX_LOG_XML_OUTPUT);
        return *status = PMIx_Log_nb(info, 1, info + 1, 1, done, NULL), true;
    }
    if (IS("pushes"))  {
        pmix_byte_object_t bytes = {.bytes = text(60 << 10), .size = 60 << 10};
        return *status = PMIx_IOF_push(pair, 2, &bytes, NULL, 0, done, NULL), true;
    }
    if (IS("republications")) {
        char *one[2] = {"name", NULL};
        info[0] = of_text("name", text(60 << 10));
        PMIx_Publish_nb(info, 1, done, NULL);
        begin_one();
        return *status = PMIx_Unpublish_nb(one, NULL, 0, done, NULL), true;
    }
    if (IS("finds")) {
        if (next == 1) {
            info[0] = of_text("large", text(1 << 20));
            PMIx_Publish(info, 1);
        }
        char *one[2] = {"large", NULL};
        return *status = PMIx_Lookup_nb(one, NULL, 0, found, NULL), true;
    }
    if (IS("group-data")) {
        pmix_info_t *results;
        info[0] = of_text(PMIX_GROUP_INFO, "");
        pmix_info_t given = of_text("given", text(1 << 20));
        pmix_data_array_t array = {.type = PMIX_INFO, .size = 1, .array = &given};
        info[0].value = (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = &array};
        if (PMIx_Group_construct(name, &me, 1, info, 1, &results, &bytes) == PMIX_SUCCESS)
            PMIx_Group_destruct(name, NULL, 0);
        return true;
    }
    if (IS("global-events")) {
        info[0] = of_text("text", text(16));
        return *status = PMIx_Notify_event(-5000, &me, PMIX_RANGE_GLOBAL, info, 1, done, NULL), true;
    }
    if (IS("kept-events")) {
        info[0] = of_text("text", text(900 << 10));
        return *status = PMIx_Notify_event(-5000, &me, PMIX_RANGE_NAMESPACE, info, 1, done, NULL), true;
    }
    if (IS("gets-of-large")) {
        if (next == 1)
            put(1, 8 << 20);
        info[0] = of_truth(PMIX_GET_REFRESH_CACHE);
        return *status = PMIx_Get_nb(&me, "k1", info, 1, got, NULL), true;
    }
    /* Values that its server has to copy: it maps nothing. */
    if (IS("gets-by-message")) {
        if (next == 1)
            put(1, 30 << 20);
        return *status = PMIx_Get_nb(&me, "k1", NULL, 0, got, NULL), true;
    }
    if (IS("finds-of-large")) {
        if (next == 1) {
            info[0] = of_text("large", text(25 << 20));
            PMIx_Publish(info, 1);
        }
        char *one[2] = {"large", NULL};
        return *status = PMIx_Lookup_nb(one, NULL, 0, found, NULL), true;
    }
    /* Lines without an end, from many. */
    if (IS("unfinished-lines")) {
        if (next <= 2)
            spawn_self("mumble", over, 8);
        usleep(10000);
        return true;
    }
    /* Children have the segments mapped that their parent had, for as long as they live. */
    if (IS("kept-segments")) {
        pmix_value_t value = {.type = PMIX_STRING}, *read;
        for (unsigned at = 0; at < 200; at++) {
            snprintf(name, sizeof name, "k%u", at % 100);
            value.data.string = text(at < 100 ? 100 << 10 : 10);
            PMIx_Put(PMIX_GLOBAL, name, &value);
            PMIx_Commit();
            if (at != 99)
                continue;
            PMIx_Fence(&me, 1, NULL, 0);
            if (PMIx_Get(&me, "k7", NULL, 0, &read) == PMIX_SUCCESS)
                PMIX_VALUE_RELEASE(read);
            if (fork() == 0) {
                while (!is_over())
                    usleep(100000);
                _exit(0);
            }
        }
        return true;
    }
    if (IS("pulls"))
        return *status = PMIx_IOF_pull(&me, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, printed, pulled, NULL), true;
    if (IS("events") || IS("small-events") || IS("mid-events")) {
        if (next == 1) {
            /* Clones of this process hear them. */
            for (int clone = 0; clone < CLONES; clone++)
                if (fork() == 0) {
                    pmix_status_t code = -5000;
                    PMIx_Init(NULL, NULL, 0);
                    PMIx_Register_event_handler(&code, 1, NULL, 0, handled, NULL, NULL);
                    while (!is_over())
                        usleep(100000);
                    _exit(0);
                }
            usleep(500000);
        }
        info[0] = of_text("large", text(IS("events") ? 900 << 10 : IS("mid-events") ? 50 << 10 : 16));
        return *status = PMIx_Notify_event(-5000, &me, PMIX_RANGE_LOCAL, info, 1, done, NULL), true;
    }
    return false;
}
