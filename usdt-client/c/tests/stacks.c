/* A zone with its stack in C. */
#include "syscollect.h"

#include <stdio.h>

static __attribute__((noinline)) void asked(void) {
    SYSCOLLECT_ZONE_STACK("chain");
    printf("chain %p\n", __builtin_return_address(0));
}

int main(void) {
    *(volatile uint16_t *)(uintptr_t)syscollect_semaphore = 1;
    asked();
    printf("done\n");
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
