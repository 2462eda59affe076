/* The marks of a program that is marked for Tracy, recorded by `syscollect record`: include this in
 * the place of <tracy/Tracy.hpp> or <tracy/TracyC.h>.
 *
 *     #include <syscollect_tracy_compat.h>
 *
 * For C99, and for C++17. The names are those that Tracy's manual documents; the code is this
 * project's own. TRACY_ENABLE is not asked for: define SYSCOLLECT_OFF to remove all marks.
 *
 * These compile and do nothing: LockMark, LockableName, TracyFiberEnter and TracyFiberLeave,
 * TracyParameterRegister and TracyParameterSetup, TracySourceCallbackRegister, TracyMemoryDiscard,
 * and their forms in C. In C, TracyCPlotConfig too. The depth that the forms with S take only says
 * whether there is a stack at all: of zones it is whole, of messages and memory there is none.
 * Marks of GPUs (TracyVulkan.hpp and so on) are not here: syscollect.h and syscollect.hpp have
 * zones of GPUs.
 *
 * What differs: what is said of a zone is recorded while it is the innermost of its thread;
 * texts of more than 4080 bytes are cut.
 */
#ifndef SYSCOLLECT_TRACY_COMPAT_H
#define SYSCOLLECT_TRACY_COMPAT_H

#ifdef __cplusplus
#include "syscollect.hpp"
#include "syscollect_tracy_colors.hpp"
#else
#include "syscollect.h"
#endif

#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
#define SYSCOLLECT_TRACY_LOCATION_(name, color)                                                    \
    __extension__({                                                                                \
        static ::syscollect_location syscollect_here = {name, __func__, __FILE__,                  \
                                                        __LINE__, color, 0};                       \
        &syscollect_here;                                                                          \
    })

namespace tracy {

/* A zone until the end of the block. */
class ScopedZone {
public:
    ScopedZone(syscollect_location *location, bool active) noexcept
        : zone_(active ? syscollect_zone_begin(location) : SYSCOLLECT_NO_ZONE) {}
    struct WithStack {};
    __attribute__((always_inline)) inline ScopedZone(syscollect_location *location, bool active,
                                                     WithStack) noexcept
        : zone_(active ? syscollect_zone_begin_stack(location) : SYSCOLLECT_NO_ZONE) {}
    /* Of a place whose texts are copied. */
    ScopedZone(uint32_t line, const char *file, const char *function, const char *name,
               bool active) noexcept
        : zone_(active ? syscollect_zone_begin_dynamic(name, function, file, line, 0)
                       : SYSCOLLECT_NO_ZONE) {}
    ~ScopedZone() { syscollect_zone_end(zone_); }
    ScopedZone(const ScopedZone &) = delete;
    ScopedZone &operator=(const ScopedZone &) = delete;

    void Text(const char *text, size_t size) const noexcept {
        syscollect_zone_text(zone_, text, size);
    }
    __attribute__((format(printf, 2, 3))) void TextFmt(const char *format, ...) const noexcept {
        va_list arguments;
        va_start(arguments, format);
        Format(&syscollect_zone_text, format, arguments);
        va_end(arguments);
    }
    void Name(const char *name, size_t size) const noexcept {
        syscollect_zone_name(zone_, name, size);
    }
    __attribute__((format(printf, 2, 3))) void NameFmt(const char *format, ...) const noexcept {
        va_list arguments;
        va_start(arguments, format);
        Format(&syscollect_zone_name, format, arguments);
        va_end(arguments);
    }
    void Color(uint32_t color) const noexcept { syscollect_zone_color(zone_, color); }
    void Value(uint64_t value) const noexcept {
        syscollect_zone_value(zone_, syscollect_unsigned(value));
    }
    bool IsActive() const noexcept { return zone_ != SYSCOLLECT_NO_ZONE; }

private:
    void Format(void (*say)(syscollect_zone, const char *, size_t), const char *format,
                va_list arguments) const noexcept {
        if (IsActive()) {
            char text[1024];
            vsnprintf(text, sizeof text, format, arguments);
            say(zone_, text, SIZE_MAX);
        }
    }

    const syscollect_zone zone_;
};

enum class PlotFormatType : uint8_t { Number, Memory, Percentage, Watt };

/* Units of plots that were configured, by their names' addresses or texts. */
struct PlotUnits {
    static constexpr size_t Most = 64;
    struct Entry {
        const char *name;
        const char *unit;
    };
    Entry entries[Most];
    size_t count; /* release: the entries below it are written */

