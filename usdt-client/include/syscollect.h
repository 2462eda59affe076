/* Marks zones, messages, plots and frames in a C or C++ program for `syscollect record`.
 *
 * Link libsyscollect_client.a (cargo build --release -p syscollect-client), with -lpthread, -ldl
 * and -lm. For gcc and clang, C11 or C++11 and later, Linux on x86-64.
 *
 *     void load(int count) {
 *         SYSCOLLECT_ZONE("load");               // until the end of the block
 *         SYSCOLLECT_ZONE_VALUE(count);          // of the zone of this block
 *         SYSCOLLECT_MESSAGE("loading");
 *         SYSCOLLECT_PLOT("queue", "", count);
 *         SYSCOLLECT_FRAME();
 *     }
 *
 * While nobody records, each of these is two loads and a branch, and their arguments are not
 * evaluated. Names, units and texts of macros that say CONSTANT must last as long as the program,
 * or as the library that they are in; other texts are copied. Texts are UTF-8. Define
 * SYSCOLLECT_OFF to remove all marks.
 *
 * Names that end with _recorded are for the macros alone.
 */
#ifndef SYSCOLLECT_H
#define SYSCOLLECT_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A place in the source. Made by SYSCOLLECT_LOCATION; the last field is the library's. */
struct syscollect_location {
    const char *name;
    const char *function;
    const char *file;
    uint32_t line;
    uint32_t color; /* 0xRRGGBB; 0 leaves it to the viewer */
    uint64_t number;
};

/* A plot: its name and unit. */
struct syscollect_plot {
    const char *name;
    const char *unit;
    uint64_t number;
};

/* A set of frames; the empty name is the main set. */
struct syscollect_frames {
    const char *name;
    uint64_t number;
};

/* A zone that was begun; SYSCOLLECT_NO_ZONE is none. */
typedef uint32_t syscollect_zone;
#define SYSCOLLECT_NO_ZONE UINT32_MAX

/* How 64 bits are read. */
enum { SYSCOLLECT_UNSIGNED = 1, SYSCOLLECT_SIGNED = 2, SYSCOLLECT_FLOAT = 3 };
/* What of a frame. */
enum { SYSCOLLECT_FRAME_MARK = 0, SYSCOLLECT_FRAME_BEGIN = 1, SYSCOLLECT_FRAME_END = 2 };

#ifndef SYSCOLLECT_OFF

extern const volatile uint16_t *const syscollect_semaphore;
syscollect_zone syscollect_zone_begin_recorded(struct syscollect_location *location);
syscollect_zone syscollect_zone_begin_stack_recorded(struct syscollect_location *location);
void syscollect_zone_end_recorded(syscollect_zone zone);
void syscollect_zone_text_recorded(syscollect_zone zone, const char *text);
void syscollect_zone_name_recorded(syscollect_zone zone, const char *name);
void syscollect_zone_value_recorded(syscollect_zone zone, uint8_t type, uint64_t bits);
void syscollect_message_recorded(const char *text, uint32_t color);
void syscollect_plot_recorded(struct syscollect_plot *plot, uint8_t type, uint64_t bits);
void syscollect_frame_recorded(struct syscollect_frames *frames, uint8_t phase);

/* Names the calling thread, at most 63 bytes; known to collectors that come later, too. */
void syscollect_thread_name(const char *name);

/* Whether anybody records. */
static inline int syscollect_enabled(void) {
    return __builtin_expect(*syscollect_semaphore != 0, 0);
}

/* Begins a zone by hand; end it on the same thread. */
static inline syscollect_zone syscollect_zone_begin(struct syscollect_location *location) {
    return syscollect_enabled() ? syscollect_zone_begin_recorded(location) : SYSCOLLECT_NO_ZONE;
}

/* The same with the call stack, which takes microseconds. */
static inline __attribute__((always_inline)) syscollect_zone
syscollect_zone_begin_stack(struct syscollect_location *location) {
    return syscollect_enabled() ? syscollect_zone_begin_stack_recorded(location)
                                : SYSCOLLECT_NO_ZONE;
}

