/* Zones of the thread: objects that are closed once. While nobody records there is one object for
 * all, which does nothing. */
#include "module.h"

/* 0: it is closed. */
struct zone_object {
    uint64_t owner;
};

/* Lua's function `zone` is the caller: this is who called it. */
#define CALLER 2

/* The zone at index 1; null for the one that does nothing. */
static struct zone_object *check_zone(lua_State *L) {
    const struct module *module = module_of(L);
    if (lua_isuserdata(L, 1) && lua_getmetatable(L, 1)) {
        const void *metatable = lua_topointer(L, -1);
        lua_pop(L, 1);
        if (metatable == module->zone) {
            return lua_touserdata(L, 1);
        }
        if (metatable == module->no_zone) {
            return NULL;
        }
    }
    luaL_argerror(L, 1, "a zone is expected");
    return NULL;
}

/* The zone at index 1, of which something can be said now. */
static syscollect_zone zone_to_annotate(const struct zone_object *object) {
    return object == NULL || object->owner == 0 ? SYSCOLLECT_NO_ZONE
                                                : open_innermost(object->owner);
}

static __attribute__((noinline)) int begin_recorded(lua_State *L) {
    struct zone_object *object = lua_newuserdata(L, sizeof *object);
    object->owner = 0;
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, -2);

    struct text_buffer buffer;
    struct utf8_text name = check_text(L, 1, &buffer);
    struct script_frame frame = frame_at(L, CALLER);
    const struct script_location *location = location_of(L, LOCATION_LINE, &frame, name);
    struct open_zone zone = {.owner = new_owner(), .location = location};
    if (location == NULL) {
        int line = frame.debug.currentline;
        zone.zone = syscollect_zone_begin_dynamic(name.bytes, "", frame.debug.short_src,
                                                  line > 0 ? (uint32_t)line : 0, 0);
    } else {
        zone.zone = syscollect_zone_begin((struct syscollect_location *)&location->location);
        if (!location_has_name(location, name)) {
            syscollect_zone_name(zone.zone, name.bytes, name.length);
        }
    }
    if (open_push(&zone)) {
        object->owner = zone.owner;
    }
    return 1;
}

/* begin(name): a zone that is open. Upvalues: module, metatable, the zone that does nothing. */
static int begin(lua_State *L) {
    if (!lua_isstring(L, 1)) {
        luaL_where(L, CALLER);
        lua_pushfstring(L, "%sbad argument #1 to 'zone' (string expected, got %s)",
                        lua_tostring(L, -1), luaL_typename(L, 1));
        return lua_error(L);
    }
    if (syscollect_enabled()) {
        return begin_recorded(L);
    }
    lua_pushvalue(L, lua_upvalueindex(3));
    return 1;
}

static void close_zone(lua_State *L, struct zone_object *object, const struct utf8_text *error) {
    if (object == NULL || object->owner == 0) {
        return;
    }
    /* Of another thread it stays open: that one may still close it. */
    if (open_end(object->owner, error) || steps_forget(module_of(L), object->owner)) {
        object->owner = 0;
    }
}

static int zone_close(lua_State *L) {
    close_zone(L, check_zone(L), NULL);
    return 0;
}

/* fail(zone, error): ends it and says why. Also what Lua 5.4 calls at the end of a scope. */
static int zone_fail(lua_State *L) {
    struct zone_object *object = check_zone(L);
    if (lua_isnoneornil(L, 2)) {
        close_zone(L, object, NULL);
        return 0;
    }
    static const char BEGIN[] = "error: ";
    char error[1024] = "error";
    struct utf8_text text = {error, strlen(error)};
    /* Of others than strings no text is asked for: that would run the program's code. */
    if (lua_type(L, 2) == LUA_TSTRING) {
        struct text_buffer buffer;
        struct utf8_text message = check_text(L, 2, &buffer);
        size_t most = sizeof error - sizeof BEGIN;
        size_t length = message.length < most ? message.length : most;
        memcpy(error, BEGIN, sizeof BEGIN - 1);
        memcpy(error + sizeof BEGIN - 1, message.bytes, length);
        text.length = sizeof BEGIN - 1 + length;
    }
    close_zone(L, object, &text);
    return 0;
}

