/* Places arrays one after the other in a buffer. A function that lays out its arrays runs twice:
 * with `base` NULL it only counts the bytes, with the buffer it also yields the addresses. */
#pragma once
#include <stddef.h>

typedef struct {
    char *base;
    long bytes; /* placed so far */
} Layout;

enum { CACHE_LINE = 64 };

static inline void *place(Layout *layout, long count, size_t size) {
    const long start = (layout->bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    layout->bytes = start + count * (long)size;
    return layout->base ? layout->base + start : NULL;
}
