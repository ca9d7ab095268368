/* Temporary buffers, kept and reused: malloc would hold on to freed memory once per
 * thread. For one thread at a time. */
#pragma once

typedef struct Buffer Buffer;
typedef struct {
    Buffer *unused; /* free large buffers */
} Arena;

/* NULL when memory runs out. */
void *arena_alloc(Arena *arena, long bytes);
/* `memory` may be NULL. */
void arena_free(Arena *arena, void *memory);
/* Returns the same memory if it is large enough, else frees it and returns new memory or NULL. */
void *arena_reserve(Arena *arena, void *memory, long bytes);
/* Returns all unused buffers to the system. */
void arena_release(Arena *arena);
