#include "rooms.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { LARGE = 65536 }; /* bytes; smaller ones are malloc's */

struct Room {
    long bytes;
    Room *next;
};

static void end(Room *room) { munmap(room, sizeof(Room) + (size_t)room->bytes); }

static Room *begin(long bytes) {
    const size_t all = sizeof(Room) + (size_t)bytes;
    Room *room = bytes < LARGE ? malloc(all) : mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!room || room == MAP_FAILED) abort(); /* as torch's own allocator would end us: there is nobody to tell */
    room->bytes = bytes;
    return room;
}

void *enter(Rooms *rooms, long bytes) {
    if (bytes < LARGE) return begin(bytes) + 1;
    Room **best = NULL; /* the smallest that is large enough, and not far too large */
    for (Room **at = &rooms->empty; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (*at)->bytes <= 2 * bytes + LARGE && (!best || (*at)->bytes < (*best)->bytes)) best = at;
    if (best) {
        Room *room = *best;
        *best = room->next;
        return room + 1;
    }
    if (rooms->empty) { /* none fits: one of them will not be missed */
        Room *room = rooms->empty;
        rooms->empty = room->next;
        end(room);
    }
    return begin((bytes + LARGE - 1) / LARGE * LARGE) + 1;
}

void leave(Rooms *rooms, void *given) {
    if (!given) return;
    Room *room = (Room *)given - 1;
    if (room->bytes < LARGE) free(room);
    else room->next = rooms->empty, rooms->empty = room;
}

void *at_least(Rooms *rooms, void *room, long bytes) {
    if (room && ((Room *)room - 1)->bytes >= bytes) return room;
    leave(rooms, room);
    return enter(rooms, bytes);
}

void give_back(Rooms *rooms) {
    while (rooms->empty) {
        Room *room = rooms->empty;
        rooms->empty = room->next;
        end(room);
    }
}
