/* Texts and numbers of Lua as the client takes them. */
#include "module.h"

#include <math.h>

static bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

/* Bytes of the character at `text`, of which `left` bytes are there; 0 if it is none. */
static size_t character(const unsigned char *text, size_t left) {
    unsigned char first = text[0];
    if (first < 0x80) {
        return first != 0;
    }
    if (first >= 0xc2 && first < 0xe0) {
        return left > 1 && continues(text[1]) ? 2 : 0;
    }
    if (first >= 0xe0 && first < 0xf0) {
        /* Neither what is too long nor surrogates. */
        unsigned char least = first == 0xe0 ? 0xa0 : 0x80, most = first == 0xed ? 0x9f : 0xbf;
        bool valid = left > 2 && text[1] >= least && text[1] <= most && continues(text[2]);
        return valid ? 3 : 0;
    }
    if (first >= 0xf0 && first < 0xf5) {
        unsigned char least = first == 0xf0 ? 0x90 : 0x80, most = first == 0xf4 ? 0x8f : 0xbf;
        bool valid = left > 3 && text[1] >= least && text[1] <= most && continues(text[2]) &&
                     continues(text[3]);
        return valid ? 4 : 0;
    }
    return 0;
}

struct utf8_text text_of(const char *bytes, size_t length, struct text_buffer *buffer) {
    static const char REPLACEMENT[] = "\xef\xbf\xbd";
    const unsigned char *text = (const unsigned char *)bytes;
    size_t at = 0;
    while (at < length && at < MAX_TEXT) {
        size_t size = character(text + at, length - at);
        if (size == 0) {
            break;
        }
        at += size;
    }
    if (at >= length || at >= MAX_TEXT) {
        /* A character that is cut is the client's to leave out. */
        return (struct utf8_text){bytes, at};
    }
    size_t to = at;
    memcpy(buffer->bytes, bytes, at);
    while (at < length && to < MAX_TEXT) {
        size_t size = character(text + at, length - at);
        const char *from = size == 0 ? REPLACEMENT : bytes + at;
        size_t copied = size == 0 ? sizeof REPLACEMENT - 1 : size;
        if (to + copied > MAX_TEXT) {
            break;
        }
        memcpy(buffer->bytes + to, from, copied);
        at += size == 0 ? 1 : size;
        to += copied;
    }
    buffer->bytes[to] = 0;
    return (struct utf8_text){buffer->bytes, to};
}

struct utf8_text check_text(lua_State *L, int index, struct text_buffer *buffer) {
    size_t length;
    const char *bytes = luaL_checklstring(L, index, &length);
    return text_of(bytes, length, buffer);
}

struct syscollect_value check_number(lua_State *L, int index) {
#if LUA_VERSION_NUM >= 503
    if (lua_isinteger(L, index)) {
        return syscollect_signed(lua_tointeger(L, index));
    }
    return syscollect_float(luaL_checknumber(L, index));
#else
    /* Where Lua has no integers, whole numbers are. */
    double number = luaL_checknumber(L, index);
    if (number == floor(number) && fabs(number) < 9007199254740992.0) {
        return syscollect_signed((int64_t)number);
    }
    return syscollect_float(number);
#endif
}

uint32_t check_color(lua_State *L, int index) {
    double color = luaL_optnumber(L, index, 0);
    if (!(color >= 0 && color <= 0xffffff)) {
        luaL_argerror(L, index, "a color is 0xRRGGBB");
    }
    return (uint32_t)color;
}
