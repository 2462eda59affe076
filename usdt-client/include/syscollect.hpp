// C++17 for `syscollect record`: syscollect.h with scopes, locks and operator new.
//
//     void frame(syscollect::gpu_context &queue) {
//         syscollect::zone zone{SYSCOLLECT_HERE("frame")};
//         zone.tag("Frame", number);
//         const std::lock_guard guard{scene_lock}; // a syscollect::shared_mutex
//         syscollect::gpu_zone shadows{queue, SYSCOLLECT_HERE("shadows")};
//     }
//
// Nothing here throws, but for what the standard library's locks and `operator new` throw by
// themselves; all of it works with -fno-exceptions and -fno-rtti. What syscollect.h says of texts,
// colours, threads, misuse and SYSCOLLECT_OFF holds here, too. Parameters called `constant` are
// texts that must last as long as the program.
#ifndef SYSCOLLECT_HPP
#define SYSCOLLECT_HPP

#include "syscollect.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <type_traits>
#include <utility>

// The place where this stands, as an expression: SYSCOLLECT_HERE("constant name").
#define SYSCOLLECT_HERE(name) SYSCOLLECT_HERE_COLORED(name, 0)
#define SYSCOLLECT_HERE_COLORED(name, color)                                                       \
    __extension__({                                                                                \
        static ::syscollect_location syscollect_here = {name, __func__, __FILE__,                  \
                                                        __LINE__, color, 0};                       \
        &syscollect_here;                                                                          \
    })

namespace syscollect {

// A number as the C functions take it.
template <class Number> syscollect_value value_of(Number number) noexcept {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>, "a number");
    if constexpr (std::is_floating_point_v<Number>) {
        return syscollect_float(static_cast<double>(number));
    } else if constexpr (std::is_enum_v<Number>) {
        return value_of(static_cast<std::underlying_type_t<Number>>(number));
    } else if constexpr (std::is_signed_v<Number>) {
        return syscollect_signed(static_cast<std::int64_t>(number));
    } else {
        return syscollect_unsigned(static_cast<std::uint64_t>(number));
    }
}

inline bool enabled() noexcept { return syscollect_enabled() != 0; }

inline void message(std::string_view text, std::uint32_t color = 0) noexcept {
    syscollect_message(text.data(), text.size(), color);
}

// What a number is now, of a plot whose name is looked up each time; SYSCOLLECT_PLOT is faster.
template <class Number>
void plot(const char *name, Number number, const char *unit = "") noexcept {
    syscollect_plot_dynamic(name, unit, value_of(number));
}

// A zone of the thread, until the end of the scope or `end`. What is said of it is recorded while
// it is the innermost. It may be moved, but stays with its thread.
class [[nodiscard]] zone {
public:
    struct with_stack {}; // takes microseconds

    zone() noexcept = default;
    explicit zone(syscollect_location *location) noexcept
        : token_{syscollect_zone_begin(location)} {}
    __attribute__((always_inline)) inline zone(syscollect_location *location, with_stack) noexcept
        : token_{syscollect_zone_begin_stack(location)} {}
    // Of a place that is known only now.
    zone(const char *name, const char *function, const char *file, std::uint32_t line,
         std::uint32_t color = 0) noexcept
        : token_{syscollect_zone_begin_dynamic(name, function, file, line, color)} {}
    ~zone() { end(); }
    zone(zone &&other) noexcept : token_{std::exchange(other.token_, SYSCOLLECT_NO_ZONE)} {}
    zone &operator=(zone &&other) noexcept {
        if (this != &other) {
            end();
            token_ = std::exchange(other.token_, SYSCOLLECT_NO_ZONE);
        }
        return *this;
    }
    zone(const zone &) = delete;
    zone &operator=(const zone &) = delete;

    void end() noexcept { syscollect_zone_end(std::exchange(token_, SYSCOLLECT_NO_ZONE)); }
    // Whether somebody wants to know what is said of it.
    explicit operator bool() const noexcept { return token_ != SYSCOLLECT_NO_ZONE; }

