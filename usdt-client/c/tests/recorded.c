/* Runs an example as if a collector were attached, and waits until it may end. */
#include "syscollect.h"

#include <stdio.h>

/* Both files are built with -Dmain=example_main. */
#undef main

int example_main(int count, char **arguments);

int main(int count, char **arguments) {
    *(volatile uint16_t *)(uintptr_t)syscollect_semaphore = 1;
    int result = example_main(count, arguments);
    fflush(stdout);
    return getchar() == EOF ? result : 1;
}
