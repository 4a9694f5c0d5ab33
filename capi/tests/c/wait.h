/* Counters that one thread sets and another waits for. */
#ifndef WAIT_H
#define WAIT_H
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void set(int *what) {
    pthread_mutex_lock(&lock);
    ++*what;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void until(int *what, int value) {
    pthread_mutex_lock(&lock);
    while (*what < value)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

#endif
