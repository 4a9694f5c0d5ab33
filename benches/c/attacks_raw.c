/* Attacks by hand: at the sockets of a server, past every library. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "attacks.h"

/* Connections that are held at a time: before they have said who they are, and afterwards. */
#define SILENT 3000
#define KNOWN 250
/* Descriptors that the kernel takes with one message. */
#define DESCRIPTORS 253

/* Connects to the door for stock clients, or to the native one. */
static int connected(bool is_stock)
{
    int fd = socket(is_stock ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = -1;
    if (is_stock) {
        const char *uri = getenv("PMIX_SERVER_URI41"), *port = uri == NULL ? NULL : strrchr(uri, ':');
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        at.sin_port = htons((uint16_t)(port == NULL ? 1 : atoi(port + 1)));
        result = connect(fd, (struct sockaddr *)&at, sizeof at);
    } else {
        const char *field = getenv("INSTANTON_SERVER");
        for (int skipped = 0; field != NULL && skipped < 4; skipped++)
            field = strchr(field, ';') + 1;
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        size_t length = field == NULL ? 0 : strcspn(field, ";");
        memcpy(at.sun_path + 1, field, length);
        result = connect(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
    }
    if (result == 0)
        return fd;
    close(fd);
    return -1;
}

static size_t add(unsigned char *to, const void *bytes, size_t length)
{
    memcpy(to, bytes, length);
    return length;
}

static size_t add_u32(unsigned char *to, uint32_t number)
{
    number = htonl(number);
    return add(to, &number, 4);
}

static size_t add_text(unsigned char *to, const char *string)
{
    return add(to, string, strlen(string) + 1);
}

/* A string as the encoding v41 has it: twice its length in digits of base 128, and its bytes. */
static size_t add_string(unsigned char *to, const char *string)
{
    size_t length = strlen(string) + 1, at = 0, digits = 2 * length;
    for (; digits > 127; digits >>= 7)
        to[at++] = (unsigned char)(digits | 128);
    to[at++] = (unsigned char)digits;
    return at + add(to + at, string, length);
}

/* Writes an acknowledgement as that process. */
static size_t acknowledgement(unsigned char *to, const char *nspace, uint32_t rank, uint32_t uid)
{
    uint32_t gid = getgid();
    size_t length = 16;
    length += add_text(to + length, "native");
    length += add_u32(to + length, 8);
    length += add(to + length, &uid, 4);
    length += add(to + length, &gid, 4);
    to[length++] = 0;
    length += add_text(to + length, nspace);
    length += add_u32(to + length, rank);
    length += add_text(to + length, "4.2.2");
    length += add_text(to + length, "v41");
    to[length++] = 1;
    length += add_text(to + length, "hash");
    memset(to, 0xff, 8);
    uint32_t bytes = (uint32_t)length - 16;
    memcpy(to + 8, &bytes, 4);
    memset(to + 12, 0, 4);
    return length;
}

/* Comes in as this process by the protocol of stock clients. */
static int acknowledged(void)
{
    unsigned char bytes[1024], answer[8];
    int fd = connected(true);
    if (fd < 0)
        return -1;
    size_t length = acknowledgement(bytes, me.nspace, me.rank, getuid());
    struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (write(fd, bytes, length) == (ssize_t)length && recv(fd, answer, 8, MSG_WAITALL) == 8 &&
        memcmp(answer, "\0\0\0", 4) == 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        return fd;
    }
    close(fd);
    return -1;
}

/* A negative number as the encoding v41 has it: its absolute value less one, doubled, and one, in digits of base 128. */
static size_t add_negative(unsigned char *to, uint32_t absolute)
{
    size_t length = 0;
    uint32_t left = (absolute - 1) << 1 | 1;
    for (; left > 127; left >>= 7)
        to[length++] = (unsigned char)(left | 128);
    to[length++] = (unsigned char)left;
    return length;
}

/* Writes a request of one of some kinds, and returns its length. */
static size_t stock_request(unsigned char *to, unsigned number)
{
    size_t length = 16;
    to[length++] = 2;
    switch (number % 5) {
    case 0: /* a fence of its own */
        length += add(to + length, "\3\2\1\2", 4);
        length += add_string(to + length, me.nspace);
        to[length++] = (unsigned char)me.rank;
        length += add(to + length, "\2\0", 2);
        break;
    case 1: /* a look-up of what nobody has */
    case 2:
        length += add(to + length, "\4\2", 2);
        length += add_string(to + length, me.nspace);
        length += add(to + length, number % 5 == 1 ? "\2\0" : "\2\1", 2);
        length += add(to + length, "\2\0\2", 3);
        length += add_string(to + length, number % 2 ? "key0" : "nothing");
        break;
    case 3: /* codes of events */
        length += add(to + length, "\15\2\1\2", 4);
        length += add_negative(to + length, 10000 + number % 3000);
        length += add(to + length, "\2\0", 2);
        break;
    default: /* nothing that there is */
        length += add(to + length, "\143\2\0", 3);
    }
    memset(to, 0, 16);
    add_u32(to, me.rank);
    add_u32(to + 4, 100 + number % 1000000);
    add_u32(to + 8, (uint32_t)length - 16);
    return length;
}

/* Floods by one connection, which reads answers or not. */
static void flood(bool reads)
{
    static unsigned char bytes[1 << 20], sink[1 << 16];
    static size_t length, written;
    static int fd = -1;
    if (fd < 0 && (fd = acknowledged()) < 0) {
        usleep(10000);
        return;
    }
    if (written == length)
        for (written = length = 0; length < sizeof bytes - 2048; next++)
            length += stock_request(bytes + length, next);
    ssize_t sent = send(fd, bytes + written, length - written, MSG_NOSIGNAL);
    written += sent > 0 ? (size_t)sent : 0;
    while (reads && recv(fd, sink, sizeof sink, 0) > 0)
        ;
    struct pollfd event = {.fd = fd, .events = (short)(POLLOUT | (reads ? POLLIN : 0))};
    if (sent < 0 && errno != EAGAIN) {
        close(fd);
        fd = -1;
        written = length;
    } else {
        poll(&event, 1, 10);
    }
}

/* Holds connections, each of which has said a part of something, and replaces those that are cut off. */
static void hold(bool is_stock, bool is_known)
{
    static int held[SILENT];
    static int count;
    int most = is_known ? KNOWN : SILENT;
    struct rlimit limit;
    if (next == 1) {
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        memset(held, -1, sizeof held);
    }
    int *at = &held[next % (unsigned)most];
    struct pollfd event = {.fd = *at, .events = POLLIN};
    if (*at >= 0 && poll(&event, 1, 0) > 0) {
        close(*at);
        *at = -1;
        count--;
    }
    if (*at < 0) {
        *at = is_known ? acknowledged() : connected(is_stock);
        if (*at < 0) {
            usleep(1000);
            return;
        }
        count++;
        /* A header that announces 30 MiB, or some of one. */
        unsigned char header[16] = {0};
        if (is_known) {
            add_u32(header + 8, 30 << 20);
            send(*at, header, 16, MSG_NOSIGNAL);
        } else {
            memcpy(header, is_stock ? "\xff\xff\xff\xff" : "INST", 4);
            send(*at, header, next % 16, MSG_NOSIGNAL);
        }
    } else if (is_known) {
        send(*at, "x", 1, MSG_NOSIGNAL);
    }
    if (count >= most)
        usleep(100);
}

/* Comes and goes, as somebody else or before it has said anything. */
static void come_and_go(bool is_stock, bool speaks)
{
    unsigned char bytes[4096] = {0}, answer[64];
    int fd = connected(is_stock);
    if (fd < 0) {
        usleep(1000);
        return;
    }
    if (speaks && is_stock) {
        char nspace[300];
        snprintf(nspace, sizeof nspace, "%s%s", me.nspace, next % 3 ? "" : "1");
        size_t length = acknowledgement(bytes, nspace, next % 3 == 1 ? 4000 + next : me.rank, next % 3 == 2 ? 12345 : 0);
        send(fd, bytes, length, MSG_NOSIGNAL);
    } else if (speaks) {
        memcpy(bytes, "INST\2\0\1", 7);
        bytes[17] = 15;
        send(fd, bytes, 24 + (15 << 8), MSG_NOSIGNAL);
    }
    if (speaks && next % 4)
        recv(fd, answer, sizeof answer, 0);
    close(fd);
}

/* The connection of the library to its server. */
static int own_connection(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_un at;
        socklen_t length = sizeof at;
        if (getpeername(fd, (struct sockaddr *)&at, &length) == 0 && at.sun_family == AF_UNIX && length > 20)
            return fd;
    }
    fprintf(stderr, "there is no connection\n");
    exit(3);
}

/* Sends bytes with so many descriptors. */
static ssize_t send_with(int fd, const void *bytes, size_t length, const int *descriptors, size_t count)
{
    char control[CMSG_SPACE(DESCRIPTORS * sizeof(int))] = {0};
    struct iovec vector = {.iov_base = (void *)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A connection whose end waits for what was sent and nobody reads. */
static int lingering(void)
{
    static int listener = -1;
    static struct sockaddr_in at;
    socklen_t length = sizeof at;
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        bind(listener, (struct sockaddr *)&at, sizeof at);
        listen(listener, 100);
        getsockname(listener, (struct sockaddr *)&at, &length);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct linger linger = {.l_onoff = 1, .l_linger = 3};
    connect(fd, (struct sockaddr *)&at, sizeof at);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (send(fd, text(1 << 20), 1 << 20, MSG_NOSIGNAL) > 0)
        ;
    fcntl(fd, F_SETFL, 0);
    return fd;
}

/* Frames of the server's own protocol, each with descriptors that nobody asked for. */
static void give(const char *kind)
{
    static int own = -1, descriptors[DESCRIPTORS];
    static uint64_t number = 1ull << 40;
    unsigned char frame[32] = {'I', 'N', 'S', 'T', 2, 0, 6, 0};
    int count = DESCRIPTORS, given = -1, pipes[2];
    if (own < 0) {
        own = own_connection();
        if (pipe(pipes) != 0)
            exit(3);
        int pair_of[2], queue = epoll_create1(0);
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair_of);
        int odd[] = {own, queue, pair_of[0], pair_of[1], open("/dev/zero", O_RDWR), open("/", O_PATH),
                     (int)syscall(SYS_pidfd_open, getpid(), 0), memfd_create("m", 0), connected(false)};
        for (int at = 0; at < DESCRIPTORS; at++)
            descriptors[at] = IS("odd-descriptors") ? odd[at % 9] : pipes[at % 2];
        if (IS("odd-descriptors"))
            send_with(pair_of[0], "x", 1, pair_of, 2);
    }
    const int *sent = descriptors;
    if (IS("lingering-descriptors") || IS("large-descriptors")) {
        if (IS("large-descriptors")) {
            given = memfd_create("large", 0);
            if (fallocate(given, 0, 0, 512 << 20) != 0)
                exit(3);
        } else {
            given = lingering();
        }
        sent = &given;
        count = 1;
    }
    number++;
    memcpy(frame + 8, &number, 8);
    frame[16] = 8;
    if (IS("strange-descriptors")) {
        int fd = connected(false);
        if (fd >= 0)
            send_with(fd, frame, 1 + next % 32, sent, (size_t)count);
        close(fd);
        return;
    }
    struct pollfd event = {.fd = own, .events = POLLOUT};
    poll(&event, 1, 100);
    if (send_with(own, frame, 32, sent, (size_t)count) < 0 && next % 1000 == 1)
        perror("descriptors");
    if (given >= 0)
        close(given);
}

bool raw_request(const char *kind)
{
    if (IS("stock-floods") || IS("stock-unread"))
        return flood(IS("stock-floods")), true;
    if (IS("stock-partial"))
        return hold(true, true), true;
    if (IS("stock-handshakes") || IS("native-handshakes"))
        return hold(IS("stock-handshakes"), false), true;
    if (IS("stock-closed") || IS("native-closed"))
        return come_and_go(IS("stock-closed"), false), true;
    if (IS("stock-wrong") || IS("native-wrong"))
        return come_and_go(IS("stock-wrong"), true), true;
    if (strstr(kind, "descriptors") != NULL)
        return give(kind), true;
    return false;
}
