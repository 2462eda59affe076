/* All that the header has, and what a program may get wrong, on one thread but for locks. */
#include "syscollect.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

static const struct syscollect_field fields[] = {
    {"url", "URL", SYSCOLLECT_FORMAT_TEXT},
    {"bytes", "Size", SYSCOLLECT_FORMAT_BYTES},
    {"share", "Share", SYSCOLLECT_FORMAT_PERCENTAGE},
};
static struct syscollect_schema request = SYSCOLLECT_SCHEMA("request", "net", fields);
static struct syscollect_counter counter = SYSCOLLECT_COUNTER("requests", "");
static struct syscollect_pool textures = SYSCOLLECT_POOL("textures");
static struct syscollect_lock lock = SYSCOLLECT_LOCK("queue", SYSCOLLECT_EXCLUSIVE);
static struct syscollect_lock readers = SYSCOLLECT_LOCK("scene", SYSCOLLECT_SHARED);
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static struct syscollect_location place = {"place", "", __FILE__, __LINE__, 0, 0};

static void zones(void) {
    SYSCOLLECT_LOCATION(here, "by hand", 0x112233);
    syscollect_zone zone = syscollect_zone_begin(&here);
    syscollect_zone_text(zone, "words and more", 5);
    syscollect_zone_name(zone, "another", SIZE_MAX);
    syscollect_zone_color(zone, 0xabcdef);
    syscollect_zone_value(zone, syscollect_float(0.5));
    syscollect_zone_tag(zone, "Frame", 12);
    syscollect_zone_end(zone);
    zone = syscollect_zone_begin_dynamic("", "of_script", "script.lua", 3, 0);
    syscollect_zone_field(zone, "named", syscollect_unsigned(7));
    syscollect_zone_end(zone);
    syscollect_message("a message that is cut", 9, 0xff0000);
    syscollect_message_tag("Level", 4);
    syscollect_plot_dynamic("dynamic plot", "ms", syscollect_signed(-4));
    syscollect_frame_dynamic("dynamic frames", SYSCOLLECT_FRAME_MARK);
    SYSCOLLECT_FRAME_START("gaps");
    SYSCOLLECT_FRAME_STOP("gaps");
}

static void tasks(void) {
    struct syscollect_task task = syscollect_task_make("upload");
    syscollect_async_zone outer = syscollect_async_begin(&place, &task, "to the GPU");
    syscollect_async_zone own = syscollect_async_begin(&place, NULL, NULL);
    syscollect_async_end(outer);
    syscollect_async_end(own);
}

static void markers(void) {
    struct syscollect_when when = {1234, 99};
    struct syscollect_value values[] = {syscollect_text("http://example.org"),
                                        syscollect_unsigned(512), syscollect_float(0.25)};
    syscollect_marker(&request, SYSCOLLECT_INSTANT, values, 3);
    SYSCOLLECT_MARK(&request, SYSCOLLECT_BEGIN, syscollect_text("a"));
    syscollect_marker(&request, SYSCOLLECT_END, NULL, 0);
    syscollect_marker_at(&request, SYSCOLLECT_INSTANT, when, values, 1);
}

static void memory(void) {
    static char block[2];
    syscollect_alloc(&block[0], 4096, &textures);
    syscollect_alloc(&block[1], 16, NULL);
    syscollect_free(&block[1], NULL);
    syscollect_free(&block[0], &textures);
    syscollect_counter_add(&counter, 3);
    syscollect_counter_set(&counter, 5);
}

static void *waits(void *unused) {
    (void)unused;
    SYSCOLLECT_PTHREAD_LOCK(&mutex, &lock);
    SYSCOLLECT_PTHREAD_UNLOCK(&mutex, &lock);
    return NULL;
}

static void locks(void) {
    pthread_t thread;
    SYSCOLLECT_PTHREAD_LOCK(&mutex, &lock);
    pthread_create(&thread, NULL, waits, NULL);
    struct timespec time = {0, 50000000};
    nanosleep(&time, NULL);
    SYSCOLLECT_PTHREAD_UNLOCK(&mutex, &lock);
    pthread_join(thread, NULL);

    SYSCOLLECT_PTHREAD_RDLOCK(&rwlock, &readers);
    SYSCOLLECT_PTHREAD_RDLOCK(&rwlock, &readers);
    SYSCOLLECT_PTHREAD_RDUNLOCK(&rwlock, &readers);
    SYSCOLLECT_PTHREAD_RDUNLOCK(&rwlock, &readers);
    SYSCOLLECT_PTHREAD_WRLOCK(&rwlock, &readers);
    SYSCOLLECT_PTHREAD_WRUNLOCK(&rwlock, &readers);
    uint8_t waited = syscollect_lock_wait(&readers, SYSCOLLECT_EXCLUSIVE, NULL);
    syscollect_lock_gave_up(&readers, waited, NULL);
}

/* A pool of a GPU: what it has written is `written`. */
static uint64_t written[64];

static int read_pair(void *user, uint64_t begin, uint64_t end, uint64_t times[2]) {
    ++*(int *)user;
    times[0] = written[begin];
    times[1] = written[end];
    return times[0] != 0 && times[1] != 0;
}

static struct syscollect_gpu_queries books;