    void text(std::string_view text) const noexcept {
        syscollect_zone_text(token_, text.data(), text.size());
    }
    void name(std::string_view name) const noexcept {
        syscollect_zone_name(token_, name.data(), name.size());
    }
    void color(std::uint32_t color) const noexcept { syscollect_zone_color(token_, color); }
    template <class Number> void value(Number number) const noexcept {
        syscollect_zone_value(token_, value_of(number));
    }
    template <class Number> void field(const char *name, Number number) const noexcept {
        syscollect_zone_field(token_, name, value_of(number));
    }
    // A counted tag ("Frame 1234").
    void tag(const char *constant, std::uint64_t number) const noexcept {
        syscollect_zone_tag(token_, constant, number);
    }

private:
    syscollect_zone token_ = SYSCOLLECT_NO_ZONE;
};

// An image of a frame. `rgba` is red, green, blue and a byte that counts for nothing, row by row
// without gaps; one with other bytes than its size says is counted as lost.
struct frame_image {
    const void *rgba = nullptr;
    std::size_t bytes = 0;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    // How many frames ago it was shown: as many as the GPU is behind.
    std::uint8_t frames_ago = 0;
    // The first row is the lowest.
    bool is_flipped = false;

    // Hands it over; the pixels are copied.
    void send() const noexcept {
        const bool is_whole = bytes == std::size_t{width} * height * 4;
        syscollect_frame_image(is_whole ? rgba : nullptr, width, height, frames_ago, is_flipped);
    }
};

// The event loop of this thread waits for something to do, until the end of the scope.
class [[nodiscard]] loop_wait {
  public:
    loop_wait() noexcept { syscollect_loop_waits(); }
    ~loop_wait() { syscollect_loop_turns(); }
    loop_wait(const loop_wait &) = delete;
    loop_wait &operator=(const loop_wait &) = delete;
};

// A frame of a set with gaps, until the end of the scope.
class [[nodiscard]] frame {
public:
    explicit frame(const char *constant) noexcept : name_{enabled() ? constant : nullptr} {
        if (name_ != nullptr) {
            syscollect_frame_dynamic(name_, SYSCOLLECT_FRAME_BEGIN);
        }
    }
    ~frame() {
        if (name_ != nullptr) {
            syscollect_frame_dynamic(name_, SYSCOLLECT_FRAME_END);
        }
    }
    frame(const frame &) = delete;
    frame &operator=(const frame &) = delete;

private:
    const char *name_;
};

// What async zones belong to.
class task {
public:
    explicit task(const char *constant) noexcept : task_{syscollect_task_make(constant)} {}
    const syscollect_task *get() const noexcept { return &task_; }

private:
    syscollect_task task_;
};

// A zone that is bound to no thread, until it is destroyed or `end`.
class [[nodiscard]] async_zone {
public:
    async_zone() noexcept = default;
    // `text` ends with a zero, or is null.
    explicit async_zone(syscollect_location *location, const char *text = nullptr) noexcept
        : zone_{syscollect_async_begin(location, nullptr, text)} {}
    async_zone(const task &task, syscollect_location *location, const char *text = nullptr) noexcept
        : zone_{syscollect_async_begin(location, task.get(), text)} {}
    ~async_zone() { end(); }
    async_zone(async_zone &&other) noexcept
        : zone_{std::exchange(other.zone_, SYSCOLLECT_NO_ASYNC_ZONE)} {}
    async_zone &operator=(async_zone &&other) noexcept {
        if (this != &other) {
            end();
            zone_ = std::exchange(other.zone_, SYSCOLLECT_NO_ASYNC_ZONE);
        }
        return *this;
    }
    async_zone(const async_zone &) = delete;
    async_zone &operator=(const async_zone &) = delete;

    void end() noexcept { syscollect_async_end(std::exchange(zone_, SYSCOLLECT_NO_ASYNC_ZONE)); }
    explicit operator bool() const noexcept { return zone_ != SYSCOLLECT_NO_ASYNC_ZONE; }

private:
    syscollect_async_zone zone_ = SYSCOLLECT_NO_ASYNC_ZONE;
};

// The values of a marker, in the order of its schema's fields, and what becomes of them:
//
//     syscollect::marker(request).text(url).number(512).mark();
//
// Texts are read when one of the last three is called. Values beyond 16 are left out.
class marker {
public:
    explicit marker(syscollect_schema &schema) noexcept : schema_{&schema} {}

    marker &text(std::string_view text) noexcept {
        return add(syscollect_sized_text(text.data(), text.size()));
    }
    template <class Number> marker &number(Number number) noexcept { return add(value_of(number)); }

