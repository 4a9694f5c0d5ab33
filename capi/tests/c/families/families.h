/* The helper functions, a file a family: each prints what they do with what it gives them, and any library must print the
 * same. Calls that a stock library crashes on, or answers against its own rules, are not made here: a note says so, and
 * later.c asks this library alone. */
#ifndef FAMILIES_H
#define FAMILIES_H
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void texts(void);
void values(void);
void infos(void);
void names(void);
void arguments(void);
void buffers(void);
void maps(void);
void newer(void);

/* A text on one line. */
void show(const char *what, const char *text);
void show_bytes(const char *what, const void *bytes, size_t n);

/* Material of the samples. */
extern pmix_proc_t a_proc;
extern char *a_list[3];

/* Gives `each` an element of every type that stock libraries know. Of a string, a map expression, a namespace and a pointer it
 * is what PMIx_Value_load wants: the thing itself. */
void every_type(void (*each)(pmix_data_type_t type, void *element, size_t size));
#endif
