/* syscollect.core: the part in C of the Lua module `syscollect`.
 *
 * While nobody records, its functions look at their arguments and at one word. While somebody does,
 * the location of a zone is looked up by the file and line that run, described once, and named by a
 * number from then on. Rings and recorders are the client library's.
 */
#include "module.h"

/* Keys of the registry: the module, and the table of its functions. */
static const char MODULE_KEY = 0, CORE_KEY = 0;

struct module *module_in(lua_State *L) {
    lua_pushlightuserdata(L, (void *)&MODULE_KEY);
    lua_rawget(L, LUA_REGISTRYINDEX);
    struct module *module = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return module;
}

void set_functions(lua_State *L, const struct c_function *functions, int module, int upvalues) {
    for (; functions->name != NULL; functions++) {
        lua_pushvalue(L, module);
        for (int upvalue = 0; upvalue < upvalues; upvalue++) {
            /* What was pushed so far lies upon it. */
            lua_pushvalue(L, -2 - upvalues);
        }
        lua_pushcclosure(L, functions->function, 1 + upvalues);
        lua_setfield(L, -2, functions->name);
    }
}

void push_metatable(lua_State *L, const char *type, const struct c_function *methods, int module) {
    lua_newtable(L);
    lua_newtable(L);
    set_functions(L, methods, module, 0);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, type);
    lua_setfield(L, -2, "__name");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

static int enabled(lua_State *L) {
    lua_pushboolean(L, syscollect_enabled());
    return 1;
}

/* The same for LuaJIT's compiler, which calls it without Lua's stack. */
static int is_enabled(void) { return syscollect_enabled(); }

/* message(text, color) */
static int message(lua_State *L) {
    luaL_checkstring(L, 1);
    uint32_t color = check_color(L, 2);
    if (syscollect_enabled()) {
        struct text_buffer buffer;
        struct utf8_text text = check_text(L, 1, &buffer);
        syscollect_message(text.bytes, text.length, color);
    }
    return 0;
}

/* plot(name, value, unit) */
static int plot(lua_State *L) {
    luaL_checkstring(L, 1);
    struct syscollect_value value = check_number(L, 2);
    luaL_optstring(L, 3, "");
    if (syscollect_enabled()) {
        struct text_buffer name_buffer, unit_buffer;
        const char *name = check_text(L, 1, &name_buffer).bytes;
        const char *unit =
            lua_isnoneornil(L, 3) ? NULL : check_text(L, 3, &unit_buffer).bytes;
        syscollect_plot_dynamic(name, unit, value);
    }
    return 0;
}

/* frame(name): one ends, and the next begins. */
static int frame(lua_State *L) {
    luaL_optstring(L, 1, "");
    if (syscollect_enabled()) {
        struct text_buffer buffer;
        const char *name = lua_isnoneornil(L, 1) ? NULL : check_text(L, 1, &buffer).bytes;
        syscollect_frame_dynamic(name, SYSCOLLECT_FRAME_MARK);
    }
    return 0;
}

/* frame_image(rgba, width, height, frames_ago, flipped): four bytes a pixel, row by row. */
static int frame_image(lua_State *L) {
    size_t bytes;
    const char *rgba = luaL_checklstring(L, 1, &bytes);
    lua_Number width = luaL_checknumber(L, 2), height = luaL_checknumber(L, 3);
    lua_Number frames_ago = luaL_optnumber(L, 4, 0);
    luaL_argcheck(L, width >= 1 && width <= 65535, 2, "no width");
    luaL_argcheck(L, height >= 1 && height <= 65535, 3, "no height");
    luaL_argcheck(L, frames_ago >= 0 && frames_ago <= 255, 4, "no number of frames");
    uint32_t columns = (uint32_t)width, rows = (uint32_t)height;
    luaL_argcheck(L, bytes == (size_t)columns * rows * 4, 1, "not four bytes for each pixel");
    syscollect_frame_image(rgba, columns, rows, (uint8_t)frames_ago, (uint8_t)lua_toboolean(L, 5));
    return 0;
}

/* loop_waits(), loop_turns(): the event loop of the thread that Lua runs in. */
static int loop_waits(lua_State *L) {
    (void)L;
    syscollect_loop_waits();
    return 0;
}

static int loop_turns(lua_State *L) {
    (void)L;
    syscollect_loop_turns();
    return 0;
}

/* thread_name(name): of the thread that Lua runs in. */
static int thread_name(lua_State *L) {
    struct text_buffer buffer;
    syscollect_thread_name(check_text(L, 1, &buffer).bytes);
    return 0;
}

/* open_zones(): how many there are on this thread. */
static int open_zones(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)open_count());
    return 1;
}

static void push_module(lua_State *L) {
    struct module *module = lua_newuserdata(L, sizeof *module);
    memset(module, 0, sizeof *module);
    lua_getglobal(L, "jit");
    module->is_jit = lua_istable(L, -1);
    lua_pop(L, 1);
#if LUA_VERSION_NUM >= 502
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    module->main = lua_tothread(L, -1);
    lua_pop(L, 1);
#else
    module->main = lua_pushthread(L) ? L : NULL;
    lua_pop(L, 1);
#endif
    lua_pushlightuserdata(L, (void *)&MODULE_KEY);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

__attribute__((visibility("default"))) int luaopen_syscollect_core(lua_State *L);

/* Once for each Lua state: whoever asks again gets the same. */
int luaopen_syscollect_core(lua_State *L) {
    static const struct c_function FUNCTIONS[] = {
        {"enabled", enabled}, {"message", message},         {"plot", plot},
        {"frame", frame},     {"thread_name", thread_name}, {"open_zones", open_zones},
        {"frame_image", frame_image}, {"loop_waits", loop_waits}, {"loop_turns", loop_turns},
        {NULL, NULL},
    };
    luaL_checkstack(L, 20, NULL);
    lua_pushlightuserdata(L, (void *)&CORE_KEY);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (lua_istable(L, -1)) {
        return 1;
    }
    push_module(L);
    int module = lua_gettop(L);
    lua_newtable(L);
    set_functions(L, FUNCTIONS, module, 0);
    zones_open(L, module);
    async_zones_open(L, module);
    coroutines_open(L, module);
    functions_open(L, module);
    lua_pushlightuserdata(L, (void *)(uintptr_t)is_enabled);
    lua_setfield(L, -2, "is_enabled");
    lua_pushlightuserdata(L, (void *)&CORE_KEY);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 1;
}
