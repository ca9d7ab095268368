#include "buffer_pool.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { MMAP_MIN_BYTES = 65536 }; /* smaller buffers come from malloc */

struct Buffer {
    long bytes;
    Buffer *next;
};

static void unmap(Buffer *buffer) { munmap(buffer, sizeof(Buffer) + (size_t)buffer->bytes); }

static Buffer *new_buffer(long bytes) {
    const size_t all = sizeof(Buffer) + (size_t)bytes;
    Buffer *buffer = bytes < MMAP_MIN_BYTES ? malloc(all)
                                            : mmap(NULL, all, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!buffer || buffer == MAP_FAILED) return NULL;
    buffer->bytes = bytes;
    return buffer;
}

/* Unlinks the smallest unused buffer that fits and is not far too large; NULL if there is none. */
static Buffer *take_unused(BufferPool *pool, long bytes) {
    Buffer **best = NULL;
    for (Buffer **at = &pool->unused; *at; at = &(*at)->next) {
        const long size = (*at)->bytes;
        if (size < bytes || size > 2 * bytes + MMAP_MIN_BYTES) continue;
        if (!best || size < (*best)->bytes) best = at;
    }
    if (!best) return NULL;
    Buffer *buffer = *best;
    *best = buffer->next;
    return buffer;
}

static void release_first(BufferPool *pool) {
    Buffer *buffer = pool->unused;
    pool->unused = buffer->next;
    unmap(buffer);
}

void *pool_alloc(BufferPool *pool, long bytes) {
    const int small = bytes < MMAP_MIN_BYTES;
    Buffer *buffer = small ? NULL : take_unused(pool, bytes);
    if (buffer) return buffer + 1;
    if (!small) {
        if (pool->unused) release_first(pool); /* none fits, so make room for the new one */
        bytes = (bytes + MMAP_MIN_BYTES - 1) / MMAP_MIN_BYTES * MMAP_MIN_BYTES;
    }
    buffer = new_buffer(bytes);
    return buffer ? buffer + 1 : NULL;
}

void pool_free(BufferPool *pool, void *memory) {
    if (!memory) return;
    Buffer *buffer = (Buffer *)memory - 1;
    if (buffer->bytes < MMAP_MIN_BYTES) {
        free(buffer);
        return;
    }
    buffer->next = pool->unused;
    pool->unused = buffer;
}

void *pool_reserve(BufferPool *pool, void *memory, long bytes) {
    if (memory && ((Buffer *)memory - 1)->bytes >= bytes) return memory;
    pool_free(pool, memory);
    return pool_alloc(pool, bytes);
}

void pool_release(BufferPool *pool) {
    while (pool->unused) release_first(pool);
}
