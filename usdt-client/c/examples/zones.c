/* A C program with zones, messages, plots and frames.
 *
 *     cargo build --release -p syscollect-client
 *     cc -O2 -I usdt-client/include usdt-client/c/examples/zones.c target/release/libsyscollect_client.a \
 *         -lpthread -ldl -lm -o zones
 *     ./zones 1000 & sudo syscollect -d 3
 */
#include "syscollect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void sleep_milliseconds(long milliseconds) {
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static double step(int index) {
    SYSCOLLECT_ZONE_COLORED("step", 0xff8000);
    SYSCOLLECT_ZONE_VALUE(index);
    double sum = 0;
    for (int turn = 1; turn < 20000; turn++) {
        sum += sin(index + turn);
    }
    return sum;
}

static double frame(int number) {
    SYSCOLLECT_ZONE("frame");
    SYSCOLLECT_ZONE_TEXT(number % 2 == 0 ? "even" : "odd");
    double sum = 0;
    for (int index = 0; index < 3; index++) {
        sum += step(index);
    }
    SYSCOLLECT_PLOT_DOUBLE("sum", "", sum);
    SYSCOLLECT_PLOT("frames", "frames", number);
    return sum;
}

int main(int count, char **arguments) {
    int frames = count > 1 ? atoi(arguments[1]) : 3;
    double sum = 0;
    syscollect_thread_name("main of C");
    SYSCOLLECT_MESSAGE("C begins");
    for (int number = 0; number < frames; number++) {
        sum += frame(number);
        SYSCOLLECT_FRAME();
        SYSCOLLECT_LOCATION(place, "wait", 0);
        syscollect_zone wait = syscollect_zone_begin(&place);
        sleep_milliseconds(5);
        syscollect_zone_end(wait);
    }
    SYSCOLLECT_MESSAGE_COLORED("C ends", 0x00ff00);
    printf("%d frames, sum %.3f\n", frames, sum);
    return 0;
}
