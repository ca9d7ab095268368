/* Room for a while, which is used again: malloc would keep for every thread what that gave back. For one thread at a time. */
#pragma once

typedef struct Room Room;
typedef struct {
    Room *empty; /* large ones that nobody is in */
} Rooms;

/* Room for so many bytes, of anything; who leaves it may be nowhere, NULL. */
void *enter(Rooms *rooms, long bytes);
void leave(Rooms *rooms, void *room);
/* The same room if it is as large as that, or another. */
void *at_least(Rooms *rooms, void *room, long bytes);
/* All that is empty, to the system. */
void give_back(Rooms *rooms);
