// A program in C++ that is marked for Tracy, with the include changed.
#include "syscollect_tracy_compat.h"

#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <thread>

struct Scene {
    TracyLockable(std::mutex, lock);
    TracySharedLockableN(std::shared_mutex, readers, "readers of the scene");
};

static TracyLockableN(std::recursive_mutex, tree, "tree");
static const char *const plot = "fps";

static void draw(int number) {
    ZoneScopedNC("draw", tracy::Color::Tomato);
    ZoneTextF("number %d", number);
    ZoneText("plain", 5);
    ZoneName("drawn", 5);
    ZoneColor(0x00ff00);
    ZoneValue(number);
    if (ZoneIsActive) {
        ZoneNamedN(inner, "inner", true);
        ZoneTextV(inner, "of inner", 8);
        ZoneNamed(never, false);
    }
    ZoneTransientN(transient, "transient", true);
    ZoneNameVF(transient, "%s", "formatted");
}

static void stacks() {
    ZoneScopedS(10);
    ZoneNamedNCS(named, "with stack", 0x123456, 10, true);
}

int main(int, char **) {
    tracy::SetThreadName("main of Tracy");
    TracyAppInfo("an app", 6);
    draw(3);
    stacks();
    Scene scene;
    {
        std::lock_guard<LockableBase(std::mutex)> guard(scene.lock);
        LockMark(scene.lock);
        const std::lock_guard nested(tree);
        const std::lock_guard again(tree);
    }
    scene.readers.lock_shared();
    scene.readers.unlock_shared();
    LockableName(scene.lock, "named", 5);
    TracyPlotConfig(plot, tracy::PlotFormatType::Percentage, true, false, 0);
    TracyPlot(plot, 59.5);
    TracyPlot("count", static_cast<int64_t>(-2));
    TracyMessage("sized text", 5);
    TracyMessageLC("colored", tracy::Color::Red);
    TracyMessageS("with depth", 10, 12);
    static char block[8];
    TracyAlloc(block, 8);
    TracyFree(block);
    TracySecureAllocN(block, 8, "pool");
    TracySecureFreeN(block, "pool");
    TracyAllocNS(block, 8, 12, "pool");
    TracyFreeNS(block, 12, "pool");
    FrameMark;
    FrameMarkNamed("named");
    FrameMarkStart("gaps");
    FrameMarkEnd("gaps");
    FrameImage(block, 1, 1, 0, false);
    TracyMemoryDiscard("pool");
    TracyFiberEnter("fiber");
    TracyFiberLeave;
    TracyParameterSetup(0, "x", false, 1);
    std::puts(TracyIsConnected ? "all done" : "not connected");
    return 0;
}
