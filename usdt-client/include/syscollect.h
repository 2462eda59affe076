/* Marks zones, messages, plots, frames, locks, memory and work of GPUs in a C or C++ program for
 * `syscollect record`.
 *
 * Link libsyscollect_client.a or libsyscollect_client.so: by `find_package(syscollect)` of CMake,
 * by `pkg-config syscollect`, or by hand with -lpthread, -ldl and -lm. For gcc and clang, C99 or
 * C++11 and later, Linux on x86-64. C++17 has syscollect.hpp, too.
 *
 *     void load(int count) {
 *         SYSCOLLECT_ZONE("load");               // until the end of the block
 *         SYSCOLLECT_ZONE_VALUE(count);          // of the zone of this block
 *         SYSCOLLECT_MESSAGE("loading");
 *         SYSCOLLECT_PLOT("queue", "", count);
 *         SYSCOLLECT_FRAME();
 *     }
 *
 * While nobody records, each of these is two loads and a branch, and arguments of macros are not
 * evaluated. Define SYSCOLLECT_OFF to remove all marks.
 *
 * What holds of all of it:
 * - Texts are UTF-8 and end with a zero; null is the empty text. Those that are called CONSTANT
 *   (names, units, parts of the structs below) must last as long as the program, or as the library
 *   that they are in; other texts are copied. Of a text 4080 bytes count, of a thread's name 63, of
 *   a GPU context's 64, of a marker's field 1000.
 * - Colours are 0xRRGGBB; 0 leaves them to the viewer. Times are in nanoseconds or in ticks
 *   (`syscollect_ticks`), sizes in bytes.
 * - Everything may be called from any thread, before main, and in handlers of signals (where an
 *   event comes in the middle of another of its thread, it is counted as lost). Where something
 *   belongs to one thread, it says so.
 * - Nothing fails, waits, or allocates from the heap. What finds no room is counted, and
 *   `syscollect info` tells.
 * - Misuse does no harm: null, zones that are ended twice, on another thread or never, and numbers
 *   that mean nothing are ignored or shown as they are.
 *
 * Names that end with _recorded or _marked are for the macros and functions here alone.
 */
#ifndef SYSCOLLECT_H
#define SYSCOLLECT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Structs: all of a static one that no macro fills in is 0. Fields called `number`, `mark` and
 * `opaque` are the library's. */

/* A place in the source. Made by SYSCOLLECT_LOCATION. */
struct syscollect_location {
    const char *name; /* the function's name if it is empty */
    const char *function;
    const char *file;
    uint32_t line; /* from 1; 0 is unknown */
    uint32_t color;
    uint64_t number;
};

/* A plot: its name and unit ("bytes", "ms", or nothing). */
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

/* A counter that the recorder reads now and then. */
struct syscollect_counter {
    int64_t value;
    const char *name;
    const char *unit;
    uint64_t number;
};

/* What memory is taken from; the empty name is the heap. */
struct syscollect_pool {
    const char *name;
    uint64_t number;
};

/* What async zones belong to. Made by syscollect_task_make. */
struct syscollect_task {
    const char *name;
    uint64_t number;
};

/* A lock that is reported. Made by SYSCOLLECT_LOCK. */
struct syscollect_lock {
    const char *name;
    const struct syscollect_location *made_at; /* or null */
    uint32_t readers; /* not 0: it can be shared */
    uint64_t mark;
    uint64_t number;
};

/* A field of markers. */
struct syscollect_field {
    const char *name;
    const char *label; /* what is shown to people */
    uint32_t format;   /* SYSCOLLECT_FORMAT_... */
};

/* What markers of one kind look like. Made by SYSCOLLECT_SCHEMA. */
struct syscollect_schema {
    const char *name;
    const char *category;
    const struct syscollect_field *fields; /* at most SYSCOLLECT_MAX_FIELDS */
    uint32_t field_count;
    uint64_t number;
};

/* A value of a marker's field. Made by syscollect_unsigned and so on. */
struct syscollect_value {
    uint32_t type;
    uint64_t bits; /* of a text its length */
    const char *text;
};

/* When and where something was that is recorded later or elsewhere. */
struct syscollect_when {
    uint64_t ticks;  /* as syscollect_ticks gave them */
    uint32_t thread; /* its id (gettid); 0 is the calling thread */
};

/* A queue of a GPU, or a context of a programming interface. Made by syscollect_gpu_context_init;
 * must stay where it is. */
struct syscollect_gpu_context {
    uint64_t opaque[20];
};

/* More about a zone of a GPU; what is null, empty or 0 is not said. */
struct syscollect_gpu_details {
    const char *name; /* another than the location's */
    const char *text;
    const char *tag; /* CONSTANT: a counted tag, as of syscollect_zone_tag */
    uint64_t tag_number;
    uint32_t color;
};

/* A pair of queries. */
struct syscollect_gpu_slot {
    uint64_t opaque[4];
};

/* Books of queries. Made by syscollect_gpu_queries_init. */
struct syscollect_gpu_queries {
    uint64_t opaque[8];
};

