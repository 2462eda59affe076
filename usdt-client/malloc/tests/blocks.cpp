// Takes and gives back blocks of known sizes: on threads, and in a child that is forked.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static const int turns = 500;

static bool work() {
    bool good = true;
    for (int turn = 0; turn < turns; turn++) {
        char *block = static_cast<char *>(std::malloc(11111));
        std::memset(block, 7, 11111);
        block = static_cast<char *>(std::realloc(block, 22222));
        good = good && block[11110] == 7;
        std::free(block);
        char *zeros = static_cast<char *>(std::calloc(3, 1111));
        good = good && zeros[3332] == 0;
        std::free(zeros);
        void *aligned = std::aligned_alloc(256, 4352);
        good = good && reinterpret_cast<size_t>(aligned) % 256 == 0;
        std::free(aligned);
        void *wide = nullptr;
        good = good && posix_memalign(&wide, 4096, 5555) == 0;
        good = good && malloc_usable_size(wide) >= 5555;
        std::free(wide);
        ::operator delete(::operator new(6666));
        std::free(nullptr);
        std::free(std::realloc(nullptr, 7777));
    }
    void *volatile none = std::malloc(static_cast<size_t>(1) << 62);
    void *small = std::malloc(8888);
    none = none == nullptr ? std::realloc(small, static_cast<size_t>(1) << 62) : none;
    std::free(small);
    return good && none == nullptr;
}

int main() {
    std::getchar();
    std::vector<std::thread> threads;
    bool good[3] = {};
    for (bool &one : good) {
        threads.emplace_back([&one] { one = work(); });
    }
    const pid_t child = fork();
    if (child == 0) {
        bool well = false;
        std::thread([&well] { well = work(); }).join();
        _exit(well && work() ? 0 : 1);
    }
    for (auto &thread : threads) {
        thread.join();
    }
    int status = 1;
    waitpid(child, &status, 0);
    std::puts(good[0] && good[1] && good[2] && status == 0 ? "done" : "bad");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
}
