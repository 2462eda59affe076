// syscollect.hpp: what scopes, locks and operator new tell. Built with exceptions and without.
#include "syscollect.hpp"

#include <condition_variable>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

SYSCOLLECT_DEFINE_NEW_AND_DELETE;

static const syscollect_field fields[] = {{"url", "URL", SYSCOLLECT_FORMAT_TEXT},
                                          {"bytes", "Size", SYSCOLLECT_FORMAT_BYTES}};
static syscollect_schema request = SYSCOLLECT_SCHEMA("request", "net", fields);
static syscollect::counter counter{"jobs"};
static syscollect::pool textures{"textures"};
static syscollect::mutex queue{"queue"};
static syscollect::recursive_mutex tree{"tree"};
static syscollect::timed_mutex timed{"timed"};
static syscollect::shared_mutex scene{"scene"};

static_assert(!std::is_copy_constructible_v<syscollect::zone> &&
              std::is_nothrow_move_constructible_v<syscollect::zone> &&
              std::is_nothrow_move_assignable_v<syscollect::async_zone> &&
              std::is_nothrow_move_assignable_v<syscollect::gpu_zone>);

static syscollect::zone made() {
    syscollect::zone zone{SYSCOLLECT_HERE("made elsewhere")};
    return zone;
}

static void zones() {
    syscollect::zone outer{SYSCOLLECT_HERE_COLORED("outer", 0x102030)};
    if (outer) {
        const std::string words = "words of a string";
        outer.text(std::string_view{words}.substr(0, 5));
    }
    outer.name("renamed");
    outer.color(0x0000ff);
    outer.value(-3);
    outer.tag("Frame", 8);
    {
        const auto inner = made();
        inner.value(2.5);
    }
    auto moved = made();
    moved = syscollect::zone{SYSCOLLECT_HERE("takes its place")}; // which ends the one before
    moved.end();
    moved.end();
    syscollect::zone{"script", "f", "x.lua", 3}.field("a field with a name", 4u);
    syscollect::message(std::string_view{"message"}.substr(0, 4), 0x00ff00);
    const syscollect::frame frame{"gaps"};
    const syscollect::loop_wait wait;
}

static void tasks() {
    const syscollect::task task{"upload"};
    syscollect::async_zone outer{task, SYSCOLLECT_HERE("send"), "by a thread"};
    syscollect::async_zone inner{SYSCOLLECT_HERE("wait")};
    std::thread([zone = std::move(outer)]() mutable { zone.end(); }).join();
    inner = {};
    const std::string_view url{"example.org"};
    syscollect::marker(request).text(url.substr(0, 7)).number(512).mark();
    syscollect::marker(request).begin();
    syscollect::marker(request).text("x").end();
    syscollect::marker(request).number(1).at({77, 88}, SYSCOLLECT_INSTANT);
    counter.add(2);
    counter.set(9);
    syscollect::plot("plot", 1.5f);
}

static void locks() {
    std::condition_variable_any changed;
    bool ready = false;
    std::unique_lock lock{queue};
    std::thread other{[&] {
        const std::lock_guard guard{queue};
        ready = true;
        changed.notify_one();
    }};
    changed.wait(lock, [&] { return ready; });
    lock.unlock();
    other.join();
    tree.lock();
    if (tree.try_lock()) {
        tree.unlock();
    }
    tree.unlock();
    timed.lock();
    std::thread([] {
        if (timed.try_lock_for(std::chrono::milliseconds(1))) {
            std::puts("had twice");
        }
    }).join();
    timed.unlock();
    const std::shared_lock reader{scene};
    if (scene.try_lock()) {
        std::puts("a reader and a writer");
    }
    const std::shared_lock again{scene, std::try_to_lock};
}

static void memory() {
    struct alignas(64) Wide {
        char bytes[64];
    };
    const auto one = std::make_unique<Wide>();
    if (reinterpret_cast<std::uintptr_t>(one.get()) % 64 != 0) {
        std::puts("badly aligned");
    }
    const std::unique_ptr<char[]> several{new (std::nothrow) char[100]};
    textures.allocated(several.get(), 100);
    textures.freed(several.get());
    void *volatile none = ::operator new(std::size_t{1} << 62, std::nothrow);
    if (none != nullptr) {
        std::puts("memory without end");
    }
}

static void gpu() {
    syscollect::gpu_context context{SYSCOLLECT_GPU_VULKAN, "graphics", 52.083, 36};
    syscollect::gpu_queries<4> queries;
    context.calibrate(SYSCOLLECT_HOST_TICKS, 1000, 2000, 3);
    {
        syscollect::gpu_zone outer{context, SYSCOLLECT_HERE("pass")};
        const auto pair = queries.take(outer);
        syscollect_gpu_details details{};
        details.name = "draw 7";
        syscollect::gpu_zone inner{context, SYSCOLLECT_HERE("draw"), details};
        if (!pair || pair->begin != 0 || pair->end != 1 || !queries.add(inner, {100, 200})) {
            std::puts("no queries");
        }
    }
    const auto read = [](syscollect::gpu_query_pair pair) {
        return pair.begin < 2 ? std::optional{std::array<std::uint64_t, 2>{10, 20}} : std::nullopt;
    };
    if (queries.resolve(context, read) != 1 || queries.refused() != 0) {
        std::puts("not resolved");
    }
    queries.abandon(context);
    context.resolve({}, 1, 2);
}

int main(int, char **) {
    zones();
    tasks();
    locks();
    memory();
    gpu();
    syscollect::frame_image{"too short", 9, 16, 8}.send(); // counted as lost
    std::puts("all done");
    return 0;
}