/* A zone that was begun; SYSCOLLECT_NO_ZONE is none. */
typedef uint32_t syscollect_zone;
#define SYSCOLLECT_NO_ZONE UINT32_MAX
/* An async zone that was begun; SYSCOLLECT_NO_ASYNC_ZONE is none. */
typedef uint64_t syscollect_async_zone;
#define SYSCOLLECT_NO_ASYNC_ZONE UINT64_C(0)
/* A zone of a GPU; SYSCOLLECT_NO_GPU_ZONE is none. */
typedef uint32_t syscollect_gpu_zone;
#define SYSCOLLECT_NO_GPU_ZONE UINT32_C(0)
/* No query. */
#define SYSCOLLECT_NO_QUERY UINT64_MAX
/* Most fields of a marker. */
#define SYSCOLLECT_MAX_FIELDS 16

/* How 64 bits are read. */
enum { SYSCOLLECT_UNSIGNED = 1, SYSCOLLECT_SIGNED = 2, SYSCOLLECT_FLOAT = 3, SYSCOLLECT_TEXT = 4 };
/* What of a frame. */
enum { SYSCOLLECT_FRAME_MARK = 0, SYSCOLLECT_FRAME_BEGIN = 1, SYSCOLLECT_FRAME_END = 2 };
/* What of an event loop. */
enum { SYSCOLLECT_LOOP_WAITS = 0, SYSCOLLECT_LOOP_TURNS = 1 };
/* What of a marker: a moment, or one of the two halves of a duration, which are on one thread. */
enum { SYSCOLLECT_INSTANT = 0, SYSCOLLECT_BEGIN = 1, SYSCOLLECT_END = 2 };
/* How a field is shown. */
enum {
    SYSCOLLECT_FORMAT_TEXT = 0,
    SYSCOLLECT_FORMAT_INTEGER = 1,
    SYSCOLLECT_FORMAT_DECIMAL = 2,
    SYSCOLLECT_FORMAT_DURATION = 3, /* nanoseconds */
    SYSCOLLECT_FORMAT_BYTES = 4,
    SYSCOLLECT_FORMAT_PERCENTAGE = 5, /* 0 to 1 */
    SYSCOLLECT_FORMAT_ADDRESS = 6
};
/* How a lock is taken. */
enum { SYSCOLLECT_EXCLUSIVE = 0, SYSCOLLECT_SHARED = 1 };
/* Whose interface a context of a GPU is. */
enum {
    SYSCOLLECT_GPU_CUSTOM = 0,
    SYSCOLLECT_GPU_OPENGL = 1,
    SYSCOLLECT_GPU_VULKAN = 2,
    SYSCOLLECT_GPU_OPENCL = 3,
    SYSCOLLECT_GPU_DIRECT3D12 = 4,
    SYSCOLLECT_GPU_DIRECT3D11 = 5,
    SYSCOLLECT_GPU_METAL = 6,
    SYSCOLLECT_GPU_CUDA = 7
};
/* Which clock of the host a calibration names. */
enum {
    SYSCOLLECT_HOST_NOW = 0,      /* the moment of the call; the number is not looked at */
    SYSCOLLECT_HOST_TICKS = 1,    /* as syscollect_ticks gave them */
    SYSCOLLECT_HOST_MONOTONIC = 2 /* CLOCK_MONOTONIC, nanoseconds */
};

/* Reads the two queries of a zone without waiting for the GPU: puts their values, in the GPU's
 * ticks, into `times` and returns not 0, or returns 0 where one is not there yet. Must neither use
 * the books for which it is called nor throw. */
typedef int (*syscollect_gpu_read)(void *user, uint64_t begin_query, uint64_t end_query,
                                   uint64_t times[2]);

/* Declares a function of the library, or defines one that does nothing. */
#ifdef SYSCOLLECT_OFF
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define SYSCOLLECT_FUNCTION_(type, signature, nothing)                                             \
    static inline type signature { return nothing; }
#define SYSCOLLECT_PROCEDURE_(signature)                                                           \
    static inline void signature {}
#else
#define SYSCOLLECT_FUNCTION_(type, signature, nothing) type signature;
#define SYSCOLLECT_PROCEDURE_(signature) void signature;
extern const volatile uint16_t *const syscollect_semaphore;
#endif

SYSCOLLECT_FUNCTION_(syscollect_zone,
                     syscollect_zone_begin_recorded(struct syscollect_location *location),
                     SYSCOLLECT_NO_ZONE)
SYSCOLLECT_FUNCTION_(syscollect_zone,
                     syscollect_zone_begin_stack_recorded(struct syscollect_location *location),
                     SYSCOLLECT_NO_ZONE)
SYSCOLLECT_FUNCTION_(syscollect_zone,
                     syscollect_zone_begin_dynamic_recorded(const char *name, const char *function,
                                                            const char *file, uint32_t line,
                                                            uint32_t color),
                     SYSCOLLECT_NO_ZONE)
SYSCOLLECT_PROCEDURE_(syscollect_zone_end_recorded(syscollect_zone zone))
SYSCOLLECT_PROCEDURE_(syscollect_zone_text_recorded(syscollect_zone zone, const char *text,
                                                    size_t length))
SYSCOLLECT_PROCEDURE_(syscollect_zone_name_recorded(syscollect_zone zone, const char *name,
                                                    size_t length))
