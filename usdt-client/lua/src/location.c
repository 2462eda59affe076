/* Locations in scripts: described once, and found again by their file and line.
 *
 * They are those of all Lua states of the process, which run in any thread: the table is only ever
 * added to, without a lock. What it holds is bounded, and so is what one line may add to it: a name
 * that changes from call to call is said with the zone.
 */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SLOTS = 1 << 15,
    MOST = 1 << 14, /* locations */
    PROBES = 32,    /* slots that are looked at */
    NAMES = 8,      /* of one line */
    LONGEST = 255   /* bytes of a text */
};

static struct script_location *table[SLOTS];
static uint32_t known;

/* A line of a file. */
struct script_line {
    enum location_kind kind;
    struct utf8_text file;
    uint32_t line;
    uint64_t hash;
};

static struct utf8_text cut(const char *text) {
    size_t length = 0;
    while (length < LONGEST && text[length] != 0) {
        length++;
    }
    return (struct utf8_text){text, length};
}

static uint64_t hash_of(const struct script_line *line) {
    const uint64_t factor = UINT64_C(0xff51afd7ed558ccd);
    uint64_t hash = ((uint64_t)line->line << 2 | line->kind) * factor;
    const char *at = line->file.bytes;
    size_t left = line->file.length;
    while (left > 0) {
        uint64_t word = 0;
        size_t size = left < sizeof word ? left : sizeof word;
        memcpy(&word, at, size);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 32;
        at += size;
        left -= size;
    }
    return hash;
}

static struct script_line line_of(enum location_kind kind, const lua_Debug *debug) {
    int number = kind == LOCATION_LINE ? debug->currentline : debug->linedefined;
    const char *source = debug->source;
    struct script_line line = {
        kind,
        /* Of a script that is no file its beginning. */
        *source == '@' || *source == '=' ? cut(source + 1) : cut(debug->short_src),
        number > 0 ? (uint32_t)number : 0,
        0,
    };
    line.hash = hash_of(&line);
    return line;
}

struct script_frame frame_at(lua_State *L, int level) {
    struct script_frame frame;
    frame.level = level;
    if (level < 0 || !lua_getstack(L, level, &frame.debug) ||
        !lua_getinfo(L, "Sl", &frame.debug)) {
        frame.level = -1;
        memset(&frame.debug, 0, sizeof frame.debug);
        frame.debug.source = "=";
        frame.debug.what = "C";
    }
    return frame;
}

/* Whether the function's caller has a name for it, which is then there. */
static bool has_a_name(lua_State *L, struct script_frame *frame) {
    lua_Debug caller;
    if (frame->level < 0 || !lua_getinfo(L, "n", &frame->debug)) {
        return false;
    }
    const struct module *module = module_in(L);
    /* What our functions call it says nothing. */
    bool is_called_by_us = module != NULL && lua_getstack(L, frame->level + 1, &caller) &&
                           lua_getinfo(L, "S", &caller) && is_own(module, &caller);
    return !is_called_by_us && frame->debug.name != NULL && *frame->debug.name != 0;
}

/* What the function is called, by its caller, or by where it stands. */
static struct utf8_text function_name(lua_State *L, const struct script_line *line,
                                      struct script_frame *frame, char *room, size_t size) {
    lua_Debug *debug = &frame->debug;
    if (has_a_name(L, frame)) {
        return cut(debug->name);
    }
    if (strcmp(debug->what, "main") == 0) {
        return cut("main chunk");
    }
    if (strcmp(debug->what, "C") == 0) {
        return cut("");
    }
    const char *file = line->file.bytes, *end = file + line->file.length;
    for (const char *at = file; at < end; at++) {
        if (*at == '/') {
            file = at + 1;
        }
    }
    snprintf(room, size, "function <%.*s:%d>", (int)(end - file), file, debug->linedefined);
    return cut(room);
}

static const char *keep(char **to, struct utf8_text text) {
    char *kept = *to;
    memcpy(kept, text.bytes, text.length);
    kept[text.length] = 0;
    *to += text.length + 1;
    return kept;
}

static void forget(struct script_location *location) {
    free(location);
    __atomic_fetch_sub(&known, 1, __ATOMIC_RELAXED);
}

static struct script_location *make(lua_State *L, const struct script_line *line,
                                    struct script_frame *frame, struct utf8_text name) {
    if (__atomic_fetch_add(&known, 1, __ATOMIC_RELAXED) >= MOST) {
        __atomic_fetch_sub(&known, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    char room[LONGEST + 64];
    struct utf8_text function = function_name(L, line, frame, room, sizeof room);
    if (name.bytes == NULL) {
        name = function;
    }
    if (name.length > LONGEST) {
        name.length = LONGEST;
    }
    size_t bytes = name.length + function.length + line->file.length + 3;
    struct script_location *made = malloc(sizeof *made + bytes);
    if (made == NULL) {
        __atomic_fetch_sub(&known, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    char *to = made->texts;
    made->location = (struct syscollect_location){
        keep(&to, name), keep(&to, function), keep(&to, line->file), line->line, 0, 0,
    };
    made->next = NULL;
    made->kind = line->kind;
    made->name_length = name.length;
    made->file_length = line->file.length;
    return made;
}

static bool is_at(const struct script_location *location, const struct script_line *line) {
    return location->location.line == line->line && location->kind == line->kind &&
           location->file_length == line->file.length &&
           memcmp(location->location.file, line->file.bytes, line->file.length) == 0;
}

bool location_has_name(const struct script_location *location, struct utf8_text name) {
    return location->name_length == name.length &&
           memcmp(location->location.name, name.bytes, name.length) == 0;
}

/* The location of that line with that name, or its first. */
static const struct script_location *of_name(lua_State *L, struct script_location *first,
                                             const struct script_line *line,
                                             struct script_frame *frame, struct utf8_text name) {
    struct script_location *at = first;
    for (int names = 1; !location_has_name(at, name); names++) {
        struct script_location *next = __atomic_load_n(&at->next, __ATOMIC_ACQUIRE);
        if (next != NULL) {
            at = next;
            continue;
        }
        struct script_location *made = names < NAMES ? make(L, line, frame, name) : NULL;
        if (made == NULL) {
            return first;
        }
        if (__atomic_compare_exchange_n(&at->next, &next, made, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            return made;
        }
        /* Another thread was faster. */
        forget(made);
        at = next;
    }
    return at;
}

const struct script_location *location_of(lua_State *L, enum location_kind kind,
                                          struct script_frame *frame, struct utf8_text name) {
    struct script_line line = line_of(kind, &frame->debug);
    for (unsigned probe = 0; probe < PROBES; probe++) {
        struct script_location **slot = &table[(line.hash + probe) % SLOTS];
        struct script_location *found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        if (found == NULL) {
            struct script_location *made = make(L, &line, frame, name);
            if (made == NULL) {
                return NULL;
            }
            if (__atomic_compare_exchange_n(slot, &found, made, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                return made;
            }
            forget(made);
        }
        if (is_at(found, &line)) {
            return name.bytes == NULL ? found : of_name(L, found, &line, frame, name);
        }
    }
    return NULL;
}
