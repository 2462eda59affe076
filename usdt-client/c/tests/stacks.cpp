/* Chains of functions that end with a zone that asks for its stack. Each function notes where its
 * caller goes on; the program prints that, a line for each zone, innermost first. */
#include "syscollect.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static std::vector<void *> callers;
static volatile int sink;

static void print(const char *name) {
    std::printf("%s", name);
    for (void *caller : callers) {
        std::printf(" %p", caller);
    }
    std::printf("\n");
    callers.clear();
}

#define NOTED __attribute__((noinline, noclone)) void
#define NOTE callers.insert(callers.begin(), __builtin_return_address(0))

/* Frames of many sizes; of every fourth function the stack is aligned as for vectors. */
template <int N> struct Chain {
    static NOTED call() {
        NOTE;
        alignas(N % 4 == 3 ? 64 : 16) volatile char bytes[16 + N * 40];
        bytes[N] = 1;
        Chain<N - 1>::call();
        sink = sink + bytes[N];
    }
};

template <> struct Chain<0> {
    static NOTED call() {
        NOTE;
        SYSCOLLECT_ZONE_STACK("chain");
        sink = 1;
    }
};

static NOTED recursion(int depth) {
    NOTE;
    /* A size that is known only here. */
    volatile char *bytes = static_cast<volatile char *>(__builtin_alloca(depth % 7 + 1));
    bytes[0] = 1;
    if (depth > 0) {
        recursion(depth - 1);
    } else {
        SYSCOLLECT_ZONE_STACK("recursion");
        sink = 2;
    }
    sink = sink + bytes[0];
}

static int compare(const void *, const void *) {
    callers.insert(callers.begin(), __builtin_return_address(0));
    SYSCOLLECT_ZONE_STACK("callback");
    return 0;
}

static NOTED callback() {
    NOTE;
    int numbers[2] = {2, 1};
    std::qsort(numbers, 2, sizeof numbers[0], compare);
    sink = sink + numbers[0];
}

static NOTED all() {
    Chain<20>::call();
    print("chain");
    Chain<100>::call();
    print("chain");
    recursion(1000);
    print("recursion");
    callback();
    print("callback");
}

int main() {
    *const_cast<uint16_t *>(syscollect_semaphore) = 1;
    all();
    std::thread([] { all(); }).join();
    std::printf("done\n");
    std::fflush(stdout);
    return std::getchar() == EOF ? 0 : 1;
}