SYSCOLLECT_PROCEDURE_(syscollect_zone_color_recorded(syscollect_zone zone, uint32_t color))
SYSCOLLECT_PROCEDURE_(syscollect_zone_value_recorded(syscollect_zone zone, uint8_t type,
                                                     uint64_t bits))
SYSCOLLECT_PROCEDURE_(syscollect_zone_field_recorded(syscollect_zone zone, const char *name,
                                                     uint8_t type, uint64_t bits))
SYSCOLLECT_PROCEDURE_(syscollect_zone_tag_recorded(syscollect_zone zone, const char *text,
                                                   uint64_t number))
SYSCOLLECT_PROCEDURE_(syscollect_message_recorded(const char *text, size_t length, uint32_t color))
SYSCOLLECT_PROCEDURE_(syscollect_message_tag_recorded(const char *text, uint64_t number))
SYSCOLLECT_PROCEDURE_(syscollect_plot_recorded(struct syscollect_plot *plot, uint8_t type,
                                               uint64_t bits))
SYSCOLLECT_PROCEDURE_(syscollect_plot_dynamic_recorded(const char *name, const char *unit,
                                                       uint8_t type, uint64_t bits))
SYSCOLLECT_PROCEDURE_(syscollect_frame_recorded(struct syscollect_frames *frames, uint8_t phase))
SYSCOLLECT_PROCEDURE_(syscollect_frame_dynamic_recorded(const char *name, uint8_t phase))
SYSCOLLECT_PROCEDURE_(syscollect_loop_recorded(uint8_t phase))
SYSCOLLECT_PROCEDURE_(syscollect_frame_image_recorded(const uint8_t *rgba, uint32_t width,
                                                      uint32_t height, uint8_t frames_ago,
                                                      uint8_t flipped))
SYSCOLLECT_FUNCTION_(syscollect_async_zone,
                     syscollect_async_begin_recorded(struct syscollect_location *location,
                                                     const struct syscollect_task *task,
                                                     const char *text),
                     SYSCOLLECT_NO_ASYNC_ZONE)
SYSCOLLECT_PROCEDURE_(syscollect_async_end_recorded(syscollect_async_zone zone))
SYSCOLLECT_PROCEDURE_(syscollect_marker_recorded(struct syscollect_schema *schema, uint8_t phase,
                                                 const struct syscollect_when *when,
                                                 const struct syscollect_value *values,
                                                 uint32_t count))
SYSCOLLECT_PROCEDURE_(syscollect_counter_recorded(struct syscollect_counter *counter))
SYSCOLLECT_PROCEDURE_(syscollect_alloc_recorded(const void *address, size_t bytes,
                                                struct syscollect_pool *pool))
SYSCOLLECT_PROCEDURE_(syscollect_free_recorded(const void *address, struct syscollect_pool *pool))
SYSCOLLECT_FUNCTION_(uint8_t, syscollect_lock_is_known_recorded(struct syscollect_lock *lock), 1)
SYSCOLLECT_PROCEDURE_(syscollect_lock_is_alone_recorded(struct syscollect_lock *lock))
SYSCOLLECT_FUNCTION_(uint8_t,
                     syscollect_lock_wait_recorded(struct syscollect_lock *lock, uint8_t access,
                                                   struct syscollect_location *location),
                     0)
SYSCOLLECT_PROCEDURE_(syscollect_lock_obtained_recorded(struct syscollect_lock *lock,
                                                        uint8_t access, uint8_t waited,
                                                        struct syscollect_location *location))
SYSCOLLECT_PROCEDURE_(syscollect_lock_gave_up_recorded(struct syscollect_lock *lock, uint8_t waited,
                                                       struct syscollect_location *location))
SYSCOLLECT_PROCEDURE_(syscollect_lock_release_marked(struct syscollect_lock *lock, uint8_t access,
                                                     struct syscollect_location *location))
SYSCOLLECT_FUNCTION_(
    syscollect_gpu_zone,
    syscollect_gpu_zone_begin_recorded(const struct syscollect_gpu_context *context,
                                       struct syscollect_location *location,
                                       const struct syscollect_gpu_details *details),
    SYSCOLLECT_NO_GPU_ZONE)
SYSCOLLECT_FUNCTION_(
    syscollect_gpu_zone,
    syscollect_gpu_zone_begin_stack_recorded(const struct syscollect_gpu_context *context,
                                             struct syscollect_location *location),
    SYSCOLLECT_NO_GPU_ZONE)
SYSCOLLECT_PROCEDURE_(
    syscollect_gpu_zone_end_recorded(const struct syscollect_gpu_context *context,
                                     syscollect_gpu_zone zone))
SYSCOLLECT_PROCEDURE_(syscollect_gpu_resolve_recorded(const struct syscollect_gpu_context *context,
                                                      syscollect_gpu_zone zone, uint64_t began,
                                                      uint64_t ended))
SYSCOLLECT_PROCEDURE_(
    syscollect_gpu_no_times_recorded(const struct syscollect_gpu_context *context,
                                     syscollect_gpu_zone zone))
SYSCOLLECT_PROCEDURE_(
    syscollect_gpu_calibrate_recorded(const struct syscollect_gpu_context *context,
                                      uint32_t clock, uint64_t host, uint64_t gpu,
                                      uint64_t deviation))