/* Ends a zone, and those within it that are still open. */
static inline void syscollect_zone_end(syscollect_zone zone) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_end_recorded(zone);
    }
}

#else /* SYSCOLLECT_OFF */

static inline void syscollect_thread_name(const char *name) {
    (void)name;
}

static inline int syscollect_enabled(void) {
    return 0;
}

static inline syscollect_zone syscollect_zone_begin(struct syscollect_location *location) {
    (void)location;
    return SYSCOLLECT_NO_ZONE;
}

static inline syscollect_zone syscollect_zone_begin_stack(struct syscollect_location *location) {
    (void)location;
    return SYSCOLLECT_NO_ZONE;
}

static inline void syscollect_zone_end(syscollect_zone zone) {
    (void)zone;
}

static inline void syscollect_zone_text_recorded(syscollect_zone zone, const char *text) {
    (void)zone, (void)text;
}

static inline void syscollect_zone_name_recorded(syscollect_zone zone, const char *name) {
    (void)zone, (void)name;
}

static inline void syscollect_zone_value_recorded(syscollect_zone zone, uint8_t type,
                                                  uint64_t bits) {
    (void)zone, (void)type, (void)bits;
}

static inline void syscollect_message_recorded(const char *text, uint32_t color) {
    (void)text, (void)color;
}

static inline void syscollect_plot_recorded(struct syscollect_plot *plot, uint8_t type,
                                            uint64_t bits) {
    (void)plot, (void)type, (void)bits;
}

static inline void syscollect_frame_recorded(struct syscollect_frames *frames, uint8_t phase) {
    (void)frames, (void)phase;
}

#endif /* SYSCOLLECT_OFF */

static inline uint64_t syscollect_bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline void syscollect_end_of_block(syscollect_zone *zone) {
    syscollect_zone_end(*zone);
}

#ifdef __cplusplus
} /* extern "C" */

namespace syscollect {

/* A zone that ends with its scope. */
class Zone {
public:
    explicit Zone(syscollect_location *location) : token(syscollect_zone_begin(location)) {}
    /* With the call stack. */
    struct WithStack {};
    __attribute__((always_inline)) inline Zone(syscollect_location *location, WithStack)
        : token(syscollect_zone_begin_stack(location)) {}
    ~Zone() { syscollect_zone_end(token); }
    Zone(const Zone &) = delete;
    Zone &operator=(const Zone &) = delete;
    operator syscollect_zone() const { return token; }

private:
    const syscollect_zone token;
};

} /* namespace syscollect */

#define SYSCOLLECT_BLOCK_ZONE_                                                                     \
    syscollect::Zone syscollect_zone_of_block(&syscollect_location_of_block)
#define SYSCOLLECT_BLOCK_ZONE_STACK_                                                               \
    syscollect::Zone syscollect_zone_of_block(&syscollect_location_of_block,                       \
                                              syscollect::Zone::WithStack())
#else
#define SYSCOLLECT_BLOCK_ZONE_                                                                     \
    __attribute__((cleanup(syscollect_end_of_block))) syscollect_zone syscollect_zone_of_block =   \
        syscollect_zone_begin(&syscollect_location_of_block)
#define SYSCOLLECT_BLOCK_ZONE_STACK_                                                               \
    __attribute__((cleanup(syscollect_end_of_block))) syscollect_zone syscollect_zone_of_block =   \
        syscollect_zone_begin_stack(&syscollect_location_of_block)
#endif

/* Names a place here: SYSCOLLECT_LOCATION(place, "CONSTANT name", 0xff8000), for
 * syscollect_zone_begin(&place). */
#define SYSCOLLECT_LOCATION(variable, name, color)                                                 \
    static struct syscollect_location variable = {name, __func__, __FILE__, __LINE__, color, 0}

/* A zone from here to the end of the block; one for each block. The name is CONSTANT. */
#define SYSCOLLECT_ZONE(name) SYSCOLLECT_ZONE_COLORED(name, 0)
#define SYSCOLLECT_ZONE_COLORED(name, color)                                                       \
    SYSCOLLECT_LOCATION(syscollect_location_of_block, name, color);                                \
    SYSCOLLECT_BLOCK_ZONE_

