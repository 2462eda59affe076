/* What the parts of the module share. Lua 5.1 to 5.4 and LuaJIT, C99 with gcc or clang.
 *
 * Any function of Lua's that takes memory may leave the one that called it (longjmp), so whatever
 * may do so stands before a zone begins, and nothing is held meanwhile that has to be given back.
 */
#ifndef SYSCOLLECT_LUA_MODULE_H
#define SYSCOLLECT_LUA_MODULE_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "syscollect.h"

/* Where an engine links these files, their functions have names that nobody else's have. */
#define async_zones_open syscollect_lua_async_zones_open
#define check_color syscollect_lua_check_color
#define check_number syscollect_lua_check_number
#define check_text syscollect_lua_check_text
#define coroutines_open syscollect_lua_coroutines_open
#define frame_at syscollect_lua_frame_at
#define functions_hook syscollect_lua_functions_hook
#define functions_open syscollect_lua_functions_open
#define location_has_name syscollect_lua_location_has_name
#define location_of syscollect_lua_location_of
#define module_in syscollect_lua_module_in
#define new_owner syscollect_lua_new_owner
#define open_abandon syscollect_lua_open_abandon
#define open_at syscollect_lua_open_at
#define open_count syscollect_lua_open_count
#define open_cut syscollect_lua_open_cut
#define open_end syscollect_lua_open_end
#define open_innermost syscollect_lua_open_innermost
#define open_push syscollect_lua_open_push
#define open_resume syscollect_lua_open_resume
#define open_suspend syscollect_lua_open_suspend
#define push_metatable syscollect_lua_push_metatable
#define set_functions syscollect_lua_set_functions
#define steps_forget syscollect_lua_steps_forget
#define text_of syscollect_lua_text_of
#define zones_open syscollect_lua_zones_open

#pragma GCC visibility push(hidden)

/* Texts. */

/* So much of a text is recorded. */
#define MAX_TEXT 4080

/* UTF-8 without zeros: of Lua's own string, or in a buffer. Ends with a zero unless it was cut. */
struct utf8_text {
    const char *bytes;
    size_t length;
};

struct text_buffer {
    char bytes[MAX_TEXT + 4];
};

/* The text as it is recorded: of bytes that are not UTF-8 each becomes U+FFFD, and zeros, too. The
 * buffer is used only where there are such. */
struct utf8_text text_of(const char *bytes, size_t length, struct text_buffer *buffer);

/* The string at that index, or Lua's error. */
struct utf8_text check_text(lua_State *L, int index, struct text_buffer *buffer);

/* The number at that index, or Lua's error. */
struct syscollect_value check_number(lua_State *L, int index);

/* 0xRRGGBB; 0 where there is none. */
uint32_t check_color(lua_State *L, int index);

/* Locations in scripts. */

enum location_kind { LOCATION_LINE, LOCATION_FUNCTION, LOCATION_COROUTINE };

/* A location; lasts as long as the process. */
struct script_location {
    struct syscollect_location location;
    struct script_location *next; /* of the same line, with another name */
    enum location_kind kind;
    size_t name_length, file_length;
    char texts[];
};

/* Where a script runs: what `lua_getinfo` with "Sl" has said. */
struct script_frame {
    lua_Debug debug;
    int level; /* negative: none runs */
};

struct script_frame frame_at(lua_State *L, int level);

/* The location in that frame with that name. Each line keeps a few names: behind these it has the
 * first one. Without a name (null bytes) it has that of the function. Null: there is no room. */
const struct script_location *location_of(lua_State *L, enum location_kind kind,
                                          struct script_frame *frame, struct utf8_text name);

/* Whether the location's name is that one, so that it need not be said. */
bool location_has_name(const struct script_location *location, struct utf8_text name);

/* Zones that are open on the calling thread, and whose they are. */

struct open_zone {
    uint64_t owner; /* 0: a function's, or of an object that is gone */
    const struct script_location *location; /* null: not known again */
    lua_State *coroutine;                   /* of a function; is compared, never followed */
    uintptr_t frame;                        /* of a function, where it lies in its coroutine */
    const void *module;                     /* of a function */
    syscollect_zone zone;
};

/* Zones that are laid aside while their coroutine waits. */
struct waiting_zones {
    struct open_zone *zones;
    uint32_t count;
};

/* Zones of more depth are not begun. */
#define MOST_OPEN 65536

/* A number that nobody else has. */
uint64_t new_owner(void);
uint32_t open_count(void);
/* Remembers a zone that has begun; ends it where there is no room. */
bool open_push(const struct open_zone *zone);
/* The owner's innermost zone on this thread, if it is the innermost of all. */
syscollect_zone open_innermost(uint64_t owner);
/* Ends the owner's innermost zone and those within it; false if it has none on this thread. An
 * error is said of it. */
bool open_end(uint64_t owner, const struct utf8_text *error);
/* The owner is gone: its zone ends as soon as none is within it. */
void open_abandon(uint64_t owner);
/* Ends the owner's innermost zone, and lays those aside that are within it. */
void open_suspend(uint64_t owner, struct waiting_zones *waiting);
/* Begins them again. */
void open_resume(struct waiting_zones *waiting);
/* The zone at that index, below `open_count`. */
const struct open_zone *open_at(uint32_t index);
/* Ends the zone at that index and those within it. */
void open_cut(uint32_t index);

/* The module, once in each Lua state. */

struct steps;

struct module {
    struct steps *steps; /* all that there are */
    lua_State *main;     /* null: not known */
    /* Metatables, by their addresses. */
    const void *zone, *no_zone, *async_zone, *no_async_zone;
    bool traces_functions, is_jit;
    char own_source[256]; /* of the part in Lua, whose functions are not traced */
};

/* The module of the C function that runs: its first upvalue. */
static inline struct module *module_of(lua_State *L) {
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* The module of a Lua state, or null. */
struct module *module_in(lua_State *L);

/* Whether a function is of the part in Lua, by what `lua_getinfo` with "S" has said. */
static inline bool is_own(const struct module *module, const lua_Debug *debug) {
    return strcmp(debug->source, module->own_source) == 0;
}

/* Puts C functions into the table at the top, with the module, which is at that index, and
 * `upvalues` values below the table, which stay. */
struct c_function {
    const char *name;
    lua_CFunction function;
};
void set_functions(lua_State *L, const struct c_function *functions, int module, int upvalues);

/* Each puts its functions into the table at the top; the module is at that index. */
void zones_open(lua_State *L, int module);
void async_zones_open(lua_State *L, int module);
void coroutines_open(lua_State *L, int module);
void functions_open(lua_State *L, int module);

/* A metatable with methods, which cannot be asked for: at the top. */
void push_metatable(lua_State *L, const char *type, const struct c_function *methods, int module);

/* A zone that is closed while its coroutine waits does not go on; false if there is none. */
bool steps_forget(struct module *module, uint64_t owner);

/* Has the functions of a coroutine traced as those of the others are. */
void functions_hook(lua_State *L, const struct module *module);

#pragma GCC visibility pop

#endif