    void Set(const char *name, const char *unit) noexcept {
        while (__atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE)) {
        }
        const size_t next = __atomic_load_n(&count, __ATOMIC_RELAXED);
        if (next < Most && Of(name)[0] == '\0') {
            entries[next] = {name, unit};
            __atomic_store_n(&count, next + 1, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
    }
    const char *Of(const char *name) const noexcept {
        const size_t entered = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
        for (size_t index = 0; index < entered; index++) {
            if (entries[index].name == name || strcmp(entries[index].name, name) == 0) {
                return entries[index].unit;
            }
        }
        return "";
    }

    bool busy;
};

inline PlotUnits plot_units{};

inline void ConfigurePlot(const char *name, PlotFormatType type, bool = false, bool = true,
                          uint32_t = 0) noexcept {
    constexpr const char *units[] = {"", "bytes", "%", "W"};
    const size_t index = static_cast<size_t>(type);
    if (name != nullptr && index > 0 && index < sizeof units / sizeof units[0]) {
        plot_units.Set(name, units[index]);
    }
}

template <class Number> void Plot(const char *name, Number number) noexcept {
    if (syscollect_enabled() && name != nullptr) {
        ::syscollect::plot(name, number, plot_units.Of(name));
    }
}

inline void SetThreadName(const char *name) noexcept { syscollect_thread_name(name); }
inline void SetThreadNameWithHint(const char *name, int32_t) noexcept {
    syscollect_thread_name(name);
}
inline bool IsProfilerStarted() noexcept { return true; }
inline void StartupProfiler() noexcept {}
inline void ShutdownProfiler() noexcept {}

} /* namespace tracy */

/* A zone in the variable, with and without a name, a colour and a stack. */
#define ZoneNamedNC(variable, name, color, active)                                                 \
    const ::tracy::ScopedZone variable(SYSCOLLECT_TRACY_LOCATION_(name, color), active)
#define ZoneNamed(variable, active) ZoneNamedNC(variable, "", 0, active)
#define ZoneNamedN(variable, name, active) ZoneNamedNC(variable, name, 0, active)
#define ZoneNamedC(variable, color, active) ZoneNamedNC(variable, "", color, active)
#define ZoneNamedNCS(variable, name, color, depth, active)                                         \
    const ::tracy::ScopedZone variable(SYSCOLLECT_TRACY_LOCATION_(name, color), active,            \
                                       ::tracy::ScopedZone::WithStack())
#define ZoneNamedS(variable, depth, active) ZoneNamedNCS(variable, "", 0, depth, active)
#define ZoneNamedNS(variable, name, depth, active) ZoneNamedNCS(variable, name, 0, depth, active)
#define ZoneNamedCS(variable, color, depth, active) ZoneNamedNCS(variable, "", color, depth, active)
#define ZoneTransientN(variable, name, active)                                                     \
    const ::tracy::ScopedZone variable(__LINE__, __FILE__, __func__, name, active)
#define ZoneTransient(variable, active) ZoneTransientN(variable, "", active)
#define ZoneTransientS(variable, depth, active) ZoneTransientN(variable, "", active)
#define ZoneTransientNS(variable, name, depth, active) ZoneTransientN(variable, name, active)

#define ZoneScoped ZoneNamed(___tracy_scoped_zone, true)
#define ZoneScopedN(name) ZoneNamedN(___tracy_scoped_zone, name, true)
#define ZoneScopedC(color) ZoneNamedC(___tracy_scoped_zone, color, true)
#define ZoneScopedNC(name, color) ZoneNamedNC(___tracy_scoped_zone, name, color, true)
#define ZoneScopedS(depth) ZoneNamedS(___tracy_scoped_zone, depth, true)
#define ZoneScopedNS(name, depth) ZoneNamedNS(___tracy_scoped_zone, name, depth, true)
#define ZoneScopedCS(color, depth) ZoneNamedCS(___tracy_scoped_zone, color, depth, true)
#define ZoneScopedNCS(name, color, depth)                                                          \
    ZoneNamedNCS(___tracy_scoped_zone, name, color, depth, true)

#define ZoneText(text, size) ___tracy_scoped_zone.Text(text, size)
#define ZoneTextV(variable, text, size) variable.Text(text, size)
#define ZoneTextF(...) ___tracy_scoped_zone.TextFmt(__VA_ARGS__)
#define ZoneTextVF(variable, ...) variable.TextFmt(__VA_ARGS__)
#define ZoneName(name, size) ___tracy_scoped_zone.Name(name, size)
#define ZoneNameV(variable, name, size) variable.Name(name, size)
#define ZoneNameF(...) ___tracy_scoped_zone.NameFmt(__VA_ARGS__)
#define ZoneNameVF(variable, ...) variable.NameFmt(__VA_ARGS__)
#define ZoneColor(color) ___tracy_scoped_zone.Color(color)
#define ZoneColorV(variable, color) variable.Color(color)
#define ZoneValue(value) ___tracy_scoped_zone.Value((uint64_t)(value))
#define ZoneValueV(variable, value) variable.Value((uint64_t)(value))
#define ZoneIsActive ___tracy_scoped_zone.IsActive()
#define ZoneIsActiveV(variable) variable.IsActive()

/* Locks: members and variables of these types. */
#define SYSCOLLECT_TRACY_LOCK_(kind, type, variable, name)                                         \
    ::syscollect::kind<type> variable {                                                            \
        name, []() noexcept -> const syscollect_location * {                                       \
            static syscollect_location made_at = {"", "", __FILE__, __LINE__, 0, 0};               \
            return &made_at;                                                                       \
        }()                                                                                        \
    }
#define TracyLockable(type, variable) SYSCOLLECT_TRACY_LOCK_(lockable, type, variable, #variable)
#define TracyLockableN(type, variable, name)                                                       \
    SYSCOLLECT_TRACY_LOCK_(lockable, type, variable, name)
#define TracySharedLockable(type, variable)                                                        \
    SYSCOLLECT_TRACY_LOCK_(shared_lockable, type, variable, #variable)
#define TracySharedLockableN(type, variable, name)                                                 \
    SYSCOLLECT_TRACY_LOCK_(shared_lockable, type, variable, name)
#define LockableBase(type) ::syscollect::lockable<type>
#define SharedLockableBase(type) ::syscollect::shared_lockable<type>
#define LockMark(variable) (void)(variable)
#define LockableName(variable, text, size) ((void)(variable), (void)(text), (void)(size))

#define TracyPlot(name, value) ::tracy::Plot(name, value)
#define TracyPlotConfig(...) ::tracy::ConfigurePlot(__VA_ARGS__)

#endif /* __cplusplus */

/* What C and C++ share. */

#ifndef TracyFunction
#define TracyFunction __func__
#endif
#ifndef TracyFile
#define TracyFile __FILE__
#endif
#ifndef TracyLine
#define TracyLine __LINE__
#endif

#ifdef __cplusplus
#define SYSCOLLECT_TRACY_NULL_ nullptr
#else
#define SYSCOLLECT_TRACY_NULL_ NULL
#endif

/* A pool of that name, which is looked up each time; the names lie where they are. */
static inline void syscollect_tracy_alloc(const void *address, size_t size, const char *name) {
    struct syscollect_pool pool = SYSCOLLECT_POOL(name);
    syscollect_alloc(address, size, &pool);
}

static inline void syscollect_tracy_free(const void *address, const char *name) {
    struct syscollect_pool pool = SYSCOLLECT_POOL(name);
    syscollect_free(address, &pool);
}

#define TracyNoop
#define TracyIsConnected (syscollect_enabled() != 0)
#define TracyIsStarted 1
#define TracySetProgramName(name) (void)(name)

#define FrameMark SYSCOLLECT_FRAME()
#define FrameMarkNamed(name) syscollect_frame_dynamic(name, SYSCOLLECT_FRAME_MARK)
#define FrameMarkStart(name) syscollect_frame_dynamic(name, SYSCOLLECT_FRAME_BEGIN)
#define FrameMarkEnd(name) syscollect_frame_dynamic(name, SYSCOLLECT_FRAME_END)
#define FrameImage(image, width, height, offset, flip)                                             \
    syscollect_frame_image(image, (uint32_t)(width), (uint32_t)(height), (uint8_t)(offset),        \
                           (uint8_t)((flip) != 0))

#define TracyMessage(text, size) syscollect_message(text, size, 0)
#define TracyMessageL(text) syscollect_message(text, SIZE_MAX, 0)
#define TracyMessageC(text, size, color) syscollect_message(text, size, color)
#define TracyMessageLC(text, color) syscollect_message(text, SIZE_MAX, color)
#define TracyMessageS(text, size, depth) ((void)(depth), TracyMessage(text, size))
#define TracyMessageLS(text, depth) ((void)(depth), TracyMessageL(text))
#define TracyMessageCS(text, size, color, depth) ((void)(depth), TracyMessageC(text, size, color))
#define TracyMessageLCS(text, color, depth) ((void)(depth), TracyMessageLC(text, color))
#define TracyAppInfo(text, size) syscollect_message(text, size, 0)

#define TracyAlloc(address, size) syscollect_alloc(address, size, SYSCOLLECT_TRACY_NULL_)
#define TracyFree(address) syscollect_free(address, SYSCOLLECT_TRACY_NULL_)
#define TracyAllocN(address, size, name) syscollect_tracy_alloc(address, size, name)
#define TracyFreeN(address, name) syscollect_tracy_free(address, name)
#define TracySecureAlloc(address, size) TracyAlloc(address, size)
#define TracySecureFree(address) TracyFree(address)
#define TracySecureAllocN(address, size, name) TracyAllocN(address, size, name)
#define TracySecureFreeN(address, name) TracyFreeN(address, name)
#define TracyAllocS(address, size, depth) ((void)(depth), TracyAlloc(address, size))
#define TracyFreeS(address, depth) ((void)(depth), TracyFree(address))
#define TracyAllocNS(address, size, depth, name) ((void)(depth), TracyAllocN(address, size, name))
#define TracyFreeNS(address, depth, name) ((void)(depth), TracyFreeN(address, name))
#define TracySecureAllocS(address, size, depth) TracyAllocS(address, size, depth)
#define TracySecureFreeS(address, depth) TracyFreeS(address, depth)
#define TracySecureAllocNS(address, size, depth, name) TracyAllocNS(address, size, depth, name)
#define TracySecureFreeNS(address, depth, name) TracyFreeNS(address, depth, name)
#define TracyMemoryDiscard(name) (void)(name)
#define TracySecureMemoryDiscard(name) (void)(name)
#define TracyMemoryDiscardS(name, depth) ((void)(name), (void)(depth))
#define TracySecureMemoryDiscardS(name, depth) ((void)(name), (void)(depth))

/* Older and newer versions take more and fewer arguments; they are not evaluated. */
#define TracyParameterRegister(...) (void)0
#define TracyParameterSetup(...) (void)0
#define TracySourceCallbackRegister(...) (void)0
#define TracyFiberEnter(fiber) (void)(fiber)
#define TracyFiberEnterHint(fiber, hint) ((void)(fiber), (void)(hint))
#define TracyFiberLeave (void)0

/* The names of C. Those that are statements there have their semicolons here, too. */

/* A zone; all zeros is none. */
typedef struct syscollect_tracy_zone {
    uint32_t id;
    int32_t active;
} TracyCZoneCtx;
typedef struct syscollect_lock TracyCLockCtx;
typedef struct syscollect_lock TracyCSharedLockCtx;

enum TracyPlotFormatEnum {
    TracyPlotFormatNumber,
    TracyPlotFormatMemory,
    TracyPlotFormatPercentage,
    TracyPlotFormatWatt
};

static inline TracyCZoneCtx syscollect_tracy_zone_of(syscollect_zone token) {
    TracyCZoneCtx zone = {token, token != SYSCOLLECT_NO_ZONE};
    return zone;
}

static inline syscollect_zone syscollect_tracy_token(TracyCZoneCtx zone) {
    return zone.active ? zone.id : SYSCOLLECT_NO_ZONE;
}

/* Text or name of a zone, formatted. */
static inline __attribute__((format(printf, 3, 4))) void
syscollect_tracy_format(TracyCZoneCtx zone, void (*say)(syscollect_zone, const char *, size_t),
                        const char *format, ...) {
    if (zone.active) {
        char text[1024];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        say(zone.id, text, SIZE_MAX);
    }
}

#define SYSCOLLECT_TRACY_ZONE_(variable, name, color, active, begin)                               \
    static struct syscollect_location variable##_location_ = {name,     __func__, __FILE__,        \
                                                              __LINE__, color,    0};              \
    TracyCZoneCtx variable = syscollect_tracy_zone_of(                                             \
        (active) ? begin(&variable##_location_) : SYSCOLLECT_NO_ZONE);
#define TracyCZoneNC(variable, name, color, active)                                                \
    SYSCOLLECT_TRACY_ZONE_(variable, name, color, active, syscollect_zone_begin)
#define TracyCZone(variable, active) TracyCZoneNC(variable, "", 0, active)
#define TracyCZoneN(variable, name, active) TracyCZoneNC(variable, name, 0, active)
#define TracyCZoneC(variable, color, active) TracyCZoneNC(variable, "", color, active)
#define TracyCZoneNCS(variable, name, color, depth, active)                                        \
    SYSCOLLECT_TRACY_ZONE_(variable, name, color, active, syscollect_zone_begin_stack)
#define TracyCZoneS(variable, depth, active) TracyCZoneNCS(variable, "", 0, depth, active)
#define TracyCZoneNS(variable, name, depth, active) TracyCZoneNCS(variable, name, 0, depth, active)
#define TracyCZoneCS(variable, color, depth, active)                                               \
    TracyCZoneNCS(variable, "", color, depth, active)
#define TracyCZoneEnd(variable) syscollect_zone_end(syscollect_tracy_token(variable));
#define TracyCZoneText(variable, text, size)                                                       \
    syscollect_zone_text(syscollect_tracy_token(variable), text, size);
#define TracyCZoneTextF(variable, ...)                                                             \
    syscollect_tracy_format(variable, syscollect_zone_text, __VA_ARGS__);
#define TracyCZoneName(variable, name, size)                                                       \
    syscollect_zone_name(syscollect_tracy_token(variable), name, size);
#define TracyCZoneNameF(variable, ...)                                                             \
    syscollect_tracy_format(variable, syscollect_zone_name, __VA_ARGS__);
#define TracyCZoneColor(variable, color)                                                           \
    syscollect_zone_color(syscollect_tracy_token(variable), color);
#define TracyCZoneValue(variable, value)                                                           \
    syscollect_zone_value(syscollect_tracy_token(variable), syscollect_unsigned((uint64_t)(value)));

#define TracyCAlloc(address, size) TracyAlloc(address, size)
#define TracyCFree(address) TracyFree(address)
#define TracyCAllocN(address, size, name) TracyAllocN(address, size, name)
#define TracyCFreeN(address, name) TracyFreeN(address, name)
#define TracyCSecureAlloc(address, size) TracyAlloc(address, size)
#define TracyCSecureFree(address) TracyFree(address)
#define TracyCSecureAllocN(address, size, name) TracyAllocN(address, size, name)
#define TracyCSecureFreeN(address, name) TracyFreeN(address, name)
#define TracyCAllocS(address, size, depth) TracyAllocS(address, size, depth)
#define TracyCFreeS(address, depth) TracyFreeS(address, depth)
#define TracyCAllocNS(address, size, depth, name) TracyAllocNS(address, size, depth, name)
#define TracyCFreeNS(address, depth, name) TracyFreeNS(address, depth, name)
#define TracyCSecureAllocS(address, size, depth) TracyAllocS(address, size, depth)
#define TracyCSecureFreeS(address, depth) TracyFreeS(address, depth)
#define TracyCSecureAllocNS(address, size, depth, name) TracyAllocNS(address, size, depth, name)
#define TracyCSecureFreeNS(address, depth, name) TracyFreeNS(address, depth, name)
#define TracyCMemoryDiscard(name) (void)(name);
#define TracyCSecureMemoryDiscard(name) (void)(name);
#define TracyCMemoryDiscardS(name, depth) ((void)(name), (void)(depth));
#define TracyCSecureMemoryDiscardS(name, depth) ((void)(name), (void)(depth));

#define TracyCMessage(text, size) TracyMessage(text, size)
#define TracyCMessageL(text) TracyMessageL(text)
#define TracyCMessageC(text, size, color) TracyMessageC(text, size, color)
#define TracyCMessageLC(text, color) TracyMessageLC(text, color)
#define TracyCMessageS(text, size, depth) TracyMessageS(text, size, depth)
#define TracyCMessageLS(text, depth) TracyMessageLS(text, depth)
#define TracyCMessageCS(text, size, color, depth) TracyMessageCS(text, size, color, depth)
#define TracyCMessageLCS(text, color, depth) TracyMessageLCS(text, color, depth)
#define TracyCAppInfo(text, size) TracyAppInfo(text, size);
#define TracyCSetThreadName(name) syscollect_thread_name(name);
#define TracyCIsConnected TracyIsConnected
#define TracyCIsStarted TracyIsStarted

#define TracyCFrameMark FrameMark;
#define TracyCFrameMarkNamed(name) FrameMarkNamed(name);
#define TracyCFrameMarkStart(name) FrameMarkStart(name);
#define TracyCFrameMarkEnd(name) FrameMarkEnd(name);
#define TracyCFrameImage(image, width, height, offset, flip)                                       \
    FrameImage(image, width, height, offset, flip);

#define TracyCPlot(name, value)                                                                    \
    syscollect_plot_dynamic(name, "", syscollect_float((double)(value)));
#define TracyCPlotF(name, value) TracyCPlot(name, value)
#define TracyCPlotI(name, value)                                                                   \
    syscollect_plot_dynamic(name, "", syscollect_signed((int64_t)(value)));
#define TracyCPlotConfig(name, type, step, fill, color)                                            \
    ((void)(name), (void)(type), (void)(step), (void)(fill), (void)(color));

/* A lock of C is known to the recording from when one thread has it alone. */
static inline void syscollect_tracy_lock_announce(struct syscollect_lock *lock, uint8_t access) {
    memset(lock, 0, sizeof *lock);
    lock->readers = access;
}

static inline void syscollect_tracy_lock_before(struct syscollect_lock *lock, uint8_t access) {
    if (syscollect_enabled() && syscollect_lock_is_known(lock)) {
        (void)syscollect_lock_wait(lock, access, SYSCOLLECT_TRACY_NULL_);
    }
}

static inline void syscollect_tracy_lock_after(struct syscollect_lock *lock, uint8_t access) {
    if (!syscollect_enabled()) {
        syscollect_lock_taken(lock);
        return;
    }
    if (!syscollect_lock_is_known(lock) && access == SYSCOLLECT_EXCLUSIVE) {
        syscollect_lock_is_alone(lock);
    }
    syscollect_lock_obtained(lock, access, 1, SYSCOLLECT_TRACY_NULL_);
}

static inline void syscollect_tracy_lock_unlocked(struct syscollect_lock *lock, uint8_t access) {
    syscollect_lock_release(lock, access, SYSCOLLECT_TRACY_NULL_);
}

#define TracyCLockAnnounce(lock) syscollect_tracy_lock_announce(&(lock), SYSCOLLECT_EXCLUSIVE);
#define TracyCLockTerminate(lock) (void)(lock);
#define TracyCLockBeforeLock(lock) syscollect_tracy_lock_before(&(lock), SYSCOLLECT_EXCLUSIVE);
#define TracyCLockAfterLock(lock) syscollect_tracy_lock_after(&(lock), SYSCOLLECT_EXCLUSIVE);
#define TracyCLockAfterUnlock(lock) syscollect_tracy_lock_unlocked(&(lock), SYSCOLLECT_EXCLUSIVE);
#define TracyCLockAfterTryLock(lock, acquired)                                                     \
    (acquired) ? syscollect_tracy_lock_after(&(lock), SYSCOLLECT_EXCLUSIVE) : (void)0;
#define TracyCLockMark(lock) (void)(lock);
#define TracyCLockCustomName(lock, text, size) ((void)(lock), (void)(text), (void)(size));

#define TracyCSharedLockAnnounce(lock) syscollect_tracy_lock_announce(&(lock), SYSCOLLECT_SHARED);
#define TracyCSharedLockTerminate(lock) (void)(lock);
#define TracyCSharedLockBeforeLock(lock) TracyCLockBeforeLock(lock)
#define TracyCSharedLockAfterLock(lock) TracyCLockAfterLock(lock)
#define TracyCSharedLockAfterUnlock(lock) TracyCLockAfterUnlock(lock)
#define TracyCSharedLockAfterTryLock(lock, acquired) TracyCLockAfterTryLock(lock, acquired)
#define TracyCSharedLockBeforeSharedLock(lock)                                                     \
    syscollect_tracy_lock_before(&(lock), SYSCOLLECT_SHARED);
#define TracyCSharedLockAfterSharedLock(lock)                                                      \
    syscollect_tracy_lock_after(&(lock), SYSCOLLECT_SHARED);
#define TracyCSharedLockAfterSharedUnlock(lock)                                                    \
    syscollect_tracy_lock_unlocked(&(lock), SYSCOLLECT_SHARED);
#define TracyCSharedLockAfterTrySharedLock(lock, acquired)                                         \
    (acquired) ? syscollect_tracy_lock_after(&(lock), SYSCOLLECT_SHARED) : (void)0;
#define TracyCSharedLockMark(lock) (void)(lock);
#define TracyCSharedLockCustomName(lock, text, size) ((void)(lock), (void)(text), (void)(size));

#define TracyCBeginSamplingProfiling() 0
#define TracyCEndSamplingProfiling() (void)0
#define TracyCFiberEnter(fiber) TracyFiberEnter(fiber)
#define TracyCFiberLeave TracyFiberLeave

#endif /* SYSCOLLECT_TRACY_COMPAT_H */
