/* Zones that are open on a thread, and whose they are.
 *
 * The client knows a zone by its depth alone. In Lua one may be closed while others are open within
 * it, twice, by another coroutine, on another thread or in a forked child, so it is asked here
 * whose zone is at that depth: an end that finds none of its own ends nothing.
 */
#include "module.h"

#include <pthread.h>
#include <stdlib.h>

/* Numbers that a thread gives away before it asks for more. */
#define OWNERS (UINT64_C(1) << 20)

struct open_zones {
    struct open_zone *zones;
    uint32_t count, capacity;
    uint64_t next_owner;
};

static __thread struct open_zones of_thread;
static uint64_t next_owners = OWNERS;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void thread_ends(void *open) {
    struct open_zones *here = open;
    free(here->zones);
    here->zones = NULL;
    here->count = here->capacity = 0;
}

static void make_key(void) { has_key = pthread_key_create(&key, thread_ends) == 0; }

uint64_t new_owner(void) {
    struct open_zones *here = &of_thread;
    if (here->next_owner % OWNERS == 0) {
        /* The first of a block is nobody's: it stands for the end of the one before. */
        here->next_owner = __atomic_fetch_add(&next_owners, OWNERS, __ATOMIC_RELAXED) + 1;
    }
    return here->next_owner++;
}

uint32_t open_count(void) { return of_thread.count; }

const struct open_zone *open_at(uint32_t index) { return &of_thread.zones[index]; }

static bool has_room(struct open_zones *here) {
    if (here->count < here->capacity) {
        return true;
    }
    if (here->capacity == 0) {
        pthread_once(&once, make_key);
        /* Without it what the thread has is not given back. */
        if (has_key) {
            pthread_setspecific(key, here);
        }
    }
    uint32_t capacity = here->capacity == 0 ? 64 : 2 * here->capacity;
    if (capacity > MOST_OPEN) {
        return false;
    }
    struct open_zone *zones = realloc(here->zones, capacity * sizeof *zones);
    if (zones == NULL) {
        return false;
    }
    here->zones = zones;
    here->capacity = capacity;
    return true;
}

bool open_push(const struct open_zone *zone) {
    struct open_zones *here = &of_thread;
    if (zone->zone == SYSCOLLECT_NO_ZONE) {
        return false;
    }
    if (!has_room(here)) {
        syscollect_zone_end(zone->zone);
        return false;
    }
    here->zones[here->count++] = *zone;
    return true;
}

/* One past the index of the owner's innermost zone; 0: there is none. */
static uint32_t behind(const struct open_zones *here, uint64_t owner) {
    uint32_t at = here->count;
    while (at > 0 && here->zones[at - 1].owner != owner) {
        at--;
    }
    return at;
}

void open_cut(uint32_t index) {
    struct open_zones *here = &of_thread;
    /* Of a zone that its program has left open it is seen that it has no end of its own. */
    for (uint32_t inner = here->count; inner > index + 1; inner--) {
        if (here->zones[inner - 1].coroutine != NULL) {
            syscollect_zone_end(here->zones[inner - 1].zone);
        }
    }
    syscollect_zone zone = here->zones[index].zone;
    /* With it those end about which it lies alone, and whose owners are gone. */
    while (index > 0 && here->zones[index - 1].owner == 0 &&
           here->zones[index - 1].coroutine == NULL) {
        zone = here->zones[--index].zone;
    }
    here->count = index;
    syscollect_zone_end(zone);
}

syscollect_zone open_innermost(uint64_t owner) {
    const struct open_zones *here = &of_thread;
    if (here->count == 0 || here->zones[here->count - 1].owner != owner) {
        return SYSCOLLECT_NO_ZONE;
    }
    return here->zones[here->count - 1].zone;
}

bool open_end(uint64_t owner, const struct utf8_text *error) {
    struct open_zones *here = &of_thread;
    uint32_t at = behind(here, owner);
    if (at == 0) {
        return false;
    }
    if (error != NULL) {
        /* Only of the innermost zone can be said anything. */
        if (at < here->count) {
            open_cut(at);
        }
        syscollect_zone_text(here->zones[at - 1].zone, error->bytes, error->length);
    }
    open_cut(at - 1);
    return true;
}

void open_abandon(uint64_t owner) {
    struct open_zones *here = &of_thread;
    uint32_t at = behind(here, owner);
    if (at == 0) {
        return;
    }
    if (at == here->count) {
        open_cut(at - 1);
    } else {
        here->zones[at - 1].owner = 0;
    }
}

void open_suspend(uint64_t owner, struct waiting_zones *waiting) {
    struct open_zones *here = &of_thread;
    uint32_t at = behind(here, owner);
    if (at == 0) {
        return;
    }
    free(waiting->zones);
    waiting->zones = NULL;
    waiting->count = 0;
    uint32_t inner = here->count - at;
    /* Without memory for them they are over. */
    struct open_zone *zones = inner == 0 ? NULL : malloc(inner * sizeof *zones);
    for (uint32_t index = at; zones != NULL && index < here->count; index++) {
        const struct open_zone *zone = &here->zones[index];
        if (zone->location != NULL && (zone->owner != 0 || zone->coroutine != NULL)) {
            zones[waiting->count++] = *zone;
        }
    }
    waiting->zones = zones;
    /* One after the other: none of them was left open. */
    for (uint32_t index = here->count; index > at; index--) {
        syscollect_zone_end(here->zones[index - 1].zone);
    }
    open_cut(at - 1);
}

void open_resume(struct waiting_zones *waiting) {
    for (uint32_t index = 0; index < waiting->count; index++) {
        struct open_zone zone = waiting->zones[index];
        zone.zone = syscollect_zone_begin((struct syscollect_location *)&zone.location->location);
        open_push(&zone);
    }
    free(waiting->zones);
    waiting->zones = NULL;
    waiting->count = 0;
}