/* The same with the call stack, which takes microseconds. */
#define SYSCOLLECT_ZONE_STACK(name)                                                                \
    SYSCOLLECT_LOCATION(syscollect_location_of_block, name, 0);                                    \
    SYSCOLLECT_BLOCK_ZONE_STACK_

/* Runs if the zone of this block is recorded. */
#define SYSCOLLECT_OF_ZONE_(statement)                                                             \
    do {                                                                                           \
        if (__builtin_expect(syscollect_zone_of_block != SYSCOLLECT_NO_ZONE, 0)) {                 \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

/* Words, another name, or a number of the zone of this block, while it is the innermost. */
#define SYSCOLLECT_ZONE_TEXT(text)                                                                 \
    SYSCOLLECT_OF_ZONE_(syscollect_zone_text_recorded(syscollect_zone_of_block, text))
#define SYSCOLLECT_ZONE_NAME(name)                                                                 \
    SYSCOLLECT_OF_ZONE_(syscollect_zone_name_recorded(syscollect_zone_of_block, name))
#define SYSCOLLECT_ZONE_VALUE(value)                                                               \
    SYSCOLLECT_OF_ZONE_(                                                                           \
        syscollect_zone_value_recorded(syscollect_zone_of_block, SYSCOLLECT_SIGNED,                \
                                       (uint64_t)(int64_t)(value)))

/* Runs if somebody records. */
#define SYSCOLLECT_IF_ENABLED_(statement)                                                          \
    do {                                                                                           \
        if (syscollect_enabled()) {                                                                \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

/* A message, and one with a colour (0xRRGGBB). One without a text, null or "", is shown as
 * "(empty)". */
#define SYSCOLLECT_MESSAGE(text) SYSCOLLECT_MESSAGE_COLORED(text, 0)
#define SYSCOLLECT_MESSAGE_COLORED(text, color)                                                    \
    SYSCOLLECT_IF_ENABLED_(syscollect_message_recorded(text, color))

/* What a number is now: an integer, or a double. Name and unit are CONSTANT. */
#define SYSCOLLECT_PLOT(name, unit, value)                                                         \
    SYSCOLLECT_PLOT_(name, unit, SYSCOLLECT_SIGNED, (uint64_t)(int64_t)(value))
#define SYSCOLLECT_PLOT_DOUBLE(name, unit, value)                                                  \
    SYSCOLLECT_PLOT_(name, unit, SYSCOLLECT_FLOAT, syscollect_bits_of_double(value))
#define SYSCOLLECT_PLOT_(name, unit, type, bits)                                                   \
    do {                                                                                           \
        if (syscollect_enabled()) {                                                                \
            static struct syscollect_plot syscollect_plot_here = {name, unit, 0};                  \
            syscollect_plot_recorded(&syscollect_plot_here, type, bits);                           \
        }                                                                                          \
    } while (0)

/* A frame ends and the next begins: of the main set, or of a set with a CONSTANT name. */
#define SYSCOLLECT_FRAME() SYSCOLLECT_FRAME_("", SYSCOLLECT_FRAME_MARK)
#define SYSCOLLECT_FRAME_NAMED(name) SYSCOLLECT_FRAME_(name, SYSCOLLECT_FRAME_MARK)
/* A frame of a set with gaps begins, and ends. */
#define SYSCOLLECT_FRAME_START(name) SYSCOLLECT_FRAME_(name, SYSCOLLECT_FRAME_BEGIN)
#define SYSCOLLECT_FRAME_STOP(name) SYSCOLLECT_FRAME_(name, SYSCOLLECT_FRAME_END)
#define SYSCOLLECT_FRAME_(name, phase)                                                             \
    do {                                                                                           \
        if (syscollect_enabled()) {                                                                \
            static struct syscollect_frames syscollect_frames_here = {name, 0};                    \
            syscollect_frame_recorded(&syscollect_frames_here, phase);                             \
        }                                                                                          \
    } while (0)

#endif /* SYSCOLLECT_H */