/* It was forgotten. */
static int zone_gc(lua_State *L) {
    struct zone_object *object = check_zone(L);
    if (object != NULL && object->owner != 0) {
        open_abandon(object->owner);
        object->owner = 0;
    }
    return 0;
}

static int zone_text(lua_State *L) {
    syscollect_zone zone = zone_to_annotate(check_zone(L));
    luaL_checkstring(L, 2);
    if (zone != SYSCOLLECT_NO_ZONE) {
        struct text_buffer buffer;
        struct utf8_text text = check_text(L, 2, &buffer);
        syscollect_zone_text(zone, text.bytes, text.length);
    }
    return 0;
}

static int zone_name(lua_State *L) {
    syscollect_zone zone = zone_to_annotate(check_zone(L));
    luaL_checkstring(L, 2);
    if (zone != SYSCOLLECT_NO_ZONE) {
        struct text_buffer buffer;
        struct utf8_text name = check_text(L, 2, &buffer);
        syscollect_zone_name(zone, name.bytes, name.length);
    }
    return 0;
}

static int zone_value(lua_State *L) {
    syscollect_zone zone = zone_to_annotate(check_zone(L));
    struct syscollect_value value = check_number(L, 2);
    const char *name = luaL_optstring(L, 3, NULL);
    if (zone == SYSCOLLECT_NO_ZONE) {
        return 0;
    }
    if (name == NULL) {
        syscollect_zone_value(zone, value);
    } else {
        struct text_buffer buffer;
        syscollect_zone_field(zone, check_text(L, 3, &buffer).bytes, value);
    }
    return 0;
}

static int zone_color(lua_State *L) {
    syscollect_zone zone = zone_to_annotate(check_zone(L));
    luaL_checknumber(L, 2);
    syscollect_zone_color(zone, check_color(L, 2));
    return 0;
}

static int nothing(lua_State *L) {
    (void)L;
    return 0;
}

void zones_open(lua_State *L, int module) {
    static const struct c_function METHODS[] = {
        {"close", zone_close}, {"text", zone_text},   {"name", zone_name},
        {"value", zone_value}, {"color", zone_color}, {NULL, NULL},
    };
    static const struct c_function EVENTS[] = {
        {"__close", zone_fail}, {"__gc", zone_gc}, {NULL, NULL}};
    /* To close the one that does nothing, nothing is looked at. */
    static const struct c_function NO_METHODS[] = {
        {"close", nothing},    {"text", zone_text},   {"name", zone_name},
        {"value", zone_value}, {"color", zone_color}, {NULL, NULL},
    };
    static const struct c_function NO_EVENTS[] = {{"__close", nothing}, {NULL, NULL}};
    static const struct c_function BEGIN[] = {{"begin", begin}, {NULL, NULL}};
    static const struct c_function FAIL[] = {{"fail", zone_fail}, {NULL, NULL}};
    struct module *shared = lua_touserdata(L, module);

    set_functions(L, FAIL, module, 0);

    push_metatable(L, "syscollect.zone", METHODS, module);
    set_functions(L, EVENTS, module, 0);
    shared->zone = lua_topointer(L, -1);
    lua_newuserdata(L, 1);
    push_metatable(L, "syscollect.zone", NO_METHODS, module);
    set_functions(L, NO_EVENTS, module, 0);
    shared->no_zone = lua_topointer(L, -1);
    /* Where a part in Lua may put quicker ones. */
    lua_getfield(L, -1, "__index");
    lua_setfield(L, -5, "no_zone_methods");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, "no_zone");
    /* The table with the metatable and the zone above it becomes theirs with the table on top. */
    lua_pushvalue(L, -3);
    set_functions(L, BEGIN, module, 2);
    lua_pop(L, 3);
}