/* These may be called whether somebody records or not. */

/* Names the calling thread; known to recorders that come later, too. */
SYSCOLLECT_PROCEDURE_(syscollect_thread_name(const char *name))

/* Now, on the clock that stamps events: the CPU's time stamp counter, or CLOCK_MONOTONIC in
 * nanoseconds where that is of no use. 0 with SYSCOLLECT_OFF. */
SYSCOLLECT_FUNCTION_(uint64_t, syscollect_ticks(void), 0)

/* A number that no other task of the process has. */
SYSCOLLECT_FUNCTION_(uint64_t, syscollect_task_number(void), 0)

/* Has crashes (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP) recorded with their stacks from
 * now on, once for the process. Handlers that were set before are called afterwards, so call it
 * after they are set; a core dump still follows where one would. Call it before threads begin: a
 * thread that has no alternative stack (sigaltstack) at its first mark gets one then, without which
 * the overflow of its stack could not be recorded. */
SYSCOLLECT_PROCEDURE_(syscollect_crash_handler_install(void))

/* Makes a context of a GPU; once, before it is used, and again only when nobody uses it any more.
 * `nanoseconds_per_tick` and `tick_bits` say how its clock counts and when it wraps (Vulkan:
 * timestampPeriod, timestampValidBits; OpenGL, OpenCL, Metal: 1.0 and 64). `owner` is the id of the
 * only thread that submits to it, or 0. The name is copied. */
SYSCOLLECT_PROCEDURE_(syscollect_gpu_context_init(struct syscollect_gpu_context *context,
                                                  uint32_t api, const char *name,
                                                  double nanoseconds_per_tick, uint32_t tick_bits,
                                                  uint32_t owner))

/* Opens books of queries, for one thread at a time. `slots` are `pairs` many, which the program
 * keeps as long as the books; choose more than there are zones in the frames that are in flight.
 * `first_query` is the first of the pool's `2 * pairs` queries. */
SYSCOLLECT_PROCEDURE_(syscollect_gpu_queries_init(struct syscollect_gpu_queries *queries,
                                                  struct syscollect_gpu_slot *slots,
                                                  uint32_t pairs, uint64_t first_query))

/* Takes two queries of the pool for a zone, of which neither was given out and not read yet: the
 * program writes one where the zone's work begins and one where it ends. Returns 0, counted, and
 * SYSCOLLECT_NO_QUERY twice where there is no room; 0, not counted, for no zone. */
SYSCOLLECT_FUNCTION_(int,
                     syscollect_gpu_queries_take(struct syscollect_gpu_queries *queries,
                                                 syscollect_gpu_zone zone, uint64_t *begin_query,
                                                 uint64_t *end_query),
                     0)

/* Enters two queries of the program's own choice for a zone: indices, names or pointers, which only
 * come back to `read`. Returns 0 as above. */
SYSCOLLECT_FUNCTION_(int,
                     syscollect_gpu_queries_add(struct syscollect_gpu_queries *queries,
                                                syscollect_gpu_zone zone, uint64_t begin_query,
                                                uint64_t end_query),
                     0)

/* Reads what the GPU has written, from the oldest zone on, tells the zones' times, and returns of
 * how many. Once a frame will do. It goes on until 64 zones in a row have no times yet. */
SYSCOLLECT_FUNCTION_(uint32_t,
                     syscollect_gpu_queries_resolve(struct syscollect_gpu_queries *queries,
                                                    const struct syscollect_gpu_context *context,
                                                    syscollect_gpu_read read, void *user),
                     0)

/* No query will be written any more (the device is lost): tells so of all zones. */
SYSCOLLECT_PROCEDURE_(
    syscollect_gpu_queries_abandon(struct syscollect_gpu_queries *queries,
                                   const struct syscollect_gpu_context *context))

/* How many zones found no room. */
SYSCOLLECT_FUNCTION_(uint64_t,
                     syscollect_gpu_queries_refused(struct syscollect_gpu_queries *queries), 0)

#undef SYSCOLLECT_FUNCTION_
#undef SYSCOLLECT_PROCEDURE_
#ifdef SYSCOLLECT_OFF
#pragma GCC diagnostic pop
#endif

/* Whether anybody records. */
static inline int syscollect_enabled(void) {
#ifdef SYSCOLLECT_OFF
    return 0;
#else
    return __builtin_expect(*syscollect_semaphore != 0, 0) != 0;
#endif
}

/* Zones: what a thread does from here to there. */

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

/* The same at a place that is known only now (of a script): all texts are copied, and looked up
 * each time. */
static inline syscollect_zone syscollect_zone_begin_dynamic(const char *name, const char *function,
                                                            const char *file, uint32_t line,
                                                            uint32_t color) {
    return syscollect_enabled()
               ? syscollect_zone_begin_dynamic_recorded(name, function, file, line, color)
               : SYSCOLLECT_NO_ZONE;
}

/* Ends a zone, and those within it that are still open. */
static inline void syscollect_zone_end(syscollect_zone zone) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_end_recorded(zone);
    }
}

