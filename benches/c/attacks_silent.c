/* Attackers that ask nothing, and burn as much as others do, in as many processes. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacks.h"

/* Has this process have burnt this part of a processor since it first asked for that, however long it waits for one. */
static void catch_up(double part)
{
    static double begin, burnt;
    if (begin == 0)
        begin = now(), burnt = (double)clock() / CLOCKS_PER_SEC;
    while ((double)clock() / CLOCKS_PER_SEC - burnt < part * (now() - begin) && !is_over())
        for (volatile unsigned at = 0; at < 100000; at++)
            ;
}

/* Burns what it lacks every 10 ms. */
static void burn_part(double part)
{
    catch_up(part);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* The same at the moments, 10 ms apart, at which all clones wake. */
static void wake_and_burn(double part)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    nanosleep(&(struct timespec){.tv_nsec = 10000000 - at.tv_nsec % 10000000}, NULL);
    catch_up(part);
}

bool silent_request(const char *kind)
{
    if (strncmp(kind, "spin", 4) == 0) {
        static double part;
        if (next > 1)
            return burn_part(part), true;
        part = atof(kind + 4);
        int processes = part > 1 ? (int)(part + 0.999) : 1;
        part /= processes;
        for (int one = 1; one < processes; one++)
            if (fork() == 0) {
                while (!is_over())
                    burn_part(part);
                _exit(0);
            }
        return true;
    }
    /* It asks nothing: what starting processes takes from the victims is the system's. */
    if (IS("programs")) {
        if (fork() == 0) {
            execl("/proc/self/exe", "attacks", "program", over, NULL);
            _exit(1);
        }
        return wait(NULL), true;
    }
    /* As many programs, by itself. */
    if (strncmp(kind, "starts", 6) == 0) {
        static double begin;
        if (next == 1)
            begin = now();
        while (now() - begin < next / atof(kind + 6))
            usleep(1000);
        for (int one = 0; one < CROWD; one++)
            if (fork() == 0) {
                execlp("true", "true", NULL);
                _exit(1);
            }
        while (wait(NULL) > 0)
            ;
        return true;
    }
    if (IS("crowd")) {
        if (fork() == 0) {
            for (double until = now() + 2e-3; now() < until;)
                ;
            _exit(0);
        }
        return true;
    }
    if (strncmp(kind, "clones", 6) == 0) {
        for (int clone = 0; next == 1 && clone < CLONES; clone++)
            if (fork() == 0) {
                while (!is_over())
                    wake_and_burn(atof(kind + 6) / CLONES);
                _exit(0);
            }
        usleep(10000);
        return true;
    }
    if (strncmp(kind, "few", 3) == 0) {
        for (int one = 0; next == 1 && one < TOOLS; one++)
            if (fork() == 0) {
                while (!is_over())
                    burn_part(atof(kind + 3) / TOOLS);
                _exit(0);
            }
        usleep(10000);
        return true;
    }
    return false;
}
