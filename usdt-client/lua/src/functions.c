/* All functions as zones, by Lua's hook for calls and returns.
 *
 * Lua does not tell of functions that an error leaves, and not every Lua tells of tail calls and
 * returns alike. So before anything else, what has no frame any more is ended: a frame is known
 * by where it lies (`i_ci`, which is compared and never followed).
 */
#include "module.h"

/* Frames that are looked at; one that lies further out is taken to be there. */
#define DEEPEST 250
/* Lua 5.1: functions that call one another in their tails, before the first is ended. */
#define TAIL_CALLS 32

static uintptr_t frame_of(const lua_Debug *debug, const struct module *module) {
    uintptr_t frame = (uintptr_t)debug->i_ci;
    /* LuaJIT keeps the frame's size above. */
    return module->is_jit ? frame & 0xffff : frame;
}

/* Whether a frame is among those that called what runs now. */
static bool is_there(lua_State *L, uintptr_t frame, const struct module *module) {
    lua_Debug debug;
    int level = 1;
    for (; level < DEEPEST && lua_getstack(L, level, &debug); level++) {
        uintptr_t there = frame_of(&debug, module);
        if (there == frame) {
            return true;
        }
#if LUA_VERSION_NUM == 501
        /* The call was told of before Lua put it into its caller's place. */
        lua_Debug caller;
        if (!module->is_jit && there != 0 && there + 1 == frame &&
            lua_getstack(L, level + 1, &caller) && caller.i_ci == 0) {
            return true;
        }
#endif
    }
    return level == DEEPEST;
}

/* Ends the functions of which there is no frame any more. */
static void end_what_is_gone(lua_State *L, const struct module *module) {
    for (;;) {
        /* One past the innermost function of this coroutine. */
        uint32_t own = open_count(), others = UINT32_MAX;
        for (; own > 0 && open_at(own - 1)->coroutine != L; own--) {
            if (open_at(own - 1)->coroutine != NULL) {
                others = own - 1;
            }
        }
        if (own == 0) {
            return;
        }
        if (others != UINT32_MAX) {
            /* Coroutines that this one has resumed; it runs again. */
            open_cut(others);
        }
        if (is_there(L, open_at(own - 1)->frame, module)) {
            return;
        }
        open_cut(own - 1);
    }
}

/* Ends the function in that frame. */
static void end_function(const lua_State *L, uintptr_t frame) {
    for (uint32_t at = open_count(); at > 0; at--) {
        const struct open_zone *zone = open_at(at - 1);
        if (zone->coroutine == L && zone->frame == frame) {
            open_cut(at - 1);
            return;
        }
    }
}

#if LUA_VERSION_NUM == 501
/* Keeps functions that call one another in their tails without end from lying in each other. */
static void limit_tail_calls(const lua_State *L, uintptr_t frame) {
    uint32_t first = open_count();
    while (first > 0 && open_at(first - 1)->coroutine == L && open_at(first - 1)->frame == frame) {
        first--;
    }
    if (open_count() - first >= TAIL_CALLS) {
        open_cut(first);
    }
}
#endif

/* LuaJIT: whether the function has taken the place of another one, by whose name it would go. */
static bool is_tail_call(const lua_State *L, uintptr_t frame, const struct module *module) {
    uint32_t own = open_count();
    while (module->is_jit && own > 0 && open_at(own - 1)->coroutine != L) {
        own--;
    }
    return module->is_jit && own > 0 && open_at(own - 1)->frame == frame;
}

static void begin_function(lua_State *L, const lua_Debug *debug, const struct module *module) {
    uintptr_t frame = frame_of(debug, module);
    struct script_frame here = {.debug = *debug, .level = is_tail_call(L, frame, module) ? -1 : 0};
    end_what_is_gone(L, module);
#if LUA_VERSION_NUM == 501
    limit_tail_calls(L, frame);
#endif
    struct utf8_text by_function = {NULL, 0};
    const struct script_location *location =
        location_of(L, LOCATION_FUNCTION, &here, by_function);
    if (location == NULL) {
        return;
    }
    struct open_zone zone = {
        .location = location,
        .coroutine = L,
        .frame = frame,
        .module = module,
        .zone = syscollect_zone_begin((struct syscollect_location *)&location->location),
    };
    open_push(&zone);
}

static void hook(lua_State *L, lua_Debug *debug) {
    const struct module *module = module_in(L);
    if (module == NULL || !module->traces_functions) {
        /* A coroutine that had it from the one that made it. */
        lua_sethook(L, NULL, 0, 0);
        return;
    }
    bool begins = debug->event != LUA_HOOKRET;
#if LUA_VERSION_NUM == 501
    if (debug->event == LUA_HOOKTAILRET) {
        return;
    }
#endif
    if (begins && !syscollect_enabled()) {
        return;
    }
    if (!begins && open_count() == 0) {
        return;
    }
    lua_getinfo(L, "S", debug);
    bool is_lua = *debug->what != 'C' && !is_own(module, debug);
    if (is_lua && begins) {
        begin_function(L, debug, module);
    } else if (is_lua) {
        end_function(L, frame_of(debug, module));
    } else {
        end_what_is_gone(L, module);
    }
}

void functions_hook(lua_State *L, const struct module *module) {
    /* Another hook is somebody else's. */
    if (module->traces_functions && lua_gethook(L) == NULL) {
        lua_sethook(L, hook, LUA_MASKCALL | LUA_MASKRET, 0);
    }
}

/* Ends all functions of the module on this thread. */
static void forget_functions(const struct module *module) {
    for (uint32_t at = 0; at < open_count(); at++) {
        const struct open_zone *zone = open_at(at);
        if (zone->coroutine != NULL && zone->module == module) {
            open_cut(at);
        }
    }
}

static int trace_functions(lua_State *L) {
    struct module *module = module_of(L);
    lua_State *states[] = {L, module->main == NULL ? L : module->main};
    if (lua_toboolean(L, 1)) {
        for (unsigned index = 0; index < 2; index++) {
            lua_Hook other = lua_gethook(states[index]);
            if (other != NULL && other != hook) {
                return luaL_error(L, "another hook is set, a debugger's perhaps");
            }
        }
        module->traces_functions = true;
        functions_hook(states[0], module);
        functions_hook(states[1], module);
        return 0;
    }
    module->traces_functions = false;
    for (unsigned index = 0; index < 2; index++) {
        if (lua_gethook(states[index]) == hook) {
            lua_sethook(states[index], NULL, 0, 0);
        }
    }
    forget_functions(module);
    return 0;
}

/* own_function(f): functions of its file are not traced. */
static int own_function(lua_State *L) {
    struct module *module = module_of(L);
    lua_Debug debug;
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushvalue(L, 1);
    lua_getinfo(L, ">S", &debug);
    if (strlen(debug.source) < sizeof module->own_source) {
        strcpy(module->own_source, debug.source);
    }
    return 0;
}

/* The Lua state ends. */
static int module_gc(lua_State *L) {
    struct module *module = lua_touserdata(L, 1);
    module->traces_functions = false;
    forget_functions(module);
    return 0;
}

void functions_open(lua_State *L, int module) {
    static const struct c_function FUNCTIONS[] = {
        {"trace_functions", trace_functions}, {"own_function", own_function}, {NULL, NULL}};
    set_functions(L, FUNCTIONS, module, 0);
    lua_newtable(L);
    lua_pushcfunction(L, module_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, module);
}