/* What is said of a zone is recorded while it is the innermost that is open on its thread: words,
 * another name, a colour, a number, a number with a name (copied), and a counted tag, which is a
 * CONSTANT text that is sent once and a number ("Frame 1234"). `length` may be SIZE_MAX where the
 * text ends with a zero. */
static inline void syscollect_zone_text(syscollect_zone zone, const char *text, size_t length) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_text_recorded(zone, text, length);
    }
}

static inline void syscollect_zone_name(syscollect_zone zone, const char *name, size_t length) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_name_recorded(zone, name, length);
    }
}

static inline void syscollect_zone_color(syscollect_zone zone, uint32_t color) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_color_recorded(zone, color);
    }
}

static inline void syscollect_zone_value(syscollect_zone zone, struct syscollect_value value) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_value_recorded(zone, (uint8_t)value.type, value.bits);
    }
}

static inline void syscollect_zone_field(syscollect_zone zone, const char *name,
                                         struct syscollect_value value) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_field_recorded(zone, name, (uint8_t)value.type, value.bits);
    }
}

static inline void syscollect_zone_tag(syscollect_zone zone, const char *text, uint64_t number) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ZONE, 0)) {
        syscollect_zone_tag_recorded(zone, text, number);
    }
}

/* Messages. */

/* A message; `length` may be SIZE_MAX where the text ends with a zero. One without a text is shown
 * as "(empty)". */
static inline void syscollect_message(const char *text, size_t length, uint32_t color) {
    if (syscollect_enabled()) {
        syscollect_message_recorded(text, length, color);
    }
}

/* A counted tag as a message: a CONSTANT text that is sent once and a number. */
static inline void syscollect_message_tag(const char *text, uint64_t number) {
    if (syscollect_enabled()) {
        syscollect_message_tag_recorded(text, number);
    }
}

/* Values. */

static inline uint64_t syscollect_bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline struct syscollect_value syscollect_unsigned(uint64_t number) {
    struct syscollect_value value = {SYSCOLLECT_UNSIGNED, number, NULL};
    return value;
}

static inline struct syscollect_value syscollect_signed(int64_t number) {
    struct syscollect_value value = {SYSCOLLECT_SIGNED, (uint64_t)number, NULL};
    return value;
}

static inline struct syscollect_value syscollect_float(double number) {
    struct syscollect_value value = {SYSCOLLECT_FLOAT, syscollect_bits_of_double(number), NULL};
    return value;
}

/* For markers alone. */
static inline struct syscollect_value syscollect_text(const char *text) {
    struct syscollect_value value = {SYSCOLLECT_TEXT, UINT64_MAX, text};
    return value;
}

static inline struct syscollect_value syscollect_sized_text(const char *text, size_t length) {
    struct syscollect_value value = {SYSCOLLECT_TEXT, length, text};
    return value;
}

/* Plots and frames whose names are known only now: copied, and looked up each time. */

static inline void syscollect_plot_dynamic(const char *name, const char *unit,
                                           struct syscollect_value value) {
    if (syscollect_enabled()) {
        syscollect_plot_dynamic_recorded(name, unit, (uint8_t)value.type, value.bits);
    }
}

static inline void syscollect_frame_dynamic(const char *name, uint8_t phase) {
    if (syscollect_enabled()) {
        syscollect_frame_dynamic_recorded(name, phase);
    }
}

/* What a frame of the main set looked like: before the mark that ends it, or so many frames later
 * (`frames_ago`: as many as the GPU is behind). Red, green, blue and a byte that counts for
 * nothing, row by row without gaps; `flipped` is not 0 where the first row is the lowest. The
 * pixels are copied, at most 960 x 540 of them, and made smaller and packed on a thread that the
 * library starts with the first image: not in handlers of signals. An image that is larger, or
 * comes while four wait, is counted as lost. */
static inline void syscollect_frame_image(const void *rgba, uint32_t width, uint32_t height,
                                          uint8_t frames_ago, uint8_t flipped) {
    if (syscollect_enabled()) {
        syscollect_frame_image_recorded((const uint8_t *)rgba, width, height, frames_ago, flipped);
    }
}

/* The event loop of the calling thread waits for something to do, or only looks; and goes on with
 * what it found. Then it is told to be away by these marks alone. */
static inline void syscollect_loop_waits(void) {
    if (syscollect_enabled()) {
        syscollect_loop_recorded(SYSCOLLECT_LOOP_WAITS);
    }
}

static inline void syscollect_loop_turns(void) {
    if (syscollect_enabled()) {
        syscollect_loop_recorded(SYSCOLLECT_LOOP_TURNS);
    }
}

/* Async zones: they belong to a task, may overlap, and may end on another thread. */

/* A task; its CONSTANT name is told with each of its zones. */
static inline struct syscollect_task syscollect_task_make(const char *name) {
    struct syscollect_task task = {name, syscollect_task_number()};
    return task;
}

/* Begins a zone: of a task, or of its own where that is null; with words, or null. */
static inline syscollect_async_zone syscollect_async_begin(struct syscollect_location *location,
                                                           const struct syscollect_task *task,
                                                           const char *text) {
    return syscollect_enabled() ? syscollect_async_begin_recorded(location, task, text)
                                : SYSCOLLECT_NO_ASYNC_ZONE;
}

