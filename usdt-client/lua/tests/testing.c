/* For the tests: behaves as a recorder of this process alone, and reads what is recorded, as
 * usdt-client/protocol has it. And Lua states in threads. */
#include "module.h"

#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEADERS 4096
#define HEADER_STRIDE 256
#define LOG (512 << 10)
#define LOG_BYTES (16 << 20)
#define RINGS (LOG + LOG_BYTES)
#define RING_BYTES (1 << 20)
#define RING_STRIDE (RING_BYTES + 4096)
#define MAX_RINGS 1024
#define ARENA_BYTES ((size_t)RINGS + (size_t)MAX_RINGS * RING_STRIDE)

enum { ENTRY_STRING = 1 };
enum {
    ZONE_BEGIN = 1,
    TEXT = 4,
    VALUE = 5,
    COLOR = 6,
    MESSAGE = 7,
    PLOT = 8,
    FRAME = 9,
    ASYNC_BEGIN = 10,
    ASYNC_END = 11,
    ASYNC_OPEN = 0x18,
    FRAME_IMAGE = 0x1e,
    IMAGE_BLOCKS = 0x1f,
    LOOP = 0x20,
    LOST = 0x13,
    OPEN_ZONE = 0x14,
    ATTACHED = 0x16,
    THREAD_END = 0x17,
    ZONE_END = 0xc0
};

static volatile uint16_t *semaphore(void) {
    return (volatile uint16_t *)(uintptr_t)syscollect_semaphore;
}

static int raise_semaphore(lua_State *L) {
    (void)L;
    *semaphore() = 1;
    return 0;
}

static int lower_semaphore(lua_State *L) {
    (void)L;
    *semaphore() = 0;
    return 0;
}

static void *raise_soon(void *nothing) {
    usleep(50000);
    *semaphore() = 1;
    return nothing;
}

/* raise_later(): after 50 ms, on a thread. */
static int raise_later(lua_State *L) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, raise_soon, NULL) != 0) {
        return luaL_error(L, "no thread");
    }
    pthread_detach(thread);
    return 0;
}

static const char *mapped_arena;

