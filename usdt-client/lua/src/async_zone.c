/* Async zones: of no thread, may overlap others and be closed anywhere. */
#include "module.h"

struct async_zone_object {
    syscollect_async_zone zone;
};

#define CALLER 1

static struct async_zone_object *check_async_zone(lua_State *L) {
    const struct module *module = module_of(L);
    if (lua_isuserdata(L, 1) && lua_getmetatable(L, 1)) {
        const void *metatable = lua_topointer(L, -1);
        lua_pop(L, 1);
        if (metatable == module->async_zone) {
            return lua_touserdata(L, 1);
        }
        if (metatable == module->no_async_zone) {
            return NULL;
        }
    }
    luaL_argerror(L, 1, "an async zone is expected");
    return NULL;
}

/* async_zone(name, text). Upvalues: module, metatable, the async zone that does nothing. */
static int async_zone(lua_State *L) {
    luaL_checkstring(L, 1);
    luaL_optstring(L, 2, NULL);
    if (!syscollect_enabled()) {
        lua_pushvalue(L, lua_upvalueindex(3));
        return 1;
    }
    struct async_zone_object *object = lua_newuserdata(L, sizeof *object);
    object->zone = SYSCOLLECT_NO_ASYNC_ZONE;
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, -2);

    struct text_buffer buffer, text_buffer;
    struct utf8_text name = check_text(L, 1, &buffer);
    struct script_frame frame = frame_at(L, CALLER);
    const struct script_location *location = location_of(L, LOCATION_LINE, &frame, name);
    if (location != NULL) {
        const char *text = location_has_name(location, name) ? NULL : name.bytes;
        if (lua_type(L, 2) == LUA_TSTRING) {
            text = check_text(L, 2, &text_buffer).bytes;
        }
        object->zone = syscollect_async_begin((struct syscollect_location *)&location->location,
                                              NULL, text);
    }
    return 1;
}

static int async_close(lua_State *L) {
    struct async_zone_object *object = check_async_zone(L);
    if (object != NULL) {
        syscollect_async_end(object->zone);
        object->zone = SYSCOLLECT_NO_ASYNC_ZONE;
    }
    return 0;
}

void async_zones_open(lua_State *L, int module) {
    static const struct c_function METHODS[] = {{"close", async_close}, {NULL, NULL}};
    static const struct c_function EVENTS[] = {
        {"__close", async_close}, {"__gc", async_close}, {NULL, NULL}};
    static const struct c_function NO_EVENTS[] = {{"__close", async_close}, {NULL, NULL}};
    static const struct c_function BEGIN[] = {{"async_zone", async_zone}, {NULL, NULL}};
    struct module *shared = lua_touserdata(L, module);

    push_metatable(L, "syscollect.async_zone", METHODS, module);
    set_functions(L, EVENTS, module, 0);
    shared->async_zone = lua_topointer(L, -1);
    lua_newuserdata(L, 1);
    push_metatable(L, "syscollect.async_zone", METHODS, module);
    set_functions(L, NO_EVENTS, module, 0);
    shared->no_async_zone = lua_topointer(L, -1);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -3);
    set_functions(L, BEGIN, module, 2);
    lua_pop(L, 3);
}