    // A moment, or the halves of a duration, which are on one thread.
    void mark() const noexcept { record(SYSCOLLECT_INSTANT); }
    void begin() const noexcept { record(SYSCOLLECT_BEGIN); }
    void end() const noexcept { record(SYSCOLLECT_END); }
    // The same (SYSCOLLECT_INSTANT, ...) at another time or on another thread.
    void at(syscollect_when when, std::uint8_t phase) const noexcept {
        syscollect_marker_at(schema_, phase, when, values_.data(), count_);
    }

private:
    marker &add(syscollect_value value) noexcept {
        if (count_ < SYSCOLLECT_MAX_FIELDS) {
            values_[count_++] = value;
        }
        return *this;
    }
    void record(std::uint8_t phase) const noexcept {
        syscollect_marker(schema_, phase, values_.data(), count_);
    }

    syscollect_schema *schema_;
    std::array<syscollect_value, SYSCOLLECT_MAX_FIELDS> values_; // so many of them as:
    std::uint32_t count_ = 0;
};

// A counter that the recorder reads: a static. A change is an atomic addition and no event.
class counter {
public:
    constexpr explicit counter(const char *constant, const char *constant_unit = "") noexcept
        : counter_ SYSCOLLECT_COUNTER(constant, constant_unit) {}
    counter(const counter &) = delete;
    counter &operator=(const counter &) = delete;
    void add(std::int64_t amount) noexcept { syscollect_counter_add(&counter_, amount); }
    void set(std::int64_t value) noexcept { syscollect_counter_set(&counter_, value); }

private:
    syscollect_counter counter_;
};

// What memory is taken from: a static.
class pool {
public:
    constexpr explicit pool(const char *constant) noexcept : pool_ SYSCOLLECT_POOL(constant) {}
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    // After the allocator gave a block, and before it gets it back.
    void allocated(const void *address, std::size_t bytes) noexcept {
        syscollect_alloc(address, bytes, &pool_);
    }
    void freed(const void *address) noexcept { syscollect_free(address, &pool_); }

private:
    syscollect_pool pool_;
};

// Locks. `lockable<std::mutex>` has what std::mutex has, and reports who waits and who has it; use
// std::condition_variable_any with it. Of a lock that its holder may take again, the first time
// and the last release count. `constant` is its name, and `made_at` is a place or null.

template <class Lock> struct is_recursive : std::false_type {};
template <> struct is_recursive<std::recursive_mutex> : std::true_type {};
template <> struct is_recursive<std::recursive_timed_mutex> : std::true_type {};

template <class Lock> class lockable {
public:
    constexpr explicit lockable(const char *constant = "",
                                const syscollect_location *made_at = nullptr) noexcept
        : lockable(constant, made_at, SYSCOLLECT_EXCLUSIVE) {}
    lockable(const lockable &) = delete;
    lockable &operator=(const lockable &) = delete;

    void lock() {
        if (!enabled()) {
            inner_.lock();
            taken();
        } else if (syscollect_lock_is_known(&lock_); inner_.try_lock()) {
            obtained(0);
        } else {
            const auto waited = syscollect_lock_wait(&lock_, SYSCOLLECT_EXCLUSIVE, nullptr);
            inner_.lock();
            obtained(waited);
        }
    }

    bool try_lock() {
        if (enabled()) {
            syscollect_lock_is_known(&lock_);
        }
        return had(inner_.try_lock());
    }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return wait_for([&] { return inner_.try_lock_for(time); });
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time) {
        return wait_for([&] { return inner_.try_lock_until(time); });
    }

    void unlock() {
        if (is_last()) {
            syscollect_lock_release(&lock_, SYSCOLLECT_EXCLUSIVE, nullptr);
        }
        inner_.unlock();
    }

    // The lock without its reports: who takes it so is not seen.
    Lock &unreported() noexcept { return inner_; }

protected:
    constexpr lockable(const char *constant, const syscollect_location *made_at,
                       std::uint32_t readers) noexcept
        : lock_{constant, made_at, readers, 0, 0} {}

    Lock inner_;
    syscollect_lock lock_;

