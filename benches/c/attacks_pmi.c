/* Attacks at the door for PMI-1 and PMI-2, whose name no variable tells: it is listened at right after the native one. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attacks.h"

/* Seats of one process, and attributes that each of them waits for. */
#define SEATS 40
#define AWAITED 2000
/* Lines of a spawn. */
#define LINES 15000

/* The part of the server's address with this number. */
static void part_of_address(unsigned number, char *part, size_t size)
{
    const char *at = getenv("INSTANTON_SERVER");
    for (; at != NULL && number > 0; number--)
        at = strchr(at, ';') == NULL ? NULL : strchr(at, ';') + 1;
    snprintf(part, size, "%.*s", at == NULL ? 0 : (int)strcspn(at, ";"), at == NULL ? "" : at);
}

/* The first name that somebody has listened at after the native door. */
static const char *door(void)
{
    static char found[108];
    char line[512], name[200], native[200];
    unsigned long flags, inode, first = 0, best = ~0ul;
    part_of_address(4, native, sizeof native);
    FILE *table = fopen("/proc/net/unix", "r");
    for (int pass = 0; found[0] == '\0' && table != NULL && pass < 2; pass++)
        for (rewind(table); fgets(line, sizeof line, table) != NULL;) {
            if (sscanf(line, "%*s %*x %*x %lx %*x %*x %lu @%199s", &flags, &inode, name) != 3 || flags != 0x10000)
                continue;
            if (pass == 0 && strcmp(name, native) == 0)
                first = inode;
            if (pass == 1 && inode > first && inode < best && strlen(name) == strlen(native)) {
                best = inode;
                snprintf(found, sizeof found, "%.107s", name);
            }
        }
    if (table != NULL)
        fclose(table);
    return found;
}

static int connected(void)
{
    const char *name = door();
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(at.sun_path + 1, name, strlen(name));
    if (connect(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) == 0)
        return fd;
    close(fd);
    return -1;
}

/* A connection that has said for which process it is, and which version it speaks; -1 where it is refused. */
static int seated(int version)
{
    char nspace[300], token[100], line[1024], answer[512];
    int fd = connected();
    part_of_address(1, nspace, sizeof nspace);
    part_of_address(6, token, sizeof token);
    int length = snprintf(line, sizeof line, "cmd=seat nspace=%s rank=%u token=%s\ncmd=init pmi_version=%d pmi_subversion=%d\n",
                          nspace, me.rank, token, version, version == 1);
    if (fd >= 0 && write(fd, line, (size_t)length) == length) {
        ssize_t got = read(fd, answer, sizeof answer - 1);
        answer[got > 0 ? got : 0] = '\0';
        if (strstr(answer, "rc=0") != NULL)
            return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Each waits for attributes of the node that nobody puts. */
static void await(int fd, unsigned seat)
{
    char body[1024], frame[1100];
    for (unsigned at = 0; at < AWAITED; at++) {
        int length = snprintf(body, sizeof body, "cmd=info-getnodeattr;thrid=%u;key=%s%u.%u.%u;wait=TRUE;", at, text(480),
                              me.rank, seat, at);
        length = snprintf(frame, sizeof frame, "%6d%s", length, body);
        if (write(fd, frame, (size_t)length) != length)
            break;
    }
}

/* A spawn whose lines are all alike, and have no name. */
static void spawn_without_names(int fd)
{
    static char request[2 * LINES + 200];
    char answer[4096];
    size_t length = (size_t)sprintf(request, "mcmd=spawn\nnprocs=1\npreput_num=100000\ninfo_num=100000\nargcnt=100000\n");
    for (unsigned at = 0; at < LINES; at++, length += 2)
        memcpy(request + length, "=\n", 2);
    length += (size_t)sprintf(request + length, "endcmd\n");
    for (size_t sent = 0; sent < length;) {
        ssize_t more = write(fd, request + sent, length - sent);
        if (more <= 0)
            return;
        sent += (size_t)more;
    }
    if (read(fd, answer, sizeof answer) <= 0)
        usleep(10000);
}

bool pmi_request(const char *kind)
{
    static int fd = -1;
    if (IS("pmi-connects")) {
        int gone = connected();
        return gone < 0 ? usleep(1000) : close(gone), true;
    }
    if (IS("pmi-waits")) {
        if (next <= SEATS && (fd = seated(2)) >= 0)
            await(fd, next);
        return usleep(next <= SEATS ? 0 : 10000), true;
    }
    if (IS("pmi-spawns")) {
        if (next == 1)
            fd = seated(1);
        return fd < 0 ? (void)usleep(10000) : spawn_without_names(fd), true;
    }
    return false;
}
