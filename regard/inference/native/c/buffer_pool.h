/* Temporary buffers, kept and reused: malloc would hold on to freed memory once per
 * thread. For one thread at a time. */
#pragma once

typedef struct Buffer Buffer;
typedef struct {
    Buffer *unused; /* free large buffers */
} BufferPool;

/* NULL when memory runs out. */
void *pool_alloc(BufferPool *pool, long bytes);
/* `memory` may be NULL. */
void pool_free(BufferPool *pool, void *memory);
/* Returns the same memory if it is large enough, else frees it and returns new memory or NULL. */
void *pool_reserve(BufferPool *pool, void *memory, long bytes);
/* Returns all unused buffers to the system. */
void pool_release(BufferPool *pool);