private:
    struct no_depth {};

    // Those below are called by whoever has the lock.
    bool is_first() noexcept {
        if constexpr (is_recursive<Lock>::value) {
            return depth_++ == 0;
        }
        return true;
    }
    bool is_last() noexcept {
        if constexpr (is_recursive<Lock>::value) {
            return --depth_ == 0;
        }
        return true;
    }
    void taken() noexcept {
        if (is_first()) {
            syscollect_lock_taken(&lock_);
        }
    }
    void obtained(std::uint8_t waited) noexcept {
        if (is_first()) {
            syscollect_lock_obtained(&lock_, SYSCOLLECT_EXCLUSIVE, waited, nullptr);
        }
    }
    bool had(bool has) noexcept {
        if (has) {
            enabled() ? obtained(0) : taken();
        }
        return has;
    }
    template <class Wait> bool wait_for(Wait wait) {
        if (!enabled()) {
            const bool has = wait();
            if (has) {
                taken();
            }
            return has;
        }
        if (try_lock()) {
            return true;
        }
        const auto waited = syscollect_lock_wait(&lock_, SYSCOLLECT_EXCLUSIVE, nullptr);
        const bool has = wait();
        if (has) {
            obtained(waited);
        } else {
            syscollect_lock_gave_up(&lock_, waited, nullptr);
        }
        return has;
    }

    std::conditional_t<is_recursive<Lock>::value, std::uint32_t, no_depth> depth_{};
};

// The same for locks that readers share.
template <class Lock> class shared_lockable : public lockable<Lock> {
public:
    explicit shared_lockable(const char *constant = "",
                             const syscollect_location *made_at = nullptr) noexcept
        : lockable<Lock>(constant, made_at, SYSCOLLECT_SHARED) {}

    void lock_shared() {
        if (!enabled()) {
            this->inner_.lock_shared();
            syscollect_lock_taken(&this->lock_);
            return;
        }
        find_alone();
        if (this->inner_.try_lock_shared()) {
            obtained(0);
            return;
        }
        const auto waited = syscollect_lock_wait(&this->lock_, SYSCOLLECT_SHARED, nullptr);
        this->inner_.lock_shared();
        obtained(waited);
    }

    bool try_lock_shared() {
        if (!enabled()) {
            const bool has = this->inner_.try_lock_shared();
            if (has) {
                syscollect_lock_taken(&this->lock_);
            }
            return has;
        }
        find_alone();
        const bool has = this->inner_.try_lock_shared();
        if (has) {
            obtained(0);
        }
        return has;
    }

    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time) {
        return wait_for([&] { return this->inner_.try_lock_shared_for(time); });
    }

    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &time) {
        return wait_for([&] { return this->inner_.try_lock_shared_until(time); });
    }

    void unlock_shared() {
        syscollect_lock_release(&this->lock_, SYSCOLLECT_SHARED, nullptr);
        this->inner_.unlock_shared();
    }

private:
    // Readers are known from when nobody had the lock.
    void find_alone() {
        if (!syscollect_lock_is_known(&this->lock_) && this->inner_.try_lock()) {
            syscollect_lock_is_alone(&this->lock_);
            this->inner_.unlock();
        }
    }
    void obtained(std::uint8_t waited) noexcept {
        syscollect_lock_obtained(&this->lock_, SYSCOLLECT_SHARED, waited, nullptr);
    }
    template <class Wait> bool wait_for(Wait wait) {
        if (!enabled()) {
            const bool has = wait();
            if (has) {
                syscollect_lock_taken(&this->lock_);
            }
            return has;
        }
        if (try_lock_shared()) {
            return true;
        }
        const auto waited = syscollect_lock_wait(&this->lock_, SYSCOLLECT_SHARED, nullptr);
        const bool has = wait();
        if (has) {
            obtained(waited);
        } else {
            syscollect_lock_gave_up(&this->lock_, waited, nullptr);
        }
        return has;
    }
};

using mutex = lockable<std::mutex>;
using timed_mutex = lockable<std::timed_mutex>;
using recursive_mutex = lockable<std::recursive_mutex>;
using recursive_timed_mutex = lockable<std::recursive_timed_mutex>;
using shared_mutex = shared_lockable<std::shared_mutex>;
using shared_timed_mutex = shared_lockable<std::shared_timed_mutex>;

// A queue of a GPU, or a context of a programming interface; see syscollect_gpu_context_init.
class gpu_context {
public:
    gpu_context(std::uint32_t api, const char *name, double nanoseconds_per_tick = 1.0,
                std::uint32_t tick_bits = 64, std::uint32_t owner = 0) noexcept {
        syscollect_gpu_context_init(&context_, api, name, nanoseconds_per_tick, tick_bits, owner);
    }
    gpu_context(const gpu_context &) = delete;
    gpu_context &operator=(const gpu_context &) = delete;

