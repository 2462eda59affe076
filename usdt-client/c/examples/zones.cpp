/* A C++ program with zones that end with their scopes, on two threads.
 *
 *     cargo build --release -p syscollect-client
 *     c++ -O2 -I usdt-client/include usdt-client/c/examples/zones.cpp target/release/libsyscollect_client.a \
 *         -lpthread -ldl -lm -o zones
 *     ./zones 1000 & sudo syscollect -d 3
 */
#include "syscollect.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static long job(int number) {
    SYSCOLLECT_ZONE_COLORED("job", 0x4080ff);
    SYSCOLLECT_ZONE_TEXT(("job number " + std::to_string(number)).c_str());
    if (number % 3 == 2) {
        throw std::runtime_error("a job that fails");
    }
    std::vector<long> values(10000);
    std::iota(values.begin(), values.end(), number);
    return std::accumulate(values.begin(), values.end(), 0L);
}

static void worker(int jobs, long *sum) {
    syscollect_thread_name("worker of C++");
    for (int number = 0; number < jobs; number++) {
        SYSCOLLECT_ZONE("try");
        try {
            *sum += job(number);
        } catch (const std::runtime_error &error) {
            SYSCOLLECT_MESSAGE_COLORED(error.what(), 0xff0000);
        }
        SYSCOLLECT_PLOT("sum", "", *sum);
        SYSCOLLECT_FRAME_NAMED("jobs");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

int main(int count, char **arguments) {
    SYSCOLLECT_ZONE("main");
    int jobs = count > 1 ? std::atoi(arguments[1]) : 3;
    long sum = 0;
    std::thread thread(worker, jobs, &sum);
    thread.join();
    std::printf("%d jobs, sum %ld\n", jobs, sum);
    return 0;
}