/* Ends it, once, on any thread. */
static inline void syscollect_async_end(syscollect_async_zone zone) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_ASYNC_ZONE, 0)) {
        syscollect_async_end_recorded(zone);
    }
}

/* Markers: events with typed fields. There are as many values as fields, in their order. */

static inline void syscollect_marker(struct syscollect_schema *schema, uint8_t phase,
                                     const struct syscollect_value *values, uint32_t count) {
    if (syscollect_enabled()) {
        syscollect_marker_recorded(schema, phase, NULL, values, count);
    }
}

/* The same at another time, or for another thread. */
static inline void syscollect_marker_at(struct syscollect_schema *schema, uint8_t phase,
                                        struct syscollect_when when,
                                        const struct syscollect_value *values, uint32_t count) {
    if (syscollect_enabled()) {
        syscollect_marker_recorded(schema, phase, &when, values, count);
    }
}

/* Counters: a change is an atomic addition and no event. */

static inline void syscollect_counter_add(struct syscollect_counter *counter, int64_t amount) {
    __atomic_fetch_add(&counter->value, amount, __ATOMIC_RELAXED);
    if (syscollect_enabled()) {
        syscollect_counter_recorded(counter);
    }
}

static inline void syscollect_counter_set(struct syscollect_counter *counter, int64_t value) {
    __atomic_store_n(&counter->value, value, __ATOMIC_RELAXED);
    if (syscollect_enabled()) {
        syscollect_counter_recorded(counter);
    }
}

/* Memory: of a pool, or of the heap where that is null. A block is told after the allocator gave it
 * and before it gets it back; of one that moves, first that it is freed. Null is not told. */

static inline void syscollect_alloc(const void *address, size_t bytes,
                                    struct syscollect_pool *pool) {
    if (syscollect_enabled()) {
        syscollect_alloc_recorded(address, bytes, pool);
    }
}

static inline void syscollect_free(const void *address, struct syscollect_pool *pool) {
    if (syscollect_enabled()) {
        syscollect_free_recorded(address, pool);
    }
}

/* Locks: who waits, who has them, and where. Whoever takes a lock does it in this shape, which
 * SYSCOLLECT_LOCK_BY_ has:
 *
 *     if (!syscollect_enabled()) { take; syscollect_lock_taken(lock); return; }
 *     if (!syscollect_lock_is_known(lock) && shared && can be had alone without waiting) {
 *         syscollect_lock_is_alone(lock); let go;
 *     }
 *     if (can be had without waiting) { syscollect_lock_obtained(lock, access, 0, location); }
 *     else {
 *         uint8_t waited = syscollect_lock_wait(lock, access, location);
 *         take;
 *         syscollect_lock_obtained(lock, access, waited, location); // or syscollect_lock_gave_up
 *     }
 *
 * and says syscollect_lock_release before it lets go. A lock is reported from when it was found
 * free once while somebody records, so that all who have it are known. `location` is where in the
 * source, or null. A lock that comes and goes leaves its name in the recording, which is a few
 * bytes for each. */

/* The lock was taken while nobody recorded. */
static inline void syscollect_lock_taken(struct syscollect_lock *lock) {
    if (__builtin_expect(__atomic_load_n(&lock->mark, __ATOMIC_RELAXED) != 0, 0)) {
        __atomic_store_n(&lock->mark, 0, __ATOMIC_RELAXED);
    }
}

/* Whether all who have the lock are known to the recording. */
static inline int syscollect_lock_is_known(struct syscollect_lock *lock) {
    return syscollect_lock_is_known_recorded(lock);
}

/* The calling thread has it alone, for a moment. */
static inline void syscollect_lock_is_alone(struct syscollect_lock *lock) {
    syscollect_lock_is_alone_recorded(lock);
}

/* The calling thread is about to wait; the result goes to one of the next two. */
static inline uint8_t syscollect_lock_wait(struct syscollect_lock *lock, uint8_t access,
                                           struct syscollect_location *location) {
    return syscollect_lock_wait_recorded(lock, access, location) != 0 ? 2 : 1;
}

/* It has the lock; `waited` is 0 where it had not to wait. */
static inline void syscollect_lock_obtained(struct syscollect_lock *lock, uint8_t access,
                                            uint8_t waited, struct syscollect_location *location) {
    syscollect_lock_obtained_recorded(lock, access, waited, location);
}

/* It waits no more, and does not have the lock: a time ran out. */
static inline void syscollect_lock_gave_up(struct syscollect_lock *lock, uint8_t waited,
                                           struct syscollect_location *location) {
    syscollect_lock_gave_up_recorded(lock, waited, location);
}

/* It is about to let go. */
static inline void syscollect_lock_release(struct syscollect_lock *lock, uint8_t access,
                                           struct syscollect_location *location) {
    if (__builtin_expect(__atomic_load_n(&lock->mark, __ATOMIC_RELAXED) != 0, 0)) {
        syscollect_lock_release_marked(lock, access, location);
    }
}