    // What the GPU's clock was when a clock of the host was that.
    void calibrate(std::uint32_t clock, std::uint64_t host, std::uint64_t gpu,
                   std::uint64_t deviation) const noexcept {
        syscollect_gpu_calibrate(&context_, clock, host, gpu, deviation);
    }
    void resolve(syscollect_gpu_zone zone, std::uint64_t began,
                 std::uint64_t ended) const noexcept {
        syscollect_gpu_resolve(&context_, zone, began, ended);
    }
    void resolve_without_times(syscollect_gpu_zone zone) const noexcept {
        syscollect_gpu_no_times(&context_, zone);
    }
    const syscollect_gpu_context *get() const noexcept { return &context_; }

private:
    syscollect_gpu_context context_{};
};

// A zone that the thread submits, until the end of the scope or `end`.
class [[nodiscard]] gpu_zone {
public:
    gpu_zone() noexcept = default;
    gpu_zone(const gpu_context &context, syscollect_location *location) noexcept
        : context_{context.get()}, zone_{syscollect_gpu_zone_begin(context_, location, nullptr)} {}
    gpu_zone(const gpu_context &context, syscollect_location *location,
             const syscollect_gpu_details &details) noexcept
        : context_{context.get()}, zone_{syscollect_gpu_zone_begin(context_, location, &details)} {}
    __attribute__((always_inline)) inline gpu_zone(const gpu_context &context,
                                                   syscollect_location *location,
                                                   zone::with_stack) noexcept
        : context_{context.get()}, zone_{syscollect_gpu_zone_begin_stack(context_, location)} {}
    ~gpu_zone() { end(); }
    gpu_zone(gpu_zone &&other) noexcept
        : context_{other.context_}, zone_{std::exchange(other.zone_, SYSCOLLECT_NO_GPU_ZONE)} {}
    gpu_zone &operator=(gpu_zone &&other) noexcept {
        if (this != &other) {
            end();
            context_ = other.context_;
            zone_ = std::exchange(other.zone_, SYSCOLLECT_NO_GPU_ZONE);
        }
        return *this;
    }
    gpu_zone(const gpu_zone &) = delete;
    gpu_zone &operator=(const gpu_zone &) = delete;

    void end() noexcept {
        syscollect_gpu_zone_end(context_, std::exchange(zone_, SYSCOLLECT_NO_GPU_ZONE));
    }
    // By what its times are told. Where there is none, no query has to be written.
    syscollect_gpu_zone id() const noexcept { return zone_; }
    explicit operator bool() const noexcept { return zone_ != SYSCOLLECT_NO_GPU_ZONE; }

private:
    const syscollect_gpu_context *context_ = nullptr;
    syscollect_gpu_zone zone_ = SYSCOLLECT_NO_GPU_ZONE;
};

// Two queries.
struct gpu_query_pair {
    std::uint64_t begin;
    std::uint64_t end;
};

// Books of a pool's queries, for one thread at a time: see syscollect_gpu_queries_init.
template <std::uint32_t Pairs> class gpu_queries {
public:
    explicit gpu_queries(std::uint64_t first_query = 0) noexcept {
        syscollect_gpu_queries_init(&queries_, slots_.data(), Pairs, first_query);
    }
    gpu_queries(const gpu_queries &) = delete;
    gpu_queries &operator=(const gpu_queries &) = delete;

    std::optional<gpu_query_pair> take(const gpu_zone &zone) noexcept {
        gpu_query_pair pair{};
        if (syscollect_gpu_queries_take(&queries_, zone.id(), &pair.begin, &pair.end) == 0) {
            return std::nullopt;
        }
        return pair;
    }
    // The program's own queries.
    bool add(const gpu_zone &zone, gpu_query_pair pair) noexcept {
        return syscollect_gpu_queries_add(&queries_, zone.id(), pair.begin, pair.end) != 0;
    }
    // `read(gpu_query_pair) -> std::optional<std::array<std::uint64_t, 2>>`, which does not throw:
    // the GPU's ticks at begin and end, or nothing where one is not there yet.
    template <class Read> std::uint32_t resolve(const gpu_context &context, Read &&read) noexcept {
        using Function = std::remove_reference_t<Read>;
        const syscollect_gpu_read call = [](void *user, std::uint64_t begin, std::uint64_t end,
                                            std::uint64_t times[2]) noexcept -> int {
            const std::optional<std::array<std::uint64_t, 2>> found =
                (*static_cast<Function *>(user))(gpu_query_pair{begin, end});
            if (found) {
                times[0] = (*found)[0];
                times[1] = (*found)[1];
            }
            return found.has_value();
        };
        void *user = const_cast<void *>(static_cast<const volatile void *>(std::addressof(read)));
        return syscollect_gpu_queries_resolve(&queries_, context.get(), call, user);
    }
    void abandon(const gpu_context &context) noexcept {
        syscollect_gpu_queries_abandon(&queries_, context.get());
    }
    std::uint64_t refused() noexcept { return syscollect_gpu_queries_refused(&queries_); }

private:
    syscollect_gpu_queries queries_;
    std::array<syscollect_gpu_slot, Pairs> slots_;
};