static const char *arena(void) {
    for (int descriptor = 0; mapped_arena == NULL && descriptor < 256; descriptor++) {
        char path[64], link[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(path, link, sizeof link - 1);
        link[length < 0 ? 0 : length] = 0;
        if (strncmp(link, "/memfd:syscollect-zones", 23) == 0) {
            void *memory =
                mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
            mapped_arena = memory == MAP_FAILED ? NULL : memory;
        }
    }
    return mapped_arena;
}

static uint32_t word(const char *at) {
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint64_t long_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Pushes a text of an entry: `index` is 0 for the name. */
static void push_text(lua_State *L, uint32_t number, int index) {
    if (number == 0) {
        lua_pushstring(L, "-");
        return;
    }
    const char *entry = arena() + LOG + (size_t)(number - 1) * 8;
    if (word(entry + 4) == ENTRY_STRING) {
        lua_pushstring(L, entry + 8); /* padded with zeros, or ends with the entry */
        return;
    }
    const char *at = entry + 16;
    uint16_t length;
    for (;; index--) {
        memcpy(&length, at, sizeof length);
        at += sizeof length;
        if (index == 0) {
            lua_pushlstring(L, at, length);
            return;
        }
        at += length;
    }
}

static void push_value(lua_State *L, uint32_t type, uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    char text[64];
    if (type == SYSCOLLECT_FLOAT) {
        snprintf(text, sizeof text, "%.14g", number);
        if (strpbrk(text, ".en") == NULL) {
            strcat(text, ".0");
        }
    } else {
        snprintf(text, sizeof text, "%lld", (long long)bits);
    }
    lua_pushstring(L, text);
}

static const char *role(uint32_t number) {
    static const char *const ROLES[] = {"?",    "text", "zone name", "said",
                                        "name", "?",    "async text"};
    return number < sizeof ROLES / sizeof ROLES[0] ? ROLES[number] : "?";
}

/* A text that comes in several items. */
struct pieces {
    size_t length;
    char bytes[MAX_TEXT + 256];
};

/* Pushes a line for the item, or nothing where its text goes on; returns its words. */
static int push_item(lua_State *L, const char *item, struct pieces *text, bool *pushed) {
    uint64_t first = long_word(item), second = long_word(item + 8);
    uint32_t low = (uint32_t)second, high = (uint32_t)(second >> 32);
    *pushed = true;
    uint32_t kind = first & 0xff;
    if (kind >= ZONE_END) {
        lua_pushfstring(L, "end %d", (int)(kind & 0x3f));
        return 1;
    }
    switch (kind) {
    case TEXT: {
        size_t bytes = first >> 16 & 0xff;
        if (text->length + bytes > MAX_TEXT) {
            luaL_error(L, "a text is too long");
        }
        memcpy(text->bytes + text->length, item + 8, bytes);
        text->length += bytes;
        *pushed = (first >> 24 & 0xff) == 0;
        if (*pushed) {
            text->bytes[text->length] = 0;
            lua_pushfstring(L, "%s %s", role(first >> 8 & 0xff), text->bytes);
            text->length = 0;
        }
        return 1 + (int)((bytes + 7) / 8);
    }
    case ZONE_BEGIN:
        push_text(L, low, 0);
        lua_pushfstring(L, "begin %s at %d", lua_tostring(L, -1), (int)high);
        break;
    case VALUE:
        if ((first >> 32) == UINT32_MAX) {
            lua_pushstring(L, "value ");
        } else {
            push_text(L, (uint32_t)(first >> 32), 0);
            lua_pushfstring(L, "value %s: ", lua_tostring(L, -1));
            lua_remove(L, -2);
        }
        push_value(L, first >> 8 & 0xff, second);
        lua_concat(L, 2);
        return 2;
    case COLOR: {
        char color[32];
        snprintf(color, sizeof color, "color %06x", (unsigned)(first >> 8 & 0xffffff));
        lua_pushstring(L, color);
        return 1;
    }
    case MESSAGE: {
        char color[32];
        snprintf(color, sizeof color, "message %06x", high);
        lua_pushstring(L, color);
        return 2;
    }
    case PLOT:
        push_text(L, low, 0);
        push_value(L, high, long_word(item + 16));
        lua_pushfstring(L, "plot %s %s", lua_tostring(L, -2), lua_tostring(L, -1));
        lua_replace(L, -3);
        lua_pop(L, 1);
        return 3;
    case FRAME:
        push_text(L, low, 0);
        lua_pushfstring(L, "frame %s", lua_tostring(L, -1));
        break;
    case ASYNC_BEGIN:
        push_text(L, low, 0);
        lua_pushfstring(L, "async %s", lua_tostring(L, -1));
        lua_remove(L, -2);
        return 4;
    case ASYNC_END:
        lua_pushstring(L, "async end");
        return 2;
    case ASYNC_OPEN:
        lua_pushstring(L, "async open");
        return 4;
    case OPEN_ZONE:
        lua_pushstring(L, "open");
        return 3;
    case LOOP:
        lua_pushstring(L, low == 0 ? "loop waits" : "loop turns");
        return 2;
    case FRAME_IMAGE:
        lua_pushstring(L, "image");
        return 4;
    case IMAGE_BLOCKS:
        lua_pushstring(L, "blocks");
        return 1 + (int)(first >> 8 & 0xff);
    case LOST:
        lua_pushstring(L, "lost");
        return 2;
    case ATTACHED:
        lua_pushstring(L, "attached");
        return 2;
    case THREAD_END:
        lua_pushstring(L, "ends");
        return 1;
    default:
        luaL_error(L, "kind %d", (int)kind);
    }
    lua_remove(L, -2);
    return 2;
}

/* take(): what all threads have written since the last call, a list of lines for each. */
static int take(lua_State *L) {
    lua_newtable(L);
    const char *base = arena();
    uint32_t rings = base == NULL ? 0 : word(base + 128);
    for (uint32_t ring = 0; ring < rings; ring++) {
        char *header = (char *)base + HEADERS + (size_t)ring * HEADER_STRIDE;
        uint64_t head = long_word(header + 64), tail = long_word(header + 128);
        const char *items = base + RINGS + (size_t)ring * RING_STRIDE;
        lua_newtable(L);
        int table = lua_gettop(L), lines = 0;
        struct pieces text = {.length = 0};
        while (tail < head) {
            bool pushed;
            tail += 8 * (uint64_t)push_item(L, items + tail % RING_BYTES, &text, &pushed);
            if (pushed) {
                lua_rawseti(L, table, ++lines);
            }
        }
        memcpy(header + 128, &tail, sizeof tail);
        lua_settop(L, table);
        lua_rawseti(L, -2, (int)ring + 1);
    }
    return 1;
}

/* locations(): all that were ever defined, as "name|function|file|line". */
static int locations(lua_State *L) {
    lua_newtable(L);
    const char *base = arena();
    uint64_t taken = base == NULL ? 0 : long_word(base + 136);
    int count = 0;
    for (uint64_t at = 0; at < taken && at < LOG_BYTES;) {
        const char *entry = base + LOG + at;
        uint32_t size = word(entry), number = (uint32_t)(at / 8) + 1;
        if (word(entry + 4) == 2) {
            push_text(L, number, 0);
            push_text(L, number, 1);
            push_text(L, number, 2);
            lua_pushfstring(L, "%s|%s|%s|%d", lua_tostring(L, -3), lua_tostring(L, -2),
                            lua_tostring(L, -1), (int)word(entry + 8));
            lua_rawseti(L, -5, ++count);
            lua_pop(L, 3);
        }
        at += size;
    }
    return 1;
}

static const char *path, *c_path; /* of all states */

static void *run(void *script) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_pushstring(L, path);
    lua_setfield(L, -2, "path");
    lua_pushstring(L, c_path);
    lua_setfield(L, -2, "cpath");
    lua_pop(L, 1);
    bool good = luaL_loadstring(L, script) == 0 && lua_pcall(L, 0, 0, 0) == 0;
    if (!good) {
        fprintf(stderr, "in a state of its own: %s\n", lua_tostring(L, -1));
    }
    lua_close(L);
    return good ? script : NULL;
}

/* in_states(count, script, in_threads): runs it in Lua states of their own, one after the other or
 * each in a thread; says how many went well. */
static int in_states(lua_State *L) {
    int count = (int)luaL_checknumber(L, 1), good = 0;
    char *script = (char *)luaL_checkstring(L, 2);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "path");
    lua_getfield(L, -2, "cpath");
    path = lua_tostring(L, -2);
    c_path = lua_tostring(L, -1);
    pthread_t threads[64];
    for (int index = 0; index < count && index < 64; index++) {
        if (!lua_toboolean(L, 3)) {
            good += run(script) != NULL;
        } else if (pthread_create(&threads[index], NULL, run, script) != 0) {
            return luaL_error(L, "no thread");
        }
    }
    for (int index = 0; index < count && index < 64 && lua_toboolean(L, 3); index++) {
        void *result;
        pthread_join(threads[index], &result);
        good += result != NULL;
    }
    lua_pushinteger(L, good);
    return 1;
}