/* Work of GPUs: zones that a thread submits and the GPU does later. The program writes time stamp
 * queries and reads them, with whatever interface it has:
 *
 *     syscollect_gpu_zone zone = syscollect_gpu_zone_begin(&queue, &location, NULL);
 *     if (syscollect_gpu_queries_take(&queries, zone, &begin, &end)) {
 *         write the time stamp `begin`, record the work, write the time stamp `end`
 *     }
 *     syscollect_gpu_zone_end(&queue, zone);                      // all is submitted
 *     syscollect_gpu_queries_resolve(&queries, &queue, read, me);    // each frame
 *
 * A program that reads its queries in its own way says syscollect_gpu_resolve of each zone. */

/* Begins a zone on the calling thread, which ends it. `details` may be null. */
static inline syscollect_gpu_zone
syscollect_gpu_zone_begin(const struct syscollect_gpu_context *context,
                          struct syscollect_location *location,
                          const struct syscollect_gpu_details *details) {
    return syscollect_enabled() ? syscollect_gpu_zone_begin_recorded(context, location, details)
                                : SYSCOLLECT_NO_GPU_ZONE;
}

/* The same with the call stack, which takes microseconds. */
static inline __attribute__((always_inline)) syscollect_gpu_zone
syscollect_gpu_zone_begin_stack(const struct syscollect_gpu_context *context,
                                struct syscollect_location *location) {
    return syscollect_enabled() ? syscollect_gpu_zone_begin_stack_recorded(context, location)
                                : SYSCOLLECT_NO_GPU_ZONE;
}

/* All of it is submitted. */
static inline void syscollect_gpu_zone_end(const struct syscollect_gpu_context *context,
                                           syscollect_gpu_zone zone) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_GPU_ZONE, 0)) {
        syscollect_gpu_zone_end_recorded(context, zone);
    }
}

/* When the GPU did the work of a zone, in its ticks: once for each zone, from any thread, in any
 * order. */
static inline void syscollect_gpu_resolve(const struct syscollect_gpu_context *context,
                                          syscollect_gpu_zone zone, uint64_t began,
                                          uint64_t ended) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_GPU_ZONE, 0) && syscollect_enabled()) {
        syscollect_gpu_resolve_recorded(context, zone, began, ended);
    }
}

/* Nobody will know when: the query was not written, the device is lost. */
static inline void syscollect_gpu_no_times(const struct syscollect_gpu_context *context,
                                           syscollect_gpu_zone zone) {
    if (__builtin_expect(zone != SYSCOLLECT_NO_GPU_ZONE, 0) && syscollect_enabled()) {
        syscollect_gpu_no_times_recorded(context, zone);
    }
}

/* What the GPU's clock was, in its ticks, when a clock of the host (SYSCOLLECT_HOST_...) was
 * `host`, and how many nanoseconds the two readings may lie apart. At the beginning and once a
 * second. */