namespace heap {

// A block for `operator new`, or null where nobody can make room.
inline void *take(std::size_t bytes, std::size_t alignment) {
    bytes = bytes == 0 ? 1 : bytes;
    for (;;) {
        void *block = nullptr;
        if (alignment <= alignof(std::max_align_t)) {
            block = std::malloc(bytes);
        } else if (::posix_memalign(&block, alignment, bytes) != 0) {
            block = nullptr;
        }
        if (block != nullptr) {
            syscollect_alloc(block, bytes, nullptr);
            return block;
        }
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) {
            return nullptr;
        }
        handler();
    }
}

// The same where it may not be null.
inline void *take_or_throw(std::size_t bytes, std::size_t alignment) {
    void *block = take(bytes, alignment);
    if (block == nullptr) {
#ifdef __cpp_exceptions
        throw std::bad_alloc();
#else
        std::abort();
#endif
    }
    return block;
}

// The same where null is an answer.
inline void *take_quietly(std::size_t bytes, std::size_t alignment) noexcept {
#ifdef __cpp_exceptions
    try {
        return take(bytes, alignment);
    } catch (...) {
        return nullptr;
    }
#else
    return take(bytes, alignment);
#endif
}

inline void give_back(void *block) noexcept {
    if (block != nullptr) {
        syscollect_free(block, nullptr);
        std::free(block);
    }
}

} // namespace heap
} // namespace syscollect

// Opt-in, at the top level of one source file of the program: replaces operator new and delete by
// malloc and free, and records what they do. Not together with libsyscollect_malloc.so, which sees
// the malloc beneath.
#define SYSCOLLECT_DEFINE_NEW_AND_DELETE                                                           \
    SYSCOLLECT_NEW_()                                                                              \
    SYSCOLLECT_NEW_([])                                                                            \
    static_assert(true, "a semicolon follows")

#define SYSCOLLECT_PLAIN_ alignof(std::max_align_t)
#define SYSCOLLECT_NEW_(array)                                                                     \
    void *operator new array(std::size_t bytes) {                                                  \
        return ::syscollect::heap::take_or_throw(bytes, SYSCOLLECT_PLAIN_);                        \
    }                                                                                              \
    void *operator new array(std::size_t bytes, std::align_val_t alignment) {                      \
        return ::syscollect::heap::take_or_throw(bytes, static_cast<std::size_t>(alignment));      \
    }                                                                                              \
    void *operator new array(std::size_t bytes, const std::nothrow_t &) noexcept {                 \
        return ::syscollect::heap::take_quietly(bytes, SYSCOLLECT_PLAIN_);                         \
    }                                                                                              \
    void *operator new array(std::size_t bytes, std::align_val_t alignment,                        \
                             const std::nothrow_t &) noexcept {                                    \
        return ::syscollect::heap::take_quietly(bytes, static_cast<std::size_t>(alignment));       \
    }                                                                                              \
    void operator delete array(void *block) noexcept { ::syscollect::heap::give_back(block); }     \
    void operator delete array(void *block, std::size_t) noexcept {                                \
        ::syscollect::heap::give_back(block);                                                      \
    }                                                                                              \
    void operator delete array(void *block, std::align_val_t) noexcept {                           \
        ::syscollect::heap::give_back(block);                                                      \
    }                                                                                              \
    void operator delete array(void *block, std::size_t, std::align_val_t) noexcept {              \
        ::syscollect::heap::give_back(block);                                                      \
    }                                                                                              \
    void operator delete array(void *block, const std::nothrow_t &) noexcept {                     \
        ::syscollect::heap::give_back(block);                                                      \
    }                                                                                              \
    void operator delete array(void *block, std::align_val_t, const std::nothrow_t &) noexcept {   \
        ::syscollect::heap::give_back(block);                                                      \
    }

#endif // SYSCOLLECT_HPP