/* Uses the books while they are read, which does nothing. */
static int read_wrongly(void *user, uint64_t begin, uint64_t end, uint64_t times[2]) {
    uint64_t query;
    times[0] = syscollect_gpu_queries_take(&books, 1, &query, &query) != 0;
    return (int)times[0] + read_pair(user, begin, end, times);
}

static void gpu(void) {
    struct syscollect_gpu_context queue;
    struct syscollect_gpu_slot slots[2];
    struct syscollect_gpu_details details = {"renamed", "text", "Frame", 9, 0x00ff00};
    uint64_t begin, end;
    int reads = 0;
    syscollect_gpu_context_init(&queue, SYSCOLLECT_GPU_VULKAN, "graphics", 1.0, 36, 0);
    syscollect_gpu_queries_init(&books, slots, 2, 10);
    syscollect_gpu_calibrate(&queue, SYSCOLLECT_HOST_MONOTONIC, 5000, 700, 50);

    syscollect_gpu_zone first = syscollect_gpu_zone_begin(&queue, &place, NULL);
    if (!syscollect_gpu_queries_take(&books, first, &begin, &end) || begin != 10 || end != 11) {
        puts("no pair");
    }
    syscollect_gpu_zone second = syscollect_gpu_zone_begin(&queue, &place, &details);
    if (!syscollect_gpu_queries_add(&books, second, 40, 30)) {
        puts("no room for own queries");
    }
    syscollect_gpu_zone third = syscollect_gpu_zone_begin(&queue, &place, NULL);
    if (syscollect_gpu_queries_take(&books, third, &begin, &end) || begin != SYSCOLLECT_NO_QUERY ||
        syscollect_gpu_queries_refused(&books) != 1) {
        puts("a pair too many");
    }
    syscollect_gpu_zone_end(&queue, third);
    syscollect_gpu_zone_end(&queue, second);
    syscollect_gpu_zone_end(&queue, first);
    if (syscollect_gpu_queries_resolve(&books, &queue, read_pair, &reads) != 0) {
        puts("times that nobody wrote");
    }
    written[40] = 1001, written[30] = 1002;
    if (syscollect_gpu_queries_resolve(&books, &queue, read_wrongly, &reads) != 1 || reads != 4) {
        puts("no times");
    }
    syscollect_gpu_queries_abandon(&books, &queue);
    syscollect_gpu_resolve(&queue, third, 2001, 2002);
}

static void images(void) {
    static unsigned char rgba[16 * 8 * 4];
    syscollect_frame_image(rgba, 16, 8, 2, 1);
}

static void event_loop(void) {
    syscollect_loop_waits();
    syscollect_loop_turns();
    syscollect_loop_recorded(77);
}

static void misuse(void) {
    static struct syscollect_gpu_context none;
    static struct syscollect_gpu_queries closed;
    uint64_t times[2];
    syscollect_zone_end(syscollect_zone_begin(NULL));
    syscollect_zone_end(12345);
    syscollect_zone_text(12345, NULL, SIZE_MAX);
    syscollect_zone_text(0, NULL, 77);
    syscollect_async_end(syscollect_async_begin(NULL, NULL, NULL));
    syscollect_async_end(UINT64_MAX);
    syscollect_marker(NULL, 0, NULL, 5);
    syscollect_marker(&request, 77, NULL, 0);
    syscollect_alloc(NULL, 5, NULL);
    syscollect_free(NULL, &textures);
    syscollect_gpu_zone_end(&none, syscollect_gpu_zone_begin(&none, &place, NULL));
    syscollect_gpu_zone_end(NULL, syscollect_gpu_zone_begin(NULL, &place, NULL));
    syscollect_gpu_zone_end(&none, 5);
    syscollect_gpu_calibrate(NULL, 0, 0, 0, 0);
    syscollect_gpu_queries_init(&closed, NULL, 3, 0);
    syscollect_gpu_queries_init(NULL, NULL, 0, 0);
    syscollect_gpu_queries_resolve(&closed, &none, read_pair, NULL);
    syscollect_gpu_queries_resolve(NULL, NULL, NULL, NULL);
    syscollect_gpu_queries_take(&closed, 4, NULL, NULL);
    syscollect_gpu_queries_take(&closed, 0, &times[0], &times[1]);
    syscollect_gpu_queries_abandon(NULL, NULL);
    syscollect_gpu_context_init(NULL, 0, NULL, 0, 0, 0);
    syscollect_gpu_context_init(&none, 99, NULL, -1e308 * 10, 999, 0);
    syscollect_lock_wait(NULL, 0, NULL);
    syscollect_lock_obtained(NULL, 0, 77, NULL);
    syscollect_frame_dynamic("x", 77);
    syscollect_frame_image(NULL, 16, 8, 0, 0);
    syscollect_frame_image(written, UINT32_MAX, UINT32_MAX, 0, 0);
    syscollect_frame_image(written, 4096, 4096, 0, 0);
    syscollect_frame_image(written, 0, 8, 0, 0);
    syscollect_thread_name(NULL);
    syscollect_message("cut \xff here", SIZE_MAX, 0);
}

int main(void) {
    syscollect_crash_handler_install();
    zones();
    tasks();
    markers();
    memory();
    locks();
    gpu();
    images();
    event_loop();
    misuse();
    puts(counter.value == 5 && syscollect_ticks() < syscollect_ticks() ? "all done" : "no");
    return 0;
}
