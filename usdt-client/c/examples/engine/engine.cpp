// A frame loop with jobs, a lock, work of a GPU that is made up, and a child that is forked.
//
//     cmake -S . -B build -DCMAKE_PREFIX_PATH=/usr/local && cmake --build build
//     sudo syscollect record -- build/engine 100
//
// Prints how often it has marked what, as one line of JSON.
#include <syscollect.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

const syscollect_field upload_fields[] = {{"texture", "Texture", SYSCOLLECT_FORMAT_TEXT},
                                          {"bytes", "Size", SYSCOLLECT_FORMAT_BYTES}};
syscollect_schema upload = SYSCOLLECT_SCHEMA("upload", "assets", upload_fields);
syscollect::pool textures{"textures"};
syscollect::counter jobs_waiting{"jobs waiting", "jobs"};

// What was marked. Marks of a zone count where it was recorded.
std::atomic<int> marked_jobs{0};

std::uint64_t monotonic() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
}

double work(int amount) {
    volatile double sum = 0;
    for (int turn = 1; turn < amount; turn++) {
        sum = sum + 1.0 / turn;
    }
    return sum;
}

// Threads that take jobs from one queue.
class Workers {
public:
    explicit Workers(int count) {
        for (int number = 0; number < count; number++) {
            threads_.emplace_back([this, number] { run(number); });
        }
    }

    ~Workers() {
        {
            const std::lock_guard guard{lock_};
            ending_ = true;
        }
        changed_.notify_all();
        for (auto &thread : threads_) {
            thread.join();
        }
    }

    void add(std::function<void()> job) {
        {
            const std::lock_guard guard{lock_};
            jobs_.push_back(std::move(job));
            jobs_waiting.add(1);
            open_++;
        }
        changed_.notify_one();
    }

    void wait() {
        const syscollect::zone zone{SYSCOLLECT_HERE("wait for jobs")};
        std::unique_lock guard{lock_};
        changed_.wait(guard, [this] { return open_ == 0; });
    }

private:
    void run(int number) {
        syscollect_thread_name(("worker " + std::to_string(number)).c_str());
        std::unique_lock guard{lock_};
        for (;;) {
            changed_.wait(guard, [this] { return ending_ || !jobs_.empty(); });
            if (jobs_.empty()) {
                return;
            }
            const auto job = std::move(jobs_.front());
            jobs_.pop_front();
            jobs_waiting.add(-1);
            guard.unlock();
            job();
            guard.lock();
            open_--;
            changed_.notify_all();
        }
    }

    syscollect::mutex lock_{"jobs"};
    std::condition_variable_any changed_;
    std::deque<std::function<void()>> jobs_;
    int open_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

// A GPU that does work in order, three milliseconds after it was submitted, and counts in
// microseconds that wrap behind 32 bits.
class MadeUpGpu {
public:
    MadeUpGpu() { calibrate(); }

    void calibrate() {
        const std::uint64_t host = monotonic();
        queue_.calibrate(SYSCOLLECT_HOST_MONOTONIC, host, ticks(host), 1000);
    }

    // Submits a pass that takes so many microseconds; whether it is recorded.
    bool submit(syscollect_location *location, std::uint64_t microseconds) {
        const syscollect::gpu_zone zone{queue_, location};
        if (const auto pair = queries_.take(zone)) {
            const std::uint64_t begin = std::max(free_at_, monotonic() + 3'000'000);
            free_at_ = begin + microseconds * 1000;
            written_[pair->begin] = begin;
            written_[pair->end] = free_at_;
        }
        return static_cast<bool>(zone);
    }

    // Reads what is done by now.
    std::uint32_t resolve() {
        const std::uint64_t now = monotonic();
        return queries_.resolve(queue_, [&](syscollect::gpu_query_pair pair) {
            using Times = std::array<std::uint64_t, 2>;
            const bool is_done = written_[pair.end] <= now;
            const Times times{ticks(written_[pair.begin]), ticks(written_[pair.end])};
            return is_done ? std::optional{times} : std::nullopt;
        });
    }

private:
    static std::uint64_t ticks(std::uint64_t nanoseconds) {
        return nanoseconds / 1000 & 0xffff'ffff;
    }

    static constexpr std::uint32_t pairs = 512;
    syscollect::gpu_context queue_{SYSCOLLECT_GPU_CUSTOM, "made-up queue", 1000.0, 32};
    syscollect::gpu_queries<pairs> queries_;
    std::array<std::uint64_t, pairs * 2> written_{};
    std::uint64_t free_at_ = 0;
};

void job(int number) {
    const syscollect::zone zone{SYSCOLLECT_HERE_COLORED("job", 0x4080ff)};
    zone.value(number);
    marked_jobs += static_cast<bool>(zone);
    work(20'000);
}

// A texture that comes and goes.
void load(int number) {
    const std::size_t bytes = 1024u * static_cast<std::size_t>(number % 7 + 1);
    void *texture = std::malloc(bytes);
    textures.allocated(texture, bytes);
    syscollect::marker(upload).text("texture " + std::to_string(number)).number(bytes).mark();
    textures.freed(texture);
    std::free(texture);
}

// A child that is forked tells its own; whether it came to its end.
bool child_marks() {
    const pid_t child = fork();
    if (child == 0) {
        {
            const syscollect::zone zone{SYSCOLLECT_HERE("in the child")};
            work(100'000);
        }
        _exit(0);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

int main(int count, char **arguments) {
    const int frames = count > 1 ? std::atoi(arguments[1]) : 100;
    syscollect_thread_name("main of the engine");
    syscollect_crash_handler_install();
    int marked_frames = 0, shadows = 0, lights = 0, async = 0;
    std::uint32_t resolved = 0;
    MadeUpGpu gpu;
    const bool child = child_marks();
    {
        Workers workers{2};
        for (int number = 0; number < frames; number++) {
            const syscollect::zone frame{SYSCOLLECT_HERE("frame")};
            frame.tag("Frame", static_cast<std::uint64_t>(number));
            marked_frames += static_cast<bool>(frame);
            syscollect::async_zone streaming{SYSCOLLECT_HERE("streaming")};
            async += static_cast<bool>(streaming);
            for (int index = 0; index < 4; index++) {
                workers.add([number, index] { job(number * 4 + index); });
            }
            workers.wait();
            load(number);
            shadows += gpu.submit(SYSCOLLECT_HERE("shadows"), 200);
            lights += gpu.submit(SYSCOLLECT_HERE("lights"), 300);
            if (number % 20 == 0) {
                gpu.calibrate();
                SYSCOLLECT_MESSAGE(("frame " + std::to_string(number)).c_str());
            }
            resolved += gpu.resolve();
            SYSCOLLECT_PLOT("frames drawn", "frames", number);
            SYSCOLLECT_FRAME();
        }
    }
    usleep(50'000);
    resolved += gpu.resolve();
    std::printf("{\"frame\": %d, \"job\": %d, \"streaming\": %d, \"shadows\": %d, \"lights\": %d, "
                "\"resolved\": %u, \"in the child\": %d}\n",
                marked_frames, marked_jobs.load(), async, shadows, lights, resolved, child);
    return child ? 0 : 1;
}
