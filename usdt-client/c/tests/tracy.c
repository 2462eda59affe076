/* A program in C that is marked for Tracy, with the include changed. */
#include "syscollect_tracy_compat.h"

#include <stdio.h>

static TracyCLockCtx lock;
static TracyCSharedLockCtx scene;

static void draw(int number) {
    TracyCZoneCtx none = {0};
    TracyCZoneNC(zone, "draw", 0xff0000, 1)
    TracyCZoneEnd(none)
    TracyCZoneText(zone, "text", 4)
    TracyCZoneNameF(zone, "number %d", number)
    TracyCZoneValue(zone, number);
    TracyCZone(inner, number > 0);
    TracyCZoneName(inner, "renamed", 7);
    TracyCZoneColor(inner, 0x0000ff);
    TracyCZoneEnd(inner);
    TracyCZoneS(stack, 10, number < 0);
    TracyCZoneEnd(stack);
    TracyCZoneEnd(zone);
}

int main(void) {
    static char block[8];
    TracyCSetThreadName("main of Tracy's C");
    draw(3);
    TracyCMessageL("message");
    TracyCMessageC("cut here", 3, 0x00ff00);
    TracyCPlot("plot", 2.5);
    TracyCPlotI("whole", -2);
    TracyCPlotConfig("plot", TracyPlotFormatMemory, 0, 0, 0);
    TracyCAllocN(block, 8, "pool");
    TracyCFreeN(block, "pool");
    TracyCLockAnnounce(lock);
    TracyCLockBeforeLock(lock);
    TracyCLockAfterLock(lock);
    TracyCLockAfterUnlock(lock);
    TracyCLockAfterTryLock(lock, 0);
    TracyCLockTerminate(lock);
    TracyCSharedLockAnnounce(scene);
    TracyCSharedLockBeforeLock(scene);
    TracyCSharedLockAfterLock(scene);
    TracyCSharedLockAfterUnlock(scene);
    TracyCSharedLockBeforeSharedLock(scene);
    TracyCSharedLockAfterSharedLock(scene);
    TracyCSharedLockAfterSharedUnlock(scene);
    TracyCSharedLockTerminate(scene);
    TracyCFrameMark;
    TracyCFrameMarkNamed("named");
    TracyCFrameImage(block, 1, 1, 0, 0);
    puts(TracyCIsConnected ? "all done" : "not connected");
    return 0;
}