static inline void syscollect_gpu_calibrate(const struct syscollect_gpu_context *context,
                                            uint32_t clock, uint64_t host, uint64_t gpu,
                                            uint64_t deviation) {
    if (syscollect_enabled()) {
        syscollect_gpu_calibrate_recorded(context, clock, host, gpu, deviation);
    }
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

/* Words, another name, a colour, a number, or a counted tag of the zone of this block, while it is
 * the innermost. */
#define SYSCOLLECT_ZONE_TEXT(text)                                                                 \
    SYSCOLLECT_OF_ZONE_(syscollect_zone_text_recorded(syscollect_zone_of_block, text, SIZE_MAX))
#define SYSCOLLECT_ZONE_NAME(name)                                                                 \
    SYSCOLLECT_OF_ZONE_(syscollect_zone_name_recorded(syscollect_zone_of_block, name, SIZE_MAX))
#define SYSCOLLECT_ZONE_COLOR(color)                                                               \
    SYSCOLLECT_OF_ZONE_(syscollect_zone_color_recorded(syscollect_zone_of_block, color))
#define SYSCOLLECT_ZONE_VALUE(value)                                                               \
    SYSCOLLECT_OF_ZONE_(                                                                           \
        syscollect_zone_value_recorded(syscollect_zone_of_block, SYSCOLLECT_SIGNED,                \
                                       (uint64_t)(int64_t)(value)))
#define SYSCOLLECT_ZONE_TAG(text, number)                                                          \
    SYSCOLLECT_OF_ZONE_(syscollect_zone_tag_recorded(syscollect_zone_of_block, text, number))

/* Runs if somebody records. */
#define SYSCOLLECT_IF_ENABLED_(statement)                                                          \
    do {                                                                                           \
        if (syscollect_enabled()) {                                                                \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

/* A message, and one with a colour. */
#define SYSCOLLECT_MESSAGE(text) SYSCOLLECT_MESSAGE_COLORED(text, 0)
#define SYSCOLLECT_MESSAGE_COLORED(text, color)                                                    \
    SYSCOLLECT_IF_ENABLED_(syscollect_message_recorded(text, SIZE_MAX, color))

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

/* What the structs above are filled with, for statics and members; all texts are CONSTANT:
 *
 *     static struct syscollect_counter requests = SYSCOLLECT_COUNTER("requests in flight", "");
 *     static struct syscollect_pool textures = SYSCOLLECT_POOL("textures");
 *     static struct syscollect_lock queue_lock = SYSCOLLECT_LOCK("queue", SYSCOLLECT_EXCLUSIVE);
 *     static const struct syscollect_field fields[] = {{"url", "URL", SYSCOLLECT_FORMAT_TEXT}};
 *     static struct syscollect_schema request = SYSCOLLECT_SCHEMA("request", "net", fields);
 */
#define SYSCOLLECT_COUNTER(name, unit) {0, name, unit, 0}
#define SYSCOLLECT_POOL(name) {name, 0}
#define SYSCOLLECT_LOCK(name, access) {name, NULL, access, 0, 0}
#define SYSCOLLECT_SCHEMA(name, category, fields)                                                  \
    {name, category, fields, (uint32_t)(sizeof(fields) / sizeof((fields)[0])), 0}

/* Takes a lock and tells of it. `take_at_once` is an expression that is not 0 where it took the
 * lock without waiting, `take` a statement that waits for it. One that is shared is told from when
 * it was taken alone. */
#define SYSCOLLECT_LOCK_BY_(lock, access, location, take_at_once, take)                            \
    do {                                                                                           \
        if (!syscollect_enabled()) {                                                               \
            take;                                                                                  \
            syscollect_lock_taken(lock);                                                           \
        } else {                                                                                   \
            (void)syscollect_lock_is_known(lock);                                                  \
            if (take_at_once) {                                                                    \
                syscollect_lock_obtained(lock, access, 0, location);                               \
            } else {                                                                               \
                uint8_t syscollect_waited_ = syscollect_lock_wait(lock, access, location);         \
                take;                                                                              \
                syscollect_lock_obtained(lock, access, syscollect_waited_, location);              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* A mutex of pthreads, with a `struct syscollect_lock` beside it: takes and releases it. */
#define SYSCOLLECT_PTHREAD_LOCK(mutex, lock)                                                       \
    do {                                                                                           \
        SYSCOLLECT_LOCATION(syscollect_location_of_lock, "", 0);                                   \
        SYSCOLLECT_LOCK_BY_(lock, SYSCOLLECT_EXCLUSIVE, &syscollect_location_of_lock,              \
                            pthread_mutex_trylock(mutex) == 0, (void)pthread_mutex_lock(mutex));   \
    } while (0)
#define SYSCOLLECT_PTHREAD_UNLOCK(mutex, lock)                                                     \
    do {                                                                                           \
        syscollect_lock_release(lock, SYSCOLLECT_EXCLUSIVE, NULL);                                 \
        pthread_mutex_unlock(mutex);                                                               \
    } while (0)

/* The same of a read-write lock of pthreads. */
#define SYSCOLLECT_PTHREAD_RDLOCK(rwlock, lock)                                                    \
    do {                                                                                           \
        SYSCOLLECT_LOCATION(syscollect_location_of_lock, "", 0);                                   \
        if (syscollect_enabled() && !syscollect_lock_is_known(lock) &&                             \
            pthread_rwlock_trywrlock(rwlock) == 0) {                                               \
            syscollect_lock_is_alone(lock);                                                        \
            pthread_rwlock_unlock(rwlock);                                                         \
        }                                                                                          \
        SYSCOLLECT_LOCK_BY_(lock, SYSCOLLECT_SHARED, &syscollect_location_of_lock,                 \
                            pthread_rwlock_tryrdlock(rwlock) == 0,                                 \
                            (void)pthread_rwlock_rdlock(rwlock));                                  \
    } while (0)
#define SYSCOLLECT_PTHREAD_RDUNLOCK(rwlock, lock)                                                  \
    do {                                                                                           \
        syscollect_lock_release(lock, SYSCOLLECT_SHARED, NULL);                                    \
        pthread_rwlock_unlock(rwlock);                                                             \
    } while (0)
#define SYSCOLLECT_PTHREAD_WRLOCK(rwlock, lock)                                                    \
    do {                                                                                           \
        SYSCOLLECT_LOCATION(syscollect_location_of_lock, "", 0);                                   \
        SYSCOLLECT_LOCK_BY_(lock, SYSCOLLECT_EXCLUSIVE, &syscollect_location_of_lock,              \
                            pthread_rwlock_trywrlock(rwlock) == 0,                                 \
                            (void)pthread_rwlock_wrlock(rwlock));                                  \
    } while (0)
#define SYSCOLLECT_PTHREAD_WRUNLOCK(rwlock, lock)                                                  \
    do {                                                                                           \
        syscollect_lock_release(lock, SYSCOLLECT_EXCLUSIVE, NULL);                                 \
        pthread_rwlock_unlock(rwlock);                                                             \
    } while (0)

/* Records a marker with values, which are not evaluated while nobody records:
 * SYSCOLLECT_MARK(&request, SYSCOLLECT_INSTANT, syscollect_text(url), syscollect_unsigned(512)). */
#ifndef __cplusplus
#define SYSCOLLECT_MARK(schema, phase, ...)                                                        \
    do {                                                                                           \
        if (syscollect_enabled()) {                                                                \
            const struct syscollect_value syscollect_values_here[] = {__VA_ARGS__};                \
            syscollect_marker_recorded(schema, phase, NULL, syscollect_values_here,                \
                                       (uint32_t)(sizeof syscollect_values_here /                  \
                                                  sizeof syscollect_values_here[0]));              \
        }                                                                                          \
    } while (0)
#endif

#endif /* SYSCOLLECT_H */