static void *call_there(void *state) {
    lua_State *L = state;
    lua_call(L, 0, 0);
    return NULL;
}

/* on_a_thread(function): calls it on another thread, while this one waits. */
static int on_a_thread(lua_State *L) {
    pthread_t thread;
    lua_settop(L, 1);
    if (pthread_create(&thread, NULL, call_there, L) != 0) {
        return luaL_error(L, "no thread");
    }
    pthread_join(thread, NULL);
    return 0;
}

/* in_child(function): whether it is true in a forked child. */
static int in_child(lua_State *L) {
    pid_t child = fork();
    if (child == 0) {
        mapped_arena = NULL;
        lua_call(L, 0, 1);
        _exit(lua_toboolean(L, -1) ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    lua_pushboolean(L, status == 0);
    return 1;
}

/* sleep(milliseconds) */
static int sleeps(lua_State *L) {
    usleep((useconds_t)luaL_checkinteger(L, 1) * 1000);
    return 0;
}

__attribute__((visibility("default"))) int luaopen_syscollect_testing(lua_State *L);

int luaopen_syscollect_testing(lua_State *L) {
    static const struct c_function FUNCTIONS[] = {
        {"raise", raise_semaphore}, {"lower", lower_semaphore}, {"take", take},
        {"locations", locations},   {"in_states", in_states},   {"on_a_thread", on_a_thread},
        {"in_child", in_child},     {"raise_later", raise_later}, {"sleep", sleeps},
        {NULL, NULL},
    };
    lua_newtable(L);
    for (const struct c_function *each = FUNCTIONS; each->name != NULL; each++) {
        lua_pushcfunction(L, each->function);
        lua_setfield(L, -2, each->name);
    }
    return 1;
}
