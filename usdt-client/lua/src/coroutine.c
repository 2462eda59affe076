/* The lives of coroutines: an async zone for the whole, a zone of the thread for each step, and
 * zones that are open within, which are laid aside while the coroutine waits. */
#include "module.h"

#include <stdlib.h>

struct steps {
    uint64_t owner;
    syscollect_async_zone whole;
    const struct script_location *location; /* null: there was no room */
    struct waiting_zones waiting;
    struct steps *next, **link;
    size_t name_length; /* 0: it has the location's */
    char name[];
};

/* Frames of a coroutine that are looked at for its first. */
#define DEEPEST 250

/* The function of a coroutine. */
static void function_of(lua_State *coroutine, lua_Debug *debug) {
    if (lua_status(coroutine) == 0 && !lua_getstack(coroutine, 0, debug)) {
        /* It has not begun: then the function lies below its arguments. */
        if (lua_gettop(coroutine) > 0 && lua_isfunction(coroutine, 1) &&
            lua_checkstack(coroutine, 1)) {
            lua_pushvalue(coroutine, 1);
            lua_getinfo(coroutine, ">S", debug);
        }
        return;
    }
    lua_Debug at;
    for (int level = 0; level < DEEPEST && lua_getstack(coroutine, level, &at); level++) {
        *debug = at;
    }
    lua_getinfo(coroutine, "S", debug);
}

/* steps(function or coroutine, name): what is known of a coroutine. Upvalues: module, metatable. */
static int steps(lua_State *L) {
    struct module *module = module_of(L);
    struct text_buffer buffer;
    struct utf8_text name = {NULL, 0};
    if (!lua_isnoneornil(L, 2)) {
        name = check_text(L, 2, &buffer);
    }
    struct script_frame frame = frame_at(L, -1);
    if (lua_isthread(L, 1)) {
        function_of(lua_tothread(L, 1), &frame.debug);
    } else {
        luaL_checktype(L, 1, LUA_TFUNCTION);
        lua_pushvalue(L, 1);
        lua_getinfo(L, ">S", &frame.debug);
    }
    const struct script_location *location = location_of(L, LOCATION_COROUTINE, &frame, name);
    size_t length = 0;
    if (location != NULL && name.bytes != NULL && !location_has_name(location, name)) {
        length = name.length;
    }
    struct steps *steps = lua_newuserdata(L, sizeof *steps + length + 1);
    *steps = (struct steps){
        .owner = new_owner(),
        .whole = SYSCOLLECT_NO_ASYNC_ZONE,
        .location = location,
        .next = module->steps,
        .link = &module->steps,
        .name_length = length,
    };
    memcpy(steps->name, length == 0 ? "" : name.bytes, length);
    steps->name[length] = 0;
    if (steps->next != NULL) {
        steps->next->link = &steps->next;
    }
    module->steps = steps;
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, -2);
    return 1;
}

/* They are given by the part in Lua alone, which no program reaches. */
static struct steps *steps_at(lua_State *L) {
    luaL_checktype(L, 1, LUA_TUSERDATA);
    return lua_touserdata(L, 1);
}

/* step_begin(steps, coroutine): it is about to go on. */
static int step_begin(lua_State *L) {
    struct steps *steps = steps_at(L);
    lua_State *coroutine = lua_tothread(L, 2);
    if (coroutine != NULL) {
        functions_hook(coroutine, module_of(L));
    }
    if (!syscollect_enabled() || steps->location == NULL) {
        return 0;
    }
    struct syscollect_location *location =
        (struct syscollect_location *)&steps->location->location;
    bool has_name = steps->name_length != 0;
    if (steps->whole == SYSCOLLECT_NO_ASYNC_ZONE) {
        steps->whole = syscollect_async_begin(location, NULL, has_name ? steps->name : NULL);
    }
    struct open_zone zone = {
        .owner = steps->owner,
        .location = steps->location,
        .zone = syscollect_zone_begin(location),
    };
    if (has_name) {
        syscollect_zone_name(zone.zone, steps->name, steps->name_length);
    }
    if (open_push(&zone)) {
        open_resume(&steps->waiting);
    }
    return 0;
}

static void drop(struct waiting_zones *waiting) {
    free(waiting->zones);
    waiting->zones = NULL;
    waiting->count = 0;
}

/* step_end(steps, is_over, error): it waits or is over. */
static int step_end(lua_State *L) {
    struct steps *steps = steps_at(L);
    if (!lua_toboolean(L, 2)) {
        open_suspend(steps->owner, &steps->waiting);
        return 0;
    }
    struct text_buffer buffer;
    struct utf8_text error = {"error", 5};
    bool failed = !lua_isnoneornil(L, 3);
    if (lua_type(L, 3) == LUA_TSTRING) {
        error = check_text(L, 3, &buffer);
    }
    open_end(steps->owner, failed ? &error : NULL);
    drop(&steps->waiting);
    syscollect_async_end(steps->whole);
    steps->whole = SYSCOLLECT_NO_ASYNC_ZONE;
    return 0;
}

/* The coroutine is gone. */
static int steps_gc(lua_State *L) {
    struct steps *steps = steps_at(L);
    if (steps->link == NULL) {
        return 0;
    }
    open_abandon(steps->owner);
    drop(&steps->waiting);
    syscollect_async_end(steps->whole);
    steps->whole = SYSCOLLECT_NO_ASYNC_ZONE;
    *steps->link = steps->next;
    if (steps->next != NULL) {
        steps->next->link = steps->link;
    }
    steps->link = NULL;
    return 0;
}

bool steps_forget(struct module *module, uint64_t owner) {
    for (struct steps *steps = module->steps; steps != NULL; steps = steps->next) {
        struct waiting_zones *waiting = &steps->waiting;
        for (uint32_t index = waiting->count; index > 0; index--) {
            if (waiting->zones[index - 1].owner == owner) {
                /* With it end those that are within it. */
                waiting->count = index - 1;
                return true;
            }
        }
    }
    return false;
}

void coroutines_open(lua_State *L, int module) {
    static const struct c_function METHODS[] = {{NULL, NULL}};
    static const struct c_function EVENTS[] = {{"__gc", steps_gc}, {NULL, NULL}};
    static const struct c_function MAKE[] = {{"steps", steps}, {NULL, NULL}};
    static const struct c_function STEPS[] = {
        {"step_begin", step_begin}, {"step_end", step_end}, {NULL, NULL}};
    set_functions(L, STEPS, module, 0);
    push_metatable(L, "syscollect.steps", METHODS, module);
    set_functions(L, EVENTS, module, 0);
    lua_pushvalue(L, -2);
    set_functions(L, MAKE, module, 1);
    lua_pop(L, 2);
}
